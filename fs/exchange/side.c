/* SPDX-License-Identifier: MIT */
/*
 * side.c - which kind of side it is; what both kinds share.
 *
 * Two kinds and a test at five places: shorter than a table of functions, and
 * the compiler sees through it.
 */
#include "exchange/side_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "object/format.h"
#include "store/store.h"

static int side_new(struct side **ret_side)
{
	struct side *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->root = -1;
	s->dir = -1;
	*ret_side = s;
	return 0;
}

int side_open_snapshot(struct store *store, const struct oid *id,
		       struct side **ret_side)
{
	_cleanup_side_ struct side *s = NULL;
	int r = side_new(&s);

	if (r < 0)
		return r;
	r = store_get_snap(store, id, &s->snap);
	if (r < 0)
		return r;
	s->store = store;
	*ret_side = TAKE_PTR(s);
	return 0;
}

int side_open_mount(const char *path, struct side **ret_side)
{
	_cleanup_side_ struct side *s = NULL;
	int r = side_new(&s);

	if (r < 0)
		return r;
	s->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->root < 0)
		return -errno;
	*ret_side = TAKE_PTR(s);
	return 0;
}

void side_close(struct side *s)
{
	if (!s)
		return;
	if (s->root >= 0)
		(void)close(s->root);
	if (s->dir >= 0)
		(void)close(s->dir);
	buf_fini(&s->bytes);
	buf_fini(&s->dir_path);
	free(s);
}

size_t side_split(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash ? slash + 1 : path;
	return slash ? (size_t)(slash - path) : 0;
}

bool side_is_open(const struct side *s, const char *path, size_t dir_len)
{
	return s->has_dir && s->dir_path.len == dir_len &&
	       (!dir_len || !memcmp(s->dir_path.data, path, dir_len));
}

int side_opened(struct side *s, const char *path, size_t dir_len)
{
	buf_clear(&s->dir_path);
	buf_put(&s->dir_path, path, dir_len);
	s->has_dir = buf_error(&s->dir_path) == 0;
	return buf_error(&s->dir_path);
}

int side_look(struct side *s, const char *path, struct side_node *ret_node)
{
	return s->store ? side_snap_look(s, path, ret_node)
			: side_mount_look(s, path, ret_node);
}

int side_is_empty(struct side *s, const char *path)
{
	return s->store ? side_snap_is_empty(s, path)
			: side_mount_is_empty(s, path);
}

int side_read(struct side *s, const char *path, const struct side_node *node,
	      content_bytes_fn fn, void *ctx)
{
	return s->store ? side_snap_read(s, node, path, fn, ctx)
			: side_mount_read(s, node, path, fn, ctx);
}

int side_xattrs(struct side *s, const char *path, const struct side_node *node,
		struct buf *out)
{
	if (!s->store)
		return side_mount_xattrs(s, path, out);
	return oid_is_null(&node->xattrs)
		       ? 0
		       : store_get(s->store, &node->xattrs, out);
}

/* --- comparing ----------------------------------------------------------- */

/* The content that is read comes in pieces; that of the other is at fd, or
 * whole in bytes. */
struct other {
	int fd;
	struct buf bytes;
	uint8_t *piece;
	uint64_t at;
};

/* Ends a reading; no system call has it. */
enum { DIFFERENT = -ECANCELED };

static int compare_bytes(void *ctx, const void *data, size_t len)
{
	struct other *o = ctx;
	const uint8_t *there = o->piece;
	ssize_t n;

	if (o->fd >= 0) {
		n = io_pread(o->fd, o->piece, len, o->at);
		if (n < 0)
			return (int)n;
	} else {
		n = (ssize_t)MIN(len, o->bytes.len - (size_t)o->at);
		there = o->bytes.data + o->at;
	}
	if ((size_t)n != len || memcmp(data, there, len) != 0)
		return DIFFERENT;
	o->at += len;
	return 0;
}

static int append(void *ctx, const void *data, size_t len)
{
	buf_put(ctx, data, len);
	return buf_error(ctx);
}

static int compare(const struct side_file *a, const struct side_file *b,
		   struct other *o)
{
	int r;

	if (S_ISLNK(b->node->mode))
		r = side_read(b->side, b->path, b->node, append, &o->bytes);
	else
		r = side_mount_open(b->side, b->path, &o->fd);
	if (r == 0)
		r = side_read(a->side, a->path, a->node, compare_bytes, o);
	if (r < 0)
		return r == DIFFERENT ? 0 : r;
	return o->at == a->node->size ? 1 : -ESTALE;
}

int side_is_same(const struct side_file *a, const struct side_file *b)
{
	const bool stored = a->side->store && b->side->store;
	struct other o = {.fd = -1};
	int r;

	if ((a->node->mode & S_IFMT) != (b->node->mode & S_IFMT) ||
	    a->node->size != b->node->size)
		return 0;
	if (stored && S_ISREG(a->node->mode))
		return oid_equal(&a->node->content, &b->node->content);
	o.piece = malloc(FORMAT_CHUNK_BYTES);
	if (!o.piece)
		return -ENOMEM;
	/* the other one is where bytes can be had from any place */
	r = b->side->store && !stored ? compare(b, a, &o) : compare(a, b, &o);
	if (o.fd >= 0)
		(void)close(o.fd);
	buf_fini(&o.bytes);
	free(o.piece);
	return r;
}
