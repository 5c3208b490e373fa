/* SPDX-License-Identifier: MIT */
/*
 * cmd_umount.c - `cowfs umount`: environments are rescued and destroyed.
 *
 * One after the other: a failure is said and the others go on. The server
 * unmounts, removes what has no changes, and keeps what has some; these are
 * rescued from here (cli/rescue.h) and removed then.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/number.h"
#include "cli/path.h"
#include "cli/remote.h"
#include "cli/rescue.h"

enum { OPT_ALL, OPT_DISCARD, OPT_KEEP, OPT_IGNORED, OPT_KILL, OPT_DRY_RUN };

static const struct opt_def options[] = {
	[OPT_ALL] = {"all", 0, OPT_FLAG, ARG_NONE, NULL,
		     "all mounted environments"},
	[OPT_DISCARD] = {"discard", 0, OPT_FLAG, ARG_NONE, NULL,
			 "throw changes away; also of a kept environment"},
	[OPT_KEEP] = {"keep", 0, OPT_FLAG, ARG_NONE, NULL,
		      "unmount and keep; \"mount ENV\" brings it back"},
	[OPT_IGNORED] = {"rescue-ignored", 0, OPT_VALUE, ARG_TEXT,
			 "all|none|SIZE",
			 "which files that git ignores are rescued: those up "
			 "to SIZE (10M)"},
	[OPT_KILL] = {"kill", 0, OPT_FLAG, ARG_NONE, NULL,
		      "end what uses it from elsewhere, too"},
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only say what would happen"},
};

static const struct out_col columns[] = {
	{"name", NULL, OUT_STR},
	{"text", NULL, OUT_STR},
	{"rescue", NULL, OUT_STR},
};

struct umount {
	const struct call *c;
	struct out out; /* of a dry run, and of rescues */
	struct leave_policy policy;
	uint64_t flags;
	int fd;
	int worst;
	bool lost; /* the server; the others are not asked for */
};

static void say_done(struct umount *u, const char *name, const struct msg *done)
{
	const uint8_t *s;
	size_t n;

	for (size_t i = 0; (s = msg_get(done, CTL_TAG_LINE, i, &n)); i++) {
		const char *line = (const char *)s;

		if (!(u->flags & CTL_FLAG_DRY_RUN)) {
			(void)call_fail(u->c, 0, "%.*s", (int)n, line);
			continue;
		}
		out_row(&u->out,
			(struct out_cell[]){out_str(name), out_bytes(line, n),
					    out_str(NULL)});
		out_printf(&u->out, "%.*s\n", (int)n, line);
	}
}

/* Nothing but this destroys what changed. */
static int rescue_one(struct umount *u, const char *name)
{
	_cleanup_(rescued_fini) struct rescued rescued = {0};
	int r = rescue_env(u->c, &u->fd, name, &u->policy, &rescued);

	if (r)
		return r;
	rescue_tell(u->c, name, &rescued);
	out_row(&u->out, (struct out_cell[]){out_str(name), out_str(NULL),
					     out_str(rescued.name)});
	return CODE_DONE;
}

static void umount_one(struct umount *u, const char *name)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int r;

	msg_begin(&request, CTL_UMOUNT);
	msg_put_str(&request, CTL_TAG_NAME, name);
	msg_put_u64(&request, CTL_TAG_FLAGS, u->flags);
	r = remote_call(u->c, &u->fd, &request, NULL, NULL, &done);
	if (!r)
		say_done(u, name, &done);
	if (!r && msg_get_u64(&done, CTL_TAG_COUNT, 0))
		r = rescue_one(u, name);
	u->worst = MAX(u->worst, r);
	u->lost = u->fd < 0;
}

static int collect(void *ctx, const struct msg *row)
{
	struct buf *names = ctx;
	struct remote_env e;

	remote_read_env(row, &e);
	if (strcmp(e.state, "kept") != 0)
		buf_put(names, e.name, strlen(e.name) + 1);
	return 0;
}

static int umount_all(struct umount *u)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_buf_ struct buf names = {0};
	int r;

	r = remote_has_envs(u->c);
	if (r <= 0)
		return remote_check_envs(u->c, r);
	(void)!chdir("/");
	r = remote_connect(u->c, &u->fd);
	if (r)
		return r;
	msg_begin(&request, CTL_LIST);
	r = remote_call(u->c, &u->fd, &request, collect, &names, &done);
	if (!r && buf_error(&names))
		r = call_fail_err(u->c, -ENOMEM, NULL, "umount");
	if (r)
		return r;
	for (size_t i = 0; i < names.len && !u->lost;) {
		const char *name = (const char *)names.data + i;

		umount_one(u, name);
		i += strlen(name) + 1;
	}
	return CODE_DONE;
}

/* Makes paths absolute and leaves the working directory: it may be in what is
 * to be unmounted, and this command must not be what holds it. */
