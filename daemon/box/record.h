/* SPDX-License-Identifier: MIT */
/*
 * record.h - what commands of an environment did, and what they said.
 *
 * STORE/envs/NAME/log has for each run a record, a number, and NUMBER.out and
 * NUMBER.err, the beginning and the end of what it wrote (docs/format.md).
 * Whoever waits for a command writes its record; anybody reads it meanwhile.
 *
 * A command is not to notice. A terminal, a file, a device it gets as they are:
 * what went to a file is read back at the end, of the others nothing is kept. A
 * pipe or a socket of the caller's is replaced by a pipe of ours, whose content
 * is handed on unchanged. When the command has ended and what it left in the
 * background still has that pipe, a process of its own goes on handing on.
 *
 * Contract
 *   Ownership   record_fini, record_info_fini free
 *   Durability  none: a power cut may leave a torn record, which readers skip
 *   Threads     one
 *   Errors      a record that cannot be written is no reason to fail: that is
 *               noted in it, or said by the caller
 */
#ifndef COWFS_BOX_RECORD_H
#define COWFS_BOX_RECORD_H

#include "box/mask.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
	/* Kept of each stream: its beginning, and at least so much of its end,
	 * at most twice. */
	RECORD_HEAD = 256 << 10,
	RECORD_TAIL = 512 << 10,
	/* Kept of each environment; what goes beyond goes, the oldest first. */
	RECORD_RUNS = 256,
	RECORD_BYTES = 64 << 20,
	RECORD_ARGS = 16 << 10, /* bytes of arguments */
};

/* What a stream of a command is. */
enum record_kind {
	RECORD_PIPE,	 /* goes through a pipe of ours */
	RECORD_FILE,	 /* read back when the command has ended */
	RECORD_TERMINAL, /* these are not kept */
	RECORD_DEVICE,
	RECORD_TWO_WAY, /* a socket that is standard input, too */
	RECORD_JOINED,	/* standard error: the same as standard output */
	RECORD_KINDS,
};
extern const char *const record_kinds[RECORD_KINDS];

/* --- writing ------------------------------------------------------------- */

struct record_what {
	const char *store, *env;
	char *const *argv;
	const char *dir;
	const struct mask *mask; /* lent until record_end */
	bool detached;		 /* nobody reads what is no file */
	bool has_user;		 /* the command is another user's */
	uid_t uid;
	gid_t gid;
};

struct record;

/* Begins the record of a command that this process is to start. */
_must_check_ int record_begin(const struct record_what *what,
			      struct record **ret_record);
void record_fini(struct record *r);
/* What the command's standard output and error have to be; -1: the caller's. */
void record_fds(const struct record *r, int ret_fds[2]);
/* The command was started: these belong to it alone. */
void record_started(struct record *r);
/* Hands on until one of the signals is pending, or the time (negative: none) is
 * over. */
void record_pump(struct record *r, const sigset_t *signals, int timeout_ms);
/* Hands on what is there, as far as it is taken without delay. */
void record_catch_up(struct record *r);

/* How a command ended. */
struct record_end {
	int code; /* as run's exit code; negative: by signal -code */
	bool timed_out;
	bool has_usage; /* it was started */
	struct rusage usage;
};
/* Hands on what was written until now (a signal ends that), and ends the
 * record. What still has a pipe is left to a process that goes on. */
void record_finish(struct record *r, const struct record_end *end,
		   const sigset_t *signals);

/* --- reading ------------------------------------------------------------- */

struct record_stream_info {
	enum record_kind kind;
	bool has_total;
	uint64_t total;	     /* bytes that were written */
	uint64_t lost;	     /* of these not kept since they could not be */
	struct buf why_lost; /* a text */
};

struct record_info {
	uint64_t number;
	struct buf argv; /* strings, each ending in NUL */
	bool argv_cut;
	struct buf dir;
	uint64_t start_ns, end_ns; /* since 1970 */
	bool detached;
	bool runs;  /* or what it left behind still writes */
	bool ended; /* else, when it does not run, nobody knows */
	int code;   /* as in record_end */
	bool timed_out;
	uint64_t cpu_us, memory;
	struct record_stream_info streams[2];
};

void record_info_fini(struct record_info *i);
/* Opens STORE/envs/NAME/log. -ENOENT: no such environment, or no run. */
_must_check_ int record_open(const char *store, const char *env);
/* Appends the numbers of the runs (uint64_t each), sorted. */
_must_check_ int record_list(int folder, struct buf *numbers);
static inline uint64_t record_number(const struct buf *numbers, size_t i)
{
	uint64_t n;

	memcpy(&n, numbers->data + i * sizeof n, sizeof n);
	return n;
}
_must_check_ int record_read(int folder, uint64_t number,
			     struct record_info *ret_info);
/* Opens what a run wrote: stream 0 is standard output. -ENOENT: nothing. */
_must_check_ int record_open_stream(int folder, uint64_t number, int stream);
/* Reads what is kept at *at or behind it, and moves *at behind that. Sets how
 * many bytes were left out before. 0: nothing more for now. */
_must_check_ ssize_t record_read_stream(int fd, uint64_t *at, void *data,
					size_t n, uint64_t *ret_cut);

#endif
