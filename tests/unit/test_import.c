/* SPDX-License-Identifier: MIT */
/*
 * test_import.c - what a tree at rest becomes.
 *
 * Trees that change meanwhile are in test_import_live.c.
 */
#include "import_case.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "export_tree.h"
#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/xset.h"

TEST(keeps_every_kind_with_its_attributes)
{
	struct timespec times[2] = {{.tv_sec = 1}, {1234567890, 123456789}};
	struct import_case c;
	struct found f;

	case_open(&c, *state);
	make_text(c.src_fd, "file", "hello");
	assert_ok(fchmodat(c.src_fd, "file", 04751, 0));
	assert_ok(utimensat(c.src_fd, "file", times, 0));
	make_text(c.src_fd, "empty", "");
	assert_ok(symlinkat("../x/\xff", c.src_fd, "link"));
	assert_ok(mkfifoat(c.src_fd, "fifo", 0600));
	assert_ok(mkdirat(c.src_fd, "dir", 01777));
	assert_ok(mkdirat(c.src_fd, "dir/sub", 0700));
	if (geteuid() == 0) {
		assert_ok(mknodat(c.src_fd, "null", S_IFCHR | 0666,
				  makedev(1, 3)));
		assert_ok(mknodat(c.src_fd, "whiteout", S_IFCHR, 0));
	}
	assert_ok(case_import(&c, "store"));
	assert_ok(case_find(&c, "file", &f));
	assert_int_equal(f.entry.mode, S_IFREG | 04751);
	assert_int_equal(f.entry.uid, geteuid());
	assert_int_equal(f.entry.size, 5);
	assert_int_equal(f.entry.mtime_sec, 1234567890);
	assert_int_equal(f.entry.mtime_nsec, 123456789);
	buf_fini(&f.tree);
	assert_ok(case_find(&c, "empty", &f));
	assert_true(oid_is_null(&f.entry.content));
	buf_fini(&f.tree);
	assert_ok(case_find(&c, "link", &f));
	assert_true(S_ISLNK(f.entry.mode));
	assert_int_equal(f.entry.target_len, 6);
	assert_memory_equal(f.entry.target, "../x/\xff", 6);
	buf_fini(&f.tree);
	assert_ok(case_find(&c, "fifo", &f));
	assert_true(S_ISFIFO(f.entry.mode));
	buf_fini(&f.tree);
	assert_ok(case_find(&c, "dir", &f));
	assert_int_equal(f.entry.size, 1); /* subdirectories */
	assert_int_equal(f.entry.below, 1);
	buf_fini(&f.tree);
	if (geteuid() == 0) {
		assert_ok(case_find(&c, "null", &f));
		assert_int_equal(f.entry.rdev, makedev(1, 3));
		buf_fini(&f.tree);
		assert_true(case_has(&c, "whiteout"));
	}
	case_close(&c);
}

TEST(leaves_sockets_out_and_counts_them)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct import_case c;

	case_open(&c, *state);
	(void)snprintf(addr.sun_path, sizeof addr.sun_path, "%.90s/sock",
		       c.src);
	assert_ok(bind(fd, (struct sockaddr *)&addr, sizeof addr));
	assert_ok(close(fd));
	assert_ok(case_import(&c, "store"));
	assert_int_equal(c.result.sockets, 1);
	assert_int_equal(c.result.inodes, 1);
	assert_true(case_says(&c.notes, "sock"));
	case_close(&c);
}

static void find_link(struct import_case *c, const struct links *l,
		      const char *path, struct links_entry *ret_entry)
{
	struct found f;

	assert_ok(case_find(c, path, &f));
	buf_fini(&f.tree);
	assert_true(links_find(l, f.position, ret_entry));
	assert_int_equal(ret_entry->position, f.position);
}

