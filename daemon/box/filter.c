/* SPDX-License-Identifier: MIT */
/*
 * filter.c - system calls that have no place in a sandbox.
 *
 * How: a list of what is refused, everything else is allowed: a command must
 * work as outside, and what protects the host are name spaces and the lack of
 * capabilities. The filter closes what these leave open or what has often been
 * a way out: parts of the kernel that know no name spaces (keyrings, bpf,
 * perf), new name spaces (which give capabilities over old code), and typing
 * into the terminal that is shared with the caller.
 *
 * clone3 has its flags in memory, where a filter cannot look: it does not
 * exist, and C libraries fall back to clone. io_uring does not exist either:
 * its operations pass by filters.
 */
#include "box/box_int.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const int refused[] = {
	SCMP_SYS(_sysctl),
	SCMP_SYS(acct),
	SCMP_SYS(add_key),
	SCMP_SYS(bpf),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(clock_settime),
	SCMP_SYS(create_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(fanotify_init),
	SCMP_SYS(finit_module),
	SCMP_SYS(init_module),
	SCMP_SYS(ioperm),
	SCMP_SYS(iopl),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(kexec_load),
	SCMP_SYS(keyctl),
	SCMP_SYS(lookup_dcookie),
	SCMP_SYS(nfsservctl),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(quotactl),
	SCMP_SYS(reboot),
	SCMP_SYS(request_key),
	SCMP_SYS(settimeofday),
	SCMP_SYS(setdomainname),
	SCMP_SYS(sethostname),
	SCMP_SYS(stime),
	SCMP_SYS(swapoff),
	SCMP_SYS(swapon),
	SCMP_SYS(syslog),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(uselib),
	SCMP_SYS(vhangup),
	SCMP_SYS(vm86),
	SCMP_SYS(vm86old),
};

/* Allowed with --nested. */
static const int refused_mounts[] = {
	SCMP_SYS(chroot),	 SCMP_SYS(fsconfig),   SCMP_SYS(fsmount),
	SCMP_SYS(fsopen),	 SCMP_SYS(fspick),     SCMP_SYS(mount),
	SCMP_SYS(mount_setattr), SCMP_SYS(move_mount), SCMP_SYS(open_tree),
	SCMP_SYS(pivot_root),	 SCMP_SYS(setns),      SCMP_SYS(umount),
	SCMP_SYS(umount2),
};

static const unsigned long spaces[] = {
	CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,    CLONE_NEWUSER,
	CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP,
};

static const int absent[] = {
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
};

static int add_all(scmp_filter_ctx ctx, uint32_t action, const int *calls,
		   size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && !r; i++) {
		r = seccomp_rule_add(ctx, action, calls[i], 0);
		/* Another machine's kernel has no such call. */
		if (r == -EDOM || r == -EFAULT)
			r = 0;
	}
	return r;
}

/* A flag of a call's first argument. */
static int refuse_flag(scmp_filter_ctx ctx, int call, unsigned long flag)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), call, 1,
				SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
}

static int refuse_nesting(scmp_filter_ctx ctx)
{
	int r = add_all(ctx, SCMP_ACT_ERRNO(EPERM), refused_mounts,
			ARRAY_SIZE(refused_mounts));

	for (size_t i = 0; i < ARRAY_SIZE(spaces) && !r; i++) {
		r = refuse_flag(ctx, SCMP_SYS(clone), spaces[i]);
		if (!r)
			r = refuse_flag(ctx, SCMP_SYS(unshare), spaces[i]);
	}
	if (!r)
		r = refuse_flag(ctx, SCMP_SYS(unshare), CLONE_NEWTIME);
	if (!r)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS),
				     SCMP_SYS(clone3), 0);
	return r;
}

/* Typing into the terminal. The kernel looks at 32 bits of the request. */
static int refuse_typing(scmp_filter_ctx ctx)
{
	static const unsigned long requests[] = {TIOCSTI, TIOCLINUX};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(requests) && !r; i++)
		r = seccomp_rule_add(
			ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
			SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffUL, requests[i]));
	return r;
}

static int build(scmp_filter_ctx ctx, bool nested)
{
	int r = 0;

#ifdef __x86_64__
	/* Programs of 32 bits meet the same rules. */
	r = seccomp_arch_add(ctx, SCMP_ARCH_X86);
#endif
	if (!r)
		r = add_all(ctx, SCMP_ACT_ERRNO(EPERM), refused,
			    ARRAY_SIZE(refused));
	if (!r)
		r = add_all(ctx, SCMP_ACT_ERRNO(ENOSYS), absent,
			    ARRAY_SIZE(absent));
	if (!r && !nested)
		r = refuse_nesting(ctx);
	return r ? r : refuse_typing(ctx);
}

int filter_load(bool nested)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = build(ctx, nested);
	if (!r)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	return r;
}
