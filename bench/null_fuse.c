/* SPDX-License-Identifier: MIT */
/*
 * null_fuse.c - the floor: a FUSE server that does nothing but answer.
 *
 * What a file system behind FUSE costs is the messages (kernel, two context
 * switches, copying) plus the server's own work. This server has next to no
 * work: everything is in memory, nothing is durable, one thread, one hash
 * look-up for a name. Run beside cowfs under the same load it shows which
 * part of cowfs' time is ours. So it must talk to the kernel exactly as cowfs
 * does; when daemon/fuse/ops.c asks for other capabilities, change
 * op_init() here too. The tree that it serves is null_tree.c.
 *
 * How it talks: OPEN, OPENDIR and FLUSH are answered ENOSYS once, after
 * which the kernel no longer sends them (hence no ATOMIC_O_TRUNC, which
 * would lose O_TRUNC together with OPEN); entries, attributes and absent
 * names stay valid for ever; directories are always read with READDIRPLUS;
 * data is only invalidated by command, since with AUTO_INVAL_DATA the
 * kernel would drop what was just written when it sees the new mtime.
 *
 * GETXATTR says ENODATA and not ENOSYS, FSYNC says yes and not ENOSYS: cowfs
 * has both, so the floor must pay for these messages.
 *
 * The next request is waited for as cowfs does (fuse/pace.h).
 *
 * Inode numbers of the protocol are pointers: no look-up by number. One thread
 * serves everything, hence no locks.
 *
 * Left out, being no part of a floor: storing of extended attributes,
 * O_TMPFILE, clearing of setuid by writes.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "fuse/pace.h"
#include "null_tree.h"

#define FOREVER	    1e9 /* seconds; the kernel caps it */
#define MESSAGE_MAX (1U << 20)

static struct inode *root;
static bool writeback;
static char message[MESSAGE_MAX];
static char in[MESSAGE_MAX + 4096]; /* requests, with room for headers */

static struct inode *from_id(fuse_ino_t id)
{
	if (id == FUSE_ROOT_ID)
		return root;
	return (struct inode *)(uintptr_t)id;
}

static fuse_ino_t to_id(struct inode *inode)
{
	return inode == root ? FUSE_ROOT_ID : (uintptr_t)inode;
}

/* ---- replies ---- */

static void fill(struct inode *inode, struct fuse_entry_param *ret_param)
{
	*ret_param = (struct fuse_entry_param){
		.ino = to_id(inode),
		.attr = inode->st,
		.attr_timeout = FOREVER,
		.entry_timeout = FOREVER,
	};
}

/* A reply that fails was interrupted: the kernel took no reference. */
static void reply_entry(fuse_req_t req, struct inode *inode)
{
	struct fuse_entry_param param;

	fill(inode, &param);
	inode->lookups++;
	if (fuse_reply_entry(req, &param) < 0)
		inode->lookups--;
}

static void reply(fuse_req_t req, int r)
{
	fuse_reply_err(req, -r);
}

