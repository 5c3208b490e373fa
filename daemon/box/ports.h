/* SPDX-License-Identifier: MIT */
/*
 * ports.h - ports and addresses of this machine: which are free, or served.
 *
 * Addresses are in the host's byte order; 0: all of them.
 *
 * Contract
 *   Ownership   the caller closes descriptors
 *   Threads     any
 *   Errors      -EADDRINUSE: taken; -EACCES: only root may
 */
#ifndef COWFS_BOX_PORTS_H
#define COWFS_BOX_PORTS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BOX_ADDRESS_BYTES = 16 };

/* Returns a socket with this name, which does not listen yet. */
_must_check_ int box_port_bind(uint32_t address, uint16_t port);
/* Says whether that would work: 0. */
_must_check_ int box_port_try(uint32_t address, uint16_t port);
/* Claims a port or address, by its text, on this machine: as long as the
 * descriptor is open nobody else can. -EADDRINUSE. */
_must_check_ int box_port_claim(const char *what);
/* Says of each port whether a server listens there, for who connects to
 * 127.0.0.1 or ::1 in the network of a process; pid 0: of this one. */
_must_check_ int box_ports_served(pid_t pid, const uint16_t *ports,
				  size_t count, bool *ret_served);
void box_address_text(uint32_t address, char ret_text[BOX_ADDRESS_BYTES]);

#endif
