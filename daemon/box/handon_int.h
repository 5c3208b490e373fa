/* SPDX-License-Identifier: MIT */
/*
 * handon_int.h - a stream on its way from a command to where it belongs.
 *
 * Contract
 *   Ownership   handon_fini closes
 *   Threads     one
 */
#ifndef COWFS_BOX_HANDON_INT_H
#define COWFS_BOX_HANDON_INT_H

#include "box/record_int.h"

struct stream {
	enum record_kind kind;
	uint64_t from; /* of a file: what has been read back until here */
	int command;   /* the command's end of the pipe, until it has started */
	int in;	       /* ours; -1: it has ended */
	int out;       /* -1: there is none, or its reader has gone */
	bool is_socket; /* out */
	bool may_block; /* a write of more than PIPE_BUF to it */
	size_t pending; /* of the window, its last bytes: not handed on yet */
	bool is_limited;
	size_t left;	     /* so much is read, if it is limited */
	uint64_t written_ns; /* when the record was */
	struct keep keep;
};

struct record {
	int folder;
	int file; /* locked */
	uint64_t number;
	int signals; /* a signalfd, when it is needed */
	struct stream streams[2];
};

void handon_init(struct stream *s);
void handon_fini(struct stream *s);
/* Makes the pipe. to: where it goes, a descriptor that is left alone, or -1. */
_must_check_ int handon_open(struct stream *s, int to);
static inline bool handon_is_open(const struct stream *s)
{
	return s->in >= 0 || s->pending;
}
/* Reads only what is in the pipe now, until it is unlimited. */
void handon_limit(struct stream *s);
void handon_unlimit(struct stream *s);
/* Whether something is left to be handed on of a limited one. */
static inline bool handon_waits(const struct stream *s)
{
	return s->pending || (s->in >= 0 && s->left);
}

#endif
