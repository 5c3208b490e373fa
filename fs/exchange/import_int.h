/* SPDX-License-Identifier: MIT */
/*
 * import_int.h - what the parts of an import share.
 *
 * One struct importer lives for one import. import_entry takes one name of a
 * directory and says whether it became part of the snapshot; import_walk takes
 * a whole directory and import_gitdir one of git's, in git's order.
 *
 * Contract
 *   Ownership   a node borrows name and target until the next import_entry; a
 *               set owns copies
 *   Durability  none before import_dir commits
 *   Threads     one
 *   Errors      negative errno; the message is in diag already
 */
#ifndef COWFS_EXCHANGE_IMPORT_INT_H
#define COWFS_EXCHANGE_IMPORT_INT_H

#include "base/hmap.h"
#include "exchange/content.h"
#include "exchange/import_dir.h"
#include "object/format.h"
#include "object/tree.h"

#include <sys/stat.h>

enum {
	IMPORT_TRIES = 10,     /* readings of a file that changes */
	IMPORT_GIT_TRIES = 50, /* passes over a repository that changes */
	IMPORT_NAMED = 10,     /* unreadable files named before giving up */
};

/* What became of a name; negative: the import fails. */
enum import_outcome {
	IMPORT_TAKEN = 0,
	IMPORT_LEFT_OUT = 1,
	IMPORT_GONE = 2,    /* deleted since it was listed */
	IMPORT_RETYPED = 3, /* not of the kind that was expected; try again */
};

/* One entry before it is part of a tree. Its names with hard links are
 * members [link_begin, link_end) of importer.members, with positions relative
 * to this entry. */
struct import_node {
	struct tree_entry e;
	size_t link_begin;
	size_t link_end;
};

/* A file with several names: read once, whatever the number of names. */
struct import_group {
	struct hnode node; /* by (dev, ino); out of the map when re-used */
	struct import_group *next_all;
	struct stat st;
	uint64_t birth_ns; /* 0: the file system does not tell */
	struct tree_entry e;
	char *target;
	uint64_t first; /* lowest position */
	uint32_t count;
};

struct import_member {
	uint64_t position;
	struct import_group *group; /* NULL: dropped */
};

/* Left-out names of one sort: how many, and the first one. */
struct import_left {
	uint64_t count;
	char *first;
};

/* An index of git and its work tree, as paths from the root. */
struct import_repo {
	char *index;
	char *work;
};

/* A repository that becomes the directory at hand. */
struct import_gitdir {
	int fd;	    /* where objects and refs are */
	int own;    /* what a linked work tree has alone, or -1 */
	bool moved; /* it was not here: core.worktree is of no use */
};

/* A stored tree, opened. */
struct import_tree {
	struct buf bytes;
	struct tree tree;
};

struct import_glob;
struct import_scan;

struct importer {
	struct store *store;
	struct batch *batch;
	const struct import_options *options;
	struct diag *notes;
	struct diag *diag;
	struct import_result result;

	dev_t root_dev;	  /* what lies elsewhere is foreign */
	dev_t source_dev; /* of the root; the same but in repositories that are
			   * taken from outside */
	char *root_real;  /* its path; NULL: not known */
	dev_t store_dev;
	ino_t store_ino;
	int64_t started_ns; /* wall clock */
	bool noatime;	    /* O_NOATIME is allowed */
	bool no_xattrs;	    /* the file system no_xattrs_dev has none */
	dev_t no_xattrs_dev;

	struct buf path; /* from the root, for messages and globs */
	unsigned depth;
	unsigned in_git; /* directories named .git above */
	uint64_t gone;	 /* names that vanished so far */
	int unreadable;	 /* first errno, else 0 */
	bool failed;	 /* for a reason that is not the file at hand */
	uint64_t entries;

	struct import_glob *globs;
	size_t glob_count;
	bool globs_need_path;

	struct import_scan *scan; /* NULL: nothing is remembered */

	struct hmap groups;
	struct import_group *all_groups;
	struct import_member *members;
	size_t member_count;
	size_t member_cap;

	struct import_left sockets;
	struct import_left locks;
	struct import_left skipped;
	struct import_left mounts;
	struct import_left outward; /* kept, but git leads out of the tree */
	struct import_left linked;  /* the origin's other work trees */
	struct import_left lent;    /* objects that could not be found */

