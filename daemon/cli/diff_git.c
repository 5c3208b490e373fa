/* SPDX-License-Identifier: MIT */
/*
 * diff_git.c - the changed paths in git's forms.
 *
 * git knows files and links: their content, whether they may be executed, and
 * their names. What else differs is counted by sorts and said in one line on
 * standard error, so that nobody takes a patch for the whole.
 *
 * Somebody may be writing while we read. A file that is not the same at its
 * second reading means that all is done again, a few times.
 */
#include "cli/diff_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "git/diff.h"

enum { TRIES = 3 };

enum left {
	LEFT_GIT,
	LEFT_NAMES,
	LEFT_DIRS,
	LEFT_DIR_ATTRS,
	LEFT_SPECIAL,
	LEFT_MODES,
	LEFT_OWNERS,
	LEFT_XATTRS,
	LEFT_BIG,
	LEFT_COUNT
};

static const char *const left_names[LEFT_COUNT][2] = {
	[LEFT_GIT] = {"path in .git", "paths in .git"},
	[LEFT_NAMES] = {"name that git refuses", "names that git refuses"},
	[LEFT_DIRS] = {"empty directory", "empty directories"},
	[LEFT_DIR_ATTRS] = {"directory's attributes",
			    "directories' attributes"},
	[LEFT_SPECIAL] = {"special file", "special files"},
	[LEFT_MODES] = {"mode", "modes"},
	[LEFT_OWNERS] = {"owner", "owners"},
	[LEFT_XATTRS] = {"file's extended attributes",
			 "files' extended attributes"},
	[LEFT_BIG] = {"big file's content", "big files' content"},
};

struct printer {
	struct diff_job *j;
	enum diff_form form;
	struct out *out;
	struct diff_stat stat;
	uint64_t left[LEFT_COUNT];
	uint64_t rows;
};

/* --- looking ------------------------------------------------------------- */

/* Whether a part of the path is ".git". */
static bool is_in_git(const char *path)
{
	for (const char *at = path; *at;) {
		const size_t n = strcspn(at, "/");

		if (n == 4 && !memcmp(at, ".git", 4))
			return true;
		at += n + (at[n] == '/');
	}
	return false;
}

static bool is_special(const struct side_node *n)
{
	return n->mode && !S_ISDIR(n->mode) && !gitdiff_mode(n->mode);
}

/* Of a directory; one that is not empty shows by what is in it. */
static int note_dir(struct printer *p, const char *path,
		    const struct side_node nodes[2])
{
	const struct side_node *old = &nodes[0], *now = &nodes[1];
	int r;

	if (!S_ISDIR(old->mode) || !S_ISDIR(now->mode)) {
		const int i = S_ISDIR(now->mode);

		r = side_is_empty(p->j->end[i].side, path);
		p->left[LEFT_DIRS] += r > 0;
		return r < 0 ? r : 0;
	}
	r = diff_xattrs(p->j, path, nodes);
	p->left[LEFT_DIR_ATTRS] += r > 0 || old->mode != now->mode ||
				   old->uid != now->uid || old->gid != now->gid;
	return r < 0 ? r : 0;
}

static int note_file(struct printer *p, const char *path,
		     const struct side_node nodes[2])
{
	const struct side_node *old = &nodes[0], *now = &nodes[1];
	const bool both = gitdiff_mode(old->mode) && gitdiff_mode(now->mode);
	const uint32_t special = S_ISUID | S_ISGID | S_ISVTX;
	int r;

	if (!now->mode)
		return 0;
	r = diff_xattrs(p->j, path, nodes);
	p->left[LEFT_XATTRS] += r > 0;
	if (both)
		p->left[LEFT_OWNERS] +=
			old->uid != now->uid || old->gid != now->gid;
	if (both && gitdiff_mode(old->mode) == gitdiff_mode(now->mode))
		p->left[LEFT_MODES] += old->mode != now->mode;
	else
		p->left[LEFT_MODES] +=
			(old->mode & special) != (now->mode & special);
	return r < 0 ? r : 0;
}

static bool is_same_special(const struct side_node *a,
			    const struct side_node *b)
{
	return a->mode == b->mode && a->rdev == b->rdev && a->uid == b->uid &&
	       a->gid == b->gid;
}

static int add_path(struct printer *p, struct gitdiff *d, const char *path)
{
	struct side_node nodes[2];
	struct gitdiff_file files[2] = {{0}, {0}};
	int r;

	if (is_in_git(path)) {
		p->left[LEFT_GIT]++;
		return 0;
	}
	r = diff_look(p->j, path, nodes);
	for (int i = 0; i < 2 && r == 0; i++)
		files[i] = (struct gitdiff_file){gitdiff_mode(nodes[i].mode),
						 nodes[i].size};
	if (r == 0 && (S_ISDIR(nodes[0].mode) || S_ISDIR(nodes[1].mode)))
		r = note_dir(p, path, nodes);
	if (r == 0 && (is_special(&nodes[0]) || is_special(&nodes[1])))
		p->left[LEFT_SPECIAL] += !is_same_special(&nodes[0], &nodes[1]);
	if (r < 0 || (!files[0].mode && !files[1].mode))
		return r;
	r = gitdiff_add(d, path, files);
	if (r == 1) {
		p->left[LEFT_NAMES]++;
		return 0;
	}
	return r < 0 ? r : note_file(p, path, nodes);
}

