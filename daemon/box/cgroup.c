/* SPDX-License-Identifier: MIT */
/*
 * cgroup.c - limits of a sandbox, by control groups of either version.
 *
 * How: for each controller that a limit needs, a group is made: below our own
 * in version 1; in version 2 at the nearest place, from our own group upwards,
 * whose children have the controller (a group with processes in it gives its
 * children none). The folder's file `cgroups` has their paths, a line each, so
 * that commands can join them and the sandbox's end can remove them.
 */
#include "box/box_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

enum {
	TEXT_MAX = 1 << 20,
	CPU_PERIOD_US = 100000,
	REMOVE_TRIES = 100,
	REMOVE_MS = 10,
};

#define RECORD "cgroups"

/* Where a controller is, and where we are in it. */
struct place {
	bool is_v2;
	char root[PATH_MAX]; /* the mount point */
	char own[PATH_MAX];  /* our group; below root */
};

static bool has_word(const char *list, const char *word, const char *ends)
{
	const size_t n = strlen(word);

	while (*list) {
		const size_t len = strcspn(list, ends);

		if (len == n && !strncmp(list, word, n))
			return true;
		list += len;
		list += strspn(list, ends);
	}
	return false;
}

static int read_text(const char *path, struct buf *text)
{
	int r = io_read_file(AT_FDCWD, path, TEXT_MAX, text);

	if (!r && !buf_str(text))
		r = -ENOMEM;
	return r;
}

/* Our path in a hierarchy: the line "N:LIST:PATH" with the controller, or
 * "0::PATH". */
static bool find_own(const char *controller, char *ret_path)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;

	if (read_text("/proc/self/cgroup", &text) < 0)
		return false;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = 0;
		if (controller ? !has_word(list + 1, controller, ",")
			       : list[1] != 0)
			continue;
		(void)snprintf(ret_path, PATH_MAX, "%s", path);
		return true;
	}
	return false;
}

/* A line of mountinfo: "ID ID DEV ROOT POINT OPTIONS ... - TYPE SOURCE SUPER".
 * Takes it when it is the hierarchy that is looked for. */
static bool take_mount(char *line, const char *controller, struct place *p)
{
	char own[PATH_MAX], *fields[5] = {0}, *save = NULL;
	char *tail = strstr(line, " - "), *type, *super;
	size_t n;

	if (!tail)
		return false;
	*tail = 0;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		fields[i] = strtok_r(i ? NULL : line, " ", &save);
	type = strtok_r(tail + 3, " ", &save);
	(void)strtok_r(NULL, " ", &save);
	super = strtok_r(NULL, " ", &save);
	if (!fields[4] || !type || !super)
		return false;
	p->is_v2 = !strcmp(type, "cgroup2");
	if (!p->is_v2 &&
	    (strcmp(type, "cgroup") != 0 || !has_word(super, controller, ",")))
		return false;
	if (!find_own(p->is_v2 ? NULL : controller, own))
		return false;
	/* The mount may show a part of the hierarchy only. */
	n = strcmp(fields[3], "/") != 0 ? strlen(fields[3]) : 0;
	if (strncmp(own, fields[3], n) != 0)
		n = 0, own[1] = 0;
	(void)snprintf(p->root, sizeof p->root, "%s", fields[4]);
	return snprintf(p->own, sizeof p->own, "%s%s", fields[4], own + n) <
	       (int)sizeof p->own;
}

static bool offers(const struct place *p, const char *controller)
{
	_cleanup_buf_ struct buf text = {0};
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof path, "%s/cgroup.controllers", p->root);
	return read_text(path, &text) == 0 &&
	       has_word((const char *)text.data, controller, " \n");
}

static bool find_place(const char *controller, struct place *p)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;

	if (read_text("/proc/self/mountinfo", &text) < 0)
		return false;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (strstr(line, " - cgroup") &&
		    take_mount(line, controller, p) &&
		    (!p->is_v2 || offers(p, controller)))
			return true;
	return false;
}

static int write_text(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX + 64];
	_cleanup_close_ int fd = -1;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Groups that are being made. */
struct making {
	int folder; /* of the sandbox */
	const char *name;
	struct buf done; /* their paths, a line each */
};

/* Writes a path into the record before the group is made: who is killed in
 * between leaves none that nobody knows of. */
static int announce(const struct making *m, const char *path)
{
	_cleanup_buf_ struct buf record = {0};

	buf_put(&record, m->done.data, m->done.len);
	buf_printf(&record, "%s\n", path);
	if (buf_error(&record))
		return -ENOMEM;
	return io_write_file(m->folder, RECORD, record.data, record.len, false);
}

