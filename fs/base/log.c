/* SPDX-License-Identifier: MIT */
/*
 * How: a line is formatted on the stack and handed over in one write, so lines
 * of several threads and processes never mix (O_APPEND or a pipe, and a line
 * is at most PIPE_BUF bytes). A longer text is cut. Nothing is allocated: the
 * log must work when memory is gone.
 *
 * errno is kept, so that logging between a failed call and its check is safe.
 * A log that cannot be written is nobody's error.
 */
#include "base/log.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int log_fd = STDERR_FILENO;
static atomic_int log_max = LOG_LEVEL_INFO;

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "ERROR",
	[LOG_LEVEL_WARN] = "WARN",
	[LOG_LEVEL_INFO] = "INFO",
	[LOG_LEVEL_DEBUG] = "DEBUG",
};

void log_open(int fd, enum log_level max)
{
	atomic_store(&log_fd, fd);
	atomic_store(&log_max, (int)max);
}

/* Writes "2026-01-31T12:00:00.123456Z LEVEL "; returns its length. */
static size_t put_prefix(char *line, size_t size, enum log_level level)
{
	struct timespec now = clock_now();
	struct tm tm;
	size_t len;

	if (!gmtime_r(&now.tv_sec, &tm))
		tm = (struct tm){.tm_mday = 1, .tm_year = 70};
	len = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(line + len, size - len, ".%06ldZ %s ",
				now.tv_nsec / 1000, level_names[level]);
	return len;
}

void log_event(enum log_level level, const char *fmt, ...)
{
	char line[PIPE_BUF];
	int saved_errno = errno;
	size_t start;
	size_t len;
	va_list ap;
	int n;

	if ((int)level > atomic_load(&log_max))
		return;
	start = put_prefix(line, sizeof line, level);
	va_start(ap, fmt);
	n = vsnprintf(line + start, sizeof line - start, fmt, ap);
	va_end(ap);
	len = start + (n > 0 ? (size_t)n : 0);
	if (len > sizeof line - 1)
		len = sizeof line - 1;
	/* Texts quote file names; one event stays one line. */
	for (size_t i = start; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if (c < 0x20 || c == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n';
	n = (int)write(atomic_load(&log_fd), line, len);
	(void)n;
	errno = saved_errno;
}