/* ---- operations on names ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	static const struct fuse_entry_param absent = {
		.entry_timeout = FOREVER,
	};
	struct entry *e = tree_find(from_id(parent), name);

	if (e)
		reply_entry(req, e->inode);
	else if (strlen(name) > TREE_NAME_MAX)
		reply(req, -ENAMETOOLONG);
	else
		fuse_reply_entry(req, &absent);
}

static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t n)
{
	inode_forget(from_id(id), n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t n,
			    struct fuse_forget_data *all)
{
	for (size_t i = 0; i < n; i++)
		inode_forget(from_id(all[i].ino), all[i].nlookup);
	fuse_reply_none(req);
}

/* The kernel has applied the umask; inheriting the group is left to us. */
static int make(fuse_req_t req, struct inode *dir, const char *name,
		mode_t mode, dev_t rdev, struct inode **ret_inode)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct stat st = {
		.st_mode = mode,
		.st_rdev = rdev,
		.st_uid = ctx->uid,
		.st_gid = ctx->gid,
	};

	if (dir->st.st_mode & S_ISGID) {
		st.st_gid = dir->st.st_gid;
		if (S_ISDIR(mode))
			st.st_mode |= S_ISGID;
	}
	return tree_make(dir, name, &st, ret_inode);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	struct inode *inode;
	int r = make(req, from_id(parent), name, mode, rdev, &inode);

	if (r < 0)
		reply(req, r);
	else
		reply_entry(req, inode);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	op_mknod(req, parent, name, S_IFDIR | mode, 0);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	struct fuse_entry_param param;
	struct inode *inode;
	int r = make(req, from_id(parent), name, S_IFREG | (mode & 07777), 0,
		     &inode);

	if (r < 0) {
		reply(req, r);
		return;
	}
	fi->keep_cache = 1;
	fill(inode, &param);
	inode->lookups++;
	if (fuse_reply_create(req, &param, fi) < 0)
		inode->lookups--;
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		       const char *name)
{
	struct inode *dir = from_id(parent);
	struct inode *inode;
	int r = make(req, dir, name, S_IFLNK | 0777, 0, &inode);

	if (r == 0) {
		r = inode_write(inode, target, strlen(target), 0);
		if (r < 0)
			(void)tree_unlink(dir, name);
	}
	if (r < 0)
		reply(req, r);
	else
		reply_entry(req, inode);
}

static void op_readlink(fuse_req_t req, fuse_ino_t id)
{
	struct inode *inode = from_id(id);

	/* libfuse's fuse_reply_readlink() does the same after a strlen. */
	fuse_reply_buf(req, inode->data, inode->have);
}

static void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent,
		    const char *name)
{
	struct inode *inode = from_id(id);
	int r = tree_link(from_id(parent), name, inode);

	if (r < 0)
		reply(req, r);
	else
		reply_entry(req, inode);
}

/* unlink and rmdir: the kernel has checked which kind it is. */
static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply(req, tree_unlink(from_id(parent), name));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t newparent, const char *newname,
		      unsigned int flags)
{
	reply(req, tree_rename(from_id(parent), name, from_id(newparent),
			       newname, flags));
}

/* ---- reading directories ---- */

/* Where cookie n continues: 0 ".", 1 "..", then slot n - 2. */
static const char *dir_at(struct inode *dir, size_t n, struct inode **ret_inode)
{
	*ret_inode = n == 1 && dir->parent ? dir->parent : dir;
	if (n < 2)
		return n == 0 ? "." : "..";
	if (!dir->slots[n - 2])
		return NULL;
	*ret_inode = dir->slots[n - 2]->inode;
	return dir->slots[n - 2]->name;
}

static size_t dir_pack(fuse_req_t req, struct inode *dir, size_t room,
		       off_t cookie, bool plus)
{
	size_t used = 0;

	for (size_t n = (size_t)cookie; n < dir->slots_used + 2; n++) {
		struct fuse_entry_param param;
		struct inode *inode;
		const char *name = dir_at(dir, n, &inode);
		size_t need;

		if (!name)
			continue;
		if (plus) {
			fill(inode, &param);
			need = fuse_add_direntry_plus(req, message + used,
						      room - used, name, &param,
						      (off_t)n + 1);
		} else {
			need = fuse_add_direntry(req, message + used,
						 room - used, name, &inode->st,
						 (off_t)n + 1);
		}
		if (need > room - used)
			break;
		used += need;
		/* The kernel takes no reference for "." and "..". */
		if (plus && n >= 2)
			inode->lookups++;
	}
	return used;
}

static void op_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t cookie,
		       struct fuse_file_info *fi)
{
	size_t room = size < sizeof(message) ? size : sizeof(message);

	(void)fi;
	fuse_reply_buf(req, message,
		       dir_pack(req, from_id(id), room, cookie, false));
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t id, size_t size,
			   off_t cookie, struct fuse_file_info *fi)
{
	size_t room = size < sizeof(message) ? size : sizeof(message);

	(void)fi;
	fuse_reply_buf(req, message,
		       dir_pack(req, from_id(id), room, cookie, true));
}

