/* SPDX-License-Identifier: MIT */
/*
 * box_int.h - what the parts of a sandbox share.
 *
 * STORE/envs/NAME/box has `lock` (held, by fcntl, by the first process while it
 * lives: F_GETLK names it), `shape` (what the running one is like), `home` and
 * what db.c writes.
 * A flock on the folder keeps starts and ends apart.
 *
 * Contract
 *   Ownership   box_folder_open: the caller closes; a view owns its steps
 *   Threads     any
 */
#ifndef COWFS_BOX_BOX_INT_H
#define COWFS_BOX_BOX_INT_H

#include "box/box.h"

/* --- find.c -------------------------------------------------------------- */

/* Opens STORE/envs/NAME/box, locked; made when it is missing and make is set.
 * -ENOENT: no such environment, or no folder. */
_must_check_ int box_folder_open(const char *store, const char *env, bool make);
/* Finds the first process of a sandbox: its pidfd. -ESRCH: there is none. */
_must_check_ int box_find(int folder, pid_t *ret_pid);
/* Tells which process has a record lock on a file, 0: none. -EXDEV: one that
 * cannot be seen from here. */
_must_check_ int box_lock_holder(int fd, pid_t *ret_pid);
/* Opens the file that the first process locks. */
_must_check_ int box_lock_file(int folder);

/* --- end.c --------------------------------------------------------------- */

/* box_end for who has the folder locked. */
_must_check_ int box_end_locked(int folder, unsigned grace_ms,
				struct box_ended *ret_ended);

/* --- db.c ---------------------------------------------------------------- */

/* Stops the environment's database server, if one runs, cleanly. */
void box_db_end(int folder);

/* --- view.c -------------------------------------------------------------- */

enum view_kind {
	VIEW_RO,    /* a path of the host, read-only */
	VIEW_RW,    /* a path of the host */
	VIEW_EMPTY, /* nothing: an empty directory, or what cannot be read */
	VIEW_TMP,   /* an empty directory for everybody, in memory */
	VIEW_LINK,  /* a symlink to `from` */
	VIEW_PROC,
	VIEW_DEV,
	VIEW_TEXT, /* a read-only file with the content of descriptor fd */
};

/* What bubblewrap is given lies below, but for texts. */
enum { BOX_FD_ABOVE = 40 };

/* One mount of the sandbox. */
struct view_step {
	enum view_kind kind;
	bool keep; /* also where nothing of the host would show */
	bool is_file;
	bool make;  /* `from`, below the private HOME, when it is missing */
	int fd;	    /* of VIEW_TEXT: from BOX_FD_ABOVE on, and its own */
	char *path; /* inside */
	char *from; /* on the host; of a link: its text */
	size_t order;
};

struct view {
	struct view_step *steps;
	size_t count, room;
	bool failed; /* out of memory */
};

void view_fini(struct view *v);
/* Adds a mount; a later one at the same path replaces it. from NULL: path. */
struct view_step *view_add(struct view *v, enum view_kind kind,
			   const char *path, const char *from);
/* Hides a path of the host, if it exists. */
void view_hide(struct view *v, const char *path);
/* Sorts parents before children and drops what does nothing; -ENOMEM. */
_must_check_ int view_settle(struct view *v);
/* Appends bubblewrap's options, each ending in NUL. */
void view_options(const struct view *v, struct buf *options);
/* Returns which of the first count steps of a settled view a path lies on, or
 * NULL: that of "/". */
const struct view_step *view_above(const struct view *v, size_t count,
				   const char *path);

/* --- points.c ------------------------------------------------------------ */

/* Makes a mount point below a folder, following no link: a directory, or an
 * empty file. replace: what is neither goes, but for directories; else -ELOOP,
 * -ENOTDIR, -EISDIR. */
_must_check_ int point_make(int top, const char *path, bool is_file,
			    bool replace);
/* Makes the mount points in the environment that a settled root_view has,
 * following no link. -ELOOP, -ENOTDIR: one that cannot be; ret_path: which,
 * lent. */
_must_check_ int root_prepare(const struct box_spec *spec, const struct view *v,
			      const char **ret_path);

/* --- host.c, home.c ------------------------------------------------------ */

/* Everything of the host that a sandbox shows or hides. */
_must_check_ int host_view(const struct box_spec *spec, struct view *v);
/* The same where the environment is the root. */
_must_check_ int root_view(const struct box_spec *spec, struct view *v);
/* HOME, by its real path: the private folder, and in it tool chains and
 * settings. */
void home_view(const struct box_spec *spec, const char *home, struct view *v);

/* Makes the mount points in the private HOME that a settled view has, following
 * no link of it. */
_must_check_ int home_prepare(const struct box_spec *spec, int folder,
			      struct view *v);

/* --- cgroup.c ------------------------------------------------------------ */

/* Makes groups for the limits of a sandbox. -EOPNOTSUPP: there is no such
 * controller. */
_must_check_ int cgroup_make(const struct box_spec *spec, int folder,
			     struct diag *diag);
/* Puts this process into the groups of a sandbox, if it has any. */
_must_check_ int cgroup_join(int folder);
/* Removes them; nobody is in them any more. */
void cgroup_remove(int folder);
/* Whether there are any. */
bool cgroup_any(int folder);

/* --- relay.c, proxy.c ---------------------------------------------------- */

enum { PROXY_HOST_MAX = 255 };

/* Starts what a private network needs outside, unless it runs. */
_must_check_ int relay_start(const struct box_spec *spec, int folder, int pidfd,
			     struct diag *diag);
/* Returns when it has ended; the sandbox has. */
void relay_end(int folder);
/* Gives up what a process may do more than others. */
void relay_drop_rights(void);

/* Hosts that may be reached; none: all of the world. */
struct proxy_rules {
	const char *const *allow;
	size_t count;
};

enum proxy_verdict {
	PROXY_REFUSED,
	PROXY_WORLD, /* but no address of the host's own */
	PROXY_ANY,   /* named with its port */
};

/* The first line of a request. */
struct proxy_request {
	bool is_tunnel;
	size_t method_len;
	const char *rest; /* in the head, behind the host */
	char host[PROXY_HOST_MAX + 1];
	char port[6];
};

/* Reads a head that ends in an empty line. */
_must_check_ int proxy_parse(const char *head, struct proxy_request *ret_q);
enum proxy_verdict proxy_judge(const struct proxy_rules *r, const char *host,
			       const char *port);
struct sockaddr;
/* Whether an address is one of the host's own: loopback, link, group. */
bool proxy_is_refused(const struct sockaddr *at);
/* Serves one connection to its end. */
void proxy_serve(int fd, const struct proxy_rules *rules);

/* --- init_image.c -------------------------------------------------------- */

/* A descriptor of the program that is a sandbox's first process. */
_must_check_ int init_image(void);

/* --- start.c, enter.c, filter.c ------------------------------------------ */

/* Starts a sandbox; the folder is locked by the caller. */
_must_check_ int box_start(const struct box_spec *spec, int folder,
			   struct diag *diag);
/* Refuses system calls that have no place in a sandbox, in this process and
 * its children. */
_must_check_ int filter_load(bool nested);

#endif
