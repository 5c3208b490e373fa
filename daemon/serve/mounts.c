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
#include "base/name.h"

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

/* Fields: id parent major:minor root path options [tags...] - type source
 * options */
static bool parse_line(char *line, struct mounts_entry *e)
{
	char *save = NULL;
	char *field = strtok_r(line, " ", &save);

	*e = (struct mounts_entry){0};
	for (int i = 0; field; i++) {
		char *colon;

		if (i < 2) {
			*(i ? &e->parent : &e->id) =
				(unsigned)strtoul(field, NULL, 10);
		} else if (i == 2) {
			e->major = (uint32_t)strtoul(field, &colon, 10);
			if (*colon != ':')
				return false;
			e->minor = (uint32_t)strtoul(colon + 1, NULL, 10);
		} else if (i == 4) {
			unescape(field);
			e->path = field;
		} else if (i > 5 && strcmp(field, "-") == 0) {
			e->type = strtok_r(NULL, " ", &save);
			(void)strtok_r(NULL, " ", &save);
			e->options = strtok_r(NULL, " ", &save);
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
		.parent = e->parent,
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

struct group {
	unsigned id, shared;
};

static int see_group(void *ctx, const struct mounts_entry *e)
{
	struct group *g = ctx;

	if (e->id != g->id)
		return 0;
	g->shared = e->shared;
	return 1;
}

unsigned mounts_group(unsigned id)
{
	struct group g = {.id = id};

	return mounts_walk(0, see_group, &g) < 0 ? 0 : g.shared;
}

/* Whether a list of layers has one at or below a path. */
static bool any_below(char *layers, bool is_list, const char *path)
{
	char *save = NULL, *layer;

	for (layer = is_list ? strtok_r(layers, ":", &save) : layers; layer;
	     layer = is_list ? strtok_r(NULL, ":", &save) : NULL) {
		unescape(layer);
		if (name_below(layer, path))
			return true;
	}
	return false;
}

bool mounts_is_over(const struct mounts_entry *e, const char *path)
{
	static const char *const names[] = {
		"lowerdir=", "lowerdir+=", "upperdir="};
	_cleanup_free_ char *copy = NULL;
	char *save = NULL, *option;

	if (strcmp(e->type, "overlay") != 0 || !e->options)
		return false;
	/* A comma in a path is escaped, as a space is. */
	copy = strdup(e->options);
	for (option = copy ? strtok_r(copy, ",", &save) : NULL; option;
	     option = strtok_r(NULL, ",", &save)) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			const size_t n = strlen(names[i]);

			if (!strncmp(option, names[i], n) &&
			    any_below(option + n, i == 0, path))
				return true;
		}
	}
	return false;
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
