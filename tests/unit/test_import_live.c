/* SPDX-License-Identifier: MIT */
/*
 * test_import_live.c - trees that change while they are imported.
 *
 * A thread changes files as fast as it can while imports run; what comes out
 * must be a state that existed. Repositories of git are exported again and
 * checked by git itself.
 */
#include "import_case.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "export_tree.h"
#include "object/format.h"
#include "object/manifest.h"

enum { BIG_BYTES = FORMAT_CHUNK_BYTES + 100 };

struct writer {
	pthread_t thread;
	atomic_bool stop;
	bool failed; /* the writer thread's, until it is joined */
	int dirfd;
	long pause_ns;
	void (*step)(struct writer *w, unsigned i);
};

static void *writer_main(void *arg)
{
	struct writer *w = arg;

	for (unsigned i = 0; !w->stop; i++) {
		struct timespec pause = {.tv_nsec = w->pause_ns};

		w->step(w, i);
		if (w->pause_ns)
			(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

static void writer_start(struct writer *w)
{
	w->stop = false;
	assert_ok(pthread_create(&w->thread, NULL, writer_main, w));
}

static void writer_stop(struct writer *w)
{
	w->stop = true;
	assert_ok(pthread_join(w->thread, NULL));
	assert_false(w->failed);
}

static void read_content(struct import_case *c, const char *path,
			 struct buf *out)
{
	struct manifest m;
	struct found f;
	struct buf b = {.len = 0};

	assert_ok(case_find(c, path, &f));
	assert_ok(store_get(c->store, &f.entry.content, &b));
	if (oid_kind(&f.entry.content) == OID_BLOB) {
		buf_put(out, b.data, b.len);
	} else {
		assert_ok(manifest_open(b.data, b.len, &m));
		for (uint64_t i = 0; i < m.count; i++) {
			struct oid id = manifest_chunk(&m, i);

			assert_ok(store_get(c->store, &id, out));
		}
	}
	assert_int_equal(out->len, f.entry.size);
	buf_fini(&b);
	buf_fini(&f.tree);
}

/* All bytes of the file are the same at every moment between two steps. */
static void step_rewrite(struct writer *w, unsigned i)
{
	static uint8_t data[BIG_BYTES];
	int fd = openat(w->dirfd, "big", O_WRONLY | O_CLOEXEC);

	memset(data, 'a' + (int)(i % 26), sizeof data);
	w->failed |= io_pwrite(fd, data, sizeof data, 0) < 0;
	(void)close(fd);
}

/* Imports and checks that the file is whole; false when it did not settle. */
static bool import_whole(struct import_case *c)
{
	struct buf b = {.len = 0};
	int r = case_import(c, "store");

	if (r == -EBUSY) {
		assert_true(case_says(&c->diag, "big: "));
		return false;
	}
	assert_ok(r);
	read_content(c, "big", &b);
	for (size_t at = 1; at < b.len; at++)
		if (b.data[at] != b.data[0])
			fail_msg("torn at byte %zu", at);
	buf_fini(&b);
	return true;
}

TEST(reads_a_file_again_that_is_rewritten_in_place)
{
	struct import_case c;
	struct writer w = {.pause_ns = 60000000, .step = step_rewrite};
	unsigned taken = 0;

	case_open(&c, *state);
	w.dirfd = c.src_fd;
	make_text(c.src_fd, "big", "");
	step_rewrite(&w, 0);
	writer_start(&w);
	for (int i = 0; i < 20; i++)
		taken += import_whole(&c);
	writer_stop(&w);
	assert_true(taken > 0);
	case_close(&c);
}

enum { MEETINGS = 500 };

/* On a loaded machine the writer may pause: one of many must meet it busy. */
TEST(gives_up_on_a_file_that_never_settles_and_names_it)
{
	struct import_case c;
	struct writer w = {.pause_ns = 0, .step = step_rewrite};
	unsigned taken = 0;
	struct store_stat st;

	case_open(&c, *state);
	w.dirfd = c.src_fd;
	make_text(c.src_fd, "big", "");
	step_rewrite(&w, 0);
	writer_start(&w);
	while (taken < MEETINGS && import_whole(&c))
		taken++;
	writer_stop(&w);
	assert_true(taken < MEETINGS);
	/* Nothing of the failed import became visible. */
	assert_ok(store_stat(c.store, &st));
	assert_true(st.snapshots <= taken);
	case_close(&c);
}

static void step_append(struct writer *w, unsigned i)
{
	char line[32];
	int fd = openat(w->dirfd, "log", O_WRONLY | O_APPEND | O_CLOEXEC);
	int n = snprintf(line, sizeof line, "%09u\n", i);

	w->failed |= io_write(fd, line, (size_t)n) < 0;
	(void)close(fd);
}

TEST(takes_a_file_that_only_grows_at_its_length_at_open)
{
	struct import_case c;
	struct writer w = {.pause_ns = 10000, .step = step_append};

	case_open(&c, *state);
	w.dirfd = c.src_fd;
	make_text(c.src_fd, "log", "");
	writer_start(&w);
	for (int i = 0; i < 10; i++) {
		struct buf b = {.len = 0};
		char want[32];

		assert_ok(case_import(&c, "store"));
		read_content(&c, "log", &b);
		assert_int_equal(b.len % 10, 0);
		for (size_t at = 0; at < b.len; at += 10) {
			(void)snprintf(want, sizeof want, "%09u\n",
				       (unsigned)(at / 10));
			assert_memory_equal(b.data + at, want, 10);
		}
		buf_fini(&b);
	}
	writer_stop(&w);
	case_close(&c);
}

/* Files come, go, are replaced and change their kind. */
static void step_churn(struct writer *w, unsigned i)
{
	char name[32];

	(void)snprintf(name, sizeof name, "f%u", i % 64);
	switch (i / 64 % 4) {
	case 0:
		make_text(w->dirfd, "new", "12345678");
		(void)renameat(w->dirfd, "new", w->dirfd, name);
		break;
	case 1:
		(void)unlinkat(w->dirfd, name, 0);
		break;
	case 2:
		(void)symlinkat("target", w->dirfd, name);
		break;
	default:
		(void)unlinkat(w->dirfd, name, 0);
		(void)mkdirat(w->dirfd, name, 0755);
		(void)unlinkat(w->dirfd, name, AT_REMOVEDIR);
	}
	make_text(w->dirfd, "next", "always");
	(void)renameat(w->dirfd, "next", w->dirfd, "stays");
}

TEST(survives_files_that_vanish_and_never_misses_one_that_is_replaced)
{
	struct import_case c;
	struct writer w = {.pause_ns = 1000, .step = step_churn};

	case_open(&c, *state);
	w.dirfd = c.src_fd;
	make_text(c.src_fd, "stays", "always");
	writer_start(&w);
	for (int i = 0; i < 30; i++) {
		struct buf b = {.len = 0};

		assert_ok(case_import(&c, "store"));
		read_content(&c, "stays", &b);
		assert_int_equal(b.len, 6);
		buf_fini(&b);
	}
	writer_stop(&w);
	case_close(&c);
}

TEST(leaves_locks_of_git_out_below_a_git_directory_only)
{
	static const char *const left[] = {
		".git/index.lock",
		".git/gc.pid",
		".git/refs/heads/a.lock",
		".git/objects/aa/tmp_obj_x",
		".git/objects/pack/tmp_pack_x",
		".git/objects/pack/.tmp-1-pack-ff.pack"};
	static const char *const dirs[] = {
		".git",		".git/refs",	   ".git/refs/heads",
		".git/objects", ".git/objects/aa", ".git/objects/pack"};
	struct import_case c;

	case_open(&c, *state);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		assert_ok(mkdirat(c.src_fd, dirs[i], 0755));
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		make_text(c.src_fd, left[i], "x");
	make_text(c.src_fd, ".git/HEAD", "ref: refs/heads/a\n");
	make_text(c.src_fd, ".git/refs/heads/a", "aa\n");
	make_text(c.src_fd, ".git/objects/aa/bb", "x");
	make_text(c.src_fd, ".git/objects/pack/pack-1.pack", "lone");
	make_text(c.src_fd, "yarn.lock", "x");
	assert_ok(linkat(c.src_fd, ".git/objects/aa/bb", c.src_fd,
			 ".git/objects/aa/cc", 0));
	assert_ok(case_import(&c, "store"));
	assert_int_equal(c.result.locks, ARRAY_SIZE(left));
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		assert_false(case_has(&c, left[i]));
	assert_true(case_has(&c, ".git/refs/heads/a"));
	assert_true(case_has(&c, ".git/objects/aa/cc"));
	assert_true(case_has(&c, ".git/objects/pack/pack-1.pack"));
	assert_true(case_has(&c, "yarn.lock"));
	assert_true(case_says(&c.notes, "locks"));
	case_close(&c);
}

/* Runs a shell script in folder; all of git's settings are its own. */
static int shell(const char *folder, const char *script)
{
	char command[2048];

	(void)snprintf(command, sizeof command,
		       "cd '%s' && export HOME=\"$PWD\" "
		       "GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a "
		       "GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
		       "GIT_COMMITTER_EMAIL=a@b && { %s; } >/dev/null 2>&1",
		       folder, script);
	return system(command);
}

static void step_git(struct writer *w, unsigned i)
{
	char folder[64];
	char script[512];

	(void)snprintf(folder, sizeof folder, "/proc/self/fd/%d", w->dirfd);
	(void)snprintf(script, sizeof script,
		       "echo %u > f%u && git add -A && git commit -q -m c%u; "
		       "git branch -f b%u; "
		       "[ %u -ne 0 ] || git gc -q --prune=2.weeks.ago",
		       i, i % 7, i, i % 5, i % 4);
	(void)shell(folder, script);
}

TEST(brings_a_whole_repository_while_commits_and_gc_run)
{
	struct test_scratch *scratch = *state;
	struct writer w = {.pause_ns = 1000, .step = step_git};
	struct import_case c;
	char out[600];

	if (system("git --version >/dev/null 2>&1") != 0)
		skip();
	case_open(&c, scratch);
	w.dirfd = fcntl(c.src_fd, F_DUPFD, 20); /* the shell inherits it */
	assert_ok(shell(c.src, "git init -q -b main . && echo 1 > f1 && "
			       "git add -A && git commit -q -m first"));
	writer_start(&w);
	for (int i = 0; i < 6; i++) {
		int fd;

		assert_ok(case_import(&c, "store"));
		(void)snprintf(out, sizeof out, "%s/out", scratch->path);
		assert_ok(mkdir(out, 0755));
		fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_ok(export_snapshot(c.store, &c.result.id, fd));
		assert_ok(close(fd));
		assert_ok(shell(out, "git fsck --full && git reset --hard && "
				     "git log --all"));
		assert_ok(io_remove_tree(AT_FDCWD, out));
	}
	writer_stop(&w);
	assert_ok(close(w.dirfd));
	case_close(&c);
}

/* In memory where there is such a folder: on a busy disk a writer may stand
 * still in the middle of a write for longer than anybody waits. */
static int memory_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char *saved = tmp ? strdup(tmp) : NULL;
	int r;

	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 1);
	r = test_scratch_setup(state);
	if (saved)
		(void)setenv("TMPDIR", saved, 1);
	else
		(void)unsetenv("TMPDIR");
	free(saved);
	return r;
}

#define RUN_MEMORY(name)                                                       \
	cmocka_unit_test_setup_teardown(name, memory_setup,                    \
					test_scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_MEMORY(reads_a_file_again_that_is_rewritten_in_place),
		RUN_MEMORY(gives_up_on_a_file_that_never_settles_and_names_it),
		RUN_SCRATCH(takes_a_file_that_only_grows_at_its_length_at_open),
		RUN_SCRATCH(
			survives_files_that_vanish_and_never_misses_one_that_is_replaced),
		RUN_SCRATCH(leaves_locks_of_git_out_below_a_git_directory_only),
		RUN_SCRATCH(brings_a_whole_repository_while_commits_and_gc_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
