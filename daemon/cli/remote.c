/* SPDX-License-Identifier: MIT */
/*
 * remote.c - one connection a command, one request after the other.
 *
 * Paths are compared as text: a look at them (stat, realpath) could wait for a
 * mount whose server hangs, which is just when umount must work.
 */
#include "cli/remote.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/path.h"
#include "cli/place.h"
#include "serve/serve.h"
#include "store/store.h"

/* Like open(2). */
static int open_in_store(const struct call *c, const char *name, int flags)
{
	int dir = open(c->store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd, err;

	if (dir < 0)
		return -1;
	fd = openat(dir, name, flags | O_CLOEXEC);
	err = errno;
	(void)close(dir);
	errno = err;
	return fd;
}

bool remote_has_store(const struct call *c)
{
	_cleanup_close_ int fd = open_in_store(c, "format", O_PATH);

	return fd >= 0;
}

bool remote_has_env(const struct call *c, const char *name)
{
	_cleanup_buf_ struct buf path = {0};

	buf_printf(&path, "%s/envs/%s", c->store, name);
	if (buf_str(&path))
		return access(buf_str(&path), F_OK) == 0;
	errno = ENOMEM;
	return false;
}

int remote_has_envs(const struct call *c)
{
	int fd = open_in_store(c, "envs", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	int found = 0;

	if (!dir) {
		int r = -errno;

		if (fd >= 0)
			(void)close(fd);
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	}
	while (!found && (e = readdir(dir)))
		found = name_is_label(e->d_name);
	(void)closedir(dir);
	return found;
}

/* Opens the store to see whether it can be opened; none is fine, too. */
static int check_store(const struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};
	struct store *s = NULL;
	int r = store_open(c->store, 0, &diag, &s);

	if (!r)
		store_close(s);
	return r && r != -ENOENT ? call_fail_err(c, r, &diag, c->store)
				 : CODE_DONE;
}

int remote_fail_denied(const struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};

	if (store_check_owner(c->store, &diag) < 0 && diag_line(&diag, 0))
		return call_fail_err(c, -EACCES, &diag, c->store);
	return call_fail(c, CODE_FAILED, "no permission for the store %s",
			 c->store);
}

static bool is_denied(int err)
{
	return err == -EACCES || err == -EPERM;
}

int remote_check_envs(const struct call *c, int err)
{
	if (is_denied(err) || store_check_owner(c->store, NULL) == -EACCES)
		return remote_fail_denied(c);
	if (err)
		return call_fail_err(c, err, NULL, c->store);
	return remote_has_store(c) ? CODE_DONE : check_store(c);
}

int remote_connect(const struct call *c, int *ret_fd)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = place_check(c);

	if (r)
		return r;
	r = serve_connect(c->store, &diag, ret_fd);
	if (!r)
		return CODE_DONE;
	if (is_denied(r) && !diag_line(&diag, 0))
		return remote_fail_denied(c);
	/* A server that could not start for a damaged store, or on a disk that
	 * is read-only, is no busy one. */
	if (r == -ECONNREFUSED && access(c->store, W_OK) < 0 && errno == EROFS)
		return call_fail_err(c, -EROFS, NULL, c->store);
	if (r == -ECONNREFUSED) {
		int code = check_store(c);

		if (code)
			return code;
	}
	return call_fail_err(c, r, &diag, "server");
}

/* The first line is "what: why". The others stand for themselves when they name
 * processes, else they are one line of what to do. */
int remote_say(const struct call *c, const struct msg *done, int code)
{
	_cleanup_buf_ struct buf more = {0};
	char line[4352 * 2];
	const char *hint;

	for (size_t i = 0;; i++) {
		size_t n;
		const uint8_t *s = msg_get(done, CTL_TAG_LINE, i, &n);

		if (!s) {
			if (!i)
				(void)call_fail(c, 0,
						"server: no reason given");
			break;
		}
		n = MIN(n, sizeof line - 1);
		memcpy(line, s, n);
		line[n] = 0;
		if (!i)
			(void)call_fail(c, 0, "%s", line);
		else if (code == CODE_BUSY)
			call_hint("%s", line);
		else
			buf_printf(&more, "%s%s", more.len ? "; " : "", line);
	}
	hint = more.len ? buf_str(&more) : NULL;
	if (hint)
		call_hint("%s", hint);
	return code > CODE_BUSY ? CODE_FAILED : code;
}

