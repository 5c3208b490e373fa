/* SPDX-License-Identifier: MIT */
/*
 * cmd_fsck.c - `cowfs fsck`: is everything in the store what it should be?
 *
 * The store's part is fs/store/fsck.h, that of environments fs/env/check.h;
 * here both are put together and told, one line a finding. No server is
 * needed, and none is started.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/quote.h"
#include "cli/snaps.h"
#include "env/check.h"
#include "store/fsck.h"

enum { OPT_FAST, OPT_REPAIR };

static const struct opt_def options[] = {
	[OPT_FAST] = {"fast", 0, OPT_FLAG, ARG_NONE, NULL,
		      "do not read the content of files"},
	[OPT_REPAIR] = {"repair", 0, OPT_FLAG, ARG_NONE, NULL,
			"repair what can be; move aside what cannot be read"},
};

static const struct out_col columns[] = {
	{"kind", NULL, OUT_STR},  {"rule", NULL, OUT_STR},
	{"where", NULL, OUT_STR}, {"text", NULL, OUT_STR},
	{"object", NULL, OUT_ID}, {"snapshot", NULL, OUT_ID},
	{"refs", NULL, OUT_LIST}, {"path", NULL, OUT_STR},
};

struct check {
	const struct call *c;
	struct fsck *fsck;
	struct out out;
	struct snaps names; /* of snapshots, read at the first hit */
	bool has_names;
	const char *env; /* that is being checked */
};

/* --- telling ------------------------------------------------------------- */

static const char *kind_text(enum fsck_kind kind)
{
	switch (kind) {
	case FSCK_DAMAGE:
		return "damage";
	case FSCK_HIT:
		return "hit";
	case FSCK_DONE:
		return "repaired";
	case FSCK_NOTE:
		break;
	}
	return "note";
}

static void put_names(struct check *k, const struct oid *id, struct buf *refs)
{
	struct store *s = k->fsck ? fsck_store(k->fsck) : NULL;

	if (!k->has_names && s)
		k->has_names = snaps_read_refs(&k->names, s) == 0;
	if (k->has_names)
		(void)snaps_names_of(&k->names, id, refs);
}

/* "hit: NAME:TAG ID: PATH: what" */
static void put_hit(struct buf *line, const struct fsck_finding *f,
		    const struct buf *refs, const char *hex)
{
	buf_printf(line, "hit: ");
	for (size_t i = 0; i < refs->len;) {
		const char *name = (const char *)refs->data + i;

		buf_printf(line, "%s ", name);
		i += strlen(name) + 1;
	}
	buf_printf(line, "%s: ", hex);
	if (f->path_len > 0) {
		quote_line(line, f->path, f->path_len);
		buf_printf(line, ": ");
	}
	buf_printf(line, "%s\n", f->text);
}

static void put_line(struct buf *line, const struct fsck_finding *f)
{
	buf_printf(line, "%s: ", *f->rule ? f->rule : kind_text(f->kind));
	if (*f->where) {
		quote_line(line, f->where, strlen(f->where));
		buf_printf(line, ": ");
	}
	quote_line(line, f->text, strlen(f->text));
	buf_put_u8(line, '\n');
}

static void tell(void *ctx, const struct fsck_finding *f)
{
	struct check *k = ctx;
	_cleanup_buf_ struct buf line = {0}, refs = {0};
	char object[OID_HEX + 1] = "", snapshot[OID_HEX + 1] = "";

	if (f->object)
		oid_to_hex(f->object, object);
	if (f->snapshot) {
		oid_to_hex(f->snapshot, snapshot);
		put_names(k, f->snapshot, &refs);
	}
	out_row(&k->out, (struct out_cell[]){
				 out_str(kind_text(f->kind)),
				 out_str(*f->rule ? f->rule : NULL),
				 out_str(*f->where ? f->where : NULL),
				 out_str(f->text),
				 out_str(f->object ? object : NULL),
				 out_str(f->snapshot ? snapshot : NULL),
				 out_bytes(refs.data, refs.len),
				 out_bytes(f->path, f->path_len),
			 });
	if (f->kind == FSCK_HIT)
		put_hit(&line, f, &refs, snapshot);
	else
		put_line(&line, f);
	out_raw(&k->out, line.data, line.len);
}

/* --- environments -------------------------------------------------------- */

static void tell_env(void *ctx, const char *rule, const char *text)
{
	struct check *k = ctx;
	char where[NAME_MAX_ENV + 16];

	(void)snprintf(where, sizeof where, "envs/%s", k->env);
	fsck_tell(k->fsck, &(struct fsck_finding){.kind = FSCK_DAMAGE,
						  .rule = rule,
						  .where = where,
						  .text = text});
}

