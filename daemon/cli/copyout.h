/* SPDX-License-Identifier: MIT */
/*
 * copyout.h - files of an environment are copied to a directory of the host,
 * through no symbolic link on either side.
 *
 * Regular files and directories are copied, with their times, and modes as
 * far as they are about reading, writing and executing; holes stay holes and
 * hard links among them links. Owner is whoever copies. Symbolic links,
 * devices, pipes and sockets are left out.
 *
 * Contract
 *   Ownership   copyout_fini frees; descriptors and patterns are lent
 *   Threads     one
 *   Errors      negative errno; what tells at which path
 */
#ifndef COWFS_CLI_COPYOUT_H
#define COWFS_CLI_COPYOUT_H

#include "cli/glob.h"

#include <sys/stat.h>

struct copyout {
	struct globs *globs;
	int to; /* the top of the copy */
	mode_t umask;
	uint64_t files, bytes;
	uint64_t left_out; /* that fitted, and are no files or directories */
	struct buf what;   /* the path that failed */
	struct copyout_link *links;
	size_t link_count;
	uint8_t *data; /* for reading */
};

void copyout_fini(struct copyout *c);
/* Copies what fits of the tree at from into c->to. */
_must_check_ int copyout_tree(struct copyout *c, int from);

#endif