/* gitdiff reads by this; the size is checked there. */
static int read_side(void *ctx, enum gitdiff_side side, const char *path,
		     gitdiff_bytes_fn fn, void *fn_ctx)
{
	struct printer *p = ctx;
	struct side *s = p->j->end[side].side;
	struct side_node node;
	int r = side_look(s, path, &node);

	if (r == -ENOENT)
		r = -ESTALE;
	return r < 0 ? r : side_read(s, path, &node, fn, fn_ctx);
}

/* The same for big files. */
static int is_same(void *ctx, const char *old_path, const char *new_path)
{
	const struct printer *p = ctx;
	struct side_node old, now;
	struct side_file a = {p->j->end[DIFF_OLD].side, old_path, &old};
	struct side_file b = {p->j->end[DIFF_NEW].side, new_path, &now};
	int r = side_look(a.side, old_path, &old);

	if (r == 0)
		r = side_look(b.side, new_path, &now);
	if (r == -ENOENT)
		r = -ESTALE;
	return r < 0 ? r : side_is_same(&a, &b);
}

/* --- printing ------------------------------------------------------------ */

/* As cmd_diff.c has the columns. */
static void put_json(struct printer *p, const struct gitdiff_row *row)
{
	const bool renamed = row->status == 'R';
	const struct buf none = {0}, *patch = row->patch ? row->patch : &none;
	char status[8] = {row->status, '\0'};

	if (renamed)
		(void)snprintf(status, sizeof status, "R%03u", row->similarity);
	out_row(p->out, (struct out_cell[]){
				out_str(status),
				out_str(row->path),
				out_str(renamed ? row->old_path : NULL),
				out_num(false),
				out_num(row->content_differs),
				out_num(row->old_file.size),
				out_num(row->new_file.size),
				out_num(row->old_file.mode),
				out_num(row->new_file.mode),
				out_num(row->is_binary),
				out_num_if(!row->is_binary, row->insertions),
				out_num_if(!row->is_binary, row->deletions),
				out_bytes(patch->data, patch->len),
			});
}

static int print_row(void *ctx, const struct gitdiff_row *row)
{
	struct printer *p = ctx;

	p->rows++;
	p->left[LEFT_BIG] += row->is_big;
	if (p->out->json)
		put_json(p, row);
	else if (p->form == DIFF_STAT)
		return diff_stat_add(&p->stat, row);
	else
		out_raw(p->out, row->patch->data, row->patch->len);
	return 0;
}

static void say_left(const struct printer *p)
{
	_cleanup_buf_ struct buf text = {0};

	for (int i = 0; i < LEFT_COUNT; i++)
		if (p->left[i])
			buf_printf(&text, "%s%llu %s", text.len ? ", " : "",
				   (unsigned long long)p->left[i],
				   left_names[i][p->left[i] != 1]);
	if (text.len && buf_str(&text))
		(void)call_fail(p->j->c, 0, "left out: %s", buf_str(&text));
}

static int walk_once(struct printer *p, uint64_t max, struct diag *diag)
{
	const struct gitdiff_reader reader = {read_side, is_same, p};
	struct gitdiff *d = NULL;
	int r = gitdiff_new(&reader, max, diag, &d);

	for (size_t i = 0; r == 0 && i < p->j->paths.count; i++) {
		const char *path = p->j->paths.v[i];

		r = add_path(p, d, path);
		if (r < 0 && !diag_line(diag, 0))
			diag_add(diag, "%s: %s", *path ? path : ".",
				 err_text(r));
	}
	if (r == 0)
		r = gitdiff_walk(d, p->form == DIFF_PATCH, print_row, p);
	gitdiff_free(d);
	return r;
}

static void start_anew(struct printer *p)
{
	buf_clear(&p->out->text);
	diff_stat_fini(&p->stat);
	memset(p->left, 0, sizeof p->left);
	p->rows = 0;
}

int diff_git(struct diff_job *j, enum diff_form form, uint64_t max,
	     struct out *out, uint64_t *ret_count)
{
	struct printer p = {.j = j, .form = form, .out = out};
	int r = -ESTALE;

	for (int i = 0; i < TRIES && r == -ESTALE; i++) {
		_cleanup_diag_ struct diag diag = {0};

		start_anew(&p);
		r = walk_once(&p, max, &diag);
		if (r < 0 && (r != -ESTALE || i == TRIES - 1))
			(void)call_fail_err(j->c, r, &diag, "changes");
	}
	if (r == 0 && form == DIFF_STAT && !out->json)
		diff_stat_print(&p.stat, out);
	if (r == 0)
		say_left(&p);
	diff_stat_fini(&p.stat);
	*ret_count = p.rows;
	for (int i = 0; i < LEFT_COUNT; i++)
		*ret_count += p.left[i];
	if (r == -ESTALE)
		return CODE_BUSY;
	return r < 0 ? exit_code_of(r) : CODE_DONE;
}
