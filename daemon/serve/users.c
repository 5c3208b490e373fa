/* SPDX-License-Identifier: MIT */
/*
 * How: for each process, compare the device of what /proc/P/{cwd,root,exe} and
 * /proc/P/fd/N point to, then the device column of /proc/P/maps. statx with an
 * empty mask and AT_STATX_DONT_SYNC follows such a link straight to the inode
 * and gives the device without a request to any file system. A process whose
 * mount name space has a copy of the mount uses it by that alone: unmounting
 * ours would leave it. It takes those copies along that lie on a copy of the
 * mount that ours lies on, and not the one that a container has as its root,
 * though that may follow ours in all else. A kernel overlay with a layer in the
 * mount holds it unseen, and counts as a copy.
 *
 * Name spaces are looked at once each: containers share theirs among many
 * processes.
 */
#include "serve/users_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/proc.h"
#include "serve/mounts_int.h"

enum {
	MAX_LINES = 200,
	MAX_SPACES = 512,
	MAX_FOLLOWERS = 16,
	NAME_BYTES = 320, /* "/proc/PID/fd/" and a directory entry */
	MAPS_MAX = 64 << 20,
	PATH_BYTES = 4096,
};

/* What is known of one mount name space. */
struct space {
	uint64_t id;
	char *path; /* of the copy in it; NULL: none */
};

struct search {
	const struct users_mount *mount;
	uint64_t own;
	struct space spaces[MAX_SPACES];
	size_t count;
};

static void search_free(struct search *s)
{
	for (size_t i = 0; s && i < s->count; i++)
		free(s->spaces[i].path);
	free(s);
}

static void search_freep(struct search **s)
{
	search_free(*s);
}

static struct search *search_new(const struct users_mount *m)
{
	struct search *s = calloc(1, sizeof *s);

	if (s) {
		s->mount = m;
		s->own = mounts_namespace(0);
	}
	return s;
}

struct copy {
	const struct users_mount *mount;
	bool here; /* our own name space: the mount itself is no copy */
	unsigned followers[MAX_FOLLOWERS]; /* ids of mounts of the group */
	size_t follower_count;
	char *path;
};

/* A first look for the mounts of the group: a mount may stand before the one
 * that it lies on. */
static int see_follower(void *ctx, const struct mounts_entry *e)
{
	struct copy *c = ctx;
	const unsigned group = c->mount->group;

	if (group && (e->shared == group || e->master == group) &&
	    c->follower_count < MAX_FOLLOWERS)
		c->followers[c->follower_count++] = e->id;
	return 0;
}

static int match_copy(void *ctx, const struct mounts_entry *e)
{
	struct copy *c = ctx;
	const struct users_mount *m = c->mount;

	if (e->major != m->major || e->minor != m->minor) {
		if (!mounts_is_over(e, m->path))
			return 0;
	} else if (c->here && strcmp(e->path, m->path) == 0) {
		return 0;
	} else {
		for (size_t i = 0; i < c->follower_count; i++)
			if (e->parent == c->followers[i])
				return 0;
	}
	c->path = strdup(e->path);
	return 1;
}

/* Returns the place of a copy in the name space of a process, lent, or NULL. */
static const char *copy_of(struct search *s, pid_t pid)
{
	uint64_t id = mounts_namespace(pid);
	struct copy c = {.mount = s->mount};

	if (id == 0 || id == s->own)
		return NULL;
	for (size_t i = 0; i < s->count; i++) {
		if (s->spaces[i].id == id)
			return s->spaces[i].path;
	}
	if (s->count == MAX_SPACES)
		return NULL;
	/* A process that has just ended: another one may tell. */
	if (mounts_walk(pid, see_follower, &c) < 0 ||
	    mounts_walk(pid, match_copy, &c) < 0)
		return NULL;
	s->spaces[s->count++] = (struct space){.id = id, .path = c.path};
	return c.path;
}

static bool is_on(const struct users_mount *m, const char *link)
{
	struct statx st;

	return statx(AT_FDCWD, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0,
		     &st) == 0 &&
	       st.stx_dev_major == m->major && st.stx_dev_minor == m->minor;
}

static bool take_link(const struct users_mount *m, const char *link,
		      char *ret_path)
{
	ssize_t n;

	if (!is_on(m, link))
		return false;
	n = readlink(link, ret_path, PATH_BYTES - 1);
	ret_path[n < 0 ? 0 : n] = '\0';
	return true;
}

