/* SPDX-License-Identifier: MIT */
/*
 * Tests of base/io.h. Tests of rights and mounts fork: the child gives up root
 * or gets a mount namespace, and answers with its exit code.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"

enum { NOBODY = 65534, DEEP = 5000 };

static unsigned count_names(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

static bool exists(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_file(int dirfd, const char *name)
{
	assert_ok(io_write_file(dirfd, name, "x", 1, false));
}

static int exit_code(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(reads_stop_at_the_end_and_return_the_count)
{
	struct test_scratch *s = *state;
	char got[16];
	_cleanup_close_ int fd = -1;

	assert_ok(io_write_file(s->fd, "f", "0123456789", 10, false));
	fd = openat(s->fd, "f", O_RDONLY);
	assert_int_equal(io_read(fd, got, 4), 4);
	assert_int_equal(io_read(fd, got, sizeof got), 6);
	assert_memory_equal(got, "456789", 6);
	assert_int_equal(io_read(fd, got, sizeof got), 0);
	assert_int_equal(io_pread(fd, got, sizeof got, 7), 3);
	assert_memory_equal(got, "789", 3);
	assert_int_equal(io_pread(fd, got, 1, 100), 0);
	assert_int_equal(io_pread(fd, got, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(io_read(-1, got, 1), -EBADF);
}

/* A pipe takes and gives 64 KiB at most at a time. */
TEST(a_pipe_of_short_reads_and_writes_is_moved_whole)
{
	enum { SIZE = 1 << 20 };
	_cleanup_free_ uint8_t *data = malloc(SIZE);
	int p[2];
	pid_t pid;

	assert_ok(pipe(p));
	pid = fork();
	if (pid == 0) {
		memset(data, 0x5a, SIZE);
		_exit(io_write(p[1], data, SIZE) == 0 ? 0 : 1);
	}
	(void)close(p[1]);
	assert_int_equal(io_read(p[0], data, SIZE), SIZE);
	assert_int_equal(data[SIZE - 1], 0x5a);
	(void)close(p[0]);
	assert_int_equal(exit_code(pid), 0);
}

TEST(writes_write_everything_or_fail)
{
	struct test_scratch *s = *state;
	char got[16];
	_cleanup_close_ int fd = openat(s->fd, "f", O_RDWR | O_CREAT, 0600);
	_cleanup_close_ int full = open("/dev/full", O_WRONLY);

	assert_ok(io_write(fd, "abc", 3));
	assert_ok(io_pwrite(fd, "xyz", 3, 8));
	assert_int_equal(io_pread(fd, got, sizeof got, 0), 11);
	assert_memory_equal(got, "abc\0\0\0\0\0xyz", 11);
	assert_int_equal(io_write(full, "x", 1), -ENOSPC);
	assert_int_equal(io_pwrite(-1, "x", 1, 0), -EBADF);
}

TEST(a_small_file_is_appended_to_the_buffer_up_to_the_bound)
{
	struct test_scratch *s = *state;
	_cleanup_buf_ struct buf b = {0};

	assert_ok(io_write_file(s->fd, "f", "0123456789", 10, false));
	buf_put(&b, ">", 1);
	assert_ok(io_read_file(s->fd, "f", 10, &b));
	assert_string_equal(buf_str(&b), ">0123456789");
	assert_int_equal(io_read_file(s->fd, "f", 9, &b), -EFBIG);
	assert_string_equal(buf_str(&b), ">0123456789");
	assert_int_equal(io_read_file(s->fd, "no", 9, &b), -ENOENT);
	assert_ok(io_read_file(AT_FDCWD, "/proc/self/stat", SIZE_MAX / 4, &b));
	assert_true(b.len > 20);
}

