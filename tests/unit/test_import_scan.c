/* SPDX-License-Identifier: MIT */
/*
 * test_import_scan.c - a second import reads what changed, and nothing else.
 *
 * What a snapshot must be is told by an import of the same tree into a store
 * that has never seen it. Where the scratch folder lies on a file system whose
 * times are not trusted, nothing is remembered; the ids must be right there
 * all the same.
 */
#include "import_case.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "object/format.h"
#include "store/store_int.h"

enum { FILES = 6, BIG_BYTES = 3 * FORMAT_CHUNK_BYTES + 77 };

static bool is_remembering(const struct import_case *c)
{
	struct statfs fs;

	assert_ok(fstatfs(c->src_fd, &fs));
	return fs.f_type == EXT4_SUPER_MAGIC ||
	       fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == 0x58465342;
}

static void assert_unchanged(const struct import_case *c, uint64_t files)
{
	assert_int_equal(c->result.unchanged, is_remembering(c) ? files : 0);
}

/* Lets the files become older than a clock's tick. */
static void settle(void)
{
	static const struct timespec pause = {.tv_nsec = 400000000};

	(void)nanosleep(&pause, NULL);
}

/* FILES files of all sorts, one of them with two names. */
static void make_files(struct import_case *c)
{
	static uint8_t big[BIG_BYTES];

	fill_bytes(big, sizeof big, 1);
	make_text(c->src_fd, "small", "small");
	make_text(c->src_fd, "empty", "");
	make_file(c->src_fd, "big", big, sizeof big);
	memset(big + FORMAT_CHUNK_BYTES, 0, FORMAT_CHUNK_BYTES);
	assert_ok(mkdirat(c->src_fd, "dir", 0755));
	make_file(c->src_fd, "dir/holes", big, sizeof big);
	make_text(c->src_fd, "dir/two", "two names");
	assert_ok(linkat(c->src_fd, "dir/two", c->src_fd, "names", 0));
	assert_ok(symlinkat("small", c->src_fd, "link"));
}

/* The id that an import without a memory gives. */
static struct oid true_id(struct import_case *c)
{
	const struct import_result kept = c->result;
	struct oid id;
	static unsigned n;
	char name[32];

	(void)snprintf(name, sizeof name, "fresh%u", n++);
	assert_ok(case_import(c, name));
	assert_int_equal(c->result.unchanged, 0);
	id = c->result.id;
	c->result = kept;
	return id;
}

static void import_and_check(struct import_case *c, uint64_t unchanged)
{
	struct oid want = true_id(c);

	assert_ok(case_import(c, "store"));
	assert_true(oid_equal(&c->result.id, &want));
	assert_unchanged(c, unchanged);
}

/* Opens of regular files are told by inotify. */
static unsigned count_opens(int in)
{
	_Alignas(struct inotify_event) char events[8192];
	ssize_t n = read(in, events, sizeof events);
	unsigned opens = 0;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *e = (const void *)(events + at);

		opens += (e->mask & IN_OPEN) && !(e->mask & IN_ISDIR);
		at += (ssize_t)(sizeof *e + e->len);
	}
	return opens;
}

TEST(a_second_import_opens_no_file_and_gives_the_same_id)
{
	const int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct import_case c;
	char dir[600];
	struct oid first;

	case_open(&c, *state);
	make_files(&c);
	(void)!fsetxattr(c.src_fd, "user.x", "1", 1, 0);
	settle();
	import_and_check(&c, 0);
	first = c.result.id;
	(void)snprintf(dir, sizeof dir, "%s/dir", c.src);
	assert_true(inotify_add_watch(in, c.src, IN_OPEN) >= 0);
	assert_true(inotify_add_watch(in, dir, IN_OPEN) >= 0);
	assert_ok(case_import(&c, "store"));
	assert_true(oid_equal(&c.result.id, &first));
	assert_unchanged(&c, FILES);
	assert_int_equal(c.result.files, FILES);
	assert_int_equal(c.result.stored_bytes, 0);
	if (is_remembering(&c))
		assert_int_equal(count_opens(in), 0);
	c.options.rescan = true;
	assert_ok(case_import(&c, "store"));
	assert_true(oid_equal(&c.result.id, &first));
	assert_int_equal(c.result.unchanged, 0);
	(void)close(in);
	case_close(&c);
}

