/* SPDX-License-Identifier: MIT */
/*
 * init_image.c - the program of a sandbox's first process, which cowfs has in
 * it: COWFS_INIT_IMAGE is the file that the build made of init.c.
 *
 * It is executed from memory, so nothing has to be found or shown in the
 * sandbox, and starts without a dynamic linker.
 */
#include "box/box_int.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/io.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3: what vm.memfd_noexec=1 asks for */
#endif

__asm__(".section .rodata\n"
	".globl box_init_begin\n"
	".hidden box_init_begin\n"
	".balign 16\n"
	"box_init_begin:\n"
	".incbin \"" COWFS_INIT_IMAGE "\"\n"
	".globl box_init_end\n"
	".hidden box_init_end\n"
	"box_init_end:\n"
	".previous\n");

extern const uint8_t box_init_begin[], box_init_end[];

int init_image(void)
{
	const size_t n = (size_t)(box_init_end - box_init_begin);
	_cleanup_close_ int fd =
		memfd_create("cowfs-init", MFD_CLOEXEC | MFD_EXEC);
	int r;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("cowfs-init", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = io_pwrite(fd, box_init_begin, n, 0);
	return r ? r : TAKE_FD(fd);
}
