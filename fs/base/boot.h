/* SPDX-License-Identifier: MIT */
/*
 * boot.h - which run of the machine this is.
 *
 * What is in the page cache survives the death of a process, not that of the
 * machine. Who finds a file again tells the two apart by the boot id.
 *
 * Contract
 *   Threads     any
 *   Errors      of opening and reading /proc; -ENODATA
 */
#ifndef COWFS_BASE_BOOT_H
#define COWFS_BASE_BOOT_H

#include "base/attr.h"

enum { BOOT_ID_BYTES = 36 };

/* The kernel's random id of this boot, as text. An error of reading it must end
 * what depends on it: a wrong id would have a replay drop what was not synced. */
_must_check_ int boot_id(char ret[BOOT_ID_BYTES + 1]);

#endif