int remote_fail_silent(const struct call *c, int fd, int code)
{
	struct ucred peer = {0};
	socklen_t n = sizeof peer;

	(void)call_fail(c, 0, "the server does not answer");
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.pid > 0)
		call_hint("see %s/server.log, or end process %d", c->store,
			  (int)peer.pid);
	else
		call_hint("see %s/server.log", c->store);
	return code;
}

struct rows {
	client_row_fn fn;
	void *ctx;
	bool any;
};

static int take_row(void *ctx, const struct msg *row)
{
	struct rows *rows = ctx;

	rows->any = true;
	return rows->fn ? rows->fn(rows->ctx, row) : 0;
}

static int fail_call(const struct call *c, int *fd, int err)
{
	int code = err == -ETIMEDOUT ? remote_fail_silent(c, *fd, CODE_BUSY)
				     : call_fail(c, exit_code_of(err),
						 "server: %s", err_text(err));

	(void)close(TAKE_FD(*fd));
	return code;
}

int remote_call(const struct call *c, int *fd, const struct msg *request,
		client_row_fn fn, void *ctx, struct msg *ret_done)
{
	struct rows rows = {.fn = fn, .ctx = ctx};
	struct msg done = {0};
	int r = client_call(*fd, request, take_row, &rows, &done);
	uint64_t code;

	/* The old server may have been ending while we were in its queue. */
	if (r == -ECONNRESET && !rows.any) {
		(void)close(TAKE_FD(*fd));
		r = remote_connect(c, fd);
		if (r)
			return r;
		r = client_call(*fd, request, take_row, &rows, &done);
	}
	if (r < 0) {
		msg_fini(&done);
		return fail_call(c, fd, r);
	}
	code = msg_get_u64(&done, CTL_TAG_CODE, CODE_DONE);
	if (code == CODE_DONE) {
		*ret_done = done;
		return CODE_DONE;
	}
	r = remote_say(c, &done, (int)MIN(code, (uint64_t)INT_MAX));
	msg_fini(&done);
	return r;
}

/* From the store: no server runs. */
static int list_kept(const struct call *c, client_row_fn fn, void *ctx)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = place_check(c);

	if (r)
		return r;
	r = store_check_owner(c->store, &diag);
	if (!r)
		r = serve_list(c->store, fn, ctx, &diag);
	if (is_denied(r) && !diag_line(&diag, 0))
		return remote_fail_denied(c);
	return r ? call_fail_err(c, r, &diag, c->store) : CODE_DONE;
}

int remote_list(const struct call *c, client_row_fn fn, void *ctx)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	int r = client_connect(c->store, &fd);

	/* A lock that is held is one that is beginning, ending, or a repair:
	 * that is waited for. */
	if (r == -ECONNREFUSED && !serve_is_held(c->store))
		return list_kept(c, fn, ctx);
	r = r ? remote_connect(c, &fd) : CODE_DONE;
	if (r)
		return r;
	msg_begin(&request, CTL_LIST);
	return remote_call(c, &fd, &request, fn, ctx, &done);
}

void remote_read_str(const struct msg *m, enum ctl_tag tag, char *s,
		     size_t size)
{
	if (msg_get_str(m, tag, s, size) < 0)
		s[0] = '\0';
}

void remote_read_env(const struct msg *row, struct remote_env *e)
{
	remote_read_str(row, CTL_TAG_NAME, e->name, sizeof e->name);
	remote_read_str(row, CTL_TAG_STATE, e->state, sizeof e->state);
	remote_read_str(row, CTL_TAG_SNAPSHOT, e->snapshot, sizeof e->snapshot);
	remote_read_str(row, CTL_TAG_REF, e->ref, sizeof e->ref);
	remote_read_str(row, CTL_TAG_PATH, e->path, sizeof e->path);
	remote_read_str(row, CTL_TAG_SOURCE, e->source, sizeof e->source);
	e->created = msg_get_u64(row, CTL_TAG_TIME, 0);
	limits_read_row(row, &e->limits);
	ports_read_row(row, &e->ports);
}