TEST(records_hard_links_across_directories_by_position)
{
	struct links_entry a, b, z;
	struct buf table = {.len = 0};
	struct import_case c;
	struct snap snap;
	struct links l;
	struct found f;

	case_open(&c, *state);
	assert_ok(mkdirat(c.src_fd, "a", 0755));
	assert_ok(mkdirat(c.src_fd, "a/deep", 0755));
	assert_ok(mkdirat(c.src_fd, "z", 0755));
	make_text(c.src_fd, "z/three", "shared");
	assert_ok(linkat(c.src_fd, "z/three", c.src_fd, "a/deep/one", 0));
	assert_ok(linkat(c.src_fd, "z/three", c.src_fd, "m", 0));
	assert_ok(symlinkat("t", c.src_fd, "a/s"));
	assert_ok(linkat(c.src_fd, "a/s", c.src_fd, "z/s", 0));
	make_text(c.src_fd, "a/single", "alone");
	/* A name outside of the tree does not count. */
	assert_ok(linkat(c.src_fd, "a/single", c.src_fd, "../outside", 0));
	assert_ok(case_import(&c, "store"));
	case_snap(&c, &snap);
	assert_ok(store_get(c.store, &snap.links, &table));
	assert_ok(links_open(table.data, table.len, &l));
	assert_int_equal(l.count, 5);
	find_link(&c, &l, "a/deep/one", &a);
	find_link(&c, &l, "m", &b);
	find_link(&c, &l, "z/three", &z);
	assert_int_equal(a.first, a.position);
	assert_int_equal(b.first, a.position);
	assert_int_equal(z.first, a.position);
	assert_int_equal(z.count, 3);
	find_link(&c, &l, "z/s", &b);
	assert_int_equal(b.count, 2);
	assert_ok(case_find(&c, "z/three", &f));
	assert_int_equal(f.entry.size, 6);
	buf_fini(&f.tree);
	buf_fini(&table);
	case_close(&c);
}

TEST(takes_no_time_for_holes_and_names_content_by_bytes_alone)
{
	enum { MIB = 1 << 20 };
	uint8_t *data = malloc(FORMAT_CHUNK_BYTES);
	struct import_case c;
	struct found f, g;
	int fd;

	case_open(&c, *state);
	fill_bytes(data, FORMAT_CHUNK_BYTES, 7);
	/* The same bytes, once with a hole and once with zeros. */
	fd = openat(c.src_fd, "hole", O_WRONLY | O_CREAT, 0644);
	assert_ok(ftruncate(fd, 4 * MIB + 5));
	assert_ok(io_pwrite(fd, data, 1000, MIB + 77));
	assert_ok(close(fd));
	fd = openat(c.src_fd, "zero", O_WRONLY | O_CREAT, 0644);
	assert_ok(io_write(fd, data, 0));
	memset(data, 0, FORMAT_CHUNK_BYTES);
	for (int i = 0; i < 32; i++)
		assert_ok(io_write(fd, data, FORMAT_CHUNK_BYTES));
	assert_ok(io_write(fd, data, 5));
	fill_bytes(data, FORMAT_CHUNK_BYTES, 7);
	assert_ok(io_pwrite(fd, data, 1000, MIB + 77));
	assert_ok(close(fd));
	fd = openat(c.src_fd, "huge", O_WRONLY | O_CREAT, 0644);
	assert_ok(ftruncate(fd, INT64_C(64) << 30));
	assert_ok(close(fd));
	assert_ok(case_import(&c, "store"));
	assert_ok(case_find(&c, "hole", &f));
	assert_ok(case_find(&c, "zero", &g));
	assert_int_equal(oid_kind(&f.entry.content), OID_MANIFEST);
	assert_true(oid_equal(&f.entry.content, &g.entry.content));
	buf_fini(&f.tree);
	buf_fini(&g.tree);
	assert_ok(case_find(&c, "huge", &f));
	assert_int_equal(f.entry.size, INT64_C(64) << 30);
	buf_fini(&f.tree);
	free(data);
	case_close(&c);
}

