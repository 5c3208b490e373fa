/* SPDX-License-Identifier: MIT */
/*
 * cmd_df.c - `cowfs df`: what the store takes, and which snapshot how much of
 * it. Reads the store in this process; trees are read, files are not.
 */
#include "cli/cmd.h"

#include "cli/room.h"
#include "cli/snaps.h"
#include "store/gc.h"
#include "store/settings.h"
#include "store/space.h"

static const struct out_col store_columns[] = {
	{"kind", NULL, OUT_STR},
	{"disk_bytes", "On disk", OUT_SIZE},
	{"objects_bytes", "  objects", OUT_SIZE},
	{"index_bytes", "  index", OUT_SIZE},
	{"envs_bytes", "  environments", OUT_SIZE},
	{"trash_bytes", "  trash", OUT_SIZE},
	{"bytes", "Snapshots would take", OUT_SIZE},
	{"stored_bytes", "They take", OUT_SIZE},
	{"shared_bytes", "  shared", OUT_SIZE},
	{"unused_bytes", "Needed by none", OUT_SIZE},
	{"max_bytes", "Limit", OUT_SIZE},
	{"free_bytes", "Free on the disk", OUT_SIZE},
	{"reserve_bytes", "  for environments", OUT_SIZE},
};

static const struct out_col snapshot_columns[] = {
	{"kind", NULL, OUT_STR},	{"snapshot", "SNAPSHOT", OUT_ID},
	{"refs", "NAMES", OUT_LIST},	{"bytes", "SIZE", OUT_SIZE},
	{"own_bytes", "OWN", OUT_SIZE}, {"forgotten", NULL, OUT_BOOL},
};

static void usage_closep(struct usage *u)
{
	usage_fini(u);
}

static void add_store(struct out *o, struct store *s, const struct usage *u,
		      const struct settings *settings)
{
	struct space_use use = {0};
	struct space disk = {0};

	space_count(s, &use);
	(void)!space_read(s, &disk);
	out_row(o, (struct out_cell[]){
			   out_str("store"),
			   out_num(use.segments + use.index + use.envs +
				   use.trash),
			   out_num(use.segments),
			   out_num(use.index),
			   out_num(use.envs),
			   out_num(use.trash),
			   out_num(u->bytes),
			   out_num(u->stored),
			   out_num(u->shared),
			   out_num(u->waste),
			   out_num(settings->max_store),
			   out_num(disk.free),
			   out_num(disk.for_envs),
		   });
}

static void add_snapshot(struct out *o, const struct snaps *names,
			 const struct usage_snapshot *one)
{
	_cleanup_buf_ struct buf refs = {0};
	char hex[OID_HEX + 1];

	oid_to_hex(&one->id, hex);
	(void)snaps_names_of(names, &one->id, &refs);
	out_row(o, (struct out_cell[]){
			   out_str("snapshot"),
			   out_str(hex),
			   out_bytes(refs.data, refs.len),
			   out_num(one->bytes),
			   out_num(one->own),
			   out_num(one->forgotten),
		   });
}

static int print(const struct call *c, struct store *s, const struct usage *u,
		 const struct snaps *names, const struct settings *settings)
{
	_cleanup_out_ struct out top, list;
	int r;

	out_init(&top, c->json, OUT_FIELDS, store_columns,
		 ARRAY_SIZE(store_columns));
	out_init(&list, c->json, OUT_TABLE, snapshot_columns,
		 ARRAY_SIZE(snapshot_columns));
	add_store(&top, s, u, settings);
	if (u->count)
		out_printf(&top, "\n");
	for (size_t i = 0; i < u->count; i++)
		add_snapshot(&list, names, &u->snapshots[i]);
	r = call_finish(c, &top, CODE_DONE);
	if (r)
		return r;
	r = call_finish(c, &list, CODE_DONE);
	room_warn(c, s);
	return r;
}

static int run(struct call *c)
{
	_cleanup_(usage_closep) struct usage u = {0};
	_cleanup_snaps_ struct snaps names = {0};
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_store_ struct store *s = NULL;
	struct settings settings;
	int r = store_open(c->store, 0, &diag, &s);

	if (!r)
		r = settings_read(s, &diag, &settings);
	if (!r)
		r = store_usage(s, &diag, &u);
	if (!r)
		r = snaps_read_refs(&names, s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	return print(c, s, &u, &names, &settings);
}

const struct verb cmd_df = {
	.name = "df",
	.synopsis = "",
	.summary = "say what the store takes, and what each snapshot alone",
	.text = "OWN is what would be free without the snapshot: no other one "
		"has it.",
	.run = run,
};
