/* SPDX-License-Identifier: MIT */
/*
 * From what a user typed to a snapshot: a ref first, then an id or the prefix
 * of one. The whole bytes of a prefix are looked up as a range of the table, a
 * last odd digit is compared in text. When nothing fits, the refs that need the
 * fewest edits are offered.
 */
#include "store/store_int.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

enum {
	PREFIX_MIN = 4,
	LISTED_IDS = 5, /* of an ambiguous prefix */
	OFFERED_REFS = 3,
};

/* --- near matches ------------------------------------------------------- */

/* Counts the insertions, deletions and exchanges from a to b. */
static unsigned edit_distance(const char *a, size_t a_len, const char *b,
			      size_t b_len)
{
	unsigned row[STORE_REF_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned corner = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			const unsigned change = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			row[j] = MIN(MIN(row[j], row[j - 1]) + 1, change);
		}
	}
	return row[b_len];
}

struct near {
	const char *what;
	size_t count;
	struct {
		char ref[STORE_REF_MAX];
		unsigned distance;
	} best[OFFERED_REFS];
};

static int note_near(void *ctx, const char *ref, const struct oid *id)
{
	struct near *n = ctx;
	const size_t what_len = strlen(n->what);
	/* Without a tag, the name alone is compared. */
	const size_t len =
		strchr(n->what, ':') ? strlen(ref) : strcspn(ref, ":");
	const unsigned d = edit_distance(n->what, what_len, ref, len);
	size_t i = n->count;

	/* Beyond a third of it (but two at least) it is another word. */
	if (d > MAX(2, what_len / 3) || d >= MAX(what_len, len))
		return 0;
	while (i > 0 && n->best[i - 1].distance > d)
		i--;
	if (i == OFFERED_REFS)
		return 0;
	if (n->count < OFFERED_REFS)
		n->count++;
	memmove(&n->best[i + 1], &n->best[i],
		(n->count - 1 - i) * sizeof n->best[0]);
	(void)strncpy(n->best[i].ref, ref, STORE_REF_MAX - 1);
	n->best[i].ref[STORE_REF_MAX - 1] = '\0';
	n->best[i].distance = d;
	return 0;
}

static int fail_unknown(struct store *s, const char *what, struct diag *diag)
{
	struct near n = {.what = what};

	diag_add(diag, "no snapshot \"%s\" in the store %s", what, s->path);
	/* Only help: that it cannot be given is no other error. */
	if (diag && strlen(what) < STORE_REF_MAX &&
	    store_refs(s, note_near, &n) == 0)
		for (size_t i = 0; i < n.count; i++)
			diag_add(diag, "did you mean %s?", n.best[i].ref);
	return -ENOENT;
}

/* --- ids ---------------------------------------------------------------- */

struct found {
	const char *prefix;
	size_t len;
	struct oid ids[LISTED_IDS];
	size_t count;
};

static void note_id(struct found *f, const uint8_t *key)
{
	char hex[OID_HEX + 1];
	struct oid id;

	memcpy(id.b, key, OID_BYTES);
	oid_to_hex(&id, hex);
	if (strncmp(hex, f->prefix, f->len) != 0)
		return;
	if (f->count < LISTED_IDS)
		f->ids[f->count] = id;
	f->count++;
}

/* Reads the whole bytes of a hex prefix; oid_from_hex takes whole names only.
 */
static int prefix_bytes(const char *prefix, struct oid *ret, size_t *ret_len)
{
	static const char digits[] = "0123456789abcdef";
	const size_t len = strlen(prefix);

	if (len < PREFIX_MIN || len > OID_HEX || strspn(prefix, digits) != len)
		return -EINVAL;
	for (size_t i = 0; i < len / 2; i++) {
		const char *high = strchr(digits, prefix[2 * i]);
		const char *low = strchr(digits, prefix[2 * i + 1]);

		ret->b[i] = (uint8_t)((high - digits) << 4 | (low - digits));
	}
	*ret_len = len / 2;
	return 0;
}

static int find_ids(struct store *s, struct found *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf rows = {0};
	struct bytes in;
	struct oid first;
	size_t n;
	int r = prefix_bytes(f->prefix, &first, &n);

	if (r < 0)
		return -ENOENT;
	r = index_txn_begin(s->index, false, &t);
	if (r == 0)
		r = index_list(&t, INDEX_SNAPSHOTS, index_key_of(first.b, n),
			       &rows);
	if (r < 0)
		return r;
	in = bytes_of(rows.data, rows.len);
	while (in.left > 0) {
		size_t key_len;
		size_t len;
		const uint8_t *key = bytes_block(&in, OID_BYTES, &key_len);

		(void)bytes_block(&in, INDEX_MAX_VALUE, &len);
		if (in.bad || key_len != OID_BYTES)
			return -EFSCORRUPTED;
		note_id(f, key);
	}
	return f->count ? 0 : -ENOENT;
}

static int fail_ambiguous(const struct found *f, struct diag *diag)
{
	char hex[OID_HEX + 1];

	diag_add(diag, "the prefix %s fits %zu snapshots", f->prefix, f->count);
	for (size_t i = 0; i < MIN(f->count, (size_t)LISTED_IDS); i++) {
		oid_to_hex(&f->ids[i], hex);
		diag_add(diag, "it may be %s", hex);
	}
	return -ENOTUNIQ;
}

int store_resolve(struct store *s, const char *what, struct diag *diag,
		  struct oid *ret_id)
{
	struct found f = {.prefix = what, .len = strlen(what)};
	int r = store_ref_get(s, what, ret_id);

	/* What cannot be a ref may still be the beginning of an id. */
	if (r != -ENOENT && r != -EINVAL)
		return r;
	r = find_ids(s, &f);
	if (r == -ENOENT)
		return fail_unknown(s, what, diag);
	if (r < 0)
		return r;
	if (f.count > 1)
		return fail_ambiguous(&f, diag);
	*ret_id = f.ids[0];
	return 0;
}
