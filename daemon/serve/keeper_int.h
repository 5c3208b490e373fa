/* SPDX-License-Identifier: MIT */
/*
 * keeper_int.h - the keeper: what it is asked, and who does the work.
 *
 * Server and keeper talk over a SOCK_SEQPACKET pair: one message is one
 * request or reply, a struct of this header. They are one program, so the
 * structs need no encoding. Each request is done by a short-lived child of the
 * keeper, since it may wait for a file system that does not answer.
 *
 * Contract
 *   Ownership   a reply to KEEPER_MOUNT carries a descriptor
 *   Threads     the keeper has one
 */
#ifndef COWFS_SERVE_KEEPER_INT_H
#define COWFS_SERVE_KEEPER_INT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* The line on the ready pipe when it went well, and when somebody else holds
 * the lock; anything else is a message. */
#define KEEPER_READY "ok"
#define KEEPER_BUSY  "busy"

enum {
	KEEPER_PATH_BYTES = 4096,
	KEEPER_TEXT_BYTES = 24 << 10,
};

enum keeper_op {
	KEEPER_MOUNT = 1,  /* path, flags; reply: descriptor, path, device */
	KEEPER_UMOUNT = 2, /* path, device, mount, flags; text: its users */
	KEEPER_USERS = 3,  /* path, device; text: its users */
	KEEPER_FORGET = 4, /* mount: its connection ended; no reply */
	KEEPER_CLEAN = 5,  /* path: detach a dead mount; keeper's own */
	KEEPER_SYNC = 6,   /* path, device: have dirty pages written back */
};

enum keeper_flag {
	KEEPER_FLAG_AT = 1,	   /* a place of the user's: check it */
	KEEPER_FLAG_READ_ONLY = 2, /* mount */
	KEEPER_FLAG_DETACH = 4,	   /* umount: lazily, whoever uses it */
	KEEPER_FLAG_REMOVE = 8,	   /* umount: remove the directory then */
	KEEPER_FLAG_MADE = 16,	   /* reply to mount: the directory is new */
	/* Reply to mount: a dead mount of ours was there. */
	KEEPER_FLAG_CLEARED = 32,
	KEEPER_FLAG_OTHERS = 64, /* mount: for others too, where allowed */
	KEEPER_FLAG_PRIVATE = 128, /* mount: for the owner of the store alone */
};

struct keeper_request {
	uint32_t id;
	uint32_t op;
	uint32_t flags;
	uint32_t mount; /* id of the request that mounted */
	uint32_t major;
	uint32_t minor;
	char path[KEEPER_PATH_BYTES];
};

struct keeper_reply {
	uint32_t id;
	int32_t result; /* 0 or negative errno */
	uint32_t flags;
	uint32_t major;
	uint32_t minor;
	uint32_t text_len;
	char path[KEEPER_PATH_BYTES]; /* the real one */
	char text[KEEPER_TEXT_BYTES]; /* lines; not sent further than used */
};

/* Sends a reply, with a descriptor unless fd is -1. */
_must_check_ int keeper_send_reply(int sock, const struct keeper_reply *reply,
				   int fd, int flags);
/* Receives one; ret_fd is -1 when none came. -ECONNRESET: the end. */
_must_check_ int keeper_recv_reply(int sock, struct keeper_reply *ret_reply,
				   int *ret_fd, int flags);

/* Does one request in this process and sends the reply; never returns. The
 * store's real path is where nothing may be mounted "at". */
_noreturn_ void keeper_child_run(const struct keeper_request *request,
				 const char *store, int sock);
/* Detaches what a killed keeper left below STORE/mnt. */
void keeper_child_sweep(const char *store);

/* The steps of the start. Cuts all ties to the command that started us. */
_must_check_ int keeper_detach(const char *store, int ready_fd);
/* Blocks the signals that the loop handles; returns a signalfd. */
_must_check_ int keeper_signals(void);
/* Runs keeper_child_sweep in a child with a time limit. */
void keeper_sweep(const char *store);
/* Makes STORE/mnt, as root a shared mount of its own: says whether. */
_must_check_ bool keeper_share(const char *store);
void keeper_unshare(const char *store);

#endif
