/* SPDX-License-Identifier: MIT */
/*
 * doctor_boxes.c - sandboxes whose environment is not mounted any more.
 *
 * They hold a dead copy of the mount, and whatever runs in them only gets
 * errors from it: a server that was killed leaves them so. Their end loses
 * nothing; the environment is kept. They are found by their locks, so that no
 * server has to answer. Of one that was killed, too, control groups may be
 * left.
 */
#include "cli/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "base/name.h"
#include "box/box.h"

enum { GRACE_MS = 1000 };

static void check(struct doctor *d, const char *name)
{
	_cleanup_buf_ struct buf pids = {0};
	struct box_ended ended;
	bool fixed;
	int r;

	if (buf_has(&d->live_names, name))
		return;
	r = box_processes(d->c->store, name, &pids);
	if (r < 0 && (r != -ESRCH || !box_has_groups(d->c->store, name)))
		return;
	fixed = d->fix && box_end(d->c->store, name, GRACE_MS, &ended) == 0;
	if (r < 0)
		doctor_problem(d, name, fixed,
			       "control groups of a sandbox that is gone");
	else
		doctor_problem(d, name, fixed,
			       "a sandbox with %zu processes, and the "
			       "environment is not mounted",
			       pids.len / sizeof(pid_t) - 1);
}

void doctor_boxes(struct doctor *d)
{
	const struct dirent *e;
	char path[4352];
	DIR *dir;

	if (!d->has_store || (d->running && !d->live_known))
		return;
	(void)snprintf(path, sizeof path, "%s/envs", d->c->store);
	if (io_open_names(AT_FDCWD, path, 0, &dir) < 0)
		return;
	while ((e = readdir(dir)))
		if (name_is_label(e->d_name))
			check(d, e->d_name);
	(void)closedir(dir);
}
