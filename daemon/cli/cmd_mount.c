/* SPDX-License-Identifier: MIT */
/*
 * cmd_mount.c - `cowfs mount`: a snapshot becomes an environment.
 *
 * A name goes to the server as it is, so that this process opens no store and
 * is done in a millisecond. A path is imported first, here, with the caller's
 * rights. A branch is switched to afterwards, through the mount; when that
 * fails, an environment that was made for it is thrown away again.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/artifacts.h"
#include "cli/branch.h"
#include "cli/import.h"
#include "cli/path.h"
#include "cli/remote.h"
#include "store/store.h"

enum {
	OPT_AT,
	OPT_VIEW,
	OPT_OTHERS,
	OPT_VOLATILE,
	OPT_QUOTA,
	OPT_TTL,
	OPT_NET,
	OPT_PORT,
	OPT_RO,
	OPT_BRANCH,
	OPT_NEW_BRANCH,
	OPT_ARTIFACT,
};

static const struct opt_def options[] = {
	[OPT_AT] = {"at", 0, OPT_VALUE, ARG_DIR, "DIR",
		    "mount there instead of in the store; made when missing"},
	[OPT_VIEW] =
		{"view", 0, OPT_VALUE, ARG_CHOICE, "VIEW",
		 "how the kernel sees it: auto or fuse, which is the same"},
	[OPT_OTHERS] = {"allow-other", 0, OPT_FLAG, ARG_NONE, NULL,
			"let others in, as far as the files' modes allow"},
	[OPT_VOLATILE] = {"volatile", 0, OPT_FLAG, ARG_NONE, NULL,
			  "fsync waits for nothing: for work that may be lost"},
	[OPT_QUOTA] = {"quota", 0, OPT_VALUE, ARG_TEXT, "SIZE[,INODES]",
		       "it may store so many bytes and make so many inodes"},
	[OPT_TTL] = {"ttl", 0, OPT_VALUE, ARG_TEXT, "TIME",
		     "unmount and keep it after so long"},
	[OPT_NET] = {"net", 0, OPT_VALUE, ARG_TEXT, "NET",
		     "the network of commands: host, private or none"},
	[OPT_PORT] = {"port", 0, OPT_LIST, ARG_TEXT, "PORT",
		      "a port that the host is to reach"},
	[OPT_RO] = {"ro", 0, OPT_FLAG, ARG_NONE, NULL, "read-only, this time"},
	[OPT_BRANCH] = {"branch", 0, OPT_VALUE, ARG_TEXT, "BRANCH",
			"switch the environment's repository to this branch"},
	[OPT_NEW_BRANCH] = {"new-branch", 0, OPT_VALUE, ARG_TEXT, "BRANCH",
			    "make this branch there, and switch to it"},
	[OPT_ARTIFACT] = {"artifact", 0, OPT_LIST, ARG_TEXT, "PATTERN",
			  "what \"umount --artifacts\" copies, as "
			  "'reports/**'"},
};

static const struct out_col columns[] = {
	{"name", NULL, OUT_STR},
	{"path", NULL, OUT_STR},
};

/* What is to be mounted where. */
struct target {
	char snapshot[OID_HEX + 1]; /* of an imported path, else "" */
	const char *ref;
	const char *env;    /* or NULL */
	const char *at;	    /* as given, or NULL */
	const char *branch; /* or NULL */
	bool new_branch;
	bool others;
	bool is_volatile;
	char *at_absolute;
	char *path; /* of what was imported */
	bool read_only;
	bool has_artifacts;
	struct limits limits;
	struct ports_wish ports;
};

static void target_fini(struct target *t)
{
	free(t->at_absolute);
	free(t->path);
}

static int check_names(const struct call *c, const struct target *t)
{
	const char *view = opt_value(c->args, OPT_VIEW);
	char ref[STORE_REF_MAX];

	if (view && strcmp(view, "auto") != 0 && strcmp(view, "fuse") != 0)
		return call_fail(c, CODE_USAGE, "--view: %s: not auto or fuse",
				 view);
	if (t->env && !name_is_label(t->env))
		return call_bad_name(c, t->env, "name for an environment");
	if (path_is_path(t->ref))
		return CODE_DONE;
	if (store_ref_normalize(t->ref, ref, sizeof ref))
		return call_bad_name(c, t->ref, "name of a snapshot");
	return CODE_DONE;
}

static int check_branch(const struct call *c, struct target *t)
{
	const char *old = opt_value(c->args, OPT_BRANCH);
	const char *new = opt_value(c->args, OPT_NEW_BRANCH);

	if (old && new)
		return call_fail(
			c, CODE_USAGE,
			"--branch and --new-branch exclude each other");
	t->branch = old ? old : new;
	t->new_branch = new;
	return t->branch ? branch_check(c, t->branch) : CODE_DONE;
}

static int import_target(const struct call *c, struct target *t)
{
	struct import_options o = {0};
	struct import_result res = {0};
	int r = import_path_of(c, t->ref, NULL, &o, &res);

	if (r)
		return r;
	oid_to_hex(&res.id, t->snapshot);
	r = path_absolute(t->ref, true, &t->path);
	if (r)
		return call_fail_err(c, r, NULL, t->ref);
	t->ref = path_last(t->path);
	if (!*t->ref)
		t->ref = "root";
	return CODE_DONE;
}