static bool has_xattr(struct import_case *c, const struct oid *set,
		      const char *name, const char *value)
{
	struct buf b = {.len = 0};
	struct xset_pair p;
	struct xset x;
	bool found = false;

	assert_ok(store_get(c->store, set, &b));
	assert_ok(xset_open(b.data, b.len, &x));
	while (xset_next(&x, &p))
		if (p.name_len == strlen(name) &&
		    !memcmp(p.name, name, p.name_len))
			found = p.value_len == strlen(value) &&
				!memcmp(p.value, value, p.value_len);
	buf_fini(&b);
	return found;
}

TEST(keeps_extended_attributes_of_files_directories_and_symlinks)
{
	char path[600];
	struct import_case c;
	struct snap snap;
	struct found f;

	case_open(&c, *state);
	make_text(c.src_fd, "file", "x");
	assert_ok(symlinkat("x", c.src_fd, "link"));
	(void)snprintf(path, sizeof path, "%s/file", c.src);
	if (setxattr(path, "user.b", "2", 1, 0) < 0 && errno == ENOTSUP) {
		case_close(&c);
		skip();
	}
	assert_ok(setxattr(path, "user.a", "", 0, 0));
	assert_ok(setxattr(c.src, "user.dir", "d", 1, 0));
	(void)snprintf(path, sizeof path, "%s/link", c.src);
	if (geteuid() == 0)
		assert_ok(lsetxattr(path, "trusted.l", "t", 1, 0));
	assert_ok(case_import(&c, "store"));
	assert_ok(case_find(&c, "file", &f));
	assert_true(has_xattr(&c, &f.entry.xattrs, "user.a", ""));
	assert_true(has_xattr(&c, &f.entry.xattrs, "user.b", "2"));
	buf_fini(&f.tree);
	case_snap(&c, &snap);
	assert_true(has_xattr(&c, &snap.xattrs, "user.dir", "d"));
	if (geteuid() == 0) {
		assert_ok(case_find(&c, "link", &f));
		assert_true(has_xattr(&c, &f.entry.xattrs, "trusted.l", "t"));
		buf_fini(&f.tree);
	}
	case_close(&c);
}

TEST(keeps_names_of_any_bytes_and_length)
{
	char name[256];
	struct import_case c;

	case_open(&c, *state);
	memset(name, 'n', 255);
	name[255] = 0;
	make_text(c.src_fd, name, "1");
	make_text(c.src_fd, "\x01\n\xff\xfe", "2");
	make_text(c.src_fd, "a", "3");
	make_text(c.src_fd, "a\x01", "4");
	make_text(c.src_fd, "\xc3\xa9", "5");
	assert_ok(case_import(&c, "store"));
	assert_int_equal(c.result.files, 5);
	assert_true(case_has(&c, name));
	assert_true(case_has(&c, "\x01\n\xff\xfe"));
	assert_true(case_has(&c, "a\x01"));
	case_close(&c);
}

