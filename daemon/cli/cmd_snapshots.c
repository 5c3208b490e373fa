/* SPDX-License-Identifier: MIT */
/*
 * cmd_snapshots.c - `cowfs snapshots` and `cowfs tag`: what the store holds,
 * and giving it names. Both read the store in this process.
 */
#include "cli/cmd.h"

#include <string.h>

#include "cli/snaps.h"

/* --- snapshots --------------------------------------------------------- */

static const struct out_col columns[] = {
	{"id", "ID", OUT_ID},
	{"refs", "NAMES", OUT_LIST},
	{"inodes", "INODES", OUT_COUNT},
	{"bytes", "SIZE", OUT_SIZE},
	{"imported", "IMPORTED", OUT_TIME},
	{"host", NULL, OUT_STR},
	{"message", NULL, OUT_STR},
	{"git_dir", NULL, OUT_STR},
	{"git_head", NULL, OUT_STR},
	{"git_commit", NULL, OUT_STR},
	{"source", "SOURCE", OUT_STR},
};

enum text_at { SOURCE, HOST, MESSAGE, GIT_DIR, GIT_HEAD, GIT_COMMIT, TEXTS };

/* A snapshot's facts; the strings follow each other in text. */
struct item {
	struct oid id;
	int64_t time_sec;
	uint64_t inodes;
	uint64_t bytes;
	char *text; /* enum text_at of them, each ends in NUL */
};

struct items {
	struct item *v;
	size_t count;
};

static void items_fini(struct items *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->v[i].text);
	free(all->v);
}

static int add_item(void *ctx, const struct snapshot_info *info)
{
	struct items *all = ctx;
	struct item *v = realloc(all->v, (all->count + 1) * sizeof *all->v);
	_cleanup_buf_ struct buf text = {0};
	const char *const texts[TEXTS] = {
		[SOURCE] = info->source,     [HOST] = info->host,
		[MESSAGE] = info->message,   [GIT_DIR] = info->git_dir,
		[GIT_HEAD] = info->git_head, [GIT_COMMIT] = info->git_commit,
	};

	if (!v)
		return -ENOMEM;
	all->v = v;
	for (int i = 0; i < TEXTS; i++)
		buf_put(&text, texts[i], strlen(texts[i]) + 1);
	if (buf_error(&text))
		return -ENOMEM;
	v[all->count++] = (struct item){
		.id = info->id,
		.time_sec = info->time_sec,
		.inodes = info->inodes,
		.bytes = info->bytes,
		.text = (char *)TAKE_PTR(text.data),
	};
	return 0;
}

/* Newest first; equal times by id, so that the order is always the same. */
static int compare(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->time_sec != y->time_sec)
		return x->time_sec < y->time_sec ? 1 : -1;
	return oid_compare(&x->id, &y->id);
}

static void add_snapshot(struct out *o, const struct snaps *names,
			 const struct item *it)
{
	_cleanup_buf_ struct buf refs = {0};
	const char *texts[TEXTS] = {it->text};
	char hex[OID_HEX + 1];

	for (int i = 1; i < TEXTS; i++)
		texts[i] = texts[i - 1] + strlen(texts[i - 1]) + 1;

	oid_to_hex(&it->id, hex);
	(void)snaps_names_of(names, &it->id, &refs);
	out_row(o, (struct out_cell[]){
			   out_str(hex),
			   out_bytes(refs.data, refs.len),
			   out_num(it->inodes),
			   out_num(it->bytes),
			   out_num((uint64_t)MAX(it->time_sec, 0)),
			   out_str(texts[HOST]),
			   out_str(texts[MESSAGE]),
			   out_str(texts[GIT_DIR]),
			   out_str(texts[GIT_HEAD]),
			   out_str(texts[GIT_COMMIT]),
			   out_str(texts[SOURCE]),
		   });
}

static int run_snapshots(struct call *c)
{
	_cleanup_(items_fini) struct items all = {0};
	_cleanup_snaps_ struct snaps names = {0};
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_store_ struct store *s = NULL;
	_cleanup_out_ struct out o;
	int r;

	out_init(&o, c->json, OUT_TABLE, columns, ARRAY_SIZE(columns));
	r = store_open(c->store, 0, &diag, &s);
	if (r == -ENOENT)
		return CODE_DONE;
	if (!r)
		r = store_snapshots(s, add_item, &all);
	if (!r)
		r = snaps_read_refs(&names, s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	if (all.count)
		qsort(all.v, all.count, sizeof *all.v, compare);
	for (size_t i = 0; i < all.count; i++)
		add_snapshot(&o, &names, &all.v[i]);
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_snapshots = {
	.name = "snapshots",
	.synopsis = "",
	.summary = "list the snapshots, the newest first",
	.run = run_snapshots,
};

/* --- tag --------------------------------------------------------------- */

static int run_tag(struct call *c)
{
	const char *what = c->args->args[0], *name = c->args->args[1];
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_store_ struct store *s = NULL;
	char ref[STORE_REF_MAX], snapshot[STORE_REF_MAX];
	struct oid id;
	int r;

	if (store_ref_normalize(name, ref, sizeof ref))
		return call_bad_name(c, name, "NAME:TAG");
	if (store_ref_normalize(what, snapshot, sizeof snapshot))
		return call_bad_name(c, what, "name of a snapshot");
	r = store_open(c->store, 0, &diag, &s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	r = store_resolve(s, what, &diag, &id);
	if (r)
		return call_fail_err(c, r, &diag, what);
	r = store_ref_set(s, ref, &id);
	return r ? call_fail_err(c, r, NULL, ref) : CODE_DONE;
}

const struct verb cmd_tag = {
	.name = "tag",
	.synopsis = "SNAPSHOT NAME:TAG",
	.summary = "give a snapshot a name, or move the name to it",
	.text = "SNAPSHOT is a name, NAME:TAG, an id or its start. Without "
		":TAG the tag is latest.",
	.arg = ARG_SNAPSHOT,
	.min_args = 2,
	.max_args = 2,
	.run = run_tag,
};
