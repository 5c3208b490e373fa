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
#include "cli/umount.h"

enum {
	OPT_ALL,
	OPT_DISCARD,
	OPT_KEEP,
	OPT_IGNORED,
	OPT_ARTIFACTS,
	OPT_KILL,
	OPT_DRY_RUN,
};

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
	[OPT_ARTIFACTS] = {"artifacts", 0, OPT_VALUE, ARG_DIR, "DIR",
			   "copy logs and artifacts there before"},
	[OPT_KILL] = {"kill", 0, OPT_FLAG, ARG_NONE, NULL,
		      "end what uses it from elsewhere, too"},
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only say what would happen"},
};

static const struct out_col columns[] = {
	{"name", NULL, OUT_STR},
	{"text", NULL, OUT_STR},
	{"rescue", NULL, OUT_STR},
	{"stopped", NULL, OUT_PROCESSES},
	{"stopped_more", NULL, OUT_COUNT},
	{"freed", NULL, OUT_LIST},
	{"artifacts", NULL, OUT_STR},
	{"artifact_files", NULL, OUT_COUNT},
	{"artifact_bytes", NULL, OUT_COUNT},
	{"kept", NULL, OUT_BOOL},
	{"remained", NULL, OUT_LIST},
};

struct umount {
	const struct call *c;
	struct out out; /* of a dry run, and of rescues */
	struct leave_policy policy;
	uint64_t flags;
	int fd;
	int worst;
	bool lost; /* the server; the others are not asked for */
	char *artifacts; /* where they go, absolute; or NULL */
	bool many;	 /* several environments may be meant */
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
		out_row(&u->out, (struct out_cell[ARRAY_SIZE(columns)]){
					 out_str(name),
					 out_bytes(line, n),
					 out_str(NULL),
					 {.none = true},
					 {.none = true},
					 {.none = true},
					 out_str(NULL),
					 {.none = true},
					 {.none = true},
					 {.none = true},
					 {.none = true},
				 });
		out_printf(&u->out, "%.*s\n", (int)n, line);
	}
}

static struct out_cell list_of(const struct buf *b)
{
	return out_bytes(b->len ? (const char *)b->data : "", b->len);
}

static void put_row(struct umount *u, struct umounted *e,
		    const struct artifacts *a, const char *rescue)
{
	const bool kept = u->flags & CTL_FLAG_KEEP;
	const bool has = u->artifacts;

	/* Nobody sees the row of plain output, and looking takes time. */
	if (u->flags & CTL_FLAG_DRY_RUN || !u->c->json)
		return;
	umounted_check(e, u->c, kept);
	out_row(&u->out, (struct out_cell[ARRAY_SIZE(columns)]){
				 out_str(e->env),
				 out_str(NULL),
				 out_str(rescue),
				 list_of(&e->stopped),
				 out_num_if(e->more, e->more),
				 list_of(&e->freed),
				 out_str(u->artifacts),
				 out_num_if(has, a->files),
				 out_num_if(has, a->bytes),
				 out_num(kept),
				 list_of(&e->remained),
			 });
}

/* Asks the server once; ret_changes: of one that is kept for them. */
static int ask(struct umount *u, struct umounted *e, uint64_t flags,
	       uint64_t *ret_changes)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int r;

	msg_begin(&request, CTL_UMOUNT);
	msg_put_str(&request, CTL_TAG_NAME, e->env);
	msg_put_u64(&request, CTL_TAG_FLAGS, flags);
	r = remote_call(u->c, &u->fd, &request, NULL, NULL, &done);
	if (r)
		return r;
	say_done(u, e->env, &done);
	umounted_take(e, &done);
	*ret_changes = msg_get_u64(&done, CTL_TAG_COUNT, 0);
	return CODE_DONE;
}

/* What is to be taken out is looked for when nobody changes it any more, and
 * before anything is lost. */
static int take_out(struct umount *u, struct umounted *e, struct artifacts *a)
{
	const uint64_t flags = u->flags & ~(uint64_t)CTL_FLAG_DISCARD;
	uint64_t changes;
	int r = ask(u, e, flags | CTL_FLAG_KEEP, &changes);

	return r ? r : artifacts_take(u->c, e->env, a);
}

static int umount_parts(struct umount *u, struct umounted *e,
			struct artifacts *a)
{
	_cleanup_(rescued_fini) struct rescued rescued = {0};
	uint64_t changes = 0;
	int r = u->artifacts ? take_out(u, e, a) : CODE_DONE;

	if (!r)
		r = ask(u, e, u->flags, &changes);
	/* Nothing but this destroys what changed. */
	if (!r && changes)
		r = rescue_env(u->c, &u->fd, e->env, &u->policy, &rescued);
	if (r)
		return r;
	if (changes)
		rescue_tell(u->c, e->env, &rescued);
	put_row(u, e, a, changes ? rescued.name : NULL);
	return CODE_DONE;
}

static void umount_one(struct umount *u, const char *name)
{
	_cleanup_(umounted_fini) struct umounted e = {.env = name};
	struct artifacts a = {.parent = -1, .dir = -1};
	int r = CODE_DONE;

	if (u->artifacts)
		r = artifacts_open(u->c, u->artifacts, u->many ? name : NULL,
				   &a);
	if (!r)
		r = umount_parts(u, &e, &a);
	artifacts_close(&a);
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

static int find_artifacts(struct umount *u)
{
	const char *path = opt_value(u->c->args, OPT_ARTIFACTS);
	int r;

	u->many = opt_has(u->c->args, OPT_ALL) || u->c->args->arg_count > 1;
	/* A dry run makes and copies nothing. */
	if (!path || opt_has(u->c->args, OPT_DRY_RUN))
		return CODE_DONE;
	r = path_absolute(path, false, &u->artifacts);
	return r ? call_fail_err(u->c, r, NULL, path) : CODE_DONE;
}

static int run(struct call *c)
{
	const struct opt_args *a = c->args;
	struct umount u = {.c = c, .fd = -1};
	int r = check_usage(c);

	if (!r)
		r = read_policy(c, &u.policy);
	if (!r)
		r = find_artifacts(&u);
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
	free(u.artifacts);
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
