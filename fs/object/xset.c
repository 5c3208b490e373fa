/* SPDX-License-Identifier: MIT */
/*
 * How: pairs one after the other, read in order. Sets are small, so there is
 * no table of offsets. One encoding per set (sorted, no name twice), so equal
 * sets have one name and are stored once.
 */
#include "object/xset.h"

#include "base/err.h"
#include "object/form_int.h"

enum { PAIR_HEADER = 6 };

static bool pair_fits(const struct xset_pair *p)
{
	return p->name_len >= 1 && p->name_len <= FORMAT_MAX_XATTR_NAME &&
	       p->value_len <= FORMAT_MAX_XATTR_VALUE &&
	       !memchr(p->name, '\0', p->name_len);
}

static int compare(const struct xset_pair *a, const struct xset_pair *b)
{
	int r = memcmp(a->name, b->name, MIN(a->name_len, b->name_len));

	if (r != 0)
		return r;
	return (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int compare_for_qsort(const void *a, const void *b)
{
	return compare(a, b);
}

int xset_open(const void *data, size_t len, struct xset *ret_set)
{
	struct bytes r = bytes_of(data, len);
	struct xset_pair pair;
	struct xset_pair last = {0};
	struct xset set;
	struct xset walk;

	if (len > FORMAT_MAX_XATTRS_BYTES || bytes_u32(&r) != FORMAT_XSET_MAGIC)
		return -EFSCORRUPTED;
	set.left = bytes_u32(&r);
	set.rest = r;
	walk = set;
	while (xset_next(&walk, &pair)) {
		if (walk.rest.bad || !pair_fits(&pair) ||
		    (last.name && compare(&last, &pair) >= 0))
			return -EFSCORRUPTED;
		last = pair;
	}
	if (walk.rest.bad || walk.rest.left != 0)
		return -EFSCORRUPTED;
	*ret_set = set;
	return 0;
}

bool xset_next(struct xset *s, struct xset_pair *ret_pair)
{
	if (s->left == 0)
		return false;
	s->left--;
	ret_pair->name_len = bytes_u16(&s->rest);
	ret_pair->value_len = bytes_u32(&s->rest);
	ret_pair->name = (const char *)bytes_take(&s->rest, ret_pair->name_len);
	ret_pair->value = bytes_take(&s->rest, ret_pair->value_len);
	return true;
}

/* Checks sorted pairs; returns the encoded size, 0: not a legal set. */
static size_t measure(const struct xset_pair *pairs, uint32_t count)
{
	size_t size = FORM_XSET_HEADER;

	for (uint32_t i = 0; i < count; i++) {
		if (!pair_fits(&pairs[i]) ||
		    (i > 0 && compare(&pairs[i - 1], &pairs[i]) == 0))
			return 0;
		size += PAIR_HEADER + pairs[i].name_len + pairs[i].value_len;
		if (size > FORMAT_MAX_XATTRS_BYTES)
			return 0;
	}
	return size;
}

int xset_encode(struct xset_pair *pairs, uint32_t count, struct buf *out)
{
	size_t size;
	int r;

	if (count > 1)
		qsort(pairs, count, sizeof *pairs, compare_for_qsort);
	size = measure(pairs, count);
	if (size == 0)
		return -EINVAL;
	r = buf_reserve(out, size);
	if (r < 0)
		return r;
	buf_put_u32(out, FORMAT_XSET_MAGIC);
	buf_put_u32(out, count);
	for (uint32_t i = 0; i < count; i++) {
		buf_put_u16(out, (uint16_t)pairs[i].name_len);
		buf_put_u32(out, (uint32_t)pairs[i].value_len);
		buf_put(out, pairs[i].name, pairs[i].name_len);
		buf_put(out, pairs[i].value, pairs[i].value_len);
	}
	return 0;
}