	struct import_repo *repos; /* whose indexes are to be adapted */
	size_t repo_count;
	bool told_index; /* one was left alone */
	struct oid memo_key;
	struct oid memo_made;
	/* Of the root's repository, or NULL. */
	char *git_dir;
	char *git_head;
	char *git_commit;

	uint8_t *chunk;	   /* FORMAT_CHUNK_BYTES */
	char *dents;	   /* IMPORT_DENTS_BYTES, for getdents */
	char *target;	   /* FORMAT_MAX_TARGET + 2 */
	struct buf object; /* an encoded object */
	struct buf xnames;
	struct buf xvalues;
};

enum { IMPORT_DENTS_BYTES = 1 << 16 };

/* --- begin and end (import_dir.c) ----------------------------------------- */

/* Fills what does not depend on the source; store, options, notes and diag are
 * set already. */
_must_check_ int import_init(struct importer *imp);
void import_fini(struct importer *imp);
/* Stores the snapshot of a root whose tree is stored. */
_must_check_ int import_put_snapshot(struct importer *imp,
				     const struct tree_entry *root,
				     const struct oid *links,
				     struct oid *ret_id);
/* Makes it visible, with its record. */
_must_check_ int import_commit(struct importer *imp, const char *source,
			       const char *ref);

/* --- messages (import_report.c) ---------------------------------------- */

/* Appends "/name" to the path; the returned length undoes it. */
size_t import_path_push(struct importer *imp, const char *name);
void import_path_pop(struct importer *imp, size_t len);
/* The path for messages; never NULL. */
const char *import_path(struct importer *imp);
/* Adds "PATH: why" and returns err. */
int import_fail(struct importer *imp, int err);
/* Notes an unreadable file: left out, or collected until IMPORT_NAMED are. */
_must_check_ int import_unreadable(struct importer *imp, int err);
/* Decides what an error on the file at hand means: gone, unreadable, or the
 * end. Outcomes pass through. */
_must_check_ int import_settle(struct importer *imp, int r);
/* batch_put; its failure is never taken for the file's. */
_must_check_ int import_put(struct importer *imp, enum oid_kind kind,
			    const void *data, size_t len, struct oid *ret_id);
void import_left_out(struct importer *imp, struct import_left *left);
/* Writes the notes about all that was left out. */
void import_report(struct importer *imp);
void import_progress(struct importer *imp);

/* --- globs (import_glob.c) --------------------------------------------- */

_must_check_ int import_globs_init(struct importer *imp);
void import_globs_fini(struct importer *imp);
/* Says whether the current path, whose last component is name, is excluded. */
bool import_excluded(struct importer *imp, const char *name, bool is_dir);
/* Whether a name is one of those that are to be taken at the root; the path
 * ends in it. */
bool import_is_wanted(const struct importer *imp, const char *name);

/* --- names of a directory (import_list.c) ------------------------------ */

struct import_name {
	const char *name;
	unsigned char type; /* DT_* */
};

struct import_list {
	struct buf bytes;
	struct import_name *names; /* sorted by bytes, each once */
	size_t count;
};

#define _cleanup_import_list_ _cleanup_(import_list_fini)

void import_list_fini(struct import_list *l);
/* Lists until nothing changes meanwhile; st is the directory's last state. */
_must_check_ int import_list(struct importer *imp, int fd, struct stat *ret_st,
			     struct import_list *ret_list);
/* Finds a name; NULL when it is not there. */
const struct import_name *import_list_find(const struct import_list *l,
					   const char *name);

/* --- opening (import_open.c) ------------------------------------------- */

/* openat with O_NOFOLLOW, O_CLOEXEC and, where allowed, O_NOATIME. Raises the
 * limit on descriptors when it must. */
_must_check_ int import_openat(struct importer *imp, int dirfd,
			       const char *name, int flags);
/* Opens a subdirectory and says what it is: IMPORT_TAKEN with a descriptor, or
 * what else became of it. A foreign one is kept, but not entered. */
_must_check_ int import_open_dir(struct importer *imp, int dirfd,
				 const char *name, int *ret_fd,
				 bool *ret_foreign);

/* --- one entry (import_entry.c) ---------------------------------------- */

