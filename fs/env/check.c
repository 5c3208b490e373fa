/* SPDX-License-Identifier: MIT */
/*
 * How: what opening an environment checks anyway, step by step, so that the
 * rule can be named: the file `env`, the snapshot, the journal's header. The
 * frames are replayed by opening it for reading: there is one reader of
 * journals, and it is the check.
 */
#include "env/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/name.h"
#include "env/env_int.h"

struct checking {
	struct store *store;
	const char *name;
	env_check_fn fn;
	void *ctx;
	struct env_checked *ret;
};

static int lost(const struct checking *c, const char *rule, const char *text)
{
	c->ret->state = ENV_LOST;
	c->fn(c->ctx, rule, text);
	return 0;
}

static bool is_there(const struct checking *c)
{
	char path[NAME_MAX_ENV + 16];
	struct stat st;

	(void)snprintf(path, sizeof path, "envs/%s", c->name);
	return fstatat(store_fd(c->store), path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int check_info(const struct checking *c, struct env_info *info)
{
	int r = env_read_info(c->store, c->name, info);

	/* The folder is gone: it was removed this moment. */
	if (r == -ENOENT && !is_there(c))
		return -ENOENT;
	switch (r) {
	case 0:
		c->ret->has_snapshot = true;
		c->ret->snapshot = info->snapshot;
		return 0;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return lost(c, "E1", "it has no file 'env'");
	case -EFSBADCRC:
	case -EFBIG:
		return lost(c, "E3", "its file 'env' is damaged");
	case -EFSCORRUPTED:
		return lost(c, "E4", "its file 'env' makes no sense");
	case -ERANGE:
		return lost(c, "E30",
			    "the limits in its file 'env' make no "
			    "sense");
	case -EDOM:
		return lost(c, "E31",
			    "the network and ports in its file 'env' make no "
			    "sense");
	default:
		return r;
	}
}

static int open_journal(const struct checking *c)
{
	char path[NAME_MAX_ENV + 16];

	(void)snprintf(path, sizeof path, "envs/%s/journal", c->name);
	return io_open_file(store_fd(c->store), path, O_RDONLY);
}

static int check_header(const struct checking *c, const struct env_info *info)
{
	_cleanup_close_ int fd = open_journal(c);
	uint8_t h[JOURNAL_HEADER_BYTES];
	ssize_t n;

	if (fd == -EFSCORRUPTED)
		return lost(c, "E7", "its journal is no file");
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	n = io_pread(fd, h, sizeof h, 0);
	/* A shorter one counts as missing, and one never committed. */
	if (n < (ssize_t)sizeof h || journal_is_unborn(fd))
		return n < 0 ? (int)n : 0;
	if (!journal_is_header(h, &info->snapshot))
		return lost(c, "E7", "its journal's header is damaged");
	return 0;
}

static int check_frames(const struct checking *c)
{
	_cleanup_diag_ struct diag diag = {0};
	struct env *e = NULL;
	const int r = env_open(c->store, c->name, ENV_READ_ONLY | ENV_CHECK,
			       &diag, &e);
	const char *line = diag_line(&diag, 0);

	env_close(e);
	if (r == 0 && !line)
		return 0;
	if (r == 0) {
		c->ret->state = ENV_TORN;
		c->fn(c->ctx, "E10", line);
		return 0;
	}
	if (r == -EBUSY) {
		c->ret->state = ENV_BUSY;
		return 0;
	}
	if (r == -EFSBADCRC)
		return lost(c, "E10", line ? line : err_text(r));
	if (r == -EFSCORRUPTED)
		return lost(c, "E11", line ? line : err_text(r));
	return r;
}

/* Whether the snapshot can be opened as one. */
static int check_snapshot(const struct checking *c)
{
	struct base base;
	int r = base_open(&base, c->store, &c->ret->snapshot);

	if (r == 0)
		base_close(&base);
	if (r == -ENOENT || r == -EFSBADCRC || r == -EFSCORRUPTED) {
		c->ret->state = ENV_ROOTLESS;
		c->fn(c->ctx, "E5", "its snapshot is not in the store");
		return 0;
	}
	return r;
}

int env_check(struct store *s, const char *name, env_check_fn fn, void *ctx,
	      struct env_checked *ret)
{
	const struct checking c = {s, name, fn, ctx, ret};
	struct env_info info;
	int r;

	*ret = (struct env_checked){.state = ENV_SOUND};
	r = check_info(&c, &info);
	if (r == 0 && ret->state == ENV_SOUND)
		r = check_snapshot(&c);
	if (r == 0 && ret->state == ENV_SOUND)
		r = check_header(&c, &info);
	if (r == 0 && ret->state == ENV_SOUND)
		r = check_frames(&c);
	return r;
}

int env_mend(struct store *s, const char *name)
{
	_cleanup_diag_ struct diag diag = {0};
	struct env *e = NULL;
	const int r = env_open(s, name, 0, &diag, &e);

	env_close(e);
	return r;
}
