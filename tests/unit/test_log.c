/* SPDX-License-Identifier: MIT */
/* Tests of base/log.h and base/clock.h. */
#include "test.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static size_t read_log(int fd, char *text, size_t size)
{
	ssize_t n = io_pread(fd, text, size - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	return (size_t)n;
}

static int open_log(struct test_scratch *s)
{
	int fd = openat(s->fd, "log", O_RDWR | O_CREAT | O_APPEND, 0600);

	assert_true(fd >= 0);
	return fd;
}

TEST(a_line_is_time_level_and_text)
{
	_cleanup_close_ int fd = open_log(*state);
	char text[256];
	char level[8];
	int n = 0;
	int v[6];

	log_open(fd, LOG_LEVEL_INFO);
	log_warn("mounted %s", "e1");
	(void)read_log(fd, text, sizeof text);
	assert_int_equal(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%*6dZ %7s %n",
				&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], level,
				&n),
			 7);
	assert_true(v[0] >= 2024);
	assert_string_equal(level, "WARN");
	assert_string_equal(text + n, "mounted e1\n");
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
}

TEST(lines_above_the_level_are_dropped)
{
	_cleanup_close_ int fd = open_log(*state);
	char text[256];

	log_open(fd, LOG_LEVEL_WARN);
	log_info("no");
	log_debug("no");
	assert_int_equal(read_log(fd, text, sizeof text), 0);
	log_error("yes");
	assert_true(read_log(fd, text, sizeof text) > 0);
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
}

TEST(one_event_is_one_line_whatever_its_text)
{
	_cleanup_close_ int fd = open_log(*state);
	char text[2 * PIPE_BUF];
	char wide[PIPE_BUF + 100];
	size_t n;

	memset(wide, 'w', sizeof wide);
	wide[10] = '\n';
	wide[sizeof wide - 1] = '\0';
	log_open(fd, LOG_LEVEL_INFO);
	log_info("%s", wide);
	n = read_log(fd, text, sizeof text);
	assert_true(n <= PIPE_BUF);
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
}

TEST(errno_is_kept)
{
	log_open(-1, LOG_LEVEL_INFO);
	errno = EXDEV;
	log_info("nowhere");
	assert_int_equal(errno, EXDEV);
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
}

TEST(the_clocks_run)
{
	uint64_t a = clock_mono_ns();
	struct timespec now = clock_now();

	assert_true(now.tv_sec > 1700000000);
	assert_true(clock_mono_ns() >= a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_line_is_time_level_and_text),
		RUN_SCRATCH(lines_above_the_level_are_dropped),
		RUN_SCRATCH(one_event_is_one_line_whatever_its_text),
		RUN(errno_is_kept),
		RUN(the_clocks_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
