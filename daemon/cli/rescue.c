/* SPDX-License-Identifier: MIT */
/*
 * How, in this order:
 *   the list of changes, from the server;
 *   a private view of the environment, on a connection of its own: it ends with
 *   this process, whatever becomes of it;
 *   what git ignores there, and what of that is left out;
 *   the store's part, by the server, whole and read back; meanwhile the objects
 *   of the origin's part, by libgit2 in this process, through the view;
 *   the ref of the origin's part;
 *   then the server destroys, if the environment is still what was rescued.
 *
 * What is left out only ever makes the rescue smaller, so where git's rules
 * cannot be read nothing is. And the store's part alone is a rescue: an origin
 * that is gone, full or broken is told and costs nothing.
 *
 * The store is open in this process only while a request is answered, since a
 * connection that has to be made again may fork.
 */
#include "cli/rescue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/changes.h"
#include "cli/remote.h"
#include "cli/snaps.h"
#include "cli/view.h"
#include "git/ignore.h"
#include "git/rescue.h"

enum { TELL_MOST = 10 };

struct saving {
	const struct call *c;
	int *fd;
	const char *env;
	const struct leave_policy *policy;
	struct gitchanges changes;
	struct rescued *ret;
	struct view view;
	struct gitwork work;
	struct gitrescue *git;
	struct diag diag;	    /* of the origin's part */
	int gathered;		    /* 0, or why there is no origin's part */
	char commit[GIT_HEX_BYTES]; /* the origin's; "": none */
};

void rescued_fini(struct rescued *r)
{
	diag_fini(&r->notes);
	buf_fini(&r->left);
}

/* --- what is left out ---------------------------------------------------- */

static int is_ignored(void *ctx, const char *path, bool is_dir)
{
	return gitignore_check(ctx, path, is_dir);
}

static int choose(struct saving *s, struct buf *list)
{
	_cleanup_gitignore_ struct gitignore *g = NULL;
	_cleanup_diag_ struct diag diag = {0};
	int r;

	if (s->policy->all)
		return 0;
	r = gitignore_open(s->view.path, &diag, &g);
	if (r == 0)
		r = gitignore_mark(g, &s->changes);
	if (r == 0)
		r = leave_choose(s->policy, &s->changes, is_ignored, g, list);
	if (r == -ENOENT)
		return 0; /* no repository: everything is rescued */
	if (r < 0) {
		buf_clear(list);
		diag_add(&s->ret->notes,
			 "what git ignores cannot be told, so nothing is left "
			 "out: %s",
			 diag_line(&diag, 0) ? diag_line(&diag, 0)
					     : err_text(r));
	}
	return r == -ENOMEM ? r : 0;
}

/* --- the origin's part --------------------------------------------------- */

static int gather(struct saving *s)
{
	_cleanup_store_ struct store *store = NULL;
	int r = store_open(s->c->store, 0, &s->diag, &store);

	if (r < 0)
		return r;
	s->work.store = store;
	r = gitrescue_gather(&s->work, &s->diag, &s->git);
	s->work.store = NULL;
	return r;
}

/* The server says what the environment stands on, and freezes. */
static int take_base(void *ctx, const struct msg *row)
{
	struct saving *s = ctx;
	char hex[OID_HEX + 1];

	remote_read_str(row, CTL_TAG_SNAPSHOT, hex, sizeof hex);
	remote_read_str(row, CTL_TAG_GIT_DIR, s->ret->git_dir,
			sizeof s->ret->git_dir);
	if (oid_from_hex(hex, &s->work.snapshot) < 0)
		return -EPROTO;
	if (s->ret->git_dir[0])
		s->gathered = gather(s);
	return 0;
}

/* Whatever goes wrong here, the store has all of it. */
static void try_git(struct saving *s)
{
	char message[RESCUE_MESSAGE_BYTES];
	const char *line;
	int r = s->gathered;

	if (!s->ret->git_ref[0])
		return;
	rescue_message(s->env, s->ret->name, message);
	if (r == 0)
		r = s->git ? gitrescue_publish(s->git, s->ret->git_ref, message,
					       s->commit)
			   : -EPROTO;
	s->ret->in_git = r == 0;
	if (r < 0)
		s->commit[0] = '\0';
	line = diag_line(&s->diag, 0);
	if (r < 0)
		diag_add(&s->ret->notes,
			 "not in the origin, the store alone has it: %s",
			 line ? line : err_text(r));
	for (size_t i = r < 0; (line = diag_line(&s->diag, i)); i++)
		diag_add(&s->ret->notes, "%s", line);
}

/* --- the store's part ---------------------------------------------------- */

