/* SPDX-License-Identifier: MIT */
/*
 * limits.c - "SIZE[,INODES]" sets the bytes, and the inodes where they are
 * given; "none" alone takes both away. 0 is refused: it could be meant as no
 * room at all or as no bound.
 */
#include "cli/limits.h"

#include <inttypes.h>

#include "base/clock.h"
#include "cli/number.h"
#include "object/format.h"

static const char none[] = "none";

static int parse_quota(const char *text, struct limits *l)
{
	const char *comma = strchr(text, ',');
	char size[32];
	size_t n = comma ? (size_t)(comma - text) : strlen(text);

	if (!n || n >= sizeof size)
		return -EINVAL;
	memcpy(size, text, n);
	size[n] = '\0';
	l->has_bytes = true;
	l->has_inodes = comma || !strcmp(size, none);
	l->bytes = l->inodes = 0;
	if (strcmp(size, none) != 0 &&
	    (number_read_size(size, &l->bytes) || !l->bytes))
		return -EINVAL;
	if (comma && strcmp(comma + 1, none) != 0 &&
	    (number_read(comma + 1, FORMAT_MAX_INODE, &l->inodes) ||
	     !l->inodes))
		return -EINVAL;
	return 0;
}

int limits_parse(const struct call *c, const char *quota, const char *ttl,
		 struct limits *ret_limits)
{
	struct limits l = {0};

	if (quota && parse_quota(quota, &l))
		return call_fail(c, CODE_USAGE,
				 "--quota: %s: not SIZE[,INODES] (a number of "
				 "bytes, or of K, M, G, T; a number), or none",
				 quota);
	l.has_ttl = ttl;
	if (ttl && strcmp(ttl, none) != 0 &&
	    (number_read_span(ttl, FORMAT_MAX_TTL, &l.ttl_sec) || !l.ttl_sec))
		return call_fail(c, CODE_USAGE,
				 "--ttl: %s: not a time (a number of seconds, "
				 "or of s, m, h, d), or none",
				 ttl);
	*ret_limits = l;
	return CODE_DONE;
}

void limits_ask(struct msg *m, const struct limits *l)
{
	if (l->has_bytes)
		msg_put_u64(m, CTL_TAG_QUOTA, l->bytes);
	if (l->has_inodes)
		msg_put_u64(m, CTL_TAG_QUOTA_INODES, l->inodes);
	if (l->has_ttl)
		msg_put_u64(m, CTL_TAG_TTL, l->ttl_sec);
}

void limits_read_row(const struct msg *row, struct limits_row *r)
{
	size_t n;

	*r = (struct limits_row){
		.bytes = msg_get_u64(row, CTL_TAG_QUOTA, 0),
		.inodes = msg_get_u64(row, CTL_TAG_QUOTA_INODES, 0),
		.ttl_sec = msg_get_u64(row, CTL_TAG_TTL, 0),
		.has_use = msg_get(row, CTL_TAG_USED, 0, &n) != NULL,
		.used_bytes = msg_get_u64(row, CTL_TAG_USED, 0),
		.used_inodes = msg_get_u64(row, CTL_TAG_USED_INODES, 0),
		.expires = msg_get_u64(row, CTL_TAG_EXPIRES, 0),
		.read_only = msg_get_u64(row, CTL_TAG_READ_ONLY, 0),
	};
}

/* --- in words ------------------------------------------------------------ */

static void put_inodes(struct buf *b, uint64_t n, enum limits_form form)
{
	if (form == LIMITS_SHORT)
		buf_printf(b, ",%" PRIu64, n);
	else
		buf_printf(b, ", %" PRIu64 " inode%s", n, n == 1 ? "" : "s");
}

static void describe_ttl(struct buf *b, const struct limits_row *r,
			 enum limits_form form)
{
	uint64_t now = (uint64_t)clock_now().tv_sec;

	if (form == LIMITS_LONG && r->ttl_sec)
		out_span(b, r->ttl_sec);
	if (!r->expires)
		return;
	if (form == LIMITS_LONG)
		buf_printf(b, ", ");
	if (r->expires <= now) {
		buf_printf(b,
			   form == LIMITS_LONG ? "over, still busy" : "over");
		return;
	}
	out_span(b, r->expires - now);
	if (form == LIMITS_LONG)
		buf_printf(b, " left");
}

void limits_describe(const struct limits_row *r, enum limits_form form,
		     struct limits_text *out)
{
	if (r->has_use)
		out_size(&out->used, r->used_bytes);
	if (r->has_use && form == LIMITS_LONG)
		put_inodes(&out->used, r->used_inodes, form);
	if (r->bytes)
		out_size(&out->quota, r->bytes);
	else if (r->inodes)
		buf_printf(&out->quota, "%s", none);
	if (r->inodes)
		put_inodes(&out->quota, r->inodes, form);
	describe_ttl(&out->ttl, r, form);
}

void limits_text_fini(struct limits_text *t)
{
	buf_fini(&t->used);
	buf_fini(&t->quota);
	buf_fini(&t->ttl);
}