static void note_env(struct check *k, const char *text)
{
	fsck_tell(k->fsck, &(struct fsck_finding){.kind = FSCK_NOTE,
						  .rule = "",
						  .where = k->env,
						  .text = text});
}

/* What cannot be opened is moved aside; a torn tail is kept and cut. */
static int repair_env(struct check *k, const struct env_checked *e,
		      bool tainted)
{
	char path[NAME_MAX_ENV + 32];
	int r;

	(void)snprintf(path, sizeof path, "envs/%s", k->env);
	if (e->state == ENV_LOST && !tainted)
		return fsck_set_aside(k->fsck, path);
	if (e->state != ENV_TORN)
		return 0;
	(void)snprintf(path, sizeof path, "envs/%s/journal", k->env);
	r = fsck_keep_copy(k->fsck, path);
	return r < 0 ? r : env_mend(fsck_store(k->fsck), k->env);
}

static void be_silent(void *ctx, const char *rule, const char *text)
{
}

static int check_env(struct check *k, const char *name, bool repair)
{
	struct env_checked e;
	bool tainted;
	int r;

	k->env = name;
	if (env_is_unborn(fsck_store(k->fsck), name)) {
		if (!repair)
			note_env(k, "was new when the machine stopped, and "
				    "never committed: nothing is lost");
		return 0;
	}
	r = env_check(fsck_store(k->fsck), name, repair ? be_silent : tell_env,
		      k, &e);
	/* Umounted and removed this moment. */
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (e.state == ENV_BUSY && !repair)
		note_env(k, "in use; its journal is not checked");
	r = e.has_snapshot && e.state != ENV_ROOTLESS
		    ? fsck_check_root(k->fsck, &e.snapshot)
		    : 0;
	if (r < 0)
		return r;
	tainted = r > 0;
	if (tainted && !repair)
		note_env(k, "its snapshot is damaged");
	return repair ? repair_env(k, &e, tainted) : 0;
}

/* An environment and, where it has one that is a view, its HOME. */
static int check_both(struct check *k, const char *name, bool repair)
{
	char home[NAME_MAX_ENV + 1];
	int r = check_env(k, name, repair);

	name_of_home(name, home);
	if (r == 0)
		r = check_env(k, home, repair);
	k->env = NULL;
	return r;
}

static int check_envs(struct check *k, bool repair)
{
	_cleanup_buf_ struct buf names = {0};
	struct store *s = fsck_store(k->fsck);
	int r;

	if (!s)
		return 0;
	r = store_env_names(s, O_NOFOLLOW, &names);
	/* Then the store's part has told. */
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	for (size_t i = 0; r == 0 && i < names.len; i += NAME_MAX_LABEL + 1)
		r = check_both(k, (const char *)names.data + i, repair);
	return r;
}

/* --- the whole ----------------------------------------------------------- */

static int check_all(struct check *k, bool repair)
{
	int r = fsck_check(k->fsck);

	if (r == 0)
		r = check_envs(k, false);
	if (r == 0 && repair && fsck_store(k->fsck))
		r = env_clear_unborn(fsck_store(k->fsck));
	if (r < 0 || !repair || fsck_damage(k->fsck) == 0)
		return r;
	k->has_names = false;
	r = fsck_repair(k->fsck);
	if (r == 0)
		r = check_envs(k, true);
	return r == 0 ? check_envs(k, false) : r;
}

static int finish(struct check *k)
{
	const size_t damage = fsck_damage(k->fsck);

	out_printf(&k->out, "%zu problems\n", damage);
	return call_finish(k->c, &k->out, damage ? CODE_NO : CODE_DONE);
}

static int run(struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};
	const bool repair = opt_has(c->args, OPT_REPAIR);
	const unsigned flags = (opt_has(c->args, OPT_FAST) ? FSCK_FAST : 0) |
			       (repair ? FSCK_REPAIR : 0);
	struct check k = {.c = c};
	int r;

	out_init(&k.out, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	r = fsck_open(c->store, flags, tell, &k, &diag, &k.fsck);
	if (r == 0)
		r = check_all(&k, repair);
	if (r < 0) {
		/* What was found is worth knowing all the same. */
		(void)!out_finish(&k.out);
		r = call_fail_err(c, r, &diag, c->store);
	} else {
		r = finish(&k);
	}
	fsck_close(k.fsck);
	snaps_fini(&k.names);
	out_fini(&k.out);
	return r;
}

const struct verb cmd_fsck = {
	.name = "fsck",
	.synopsis = "",
	.summary = "check every byte of the store",
	.text = "One line for each damage: the rule of docs/format.md, the "
		"place, what is wrong;\nthen the snapshots and paths that it "
		"hits. Exit 1 when there is any. --repair needs\nthe store "
		"alone (cowfs daemon stop); what it cannot read is moved to "
		"STORE/quarantine.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.run = run,
};
