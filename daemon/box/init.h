/* SPDX-License-Identifier: MIT */
/*
 * init.h - what the first process of a sandbox and who starts it agree on.
 *
 * It is a program of its own (init.c), called with the number N of a
 * descriptor: N leads to whoever starts it, N + 1 is the file that it locks.
 *
 * Contract
 *   Ownership   none
 */
#ifndef COWFS_BOX_INIT_H
#define COWFS_BOX_INIT_H

enum { BOX_INIT_READY = 1 }; /* the byte that it writes when it has the lock */

#endif
