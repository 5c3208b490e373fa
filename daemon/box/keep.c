/* SPDX-License-Identifier: MIT */
/*
 * keep.c - the beginning and the end of a stream, in a file.
 *
 * How: a byte is in the file at its place in the stream, and what is left out
 * is a hole, so that readers who follow need to know nothing. New bytes wait in
 * a window until somebody has time to write them; when more than that comes at
 * once, as from a command that writes gigabytes, the middle never gets to the
 * disk. A write that fails is tried again as long as the window has the bytes.
 */
#include "box/record_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"

enum {
	WINDOW = 2 << 20,
	BLOCK = 4096, /* holes are made of such */
};

int keep_init(struct keep *k, int folder, const char *name,
	      const struct mask *mask)
{
	*k = (struct keep){.folder = folder, .fd = -1, .mask = mask};
	(void)snprintf(k->name, sizeof k->name, "%s", name);
	/* All of it: there is no failure later, and what is not used is not
	 * there. */
	return buf_reserve(&k->window, WINDOW + KEEP_CHUNK);
}

void keep_fini(struct keep *k)
{
	if (k->fd >= 0)
		(void)close(k->fd);
	if (k->window.len)
		explicit_bzero(k->window.data, k->window.len);
	buf_fini(&k->window);
}

/* Forgets the first n bytes of the window. */
static void forget(struct keep *k, size_t n)
{
	memmove(k->window.data, k->window.data + n, k->window.len - n);
	k->window.len -= n;
	k->at += n;
}

/* Frees what is in the file of the middle of the stream. */
static void cut(struct keep *k, uint64_t to)
{
	const uint64_t end = MIN(to, ALIGN_UP(k->written, BLOCK));

	if (end > MAX(k->cut_to, (uint64_t)RECORD_HEAD) &&
	    io_allocate(k->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			RECORD_HEAD, end - RECORD_HEAD) < 0)
		k->error = -EOPNOTSUPP;
	k->cut_to = to;
}

/* Where no hole can be made, the record of a stream ends when it is full. */
static int store(struct keep *k, size_t n)
{
	int r;

	if (k->error == -EOPNOTSUPP)
		return k->error;
	if (k->fd < 0) {
		r = io_open_file(k->folder, k->name, O_RDWR | O_CREAT);
		if (r < 0)
			return r;
		k->fd = r;
	}
	r = io_pwrite(k->fd, k->window.data, n, k->at);
	if (!r)
		k->written = k->at + n;
	return r;
}

/* Leaves out what is neither the beginning nor the end. */
static void shrink(struct keep *k)
{
	const size_t ready =
		mask_bytes(k->mask, k->window.data, k->window.len, false);

	if (k->at < RECORD_HEAD || ready <= RECORD_TAIL)
		return;
	if (k->error) {
		k->lost += ready - RECORD_TAIL;
		k->why_lost = k->error;
	}
	forget(k, ready - RECORD_TAIL);
	cut(k, k->at);
}

void keep_flush(struct keep *k, bool is_last)
{
	size_t ready;

	if (k->window.len > 2 * RECORD_TAIL)
		shrink(k);
	ready = mask_bytes(k->mask, k->window.data, k->window.len, is_last);
	if (!ready)
		return;
	k->error = store(k, ready);
	if (k->error && !is_last && k->error != -EOPNOTSUPP)
		return;
	if (k->error) {
		k->lost += ready;
		k->why_lost = k->error;
	}
	forget(k, ready);
	if (k->at > MAX(k->cut_to, (uint64_t)RECORD_HEAD) + 2 * RECORD_TAIL)
		cut(k, (k->at - RECORD_TAIL) / BLOCK * BLOCK);
}

void *keep_room(struct keep *k)
{
	if (k->window.len > WINDOW && k->at < RECORD_HEAD)
		keep_flush(k, false);
	if (k->window.len > WINDOW)
		shrink(k);
	/* Nothing but a secret without end fills it. */
	if (k->window.len > WINDOW)
		forget(k, k->window.len);
	return k->window.data + k->window.len;
}

void keep_add(struct keep *k, size_t n)
{
	k->window.len += n;
}

void keep_skip(struct keep *k, uint64_t n)
{
	keep_flush(k, true);
	k->at += n;
	cut(k, k->at);
}
