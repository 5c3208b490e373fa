/* SPDX-License-Identifier: MIT */
/*
 * grow.h - room for one more entry in an array that grows by doubling.
 *
 * Contract
 *   Ownership   the array is the caller's, to be freed
 *   Durability  none
 *   Threads     caller serialises
 *   Errors      -ENOMEM, and the array is as it was
 */
#ifndef COWFS_BASE_GROW_H
#define COWFS_BASE_GROW_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Returns the array with twice the room (at first: for `first` entries of
 * `size` bytes), or NULL. */
static inline void *grow_array(void *v, size_t *cap, size_t first, size_t size)
{
	const size_t room = *cap ? *cap * 2 : first;
	size_t bytes;
	void *grown;

	if (room < *cap || __builtin_mul_overflow(room, size, &bytes))
		return NULL;
	grown = realloc(v, bytes);
	if (grown)
		*cap = room;
	return grown;
}

/* Makes room in the array v of `count` entries, which has it for `cap`. */
#define GROW(v, count, cap, first)                                             \
	({                                                                     \
		size_t cap_ = (cap);                                           \
		void *v_ = (void *)(v);                                        \
                                                                               \
		if ((count) == cap_)                                           \
			v_ = grow_array(v_, &cap_, (first), sizeof *(v));      \
		if (v_) {                                                      \
			(v) = v_;                                              \
			(cap) = cap_;                                          \
		}                                                              \
		v_ ? 0 : -ENOMEM;                                              \
	})

#endif
