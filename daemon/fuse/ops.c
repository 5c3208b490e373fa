/* SPDX-License-Identifier: MIT */
/*
 * How: the table says which operations exist; what is missing is answered
 * ENOSYS by libfuse, which the kernel remembers for the connection:
 *
 *   open, opendir  the kernel opens without a message, keeps pages across
 *                  opens and caches listings (NO_OPEN, NO_OPENDIR wanted)
 *   create         the kernel sends MKNOD and opens without a message.
 *                  Measured on 1,000 files made, written and closed: five
 *                  messages a file (LOOKUP, MKNOD, GETXATTR, WRITE, GETATTR
 *                  of the directory) and the same with CREATE, but a sixth,
 *                  RELEASE, until the first OPEN was refused. MKNOD is one
 *                  way for all kinds and leaves no handle, and a file made
 *                  with mode 0444 stays writable through its descriptor all
 *                  the same (the VFS keeps FMODE_CREATED)
 *   flush          one message fewer per close
 *   poll, access   the kernel answers by itself (default_permissions)
 *   getlk, flock   locks stay in the kernel, which is right for one machine
 *
 * Every change of an environment comes through its kernel connection, so the
 * kernel may keep what it knows for ever: AUTO_INVAL_DATA is off, timeouts are
 * infinite. The reasons for the rest stand at the flags.
 */
#include "fuse/ops_int.h"

#include "base/log.h"

#include <inttypes.h>

static const uint64_t wanted[] = {
	FUSE_CAP_ASYNC_READ,
	FUSE_CAP_NO_OPEN_SUPPORT,
	FUSE_CAP_NO_OPENDIR_SUPPORT,
	FUSE_CAP_READDIRPLUS,
	FUSE_CAP_PARALLEL_DIROPS,
	FUSE_CAP_CACHE_SYMLINKS,
	FUSE_CAP_POSIX_ACL,
	/* The umask comes along: default ACLs override it. */
	FUSE_CAP_DONT_MASK,
	/* Without it each write asks for security.capability. */
	FUSE_CAP_HANDLE_KILLPRIV_V2,
	/* So that FUSE_SETXATTR_ACL_KILL_SGID arrives. */
	FUSE_CAP_SETXATTR_EXT,
};

static const uint64_t unwanted[] = {
	/* With opens that send nothing, O_TRUNC would be lost. */
	FUSE_CAP_ATOMIC_O_TRUNC,
	/* The kernel would own size and mtime (no rollback), hide EDQUOT from
	 * the caller and send a GETATTR after each close. */
	FUSE_CAP_WRITEBACK_CACHE,
	FUSE_CAP_AUTO_INVAL_DATA,
	FUSE_CAP_EXPLICIT_INVAL_DATA,
	/* Always plus: attributes cost nothing here and save a LOOKUP each. */
	FUSE_CAP_READDIRPLUS_AUTO,
	FUSE_CAP_HANDLE_KILLPRIV,
	/* Requests are read into memory: their flags must be seen. */
	FUSE_CAP_SPLICE_READ,
	FUSE_CAP_SPLICE_WRITE,
	FUSE_CAP_SPLICE_MOVE,
	FUSE_CAP_POSIX_LOCKS,
	FUSE_CAP_FLOCK_LOCKS,
	FUSE_CAP_EXPORT_SUPPORT,
	FUSE_CAP_IOCTL_DIR,
	FUSE_CAP_PASSTHROUGH,
};

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		fuse_unset_feature_flag(conn, unwanted[i]);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!fuse_set_feature_flag(conn, wanted[i]))
			log_warn("the kernel lacks the FUSE capability "
				 "%#" PRIx64,
				 wanted[i]);
	conn->max_write = SESSION_MAX_IO;
	conn->time_gran = 1;
	/* No operation waits, so there is nothing to interrupt. */
	conn->no_interrupt = 1;
}

const struct fuse_lowlevel_ops ops_table = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.symlink = op_symlink,
	.link = op_link,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.rename = op_rename,
	.readlink = op_readlink,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.fsyncdir = op_fsync,
	.tmpfile = op_tmpfile,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.copy_file_range = op_copy_file_range,
	.ioctl = op_ioctl,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
};
