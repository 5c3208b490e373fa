/* SPDX-License-Identifier: MIT */
/*
 * How: fixed fields after a magic and a word of flags. No flag exists yet; a
 * reader refuses what it does not know, so a later version can add a field
 * without being misread by this one. Nothing here depends on when, where or in
 * which order the tree was imported: the id must not.
 */
#include "object/snap.h"

#include "base/bytes.h"
#include "base/err.h"
#include "object/form_int.h"

#include <sys/stat.h>

void snap_encode(const struct snap *s, struct buf *out)
{
	buf_put_u32(out, FORMAT_SNAP_MAGIC);
	buf_put_u32(out, 0); /* flags */
	buf_put_u32(out, s->mode);
	buf_put_u32(out, s->uid);
	buf_put_u32(out, s->gid);
	buf_put_u32(out, s->mtime_nsec);
	buf_put_u64(out, (uint64_t)s->mtime_sec);
	buf_put_u32(out, s->subdirs);
	buf_put_u64(out, s->total);
	buf_put(out, s->tree.b, OID_BYTES);
	buf_put(out, s->xattrs.b, OID_BYTES);
	buf_put(out, s->links.b, OID_BYTES);
}

static void take_oid(struct bytes *r, struct oid *ret_id)
{
	const uint8_t *p = bytes_take(r, OID_BYTES);

	if (p)
		memcpy(ret_id->b, p, OID_BYTES);
}

static bool is_sound(const struct snap *s)
{
	return S_ISDIR(s->mode) && (s->mode & ~(S_IFMT | 07777U)) == 0 &&
	       s->mtime_nsec < FORM_NSEC_END && s->total <= FORMAT_MAX_INODE &&
	       s->subdirs <= s->total && form_tree_fits(&s->tree, s->total) &&
	       form_xattrs_fit(&s->xattrs) && form_links_fit(&s->links);
}

int snap_decode(const void *data, size_t len, struct snap *ret_snap)
{
	struct bytes r = bytes_of(data, len);
	struct snap s = {0};

	if (bytes_u32(&r) != FORMAT_SNAP_MAGIC || bytes_u32(&r) != 0)
		return -EFSCORRUPTED;
	s.mode = bytes_u32(&r);
	s.uid = bytes_u32(&r);
	s.gid = bytes_u32(&r);
	s.mtime_nsec = bytes_u32(&r);
	s.mtime_sec = (int64_t)bytes_u64(&r);
	s.subdirs = bytes_u32(&r);
	s.total = bytes_u64(&r);
	take_oid(&r, &s.tree);
	take_oid(&r, &s.xattrs);
	take_oid(&r, &s.links);
	if (r.bad || r.left != 0 || !is_sound(&s))
		return -EFSCORRUPTED;
	*ret_snap = s;
	return 0;
}