static int leave(struct umount *u, char **paths)
{
	const struct opt_args *a = u->c->args;
	int r = 0;

	for (size_t i = 0; i < a->arg_count && !r; i++) {
		if (path_is_path(a->args[i]))
			r = path_absolute(a->args[i], true, &paths[i]);
		if (r)
			return call_fail_err(u->c, r, NULL, a->args[i]);
	}
	return chdir("/") < 0 ? call_fail_err(u->c, -errno, NULL, "/")
			      : CODE_DONE;
}

static void umount_each(struct umount *u, char *const *paths)
{
	const struct opt_args *a = u->c->args;

	for (size_t i = 0; i < a->arg_count && !u->lost; i++) {
		char name[REMOTE_NAME_BYTES];
		const char *what = paths[i] ? paths[i] : a->args[i];
		int r = u->fd < 0 ? remote_connect_env(u->c, what, REMOTE_EXACT,
						       &u->fd, name)
				  : remote_find(u->c, &u->fd, what,
						REMOTE_EXACT, name);

		u->worst = MAX(u->worst, r);
		if (!r)
			umount_one(u, name);
	}
}

static int umount_named(struct umount *u)
{
	size_t n = u->c->args->arg_count;
	char **paths = calloc(n, sizeof *paths);
	int r;

	if (!paths)
		return call_fail_err(u->c, -ENOMEM, NULL, "umount");
	r = leave(u, paths);
	if (!r)
		umount_each(u, paths);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free((void *)paths);
	return r;
}

static int read_policy(const struct call *c, struct leave_policy *p)
{
	const char *text = opt_value(c->args, OPT_IGNORED);

	*p = (struct leave_policy){.each = LEAVE_EACH,
				   .together = LEAVE_TOGETHER};
	if (!text)
		return CODE_DONE;
	p->all = !strcmp(text, "all");
	p->none = !strcmp(text, "none");
	if (p->all || p->none)
		return CODE_DONE;
	if (number_read_size(text, &p->each) < 0)
		return call_fail(c, CODE_USAGE,
				 "--rescue-ignored: %s: not all, none or a "
				 "size",
				 text);
	p->together = p->each > UINT64_MAX / LEAVE_MANY ? UINT64_MAX
							: p->each * LEAVE_MANY;
	return CODE_DONE;
}

static int check_usage(const struct call *c)
{
	const struct opt_args *a = c->args;

	if (opt_has(a, OPT_DISCARD) && opt_has(a, OPT_KEEP))
		return call_fail(c, CODE_USAGE,
				 "--discard: not together with --keep");
	if (opt_has(a, OPT_IGNORED) &&
	    (opt_has(a, OPT_DISCARD) || opt_has(a, OPT_KEEP)))
		return call_fail(c, CODE_USAGE,
				 "--rescue-ignored: not together with --keep "
				 "or --discard");
	if (opt_has(a, OPT_ALL) && a->arg_count)
		return call_fail(c, CODE_USAGE,
				 "--all: not together with names");
	if (!opt_has(a, OPT_ALL) && !a->arg_count) {
		(void)call_fail(c, CODE_USAGE, "ENV: missing");
		call_hint("usage: cowfs umount ENV...|--all");
		return CODE_USAGE;
	}
	return CODE_DONE;
}

static int run(struct call *c)
{
	const struct opt_args *a = c->args;
	struct umount u = {.c = c, .fd = -1};
	int r = check_usage(c);

	if (!r)
		r = read_policy(c, &u.policy);
	if (r)
		return r;
	if (opt_has(a, OPT_DISCARD))
		u.flags |= CTL_FLAG_DISCARD;
	if (opt_has(a, OPT_KEEP))
		u.flags |= CTL_FLAG_KEEP;
	if (opt_has(a, OPT_KILL))
		u.flags |= CTL_FLAG_KILL;
	if (opt_has(a, OPT_DRY_RUN))
		u.flags |= CTL_FLAG_DRY_RUN;
	out_init(&u.out, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	r = opt_has(a, OPT_ALL) ? umount_all(&u) : umount_named(&u);
	r = call_finish(c, &u.out, MAX(r, u.worst));
	out_fini(&u.out);
	if (u.fd >= 0)
		(void)close(u.fd);
	return r;
}

const struct verb cmd_umount = {
	.name = "umount",
	.synopsis = "ENV...|--all",
	.summary = "unmount environments; what changed in them is rescued",
	.text = "ENV is a name or the path where it is mounted, or the name of "
		"a kept one. What\nchanged is rescued, in the store and as a "
		"ref of the origin's git repository, and\nread back; then the "
		"environment is removed. \"cowfs rescue\" lists rescues and "
		"brings\nthem back. An environment that processes still use "
		"stays mounted (exit 4); they\nare named; --kill ends them.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.max_args = OPT_MANY,
	.run = run,
};
