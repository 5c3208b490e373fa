/* SPDX-License-Identifier: MIT */
/*
 * import_gitodb.c - git's object database while git gc runs.
 *
 * At every moment an object that is in use is a loose file or in a pack; gc
 * makes the new pack first and deletes after. It can move objects around while
 * we read, in both directions (unreachable ones become loose again). So:
 *
 *   info (the commit graph names commits, so it comes before them)
 *   packs
 *   repeat: loose objects that are new to us, then packs that are new to us
 *   until the packs were the same before and after and nothing vanished
 *
 * In the last round all packs that existed are taken, and while they did not
 * change no object can have moved from a loose file that we missed. A
 * repository at rest is listed once, and its packs twice. What was taken stays
 * taken: a pack that is replaced later is valid, only superfluous. A pack that
 * vanished in the middle is dropped as a whole.
 *
 * A multi-pack-index names packs, so the last one counts.
 *
 * A clone with --shared or --reference borrows objects from the databases that
 * objects/info/alternates names. These are taken in the same way afterwards,
 * into the same directories: names are those of the content, so what is there
 * already is there. Indexes over several packs are of one database and are not
 * taken. import_entry.c leaves the list itself out.
 */
#include "exchange/import_int.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "git/safe.h"

enum {
	ODB_FANS = 256,
	ODB_PACK = ODB_FANS,
	ODB_DIRS,
	LENT_BYTES = 1 << 20, /* of a list of databases */
};

/* A directory of objects: one of 256 for loose ones, or "pack". */
struct odb_dir {
	bool taken;
	struct stat st;
	struct oid xattrs;
	struct import_set set;
};

struct odb {
	struct importer *imp;
	int fd;
	bool lent; /* fd is a database that objects are borrowed from */
	struct stat st;
	struct import_set top; /* what is neither loose nor pack */
	struct odb_dir dirs[ODB_DIRS];
};

static void odb_freep(struct odb **odbp)
{
	struct odb *o = *odbp;

	if (!o)
		return;
	import_set_fini(&o->top);
	for (int i = 0; i < ODB_DIRS; i++)
		import_set_fini(&o->dirs[i].set);
	attr_closep(&o->fd);
	free(o);
}

static bool is_hex(char c)
{
	return isdigit((unsigned char)c) || (c >= 'a' && c <= 'f');
}

/* Returns the index of a directory of objects, or -1. */
static int dir_index(const struct import_name *n)
{
	static const char digits[] = "0123456789abcdef";
	const char *s = n->name;

	if (n->type != DT_DIR && n->type != DT_UNKNOWN)
		return -1;
	if (!strcmp(s, "pack"))
		return ODB_PACK;
	if (!is_hex(s[0]) || !is_hex(s[1]) || s[2])
		return -1;
	return (int)((strchr(digits, s[0]) - digits) * 16 +
		     (strchr(digits, s[1]) - digits));
}

static void dir_name(int i, char name[static 8])
{
	if (i == ODB_PACK)
		(void)snprintf(name, 8, "pack");
	else
		(void)snprintf(name, 8, "%02x", (unsigned)i & 0xff);
}

/* What is of one database, and not of the objects in it. */
static bool is_of_one(const char *name)
{
	const char *dot = strrchr(name, '.');

	return !strncmp(name, "multi-pack-index", 16) ||
	       (dot && !strcmp(dot, ".bitmap"));
}

static bool is_index_of_packs(const char *name)
{
	return !strncmp(name, "multi-pack-index", 16);
}