TEST(what_is_no_file_is_refused_without_waiting)
{
	struct test_scratch *s = *state;
	_cleanup_buf_ struct buf b = {0};

	assert_ok(mkfifoat(s->fd, "fifo", 0600));
	assert_ok(symlinkat("fifo", s->fd, "to-fifo"));
	assert_ok(symlinkat("/dev/zero", s->fd, "endless"));
	for (const char *const *name =
		     (const char *const[]){".", "fifo", "to-fifo", "endless",
					   NULL};
	     *name; name++) {
		assert_int_equal(io_read_file(s->fd, *name, 9, &b),
				 -EFSCORRUPTED);
		assert_int_equal(io_open_file(s->fd, *name, O_RDONLY),
				 -EFSCORRUPTED);
		assert_int_equal(io_open_file(s->fd, *name, O_WRONLY),
				 -EFSCORRUPTED);
	}
	assert_ok(symlinkat("file", s->fd, "to-file"));
	assert_ok(io_write_file(s->fd, "file", "x", 1, false));
	assert_ok(io_read_file(s->fd, "to-file", 9, &b));
	assert_int_equal(io_open_file(s->fd, "to-file", O_RDONLY),
			 -EFSCORRUPTED);
	assert_int_equal(io_open_file(s->fd, "none", O_RDONLY), -ENOENT);
}

TEST(a_file_longer_than_one_step_is_read_whole)
{
	enum { SIZE = 300000 };
	struct test_scratch *s = *state;
	_cleanup_free_ uint8_t *data = malloc(SIZE);
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 7 >> 3);
	assert_ok(io_write_file(s->fd, "f", data, SIZE, false));
	assert_ok(io_read_file(s->fd, "f", SIZE, &b));
	assert_int_equal(b.len, SIZE);
	assert_memory_equal(b.data, data, SIZE);
	buf_clear(&b);
	assert_int_equal(io_read_file(s->fd, "f", SIZE - 1, &b), -EFBIG);
}

TEST(a_written_file_has_mode_0600_and_leaves_no_other_name)
{
	struct test_scratch *s = *state;
	mode_t mask = umask(0777);
	struct stat st;

	assert_ok(io_write_file(s->fd, "f", "old", 3, true));
	(void)umask(mask);
	assert_ok(io_write_file(s->fd, "f", "newer", 5, true));
	assert_ok(fstatat(s->fd, "f", &st, 0));
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(count_names(s->fd), 1);
}

TEST(a_file_is_written_below_a_path_and_below_the_working_directory)
{
	struct test_scratch *s = *state;
	char path[300];

	assert_ok(mkdirat(s->fd, "d", 0700));
	assert_ok(io_write_file(s->fd, "d/f", "x", 1, true));
	assert_true(exists(s->fd, "d/f"));
	(void)snprintf(path, sizeof path, "%s/g", s->path);
	assert_ok(io_write_file(AT_FDCWD, path, "x", 1, true));
	assert_true(exists(s->fd, "g"));
	assert_int_equal(io_write_file(s->fd, "no/f", "x", 1, true), -ENOENT);
}

TEST(a_failed_write_leaves_the_old_name_and_no_temporary_one)
{
	struct test_scratch *s = *state;

	assert_ok(mkdirat(s->fd, "d", 0700));
	make_file(s->fd, "d/x");
	assert_int_equal(io_write_file(s->fd, "d", "x", 1, false), -EISDIR);
	assert_int_equal(count_names(s->fd), 1);
	assert_true(exists(s->fd, "d/x"));
}