/* Takes a mount back; what it says is of no interest any more. */
static void undo_mount(const struct call *c, int *fd, const char *name)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};

	msg_begin(&request, CTL_UMOUNT);
	msg_put_str(&request, CTL_TAG_NAME, name);
	msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_DISCARD);
	_unused_ const int ignored =
		remote_call(c, fd, &request, NULL, NULL, &done);
}

/* Says whether the argument is an environment that exists already. */
static bool is_environment(const struct call *c, const struct target *t)
{
	return !t->snapshot[0] && !t->env && remote_has_env(c, t->ref);
}

static int print_mount(const struct call *c, const struct target *t,
		       struct remote_env *e)
{
	_cleanup_out_ struct out o;

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	/* The server's path counts: the environment may have been elsewhere. */
	if (t->at && !strcmp(e->path, t->at_absolute))
		(void)snprintf(e->path, sizeof e->path, "%s", t->at);
	out_row(&o, (struct out_cell[]){out_str(e->name), out_str(e->path)});
	out_printf(&o, "%s\n", e->path);
	return call_finish(c, &o, CODE_DONE);
}

static int mount_target(const struct call *c, const struct target *t)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	const bool existed = is_environment(c, t);
	_cleanup_close_ int fd = -1;
	struct remote_env e;
	uint64_t flags;
	int r = remote_connect(c, &fd);

	if (r)
		return r;
	msg_begin(&request, CTL_MOUNT);
	if (t->snapshot[0])
		msg_put_str(&request, CTL_TAG_SNAPSHOT, t->snapshot);
	msg_put_str(&request, CTL_TAG_REF, t->ref);
	if (t->env)
		msg_put_str(&request, CTL_TAG_NAME, t->env);
	if (t->at)
		msg_put_str(&request, CTL_TAG_AT, t->at_absolute);
	flags = (t->others ? CTL_FLAG_OTHERS : 0) |
		(t->is_volatile ? CTL_FLAG_VOLATILE : 0) |
		(t->read_only ? CTL_FLAG_READ_ONLY : 0);
	if (flags)
		msg_put_u64(&request, CTL_TAG_FLAGS, flags);
	limits_ask(&request, &t->limits);
	ports_ask(&request, &t->ports);
	r = remote_call(c, &fd, &request, NULL, NULL, &done);
	if (r)
		return r;
	remote_read_env(&done, &e);
	if (t->has_artifacts)
		r = artifacts_keep(c, OPT_ARTIFACT, e.name);
	if (!r && t->branch)
		r = branch_switch(c, e.path, t->branch, t->new_branch);
	if (r && !existed)
		undo_mount(c, &fd, e.name);
	return r ? r : print_mount(c, t, &e);
}

static int run(struct call *c)
{
	const struct opt_args *a = c->args;
	_cleanup_(target_fini) struct target t = {
		.ref = a->args[0],
		.env = a->arg_count > 1 ? a->args[1] : NULL,
		.at = opt_value(a, OPT_AT),
		.others = opt_has(a, OPT_OTHERS),
		.is_volatile = opt_has(a, OPT_VOLATILE),
		.read_only = opt_has(a, OPT_RO),
	};
	int r = check_names(c, &t);

	if (!r)
		r = limits_parse(c, opt_value(a, OPT_QUOTA),
				 opt_value(a, OPT_TTL), &t.limits);
	if (r == 0)
		r = ports_parse(c, OPT_NET, OPT_PORT, &t.ports);
	if (r == 0)
		r = check_branch(c, &t);
	if (r == 0)
		r = artifacts_check(c, OPT_ARTIFACT, &t.has_artifacts);
	if (r)
		return r;
	if (t.at) {
		r = path_absolute(t.at, false, &t.at_absolute);
		if (!r && strlen(t.at_absolute) >= PATH_MAX)
			return call_fail(c, CODE_USAGE, "--at: %s",
					 err_text(ENAMETOOLONG));
		if (r)
			return call_fail_err(c, r, NULL, t.at);
	}
	if (path_is_path(t.ref)) {
		r = import_target(c, &t);
		if (r)
			return r;
	} else if (!remote_has_store(c)) {
		if (errno == EACCES)
			return remote_fail_denied(c);
		r = call_fail(c, CODE_FAILED, "%s: unknown snapshot", t.ref);
		call_hint("there is no store at %s", c->store);
		return r;
	}
	return mount_target(c, &t);
}

const struct verb cmd_mount = {
	.name = "mount",
	.synopsis = "SNAPSHOT|PATH [ENV]",
	.summary = "mount a snapshot as an environment, print its path",
	.text = "SNAPSHOT is a name, NAME:TAG, an id or its start, or an "
		"environment that is kept.\nAn argument with a '/' is a "
		"directory, which is imported first. Without ENV a\nname is "
		"made up.\n\n" LIMITS_HELP "\n" PORTS_HELP,
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_SNAPSHOT,
	.choices = "auto fuse",
	.min_args = 1,
	.max_args = 2,
	.run = run,
};
