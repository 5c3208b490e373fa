/* SPDX-License-Identifier: MIT */
/*
 * How: the golden store is made once a test by the library itself, and copied
 * by cp before each run.
 */
#include "fault_case.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "env/env.h"
#include "exchange/import_dir.h"
#include "gc_case.h"

enum { BIG_BYTES = 300000 };

static const struct env_cred root = {0, 0, 022};

int fault_child(fault_fn fn, struct fault_case *c)
{
	pid_t pid;
	int status;

	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		exit(fn(c));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return FAULT_KILLED;
	if (!WIFEXITED(status))
		fail_msg("a child died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* --- the golden store ------------------------------------------------------- */

static void make_file(int dir, const char *name, const void *data, size_t len)
{
	const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_ok(io_write(fd, data, len));
	(void)close(fd);
}

static void make_source(const char *path)
{
	static uint8_t big[BIG_BYTES];
	char name[16];
	int fd;

	assert_ok(mkdir(path, 0755));
	fd = open(path, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (uint8_t)(i >> 17 == 1 ? 0 : i * 31 + i / 4096);
	make_file(fd, "big", big, sizeof big);
	assert_ok(mkdirat(fd, "d", 0755));
	for (int i = 0; i < 6; i++) {
		(void)snprintf(name, sizeof name, "d/f%d", i);
		make_file(fd, name, "content 0123456789", 9U + (unsigned)i);
	}
	assert_ok(mkdirat(fd, "d/sub", 0700));
	assert_ok(symlinkat("../big", fd, "d/sub/link"));
	assert_ok(linkat(fd, "d/f1", fd, "hard", 0));
	(void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	(void)setxattr(name, "user.k", "v", 1, 0);
	(void)close(fd);
}

static int change_env(struct env *e)
{
	static uint8_t data[20000];
	struct env_attr a, d;
	int r = env_lookup(e, ENV_ROOT, "d", &d);

	memset(data, 'e', sizeof data);
	if (r == 0)
		r = env_mknod(e, d.ino, "new", S_IFREG | 0644, 0, &root, &a);
	if (r == 0)
		r = env_write(e, a.ino, data, sizeof data, 100, false);
	if (r == 0)
		r = env_setxattr(e, a.ino, "user.n", "x", 1, 0, false);
	if (r == 0)
		r = env_unlink(e, d.ino, "f2");
	if (r == 0)
		r = env_rename(e, d.ino, "f3", ENV_ROOT, "moved", 0);
	return r;
}

static int make_golden(struct fault_case *c)
{
	static const struct gc_case gone = {.files = 12, .seed = 2, .large = 5};
	static const struct gc_case plain = {
		.files = 8, .seed = 8, .large = 9, .plain = true};
	struct import_options options = {.message = "m"};
	struct env_info info = {.created_sec = 1};
	_cleanup_diag_ struct diag diag = {0};
	struct import_result res;
	struct env *e = NULL;
	struct store *s;

	assert_ok(store_open(c->golden, STORE_CREATE, &diag, &s));
	assert_ok(import_dir(s, c->src, "kept:latest", &options, NULL, &diag,
			     &res));
	assert_ok(store_ref_set(s, "kept:v1", &res.id));
	c->shared->kept = info.snapshot = res.id;
	c->shared->gone = gc_case_put(s, &gone, "gone", 0);
	c->shared->plain = gc_case_put(s, &plain, "plain", 0);
	assert_ok(env_create(s, "e", &info));
	assert_ok(env_open(s, "e", 0, NULL, &e));
	assert_ok(change_env(e));
	env_close(e);
	assert_ok(fault_env_digest(s, "e", ENV_READ_ONLY, &c->shared->env));
	store_close(s);
	return 0;
}

int fault_case_setup(void **state)
{
	struct fault_case *c = calloc(1, sizeof *c);
	const struct test_scratch *t;

	if (!c || test_scratch_setup(&c->scratch) < 0)
		return -1;
	t = c->scratch;
	(void)snprintf(c->src, sizeof c->src, "%s/src", t->path);
	(void)snprintf(c->golden, sizeof c->golden, "%s/golden", t->path);
	(void)snprintf(c->store, sizeof c->store, "%s/store", t->path);
	c->shared = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->shared == MAP_FAILED)
		return -1;
	make_source(c->src);
	*state = c;
	return fault_child(make_golden, c) == 0 ? 0 : -1;
}

int fault_case_teardown(void **state)
{
	struct fault_case *c = *state;
	const int r = test_scratch_teardown(&c->scratch);

	(void)munmap(c->shared, sizeof *c->shared);
	free(c);
	return r;
}

void fault_case_fresh(struct fault_case *c)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c",
			    "rm -rf \"$1\" && cp -a \"$0\" \"$1\"", c->golden,
			    c->store, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int64_t fault_case_step(int argc, char **argv)
{
	return argc > 1 ? strtol(argv[1], NULL, 10) : 1;
}