TEST(leftover_temporary_names_are_stepped_over)
{
	struct test_scratch *s = *state;
	char name[64];

	for (unsigned i = 0; i < 60; i++) {
		int fd;

		(void)snprintf(name, sizeof name, ".tmp-%ld-%u", (long)getpid(),
			       i);
		fd = openat(s->fd, name, O_WRONLY | O_CREAT, 0600);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_ok(io_write_file(s->fd, "f", "x", 1, false));
	assert_int_equal(count_names(s->fd), 61);
}

TEST(sync_dir_returns_the_error_of_the_call)
{
	struct test_scratch *s = *state;

	assert_ok(io_sync_dir(s->fd));
	assert_int_equal(io_sync_dir(-1), -EBADF);
}

TEST(open_dir_makes_a_missing_directory_and_refuses_a_file)
{
	struct test_scratch *s = *state;
	struct stat st;
	int fd = io_open_dir(s->fd, "d", 0700);

	assert_true(fd >= 0);
	assert_ok(fstat(fd, &st));
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	(void)close(fd);
	fd = io_open_dir(s->fd, "d", 0700);
	assert_true(fd >= 0);
	(void)close(fd);
	make_file(s->fd, "f");
	assert_int_equal(io_open_dir(s->fd, "f", 0700), -ENOTDIR);
	assert_int_equal(io_open_dir(s->fd, "no/d", 0700), -ENOENT);
}

TEST(nothing_is_opened_through_a_link_or_outside)
{
	struct test_scratch *s = *state;
	int dir = io_open_dir(s->fd, "d", 0700), fd;

	make_file(s->fd, "f");
	make_file(s->fd, "d/f");
	assert_int_equal(symlinkat("f", dir, "link"), 0);
	assert_int_equal(symlinkat("../d", dir, "up"), 0);
	fd = io_open_beneath(s->fd, "d/f", O_RDONLY);
	assert_true(fd >= 0);
	(void)close(fd);
	for (int flags = 0; flags <= O_PATH; flags += O_PATH) {
		assert_int_equal(io_open_beneath(dir, "link", flags), -ELOOP);
		assert_int_equal(io_open_beneath(dir, "up/f", flags), -ELOOP);
		assert_int_equal(io_open_beneath(dir, "../f", flags), -EXDEV);
		assert_int_equal(io_open_beneath(dir, "/dev", flags), -EXDEV);
		assert_int_equal(io_open_beneath(dir, "no", flags), -ENOENT);
	}
	(void)close(dir);
}

TEST(removing_a_name_that_does_not_exist_is_no_error)
{
	struct test_scratch *s = *state;

	assert_ok(io_remove_tree(s->fd, "no"));
	assert_int_equal(io_remove_tree(s->fd, "no/no"), 0);
}

TEST(a_tree_of_all_kinds_is_removed_without_following_links)
{
	struct test_scratch *s = *state;
	char name[64];

	assert_ok(mkdirat(s->fd, "keep", 0700));
	make_file(s->fd, "keep/f");
	assert_ok(mkdirat(s->fd, "t", 0700));
	assert_ok(symlinkat("../keep", s->fd, "t/link"));
	assert_ok(mkfifoat(s->fd, "t/fifo", 0600));
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof name, "t/d%d", i);
		assert_ok(mkdirat(s->fd, name, 0700));
		(void)snprintf(name, sizeof name, "t/d%d/f", i);
		make_file(s->fd, name);
	}
	assert_ok(io_remove_tree(s->fd, "t"));
	assert_false(exists(s->fd, "t"));
	assert_true(exists(s->fd, "keep/f"));
}

TEST(a_plain_file_or_link_at_the_top_is_removed)
{
	struct test_scratch *s = *state;

	assert_ok(mkdirat(s->fd, "keep", 0700));
	assert_ok(symlinkat("keep", s->fd, "link"));
	make_file(s->fd, "f");
	assert_ok(io_remove_tree(s->fd, "link"));
	assert_ok(io_remove_tree(s->fd, "f"));
	assert_int_equal(count_names(s->fd), 1);
}

/* Far deeper than PATH_MAX allows in one path, and than descriptors are
 * allowed; with a file and a side branch at each level. */
