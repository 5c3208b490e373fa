/* SPDX-License-Identifier: MIT */
/*
 * tree_sample.h - a tree with every type of entry, for tests.
 *
 * The entries are sorted; the names of contents belong to bytes of zeros of the
 * right length, which nothing stores.
 */
#ifndef COWFS_TESTS_TREE_SAMPLE_H
#define COWFS_TESTS_TREE_SAMPLE_H

#include "test.h"

#include "object/format.h"
#include "object/tree.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { SAMPLE_COUNT = 8, SAMPLE_TOTAL = 18 };

static const uint8_t sample_zeros[1024];

static inline struct oid sample_oid(enum oid_kind kind, size_t len)
{
	return oid_of(kind, sample_zeros, len);
}

/* An empty regular file of that name. */
static inline struct tree_entry sample_file(const char *name)
{
	return (struct tree_entry){.name = name,
				   .name_len = (uint16_t)strlen(name),
				   .mode = S_IFREG | 0644,
				   .uid = 1,
				   .gid = 2,
				   .mtime_sec = 1700000000,
				   .mtime_nsec = 123456789};
}

static inline void sample_entries(struct tree_entry e[SAMPLE_COUNT])
{
	static const char *const names[SAMPLE_COUNT] = {
		"big",	"device", "dir",  "empty",
		"fifo", "link",	  "none", "small"};

	for (size_t i = 0; i < SAMPLE_COUNT; i++)
		e[i] = sample_file(names[i]);
	e[0].size = 2 * FORMAT_CHUNK_BYTES + 1;
	e[0].content = sample_oid(OID_MANIFEST, 16 + 3 * OID_BYTES);
	e[0].xattrs = sample_oid(OID_XSET, 20);
	e[1].mode = S_IFCHR | 0600;
	e[1].rdev = makedev(1, 3);
	e[2].mode = S_IFDIR | 01777;
	e[2].content = sample_oid(OID_TREE, 500);
	e[2].size = 4;
	e[2].below = 10;
	e[4].mode = S_IFIFO | 0600;
	e[4].mtime_sec = -1;
	e[5].mode = S_IFLNK | 0777;
	e[5].target = "../some/where";
	e[5].target_len = 13;
	e[5].size = 13;
	e[6].mode = S_IFDIR | 0755;
	e[6].content = sample_oid(OID_TREE, 24);
	e[7].mode = S_IFREG | 04755;
	e[7].size = 100;
	e[7].content = sample_oid(OID_BLOB, 100);
}

static inline void sample_encode(struct buf *out)
{
	struct tree_entry e[SAMPLE_COUNT];
	struct tree_builder b = {0};

	sample_entries(e);
	for (size_t i = 0; i < SAMPLE_COUNT; i++)
		assert_ok(tree_builder_add(&b, &e[i]));
	assert_ok(tree_builder_finish(&b, out));
	tree_builder_fini(&b);
}

static inline void sample_expect_equal(const struct tree_entry *a,
				       const struct tree_entry *b)
{
	assert_int_equal(a->name_len, b->name_len);
	assert_memory_equal(a->name, b->name, b->name_len);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->rdev, b->rdev);
	assert_int_equal(a->mtime_sec, b->mtime_sec);
	assert_int_equal(a->mtime_nsec, b->mtime_nsec);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->below, b->below);
	assert_int_equal(a->target_len, b->target_len);
	if (b->target_len)
		assert_memory_equal(a->target, b->target, b->target_len);
	assert_true(oid_equal(&a->content, &b->content));
	assert_true(oid_equal(&a->xattrs, &b->xattrs));
}

#endif
