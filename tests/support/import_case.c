/* SPDX-License-Identifier: MIT */
/*
 * import_case.c - set-up and lookups; the store is opened late, because LMDB
 * forbids a fork after it and some tests fork first.
 */
#include "import_case.h"

#include <sys/stat.h>

#include "base/err.h"

void case_open(struct import_case *c, const struct test_scratch *scratch)
{
	memset(c, 0, sizeof *c);
	(void)snprintf(c->src, sizeof c->src, "%s/src", scratch->path);
	assert_ok(mkdir(c->src, 0755));
	c->src_fd = open(c->src, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(c->src_fd >= 0);
}

void case_close(struct import_case *c)
{
	store_close(c->store);
	(void)close(c->src_fd);
	diag_fini(&c->notes);
	diag_fini(&c->diag);
}

int case_import(struct import_case *c, const char *store)
{
	char path[600];

	(void)snprintf(path, sizeof path, "%.*s/%s",
		       (int)(strrchr(c->src, '/') - c->src), c->src, store);
	if (c->store && strcmp(store_path(c->store), path) != 0) {
		store_close(c->store);
		c->store = NULL;
	}
	if (!c->store)
		assert_ok(store_open(path, STORE_CREATE, &c->diag, &c->store));
	diag_fini(&c->notes);
	diag_fini(&c->diag);
	return import_dir(c->store, c->src, NULL, &c->options, &c->notes,
			  &c->diag, &c->result);
}

void case_snap(struct import_case *c, struct snap *ret_snap)
{
	assert_ok(store_get_snap(c->store, &c->result.id, ret_snap));
}

int case_find(struct import_case *c, const char *path, struct found *ret_found)
{
	struct found f = {.position = 0};
	struct snap snap;
	struct tree t;
	uint32_t i;
	int r;

	case_snap(c, &snap);
	f.entry.content = snap.tree;
	while (*path) {
		size_t n = strcspn(path, "/");
		struct oid id = f.entry.content;

		buf_clear(&f.tree);
		r = store_get(c->store, &id, &f.tree);
		if (r == 0)
			r = tree_open(f.tree.data, f.tree.len, &t);
		if (r == 0)
			r = tree_lookup(&t, path, n, &i);
		if (r < 0) {
			buf_fini(&f.tree);
			return r;
		}
		tree_entry_at(&t, i, &f.entry);
		f.position += f.entry.start;
		path += n + (path[n] == '/');
	}
	*ret_found = f;
	return 0;
}

bool case_has(struct import_case *c, const char *path)
{
	struct found f;
	int r = case_find(c, path, &f);

	if (r == 0)
		buf_fini(&f.tree);
	else
		assert_int_equal(r, -ENOENT);
	return r == 0;
}

bool case_says(const struct diag *d, const char *words)
{
	for (size_t i = 0; diag_line(d, i); i++)
		if (strstr(diag_line(d, i), words))
			return true;
	return false;
}

void make_file(int dirfd, const char *name, const void *data, size_t len)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0644);

	assert_true(fd >= 0);
	assert_ok(io_write(fd, data, len));
	assert_ok(close(fd));
}

void make_text(int dirfd, const char *name, const char *text)
{
	make_file(dirfd, name, text, strlen(text));
}

void fill_bytes(uint8_t *data, size_t len, uint64_t seed)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (uint8_t)x;
	}
}
