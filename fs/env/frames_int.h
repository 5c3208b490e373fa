/* SPDX-License-Identifier: MIT */
/*
 * frames_int.h - reading the frames of a journal, one after the other.
 *
 * Contract
 *   Ownership   the descriptor stays the caller's; frames_fini frees the window
 *   Threads     caller serialises
 *   Errors      of reading, and -ENOMEM
 */
#ifndef COWFS_ENV_FRAMES_INT_H
#define COWFS_ENV_FRAMES_INT_H

#include "env/env_int.h"

struct frames {
	int fd;
	uint64_t salt, size;
	uint64_t pos, seq; /* of the next frame */
	uint8_t *window;
	size_t cap, len;
	uint64_t at; /* of the window in the file */
};
void frames_init(struct frames *f, int fd, uint64_t salt, uint64_t size);
void frames_fini(struct frames *f);
/* Takes the next frame: 1; 0 at the end or at one that is not whole. The items
 * are lent until the next call. */
_must_check_ int frames_next(struct frames *f, const uint8_t **ret_items,
			     size_t *ret_len);
/* Looks at the frame at pos, whatever its number: 1 when it is whole. */
_must_check_ int frames_at(struct frames *f, uint64_t pos,
			   const uint8_t **ret_frame, size_t *ret_len);
/* Finds the first whole later frame from a place on: 1, or 0. */
_must_check_ int frames_find(struct frames *f, uint64_t from,
			     uint64_t *ret_pos);

#endif
