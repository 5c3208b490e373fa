/* SPDX-License-Identifier: MIT */
/*
 * import.h - importing a directory, for `import` and for `mount PATH`.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Threads     one; opens and closes the store
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_IMPORT_H
#define COWFS_CLI_IMPORT_H

#include "cli/cmd.h"
#include "exchange/import_dir.h"

/* Imports path into the call's store, making that when it is missing; notes
 * and progress go to standard error. ref (NAME:TAG) may be NULL. */
_must_check_ int import_path_of(const struct call *c, const char *path,
				const char *ref, struct import_options *options,
				struct import_result *ret_result);

#endif
