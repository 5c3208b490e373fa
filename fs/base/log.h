/* SPDX-License-Identifier: MIT */
/*
 * log.h - the server's log: one event per line.
 *
 * A line is "TIME LEVEL text". Before log_open lines up to LOG_LEVEL_INFO go to
 * stderr.
 * Nothing below the daemon's doors logs above LOG_LEVEL_DEBUG.
 *
 * Contract
 *   Threads     any; a line is one write
 */
#ifndef COWFS_BASE_LOG_H
#define COWFS_BASE_LOG_H

#include "base/attr.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* Sends lines of at most this level to fd (kept open, not owned). */
void log_open(int fd, enum log_level max);
void log_event(enum log_level level, const char *fmt, ...) _printf_(2, 3);

#define log_error(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_event(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_event(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
