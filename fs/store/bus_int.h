/* SPDX-License-Identifier: MIT */
/*
 * bus_int.h - a map of the index that cannot be read is an error, no crash.
 *
 * Contract
 *   Threads     any; a handler of SIGBUS is set for the whole process
 */
#ifndef COWFS_STORE_BUS_INT_H
#define COWFS_STORE_BUS_INT_H

#include <stdbool.h>

/* From now on LMDB reads zeros where its file cannot be read. */
void bus_guard(void);
/* Says whether it has: then nothing that came from LMDB since may be used. */
bool bus_has_hit(void);

#endif
