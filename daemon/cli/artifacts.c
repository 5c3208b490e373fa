/* SPDX-License-Identifier: MIT */
/*
 * artifacts.c - the patterns of an environment, and where the copies go.
 *
 * How: patterns are in STORE/envs/ENV/artifacts, each ending in NUL. What is
 * taken out is put together in a new directory in the one that the user names,
 * written to the disk, and only then moved up, name by name; where that fails,
 * it is all taken away again and the environment stays. The directory has to be
 * empty: nothing can be in the way, and nothing is mixed up.
 */
#include "cli/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/err.h"
#include "base/io.h"
#include "base/name.h"
#include "box/box.h"
#include "cli/copyout.h"
#include "cli/logs.h"
#include "cli/path.h"
#include "cli/place.h"
#include "cli/view.h"

#define FILE_NAME "artifacts"
#define LOGS_NAME "cowfs-logs"

enum { PATTERNS_MAX = GLOB_PATTERNS * (GLOB_BYTES + 1), STAGE_BYTES = 32 };

/* --- patterns ------------------------------------------------------------ */

static int bad_pattern(const struct call *c, const char *text, int err)
{
	if (err == -EINVAL)
		return call_fail(c, CODE_USAGE,
				 "--artifact: %s: not a path below the top, "
				 "nor a pattern for some",
				 *text ? text : "\"\"");
	return call_fail(c, CODE_USAGE, "--artifact: %s",
			 err == -E2BIG ? "too many patterns, or one that is "
					 "too long"
				       : err_text(err));
}

int artifacts_check(const struct call *c, size_t opt, bool *ret_given)
{
	const struct opt_args *a = c->args;
	struct globs *g = calloc(1, sizeof *g);
	int r = g ? 0 : -ENOMEM;
	size_t i = 0;

	*ret_given = opt_has(a, opt);
	for (; i < a->item_count && !r; i++)
		if (a->items[i].opt == opt)
			r = globs_add(g, a->items[i].value);
	if (r)
		r = bad_pattern(c, i ? a->items[i - 1].value : "", r);
	if (g)
		globs_fini(g);
	free(g);
	return r;
}

int artifacts_keep(const struct call *c, size_t opt, const char *env)
{
	const struct opt_args *a = c->args;
	_cleanup_buf_ struct buf text = {0};
	_cleanup_close_ int dir = box_env_open(c->store, env, "");
	int r = dir < 0 ? dir : 0;

	for (size_t i = 0; i < a->item_count; i++)
		if (a->items[i].opt == opt)
			buf_put(&text, a->items[i].value,
				strlen(a->items[i].value) + 1);
	if (!r)
		r = buf_error(&text);
	if (!r)
		r = io_write_file(dir, FILE_NAME, text.data, text.len, false);
	return r ? call_fail(c, CODE_FAILED, "--artifact: %s: %s", env,
			     err_text(r))
		 : CODE_DONE;
}

/* None is as good as no file. */
static int read_patterns(int env, struct globs *g)
{
	_cleanup_buf_ struct buf text = {0};
	int r = io_read_file(env, FILE_NAME, PATTERNS_MAX, &text);

	if (r)
		return r == -ENOENT ? 0 : r;
	if (text.len && text.data[text.len - 1])
		return -EFSCORRUPTED;
	for (size_t at = 0; at < text.len && !r;) {
		const char *s = (const char *)text.data + at;

		r = globs_add(g, s);
		at += strlen(s) + 1;
	}
	return r;
}

/* --- where they go ------------------------------------------------------- */

static int fail_at(const struct call *c, const char *path, const char *why)
{
	return call_fail(c, CODE_FAILED, "--artifacts: %s: %s", path, why);
}

static int check_empty(const struct call *c, const struct artifacts *a,
		       const char *path)
{
	const struct dirent *e;
	bool empty = true;
	DIR *dir;
	int r = io_open_names(a->dir, ".", 0, &dir);

	if (r)
		return fail_at(c, path, err_text(r));
	while (empty && (e = readdir(dir)))
		empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
	(void)closedir(dir);
	return empty ? CODE_DONE : fail_at(c, path, "not empty");
}