static bool find_in_fds(const struct users_mount *m, pid_t pid, char *ret_path)
{
	char name[NAME_BYTES];
	struct dirent *d;
	bool found = false;
	DIR *dir;

	(void)snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
	dir = opendir(name);
	if (!dir)
		return false;
	while (!found && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof name, "/proc/%d/fd/%s", (int)pid,
			       d->d_name);
		found = take_link(m, name, ret_path);
	}
	(void)closedir(dir);
	return found;
}

/* A line: start-end perms offset major:minor inode path, numbers in hex. */
static bool find_in_maps(const struct users_mount *m, pid_t pid, char *ret_path)
{
	_cleanup_buf_ struct buf text = {0};
	char name[NAME_BYTES];
	char device[32];
	char *save = NULL;
	char *line;

	(void)snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
	(void)snprintf(device, sizeof device, " %02x:%02x ", m->major,
		       m->minor);
	if (io_read_file(AT_FDCWD, name, MAPS_MAX, &text) < 0 ||
	    !buf_str(&text))
		return false;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *slash = strchr(line, '/');
		const char *at = strstr(line, device);

		if (!at || (slash && at > slash))
			continue;
		(void)snprintf(ret_path, PATH_BYTES, "%s", slash ? slash : "-");
		return true;
	}
	return false;
}

static bool holds(const struct users_mount *m, pid_t pid, char *ret_path)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	char name[NAME_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		(void)snprintf(name, sizeof name, "/proc/%d/%s", (int)pid,
			       links[i]);
		if (take_link(m, name, ret_path))
			return true;
	}
	return find_in_fds(m, pid, ret_path) || find_in_maps(m, pid, ret_path);
}

/* A name or path is on one line, whatever bytes it has. */
static void clean(char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	}
}

static void read_command(pid_t pid, char name[PROC_COMMAND_BYTES])
{
	if (proc_command(pid, name) < 0)
		(void)snprintf(name, PROC_COMMAND_BYTES, "?");
	clean(name);
}

static bool list_one(struct search *s, pid_t pid, struct buf *out)
{
	char command[PROC_COMMAND_BYTES];
	char path[PATH_BYTES];
	const char *copy;

	if (!holds(s->mount, pid, path)) {
		copy = copy_of(s, pid);
		if (!copy)
			return false;
		(void)snprintf(path, sizeof path, "%s", copy);
	}
	clean(path);
	read_command(pid, command);
	buf_printf(out, "%d %s %s\n", (int)pid, command, path);
	return true;
}

/* Calls back for each process until true is returned. */
static bool each_process(struct search *s,
			 bool (*fn)(struct search *s, pid_t pid, void *ctx),
			 void *ctx)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	bool stop = false;

	if (!dir)
		return false;
	while (!stop && (d = readdir(dir))) {
		char *end;
		long pid = strtol(d->d_name, &end, 10);

		if (*end == '\0' && pid > 0 && pid != (long)getpid())
			stop = fn(s, (pid_t)pid, ctx);
	}
	(void)closedir(dir);
	return stop;
}

static bool is_copy_of(struct search *s, pid_t pid, void *ctx)
{
	return copy_of(s, pid) != NULL;
}

bool users_has_copy(const struct users_mount *m)
{
	_cleanup_(search_freep) struct search *s = search_new(m);

	return s && each_process(s, is_copy_of, NULL);
}

struct listing {
	struct buf *out;
	size_t lines;
};

static bool list_process(struct search *s, pid_t pid, void *ctx)
{
	struct listing *l = ctx;

	if (list_one(s, pid, l->out))
		l->lines++;
	return l->lines >= MAX_LINES;
}

void users_list(const struct users_mount *m, struct buf *out)
{
	_cleanup_(search_freep) struct search *s = search_new(m);
	struct copy c = {.mount = m, .here = true};
	struct listing l = {.out = out};

	if (!s)
		return;
	/* A bind mount has no process: the line says what it is instead. */
	if (mounts_walk(0, match_copy, &c) > 0 && c.path) {
		clean(c.path);
		buf_printf(out, "- mount %s\n", c.path);
		free(c.path);
	}
	(void)each_process(s, list_process, &l);
}