/* Makes a group in dir in which the limit can be set. */
static int make_in(const struct making *m, const char *dir, bool is_v2,
		   const char *controller, char *ret_path)
{
	char enable[32];
	int r;

	(void)snprintf(enable, sizeof enable, "+%s", controller);
	if (is_v2 && write_text(dir, "cgroup.subtree_control", enable) < 0)
		return -EBUSY;
	if (snprintf(ret_path, PATH_MAX, "%s/%s", dir, m->name) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = announce(m, ret_path);
	if (r)
		return r;
	return mkdir(ret_path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_group(const struct making *m, struct place *p,
		      const char *controller, char *ret_path)
{
	const size_t root = strlen(p->root);
	size_t n = strlen(p->own);
	int r;

	while (n > root && p->own[n - 1] == '/')
		p->own[--n] = 0;
	r = make_in(m, p->own, p->is_v2, controller, ret_path);
	while (r < 0 && p->is_v2 && n > root) {
		while (n > root && p->own[n - 1] != '/')
			n--;
		while (n > root && p->own[n - 1] == '/')
			n--;
		p->own[n] = 0;
		r = make_in(m, p->own, true, controller, ret_path);
	}
	return r;
}

struct limit {
	const char *option, *controller;
	const char *v1, *v2; /* files */
	char text[48];	     /* "": none */
	char text_v2[48];
};

static int set_limit(const struct limit *l, struct making *m, struct diag *diag)
{
	_cleanup_free_ struct place *p = calloc(1, sizeof *p);
	char path[PATH_MAX];
	int r;

	if (!p)
		return -ENOMEM;
	if (!find_place(l->controller, p))
		return diag_fail(diag, -EOPNOTSUPP,
				 "--%s: no cgroup has the controller %s",
				 l->option, l->controller);
	r = make_group(m, p, l->controller, path);
	if (!r) {
		buf_printf(&m->done, "%s\n", path);
		r = write_text(path, p->is_v2 ? l->v2 : l->v1,
			       p->is_v2 ? l->text_v2 : l->text);
	}
	return r ? diag_fail(diag, r, "--%s: no cgroup can be made in %s: %s",
			     l->option, p->own, err_text(r))
		 : 0;
}

static void describe(const struct box_spec *spec, struct limit l[3])
{
	const uint64_t quota =
		spec->limits.cpus_milli * (uint64_t)CPU_PERIOD_US / 1000;

	l[0] = (struct limit){.option = "memory",
			      .controller = "memory",
			      .v1 = "memory.limit_in_bytes",
			      .v2 = "memory.max"};
	l[1] = (struct limit){.option = "pids",
			      .controller = "pids",
			      .v1 = "pids.max",
			      .v2 = "pids.max"};
	l[2] = (struct limit){.option = "cpus",
			      .controller = "cpu",
			      .v1 = "cpu.cfs_quota_us",
			      .v2 = "cpu.max"};
	if (spec->limits.memory)
		(void)snprintf(l[0].text, sizeof l[0].text, "%" PRIu64,
			       spec->limits.memory);
	/* Its first process is one of them. */
	if (spec->limits.pids)
		(void)snprintf(l[1].text, sizeof l[1].text, "%" PRIu64,
			       spec->limits.pids + 1);
	if (quota)
		(void)snprintf(l[2].text, sizeof l[2].text, "%" PRIu64, quota);
	for (size_t i = 0; i < 3; i++)
		(void)snprintf(l[i].text_v2, sizeof l[i].text_v2, "%.20s%s",
			       l[i].text, i == 2 ? " 100000" : "");
}

int cgroup_make(const struct box_spec *spec, int folder, struct diag *diag)
{
	struct limit limits[3];
	struct making m = {.folder = folder};
	char name[160];
	struct stat st;
	int r = 0;

	cgroup_remove(folder);
	if (fstat(folder, &st) < 0)
		return -errno;
	/* Another store may have an environment of this name. */
	(void)snprintf(name, sizeof name, "cowfs-%s-%" PRIx64 "-%" PRIx64,
		       spec->env, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
	m.name = name;
	describe(spec, limits);
	for (size_t i = 0; i < ARRAY_SIZE(limits) && !r; i++)
		if (limits[i].text[0])
			r = set_limit(&limits[i], &m, diag);
	if (m.done.len && !r)
		r = buf_error(&m.done);
	if (m.done.len && !r)
		r = io_write_file(folder, RECORD, m.done.data, m.done.len,
				  false);
	buf_fini(&m.done);
	if (r)
		cgroup_remove(folder);
	return r;
}

static int each_group(int folder, int (*fn)(const char *path))
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;
	int r = io_read_file(folder, RECORD, TEXT_MAX, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || !buf_str(&text))
		return r < 0 ? r : -ENOMEM;
	for (line = strtok_r((char *)text.data, "\n", &save); line && !r;
	     line = strtok_r(NULL, "\n", &save))
		r = fn(line);
	return r;
}

static int join(const char *path)
{
	return write_text(path, "cgroup.procs", "0");
}

int cgroup_join(int folder)
{
	return each_group(folder, join);
}

/* The kernel lets go of a group some moments after its last process. */
static int remove_one(const char *path)
{
	const char *name = strrchr(path, '/');

	if (!name || strncmp(name, "/cowfs-", 7) != 0)
		return 0;
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (rmdir(path) == 0 || errno != EBUSY)
			break;
		(void)poll(NULL, 0, REMOVE_MS);
	}
	return 0;
}

void cgroup_remove(int folder)
{
	if (each_group(folder, remove_one) == 0)
		(void)unlinkat(folder, RECORD, 0);
}

static int is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

bool cgroup_any(int folder)
{
	return each_group(folder, is_there) > 0;
}
