/* SPDX-License-Identifier: MIT */
/*
 * How: one request, one process, one reply; the keeper kills it when it takes
 * too long. Root opens /dev/fuse and calls mount(2) and umount2(2) itself, any
 * other user goes through fusermount3, which passes the descriptor back over
 * the socket named in _FUSE_COMMFD.
 *
 * Unmounting never detaches lazily unless told: umount(2) says EBUSY while
 * somebody uses the mount here, but not when another mount name space has a
 * copy. So copies are looked for first; those in our peer group go together
 * with ours.
 *
 * A user's place for a mount is compared with the store by device and inode on
 * the way up to the root, not by text: a bind mount or a link has other text.
 */
#include "serve/keeper_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/buf.h"
#include "base/err.h"
#include "fuse/session.h"
#include "serve/fusermount_int.h"
#include "serve/mounts_int.h"
#include "serve/rights.h"
#include "serve/unmount_int.h"
#include "serve/users_int.h"

enum {
	OPTIONS_BYTES = 256,
	MAX_LAYERS = 16, /* dead mounts on one place */
	MAX_SWEEP = 4096,
};

static int fail(struct keeper_reply *reply, int err, const char *what)
{
	int n = snprintf(reply->text, sizeof reply->text, "%s", what);

	reply->text_len =
		(uint32_t)MIN((size_t)MAX(n, 0), sizeof reply->text - 1);
	return err;
}

static int fail_errno(struct keeper_reply *reply, int err, const char *what)
{
	int n = snprintf(reply->text, sizeof reply->text, "%s: %s", what,
			 err_text(err));

	reply->text_len =
		(uint32_t)MIN((size_t)MAX(n, 0), sizeof reply->text - 1);
	return err;
}

/* Detaches mounts of ours at a place that nobody serves any more. */
static void clear_dead(const char *path, struct keeper_reply *reply)
{
	struct mounts_found found;
	struct statfs st;

	for (int i = 0; i < MAX_LAYERS; i++) {
		if (mounts_find(path, &found) < 0 || !found.is_ours)
			return;
		/* stat would be answered from the kernel's cache. */
		if (statfs(path, &st) == 0 || errno != ENOTCONN)
			return;
		if (unmount_path(path, true, reply) < 0)
			return;
		reply->flags |= KEEPER_FLAG_CLEARED;
	}
}

static int check_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = -ENOTEMPTY;
	}
	(void)closedir(dir);
	return r;
}

/* Says whether a directory is the store or lies in it. -errno. */
static int is_inside(const char *path, const char *store)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat inner;
	struct stat above;
	struct stat root;

	if (fd < 0 || fstat(fd, &inner) < 0 || stat(store, &root) < 0)
		return -errno;
	for (;;) {
		int up;

		if (inner.st_dev == root.st_dev && inner.st_ino == root.st_ino)
			return 1;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0)
			return -errno;
		(void)close(fd);
		fd = up;
		if (fstat(fd, &above) < 0)
			return -errno;
		if (above.st_dev == inner.st_dev &&
		    above.st_ino == inner.st_ino)
			return 0;
		inner = above;
	}
}

/* Writes the real path of a place that need not exist, its parent must. */
static int resolve(const char *path, char *ret_real)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_free_ char *real = NULL;
	char *slash;
	size_t len;
	int n;

	if (!copy)
		return -ENOMEM;
	real = realpath(path, NULL);
	if (real)
		n = snprintf(ret_real, KEEPER_PATH_BYTES, "%s", real);
	else if (errno != ENOENT && errno != ENOTCONN)
		return -errno;
	else {
		len = strlen(copy);
		while (len > 1 && copy[len - 1] == '/')
			copy[--len] = '\0';
		slash = strrchr(copy, '/');
		if (!slash || slash[1] == '\0')
			return -ENOENT;
		*slash = '\0';
		real = realpath(slash == copy ? "/" : copy, NULL);
		if (!real)
			return -errno;
		n = snprintf(ret_real, KEEPER_PATH_BYTES, "%s/%s",
			     strcmp(real, "/") == 0 ? "" : real, slash + 1);
	}
	return n < KEEPER_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Checks that a place of the user's is not in the store, before anything is
 * made there. */
static int check_place(struct keeper_reply *reply, const char *store)
{
	_cleanup_free_ char *parent = strdup(reply->path);
	struct stat st;
	int r;

	if (!parent)
		return -ENOMEM;
	if (lstat(reply->path, &st) < 0)
		*(strrchr(parent, '/') + 1) = '\0';
	else if (!S_ISDIR(st.st_mode))
		return fail(reply, -ENOTDIR, "it is not a directory");
	r = is_inside(parent, store);
	if (r > 0)
		return fail(reply, -EXDEV, "it lies inside the store");
	return r;
}

