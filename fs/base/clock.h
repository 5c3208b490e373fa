/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the two clocks.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_BASE_CLOCK_H
#define COWFS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Wall-clock time, as stamped on files. */
struct timespec clock_now(void);
/* Monotonic time in nanoseconds, for limits and durations. */
uint64_t clock_mono_ns(void);

#endif
