/* SPDX-License-Identifier: MIT */
/*
 * snaps.c - names are few (people give them), so an array and a linear look
 * are enough.
 */
#include "cli/snaps.h"

#include <stdio.h>
#include <string.h>

void snaps_fini(struct snaps *s)
{
	buf_fini(&s->refs);
}

static int add_ref(void *ctx, const char *name, const struct oid *id)
{
	struct snaps *s = ctx;
	struct snaps_ref ref = {.id = *id};

	(void)snprintf(ref.name, sizeof ref.name, "%s", name);
	buf_put(&s->refs, &ref, sizeof ref);
	return buf_error(&s->refs);
}

int snaps_read_refs(struct snaps *s, struct store *store)
{
	buf_clear(&s->refs);
	return store_refs(store, add_ref, s);
}

size_t snaps_names_of(const struct snaps *s, const struct oid *id,
		      struct buf *out)
{
	size_t count = 0;

	for (size_t at = 0; at < s->refs.len; at += sizeof(struct snaps_ref)) {
		struct snaps_ref ref;

		memcpy(&ref, s->refs.data + at, sizeof ref);
		if (!oid_equal(&ref.id, id))
			continue;
		buf_put(out, ref.name, strlen(ref.name) + 1);
		count++;
	}
	return count;
}
