/* SPDX-License-Identifier: MIT */
/*
 * What reads the kernel's requests: nothing is lost or waits for another one,
 * and nobody is busy while nothing comes. A socket that keeps the bounds of
 * messages stands for /dev/fuse.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuse/pace.h"

enum { COUNT = 2000 };

static void pair(int fd[2])
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(pace_prepare(fd[0]), 0);
}

static void close_both(const int fd[2])
{
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void nap(long ns)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Some at once, some after a while, some after a long one. */
static void *send_all(void *arg)
{
	const int *fd = arg;

	for (int i = 0; i < COUNT; i++) {
		if (i % 50 == 0)
			nap(i % 100 ? 1000000 : 50000);
		assert_int_equal(write(*fd, &i, sizeof i), sizeof i);
	}
	return NULL;
}

TEST(all_come_in_their_order)
{
	struct pace p = {0};
	pthread_t sender;
	int fd[2];
	int got;

	pair(fd);
	assert_int_equal(pthread_create(&sender, NULL, send_all, &fd[1]), 0);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(pace_read(&p, fd[0], &got, sizeof got),
				 sizeof got);
		assert_int_equal(got, i);
	}
	assert_int_equal(pthread_join(sender, NULL), 0);
	close_both(fd);
}

static void *send_late(void *arg)
{
	nap(300000000);
	assert_int_equal(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

static int64_t used_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

TEST(who_waits_long_sleeps)
{
	struct pace p = {0};
	pthread_t sender;
	int64_t used;
	int fd[2];
	char c;

	pair(fd);
	assert_int_equal(pthread_create(&sender, NULL, send_late, &fd[1]), 0);
	used = used_ns();
	assert_int_equal(pace_read(&p, fd[0], &c, 1), 1);
	used = used_ns() - used;
	assert_int_equal(pthread_join(sender, NULL), 0);
	/* It waited for 300 ms; one look is 0.2 ms. */
	assert_true(used < 50000000);
	close_both(fd);
}

TEST(looks_in_vain_get_rare)
{
	struct pace p = {0};
	unsigned looks = 0, skipped;
	pthread_t sender;
	int fd[2];
	char c;

	pair(fd);
	for (int i = 0; i < 3; i++) {
		skipped = p.skip;
		assert_int_equal(
			pthread_create(&sender, NULL, send_late, &fd[1]), 0);
		assert_int_equal(pace_read(&p, fd[0], &c, 1), 1);
		assert_int_equal(pthread_join(sender, NULL), 0);
		looks += skipped == 0;
	}
	/* With one processor there is none; else the second is left out. */
	if (p.vain)
		assert_int_equal(looks, 2);
	/* What is there at once ends that. */
	p.skip = 0;
	assert_int_equal(write(fd[1], "x", 1), 1);
	assert_int_equal(pace_read(&p, fd[0], &c, 1), 1);
	assert_int_equal(p.skip, 0);
	close_both(fd);
}

TEST(ends_and_errors_are_told)
{
	struct pace p = {0};
	int fd[2];
	char c;

	pair(fd);
	(void)close(fd[1]);
	assert_int_equal(pace_read(&p, fd[0], &c, 1), 0);
	(void)close(fd[0]);
	assert_int_equal(pace_read(&p, fd[0], &c, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(pace_prepare(fd[0]), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(all_come_in_their_order),
		RUN(who_waits_long_sleeps),
		RUN(looks_in_vain_get_rare),
		RUN(ends_and_errors_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