_must_check_ int import_entry(struct importer *imp, int dirfd, const char *name,
			      unsigned char type, struct import_node *ret_node);
/* Fills what a stat tells: mode, owner, mtime, rdev. */
void import_attributes(const struct stat *st, struct tree_entry *e);

/* --- content (import_file.c, import_xattr.c) --------------------------- */

/* Reads an open regular file until it holds still; st is its state before, and
 * becomes the state that the content belongs to. */
_must_check_ int import_file(struct importer *imp, int fd, struct stat *st,
			     struct tree_entry *e);
/* Reads the extended attributes of fd, or of an O_PATH descriptor. */
_must_check_ int import_xattrs(struct importer *imp, int fd, dev_t dev,
			       bool is_path, struct oid *ret_id);

/* --- what the last import saw (import_scan.c) --------------------------- */

/* What must be so for a file to be remembered once it was read. */
enum import_trust {
	IMPORT_TRUST_NONE,	/* it is not */
	IMPORT_TRUST_UNWRITTEN, /* nobody has it open for writing */
	IMPORT_TRUST_FULL,
};

/* Reads what is remembered of the source; called before the first put. */
_must_check_ int import_scan_begin(struct importer *imp, int root_fd,
				   const char *path);
void import_scan_fini(struct import_scan *s);
/* Says whether anything is remembered. */
bool import_scan_known(const struct importer *imp);
/* Finds a file that has not changed, and whose content is in the store; fills
 * size, content and xattrs then. */
bool import_scan_find(struct importer *imp, const struct stat *st,
		      struct tree_entry *e);
enum import_trust import_scan_trust(const struct importer *imp,
				    const struct stat *st);
/* Remembers a file that was read. */
void import_scan_note(struct importer *imp, const struct stat *st,
		      const struct tree_entry *e);
/* Leaves it all to the next import; after the commit. */
void import_scan_save(struct importer *imp);
/* The name of the source's scan, and the epoch; NULL: nothing is remembered. */
const char *import_scan_name(const struct importer *imp, uint64_t *ret_epoch);

/* --- adapted trees (import_memo.c) --------------------------------------- */

/* Finds the tree that came of key at the last import. */
bool import_memo_get(struct importer *imp, const struct oid *key,
		     struct oid *ret_made);
void import_memo_set(struct importer *imp, const struct oid *key,
		     const struct oid *made);
/* Leaves it to the next import; after the commit. */
void import_memo_save(struct importer *imp);

/* --- hard links (import_links.c) --------------------------------------- */

/* Finds the group of a file; NULL when it is new (or its number re-used). The
 * file is name in the directory fd, or fd itself with the name "". */
struct import_group *import_group_find(struct importer *imp, int fd,
				       const char *name, const struct stat *st);
/* Remembers a file with several names. */
_must_check_ int import_group_add(struct importer *imp, int fd,
				  const char *name, const struct stat *st,
				  const struct tree_entry *e,
				  struct import_group **ret_group);
/* Makes node one of the group's names. */
_must_check_ int import_group_join(struct importer *imp, struct import_group *g,
				   struct import_node *node);
/* Moves a node's members: it got its place in the directory above. */
void import_links_shift(struct importer *imp, const struct import_node *node,
			uint64_t start);
/* Brings a node's members to the end of the array, without dropped ones. */
_must_check_ int import_links_move(struct importer *imp,
				   struct import_node *node);
/* Forgets a node's members: it is read anew or left out. */
void import_links_drop(struct importer *imp, const struct import_node *node);
/* The position whose number the one at position has, and whether it is one of
 * several names; after import_links_put. */
uint64_t import_links_first(const struct importer *imp, uint64_t position);
bool import_links_shared(const struct importer *imp, uint64_t position);
/* Stores the table; null when no file has several names. */
_must_check_ int import_links_put(struct importer *imp, struct oid *ret_id);
void import_links_fini(struct importer *imp);

/* --- directories (import_walk.c) --------------------------------------- */

/* Takes the open directory fd, whose name is the last of the path. The fields
 * of a directory are filled in; links are the caller's to note. */
_must_check_ int import_walk(struct importer *imp, int fd,
			     struct tree_entry *e);
/* Adds a node to the tree being built. */
_must_check_ int import_tree_add(struct importer *imp, struct tree_builder *b,
				 const struct import_node *node);
