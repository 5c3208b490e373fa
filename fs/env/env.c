/* SPDX-License-Identifier: MIT */
/*
 * How: an environment is the folder STORE/envs/NAME: `env` (what is fixed, with
 * a checksum), and from the first change on `journal` and `data`. It is built
 * in trash/ and renamed into place, so that whatever stands in envs/ is whole
 * and what a kill leaves behind is deleted like any rubbish. Nothing here waits
 * for the disk: the first env_sync puts the names on stable storage too.
 */
#include "env/env_int.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/name.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { INFO_MAX = 16 << 10, INFO_MADE_MOUNTPOINT = 1, INFO_OWNED = 2 };

#define MAKING ".new-"

/* --- the file `env` ------------------------------------------------------- */

static void info_encode(const struct env_info *info, struct buf *b)
{
	buf_put_u32(b, FORMAT_ENV_MAGIC);
	buf_put_u32(b, FORMAT_VERSION);
	buf_put(b, info->snapshot.b, OID_BYTES);
	buf_put_u64(b, (uint64_t)info->created_sec);
	buf_put_u32(b, (info->made_mountpoint ? INFO_MADE_MOUNTPOINT : 0) |
			       (info->owned ? INFO_OWNED : 0));
	buf_put_block(b, info->source, strlen(info->source));
	buf_put_block(b, info->at, strlen(info->at));
	buf_put_block(b, info->ref, strlen(info->ref));
	buf_put_u64(b, info->limits.bytes);
	buf_put_u64(b, info->limits.inodes);
	buf_put_u64(b, info->limits.ttl_sec);
	buf_put_u32(b, info->net);
	buf_put_u32(b, info->ports.count);
	for (uint32_t i = 0; i < info->ports.count; i++)
		buf_put_u16(b, info->ports.v[i]);
	if (info->owned) {
		buf_put_u32(b, info->uid);
		buf_put_u32(b, info->gid);
	}
	if (!b->failed)
		buf_put_u64(b, oid_checksum(b->data, b->len, 0));
}

static void take_text(struct bytes *r, char *s, size_t size)
{
	size_t len;
	const uint8_t *p = bytes_block(r, size - 1, &len);

	if (p && len)
		memcpy(s, p, len);
	s[len] = '\0';
}

/* They came later: in a file without them there are none. */
static int take_limits(struct bytes *r, struct env_limits *l)
{
	if (!r->left)
		return 0;
	l->bytes = bytes_u64(r);
	l->inodes = bytes_u64(r);
	l->ttl_sec = bytes_u64(r);
	return r->bad || l->bytes > INT64_MAX || l->inodes > FORMAT_MAX_INODE ||
			       l->ttl_sec > FORMAT_MAX_TTL
		       ? -ERANGE
		       : 0;
}

/* Later still. */
static int take_net(struct bytes *r, struct env_info *info)
{
	uint32_t net, count;

	if (!r->left)
		return 0;
	net = bytes_u32(r);
	count = bytes_u32(r);
	if (r->bad || net >= ENV_NET_END || count > FORMAT_MAX_PORTS)
		return -EDOM;
	info->net = net;
	while (info->ports.count < count) {
		uint16_t port = bytes_u16(r);

		if (!port || env_has_port(&info->ports, port))
			return -EDOM;
		info->ports.v[info->ports.count++] = port;
	}
	return 0;
}

