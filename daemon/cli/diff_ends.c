/* SPDX-License-Identifier: MIT */
/*
 * diff_ends.c - from arguments to two ends that can be read.
 *
 * One environment is compared with the snapshot that it stands on. Of two
 * ends, what may differ are the changes of either environment and what differs
 * between the snapshots below them; a path in none of these is the same on
 * both. The server is asked first: it has the kernel write back what is dirty,
 * so that the mount is as its list says. Of an environment that is kept there
 * is a private view.
 */
#include "cli/diff_int.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/path.h"
#include "exchange/snapdiff.h"

void diff_fini(struct diff_job *j)
{
	for (int i = 0; i < 2; i++) {
		side_close(j->end[i].side);
		free(j->end[i].path);
		view_close(&j->end[i].view);
	}
	diff_list_fini(&j->only);
	diff_list_fini(&j->paths);
	store_close(j->store);
	if (j->fd >= 0)
		(void)close(j->fd);
}

int diff_fail(const struct diff_job *j, const char *path, int err)
{
	return call_fail(j->c, exit_code_of(err), "%s: %s", *path ? path : ".",
			 err_text(err));
}

bool diff_has_two(const struct diff_job *j)
{
	return j->end[DIFF_OLD].arg != NULL;
}

/* --- arguments ----------------------------------------------------------- */

static bool is_env(const struct call *c, const char *name)
{
	return name_is_label(name) && remote_has_env(c, name);
}

static int open_store(struct diff_job *j)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = j->store ? 0 : store_open(j->c->store, 0, &diag, &j->store);

	return r < 0 ? call_fail_err(j->c, r, &diag, j->c->store) : CODE_DONE;
}

/* Says whether a name is that of a snapshot; opens the store. */
static bool is_snapshot(struct diff_job *j, const char *name)
{
	struct oid id;

	return !path_is_path(name) && remote_has_store(j->c) &&
	       open_store(j) == CODE_DONE &&
	       store_resolve(j->store, name, NULL, &id) != -ENOENT;
}

/* Adds one of PATHS: "./a//b/" is "a/b"; "." is all. */
static int add_only(struct diff_job *j, const char *arg)
{
	_cleanup_buf_ struct buf path = {0};

	for (const char *at = arg; *at;) {
		const size_t n = strcspn(at, "/");

		if (n == 2 && at[0] == '.' && at[1] == '.')
			return call_fail(j->c, CODE_USAGE,
					 "%s: a path with \"..\"", arg);
		if (n && !(n == 1 && *at == '.')) {
			if (path.len)
				buf_put_u8(&path, '/');
			buf_put(&path, at, n);
		}
		at += n + (at[n] == '/');
	}
	if (buf_error(&path) < 0 ||
	    diff_list_add(&j->only, path.len ? (char *)path.data : "",
			  path.len) < 0)
		return call_fail_err(j->c, -ENOMEM, NULL, arg);
	return CODE_DONE;
}

int diff_read_args(struct diff_job *j)
{
	const struct opt_args *a = j->c->args;
	size_t i = 1;
	int r = CODE_DONE;

	j->end[DIFF_NEW].arg = a->args[0];
	if (a->free_count > 1 &&
	    (is_env(j->c, a->args[1]) || is_snapshot(j, a->args[1]))) {
		j->end[DIFF_OLD].arg = a->args[0];
		j->end[DIFF_NEW].arg = a->args[i++];
	}
	for (; i < a->arg_count && r == CODE_DONE; i++) {
		j->loose += i < a->free_count;
		r = add_only(j, a->args[i]);
	}
	return r;
}

bool diff_wants(const struct diff_job *j, const char *path, size_t len)
{
	for (size_t i = 0; i < j->only.count; i++) {
		const char *only = j->only.v[i];
		const size_t n = strlen(only);

		if (!n || (len >= n && !memcmp(path, only, n) &&
			   (len == n || path[n] == '/')))
			return true;
	}
	return !j->only.count;
}

/* --- what may differ ----------------------------------------------------- */

static int add_path(void *ctx, const char *path, size_t len)
{
	struct diff_job *j = ctx;

	return diff_wants(j, path, len) ? diff_list_add(&j->paths, path, len)
					: 0;
}

static int add_row(void *ctx, const struct msg *m)
{
	static const enum ctl_tag tags[] = {CTL_TAG_PATH, CTL_TAG_OLD_PATH};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tags) && r == 0; i++) {
		size_t n;
		const uint8_t *s = msg_get(m, tags[i], 0, &n);

		/* the root has the name ".", so that it sorts */
		if (s && n == 1 && *s == '.')
			n = 0;
		if (s)
			r = add_path(ctx, (const char *)s, n);
	}
	return r;
}

static int ask_rows(struct diff_job *j, const struct diff_end *end)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};

	msg_begin(&request, CTL_DIFF);
	msg_put_str(&request, CTL_TAG_NAME, end->name);
	return remote_call(j->c, &j->fd, &request, add_row, j, &done);
}

/* --- ends ---------------------------------------------------------------- */

