/* SPDX-License-Identifier: MIT */
/*
 * doctor_rescues.c - refs of rescues that umount was killed beside: they are in
 * the origin, and their records do not say so.
 *
 * How: in a child with a time limit, since a damaged index may crash its
 * reader, and an origin may lie where nobody answers. It writes a line for
 * each,
 * "+NAME" when the record has it now, "-NAME" when not.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/rescue.h"

enum {
	GRACE_SECONDS = 10,
	LIMIT_SECONDS = 20,
	MOST = 500, /* lines of one name each */
	SAID_BYTES = 64 << 10,
};

struct looking {
	struct store *store;
	bool fix;
	int out;
	size_t count;
};

static int look(void *ctx, const struct rescue *r)
{
	struct looking *l = ctx;
	struct rescue known = *r;
	char commit[GIT_HEX_BYTES];
	bool fixed;

	/* One that is just being made is no finding. */
	if (clock_now().tv_sec - r->time_sec <= GRACE_SECONDS ||
	    rescue_find_commit(r, NULL, commit) != 0)
		return 0;
	known.git_commit = commit;
	fixed = l->fix && store_rescue_put(l->store, &known, false) == 0;
	(void)dprintf(l->out, "%c%s\n", fixed ? '+' : '-', r->name);
	return ++l->count == MOST;
}

static int look_all(const struct doctor *d, int out)
{
	struct looking l = {.fix = d->fix, .out = out};
	int r;

	(void)alarm(LIMIT_SECONDS);
	r = store_open(d->c->store, 0, NULL, &l.store);
	if (r == 0)
		r = store_rescues(l.store, look, &l);
	store_close(l.store);
	return r < 0;
}

static void tell(struct doctor *d, char *text)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		doctor_problem(d, line + 1, *line == '+',
			       "a rescue whose ref is in the origin, and not "
			       "in its record: umount was interrupted");
}

void doctor_rescues(struct doctor *d)
{
	_cleanup_free_ char *said = calloc(1, SAID_BYTES + 1);
	_cleanup_close_ int in = -1;
	int p[2];
	pid_t pid;

	if (!d->has_store || !said || pipe(p) < 0)
		return;
	in = p[0];
	pid = fork();
	if (pid == 0)
		_exit(look_all(d, p[1]));
	(void)close(p[1]);
	if (pid < 0)
		return;
	(void)!io_read(in, said, SAID_BYTES);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	tell(d, said);
}
