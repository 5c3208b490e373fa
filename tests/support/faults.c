/* SPDX-License-Identifier: MIT */
/*
 * How: each wrapped call asks `hit` whether it is the one, and what then. The
 * wanted fault and the count lie in one struct that children share with their
 * parents. It is mapped from a file when COWFS_FAULTS names one: then a client,
 * its server and that one's keeper count together, and the test arms them from
 * outside.
 *
 * What a call does to a file is what counts, so writes to sockets, pipes and
 * devices are let through uncounted. LMDB gives up, with EIO or EINTR, when a
 * call is short or a sync is interrupted: its file is no place for either.
 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct shared {
	struct faults want;
	int64_t seen;
	uint32_t armed;
	uint32_t struck;
};

static struct shared own;
static struct shared *now = &own;

void faults_arm(const struct faults *f)
{
	now->want = *f;
	now->struck = 0;
	__atomic_store_n(&now->seen, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&now->armed, 1, __ATOMIC_SEQ_CST);
}

int64_t faults_disarm(void)
{
	__atomic_store_n(&now->armed, 0, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&now->seen, __ATOMIC_SEQ_CST);
}

bool faults_struck(void)
{
	return __atomic_load_n(&now->struck, __ATOMIC_SEQ_CST);
}

__attribute__((constructor)) static void map_shared(void)
{
	const char *path = getenv("COWFS_FAULTS");
	const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	const int flags = MAP_SHARED | (path ? 0 : MAP_ANONYMOUS);
	void *p;

	p = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p != MAP_FAILED)
		now = p;
	if (fd >= 0)
		(void)close(fd);
}

/* --- is it this one ------------------------------------------------------ */

/* What a kind of call can have happen to it. */
enum can { CAN_TEAR = 1, CAN_SHORT = 2, CAN_EINTR = 4 };

/* Descriptor of a call that has none. */
enum { NO_FD = -1000 };

static bool is_counted_file(int fd)
{
	struct stat st;

	return fd == NO_FD ||
	       (fstat(fd, &st) == 0 &&
		(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)));
}

static bool is_of_lmdb(int fd)
{
	char link[64];
	char path[512];
	ssize_t n;

	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = '\0';
	return strstr(path, "/index") != NULL;
}

static bool is_counted(unsigned on, unsigned can, int fd)
{
	const uint32_t what = now->want.what;

	if (!__atomic_load_n(&now->armed, __ATOMIC_RELAXED) ||
	    !(now->want.on & on))
		return false;
	if (what == FAULTS_SHORT && !(can & CAN_SHORT))
		return false;
	if (what == FAULTS_EINTR && !(can & CAN_EINTR))
		return false;
	if (on == FAULTS_ALLOC)
		return true;
	if (!is_counted_file(fd))
		return false;
	return !(what == FAULTS_EINTR || what == FAULTS_SHORT) ||
	       fd == NO_FD || !is_of_lmdb(fd);
}

static void die(void)
{
	(void)raise(SIGKILL);
	abort();
}

/* Returns what happens to this call, 0: nothing. errno is set. */
static uint32_t hit(unsigned on, unsigned can, int fd)
{
	const int saved = errno;
	const uint32_t what = now->want.what;
	int64_t n;

	if (!is_counted(on, can, fd)) {
		errno = saved;
		return 0;
	}
	n = __atomic_add_fetch(&now->seen, 1, __ATOMIC_SEQ_CST);
	errno = saved;
	if (now->want.nth == 0 || n < now->want.nth ||
	    (n > now->want.nth && !now->want.lasting))
		return 0;
	__atomic_store_n(&now->struck, 1, __ATOMIC_SEQ_CST);
	if (what == FAULTS_KILL)
		die();
	if (what == FAULTS_EINTR)
		errno = EINTR;
	if (what == FAULTS_EIO)
		errno = EIO;
	if (what == FAULTS_ENOSPC)
		errno = ENOSPC;
	if (on == FAULTS_ALLOC)
		errno = ENOMEM;
	return what;
}

static bool is_error(uint32_t what)
{
	return what >= FAULTS_EINTR;
}

/* How much of n bytes a torn or short call does. */
static size_t part_of(size_t n)
{
	const size_t wanted = now->want.bytes ? now->want.bytes : (n + 1) / 2;

	return wanted < n ? wanted : n;
}

/* --- reads and writes ---------------------------------------------------- */

#define WRAP_DATA(on, can, ret, name, params, pass, pass_part)                 \
	ret __real_##name params;                                              \
	ret __wrap_##name params;                                              \
	ret __wrap_##name params                                               \
	{                                                                      \
		const uint32_t what = hit(on, can, fd);                        \
		ret r;                                                         \
                                                                               \
		if (is_error(what))                                            \
			return -1;                                             \
		if (!what)                                                     \
			return __real_##name pass;                             \
		r = __real_##name pass_part;                                   \
		if (what == FAULTS_TEAR)                                       \
			die();                                                 \
		return r;                                                      \
	}

enum {
	CAN_READ = CAN_SHORT | CAN_EINTR,
	CAN_WRITE = CAN_TEAR | CAN_SHORT | CAN_EINTR,
};

WRAP_DATA(FAULTS_WRITE, CAN_WRITE, ssize_t, write,
	  (int fd, const void *p, size_t n), (fd, p, n), (fd, p, part_of(n)))
WRAP_DATA(FAULTS_WRITE, CAN_WRITE, ssize_t, pwrite,
	  (int fd, const void *p, size_t n, off_t at), (fd, p, n, at),
	  (fd, p, part_of(n), at))
