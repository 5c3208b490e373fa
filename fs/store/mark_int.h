/* SPDX-License-Identifier: MIT */
/*
 * mark_int.h - the mark that says: the index's file is as its last user left
 * it.
 *
 * STORE/index.clean holds size, times and inode of index/data.mdb and the
 * machine's boot id. While it fits, the pages need not be checked at open. It
 * is only ever a reason to check less: a mark that is missing, damaged or does
 * not fit costs time and nothing else.
 *
 * Contract
 *   Durability  none: after a power cut the boot id does not fit
 *   Threads     any
 *   Errors      none: what cannot be told does not fit
 */
#ifndef COWFS_STORE_MARK_INT_H
#define COWFS_STORE_MARK_INT_H

#include <stdbool.h>

bool mark_fits(int store_fd);
/* Writes the mark for the file as it is now. */
void mark_write(int store_fd);

#endif
