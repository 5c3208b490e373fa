/* SPDX-License-Identifier: MIT */
/*
 * cmd_save.c - `cowfs save`: an environment's work becomes a branch of its
 * origin.
 *
 * The server tells what changed; files, and both repositories, are read here,
 * with the caller's rights; of an environment that is not mounted through a
 * view of our own (cli/view.h).
 */
#include "cli/cmd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cli/branch.h"
#include "cli/changes.h"
#include "cli/remote.h"
#include "cli/view.h"
#include "git/save.h"
#include "store/store.h"

enum {
	OPT_BRANCH,
	OPT_MESSAGE,
	OPT_AUTHOR,
	OPT_ALL,
	OPT_TRACKED,
	OPT_HOOKS,
	PATH_BYTES = 4352,
	STAMP_BYTES = 48,
};

static const struct opt_def options[] = {
	[OPT_BRANCH] = {"branch", 'b', OPT_VALUE, ARG_TEXT, "BRANCH",
			"of the origin (default cowfs/ENV)"},
	[OPT_MESSAGE] = {"message", 'm', OPT_VALUE, ARG_TEXT, "TEXT",
			 "of the commit of what is not committed"},
	[OPT_AUTHOR] = {"author", 0, OPT_VALUE, ARG_TEXT, "AUTHOR",
			"of that commit, as \"Name <address>\""},
	[OPT_ALL] = {"all", 0, OPT_FLAG, ARG_NONE, NULL,
		     "untracked files too (this is the default)"},
	[OPT_TRACKED] = {"tracked", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only files that git tracks"},
	[OPT_HOOKS] = {"hooks", 0, OPT_FLAG, ARG_NONE, NULL,
		       "run the origin's hooks"},
};

static const struct out_col columns[] = {
	{"env", NULL, OUT_STR},		 {"branch", NULL, OUT_STR},
	{"commit", NULL, OUT_STR},	 {"updated", NULL, OUT_BOOL},
	{"commits", NULL, OUT_COUNT},	 {"files", NULL, OUT_COUNT},
	{"insertions", NULL, OUT_COUNT}, {"deletions", NULL, OUT_COUNT},
};

/* What the server knows of the environment. */
struct subject {
	struct remote_env env;
	char git_dir[PATH_BYTES];
	char base[GIT_HEX_BYTES];
	char stamp[STAMP_BYTES];
	struct gitchanges changes;
	struct view view; /* of one that is not mounted */
};

static void subject_free(struct subject **s)
{
	if (*s) {
		gitchanges_fini(&(*s)->changes);
		view_close(&(*s)->view);
	}
	free(*s);
}

/* When the environment was made: its folder's birth where the file system
 * tells, for one of the same name may have ended in the same second. */
static void make_stamp(const struct call *c, struct subject *s)
{
	char path[PATH_BYTES];
	struct statx st;

	(void)snprintf(path, sizeof path, "%s/envs/%s", c->store, s->env.name);
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &st) == 0 &&
	    (st.stx_mask & STATX_BTIME))
		(void)snprintf(s->stamp, sizeof s->stamp, "@%lld.%09u",
			       (long long)st.stx_btime.tv_sec,
			       st.stx_btime.tv_nsec);
	else
		(void)snprintf(s->stamp, sizeof s->stamp, "@%" PRIu64,
			       s->env.created);
}

static int ask(struct call *c, struct subject *s)
{
	_cleanup_msg_ struct msg done = {0};
	_cleanup_close_ int fd = -1;
	char name[REMOTE_NAME_BYTES];
	int r = remote_connect_env(c, c->args->args[0], REMOTE_WITHIN, &fd,
				   name);

	if (r)
		return r;
	r = remote_show(c, &fd, name, &done);
	if (r)
		return r;
	remote_read_env(&done, &s->env);
	remote_read_str(&done, CTL_TAG_GIT_DIR, s->git_dir, sizeof s->git_dir);
	remote_read_str(&done, CTL_TAG_GIT_COMMIT, s->base, sizeof s->base);
	make_stamp(c, s);
	if (!s->git_dir[0])
		return call_fail(c, CODE_FAILED,
				 "%s: it does not come from a git repository",
				 name);
	r = changes_fetch(c, &fd, name, &s->changes);
	return r || !strcmp(s->env.state, "mounted")
		       ? r
		       : view_open(c, name, &s->view);
}