WRAP_DATA(FAULTS_WRITE, CAN_WRITE, ssize_t, pwrite64,
	  (int fd, const void *p, size_t n, off_t at), (fd, p, n, at),
	  (fd, p, part_of(n), at))
WRAP_DATA(FAULTS_READ, CAN_READ, ssize_t, read, (int fd, void *p, size_t n),
	  (fd, p, n), (fd, p, part_of(n)))
WRAP_DATA(FAULTS_READ, CAN_READ, ssize_t, pread,
	  (int fd, void *p, size_t n, off_t at), (fd, p, n, at),
	  (fd, p, part_of(n), at))
WRAP_DATA(FAULTS_READ, CAN_READ, ssize_t, pread64,
	  (int fd, void *p, size_t n, off_t at), (fd, p, n, at),
	  (fd, p, part_of(n), at))
/* Of several parts a short call does one, which it may not do whole. */
WRAP_DATA(FAULTS_WRITE, CAN_WRITE, ssize_t, writev,
	  (int fd, const struct iovec *v, int n), (fd, v, n),
	  (fd, &(struct iovec){v->iov_base, part_of(v->iov_len)}, 1))
WRAP_DATA(FAULTS_READ, CAN_READ, ssize_t, preadv,
	  (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at),
	  (fd, &(struct iovec){v->iov_base, part_of(v->iov_len)}, 1, at))
WRAP_DATA(FAULTS_READ, CAN_READ, ssize_t, preadv64,
	  (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at),
	  (fd, &(struct iovec){v->iov_base, part_of(v->iov_len)}, 1, at))

/* --- other changes: not at all, or wholly --------------------------------- */

#define WRAP_CHANGE(can, at_fd, name, params, pass)                            \
	int __real_##name params;                                              \
	int __wrap_##name params;                                              \
	int __wrap_##name params                                               \
	{                                                                      \
		const uint32_t what = hit(FAULTS_WRITE, can, at_fd);           \
		int r;                                                         \
                                                                               \
		if (is_error(what))                                            \
			return -1;                                             \
		r = __real_##name pass;                                        \
		if (what == FAULTS_TEAR)                                       \
			die();                                                 \
		return r;                                                      \
	}

WRAP_CHANGE(CAN_EINTR, fd, ftruncate, (int fd, off_t n), (fd, n))
WRAP_CHANGE(CAN_EINTR, fd, ftruncate64, (int fd, off_t n), (fd, n))
WRAP_CHANGE(CAN_EINTR, fd, fallocate, (int fd, int mode, off_t at, off_t n),
	    (fd, mode, at, n))
WRAP_CHANGE(CAN_EINTR, fd, fallocate64, (int fd, int mode, off_t at, off_t n),
	    (fd, mode, at, n))
WRAP_CHANGE(0, NO_FD, rename, (const char *a, const char *b), (a, b))
WRAP_CHANGE(0, NO_FD, renameat, (int from, const char *a, int to,
				 const char *b), (from, a, to, b))
WRAP_CHANGE(0, NO_FD, renameat2, (int from, const char *a, int to,
				  const char *b, unsigned flags),
	    (from, a, to, b, flags))
WRAP_CHANGE(0, NO_FD, link, (const char *a, const char *b), (a, b))
WRAP_CHANGE(0, NO_FD, linkat, (int from, const char *a, int to, const char *b,
			       int flags), (from, a, to, b, flags))
WRAP_CHANGE(0, NO_FD, unlink, (const char *a), (a))
WRAP_CHANGE(0, NO_FD, unlinkat, (int at, const char *a, int flags),
	    (at, a, flags))
WRAP_CHANGE(0, NO_FD, mkdir, (const char *a, mode_t mode), (a, mode))
WRAP_CHANGE(0, NO_FD, mkdirat, (int at, const char *a, mode_t mode),
	    (at, a, mode))

/* --- syncs ----------------------------------------------------------------- */

#define WRAP_SYNC(at_fd, name, params)                                         \
	int __wrap_##name params;                                              \
	int __wrap_##name params                                               \
	{                                                                      \
		const uint32_t what = hit(FAULTS_SYNC, CAN_EINTR, at_fd);      \
                                                                               \
		if (what == FAULTS_TEAR)                                       \
			die();                                                 \
		return is_error(what) ? -1 : 0;                                \
	}

WRAP_SYNC(fd, fdatasync, (int fd))
WRAP_SYNC(fd, fsync, (int fd))
WRAP_SYNC(fd, syncfs, (int fd))
WRAP_SYNC(NO_FD, msync, (void *p, size_t n, int flags))

/* --- memory ---------------------------------------------------------------- */

#define WRAP_ALLOC(ret, name, params, pass, failed)                            \
	ret __real_##name params;                                              \
	ret __wrap_##name params;                                              \
	ret __wrap_##name params                                               \
	{                                                                      \
		if (hit(FAULTS_ALLOC, 0, NO_FD))                               \
			return failed;                                         \
		return __real_##name pass;                                     \
	}

WRAP_ALLOC(void *, malloc, (size_t n), (n), NULL)
WRAP_ALLOC(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP_ALLOC(void *, realloc, (void *p, size_t n), (p, n), NULL)
WRAP_ALLOC(char *, strdup, (const char *s), (s), NULL)
WRAP_ALLOC(char *, strndup, (const char *s, size_t n), (s, n), NULL)
WRAP_ALLOC(int, posix_memalign, (void **ret, size_t align, size_t n),
	   (ret, align, n), ENOMEM)
WRAP_ALLOC(int, vasprintf, (char **ret, const char *format, va_list args),
	   (ret, format, args), -1)
WRAP_ALLOC(int, __vasprintf_chk,
	   (char **ret, int flag, const char *format, va_list args),
	   (ret, flag, format, args), -1)