static void make_deep(int dirfd, unsigned levels)
{
	int fd = dup(dirfd);

	for (unsigned i = 0; i < levels; i++) {
		int next;

		assert_ok(mkdirat(fd, "directory", 0755));
		next = openat(fd, "directory", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		assert_ok(close(fd));
		fd = next;
	}
	make_text(fd, "bottom", "deep");
	assert_ok(close(fd));
}

TEST(goes_deeper_than_the_longest_path_but_not_without_end)
{
	struct import_case c;

	case_open(&c, *state);
	make_deep(c.src_fd, 1500); /* 15,000 bytes of path */
	assert_ok(case_import(&c, "store"));
	assert_int_equal(c.result.inodes, 1502);
	make_deep(c.src_fd, 0);
	assert_ok(renameat(c.src_fd, "directory", c.src_fd, "d"));
	make_deep(c.src_fd, FORMAT_MAX_DEPTH + 1);
	assert_int_equal(case_import(&c, "store"), -ENAMETOOLONG);
	assert_true(case_says(&c.diag, "deeper than"));
	case_close(&c);
}

TEST(excludes_by_name_by_path_and_directories_only)
{
	static const char *const globs[] = {"*.o", "/build", "lib/*.tmp",
					    "cache/"};
	struct import_case c;

	case_open(&c, *state);
	assert_ok(mkdirat(c.src_fd, "build", 0755));
	assert_ok(mkdirat(c.src_fd, "lib", 0755));
	assert_ok(mkdirat(c.src_fd, "lib/build", 0755));
	assert_ok(mkdirat(c.src_fd, "lib/cache", 0755));
	make_text(c.src_fd, "build/x", "");
	make_text(c.src_fd, "lib/a.o", "");
	make_text(c.src_fd, "lib/a.tmp", "");
	make_text(c.src_fd, "a.tmp", "");
	make_text(c.src_fd, "cache", "");
	make_text(c.src_fd, ".o", "");
	c.options.excludes = globs;
	c.options.exclude_count = ARRAY_SIZE(globs);
	assert_ok(case_import(&c, "store"));
	assert_false(case_has(&c, "build"));
	assert_true(case_has(&c, "lib/build"));
	assert_false(case_has(&c, "lib/a.o"));
	assert_false(case_has(&c, ".o"));
	assert_false(case_has(&c, "lib/a.tmp"));
	assert_true(case_has(&c, "a.tmp"));
	assert_true(case_has(&c, "cache"));
	assert_false(case_has(&c, "lib/cache"));
	case_close(&c);
}

static void make_plain(int fd, bool backwards)
{
	struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 5}};
	char name[32];

	assert_ok(mkdirat(fd, "d", 0755));
	for (int i = 0; i < 50; i++) {
		(void)snprintf(name, sizeof name, "d/%d",
			       backwards ? 49 - i : i);
		make_text(fd, name, name);
		assert_ok(utimensat(fd, name, times, 0));
	}
	assert_ok(linkat(fd, "d/7", fd, "d/link", 0));
	assert_ok(utimensat(fd, "d", times, 0));
	assert_ok(futimens(fd, times));
}

TEST(gives_the_same_id_again_elsewhere_and_in_any_order)
{
	struct import_case c;
	struct oid first;

	case_open(&c, *state);
	make_plain(c.src_fd, false);
	assert_ok(case_import(&c, "store"));
	first = c.result.id;
	assert_ok(case_import(&c, "store"));
	assert_true(oid_equal(&first, &c.result.id));
	assert_true(c.result.stored_bytes < 4096);
	assert_ok(case_import(&c, "store2"));
	assert_true(oid_equal(&first, &c.result.id));
	assert_ok(unlinkat(c.src_fd, "d/link", 0));
	assert_ok(io_remove_tree(c.src_fd, "d"));
	make_plain(c.src_fd, true);
	assert_ok(case_import(&c, "store3"));
	assert_true(oid_equal(&first, &c.result.id));
	case_close(&c);
}

/* Runs in a child: root could read everything. */
static void import_as_nobody(const struct test_scratch *scratch)
{
	struct import_case c;
	char name[32];

	case_open(&c, scratch);
	for (int i = 0; i < 12; i++) {
		(void)snprintf(name, sizeof name, "secret%d", i);
		make_text(c.src_fd, name, "s");
		assert_ok(fchmodat(c.src_fd, name, i < 3 ? 0 : 0644, 0));
	}
	assert_ok(mkdirat(c.src_fd, "closed", 0));
	assert_int_equal(case_import(&c, "store"), -EACCES);
	assert_true(case_says(&c.diag, "secret2: "));
	assert_true(case_says(&c.diag, "closed: "));
	assert_int_equal(c.diag.count, 4);
	c.options.skip_unreadable = true;
	assert_ok(case_import(&c, "store"));
	assert_int_equal(c.result.skipped, 4);
	assert_false(case_has(&c, "secret0"));
	assert_true(case_has(&c, "secret3"));
	for (int i = 0; i < 12; i++) {
		(void)snprintf(name, sizeof name, "secret%d", i);
		assert_ok(fchmodat(c.src_fd, name, 0, 0));
	}
	c.options.skip_unreadable = false;
	assert_int_equal(case_import(&c, "store"), -EACCES);
	assert_int_equal(c.diag.count, 11); /* ten, and that it stopped */
	assert_ok(fchmodat(c.src_fd, "closed", 0700, 0));
	case_close(&c);
}