/* --- changes ------------------------------------------------------------ */

/* Writes as many other bytes and sets the old mtime. */
static void rewrite_and_hide(int dir)
{
	struct timespec times[2];
	struct stat st;

	assert_ok(fstatat(dir, "small", &st, 0));
	make_text(dir, "small", "SMALL");
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_ok(utimensat(dir, "small", times, 0));
}

static void replace_and_hide(int dir)
{
	struct timespec times[2];
	struct stat st;

	assert_ok(fstatat(dir, "small", &st, 0));
	make_text(dir, "other", "OTHER");
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_ok(utimensat(dir, "other", times, 0));
	assert_ok(renameat(dir, "other", dir, "small"));
}

static void change_mode(int dir)
{
	assert_ok(fchmodat(dir, "small", 0400, 0));
}

static void set_attribute(int dir)
{
	const int fd = openat(dir, "small", O_RDONLY | O_CLOEXEC);

	/* Without attributes there is nothing to see, which is seen too. */
	(void)!fsetxattr(fd, "user.new", "value", 5, 0);
	assert_ok(fchmod(fd, 0644));
	(void)close(fd);
}

static void shrink(int dir)
{
	const int fd = openat(dir, "small", O_WRONLY | O_CLOEXEC);

	assert_ok(ftruncate(fd, 2));
	(void)close(fd);
}

static void change_kind(int dir)
{
	assert_ok(unlinkat(dir, "small", 0));
	assert_ok(mkdirat(dir, "small", 0755));
}

static void remove_it(int dir)
{
	assert_ok(unlinkat(dir, "small", AT_REMOVEDIR));
}

TEST(every_change_of_a_file_is_seen)
{
	static void (*const changes[])(int dir) = {
		rewrite_and_hide, replace_and_hide, change_mode, set_attribute,
		shrink,		  change_kind,	    remove_it};
	struct import_case c;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		changes[i](c.src_fd);
		settle();
		import_and_check(&c, FILES - 1);
	}
	case_close(&c);
}

TEST(a_new_and_a_lost_name_of_a_file_are_seen)
{
	struct import_case c;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	assert_ok(linkat(c.src_fd, "big", c.src_fd, "dir/big", 0));
	import_and_check(&c, FILES - 1);
	assert_ok(unlinkat(c.src_fd, "big", 0));
	assert_ok(unlinkat(c.src_fd, "names", 0));
	import_and_check(&c, FILES - 3);
	case_close(&c);
}

TEST(one_changed_file_costs_it_its_directories_and_the_snapshot)
{
	struct store_stat before, after;
	struct import_case c;

	case_open(&c, *state);
	make_files(&c);
	assert_ok(mkdirat(c.src_fd, "dir/a", 0755));
	assert_ok(mkdirat(c.src_fd, "dir/a/b", 0755));
	make_text(c.src_fd, "dir/a/b/file", "one");
	settle();
	assert_ok(case_import(&c, "store"));
	assert_ok(store_stat(c.store, &before));
	make_text(c.src_fd, "dir/a/b/file", "two");
	assert_ok(case_import(&c, "store"));
	assert_ok(store_stat(c.store, &after));
	/* The content, b, a, dir, the root, the snapshot. */
	assert_int_equal(after.objects - before.objects, 6);
	assert_unchanged(&c, FILES);
	case_close(&c);
}

static void assert_content(struct import_case *c, const char *path,
			   const void *want, size_t len)
{
	struct buf b = {.len = 0};
	struct found f;

	assert_ok(case_find(c, path, &f));
	assert_ok(store_get(c->store, &f.entry.content, &b));
	assert_int_equal(b.len, len);
	assert_memory_equal(b.data, want, len);
	buf_fini(&b);
	buf_fini(&f.tree);
}

