/* SPDX-License-Identifier: MIT */
/*
 * How: mountinfo(5) read whole into memory (one seq_file read is consistent,
 * line-wise parsing of a file that changes is not), then cut into fields in
 * place. Spaces and the like stand as \ooo in it.
 */
#include "serve/mounts_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"

enum {
	MOUNTINFO_MAX = 64 << 20,
	NAME_BYTES = 64,
};

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

static void unescape(char *s)
{
	char *out = s;

	while (*s) {
		if (s[0] == '\\' && is_octal(s[1]) && is_octal(s[2]) &&
		    is_octal(s[3])) {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
					(s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

static unsigned number_after(const char *field, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(field, prefix, n) == 0
		       ? (unsigned)strtoul(field + n, NULL, 10)
		       : 0;
}

/* Fields: id parent major:minor root path options [tags...] - type ... */
static bool parse_line(char *line, struct mounts_entry *e)
{
	char *save = NULL;
	char *field = strtok_r(line, " ", &save);

	*e = (struct mounts_entry){0};
	for (int i = 0; field; i++) {
		char *colon;

		if (i == 2) {
			e->major = (uint32_t)strtoul(field, &colon, 10);
			if (*colon != ':')
				return false;
			e->minor = (uint32_t)strtoul(colon + 1, NULL, 10);
		} else if (i == 4) {
			unescape(field);
			e->path = field;
		} else if (i > 5 && strcmp(field, "-") == 0) {
			e->type = strtok_r(NULL, " ", &save);
			return e->path && e->type;
		} else if (i > 5) {
			e->shared += number_after(field, "shared:");
			e->master += number_after(field, "master:");
		}
		field = strtok_r(NULL, " ", &save);
	}
	return false;
}

int mounts_walk(pid_t pid, mounts_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf text = {0};
	char name[NAME_BYTES] = "/proc/self/mountinfo";
	char *line;
	char *save = NULL;
	int r;

	if (pid > 0)
		(void)snprintf(name, sizeof name, "/proc/%d/mountinfo",
			       (int)pid);
	r = io_read_file(AT_FDCWD, name, MOUNTINFO_MAX, &text);
	if (r < 0)
		return r;
	if (!buf_str(&text))
		return -ENOMEM;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		struct mounts_entry e;

		if (!parse_line(line, &e))
			continue;
		r = fn(ctx, &e);
		if (r)
			return r;
	}
	return 0;
}

struct find {
	const char *path;
	struct mounts_found found;
	bool any;
};

static int find_one(void *ctx, const struct mounts_entry *e)
{
	struct find *f = ctx;

	if (strcmp(e->path, f->path) != 0)
		return 0;
	/* A later line lies on top of an earlier one. */
	f->any = true;
	f->found = (struct mounts_found){
		.major = e->major,
		.minor = e->minor,
		.shared = e->shared,
		.is_ours = strcmp(e->type, "fuse.cowfs") == 0};
	return 0;
}

int mounts_find(const char *path, struct mounts_found *ret_found)
{
	struct find f = {.path = path};
	int r = mounts_walk(0, find_one, &f);

	if (r < 0)
		return r;
	if (!f.any)
		return -ENOENT;
	*ret_found = f.found;
	return 0;
}

uint64_t mounts_namespace(pid_t pid)
{
	char name[NAME_BYTES] = "/proc/self/ns/mnt";
	char link[NAME_BYTES];
	ssize_t n;

	if (pid > 0)
		(void)snprintf(name, sizeof name, "/proc/%d/ns/mnt", (int)pid);
	n = readlink(name, link, sizeof link - 1);
	if (n <= 0)
		return 0;
	link[n] = '\0';
	/* "mnt:[4026531840]" */
	return strchr(link, '[') ? strtoull(strchr(link, '[') + 1, NULL, 10)
				 : 0;
}
