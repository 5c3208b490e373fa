/* SPDX-License-Identifier: MIT */
/*
 * attr.h - compiler attributes and small macros used everywhere.
 *
 * Cleanup attributes free memory and close descriptors when a variable goes
 * out of scope; TAKE_PTR and TAKE_FD hand ownership on.
 *
 * Contract
 *   Ownership   a _cleanup_*_ variable owns what it holds
 *   Durability  none
 *   Threads     any
 */
#ifndef COWFS_BASE_ATTR_H
#define COWFS_BASE_ATTR_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f)	   __attribute__((cleanup(f)))
#define _must_check_	   __attribute__((warn_unused_result))
#define _printf_(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define _noreturn_	   __attribute__((noreturn))
#define _unused_	   __attribute__((unused))

static inline void attr_freep(void *p)
{
	free(*(void **)p);
}

static inline void attr_closep(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

#define _cleanup_free_	_cleanup_(attr_freep)
#define _cleanup_close_ _cleanup_(attr_closep)

#define TAKE_PTR(p)                                                            \
	({                                                                     \
		__typeof__(p) taken_ = (p);                                    \
		(p) = NULL;                                                    \
		taken_;                                                        \
	})
#define TAKE_FD(fd)                                                            \
	({                                                                     \
		int taken_ = (fd);                                             \
		(fd) = -1;                                                     \
		taken_;                                                        \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))
#define ALIGN_UP(n, unit) (((n) + (unit)-1) / (unit) * (unit))
#define container_of(ptr, type, member)                                        \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
