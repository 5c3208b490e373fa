/* SPDX-License-Identifier: MIT */
/*
 * How: the newer of the two meta pages names the roots of two trees: the list
 * of free pages, and the main one, whose leaves name the tables. pages_tree.c
 * walks both. In the end each page of the file must have been met exactly
 * once, as part of a tree or of the free list: a page that is in both would be
 * overwritten by the next commit. Free pages and roots in the older meta page
 * are not looked at, as LMDB does not.
 *
 * The layout is that of LMDB 0.9 (MDB_DATA_VERSION 1) on 64 bits. The file is
 * mapped for reading; the size is taken first, so that nothing is read beyond
 * it. A commit meanwhile may use pages again that this has yet to look at:
 * what was found counts only when the meta pages are still the same.
 */
#include "store/pages_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "store/bus_int.h"
#include "store/pages_tree_int.h"

enum {
	PAGE_META = 8,
	META_MAGIC = (int)0xbeefc0deU,
	META_VERSION = 1,
	META_TREES = 24, /* offsets in a meta page, behind its header */
	META_LAST = 120,
	META_TXN = 128,
	META_BYTES = 136,
	META_HEAD = PAGE_HEADER + META_BYTES,
	TRIES = 20,
	TRY_NS = 5000000,
};

/* --- the file ------------------------------------------------------------ */

static const uint8_t *meta_at(const struct pages *p, unsigned i)
{
	return p->map + i * p->page_bytes + PAGE_HEADER;
}

static bool meta_is_sound(const struct pages *p, unsigned i)
{
	const uint8_t *m = meta_at(p, i);
	const uint8_t *page = m - PAGE_HEADER;

	return bytes_load_u64(page) == i &&
	       bytes_load_u16(page + 10) == PAGE_META &&
	       bytes_load_u32(m) == (uint32_t)META_MAGIC &&
	       bytes_load_u32(m + 4) == META_VERSION &&
	       bytes_load_u64(m + 8) == 0 &&
	       index_map_is_possible(bytes_load_u64(m + 16)) &&
	       bytes_load_u32(m + META_TREES) == p->page_bytes;
}

/* Chooses the newer meta page. The transactions' numbers alternate between
 * the two, which tells a flipped bit in either. */
static const uint8_t *choose_meta(struct pages *p)
{
	const uint64_t a = bytes_load_u64(meta_at(p, 0) + META_TXN);
	const uint64_t b = bytes_load_u64(meta_at(p, 1) + META_TXN);

	for (unsigned i = 0; i < 2; i++) {
		if (!meta_is_sound(p, i)) {
			pages_find(p, "S25", "page %llu: is no meta page",
				   (unsigned long long)i);
			return NULL;
		}
	}
	if ((a || b) &&
	    (a % 2 != 0 || b % 2 != 1 || (a > b ? a - b : b - a) != 1)) {
		pages_find(p, "S25", "the meta pages do not follow each other");
		return NULL;
	}
	p->txn = MAX(a, b);
	return meta_at(p, b > a);
}

static void check_whole(struct pages *p)
{
	const uint8_t *m = choose_meta(p);

	if (!m)
		return;
	p->last = bytes_load_u64(m + META_LAST);
	if (p->last < 1 || p->last >= bytes_load_u64(m + 16) / p->page_bytes) {
		pages_find(p, "S25", "the last page's number makes no sense");
		return;
	}
	p->met = calloc(p->last + 1, 1);
	if (!p->met) {
		p->err = -ENOMEM;
		return;
	}
	p->met[0] = p->met[1] = 1;
	pages_check_tree(p, m + META_TREES, true);
	pages_check_tree(p, m + META_TREES + PAGE_TREE_BYTES, false);
	for (uint64_t i = 0; p->findings == 0 && i <= p->last; i++)
		if (!p->met[i])
			pages_find(p, "S25",
				   "page %llu: is neither used nor free",
				   (unsigned long long)i);
	for (int i = 0; p->findings == 0 && i < INDEX_TABLES_FIRST; i++)
		if (!p->has_table[i])
			pages_find(p, "S25", "a table is missing");
}

/* Finds the size of a page: meta page 0 says it. */
static void check_map(struct pages *p)
{
	p->page_bytes =
		p->size < META_HEAD
			? 0
			: bytes_load_u32(p->map + PAGE_HEADER + META_TREES);
	if (p->page_bytes < 512 || p->page_bytes > PAGE_BYTES_MAX ||
	    (p->page_bytes & (p->page_bytes - 1)) != 0 ||
	    2 * p->page_bytes > p->size) {
		pages_find(p, "S25", "page %llu: is no meta page",
			   (unsigned long long)0);
		return;
	}
	check_whole(p);
}

struct note {
	struct buf lines; /* rule, NUL, text, NUL */
};

static void keep_note(void *ctx, const char *rule, const char *text)
{
	struct note *n = ctx;

	buf_put(&n->lines, rule, strlen(rule) + 1);
	buf_put(&n->lines, text, strlen(text) + 1);
}

/* Looks once. Returns findings, or an error; the meta pages before and after
 * tell whether anybody wrote. */
static int check_once(int fd, struct note *n, bool *ret_changed)
{
	struct pages p = {.fn = keep_note, .ctx = n};
	uint8_t before[2 * META_HEAD] = {0}, after[2 * META_HEAD] = {0};
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_changed = false;
	p.size = (size_t)st.st_size;
	if (p.size == 0) {
		pages_find(&p, "S25", "data.mdb is empty");
		return 1;
	}
	bus_guard();
	map = mmap(NULL, p.size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	p.map = map;
	for (int i = 0; i < 2; i++) {
		/* Either page size finds the second one's number changed. */
		if (pread(fd, before + i * META_HEAD, META_HEAD,
			  i * sysconf(_SC_PAGESIZE)) < 0)
			p.err = -errno;
	}
	if (p.err == 0)
		check_map(&p);
	for (int i = 0; i < 2; i++) {
		if (pread(fd, after + i * META_HEAD, META_HEAD,
			  i * sysconf(_SC_PAGESIZE)) < 0)
			p.err = -errno;
	}
	*ret_changed = memcmp(before, after, sizeof before) != 0;
	(void)munmap(map, p.size);
	free(p.met);
	return p.err < 0 ? p.err : p.findings > 0;
}

int pages_check(int dirfd, pages_fn fn, void *ctx)
{
	const struct timespec pause = {.tv_nsec = TRY_NS};
	_cleanup_close_ int fd =
		io_open_file(dirfd, "data.mdb", O_RDONLY);
	_cleanup_(buf_fini) struct buf lines = {0};
	bool changed = true;
	int r = MIN(fd, 0);

	for (int i = 0; r >= 0 && changed && i < TRIES; i++) {
		struct note n = {.lines = lines};

		if (i > 0)
			(void)nanosleep(&pause, NULL);
		buf_clear(&n.lines);
		r = check_once(fd, &n, &changed);
		lines = n.lines;
		/* Sound is sound, whatever happened since. */
		if (r == 0)
			return 0;
	}
	if (r < 0)
		return r;
	if (changed)
		return -EAGAIN;
	for (const uint8_t *s = lines.data; s < lines.data + lines.len && fn;) {
		const char *rule = (const char *)s;
		const char *text = rule + strlen(rule) + 1;

		fn(ctx, rule, text);
		s = (const uint8_t *)text + strlen(text) + 1;
	}
	return 1;
}