static int read_env(struct diff_job *j, struct diff_end *end,
		    const struct msg *done)
{
	struct remote_env e;
	int r;

	remote_read_env(done, &e);
	if (oid_from_hex(e.snapshot, &end->base) < 0)
		return call_fail(j->c, CODE_FAILED,
				 "%s: its snapshot is not known", end->name);
	if (!e.path[0]) {
		r = view_open(j->c, end->name, &end->view);
		if (r)
			return r;
	}
	end->path = strdup(end->view.is_open ? end->view.path : e.path);
	return end->path ? CODE_DONE
			 : call_fail_err(j->c, -ENOMEM, NULL, end->name);
}

static int open_env(struct diff_job *j, struct diff_end *end)
{
	_cleanup_msg_ struct msg done = {0};
	int r;

	if (j->fd < 0)
		r = remote_connect_env(j->c, end->arg, REMOTE_WITHIN, &j->fd,
				       end->name);
	else
		r = remote_find(j->c, &j->fd, end->arg, REMOTE_WITHIN,
				end->name);
	if (r)
		return r;
	r = remote_show(j->c, &j->fd, end->name, &done);
	if (r == CODE_DONE)
		r = ask_rows(j, end);
	return r ? r : read_env(j, end, &done);
}

static int resolve(struct diff_job *j, struct diff_end *end)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = open_store(j);

	if (r)
		return r;
	r = store_resolve(j->store, end->arg, &diag, &end->base);
	if (r == -ENOENT) {
		(void)call_fail(j->c, 0, "%s: unknown environment or snapshot",
				end->arg);
		if (diag_line(&diag, 0))
			call_hint("%s", diag_line(&diag, 0));
		return CODE_FAILED;
	}
	return r < 0 ? call_fail_err(j->c, r, &diag, end->arg) : CODE_DONE;
}

/* Environments first: their server has to be asked. */
static int find_ends(struct diff_job *j)
{
	const bool two = diff_has_two(j);
	int r = CODE_DONE;

	for (int i = 0; i < 2 && r == CODE_DONE; i++) {
		struct diff_end *end = &j->end[i];

		if (!end->arg)
			continue;
		end->is_env = !two || path_is_path(end->arg) ||
			      is_env(j->c, end->arg);
		if (end->is_env)
			r = open_env(j, end);
	}
	for (int i = 0; i < 2 && r == CODE_DONE; i++)
		if (j->end[i].arg && !j->end[i].is_env)
			r = resolve(j, &j->end[i]);
	if (!two)
		j->end[DIFF_OLD].base = j->end[DIFF_NEW].base;
	return r;
}

static int open_side(struct diff_job *j, struct diff_end *end)
{
	int r = end->is_env
			? side_open_mount(end->path, &end->side)
			: side_open_snapshot(j->store, &end->base, &end->side);

	return r < 0 ? call_fail_err(j->c, r, NULL,
				     end->is_env ? end->path : "snapshot")
		     : CODE_DONE;
}

/* A path that is nowhere may be an environment's name with a slip in it. */
static int check_loose(struct diff_job *j)
{
	for (size_t i = 0; i < j->loose; i++) {
		struct side_node n;
		bool there = false;

		for (int k = 0; k < 2 && !there; k++)
			there = side_look(j->end[k].side, j->only.v[i], &n) !=
				-ENOENT;
		if (there)
			continue;
		(void)call_fail(j->c, 0, "%s: no environment, snapshot or path",
				j->only.v[i]);
		call_hint("what stands after -- is taken for a path");
		return CODE_FAILED;
	}
	return CODE_DONE;
}

static int open_sides(struct diff_job *j)
{
	int r = open_store(j);

	for (int i = 0; i < 2 && r == CODE_DONE; i++)
		r = open_side(j, &j->end[i]);
	if (r == CODE_DONE)
		r = check_loose(j);
	if (r)
		return r;
	r = snapdiff_walk(j->store, &j->end[DIFF_OLD].base,
			  &j->end[DIFF_NEW].base, add_path, j);
	if (r < 0)
		return call_fail_err(j->c, r, NULL, "snapshots");
	diff_list_sort(&j->paths);
	return CODE_DONE;
}

int diff_open(struct diff_job *j)
{
	int r = find_ends(j);

	return r ? r : open_sides(j);
}

int diff_open_snapshots(struct diff_job *j, const struct oid *old,
			const struct oid *new)
{
	j->end[DIFF_OLD].arg = j->end[DIFF_NEW].arg = "snapshot";
	j->end[DIFF_OLD].base = *old;
	j->end[DIFF_NEW].base = *new;
	return open_sides(j);
}

/* --- looking at both ----------------------------------------------------- */

int diff_look(const struct diff_job *j, const char *path,
	      struct side_node ret_nodes[2])
{
	for (int i = 0; i < 2; i++) {
		int r = side_look(j->end[i].side, path, &ret_nodes[i]);

		if (r == -ENOENT)
			ret_nodes[i] = (struct side_node){0};
		else if (r < 0)
			return r;
	}
	return 0;
}

int diff_xattrs(const struct diff_job *j, const char *path,
		const struct side_node nodes[2])
{
	_cleanup_buf_ struct buf a = {0}, b = {0};
	int r = 0;

	if (nodes[0].mode)
		r = side_xattrs(j->end[0].side, path, &nodes[0], &a);
	if (r >= 0 && nodes[1].mode)
		r = side_xattrs(j->end[1].side, path, &nodes[1], &b);
	if (r < 0)
		return r;
	return a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0);
}
