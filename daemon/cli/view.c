/* SPDX-License-Identifier: MIT */
/*
 * view.c - the request ends with its first row, which says where the view is;
 * what follows comes when this side has said that it wants no more.
 */
#include "cli/view.h"

#include <sys/socket.h>

#include "base/err.h"
#include "cli/remote.h"

enum { END_MS = 10000 };

static int take_path(void *ctx, const struct msg *row)
{
	struct view *v = ctx;
	int r = msg_get_str(row, CTL_TAG_PATH, v->path, sizeof v->path);

	return r < 0 ? r : 1;
}

int view_open(const struct call *c, const char *env, struct view *ret_view)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	int r = remote_connect(c, &fd);

	if (r)
		return r;
	msg_begin(&request, CTL_VIEW);
	msg_put_str(&request, CTL_TAG_NAME, env);
	r = client_call(fd, &request, take_path, ret_view, &done);
	if (r < 0)
		return call_fail(c, exit_code_of(r), "server: %s", err_text(r));
	if (r == 0)
		return remote_say(
			c, &done,
			(int)msg_get_u64(&done, CTL_TAG_CODE, CODE_FAILED));
	ret_view->fd = TAKE_FD(fd);
	ret_view->is_open = true;
	return CODE_DONE;
}

void view_close(struct view *v)
{
	_cleanup_msg_ struct msg done = {0};

	if (!v->is_open)
		return;
	if (shutdown(v->fd, SHUT_WR) == 0)
		(void)!msg_recv(v->fd, &done, END_MS);
	(void)close(v->fd);
	v->is_open = false;
}
