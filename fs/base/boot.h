/* SPDX-License-Identifier: MIT */
/*
 * boot.h - which run of the machine this is.
 *
 * What is in the page cache survives the death of a process, not that of the
 * machine. Who finds a file again tells the two apart by the boot id.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_BASE_BOOT_H
#define COWFS_BASE_BOOT_H

enum { BOOT_ID_BYTES = 36 };

/* The kernel's random id of this boot, as text; dashes when it tells none. */
void boot_id(char ret[BOOT_ID_BYTES + 1]);

#endif