/* A directory of the store, or of what may be going to be unmounted. */
static bool is_ours(const struct call *c, int dir)
{
	_cleanup_free_ char *store = realpath(c->store, NULL);
	char link[32], path[4352];
	struct statfs st;
	ssize_t n;

	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	n = readlink(link, path, sizeof path - 1);
	path[MAX(n, 0)] = 0;
	if (store && name_below(path, store))
		return true;
	return fstatfs(dir, &st) == 0 && st.f_type == FUSE_SUPER_MAGIC &&
	       place_is_inside(path);
}

/* Opens a directory in a->parent, made when it is missing. */
static int open_dir(const struct call *c, const char *path, struct artifacts *a)
{
	a->made = mkdirat(a->parent, a->name, 0777) == 0;
	if (!a->made && errno != EEXIST)
		return fail_at(c, path, err_text(errno));
	a->dir = io_open_beneath(a->parent, a->name, O_RDONLY | O_DIRECTORY);
	if (a->dir == -ENOTDIR || a->dir == -ELOOP)
		return fail_at(c, path, "not a directory, or a symbolic link");
	if (a->dir < 0)
		return fail_at(c, path, err_text(a->dir));
	if (is_ours(c, a->dir))
		return fail_at(c, path, "in the store, or in an environment");
	if (faccessat(a->dir, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return fail_at(c, path, err_text(errno));
	return CODE_DONE;
}

/* Goes on into a directory in it. */
static int open_sub(const struct call *c, const char *sub, struct artifacts *a)
{
	char path[512];

	(void)close(a->parent);
	free(a->name);
	a->parent = TAKE_FD(a->dir);
	a->name = strdup(sub);
	(void)snprintf(path, sizeof path, "%.400s/%s", a->path, sub);
	if (!a->name)
		return call_fail_err(c, -ENOMEM, NULL, sub);
	return open_dir(c, path, a);
}

int artifacts_open(const struct call *c, const char *path, const char *sub,
		   struct artifacts *ret)
{
	struct artifacts a = {.path = path, .parent = -1, .dir = -1};
	_cleanup_free_ char *full = NULL;
	char *slash;
	int r = path_absolute(path, false, &full);

	if (r)
		return call_fail_err(c, r, NULL, path);
	slash = strrchr(full, '/');
	if (!slash[1] || !strcmp(slash, "/..") || !strcmp(slash, "/."))
		return call_fail(c, CODE_USAGE,
				 "--artifacts: %s: does not end in a name",
				 path);
	a.name = strdup(slash + 1);
	slash[slash == full] = 0;
	if (!a.name)
		return call_fail_err(c, -ENOMEM, NULL, path);
	a.parent = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a.parent < 0)
		r = fail_at(c, path, err_text(errno));
	if (!r)
		r = open_dir(c, path, &a);
	if (!r && sub)
		r = open_sub(c, sub, &a);
	if (!r)
		r = check_empty(c, &a, path);
	if (r)
		artifacts_close(&a);
	else
		*ret = a;
	return r;
}

void artifacts_close(struct artifacts *a)
{
	if (a->dir >= 0)
		(void)close(a->dir);
	/* It is not removed when something is in it. */
	if (a->made)
		(void)unlinkat(a->parent, a->name, AT_REMOVEDIR);
	if (a->parent >= 0)
		(void)close(a->parent);
	free(a->name);
	*a = (struct artifacts){.parent = -1, .dir = -1};
}

/* --- taking -------------------------------------------------------------- */

struct taking {
	const struct call *c;
	const char *env;
	struct globs globs;
	struct view view;
	struct copyout copy;
	int folder; /* of the environment */
	int stage;
};

static int fail_taking(struct taking *t, const char *what, int err)
{
	const char *path = t->copy.what.len ? buf_str(&t->copy.what) : what;

	(void)call_fail(t->c, 0,
			"%s: kept: its artifacts cannot be copied: %s: %s",
			t->env, path ? path : "?", err_text(err));
	return CODE_FAILED;
}

static int copy_files(struct taking *t)
{
	_cleanup_close_ int top = -1;
	int r;

	if (!t->globs.count)
		return CODE_DONE;
	r = view_open(t->c, t->env, &t->view);
	if (r)
		return r;
	top = open(t->view.path,
		   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	t->copy.globs = &t->globs;
	t->copy.to = t->stage;
	r = top < 0 ? -errno : copyout_tree(&t->copy, top);
	(void)close(TAKE_FD(top));
	view_close(&t->view);
	return r ? fail_taking(t, ".", r) : CODE_DONE;
}

static int copy_logs(struct taking *t)
{
	int r = logs_copy(t->c, t->env, t->stage, LOGS_NAME);

	return r < 0 ? fail_taking(t, LOGS_NAME, r) : CODE_DONE;
}

/* Moves everything from one directory into another, where none of it is. */
static int move_all(int from, int to, struct buf *moved)
{
	const struct dirent *e;
	DIR *dir;
	int r = io_open_names(from, ".", 0, &dir);

	if (r)
		return r;
	while (!r && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (renameat2(from, e->d_name, to, e->d_name,
			      RENAME_NOREPLACE) < 0)
			r = -errno;
		else
			buf_put(moved, e->d_name, strlen(e->d_name) + 1);
	}
	(void)closedir(dir);
	return r ? r : buf_error(moved);
}

static void move_back(int from, int to, const struct buf *moved)
{
	for (size_t at = 0; at < moved->len;) {
		const char *name = (const char *)moved->data + at;

		(void)renameat2(from, name, to, name, RENAME_NOREPLACE);
		at += strlen(name) + 1;
	}
}

static int settle(struct taking *t, const struct artifacts *a)
{
	_cleanup_buf_ struct buf moved = {0};
	int r = syncfs(t->stage) < 0 ? -errno : 0;

	if (!r)
		r = move_all(t->stage, a->dir, &moved);
	if (!r)
		r = io_sync_dir(a->dir);
	if (!r)
		return CODE_DONE;
	move_back(a->dir, t->stage, &moved);
	return fail_taking(t, a->path, r);
}

static void tell(const struct taking *t)
{
	for (size_t i = 0; i < t->globs.count; i++) {
		const struct glob *g = &t->globs.v[i];
		_cleanup_buf_ struct buf text = {0};

		for (size_t n = 0; n < g->name_count; n++)
			buf_printf(&text, "%s%s", n ? "/" : "", g->names[n]);
		if (!g->hit && buf_str(&text))
			(void)call_fail(t->c, 0, "%s: no artifact is %s",
					t->env, buf_str(&text));
	}
	if (t->copy.left_out)
		(void)call_fail(t->c, 0,
				"%s: %llu artifact%s left out: symbolic links, "
				"devices, pipes or sockets",
				t->env, (unsigned long long)t->copy.left_out,
				t->copy.left_out == 1 ? "" : "s");
}

static int take_into(struct taking *t, struct artifacts *a)
{
	int r = read_patterns(t->folder, &t->globs);

	r = r < 0 ? fail_taking(t, "its patterns", r) : copy_files(t);
	if (!r)
		r = copy_logs(t);
	if (!r)
		r = settle(t, a);
	if (r)
		return r;
	tell(t);
	a->files += t->copy.files;
	a->bytes += t->copy.bytes;
	return CODE_DONE;
}

int artifacts_take(const struct call *c, const char *env, struct artifacts *a)
{
	struct taking *t = calloc(1, sizeof *t);
	char stage[STAGE_BYTES];
	int r;

	if (!t)
		return call_fail_err(c, -ENOMEM, NULL, env);
	t->c = c;
	t->env = env;
	t->folder = box_env_open(c->store, env, "");
	(void)snprintf(stage, sizeof stage, ".cowfs-%d", (int)getpid());
	t->stage = mkdirat(a->dir, stage, 0700) < 0
			   ? -errno
			   : io_open_beneath(a->dir, stage,
					     O_RDONLY | O_DIRECTORY);
	if (t->stage < 0)
		r = fail_taking(t, a->path, t->stage);
	else if (t->folder < 0)
		r = fail_taking(t, "the environment", t->folder);
	else
		r = take_into(t, a);
	if (t->stage >= 0) {
		(void)close(t->stage);
		(void)io_remove_tree(a->dir, stage);
	}
	if (t->folder >= 0)
		(void)close(t->folder);
	copyout_fini(&t->copy);
	globs_fini(&t->globs);
	free(t);
	return r;
}