struct looking {
	const char *name;
	bool found;
	struct remote_env *env;
};

static int look(void *ctx, const struct msg *row)
{
	struct looking *l = ctx;
	struct remote_env e;

	remote_read_env(row, &e);
	if (!strcmp(e.name, l->name)) {
		*l->env = e;
		l->found = true;
	}
	return 0;
}

int remote_list_one(const struct call *c, const char *name,
		    struct remote_env *ret_env)
{
	struct looking l = {.name = name, .env = ret_env};
	int r;

	if (!name_is_label(name))
		return call_bad_name(c, name, "name of an environment");
	r = remote_has_envs(c);
	if (r <= 0)
		r = remote_check_envs(c, r);
	else
		r = remote_list(c, look, &l);
	if (r || l.found)
		return r;
	return call_fail(c, CODE_FAILED, "%s: unknown environment", name);
}

struct finder {
	const char *path;
	enum remote_match match;
	size_t best; /* length of the longest mount point that fits */
	char *name;
};

static int find_row(void *ctx, const struct msg *row)
{
	struct finder *f = ctx;
	struct remote_env e;
	size_t n;

	remote_read_env(row, &e);
	n = strlen(e.path);
	if (n <= f->best || strncmp(e.path, f->path, n) != 0)
		return 0;
	if (f->path[n] && (f->match == REMOTE_EXACT || f->path[n] != '/'))
		return 0;
	f->best = n;
	(void)snprintf(f->name, REMOTE_NAME_BYTES, "%s", e.name);
	return 0;
}

static int find_by_path(const struct call *c, int *fd, const char *arg,
			struct finder *f)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int r;

	msg_begin(&request, CTL_LIST);
	r = remote_call(c, fd, &request, find_row, f, &done);
	if (r)
		return r;
	if (!f->best)
		return call_fail(c, CODE_FAILED,
				 "%s: no environment is mounted there", arg);
	return CODE_DONE;
}

int remote_find(const struct call *c, int *fd, const char *arg,
		enum remote_match match, char ret_name[REMOTE_NAME_BYTES])
{
	_cleanup_free_ char *path = NULL;
	struct finder f = {.match = match, .name = ret_name};
	int r;

	if (!path_is_path(arg)) {
		if (!name_is_label(arg))
			return call_bad_name(c, arg, "name of an environment");
		(void)snprintf(ret_name, REMOTE_NAME_BYTES, "%s", arg);
		return CODE_DONE;
	}
	r = path_absolute(arg, true, &path);
	if (r)
		return call_fail_err(c, r, NULL, arg);
	f.path = path;
	return find_by_path(c, fd, arg, &f);
}

int remote_connect_env(const struct call *c, const char *arg,
		       enum remote_match match, int *ret_fd,
		       char ret_name[REMOTE_NAME_BYTES])
{
	int r;

	if (!path_is_path(arg) && !name_is_label(arg))
		return call_bad_name(c, arg, "name of an environment");
	if (!remote_has_store(c)) {
		if (is_denied(-errno))
			return remote_fail_denied(c);
		r = call_fail(c, CODE_FAILED, "%s: unknown environment", arg);
		call_hint("there is no store at %s", c->store);
		return r;
	}
	r = remote_connect(c, ret_fd);
	return r ? r : remote_find(c, ret_fd, arg, match, ret_name);
}

int remote_show(const struct call *c, int *fd, const char *name,
		struct msg *ret_done)
{
	_cleanup_msg_ struct msg request = {0};

	msg_begin(&request, CTL_SHOW);
	msg_put_str(&request, CTL_TAG_NAME, name);
	return remote_call(c, fd, &request, NULL, NULL, ret_done);
}