/* Stores the tree and fills the directory's entry from it and from st; its
 * extended attributes are the caller's. */
_must_check_ int import_tree_put(struct importer *imp, struct tree_builder *b,
				 const struct stat *st, struct tree_entry *e);

/* --- entries in any order (import_set.c) ------------------------------- */

struct import_item {
	struct hnode node;
	struct import_node n; /* owns name and target */
	struct stat st;	      /* for the caller's use */
};

struct import_set {
	struct hmap items;
};

void import_set_fini(struct import_set *s);
struct import_item *import_set_find(const struct import_set *s,
				    const char *name);
/* Adds or replaces a name. */
_must_check_ int import_set_put(struct importer *imp, struct import_set *s,
				const char *name,
				const struct import_node *node);
void import_set_drop(struct importer *imp, struct import_set *s,
		     struct import_item *item);
/* Takes one name into the set; one that is not there leaves the set too. */
_must_check_ int import_set_entry(struct importer *imp, struct import_set *s,
				  int dirfd, const struct import_name *name);
/* Stores the set as a tree, like import_tree_put. */
_must_check_ int import_set_put_tree(struct importer *imp, struct import_set *s,
				     const struct stat *st,
				     struct tree_entry *e);

/* --- stored trees (import_graft.c) --------------------------------------- */

enum { IMPORT_LINE_BYTES = 64 << 10 }; /* of files that hold a path */

static inline void import_tree_fini(struct import_tree *t)
{
	buf_fini(&t->bytes);
}
_must_check_ int import_tree_get(struct importer *imp, const struct oid *id,
				 struct import_tree *ret_tree);

/* Reads the content of a stored file, piece by piece or whole (-EFBIG). */
_must_check_ int import_content(struct importer *imp,
				const struct tree_entry *e, content_bytes_fn fn,
				void *ctx);
_must_check_ int import_content_get(struct importer *imp,
				    const struct tree_entry *e, size_t max,
				    struct buf *out);
/* Stores bytes as the content of e. */
_must_check_ int import_content_put(struct importer *imp, const void *data,
				    size_t len, struct tree_entry *e);
/* Finds a path below the tree root; start becomes the position from there. The
 * entry lives as long as tree. -ENOENT. */
_must_check_ int import_graft_find(struct importer *imp, const struct oid *root,
				   const char *path, struct import_tree *tree,
				   struct tree_entry *ret_entry);
/* Gives the file at a path other content, size and mtime; root changes. */
_must_check_ int import_graft(struct importer *imp, struct oid *root,
			      const char *path, const struct tree_entry *file);

/* --- git (import_git.c, import_gitodb.c, import_gitconfig.c, ...) --------- */

/* Says whether a directory with these names is a repository of git. */
bool import_is_gitdir(const struct import_list *l);
/* Says whether a file below .git is a lock or half-written. */
bool import_is_git_lock(const char *name, bool is_dir);
/* Takes the entries of a repository in git's order; stores the tree. */
_must_check_ int import_gitdir(struct importer *imp,
			       const struct import_gitdir *where,
			       const struct import_list *list,
			       const struct stat *st, struct tree_entry *e);
/* Takes dirfd's "objects" so that no object can slip through, and those that
 * it borrows. IMPORT_RETYPED: it is no directory. */
_must_check_ int import_gitodb(struct importer *imp, int dirfd,
			       struct import_node *ret_node);
/* Takes a file or symlink ".git" as the directory that it leads to.
 * IMPORT_RETYPED: it stays what it is, with other text where there is some. */
_must_check_ int import_gitfile(struct importer *imp, int dirfd,
				const char *name, struct import_node *node,
				struct buf *ret_text);
/* Makes the settings of a repository fit, and notes what it is; its index will
 * be adapted. */
_must_check_ int import_gitconfig(struct importer *imp,
				  const struct import_gitdir *where,
				  struct import_set *set);
/* Notes the branch and commit of the root's repository. */
_must_check_ int import_githead(struct importer *imp,
				const struct import_gitdir *where,
				const struct import_set *set);
/* Adapts all indexes; the root's tree becomes another one. */
_must_check_ int import_indexes(struct importer *imp, int root_fd,
				struct oid *root);
/* The path of an open directory; the caller frees it. */
char *import_real(int fd);

#endif