TEST(changes_within_one_tick_of_the_clock_are_seen)
{
	struct import_case c;

	case_open(&c, *state);
	for (unsigned i = 0; i < 60; i++) {
		char text[16];

		(void)snprintf(text, sizeof text, "%08u", i);
		make_text(c.src_fd, "hot", text);
		assert_ok(case_import(&c, "store"));
		assert_content(&c, "hot", text, 8);
	}
	case_close(&c);
}

/* Kernels since 6.13 stamp finely enough for the test above whatever we do. A
 * loaded machine may take long: one of ten must be as it should. */
TEST(a_file_that_changed_just_before_the_import_is_not_remembered)
{
	struct import_case c;
	unsigned read_again = 0;

	case_open(&c, *state);
	for (unsigned i = 0; i < 10 && !read_again; i++) {
		make_text(c.src_fd, "hot", "text");
		assert_ok(case_import(&c, "store"));
		settle();
		assert_ok(case_import(&c, "store"));
		read_again += c.result.unchanged == 0;
	}
	assert_int_equal(read_again, 1);
	assert_ok(case_import(&c, "store"));
	assert_unchanged(&c, 1);
	case_close(&c);
}

/* The page is dirty already: the second store changes no time. */
TEST(a_store_through_a_mapping_that_changes_no_time_is_seen)
{
	struct import_case c;
	struct stat before, after;
	char *map;
	int fd;

	case_open(&c, *state);
	make_text(c.src_fd, "mapped", "one");
	fd = openat(c.src_fd, "mapped", O_RDWR | O_CLOEXEC);
	map = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	memcpy(map, "two", 3);
	assert_ok(fstat(fd, &before));
	settle();
	assert_ok(case_import(&c, "store"));
	assert_content(&c, "mapped", "two", 3);
	memcpy(map, "six", 3);
	assert_ok(fstat(fd, &after));
	if (before.st_ctim.tv_nsec != after.st_ctim.tv_nsec)
		print_message("the page was written back meanwhile\n");
	assert_ok(case_import(&c, "store"));
	assert_content(&c, "mapped", "six", 3);
	assert_int_equal(c.result.unchanged, 0);
	(void)munmap(map, 3);
	(void)close(fd);
	settle();
	assert_ok(case_import(&c, "store"));
	assert_ok(case_import(&c, "store"));
	assert_unchanged(&c, 1);
	case_close(&c);
}

/* --- the store changes -------------------------------------------------- */

static void drop_object(struct import_case *c, const struct oid *id, bool end)
{
	struct index_txn t;

	assert_ok(index_txn_begin(c->store->index, true, &t));
	assert_ok(index_delete(&t, INDEX_OBJECTS,
			       index_key_of(id->b, OID_BYTES)));
	if (end)
		assert_ok(index_end_epoch(&t));
	assert_ok(index_txn_commit(&t));
}

TEST(content_that_the_store_has_lost_is_read_again)
{
	static uint8_t big[BIG_BYTES];
	struct import_case c;
	struct oid id;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	id = oid_of(OID_BLOB, "small", 5);
	drop_object(&c, &id, false);
	import_and_check(&c, FILES - 1);
	assert_int_equal(store_has(c.store, &id), 1);
	/* A chunk that two files have, of which none is read twice. */
	fill_bytes(big, sizeof big, 1);
	id = oid_of(OID_BLOB, big, FORMAT_CHUNK_BYTES);
	drop_object(&c, &id, false);
	import_and_check(&c, FILES - 1);
	assert_int_equal(store_has(c.store, &id), 1);
	case_close(&c);
}