static bool is_known(const struct import_item *item, int fd)
{
	struct stat st;

	if (!item)
		return false;
	if (!is_index_of_packs(item->n.e.name))
		return true; /* named by content */
	return fstatat(fd, item->n.e.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino == item->st.st_ino && st.st_size == item->st.st_size &&
	       st.st_mtim.tv_sec == item->st.st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == item->st.st_mtim.tv_nsec;
}

static int dir_take_name(struct odb *o, int fd, struct odb_dir *d,
			 const struct import_name *n, uint64_t *news)
{
	struct stat st;
	int r;

	if (o->lent ? is_of_one(n->name) || import_set_find(&d->set, n->name)
		    : is_known(import_set_find(&d->set, n->name), fd))
		return 0;
	if (fstatat(fd, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		memset(&st, 0, sizeof st);
	r = import_set_entry(o->imp, &d->set, fd, n);
	if (r != IMPORT_TAKEN)
		return r;
	import_set_find(&d->set, n->name)->st = st;
	(*news)++;
	return r;
}

/* Takes what is new in an open directory of objects; counts it. */
static int dir_take_new(struct odb *o, int fd, struct odb_dir *d,
			uint64_t *news)
{
	static const char index_name[] = "multi-pack-index";
	_cleanup_import_list_ struct import_list list = {.count = 0};
	struct import_item *index;
	struct stat st;
	int r;

	r = import_list(o->imp, fd, &st, &list);
	if (r == 0 && !(o->lent && d->taken)) {
		d->st = st;
		r = import_xattrs(o->imp, fd, st.st_dev, false, &d->xattrs);
	}
	if (r < 0)
		return import_settle(o->imp, r);
	d->taken = true;
	for (size_t i = 0; i < list.count; i++) {
		r = dir_take_name(o, fd, d, &list.names[i], news);
		if (r < 0)
			return r;
	}
	/* One that named packs which are gone must not stay. */
	index = o->lent ? NULL : import_set_find(&d->set, index_name);
	if (index && !import_list_find(&list, index_name)) {
		import_set_drop(o->imp, &d->set, index);
		(*news)++;
	}
	return IMPORT_TAKEN;
}

static int dir_pass(struct odb *o, int i, uint64_t *news)
{
	struct importer *imp = o->imp;
	_cleanup_close_ int fd = -1;
	size_t path_len;
	bool foreign = false;
	char name[8];
	int r;

	dir_name(i, name);
	path_len = import_path_push(imp, name);
	r = IMPORT_LEFT_OUT;
	if (!import_excluded(imp, name, true))
		r = import_open_dir(imp, o->fd, name, &fd, &foreign);
	if (r == IMPORT_TAKEN && foreign)
		r = IMPORT_RETYPED; /* odd: as an ordinary entry */
	if (r == IMPORT_TAKEN)
		r = dir_take_new(o, fd, &o->dirs[i], news);
	else
		r = import_settle(imp, r);
	if (r >= 0)
		import_path_pop(imp, path_len);
	return r;
}

/* Takes what lies beside loose objects and packs. */
static int top_take(struct odb *o, const struct import_list *list)
{
	int r;

	for (size_t i = 0; i < list->count; i++) {
		const struct import_name *n = &list->names[i];
		uint64_t gone;

		if (dir_index(n) >= 0)
			continue;
		for (int t = 0; t < IMPORT_GIT_TRIES; t++) {
			gone = o->imp->gone;
			r = import_set_entry(o->imp, &o->top, o->fd, n);
			if (r < 0)
				return r;
			if (gone == o->imp->gone || r == IMPORT_GONE)
				break;
		}
	}
	return 0;
}

static int loose_pass(struct odb *o, uint64_t *news)
{
	_cleanup_import_list_ struct import_list list = {.count = 0};
	struct stat st;
	int r;

	r = import_list(o->imp, o->fd, &st, &list);
	if (r < 0)
		return import_settle(o->imp, r);
	if (!o->lent)
		o->st = st;
	for (size_t i = 0; i < list.count; i++) {
		const struct import_name *n = &list.names[i];
		int at = dir_index(n);

		if (at < 0 || at == ODB_PACK)
			continue;
		r = dir_pass(o, at, news);
		if (r == IMPORT_RETYPED)
			r = import_set_entry(o->imp, &o->top, o->fd, n);
		if (r < 0)
			return r;
	}
	return IMPORT_TAKEN;
}

static int pack_pass(struct odb *o, uint64_t *news)
{
	struct import_name name = {.name = "pack", .type = DT_UNKNOWN};
	struct stat st;
	int r;

	if (fstatat(o->fd, name.name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT)
		return IMPORT_TAKEN;
	r = dir_pass(o, ODB_PACK, news);
	if (r == IMPORT_RETYPED)
		r = import_set_entry(o->imp, &o->top, o->fd, &name);
	return r;
}

static bool has_part(const struct import_set *s, const char *name, size_t stem,
		     const char *part)
{
	char other[NAME_MAX + 8];

	(void)snprintf(other, sizeof other, "%.*s%s", (int)stem, name, part);
	return import_set_find(s, other);
}

/* Drops the files of packs that lost their .pack or .idx while being read. */
static void packs_drop_torn(struct odb *o)
{
	struct import_set *s = &o->dirs[ODB_PACK].set;
	struct hmap_cursor c = {.slot = 0};
	struct hnode *n;

	while ((n = hmap_each(&s->items, &c))) {
		struct import_item *item =
			container_of(n, struct import_item, node);
		const char *name = item->n.e.name;
		const char *dot = strrchr(name, '.');
		size_t stem = dot ? (size_t)(dot - name) : 0;

		if (!dot || strncmp(name, "pack-", 5) != 0)
			continue;
		if (has_part(s, name, stem, ".pack") &&
		    has_part(s, name, stem, ".idx"))
			continue;
		import_set_drop(o->imp, s, item);
	}
}

/* Repeats until a round found the packs unchanged. */
static int odb_settle(struct odb *o)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	struct importer *imp = o->imp;
	uint64_t gone_before = imp->gone;
	uint64_t locks = 0;
	uint64_t news = 0;
	int r;

	r = pack_pass(o, &news);
	for (int i = 0; i < IMPORT_GIT_TRIES && r >= 0; i++) {
		uint64_t loose = 0;
		uint64_t gone = imp->gone;

		news = 0;
		r = loose_pass(o, &loose);
		if (i == 0)
			locks = imp->locks.count;
		if (r >= 0)
			r = pack_pass(o, &news);
		imp->locks.count = locks; /* each pass meets them again */
		if (r >= 0 && news == 0 && imp->gone == gone) {
			if (imp->gone != gone_before)
				packs_drop_torn(o);
			return 0;
		}
		if (r >= 0)
			(void)nanosleep(&pause, NULL);
	}
	if (r < 0)
		return r;
	return diag_fail(imp->diag, -EBUSY,
			 "%s: the repository does not settle: its packs keep "
			 "changing",
			 import_path(imp));
}

/* --- borrowed objects ------------------------------------------------------
 */

enum { LENT_DEPTH = 5 }; /* as git's own bound */

static int lent_read(struct odb *o, int fd, int depth);

/* Takes the objects of the database at path, as fd's list names it. */
static int lent_take(struct odb *o, int fd, const char *path, int depth)
{
	struct importer *imp = o->imp;
	const dev_t root_dev = imp->root_dev;
	const int own_fd = o->fd;
	_cleanup_close_ int lent =
		openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (lent < 0 || fstat(lent, &st) < 0 || depth >= LENT_DEPTH) {
		import_left_out(imp, &imp->lent);
		return 0;
	}
	if (!gitsafe_is_owner(st.st_uid) && !gitsafe_is_trusted(path)) {
		imp->failed = true;
		return diag_fail(imp->diag, -EPERM,
				 "%s: borrows from %s, which belongs to user "
				 "%u; if you trust it: git config --global "
				 "--add safe.directory %s",
				 import_path(imp), path, (unsigned)st.st_uid,
				 path);
	}
	o->fd = lent;
	o->lent = true;
	imp->root_dev = st.st_dev;
	r = odb_settle(o);
	imp->root_dev = root_dev;
	o->fd = own_fd;
	return r < 0 ? r : lent_read(o, lent, depth + 1);
}

/* Takes all databases in the list of the one at fd: a path a line, from fd
 * when it is relative. */
static int lent_read(struct odb *o, int fd, int depth)
{
	_cleanup_buf_ struct buf text = {0};
	char *line, *next;
	int r;

	r = io_read_file(fd, "info/alternates", LENT_BYTES, &text);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == 0 && !buf_str(&text))
		r = -ENOMEM;
	if (r < 0)
		return import_settle(o->imp, r);
	for (line = (char *)text.data; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (!*line || *line == '#')
			continue;
		r = lent_take(o, fd, line, depth);
		if (r < 0)
			return r;
	}
	return 0;
}

static int odb_put(struct odb *o, struct tree_entry *e)
{
	int r;

	for (int i = 0; i < ODB_DIRS; i++) {
		struct odb_dir *d = &o->dirs[i];
		struct import_node node = {.link_begin = 0};
		char name[8];

		if (!d->taken)
			continue;
		dir_name(i, name);
		node.e.xattrs = d->xattrs;
		node.link_begin = o->imp->member_count;
		r = import_set_put_tree(o->imp, &d->set, &d->st, &node.e);
		if (r < 0)
			return r;
		node.link_end = o->imp->member_count;
		r = import_set_put(o->imp, &o->top, name, &node);
		if (r < 0)
			return r;
	}
	return import_set_put_tree(o->imp, &o->top, &o->st, e);
}

int import_gitodb(struct importer *imp, int dirfd, struct import_node *ret_node)
{
	_cleanup_(odb_freep) struct odb *o = calloc(1, sizeof *o);
	_cleanup_import_list_ struct import_list list = {.count = 0};
	bool foreign = false;
	int r;

	if (!o)
		return -ENOMEM;
	o->imp = imp;
	o->fd = -1;
	r = import_open_dir(imp, dirfd, "objects", &o->fd, &foreign);
	if (r == IMPORT_TAKEN && foreign)
		return IMPORT_RETYPED; /* a mount point: as ordinary entry */
	if (r != IMPORT_TAKEN)
		return import_settle(imp, r);
	r = import_list(imp, o->fd, &o->st, &list);
	if (r == 0)
		r = import_xattrs(imp, o->fd, o->st.st_dev, false,
				  &ret_node->e.xattrs);
	if (r < 0)
		return import_settle(imp, r);
	r = top_take(o, &list);
	if (r >= 0)
		r = odb_settle(o);
	if (r >= 0 && imp->in_git)
		r = lent_read(o, o->fd, 0);
	if (r >= 0)
		r = odb_put(o, &ret_node->e);
	return r;
}