static void say_notes(const struct call *c, const struct diag *notes)
{
	const char *line;

	for (size_t i = 0; (line = diag_line(notes, i)); i++)
		(void)call_fail(c, 0, "%s", line);
}

static void put(struct out *o, const char *env, const struct gitsave_result *r)
{
	const char *commit = r->commit[0] ? r->commit : NULL;

	if (o->json)
		out_row(o, (struct out_cell[]){
				   out_str(env),
				   out_str(r->branch),
				   out_str(commit),
				   out_num(r->is_new),
				   out_num(r->commits),
				   out_num(r->files),
				   out_num(r->insertions),
				   out_num(r->deletions),
			   });
	if (!commit)
		return;
	out_printf(o, "%s %s\n", commit, r->branch);
	out_printf(o,
		   "%" PRIu64 " commit%s, %" PRIu64 " file%s changed, %" PRIu64
		   " insertion%s(+), %" PRIu64 " deletion%s(-)\n",
		   r->commits, r->commits == 1 ? "" : "s", r->files,
		   r->files == 1 ? "" : "s", r->insertions,
		   r->insertions == 1 ? "" : "s", r->deletions,
		   r->deletions == 1 ? "" : "s");
}

static int tell(struct call *c, const char *env,
		const struct gitsave_result *result)
{
	_cleanup_out_ struct out o;

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	say_notes(c, &result->notes);
	if (!result->commit[0])
		(void)call_fail(c, 0, "%s: there is nothing to save", env);
	put(&o, env, result);
	return call_finish(c, &o, CODE_DONE);
}

static int save(struct call *c, struct subject *s, struct store *store)
{
	const struct opt_args *a = c->args;
	const struct gitsave_options o = {
		.branch = opt_value(a, OPT_BRANCH),
		.message = opt_value(a, OPT_MESSAGE),
		.author = opt_value(a, OPT_AUTHOR),
		.stamp = s->stamp,
		.base = s->base,
		.tracked = opt_has(a, OPT_TRACKED),
		.hooks = opt_has(a, OPT_HOOKS),
	};
	struct gitwork work = {
		.origin = s->git_dir,
		.view = s->view.is_open ? s->view.path : s->env.path,
		.env = s->env.name,
		.store = store,
		.changes = &s->changes,
	};
	_cleanup_(gitsave_result_fini) struct gitsave_result result = {0};
	_cleanup_diag_ struct diag diag = {0};
	int r = oid_from_hex(s->env.snapshot, &work.snapshot);

	if (r == 0)
		r = gitsave(&work, &o, &diag, &result);
	if (r == 0)
		return tell(c, s->env.name, &result);
	(void)call_fail_err(c, r, &diag, s->env.name);
	return r == -EINVAL ? CODE_USAGE : exit_code_of(r);
}

static int run(struct call *c)
{
	_cleanup_(subject_free) struct subject *s = calloc(1, sizeof *s);
	const char *branch = opt_value(c->args, OPT_BRANCH);
	_cleanup_diag_ struct diag diag = {0};
	struct store *store = NULL;
	int r;

	if (!s)
		return call_fail_err(c, -ENOMEM, NULL, "save");
	if (opt_has(c->args, OPT_ALL) && opt_has(c->args, OPT_TRACKED))
		return call_fail(c, CODE_USAGE,
				 "--all: not together with --tracked");
	r = branch ? branch_check(c, branch) : CODE_DONE;
	if (r == CODE_DONE)
		r = ask(c, s);
	if (r)
		return r;
	r = store_open(c->store, STORE_READ_ONLY, &diag, &store);
	if (r < 0)
		return call_fail_err(c, r, &diag, c->store);
	r = save(c, s, store);
	store_close(store);
	return r;
}

const struct verb cmd_save = {
	.name = "save",
	.synopsis = "ENV",
	.summary = "bring an environment's work to a branch of its origin",
	.text = "Its commits, and one more of what is not committed. Only the "
		"branch changes in the\norigin. A branch that is checked out, "
		"or has commits that ENV has not: exit 4.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
