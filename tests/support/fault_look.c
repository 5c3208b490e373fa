/* SPDX-License-Identifier: MIT */
/*
 * How: a snapshot is looked at by reading every object below it against its
 * name. An environment's digest is one checksum over all that a program in it
 * can see: names, attributes, bytes.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "env/check.h"
#include "env/env.h"
#include "fault_case.h"
#include "gc_case.h"
#include "store/fsck.h"

/* --- an environment --------------------------------------------------------- */

struct listing {
	struct buf *names; /* blocks: a name, its number */
};

static bool note_entry(void *ctx, const char *name, size_t len,
		       const struct env_attr *a, uint64_t next)
{
	struct listing *l = ctx;

	buf_put_block(l->names, name, len);
	buf_put_u64(l->names, a->ino);
	return true;
}

static int digest_bytes(struct env *e, const struct env_attr *a,
			struct buf *out)
{
	_cleanup_free_ uint8_t *data = malloc(a->size + 1);
	const ssize_t n = data ? env_read(e, a->ino, data, a->size + 1, 0)
			       : -ENOMEM;

	if (n < 0)
		return (int)n;
	if ((uint64_t)n != a->size)
		return -EFSCORRUPTED;
	buf_put_u64(out, oid_checksum(data, a->size, 0));
	return 0;
}

static int digest_inode(struct env *e, uint64_t ino, struct buf *out,
			uint32_t *ret_mode)
{
	char names[512];
	struct env_attr a;
	ssize_t n;
	int r = env_getattr(e, ino, &a);

	if (r < 0)
		return r;
	*ret_mode = a.mode;
	buf_printf(out, "%lu %o %u %u:%u %lu %lu %ld.%ld %ld.%ld ",
		   (unsigned long)a.ino, a.mode, a.nlink, a.uid, a.gid,
		   (unsigned long)a.size, (unsigned long)a.rdev,
		   (long)a.mtime.tv_sec, a.mtime.tv_nsec, (long)a.ctime.tv_sec,
		   a.ctime.tv_nsec);
	n = env_listxattr(e, ino, names, sizeof names);
	if (n < 0)
		return (int)n;
	buf_put(out, names, (size_t)n);
	if (S_ISLNK(a.mode))
		return env_readlink(e, ino, out);
	return S_ISREG(a.mode) ? digest_bytes(e, &a, out) : 0;
}

static int digest_tree(struct env *e, uint64_t dir, struct buf *out)
{
	_cleanup_buf_ struct buf names = {0};
	struct listing l = {&names};
	size_t at = 0;
	int r = env_readdir(e, dir, 0, note_entry, &l);

	r = r < 0 ? r : buf_error(&names);
	while (r == 0 && at < names.len) {
		uint64_t ino;
		uint32_t len, mode;

		memcpy(&len, names.data + at, 4);
		memcpy(&ino, names.data + at + 4 + len, 8);
		buf_put(out, names.data + at + 4, len);
		r = digest_inode(e, ino, out, &mode);
		if (r == 0 && S_ISDIR(mode))
			r = digest_tree(e, ino, out);
		at += 12 + len;
	}
	return r < 0 ? r : buf_error(out);
}

int fault_env_digest_of(struct env *e, uint64_t *ret_digest)
{
	_cleanup_buf_ struct buf out = {0};
	uint32_t mode;
	int r = digest_inode(e, ENV_ROOT, &out, &mode);

	if (r == 0)
		r = digest_tree(e, ENV_ROOT, &out);
	if (r == 0)
		*ret_digest = oid_checksum(out.data, out.len, 0);
	return r;
}

int fault_env_digest(struct store *s, const char *name, unsigned flags,
		     uint64_t *ret_digest)
{
	struct env *e = NULL;
	int r = env_open(s, name, flags, NULL, &e);

	if (r == 0)
		r = fault_env_digest_of(e, ret_digest);
	env_close(e);
	return r;
}

/* --- the store -------------------------------------------------------------- */

