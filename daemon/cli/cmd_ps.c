/* SPDX-License-Identifier: MIT */
/*
 * cmd_ps.c - `cowfs ps` and `cowfs show`: what environments there are.
 *
 * No server is started for `ps`: without one the store tells what there is.
 */
#include "cli/cmd.h"

#include <errno.h>

#include "cli/remote.h"

/* Of both verbs in JSON: columns, and their cells. */
/* clang-format off */
#define LIMITS_COLUMNS                                                         \
	{"quota", NULL, OUT_SIZE}, {"quota_inodes", NULL, OUT_COUNT},          \
	{"used", NULL, OUT_SIZE}, {"used_inodes", NULL, OUT_COUNT},            \
	{"ttl", NULL, OUT_SPAN}, {"expires", NULL, OUT_TIME},                  \
	{"read_only", NULL, OUT_BOOL}
/* clang-format on */
#define LIMITS_CELLS(r)                                                        \
	out_num_if((r)->bytes, (r)->bytes),                                    \
		out_num_if((r)->inodes, (r)->inodes),                          \
		out_num_if((r)->has_use, (r)->used_bytes),                     \
		out_num_if((r)->has_use, (r)->used_inodes),                    \
		out_num_if((r)->ttl_sec, (r)->ttl_sec),                        \
		out_num_if((r)->expires, (r)->expires),                        \
		out_num((r)->read_only)

/* --- ps ---------------------------------------------------------------- */

static const struct out_col ps_columns[] = {
	{"name", "NAME", OUT_STR},   {"state", "STATE", OUT_STR},
	{NULL, "SNAPSHOT", OUT_STR}, {"snapshot", NULL, OUT_ID},
	{"ref", NULL, OUT_STR},	     {"source", NULL, OUT_STR},
	{NULL, "USED", OUT_STR},     {NULL, "QUOTA", OUT_STR},
	{NULL, "TTL", OUT_STR},	     {"created", "CREATED", OUT_TIME},
	{"path", "PATH", OUT_STR},   LIMITS_COLUMNS,
};

enum { SHORT_ID = 12 };

static int add_row(void *ctx, const struct msg *row)
{
	struct limits_text text = {0};
	struct remote_env e;
	struct out_cell shown;

	remote_read_env(row, &e);
	shown = out_str(e.ref[0] ? e.ref : e.snapshot);
	if (!e.ref[0])
		shown.n = MIN(shown.n, (size_t)SHORT_ID);
	limits_describe(&e.limits, LIMITS_SHORT, &text);
	out_row(ctx, (struct out_cell[]){
			     out_str(e.name),
			     out_str(e.state),
			     shown,
			     out_str(e.snapshot),
			     out_str(e.ref),
			     out_str(e.source),
			     out_str(buf_str(&text.used)),
			     out_str(buf_str(&text.quota)),
			     out_str(buf_str(&text.ttl)),
			     out_num(e.created),
			     out_str(e.path),
			     LIMITS_CELLS(&e.limits),
		     });
	limits_text_fini(&text);
	return 0;
}

