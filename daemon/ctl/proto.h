/* SPDX-License-Identifier: MIT */
/*
 * proto.h - the form of a control message; pure, bounded, fuzzed.
 *
 * A message is: u32 length of what follows, u8 version (1), u8 verb, u16 zero,
 * then fields: u16 tag, u16 zero, u32 length, bytes. Unknown tags are skipped,
 * so the protocol only grows. On one connection: one request, then any number
 * of CTL_ROW messages, then one CTL_DONE; then the next request.
 * docs/protocol.md lists verbs and fields.
 *
 * Contract
 *   Ownership   a struct msg owns its bytes; getters lend until it changes
 *   Threads     caller serialises
 *   Errors      -EPROTO: malformed; -EMSGSIZE: over CTL_MAX_MESSAGE
 */
#ifndef COWFS_CTL_PROTO_H
#define COWFS_CTL_PROTO_H

#include "base/buf.h"

enum {
	CTL_VERSION = 1,
	CTL_MAX_MESSAGE = 64 << 10, /* bytes after the length */
};

enum ctl_verb {
	/* Requests. Every DONE has CODE, and LINE... when there is something
	 * to say; after the colon: what it has beside them. */
	CTL_STATUS = 1, /* DONE: PID, TIME (start), COUNT (mounted), TEXT */
	/* REF, what the user typed: an environment that exists, when there is
	 * no NAME (mounted again if needed), else a snapshot; SNAPSHOT? a full
	 * id that goes before REF, which then only names; NAME? of the new
	 * environment; AT? FLAGS? NET? PORT..., and the bounds of SET. DONE:
	 * NAME PATH */
	CTL_MOUNT = 2,
	/* NAME FLAGS?; DONE: COUNT, of changed paths, when it is kept for them;
	 * STOPPED... MORE? FREED...
	 * With RESCUE: destroys a kept one that is in the state which that
	 * rescue is of, and notes GIT_COMMIT? */
	CTL_UMOUNT = 3,
	/* ROW for each: NAME PATH? STATE SNAPSHOT TIME REF SOURCE; QUOTA?
	 * QUOTA_INODES? TTL? NET? PORT... LEASE...; while mounted USED
	 * USED_INODES EXPIRES? READ_ONLY? */
	CTL_LIST = 4,
	/* NAME; DONE: the fields of a LIST row, USED and USED_INODES in any
	 * case, and counters */
	CTL_SHOW = 5,
	CTL_DIFF = 6, /* NAME FLAGS?; ROW for each path; DONE: COUNT */
	CTL_STOP = 7, /* DONE, then the server ends; refused while mounted */
	CTL_SET = 8,  /* NAME, QUOTA? QUOTA_INODES? TTL?; DONE */
	/* NAME, of an environment that is not mounted, or SNAPSHOT: mounted for
	 * the client alone, and read-only. ROW: PATH; DONE when the client has
	 * shut its half of the connection, or is gone, and it is unmounted */
	CTL_VIEW = 9,
	/* NAME of a kept one, COUNT of its changed paths, LEFT?: rescued in
	 * the store; DONE: RESCUE SNAPSHOT (it) SNAPSHOT (the base) GIT_DIR?
	 * GIT_REF? LEFT? */
	CTL_FREEZE = 10,
	CTL_RESTORE = 11, /* RESCUE, NAME of a new, kept environment; DONE */
	/* NAME, NET? for another one than the environment's, FLAGS?: leases
	 * what its network needs. DONE: NET? PORT... LEASE... */
	CTL_PORTS = 13,
	/* NAME: a snapshot of it as it is, mounted or not. ROW: SNAPSHOT;
	 * COUNT of sockets, which it has not, and PATH of one; DONE when the
	 * client has shut its half of the connection: until then gc leaves it */
	CTL_SNAPSHOT = 14,
	/* NAME FLAGS? UID? GID?: where the HOME of its commands is. DONE: STATE
	 * "view" and PATH, mounted when the environment is; "plain", a folder
	 * in its box/; "none", there is none yet. With MAKE a view is made,
	 * which belongs to UID and GID, where there is none and there are
	 * snapshots of caches */
	CTL_HOME = 20,
	/* answers */
	CTL_ROW = 64,
	CTL_DONE = 65, /* CODE (exit code), LINE... (messages for stderr) */
};

