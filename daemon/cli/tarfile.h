/* SPDX-License-Identifier: MIT */
/*
 * tarfile.h - the files that archives are read from and written to.
 *
 * Contract
 *   Ownership   tarfile_fini closes, and removes what was not finished
 *   Durability  a file that tarfile_finish put in its place is on stable
 *               storage
 *   Threads     one
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_TARFILE_H
#define COWFS_CLI_TARFILE_H

#include "cli/cmd.h"

struct tarfile {
	int fd; /* -1: none */
	const char *name;
	int dir;      /* where it will be put; -1: it is written where it is */
	char *base;   /* its name there */
	char *place;  /* its name until it is finished; NULL: it has none */
	bool is_lent; /* standard input or output */
};

/* Opens FILE, or standard input for "-", for reading. */
_must_check_ int tarfile_read(const struct call *c, const char *name,
			      struct tarfile *ret_file);
/* Begins FILE, which stays what it is until tarfile_finish; "-" is standard
 * output. Devices and pipes are written to as they are. */
_must_check_ int tarfile_begin(const struct call *c, const char *name,
			       struct tarfile *ret_file);
_must_check_ int tarfile_finish(const struct call *c, struct tarfile *f);
void tarfile_fini(struct tarfile *f);

#endif
