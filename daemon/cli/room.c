/* SPDX-License-Identifier: MIT */
/*
 * room.c - a full disk in the user's terms: how much is left, for whom, and
 * what helps.
 */
#include "cli/room.h"

#include "store/settings.h"
#include "store/space.h"

static const char hint[] = "\"cowfs rm\" and \"cowfs gc\" free what is not "
			   "needed; \"cowfs df\" tells what that is";

static const char *size_text(struct buf *b, uint64_t bytes)
{
	const char *s;

	out_size(b, bytes);
	s = buf_str(b);
	return s ? s : "?";
}

int room_fail(const struct call *c, struct store *s, int err, const char *what)
{
	_cleanup_buf_ struct buf a = {0}, b = {0};
	struct settings settings = {0};
	struct space disk = {0};
	const bool limit =
		err == -EDQUOT && settings_read(s, NULL, &settings) == 0;

	(void)!space_read(s, &disk);
	if (limit)
		(void)call_fail(c, 0,
				"%s: the store may not grow beyond %s, the "
				"limit in its settings",
				what, size_text(&a, settings.max_store));
	else
		(void)call_fail(c, 0,
				"%s: the disk of the store %s is full: %s are "
				"free, and %s are kept for environments",
				what, c->store, size_text(&a, disk.free),
				size_text(&b, disk.for_envs));
	call_hint("%s", hint);
	return CODE_FAILED;
}

void room_warn(const struct call *c, struct store *s)
{
	_cleanup_buf_ struct buf a = {0};
	struct space disk;

	if (space_read(s, &disk) < 0 || disk.free >= 2 * disk.for_envs)
		return;
	(void)call_fail(c, 0,
			"the disk of the store %s is nearly full: %s are free",
			c->store, size_text(&a, disk.free));
	call_hint("%s", hint);
}