static int take_answer(struct saving *s, const struct msg *done)
{
	struct rescued *r = s->ret;
	size_t n;
	const uint8_t *p;

	remote_read_str(done, CTL_TAG_RESCUE, r->name, sizeof r->name);
	remote_read_str(done, CTL_TAG_GIT_REF, r->git_ref, sizeof r->git_ref);
	if (!r->name[0])
		return call_fail(s->c, CODE_FAILED, "%s: server: %s; kept",
				 s->env, err_text(-EPROTO));
	p = msg_get(done, CTL_TAG_LEFT, 0, &n);
	buf_put(&r->left, p, p ? n : 0);
	return CODE_DONE;
}

static int freeze(struct saving *s)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_buf_ struct buf list = {0};
	int r = choose(s, &list);

	if (r < 0)
		return call_fail_err(s->c, r, NULL, s->env);
	msg_begin(&request, CTL_FREEZE);
	msg_put_str(&request, CTL_TAG_NAME, s->env);
	msg_put_u64(&request, CTL_TAG_COUNT, s->changes.count);
	if (list.len)
		msg_put(&request, CTL_TAG_LEFT, list.data, list.len);
	r = remote_call(s->c, s->fd, &request, take_base, s, &done);
	return r ? r : take_answer(s, &done);
}

/* --- the end ------------------------------------------------------------- */

static int destroy(struct saving *s)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};

	msg_begin(&request, CTL_UMOUNT);
	msg_put_str(&request, CTL_TAG_NAME, s->env);
	msg_put_str(&request, CTL_TAG_RESCUE, s->ret->name);
	if (s->commit[0])
		msg_put_str(&request, CTL_TAG_GIT_COMMIT, s->commit);
	return remote_call(s->c, s->fd, &request, NULL, NULL, &done);
}

static void saving_free(struct saving *s)
{
	gitrescue_close(s->git);
	view_close(&s->view);
	gitchanges_fini(&s->changes);
	diag_fini(&s->diag);
	free(s);
}

static int save(struct saving *s)
{
	int r = changes_fetch(s->c, s->fd, s->env, &s->changes);

	if (!r)
		r = view_open(s->c, s->env, &s->view);
	if (r)
		return r;
	s->work = (struct gitwork){.origin = s->ret->git_dir,
				   .view = s->view.path,
				   .env = s->env,
				   .changes = &s->changes};
	s->ret->changes = s->changes.count;
	r = freeze(s);
	if (r)
		return r;
	try_git(s);
	gitrescue_closep(&s->git); /* it looks at the view */
	view_close(&s->view);
	return destroy(s);
}

int rescue_env(const struct call *c, int *fd, const char *env,
	       const struct leave_policy *policy, struct rescued *ret)
{
	struct saving *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return call_fail_err(c, -ENOMEM, NULL, env);
	s->c = c;
	s->fd = fd;
	s->env = env;
	s->policy = policy;
	s->ret = ret;
	r = save(s);
	saving_free(s);
	return r;
}

/* --- words --------------------------------------------------------------- */

static const char *why_text(enum rescue_why why)
{
	switch (why) {
	case RESCUE_LARGE:
		return "ignored by git, beyond the limit";
	case RESCUE_CACHE:
		return "ignored by git, dependencies or a cache";
	case RESCUE_ASKED:
		return "ignored by git";
	case RESCUE_SOCKET:
		return "a socket";
	default:
		return "?";
	}
}

void rescue_tell_left(const struct call *c, const char *what,
		      const struct buf *list, size_t most)
{
	struct bytes in = bytes_of(list->data, list->len);
	struct rescue_left one;
	size_t n = 0;

	for (; rescue_left_next(&in, &one); n++) {
		_cleanup_buf_ struct buf size = {0};

		if (most && n >= most)
			continue;
		out_size(&size, one.bytes);
		(void)call_fail(c, 0,
				"%s: left out: %.*s (%s, %llu file%s, %s)",
				what, (int)one.path_len, one.path,
				buf_str(&size) ? buf_str(&size) : "?",
				(unsigned long long)one.files,
				one.files == 1 ? "" : "s", why_text(one.why));
	}
	if (most && n > most)
		(void)call_fail(c, 0, "%s: left out: %zu more", what, n - most);
}

void rescue_tell(const struct call *c, const char *env, const struct rescued *r)
{
	const char *line;

	(void)call_fail(c, 0, "%s: %llu changed path%s rescued as %s%s%s%s%s",
			env, (unsigned long long)r->changes,
			r->changes == 1 ? "" : "s", r->name,
			r->in_git ? ", in " : "", r->in_git ? r->git_dir : "",
			r->in_git ? " as " : "", r->in_git ? r->git_ref : "");
	for (size_t i = 0; (line = diag_line(&r->notes, i)); i++)
		(void)call_fail(c, 0, "%s: %s", env, line);
	rescue_tell_left(c, env, &r->left, TELL_MOST);
	call_hint("\"cowfs rescue restore %s NAME\" brings it back, \"cowfs "
		  "rescue show %s\" tells more",
		  r->name, r->name);
}
