/* SPDX-License-Identifier: MIT */
/*
 * How: the kernel makes the id at boot and shows it in /proc. Tests that need
 * another boot mount a file of theirs over it, in a mount name space of their
 * own: so the program has no switch that could make it lose anything.
 */
#include "base/boot.h"

#include <errno.h>
#include <fcntl.h>

#include "base/io.h"

int boot_id(char ret[BOOT_ID_BYTES + 1])
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id",
				      O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : io_pread(fd, ret, BOOT_ID_BYTES, 0);

	ret[BOOT_ID_BYTES] = '\0';
	if (n < 0)
		return (int)n;
	return n == BOOT_ID_BYTES ? 0 : -ENODATA;
}