static int info_decode(const struct buf *b, struct env_info *ret)
{
	struct bytes r;
	const uint8_t *id;
	uint32_t flags;
	int err;

	if (b->len < 8 || bytes_load_u64(b->data + b->len - 8) !=
				  oid_checksum(b->data, b->len - 8, 0))
		return -EFSBADCRC;
	r = bytes_of(b->data, b->len - 8);
	memset(ret, 0, sizeof *ret);
	if (bytes_u32(&r) != FORMAT_ENV_MAGIC)
		return -EFSCORRUPTED;
	if (bytes_u32(&r) != FORMAT_VERSION)
		return -EPROTONOSUPPORT;
	id = bytes_take(&r, OID_BYTES);
	if (id)
		memcpy(ret->snapshot.b, id, OID_BYTES);
	ret->created_sec = (int64_t)bytes_u64(&r);
	flags = bytes_u32(&r);
	ret->made_mountpoint = flags & INFO_MADE_MOUNTPOINT;
	take_text(&r, ret->source, sizeof ret->source);
	take_text(&r, ret->at, sizeof ret->at);
	take_text(&r, ret->ref, sizeof ret->ref);
	if (r.bad || oid_kind(&ret->snapshot) != OID_SNAP)
		return -EFSCORRUPTED;
	err = take_limits(&r, &ret->limits);
	if (err == 0)
		err = take_net(&r, ret);
	if (err < 0)
		return err;
	ret->owned = flags & INFO_OWNED;
	if (ret->owned) {
		ret->uid = bytes_u32(&r);
		ret->gid = bytes_u32(&r);
	}
	return r.bad ? -EFSCORRUPTED : 0;
}

static int env_dir(struct store *s, const char *name)
{
	char path[NAME_MAX_ENV + 8];
	int fd;

	if (!name_is_env(name))
		return -EINVAL;
	(void)snprintf(path, sizeof path, "envs/%s", name);
	fd = openat(store_fd(s), path,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int info_read(int dirfd, struct env_info *ret_info)
{
	_cleanup_buf_ struct buf b = {0};
	int r = io_read_file(dirfd, "env", INFO_MAX, &b);

	return r < 0 ? r : info_decode(&b, ret_info);
}

int env_read_info(struct store *s, const char *name, struct env_info *ret_info)
{
	_cleanup_close_ int dirfd = env_dir(s, name);

	return dirfd < 0 ? dirfd : info_read(dirfd, ret_info);
}

int env_write_info(struct store *s, const char *name,
		   const struct env_info *info)
{
	_cleanup_close_ int dirfd = env_dir(s, name);
	_cleanup_buf_ struct buf b = {0};
	int r;

	if (dirfd < 0)
		return dirfd;
	info_encode(info, &b);
	r = buf_error(&b);
	/* What it replaces may have been committed; without a journal nothing of
	 * the environment was yet, and a mount waits for no sync. */
	return r < 0 ? r
		     : io_write_file(dirfd, "env", b.data, b.len,
				     !faccessat(dirfd, "journal", F_OK, 0));
}

/* A name in trash/ that nobody else uses; of an environment in the making or
 * of waste. No environment's name begins with a dot. */
static void trash_name(const char *name, bool making, char *path, size_t size)
{
	static unsigned counter;
	unsigned n = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);

	(void)snprintf(path, size, "trash/%s%d-%.*s.%u.%llu",
		       making ? MAKING : "", (int)getpid(),
		       (int)strcspn(name, "/"), name, n,
		       (unsigned long long)clock_mono_ns());
}

/* Says whether an entry is what this process is making just now; what another
 * was making when it was killed is waste. */
static bool is_making(const char *entry)
{
	char mine[32];

	(void)snprintf(mine, sizeof mine, MAKING "%d-", (int)getpid());
	return !strncmp(entry, mine, strlen(mine));
}

static int env_build(struct store *s, const char *tmp, const char *name,
		     const struct buf *info)
{
	_cleanup_close_ int dirfd = -1, file = -1;
	char path[NAME_MAX_ENV + 8];
	int r;

	if (mkdirat(store_fd(s), tmp, 0700) < 0)
		return -errno;
	dirfd = openat(store_fd(s), tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	file = openat(dirfd, "env", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		      0600);
	if (file < 0)
		return -errno;
	r = io_write(file, info->data, info->len);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof path, "envs/%s", name);
	if (renameat(store_fd(s), tmp, store_fd(s), path) < 0)
		return errno == ENOTEMPTY ? -EEXIST : -errno;
	return 0;
}

int env_create(struct store *s, const char *name, const struct env_info *info)
{
	_cleanup_buf_ struct buf b = {0};
	char tmp[160];
	int r;

	if (!name_is_env(name))
		return -EINVAL;
	info_encode(info, &b);
	r = buf_error(&b);
	if (r < 0)
		return r;
	trash_name(name, true, tmp, sizeof tmp);
	r = env_build(s, tmp, name, &b);
	if (r < 0)
		(void)io_remove_tree(store_fd(s), tmp);
	return r;
}

int env_remove(struct store *s, const char *name)
{
	char path[NAME_MAX_ENV + 8], tmp[160];

	if (!name_is_env(name))
		return -EINVAL;
	(void)snprintf(path, sizeof path, "envs/%s", name);
	trash_name(name, false, tmp, sizeof tmp);
	if (renameat(store_fd(s), path, store_fd(s), tmp) < 0)
		return -errno;
	return 0;
}

int env_empty_trash(struct store *s)
{
	struct dirent *d;
	DIR *dir;
	int r = io_open_names(store_fd(s), "trash", 0, &dir);

	if (r < 0)
		return r;
	while ((d = readdir(dir))) {
		int one;

		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
		    is_making(d->d_name))
			continue;
		one = io_remove_tree(dirfd(dir), d->d_name);
		if (one < 0)
			r = one;
	}
	(void)closedir(dir);
	return r;
}