/* ---- operations on inodes ---- */

static void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)fi;
	fuse_reply_attr(req, &from_id(id)->st, FOREVER);
}

static void set_times(struct stat *st, const struct stat *attr, int what)
{
	struct timespec now = st->st_ctim;

	if (what & FUSE_SET_ATTR_ATIME)
		st->st_atim = attr->st_atim;
	if (what & FUSE_SET_ATTR_ATIME_NOW)
		st->st_atim = now;
	if (what & FUSE_SET_ATTR_MTIME)
		st->st_mtim = attr->st_mtim;
	if (what & FUSE_SET_ATTR_MTIME_NOW)
		st->st_mtim = now;
	if (what & FUSE_SET_ATTR_CTIME) /* with the writeback cache only */
		st->st_ctim = attr->st_ctim;
}

/* The kernel's one flag for both bits comes as FUSE_SET_ATTR_KILL_SUID. */
static void kill_suidgid(struct stat *st)
{
	st->st_mode &= ~(mode_t)S_ISUID;
	if (st->st_mode & S_IXGRP)
		st->st_mode &= ~(mode_t)S_ISGID;
}

static void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr,
		       int what, struct fuse_file_info *fi)
{
	struct inode *inode = from_id(id);
	struct stat *st = &inode->st;
	bool resize = what & FUSE_SET_ATTR_SIZE;

	(void)fi;
	if (what & FUSE_SET_ATTR_MODE)
		st->st_mode = (st->st_mode & S_IFMT) | (attr->st_mode & 07777);
	if (what & FUSE_SET_ATTR_UID)
		st->st_uid = attr->st_uid;
	if (what & FUSE_SET_ATTR_GID)
		st->st_gid = attr->st_gid;
	if (what & FUSE_SET_ATTR_KILL_SUID)
		kill_suidgid(st);
	if (resize)
		inode_resize(inode, attr->st_size);
	inode_touch(inode, resize ? TOUCH_MTIME : TOUCH_CTIME);
	set_times(st, attr, what);
	fuse_reply_attr(req, st, FOREVER);
}

static void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	static const struct statvfs st = {
		.f_bsize = 4096,
		.f_frsize = 4096,
		.f_blocks = 1 << 24,
		.f_bfree = 1 << 23,
		.f_bavail = 1 << 23,
		.f_files = 1 << 24,
		.f_ffree = 1 << 23,
		.f_favail = 1 << 23,
		.f_namemax = TREE_NAME_MAX,
	};

	(void)id;
	fuse_reply_statfs(req, &st);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name,
			const char *value, size_t size, int flags)
{
	(void)id, (void)name, (void)value, (void)size, (void)flags;
	reply(req, -EOPNOTSUPP);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name,
			size_t size)
{
	(void)id, (void)name, (void)size;
	reply(req, -ENODATA);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
	op_getxattr(req, id, name, 0);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t size)
{
	(void)id;
	if (size == 0)
		fuse_reply_xattr(req, 0);
	else
		fuse_reply_buf(req, NULL, 0);
}

/* ---- data ---- */

/* OPEN, OPENDIR; the kernel keeps to its caches from then on. */
static void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id, (void)fi;
	reply(req, -ENOSYS);
}

/* RELEASE of what was created before the first OPEN. */
static void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id, (void)fi;
	reply(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t id, int datasync,
		     struct fuse_file_info *fi)
{
	(void)datasync;
	op_release(req, id, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	const char *data;

	(void)fi;
	if (size > sizeof(message))
		size = sizeof(message);
	size = inode_read(from_id(id), (size_t)off, size, message, &data);
	fuse_reply_buf(req, data, size);
}

static void op_write(fuse_req_t req, fuse_ino_t id, const char *src, size_t len,
		     off_t off, struct fuse_file_info *fi)
{
	struct inode *inode = from_id(id);
	int r = inode_write(inode, src, len, (size_t)off);

	(void)fi;
	if (r < 0) {
		reply(req, r);
		return;
	}
	if (!writeback)
		inode_touch(inode, TOUCH_MTIME);
	fuse_reply_write(req, len);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t id, int mode, off_t off,
			 off_t len, struct fuse_file_info *fi)
{
	struct inode *inode = from_id(id);
	int zero = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;

	(void)fi;
	if (mode & ~(zero | FALLOC_FL_KEEP_SIZE)) {
		reply(req, -EOPNOTSUPP);
		return;
	}
	if (mode & zero)
		inode_zero(inode, (size_t)off, (size_t)len);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && inode->st.st_size < off + len)
		inode->st.st_size = off + len;
	inode_touch(inode, TOUCH_MTIME);
	reply(req, 0);
}