static int run_ps(struct call *c)
{
	_cleanup_out_ struct out o;
	int r;

	out_init(&o, c->json, OUT_TABLE, ps_columns, ARRAY_SIZE(ps_columns));
	r = remote_has_envs(c);
	if (r <= 0)
		return remote_check_envs(c, r);
	r = remote_list(c, add_row, &o);
	return r ? r : call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_ps = {
	.name = "ps",
	.synopsis = "",
	.summary = "list the environments",
	.text = "STATE is mounted, kept (unmounted, with its changes) or dead "
		"(its mount is broken).\nTTL is what is left until it is "
		"unmounted and kept; \"over\": it is still busy.",
	.run = run_ps,
};

/* --- show -------------------------------------------------------------- */

static const struct out_col show_columns[] = {
	{"name", "name", OUT_STR},
	{"state", "state", OUT_STR},
	{"path", "path", OUT_STR},
	{"ref", "ref", OUT_STR},
	{"snapshot", "snapshot", OUT_ID},
	{"source", "source", OUT_STR},
	{"created", "created", OUT_TIME},
	{"inodes", "inodes", OUT_COUNT},
	{"changed", "changed", OUT_COUNT},
	{"data", "data", OUT_SIZE},
	{"journal", "journal", OUT_SIZE},
	{"requests", "requests", OUT_COUNT},
	{"reads", "reads", OUT_COUNT},
	{"git_dir", "git_dir", OUT_STR},
	{"git_head", "git_head", OUT_STR},
	{"git_commit", "git_commit", OUT_STR},
	{"fsync", "fsync", OUT_STR},
	{NULL, "used", OUT_STR},
	{NULL, "quota", OUT_STR},
	{NULL, "ttl", OUT_STR},
	{NULL, "read-only", OUT_BOOL},
	LIMITS_COLUMNS,
};

/* What the snapshot's record says of git; too big for the stack. */
struct git_fields {
	char dir[4352];
	char head[4352];
	char commit[80];
};

static void read_git(const struct msg *done, struct git_fields *g)
{
	remote_read_str(done, CTL_TAG_GIT_DIR, g->dir, sizeof g->dir);
	remote_read_str(done, CTL_TAG_GIT_HEAD, g->head, sizeof g->head);
	remote_read_str(done, CTL_TAG_GIT_COMMIT, g->commit, sizeof g->commit);
}

static int run_show(struct call *c)
{
	_cleanup_free_ struct git_fields *g = calloc(1, sizeof *g);
	_cleanup_msg_ struct msg done = {0};
	_cleanup_close_ int fd = -1;
	_cleanup_(limits_text_fini) struct limits_text text = {0};
	_cleanup_out_ struct out o;
	char name[REMOTE_NAME_BYTES];
	struct remote_env e;
	int r;

	out_init(&o, c->json, OUT_FIELDS, show_columns,
		 ARRAY_SIZE(show_columns));
	if (!g)
		return call_fail_err(c, -ENOMEM, NULL, "show");
	r = remote_connect_env(c, c->args->args[0], REMOTE_WITHIN, &fd, name);
	if (r)
		return r;
	r = remote_show(c, &fd, name, &done);
	if (r)
		return r;
	remote_read_env(&done, &e);
	limits_describe(&e.limits, LIMITS_LONG, &text);
	read_git(&done, g);
	out_row(&o, (struct out_cell[]){
			    out_str(e.name),
			    out_str(e.state),
			    out_str(e.path),
			    out_str(e.ref),
			    out_str(e.snapshot),
			    out_str(e.source),
			    out_num(e.created),
			    out_num(msg_get_u64(&done, CTL_TAG_INODES, 0)),
			    out_num(msg_get_u64(&done, CTL_TAG_CHANGED, 0)),
			    out_num(msg_get_u64(&done, CTL_TAG_DATA, 0)),
			    out_num(msg_get_u64(&done, CTL_TAG_JOURNAL, 0)),
			    out_num(msg_get_u64(&done, CTL_TAG_REQUESTS, 0)),
			    out_num(msg_get_u64(&done, CTL_TAG_READS, 0)),
			    out_str(g->dir),
			    out_str(g->head),
			    out_str(g->commit),
			    out_str(msg_get_u64(&done, CTL_TAG_VOLATILE, 0)
					    ? "volatile"
					    : "durable"),
			    out_str(buf_str(&text.used)),
			    out_str(buf_str(&text.quota)),
			    out_str(buf_str(&text.ttl)),
			    out_num(e.limits.read_only),
			    LIMITS_CELLS(&e.limits),
		    });
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_show = {
	.name = "show",
	.synopsis = "ENV",
	.summary = "tell all about one environment",
	.text = "ENV is a name, or a path inside the environment.",
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run_show,
};