TEST(removing_objects_ends_what_was_remembered)
{
	struct oid id = oid_of(OID_BLOB, "small", 5);
	struct import_case c;
	uint64_t before, after;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	assert_ok(store_epoch(c.store, &before));
	drop_object(&c, &id, true);
	import_and_check(&c, 0);
	assert_ok(store_epoch(c.store, &after));
	assert_true(before != after);
	import_and_check(&c, FILES);
	case_close(&c);
}

/* --- the scan ----------------------------------------------------------- */

/* Finds the only scan; -1 when there is none. */
static int open_scan(struct import_case *c, char *name, size_t n)
{
	const int fd = openat(store_fd(c->store), "scans",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int found = -1;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		assert_int_equal(found, -1);
		(void)snprintf(name, n, "%s", e->d_name);
		found = openat(fd, name, O_RDWR | O_CLOEXEC);
		assert_true(found >= 0);
	}
	(void)closedir(d);
	return found;
}

TEST(a_damaged_scan_is_ignored_and_replaced)
{
	static const unsigned places[] = {0, 5, 9, 17, 25, 32, 50, 75, 100};
	struct import_case c;
	char name[256];
	struct stat st;
	int fd;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	for (size_t i = 0; i <= ARRAY_SIZE(places); i++) {
		uint8_t byte;

		fd = open_scan(&c, name, sizeof name);
		assert_int_equal(fd >= 0, is_remembering(&c));
		if (fd < 0)
			break;
		assert_ok(fstat(fd, &st));
		assert_int_equal(st.st_mode & 07777, 0600);
		if (i < ARRAY_SIZE(places)) {
			assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
			byte ^= 0x10;
			assert_ok(io_pwrite(fd, &byte, 1, places[i]));
		} else {
			assert_ok(ftruncate(fd, st.st_size / 2));
		}
		(void)close(fd);
		import_and_check(&c, 0);
		import_and_check(&c, FILES);
	}
	case_close(&c);
}

TEST(a_scan_forgets_the_files_that_are_gone)
{
	struct import_case c;
	char name[256];
	struct stat st[2];
	int fd;

	case_open(&c, *state);
	make_files(&c);
	settle();
	for (int i = 0; i < 2; i++) {
		assert_ok(case_import(&c, "store"));
		fd = open_scan(&c, name, sizeof name);
		if (fd < 0)
			break;
		assert_ok(fstat(fd, &st[i]));
		(void)close(fd);
		if (i == 0)
			assert_ok(unlinkat(c.src_fd, "small", 0));
		else
			assert_true(st[1].st_size < st[0].st_size);
	}
	case_close(&c);
}

TEST(an_import_with_other_excludes_has_a_scan_of_its_own)
{
	static const char *const globs[] = {"big"};
	struct import_case c;

	case_open(&c, *state);
	make_files(&c);
	settle();
	assert_ok(case_import(&c, "store"));
	c.options.excludes = globs;
	c.options.exclude_count = 1;
	import_and_check(&c, 0);
	import_and_check(&c, FILES - 1);
	c.options.exclude_count = 0;
	import_and_check(&c, FILES);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(
			a_second_import_opens_no_file_and_gives_the_same_id),
		RUN_SCRATCH(every_change_of_a_file_is_seen),
		RUN_SCRATCH(a_new_and_a_lost_name_of_a_file_are_seen),
		RUN_SCRATCH(
			one_changed_file_costs_it_its_directories_and_the_snapshot),
		RUN_SCRATCH(changes_within_one_tick_of_the_clock_are_seen),
		RUN_SCRATCH(
			a_file_that_changed_just_before_the_import_is_not_remembered),
		RUN_SCRATCH(
			a_store_through_a_mapping_that_changes_no_time_is_seen),
		RUN_SCRATCH(content_that_the_store_has_lost_is_read_again),
		RUN_SCRATCH(removing_objects_ends_what_was_remembered),
		RUN_SCRATCH(a_damaged_scan_is_ignored_and_replaced),
		RUN_SCRATCH(a_scan_forgets_the_files_that_are_gone),
		RUN_SCRATCH(
			an_import_with_other_excludes_has_a_scan_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
