/* SPDX-License-Identifier: MIT */
/*
 * fsck_case.c - stores are made by the layer itself, with objects that no
 * importer would write where a test wants that.
 */
#include "fsck_case.h"

#include <sys/stat.h>
#include <unistd.h>

static void tell(void *ctx, const struct fsck_finding *f)
{
	struct told *t = ctx;
	const size_t n = strlen(t->rules);

	t->damage += f->kind == FSCK_DAMAGE;
	t->hits += f->kind == FSCK_HIT;
	t->done += f->kind == FSCK_DONE;
	if (f->kind == FSCK_HIT)
		(void)snprintf(t->path, sizeof t->path, "%.*s",
			       (int)f->path_len, f->path);
	if (f->kind == FSCK_DAMAGE)
		(void)snprintf(t->rules + n, sizeof t->rules - n, " %s ",
			       f->rule);
}

bool told_has(const struct told *t, const char *rule)
{
	char word[8];

	(void)snprintf(word, sizeof word, " %s ", rule);
	return strstr(t->rules, word) != NULL;
}

const char *fsck_dir(void **state)
{
	static char path[512];
	const struct test_scratch *s = *state;

	(void)snprintf(path, sizeof path, "%s/store", s->path);
	return path;
}

struct store *fsck_open_store(void **state)
{
	struct store *s = NULL;

	assert_ok(store_open(fsck_dir(state), STORE_CREATE, NULL, &s));
	return s;
}

struct told fsck_run_check(void **state, unsigned flags)
{
	struct told t = {0};
	struct fsck *f = NULL;

	assert_ok(fsck_open(fsck_dir(state), flags, tell, &t, NULL, &f));
	assert_ok(fsck_check(f));
	if (flags & FSCK_REPAIR && fsck_damage(f) > 0) {
		memset(&t, 0, sizeof t);
		assert_ok(fsck_repair(f));
	}
	fsck_close(f);
	return t;
}

void assert_rule(void **state, const char *rule)
{
	const struct told t = fsck_run_check(state, 0);

	if (!told_has(&t, rule))
		fail_msg("%s was not told, but \"%s\"", rule, t.rules);
}

void assert_clean(void **state)
{
	const struct told t = fsck_run_check(state, 0);

	assert_string_equal(t.rules, "");
}

struct oid put_object(struct batch *b, enum oid_kind kind, const void *data,
		      size_t len)
{
	struct oid id;

	assert_ok(batch_put(b, kind, data, len, &id));
	return id;
}

/* Puts a tree of one file with the bytes "content", or of the entries. */
struct oid put_tree(struct batch *b, const struct tree_entry *e, size_t n)
{
	struct tree_builder t = {0};
	_cleanup_buf_ struct buf out = {0};
	struct oid id;

	for (size_t i = 0; i < n; i++)
		assert_ok(tree_builder_add(&t, &e[i]));
	assert_ok(tree_builder_finish(&t, &out));
	id = put_object(b, OID_TREE, out.data, out.len);
	tree_builder_fini(&t);
	return id;
}

struct tree_entry file_of(const char *name, const struct oid *content)
{
	return (struct tree_entry){.name = name,
				   .name_len = (uint16_t)strlen(name),
				   .mode = S_IFREG | 0644,
				   .size = oid_length(content),
				   .content = *content};
}

struct oid commit_snap(struct batch *b, const struct snap *s, const char *ref)
{
	_cleanup_buf_ struct buf out = {0};
	struct snapshot_info info = {.source = "", .host = "", .message = ""};

	snap_encode(s, &out);
	info.id = put_object(b, OID_SNAP, out.data, out.len);
	assert_ok(batch_commit(b, &info, ref));
	return info.id;
}

/* A snapshot of one file, "file"; returns its blob. */
struct oid put_snapshot(struct store *s, const char *text, const char *ref)
{
	struct snap snap = {.mode = S_IFDIR | 0755, .total = 1};
	struct batch *b = NULL;
	struct tree_entry e;
	struct oid blob;

	assert_ok(batch_begin(s, &b));
	blob = put_object(b, OID_BLOB, text, strlen(text));
	e = file_of("file", &blob);
	snap.tree = put_tree(b, &e, 1);
	(void)commit_snap(b, &snap, ref);
	return blob;
}

/* Commits one object whose form is wrong. */
void put_wrong(void **state, enum oid_kind kind, const void *data, size_t len)
{
	struct store *s = fsck_open_store(state);
	struct batch *b = NULL;

	assert_ok(batch_begin(s, &b));
	(void)put_object(b, kind, data, len);
	assert_ok(batch_commit(b, NULL, NULL));
	store_close(s);
}

void make_two_snapshots(void **state)
{
	struct store *s = fsck_open_store(state);

	(void)put_snapshot(s, "content of a file", "one");
	(void)put_snapshot(s, "another content", "two");
	store_close(s);
}

/* Flips a bit of a file of the store; from the end when at is negative. */
void flip_bit(void **state, const char *name, off_t at)
{
	char path[600];
	struct stat st;
	uint8_t byte;
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", fsck_dir(state), name);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_ok(fstat(fd, &st));
	at = at < 0 ? st.st_size + at : at;
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	(void)close(fd);
}

void change_rows(void **state, change_fn fn)
{
	struct index_txn t = {0};
	struct store *s = fsck_open_store(state);

	assert_ok(index_txn_begin(s->index, true, &t));
	fn(&t);
	assert_ok(index_txn_commit(&t));
	store_close(s);
}