TEST(a_tree_deeper_than_paths_and_descriptors_is_removed)
{
	struct test_scratch *s = *state;
	int fd;

	assert_ok(mkdirat(s->fd, "t", 0700));
	fd = openat(s->fd, "t", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < DEEP; i++) {
		int next;

		assert_ok(mkdirat(fd, "directory", 0700));
		assert_ok(mkdirat(fd, "side", 0700));
		next = openat(fd, "directory", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	assert_ok(io_remove_tree(s->fd, "t"));
	assert_int_equal(count_names(s->fd), 0);
}

/* As a user without rights over others' files. */
static int remove_locked_dirs(const struct test_scratch *s)
{
	int fd;

	if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
		return 10;
	fd = openat(s->fd, "open", O_RDONLY | O_DIRECTORY);
	if (mkdirat(fd, "t", 0700) < 0 || mkdirat(fd, "t/a", 0700) < 0 ||
	    mkdirat(fd, "t/a/b", 0700) < 0 || mkdirat(fd, "t/c", 0700) < 0 ||
	    io_write_file(fd, "t/a/b/f", "x", 1, false) < 0)
		return 11;
	if (fchmodat(fd, "t/a/b", 0, 0) < 0 ||
	    fchmodat(fd, "t/a", 0500, 0) < 0 || fchmodat(fd, "t", 0100, 0) < 0)
		return 12;
	return io_remove_tree(fd, "t") == 0 && !exists(fd, "t") ? 0 : 13;
}

TEST(directories_without_rights_are_removed_by_their_owner)
{
	struct test_scratch *s = *state;
	pid_t pid;

	assert_ok(fchmod(s->fd, 0755));
	assert_ok(mkdirat(s->fd, "open", 0777));
	assert_ok(fchmodat(s->fd, "open", 0777, 0));
	pid = fork();
	if (pid == 0)
		_exit(remove_locked_dirs(s));
	assert_int_equal(exit_code(pid), 0);
}

enum { NO_NAMESPACE = 77 };

static int remove_over_mounts(const struct test_scratch *s)
{
	char from[300];
	char to[300];
	int fd;
	int r;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return NO_NAMESPACE;
	(void)snprintf(from, sizeof from, "%s/keep", s->path);
	(void)snprintf(to, sizeof to, "%s/t/m", s->path);
	if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		return NO_NAMESPACE;
	/* s->fd still looks at the old namespace's mount. */
	fd = open(s->path, O_RDONLY | O_DIRECTORY);
	r = io_remove_tree(fd, "t");
	(void)umount2(to, MNT_DETACH);
	return r == -EXDEV && exists(s->fd, "keep/f") ? 0 : 1;
}

TEST(a_mount_below_is_not_entered_even_of_the_same_file_system)
{
	struct test_scratch *s = *state;
	pid_t pid;
	int code;

	assert_ok(mkdirat(s->fd, "keep", 0700));
	make_file(s->fd, "keep/f");
	assert_ok(mkdirat(s->fd, "t", 0700));
	assert_ok(mkdirat(s->fd, "t/m", 0700));
	pid = fork();
	if (pid == 0)
		_exit(remove_over_mounts(s));
	code = exit_code(pid);
	if (code == NO_NAMESPACE)
		skip();
	assert_int_equal(code, 0);
}

TEST(a_lock_that_another_has_is_busy_when_told_not_to_wait)
{
	const struct test_scratch *t = *state;
	int one = io_open_file(t->fd, "lock", O_RDWR | O_CREAT);
	int two = io_open_file(t->fd, "lock", O_RDWR);

	assert_ok(io_lock(one, LOCK_EX));
	assert_int_equal(io_lock(two, LOCK_EX | LOCK_NB), -EBUSY);
	assert_int_equal(io_lock(two, LOCK_SH | LOCK_NB), -EBUSY);
	assert_ok(io_lock(one, LOCK_SH));
	assert_ok(io_lock(two, LOCK_SH | LOCK_NB));
	assert_int_equal(io_lock(-1, LOCK_SH), -EBADF);
	(void)close(one);
	(void)close(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(leftover_temporary_names_are_stepped_over),
		RUN_SCRATCH(reads_stop_at_the_end_and_return_the_count),
		RUN(a_pipe_of_short_reads_and_writes_is_moved_whole),
		RUN_SCRATCH(writes_write_everything_or_fail),
		RUN_SCRATCH(
			a_small_file_is_appended_to_the_buffer_up_to_the_bound),
		RUN_SCRATCH(what_is_no_file_is_refused_without_waiting),
		RUN_SCRATCH(a_file_longer_than_one_step_is_read_whole),
		RUN_SCRATCH(
			a_written_file_has_mode_0600_and_leaves_no_other_name),
		RUN_SCRATCH(
			a_file_is_written_below_a_path_and_below_the_working_directory),
		RUN_SCRATCH(
			a_failed_write_leaves_the_old_name_and_no_temporary_one),
		RUN_SCRATCH(
			a_lock_that_another_has_is_busy_when_told_not_to_wait),
		RUN_SCRATCH(sync_dir_returns_the_error_of_the_call),
		RUN_SCRATCH(
			open_dir_makes_a_missing_directory_and_refuses_a_file),
		RUN_SCRATCH(nothing_is_opened_through_a_link_or_outside),
		RUN_SCRATCH(removing_a_name_that_does_not_exist_is_no_error),
		RUN_SCRATCH(
			a_tree_of_all_kinds_is_removed_without_following_links),
		RUN_SCRATCH(a_plain_file_or_link_at_the_top_is_removed),
		RUN_SCRATCH(
			a_tree_deeper_than_paths_and_descriptors_is_removed),
		RUN_SCRATCH(
			directories_without_rights_are_removed_by_their_owner),
		RUN_SCRATCH(
			a_mount_below_is_not_entered_even_of_the_same_file_system),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