/* ---- the server ---- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	static const uint64_t off = FUSE_CAP_ATOMIC_O_TRUNC |
				    FUSE_CAP_AUTO_INVAL_DATA |
				    FUSE_CAP_READDIRPLUS_AUTO;
	static const uint64_t on[] = {
		FUSE_CAP_NO_OPEN_SUPPORT,    FUSE_CAP_NO_OPENDIR_SUPPORT,
		FUSE_CAP_READDIRPLUS,	     FUSE_CAP_EXPLICIT_INVAL_DATA,
		FUSE_CAP_PARALLEL_DIROPS,    FUSE_CAP_CACHE_SYMLINKS,
		FUSE_CAP_HANDLE_KILLPRIV_V2,
	};

	(void)userdata;
	fuse_unset_feature_flag(conn, off);
	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		fuse_set_feature_flag(conn, on[i]);
	if (writeback)
		writeback =
			fuse_set_feature_flag(conn, FUSE_CAP_WRITEBACK_CACHE);
	conn->max_write = MESSAGE_MAX;
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.symlink = op_symlink,
	.link = op_link,
	.unlink = op_unlink,
	.rmdir = op_unlink,
	.rename = op_rename,
	.create = op_create,
	.open = op_open,
	.opendir = op_open,
	.flush = op_open,
	.release = op_release,
	.releasedir = op_release,
	.fsync = op_fsync,
	.fsyncdir = op_fsync,
	.read = op_read,
	.write = op_write,
	.fallocate = op_fallocate,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
};

static int serve_requests(struct fuse_session *se)
{
	int fd = fuse_session_fd(se);
	struct pace pace = {0};
	struct fuse_buf buf = {.mem = in};
	ssize_t n;

	if (pace_prepare(fd) < 0)
		return 1;
	while (!fuse_session_exited(se)) {
		n = pace_read(&pace, fd, in, sizeof in);
		if (n < 0 && errno != EINTR && errno != ENOENT)
			return errno != ENODEV; /* which means: unmounted */
		if (n <= 0)
			continue;
		buf.size = (size_t)n;
		fuse_session_process_buf(se, &buf);
	}
	return 0;
}

static int serve(const char *mountpoint)
{
	char *argv[] = {(char[]){"null_fuse"}, (char[]){"-o"},
			(char[]){"default_permissions,allow_other,"
				 "fsname=null_fuse,subtype=null_fuse"},
			NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct fuse_session *se;
	int r = 1;

	se = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	fuse_opt_free_args(&args);
	if (!se)
		return 1;
	if (fuse_set_signal_handlers(se) == 0) {
		if (fuse_session_mount(se, mountpoint) == 0) {
			r = serve_requests(se);
			fuse_session_unmount(se);
		}
		fuse_remove_signal_handlers(se);
	}
	fuse_session_destroy(se);
	return r;
}

int main(int argc, char **argv)
{
	int at = 1;

	if (argc > 1 && strcmp(argv[1], "--writeback") == 0) {
		writeback = true;
		at++;
	}
	if (argc != at + 1 || argv[at][0] == '-') {
		fprintf(stderr, "usage: null_fuse [--writeback] MOUNTPOINT\n");
		return 2;
	}
	root = tree_new();
	if (!root) {
		fprintf(stderr, "null_fuse: out of memory\n");
		return 1;
	}
	root->st.st_uid = getuid();
	root->st.st_gid = getgid();
	return serve(argv[at]);
}