TEST(names_up_to_ten_unreadable_files_or_skips_them)
{
	struct test_scratch *scratch = *state;
	int status;
	pid_t pid;

	assert_ok(fchmod(scratch->fd, 0777));
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		import_as_nobody(scratch);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void import_over_mount(const struct test_scratch *scratch)
{
	struct import_case c;
	char path[600];

	case_open(&c, scratch);
	assert_ok(mkdirat(c.src_fd, "mnt", 0755));
	(void)snprintf(path, sizeof path, "%s/mnt", c.src);
	assert_ok(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	assert_ok(mount("none", path, "tmpfs", 0, NULL));
	make_text(c.src_fd, "mnt/inside", "x");
	assert_ok(case_import(&c, "store"));
	assert_true(case_has(&c, "mnt"));
	assert_false(case_has(&c, "mnt/inside"));
	assert_true(case_says(&c.notes, "mnt"));
	c.options.cross_mounts = true;
	assert_ok(case_import(&c, "store"));
	assert_true(case_has(&c, "mnt/inside"));
	case_close(&c);
}

TEST(does_not_cross_into_other_file_systems)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0)
			_exit(77);
		import_over_mount(*state);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

TEST(leaves_the_store_inside_the_tree_out)
{
	struct import_case c;

	case_open(&c, *state);
	make_text(c.src_fd, "file", "x");
	assert_ok(case_import(&c, "src/store"));
	assert_true(case_has(&c, "file"));
	assert_false(case_has(&c, "store"));
	assert_true(case_says(&c.notes, "store"));
	case_close(&c);
}

TEST(refuses_what_is_no_directory_and_follows_a_root_symlink)
{
	struct import_case c;
	struct oid id;

	case_open(&c, *state);
	make_text(c.src_fd, "file", "x");
	assert_ok(case_import(&c, "store"));
	id = c.result.id;
	assert_ok(symlinkat("src", c.src_fd, "../alias"));
	memcpy(strrchr(c.src, '/'), "/alias", 7);
	assert_ok(case_import(&c, "store"));
	assert_true(oid_equal(&id, &c.result.id));
	memcpy(strrchr(c.src, '/'), "/src/file", 10);
	assert_int_equal(import_dir(c.store, c.src, NULL, NULL, NULL, &c.diag,
				    &c.result),
			 -ENOTDIR);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(keeps_every_kind_with_its_attributes),
		RUN_SCRATCH(leaves_sockets_out_and_counts_them),
		RUN_SCRATCH(records_hard_links_across_directories_by_position),
		RUN_SCRATCH(
			takes_no_time_for_holes_and_names_content_by_bytes_alone),
		RUN_SCRATCH(
			keeps_extended_attributes_of_files_directories_and_symlinks),
		RUN_SCRATCH(keeps_names_of_any_bytes_and_length),
		RUN_SCRATCH(
			goes_deeper_than_the_longest_path_but_not_without_end),
		RUN_SCRATCH(excludes_by_name_by_path_and_directories_only),
		RUN_SCRATCH(gives_the_same_id_again_elsewhere_and_in_any_order),
		RUN_SCRATCH(names_up_to_ten_unreadable_files_or_skips_them),
		RUN_SCRATCH(does_not_cross_into_other_file_systems),
		RUN_SCRATCH(leaves_the_store_inside_the_tree_out),
		RUN_SCRATCH(
			refuses_what_is_no_directory_and_follows_a_root_symlink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