static int look_at_ref(struct store *s, const char *ref, const struct oid *want)
{
	struct oid id;
	int r = store_ref_get(s, ref, &id);

	if (r == 0 && !oid_equal(&id, want))
		r = -EBADE;
	return r < 0 ? r : gc_case_check(s, want);
}

int fault_case_look_in(struct fault_case *c, struct store *s)
{
	uint64_t digest = 0;
	int r = look_at_ref(s, "kept:latest", &c->shared->kept);

	if (r == 0)
		r = look_at_ref(s, "kept:v1", &c->shared->kept);
	if (r == 0)
		r = look_at_ref(s, "plain:latest", &c->shared->plain);
	if (r == 0)
		r = fault_env_digest(s, "e", ENV_READ_ONLY, &digest);
	if (r == 0 && digest != c->shared->env)
		r = -EBADE;
	return r;
}

int fault_case_look(struct fault_case *c)
{
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_case_look_in(c, s);
	store_close(s);
	return r;
}

/* --- fsck ------------------------------------------------------------------- */

static void note_rule(struct fault_shared *sh, const char *rule)
{
	const size_t n = strlen(sh->rules);

	(void)snprintf(sh->rules + n, sizeof sh->rules - n, "%s ", rule);
}

static void tell(void *ctx, const struct fsck_finding *f)
{
	struct fault_case *c = ctx;

	if (f->kind == FSCK_DAMAGE)
		note_rule(c->shared, f->rule);
}

static void tell_env(void *ctx, const char *rule, const char *text)
{
	struct fault_case *c = ctx;

	c->shared->damage++;
	note_rule(c->shared, rule);
}

static void be_silent(void *ctx, const char *rule, const char *text)
{
}

static int repair_env(struct fsck *f, const char *path, const char *name,
		      enum env_state state)
{
	char journal[300];
	int r;

	if (state == ENV_LOST)
		return fsck_set_aside(f, path);
	if (state != ENV_TORN)
		return 0;
	(void)snprintf(journal, sizeof journal, "%s/journal", path);
	r = fsck_keep_copy(f, journal);
	return r < 0 ? r : env_mend(fsck_store(f), name);
}

static int check_env(struct fault_case *c, struct fsck *f, const char *name,
		     bool repair)
{
	struct env_checked e;
	char path[280];
	int r = env_check(fsck_store(f), name, repair ? be_silent : tell_env, c,
			  &e);

	if (r < 0)
		return r;
	if (e.has_snapshot && e.state != ENV_ROOTLESS)
		r = fsck_check_root(f, &e.snapshot);
	(void)snprintf(path, sizeof path, "envs/%s", name);
	if (r >= 0 && repair)
		r = repair_env(f, path, name, e.state);
	return r < 0 ? r : 0;
}

static int check_envs(struct fault_case *c, struct fsck *f, bool repair)
{
	struct store *s = fsck_store(f);
	const int fd = s ? openat(store_fd(s), "envs", O_RDONLY | O_DIRECTORY)
			 : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int r = 0;

	while (d && r == 0 && (e = readdir(d)))
		if (e->d_name[0] != '.')
			r = check_env(c, f, e->d_name, repair);
	if (d)
		(void)closedir(d);
	return r;
}

static int check_all(struct fault_case *c, struct fsck *f, bool repair)
{
	int r = fsck_check(f);

	if (r == 0)
		r = check_envs(c, f, false);
	if (r < 0 || !repair ||
	    fsck_damage(f) + (unsigned)c->shared->damage == 0)
		return r;
	c->shared->damage = 0;
	c->shared->rules[0] = '\0';
	r = fsck_repair(f);
	if (r == 0)
		r = check_envs(c, f, true);
	return r == 0 ? check_envs(c, f, false) : r;
}

int fault_fsck(struct fault_case *c, bool repair)
{
	struct fsck *f = NULL;
	int r = fsck_open(c->store, repair ? FSCK_REPAIR : 0, tell, c, NULL,
			  &f);

	c->shared->damage = 0;
	c->shared->rules[0] = '\0';
	if (r == 0)
		r = check_all(c, f, repair);
	if (r == 0)
		c->shared->damage += (int)fsck_damage(f);
	fsck_close(f);
	return r;
}
