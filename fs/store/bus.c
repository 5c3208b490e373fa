/* SPDX-License-Identifier: MIT */
/*
 * How: LMDB reads its file through a map. Where the file was cut, or the disk
 * does not answer, that is SIGBUS, which would end the server and with it every
 * environment. The handler puts a page of zeros in the place of the one that is
 * missing and notes it. LMDB takes zeros for damage, no row's checksum fits
 * them, and from then on index.c refuses what was asked and whatever comes.
 *
 * Only maps of LMDB's files are treated so. The list of maps is read when it
 * happens, by calls that a signal handler may make; another address goes to
 * the handler that was there before.
 */
#include "store/bus_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TAIL_BYTES = 32, PART_BYTES = 1024 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static atomic_bool hit;

/* A line of /proc/self/maps as it goes by: its range, and the end of its
 * text. */
struct line {
	uintptr_t range[2];
	unsigned at; /* of range; 2: behind it */
	char tail[TAIL_BYTES];
	unsigned len;
};

static void take(struct line *l, char c)
{
	const int digit = c >= '0' && c <= '9'	 ? c - '0'
			  : c >= 'a' && c <= 'f' ? c - 'a' + 10
						 : -1;

	if (l->at < 2 && digit >= 0)
		l->range[l->at] = l->range[l->at] << 4 | (unsigned)digit;
	else if (l->at < 2)
		l->at++;
	if (l->len == TAIL_BYTES - 1)
		memmove(l->tail, l->tail + 1, --l->len);
	l->tail[l->len++] = c;
	l->tail[l->len] = '\0';
}

static bool is_wanted(const struct line *l, uintptr_t address)
{
	return address >= l->range[0] && address < l->range[1] &&
	       (strstr(l->tail, "/data.mdb") || strstr(l->tail, "/lock.mdb"));
}

static bool is_of_index(uintptr_t address)
{
	const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct line l = {0};
	char part[PART_BYTES];
	bool found = false;
	ssize_t n;

	if (fd < 0)
		return false;
	while (!found && (n = read(fd, part, sizeof part)) > 0) {
		for (ssize_t i = 0; !found && i < n; i++) {
			if (part[i] != '\n') {
				take(&l, part[i]);
				continue;
			}
			found = is_wanted(&l, address);
			l = (struct line){0};
		}
	}
	(void)close(fd);
	return found;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	const uintptr_t bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t address = (uintptr_t)info->si_addr;
	const int err = errno;
	void *page = (void *)(address & ~(bytes - 1));

	if (is_of_index(address) &&
	    mmap(page, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
		atomic_store(&hit, true);
		errno = err;
		return;
	}
	/* Returning does the same once more, without us. */
	(void)sigaction(sig, &before, NULL);
}

static void install(void)
{
	struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};

	(void)sigemptyset(&a.sa_mask);
	(void)sigaction(SIGBUS, &a, &before);
}

void bus_guard(void)
{
	(void)pthread_once(&once, install);
}

bool bus_has_hit(void)
{
	return atomic_load_explicit(&hit, memory_order_relaxed);
}