/* --- open and close ------------------------------------------------------- */

static int env_load(struct env *e, struct diag *diag)
{
	int r = info_read(e->dirfd, &e->info);

	if (r < 0)
		return diag_fail(diag, r, "%s: its file 'env': %s", e->name,
				 err_text(r));
	r = base_open(&e->base, e->store, &e->info.snapshot);
	if (r < 0)
		return diag_fail(diag, r, "%s: its snapshot: %s", e->name,
				 err_text(r));
	if (e->info.owned)
		base_own(&e->base, e->info.uid, e->info.gid);
	e->next_ino = e->base.last_ino + 1;
	r = data_open(e);
	if (r >= 0)
		r = journal_open(e, diag);
	if (r < 0)
		return r;
	env_reap_all(e);
	r = data_find_free(e);
	if (r < 0)
		return diag_fail(diag, r, "%s: what its files own: %s", e->name,
				 err_text(r));
	/* what a killed server wrote and never recorded would show as old
	 * bytes in fresh blocks */
	if (e->data.fd >= 0 && !e->read_only)
		r = io_truncate(e->data.fd,
				e->data.next_block << ENV_BLOCK_SHIFT);
	return r;
}

static struct env *env_new(struct store *s, unsigned flags)
{
	struct env *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	mutex_init(&e->lock);
	e->store = s;
	(void)pthread_cond_init(&e->commits.ended, NULL);
	e->read_only = flags & ENV_READ_ONLY;
	e->checks = flags & ENV_CHECK;
	e->is_volatile = flags & ENV_VOLATILE;
	e->journal.fd = e->data.fd = e->dirfd = -1;
	e->data.next_block = BLOCK_FIRST;
	return e;
}

static int open_once(struct store *s, const char *name, unsigned flags,
		     struct diag *diag, struct env **ret_env)
{
	struct env *e;
	int r;

	if (!name_is_env(name))
		return -EINVAL;
	e = env_new(s, flags);
	if (!e)
		return -ENOMEM;
	(void)snprintf(e->name, sizeof e->name, "%s", name);
	e->dirfd = env_dir(s, name);
	if (e->dirfd < 0) {
		r = e->dirfd;
		env_close(e);
		return r;
	}
	r = io_lock(e->dirfd, LOCK_NB | (e->read_only ? LOCK_SH : LOCK_EX));
	if (r == 0)
		r = env_load(e, diag);
	if (r < 0) {
		env_close(e);
		return r;
	}
	*ret_env = e;
	return 0;
}

