/* SPDX-License-Identifier: MIT */
/*
 * exitcode.h - the exit codes of the command line.
 *
 * A verb's function returns one of these. Where several things were asked for
 * and some failed, the command ends with the greatest.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_CLI_EXITCODE_H
#define COWFS_CLI_EXITCODE_H

#include <errno.h>

enum exit_code {
	CODE_DONE = 0,
	CODE_NO = 1,	 /* the answer is "no": differences, problems */
	CODE_USAGE = 2,	 /* a malformed command line */
	CODE_FAILED = 3, /* unknown name, damage, any other failure */
	CODE_BUSY = 4,	 /* in use, or the server cannot be reached */
};

/* Returns the exit code for a (negative) error number. */
static inline int exit_code_of(int err)
{
	switch (-err) {
	case EBUSY:
	case EAGAIN:
	case ECONNREFUSED:
	case ECONNRESET:
	case ETIMEDOUT:
		return CODE_BUSY;
	default:
		return CODE_FAILED;
	}
}

#endif
