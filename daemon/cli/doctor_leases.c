/* SPDX-License-Identifier: MIT */
/*
 * doctor_leases.c - ports and addresses of environments that are gone.
 *
 * A server frees them with the environment; what somebody else's hand has
 * removed keeps them. A child looks: the store is opened, whose index may be
 * damaged.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "store/leases.h"

enum { LIMIT_SECONDS = 60 };

struct found {
	size_t count;
	bool fixed;
};

static int look(const struct doctor *d, int out)
{
	struct found found = {0};
	struct store *s = NULL;
	int r;

	(void)alarm(LIMIT_SECONDS);
	r = store_open(d->c->store, 0, NULL, &s);
	if (r == 0)
		r = store_lease_count_stray(s, &found.count);
	if (r == 0 && found.count && d->fix)
		found.fixed = store_lease_sweep(s, &found.count) == 0;
	store_close(s);
	(void)!write(out, &found, sizeof found);
	return r < 0;
}

void doctor_leases(struct doctor *d)
{
	_cleanup_close_ int in = -1;
	struct found found = {0};
	int p[2];
	pid_t pid;

	if (!d->has_store || pipe(p) < 0)
		return;
	in = p[0];
	pid = fork();
	if (pid == 0)
		_exit(look(d, p[1]));
	(void)close(p[1]);
	if (pid > 0 &&
	    io_read(in, &found, sizeof found) == (ssize_t)sizeof found &&
	    found.count)
		doctor_problem(d, "ports", found.fixed,
			       "%zu leases of environments that are gone",
			       found.count);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