int env_open_snapshot(struct store *s, const struct oid *snapshot,
		      struct env **ret_env)
{
	struct env *e = env_new(s, ENV_READ_ONLY);
	int r;

	if (!e)
		return -ENOMEM;
	e->info.snapshot = *snapshot;
	r = base_open(&e->base, s, snapshot);
	if (r < 0) {
		env_close(e);
		return r;
	}
	e->next_ino = e->base.last_ino + 1;
	*ret_env = e;
	return 0;
}

void env_get_mark(struct env *e, struct env_mark *ret_mark)
{
	mutex_lock(&e->lock);
	*ret_mark = (struct env_mark){0};
	if (e->journal.seq)
		*ret_mark = (struct env_mark){e->journal.salt, e->journal.seq};
	mutex_unlock(&e->lock);
}

int env_open(struct store *s, const char *name, unsigned flags,
	     struct diag *diag, struct env **ret_env)
{
	int r = open_once(s, name, flags, diag, ret_env);

	if (r != -ESTALE)
		return r;
	/* content stands in the journal that has to go into the data file
	 * first: what is opened for reading only cannot do that */
	r = open_once(s, name, 0, diag, ret_env);
	if (r < 0)
		return r;
	env_close(*ret_env);
	return open_once(s, name, flags, diag, ret_env);
}

void env_close(struct env *e)
{
	if (!e)
		return;
	itable_free_all(e);
	data_close(e);
	journal_close(e);
	base_close(&e->base);
	buf_fini(&e->tx);
	if (e->dirfd >= 0)
		(void)close(e->dirfd);
	(void)pthread_cond_destroy(&e->commits.ended);
	mutex_fini(&e->lock);
	free(e);
}

bool env_is_pristine(struct env *e)
{
	bool pristine;

	mutex_lock(&e->lock);
	pristine = e->journal.seq == 0;
	mutex_unlock(&e->lock);
	return pristine;
}

bool env_take_bad(struct env *e, struct oid *ret_id)
{
	bool known;

	mutex_lock(&e->lock);
	*ret_id = e->base.bad;
	known = !oid_is_null(&e->base.bad);
	memset(&e->base.bad, 0, sizeof e->base.bad);
	mutex_unlock(&e->lock);
	return known;
}

void env_stat(struct env *e, struct env_stat *ret_stat)
{
	struct stat st;

	mutex_lock(&e->lock);
	*ret_stat = (struct env_stat){
		.base_inodes = e->base.last_ino,
		.changed_inodes = e->inodes.count,
		.journal_bytes = e->journal.end,
		.is_volatile = e->is_volatile,
	};
	if (e->data.fd >= 0 && fstat(e->data.fd, &st) >= 0)
		ret_stat->data_bytes = (uint64_t)st.st_blocks * 512;
	mutex_unlock(&e->lock);
}

/* --- the whole ------------------------------------------------------------ */

bool env_is_orphan(struct env *e, uint64_t ino)
{
	const struct inode *in;
	bool orphan;

	mutex_lock(&e->lock);
	in = itable_find(e, ino);
	orphan = in && !in->a.nlink;
	mutex_unlock(&e->lock);
	return orphan;
}

/* No record is needed: what has no name at replay is dropped there too. */
void env_reap(struct env *e, uint64_t ino)
{
	struct inode *in;

	mutex_lock(&e->lock);
	in = itable_find(e, ino);
	if (in && !in->a.nlink)
		itable_drop(e, in);
	mutex_unlock(&e->lock);
}

void env_reap_all(struct env *e)
{
	struct hmap_cursor c = {0};
	struct hnode *n;

	mutex_lock(&e->lock);
	while ((n = hmap_each(&e->inodes, &c))) {
		struct inode *in = container_of(n, struct inode, node);

		if (!in->a.nlink)
			itable_drop(e, in);
	}
	mutex_unlock(&e->lock);
}