/* Makes or checks the directory to mount on; reply->path is its real path. */
static int prepare(const struct keeper_request *q, const char *store,
		   struct keeper_reply *reply)
{
	bool at = q->flags & KEEPER_FLAG_AT;
	int r = resolve(q->path, reply->path);

	if (r == -ENOENT)
		return fail(reply, r, "its parent directory does not exist");
	if (r == -ENOTDIR)
		return fail(reply, r, "it is not a directory");
	if (r < 0)
		return r;
	clear_dead(reply->path, reply);
	r = at ? check_place(reply, store) : 0;
	if (r < 0)
		return r;
	if (mkdir(reply->path, 0755) == 0) {
		reply->flags |= KEEPER_FLAG_MADE;
		/* Mode bits decide who may pass, not the keeper's umask. */
		return geteuid() == 0 && chmod(reply->path, 0755) < 0 ? -errno
								      : 0;
	}
	if (errno != EEXIST)
		return -errno;
	r = check_empty(reply->path);
	if (r == -ENOTEMPTY)
		return fail(reply, r, "it is not empty");
	if (r == -ENOTDIR)
		return fail(reply, r, "it is not a directory");
	return r;
}

static int mount_as_root(const struct keeper_request *q,
			 struct keeper_reply *reply, int *ret_fd)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	unsigned long flags = 0;
	char options[OPTIONS_BYTES];
	char text[RIGHTS_TEXT_BYTES];

	if (fd < 0) {
		int err = -errno;

		(void)rights_have(RIGHTS_DEVICE, text);
		reply->text_len = (uint32_t)snprintf(
			reply->text, sizeof reply->text, "/dev/fuse: %s", text);
		return err;
	}
	if (q->flags & KEEPER_FLAG_READ_ONLY)
		flags |= MS_RDONLY;
	(void)snprintf(options, sizeof options,
		       "fd=%d,user_id=0,group_id=0,%s%s", fd,
		       q->flags & KEEPER_FLAG_PRIVATE ? "" : "allow_other,",
		       SESSION_MOUNT_OPTIONS);
	if (mount("cowfs", reply->path, SESSION_FS_TYPE, flags, options) < 0)
		return fail_errno(reply, -errno, "the kernel refuses to mount");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Lets the kernel keep more dirty pages of shared mappings than it grants an
 * unknown FUSE server. A failure only costs speed. Reading further ahead than
 * 128 KiB, which is a chunk, gained nothing. */
static void tune(const struct mounts_found *found)
{
	static const struct {
		const char *name, *value;
	} settings[] = {
		{"strict_limit", "0"},
		{"max_ratio", "100"},
	};
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		_cleanup_close_ int fd = -1;

		(void)snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/%s",
			       found->major, found->minor, settings[i].name);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			(void)!write(fd, settings[i].value,
				     strlen(settings[i].value));
	}
}

static int do_mount(const struct keeper_request *q, const char *store,
		    struct keeper_reply *reply, int *ret_fd)
{
	struct mounts_found found;
	int r = prepare(q, store, reply);

	if (r == 0 && geteuid() == 0)
		r = mount_as_root(q, reply, ret_fd);
	else if (r == 0)
		r = fusermount_mount(reply->path, q->flags, reply, ret_fd);
	if (r == 0) {
		r = mounts_find(reply->path, &found);
		if (r < 0)
			(void)unmount_path(reply->path, true, reply);
	}
	if (r == 0) {
		reply->major = found.major;
		reply->minor = found.minor;
		if (geteuid() == 0)
			tune(&found);
	}
	if (r < 0 && (reply->flags & KEEPER_FLAG_MADE))
		(void)rmdir(reply->path);
	return r;
}

static void put_users(const struct users_mount *m, struct keeper_reply *reply)
{
	_cleanup_buf_ struct buf out = {0};
	size_t n;

	users_list(m, &out);
	n = MIN(out.len, sizeof reply->text);
	/* Whole lines only. */
	while (n > 0 && out.data[n - 1] != '\n')
		n--;
	if (n > 0)
		memcpy(reply->text, out.data, n);
	reply->text_len = (uint32_t)n;
}

struct places {
	const struct keeper_request *q;
	struct mounts_found top; /* what is on top at the path */
	bool any;
	bool elsewhere; /* bound to another place, which stays, or overlaid */
};

static int see_place(void *ctx, const struct mounts_entry *e)
{
	struct places *p = ctx;

	if (strcmp(e->path, p->q->path) == 0) {
		p->any = true;
		p->top = (struct mounts_found){
			.major = e->major,
			.minor = e->minor,
			.parent = e->parent,
			.is_ours = strcmp(e->type, SESSION_FS_TYPE) == 0};
	} else if ((e->major == p->q->major && e->minor == p->q->minor) ||
		   mounts_is_over(e, p->q->path)) {
		p->elsewhere = true;
	}
	return 0;
}

