/* SPDX-License-Identifier: MIT */
/*
 * How: the kernel makes the id at boot and shows it in /proc. Tests that need
 * another boot mount a file of theirs over it, in a mount name space of their
 * own: so the program has no switch that could make it lose anything.
 */
#include "base/boot.h"

#include <fcntl.h>
#include <string.h>

#include "base/attr.h"
#include "base/io.h"

void boot_id(char ret[BOOT_ID_BYTES + 1])
{
	enum { FILE_MOST = 256 };
	_cleanup_buf_ struct buf b = {0};

	memset(ret, '-', BOOT_ID_BYTES);
	ret[BOOT_ID_BYTES] = '\0';
	if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", FILE_MOST,
			 &b) == 0 &&
	    b.len >= BOOT_ID_BYTES)
		memcpy(ret, b.data, BOOT_ID_BYTES);
}