enum ctl_tag {
	CTL_TAG_CODE = 1,     /* u64: exit code of the contract */
	CTL_TAG_LINE = 2,     /* text, repeated: "what: why", then what to do */
	CTL_TAG_NAME = 3,     /* environment */
	CTL_TAG_PATH = 4,     /* mount point, or changed path; bytes */
	CTL_TAG_OLD_PATH = 5, /* bytes */
	CTL_TAG_SNAPSHOT = 6, /* hex id */
	CTL_TAG_REF = 7,      /* what the user named */
	CTL_TAG_AT = 8,	      /* absolute path */
	CTL_TAG_FLAGS = 9,    /* u64: enum ctl_flag */
	CTL_TAG_STATE = 10,   /* "mounted", "kept", "dead" or "damaged" */
	CTL_TAG_TIME = 11,    /* u64 seconds */
	CTL_TAG_PID = 12,
	CTL_TAG_COUNT = 13,
	CTL_TAG_TEXT = 14,
	CTL_TAG_KIND = 15,     /* u64: enum delta_kind */
	CTL_TAG_OLD_SIZE = 16, /* u64 */
	CTL_TAG_NEW_SIZE = 17,
	CTL_TAG_OLD_MODE = 18,
	CTL_TAG_NEW_MODE = 19,
	CTL_TAG_IS_DIR = 20,
	CTL_TAG_CONTENT = 21,	   /* u64: content changed */
	CTL_TAG_SOURCE = 22,	   /* the origin's path */
	CTL_TAG_INODES = 23,	   /* u64: of the base */
	CTL_TAG_CHANGED = 24,	   /* u64: changed inodes */
	CTL_TAG_DATA = 25,	   /* u64: bytes of the data file */
	CTL_TAG_JOURNAL = 26,	   /* u64: bytes of the journal */
	CTL_TAG_REQUESTS = 27,	   /* u64: answered since the mount */
	CTL_TAG_VOLATILE = 28,	   /* u64: fsync waits for nothing */
	CTL_TAG_QUOTA = 29,	   /* u64: bytes; 0: none */
	CTL_TAG_QUOTA_INODES = 30, /* u64; 0: none */
	CTL_TAG_TTL = 31,	   /* u64 seconds; 0: none */
	CTL_TAG_USED = 32,	   /* u64: bytes that count */
	CTL_TAG_USED_INODES = 33,  /* u64: inodes that count */
	CTL_TAG_EXPIRES = 34,	   /* u64 seconds: end of the ttl */
	CTL_TAG_READ_ONLY = 35,	   /* u64: 1, mounted read-only */
	CTL_TAG_READS = 36,	   /* u64: of the requests, reads of files */
	CTL_TAG_GIT_DIR = 37,	   /* the origin's repository, when imported */
	CTL_TAG_GIT_HEAD = 38,	   /* its branch, as a full ref */
	CTL_TAG_GIT_COMMIT = 39,
	CTL_TAG_RESCUE = 40,  /* its name */
	CTL_TAG_LEFT = 41,    /* what is left out: a list as in rescues.h */
	CTL_TAG_GIT_REF = 42, /* of a rescue, in the origin */
	/* Repeated: what was ended: "PID process|database|outside COMMAND". */
	CTL_TAG_STOPPED = 43,
	CTL_TAG_MORE = 44,  /* u64: so many more were, that are not named */
	CTL_TAG_FREED = 45, /* repeated: "sandbox", "mount PATH" */
	CTL_TAG_NET = 50,   /* u64: enum ctl_net */
	CTL_TAG_PORT = 51,  /* u64, repeated: a published one; 0: none */
	CTL_TAG_LEASE = 52, /* u64, repeated: ctl_lease_pack */
	CTL_TAG_UID = 60,   /* u64 */
	CTL_TAG_GID = 61,   /* u64 */
};

enum ctl_flag {
	CTL_FLAG_DISCARD = 1,	 /* umount: throw changes away */
	CTL_FLAG_KEEP = 2,	 /* umount: keep the environment */
	CTL_FLAG_DRY_RUN = 4,	 /* umount: say what would happen */
	CTL_FLAG_TIMES = 8,	 /* diff */
	CTL_FLAG_READ_ONLY = 16, /* mount */
	CTL_FLAG_OTHERS = 32,	 /* mount: others may enter, too */
	CTL_FLAG_VOLATILE = 64,	 /* mount: fsync waits for nothing */
	CTL_FLAG_KILL = 128,	 /* umount: end who uses it elsewhere */
	/* ports: exchange the database's port when it is taken */
	CTL_FLAG_DATABASE = 256,
	CTL_FLAG_MAKE = 4096, /* home: if there is none */
};

/* The network of commands; the numbers of fs/env and of its file. */
enum ctl_net {
	CTL_NET_AUTO, /* not decided */
	CTL_NET_HOST,
	CTL_NET_PRIVATE,
	CTL_NET_NONE,
};

/* A lease: its kind, what it is for, its number (store/leases.h). */
static inline uint64_t ctl_lease_pack(unsigned kind, unsigned use,
				      uint32_t number)
{
	return (uint64_t)kind << 48 | (uint64_t)use << 32 | number;
}

struct msg {
	struct buf bytes; /* version, verb, fields: without the length */
};

void msg_fini(struct msg *m);
#define _cleanup_msg_ _cleanup_(msg_fini)

void msg_begin(struct msg *m, enum ctl_verb verb);
void msg_put(struct msg *m, enum ctl_tag tag, const void *data, size_t n);
void msg_put_str(struct msg *m, enum ctl_tag tag, const char *s);
void msg_put_u64(struct msg *m, enum ctl_tag tag, uint64_t v);

/* Checks the whole form; the other getters need a checked message. */
_must_check_ int msg_check(const struct msg *m);
enum ctl_verb msg_verb(const struct msg *m);
/* Returns field number i (0 first) of a tag, or NULL. */
const uint8_t *msg_get(const struct msg *m, enum ctl_tag tag, size_t i,
		       size_t *ret_len);
/* Copies it as a string: -ENOENT missing, -EPROTO with a NUL inside or empty,
 * -EMSGSIZE too long. */
_must_check_ int msg_get_str(const struct msg *m, enum ctl_tag tag, char *s,
			     size_t size);
/* Returns the number, or fallback when missing or malformed. */
uint64_t msg_get_u64(const struct msg *m, enum ctl_tag tag, uint64_t fallback);

/* Sends and receives one whole message within a time limit. -ETIMEDOUT;
 * -ECONNRESET: the other side went away. */
_must_check_ int msg_send(int fd, const struct msg *m, unsigned timeout_ms);
_must_check_ int msg_recv(int fd, struct msg *m, unsigned timeout_ms);

#endif