static int do_umount(const struct keeper_request *q, struct keeper_reply *reply)
{
	bool detach = q->flags & KEEPER_FLAG_DETACH;
	struct users_mount m = {
		.major = q->major, .minor = q->minor, .path = q->path};
	struct places p = {.q = q};
	int r = mounts_walk(0, see_place, &p);

	/* Somebody unmounted it by hand, or put another mount on top. */
	if (r == 0 && !p.any)
		r = -ENOENT;
	else if (r == 0 && (p.top.major != q->major || p.top.minor != q->minor))
		r = p.top.is_ours ? -ENOENT : -EBUSY;
	if (r == 0) {
		m.group = mounts_group(p.top.parent);
		r = !detach && (p.elsewhere || users_has_copy(&m))
			    ? -EBUSY
			    : unmount_path(q->path, detach, reply);
	}
	if (r == -EBUSY)
		put_users(&m, reply);
	if (r == -ENOENT || r == -EINVAL)
		r = 0;
	if (r == 0 && (q->flags & KEEPER_FLAG_REMOVE))
		(void)rmdir(q->path);
	return r;
}

/* Pages that were changed through shared mappings reach the server late; after
 * this it has those that the kernel had queued. -ENOENT: the mount is not there
 * any more. */
static int do_sync(const struct keeper_request *q)
{
	_cleanup_close_ int fd = -1;
	struct mounts_found found;
	struct statfs st;
	int r = mounts_find(q->path, &found);

	if (r < 0)
		return r;
	if (found.major != q->major || found.minor != q->minor)
		return -ENOENT;
	fd = open(q->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0)
		return -errno;
	/* Answered behind what is queued. */
	return fstatfs(fd, &st) < 0 ? -errno : 0;
}

static int do_clean(const struct keeper_request *q, struct keeper_reply *reply)
{
	clear_dead(q->path, reply);
	if (q->flags & KEEPER_FLAG_REMOVE)
		(void)rmdir(q->path);
	return 0;
}

void keeper_child_run(const struct keeper_request *q, const char *store,
		      int sock)
{
	struct keeper_reply *reply = calloc(1, sizeof *reply);
	struct users_mount m = {
		.major = q->major, .minor = q->minor, .path = q->path};
	struct mounts_found found;
	int fd = -1;

	if (!reply)
		_exit(1);
	reply->id = q->id;
	switch (q->op) {
	case KEEPER_MOUNT:
		reply->result = do_mount(q, store, reply, &fd);
		break;
	case KEEPER_UMOUNT:
		reply->result = do_umount(q, reply);
		break;
	case KEEPER_USERS:
		/* Not there any more: every copy counts. */
		if (mounts_find(q->path, &found) == 0 &&
		    found.major == q->major && found.minor == q->minor)
			m.group = mounts_group(found.parent);
		put_users(&m, reply);
		break;
	case KEEPER_SYNC:
		reply->result = do_sync(q);
		break;
	case KEEPER_CLEAN:
		reply->result = do_clean(q, reply);
		break;
	default:
		reply->result = -EINVAL;
	}
	_exit(keeper_send_reply(sock, reply, fd, 0) < 0);
}

struct sweep {
	const char *mnt;
	char *paths[MAX_SWEEP];
	size_t count;
};

static int collect(void *ctx, const struct mounts_entry *e)
{
	struct sweep *s = ctx;
	size_t n = strlen(s->mnt);
	bool is_mnt = strcmp(e->path, s->mnt) == 0;
	bool is_below = strncmp(e->path, s->mnt, n) == 0 && e->path[n] == '/' &&
			strcmp(e->type, SESSION_FS_TYPE) == 0;

	if ((is_mnt || is_below) && s->count < MAX_SWEEP) {
		s->paths[s->count] = strdup(e->path);
		if (s->paths[s->count])
			s->count++;
	}
	return 0;
}

/* Runs in a process that ends after it: nothing is freed. */
void keeper_child_sweep(const char *store)
{
	struct keeper_reply *reply = calloc(1, sizeof *reply);
	struct sweep *s = calloc(1, sizeof *s);
	char mnt[KEEPER_PATH_BYTES];

	if (!s || !reply)
		return;
	(void)snprintf(mnt, sizeof mnt, "%s/mnt", store);
	s->mnt = mnt;
	if (mounts_walk(0, collect, s) < 0)
		return;
	while (s->count-- > 0) {
		const char *path = s->paths[s->count];

		(void)unmount_path(path, true, reply);
		if (strcmp(path, mnt) != 0)
			(void)rmdir(path);
	}
}
