/* SPDX-License-Identifier: MIT */
/*
 * cmd_rm.c - `cowfs rm`: names go, and with its last name a snapshot.
 *
 * Environments made from a snapshot keep it, whatever is removed here; which
 * ones those are is asked first, of the server where one runs. None is started:
 * on a full disk, where this is needed most, it might not come up.
 */
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "cli/remote.h"
#include "cli/snaps.h"

enum { OPT_DRY_RUN };

static const struct opt_def options[] = {
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only say what would be removed"},
};

static const struct out_col columns[] = {
	{"ref", NULL, OUT_STR},
	{"snapshot", NULL, OUT_ID},
	{"forgotten", NULL, OUT_BOOL},
};

struct rm {
	const struct call *c;
	struct store *store;
	struct out out;
	struct buf used; /* per environment: hex id and name, NUL after each */
	bool dry_run;
};

static int collect_used(void *ctx, const struct msg *row)
{
	struct buf *used = ctx;
	struct remote_env e;

	remote_read_env(row, &e);
	buf_put(used, e.snapshot, strlen(e.snapshot) + 1);
	buf_put(used, e.name, strlen(e.name) + 1);
	return buf_error(used);
}

static int ask_used(struct rm *rm)
{
	const int r = remote_has_envs(rm->c);

	if (r <= 0)
		return r ? remote_check_envs(rm->c, r) : CODE_DONE;
	return remote_list(rm->c, collect_used, &rm->used);
}

static void note_used(const struct rm *rm, const char *what, const char *hex)
{
	_cleanup_buf_ struct buf names = {0};
	const char *text;

	for (size_t i = 0; i < rm->used.len;) {
		const char *id = (const char *)rm->used.data + i;
		const char *name = id + strlen(id) + 1;

		if (!strcmp(id, hex))
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
		i += strlen(id) + strlen(name) + 2;
	}
	if (!names.len || buf_error(&names))
		return;
	text = buf_str(&names);
	if (text)
		(void)call_fail(
			rm->c, 0, "%s: %s; environments still stand on it: %s",
			what, rm->dry_run ? "would be removed" : "removed",
			text);
}

/* Forgets a snapshot without names. ref: the name that went, or NULL. */
static int forget(struct rm *rm, const char *ref, const struct oid *id,
		  bool last)
{
	char hex[OID_HEX + 1];
	int r = 0;

	oid_to_hex(id, hex);
	if (last && !rm->dry_run)
		r = store_snapshot_forget(rm->store, id);
	if (r == -ENOENT) /* a name of something that is forgotten already */
		r = 0;
	if (r == -EBUSY) { /* somebody gave it a name just now */
		last = false;
		r = 0;
	}
	if (r)
		return call_fail_err(rm->c, r, NULL, ref ? ref : hex);
	out_row(&rm->out, (struct out_cell[]){
				  out_str(ref),
				  out_str(hex),
				  out_num(last),
			  });
	if (rm->dry_run && ref)
		out_printf(&rm->out, "would remove the name %s\n", ref);
	if (rm->dry_run && last)
		out_printf(&rm->out, "would remove the snapshot %s\n", hex);
	if (last)
		note_used(rm, ref ? ref : hex, hex);
	return CODE_DONE;
}

static int remove_ref(struct rm *rm, const char *ref, const struct oid *id)
{
	_cleanup_snaps_ struct snaps all = {0};
	_cleanup_buf_ struct buf names = {0};
	size_t others;
	int r = rm->dry_run ? 0 : store_ref_delete(rm->store, ref);

	if (!r)
		r = snaps_read_refs(&all, rm->store);
	if (r)
		return call_fail_err(rm->c, r, NULL, ref);
	others = snaps_names_of(&all, id, &names);
	return forget(rm, ref, id, others == (rm->dry_run ? 1 : 0));
}

static int remove_id(struct rm *rm, const char *what, const struct oid *id)
{
	_cleanup_snaps_ struct snaps all = {0};
	_cleanup_buf_ struct buf names = {0};
	int r = snaps_read_refs(&all, rm->store);
	const char *text;

	if (r)
		return call_fail_err(rm->c, r, NULL, what);
	if (!snaps_names_of(&all, id, &names))
		return forget(rm, NULL, id, true);
	for (size_t i = 0; i + 1 < names.len; i++)
		if (!names.data[i])
			names.data[i] = ' ';
	text = buf_str(&names);
	r = call_fail(rm->c, CODE_FAILED, "%s: still has names: %s", what,
		      text ? text : "?");
	call_hint("remove the names instead");
	return r;
}

static int remove_one(struct rm *rm, const char *what)
{
	_cleanup_diag_ struct diag diag = {0};
	char ref[STORE_REF_MAX];
	struct oid id;
	int r = store_ref_normalize(what, ref, sizeof ref);

	if (r)
		return call_bad_name(rm->c, what, "name of a snapshot");
	r = store_ref_get(rm->store, ref, &id);
	if (!r)
		return remove_ref(rm, ref, &id);
	if (r == -ENOENT)
		r = store_resolve(rm->store, what, &diag, &id);
	if (r)
		return call_fail_err(rm->c, r, &diag, what);
	return remove_id(rm, what, &id);
}

static int run(struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_store_ struct store *s = NULL;
	struct rm rm = {.c = c, .dry_run = opt_has(c->args, OPT_DRY_RUN)};
	int worst, r = 0;

	out_init(&rm.out, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	worst = ask_used(&rm);
	if (!worst)
		r = store_open(c->store, 0, &diag, &s);
	if (r)
		worst = call_fail_err(c, r, &diag, c->store);
	rm.store = s;
	for (size_t i = 0, n = worst ? 0 : c->args->arg_count; i < n; i++) {
		r = remove_one(&rm, c->args->args[i]);
		worst = MAX(worst, r);
	}
	worst = call_finish(c, &rm.out, worst);
	out_fini(&rm.out);
	buf_fini(&rm.used);
	return worst;
}

const struct verb cmd_rm = {
	.name = "rm",
	.synopsis = "NAME[:TAG]|ID...",
	.summary = "remove names; with its last name a snapshot goes",
	.text = "An id is removed when no name points to it. Environments keep "
		"what they were made\nfrom.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_SNAPSHOT,
	.min_args = 1,
	.max_args = OPT_MANY,
	.run = run,
};
