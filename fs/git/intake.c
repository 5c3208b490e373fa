/* SPDX-License-Identifier: MIT */
/*
 * intake.c - a file of the work tree becomes a blob, as `git add` would make
 * it.
 *
 * What is not converted goes from the file into the pack in pieces, however big
 * it is. Line ends and keywords are converted by libgit2, when there is a file
 * of attributes anywhere or core.autocrlf is set; else nothing is asked. A
 * filter that is a program is run by git (convert.c).
 *
 * The file may change while it is read. Its length is told first, so when that
 * was another at the end it is read again.
 */
#include "git/tip_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "git/convert_int.h"

#include <git2/sys/filter.h>

enum { SMALL_BYTES = 1 << 20, PIECE_BYTES = 256 << 10, TRIES = 5 };
#define CONVERT_MAX_BYTES (UINT64_C(1) << 30)

/* --- is anything converted ------------------------------------------------ */

static bool names_attributes(const char *path, size_t len)
{
	static const char name[] = ".gitattributes";
	const size_t n = sizeof name - 1;

	return len >= n && !memcmp(path + len - n, name, n) &&
	       (len == n || path[len - n - 1] == '/');
}

static bool has_attributes_outside(struct gittip *t)
{
	_cleanup_free_ char *path = NULL;
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	struct stat st;

	if (gitview_stat(&t->view, ".git/info/attributes", &st) == 0 ||
	    access("/etc/gitattributes", F_OK) == 0)
		return true;
	if (!home && !xdg)
		return false;
	if (asprintf(&path, "%s%s/git/attributes", xdg && *xdg ? xdg : home,
		     xdg && *xdg ? "" : "/.config") < 0)
		path = NULL;
	return !path || access(path, F_OK) == 0;
}

static bool config_converts(struct gittip *t)
{
	git_config *config = NULL;
	const char *value = NULL;
	bool converts = false;

	if (git_repository_config_snapshot(&config, t->odb.view) < 0)
		return true;
	if (git_config_get_string(&value, config, "core.autocrlf") == 0)
		converts = strcasecmp(value, "false") != 0;
	if (git_config_get_string(&value, config, "core.attributesfile") == 0)
		converts = true;
	git_config_free(config);
	return converts;
}

void gittip_look_for_attributes(struct gittip *t)
{
	const struct gitchanges *c = t->work->changes;

	t->attributes = has_attributes_outside(t) || config_converts(t);
	for (size_t i = 0; i < t->index.count && !t->attributes; i++)
		t->attributes = names_attributes(
			gitentry_path(&t->index, &t->index.list[i]),
			t->index.list[i].path_len);
	for (size_t i = 0; i < c->count && !t->attributes; i++)
		t->attributes = names_attributes(gitchange_path(c, &c->rows[i]),
						 c->rows[i].path_len);
}

/* --- bytes as they are ---------------------------------------------------- */

static int take_small(struct gittip *t, int fd, size_t size, git_oid *ret_id)
{
	_cleanup_buf_ struct buf bytes = {0};
	ssize_t n;
	int r = buf_resize(&bytes, size + 1);

	if (r < 0)
		return r;
	n = io_pread(fd, bytes.data, size + 1, 0);
	if (n < 0)
		return (int)n;
	if ((size_t)n != size)
		return -EAGAIN;
	return gitodb_put(&t->odb, GITPACK_BLOB, bytes.data, size, ret_id);
}

static int take_pieces(struct gittip *t, int fd, uint8_t *piece,
		       git_oid *ret_id)
{
	uint64_t at = 0;
	int r = 0;

	while (r == 0) {
		const ssize_t n = io_pread(fd, piece, PIECE_BYTES, at);

		if (n < 0)
			return (int)n;
		if (!n)
			return gitpack_blob_end(t->odb.pack, ret_id->id);
		r = gitpack_blob_add(t->odb.pack, piece, (size_t)n);
		at += (uint64_t)n;
	}
	return r;
}

static int take_big(struct gittip *t, int fd, uint64_t size, git_oid *ret_id)
{
	_cleanup_free_ uint8_t *piece = malloc(PIECE_BYTES);
	int r, dropped = 0;

	if (!piece)
		return -ENOMEM;
	r = gitpack_blob_begin(t->odb.pack, size);
	if (r < 0)
		return r;
	r = take_pieces(t, fd, piece, ret_id);
	if (r == -EAGAIN) {
		dropped = gitpack_blob_drop(t->odb.pack);
		return dropped < 0 ? dropped : r;
	}
	if (r == 0 && git_odb_exists_ext(t->odb.there, ret_id,
					 GIT_ODB_LOOKUP_NO_REFRESH)) {
		r = gitpack_blob_drop(t->odb.pack);
		(void)gitodb_has(&t->odb, ret_id);
	}
	return r;
}

/* --- converted ------------------------------------------------------------ */

/* Whether a program has to convert it. */
static bool has_program(struct gittip *t, const char *path)
{
	static const char *const names[] = {"filter", "working-tree-encoding"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = NULL;

		if (git_attr_get(&value, t->odb.view, 0, path, names[i]) == 0 &&
		    git_attr_value(value) == GIT_ATTR_VALUE_STRING)
			return true;
	}
	return false;
}

/* Converts by libgit2; 1: there is nothing to convert. */
static int convert(struct gittip *t, const char *path, int fd, uint64_t size,
		   git_oid *ret_id)
{
	_cleanup_buf_ struct buf bytes = {0};
	git_filter_list *filters = NULL;
	git_buf made = {0};
	ssize_t n = 0;
	int r = git_filter_list_load(&filters, t->odb.view, NULL, path,
				     GIT_FILTER_TO_ODB, GIT_FILTER_DEFAULT);

	if (r < 0)
		return gitlib_fail(t->odb.diag, r, path);
	if (!filters)
		return 1;
	r = buf_resize(&bytes, (size_t)size + 1);
	if (r == 0)
		n = io_pread(fd, bytes.data, (size_t)size + 1, 0);
	if (r == 0 && n < 0)
		r = (int)n;
	if (r == 0 && (uint64_t)n != size)
		r = -EAGAIN;
	if (r == 0 &&
	    git_filter_list_apply_to_buffer(&made, filters, (char *)bytes.data,
					    (size_t)size) < 0)
		r = gitlib_fail(t->odb.diag, -1, path);
	git_filter_list_free(filters);
	if (r == 0)
		r = gitodb_put(&t->odb, GITPACK_BLOB, made.ptr, made.size,
			       ret_id);
	git_buf_dispose(&made);
	return r;
}

static int take_file(struct gittip *t, const char *path, git_oid *ret_id)
{
	_cleanup_close_ int fd = gitview_open_file(&t->view, path);
	struct stat st;
	uint64_t size;
	int r = 1;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	size = (uint64_t)st.st_size;
	if (t->attributes && has_program(t, path)) {
		_cleanup_buf_ struct buf made = {0};

		r = gitconvert(t->odb.origin, t->work->view, path, fd, &made);
		if (r < 0)
			return diag_fail(t->odb.diag, r,
					 "%s: git cannot convert it: %s", path,
					 r == -ENOENT ? "git is not installed"
						      : "its filter failed");
		return gitodb_put(&t->odb, GITPACK_BLOB, made.data, made.len,
				  ret_id);
	}
	if (t->attributes && size <= CONVERT_MAX_BYTES)
		r = convert(t, path, fd, size, ret_id);
	if (r <= 0)
		return r;
	return size <= SMALL_BYTES ? take_small(t, fd, (size_t)size, ret_id)
				   : take_big(t, fd, size, ret_id);
}

int gittip_intake(struct gittip *t, const char *path, uint32_t mode,
		  git_oid *ret_id)
{
	_cleanup_buf_ struct buf target = {0};
	int r = -EAGAIN;

	if (S_ISLNK(mode)) {
		r = gitview_read_link(&t->view, path, &target);
		return r < 0 ? r
			     : gitodb_put(&t->odb, GITPACK_BLOB, target.data,
					  target.len, ret_id);
	}
	for (int i = 0; i < TRIES && r == -EAGAIN; i++)
		r = take_file(t, path, ret_id);
	if (r == -EAGAIN)
		return diag_fail(t->odb.diag, -EBUSY,
				 "%s: it keeps changing while it is read",
				 path);
	if (r < 0 && r != -ENOENT && !diag_line(t->odb.diag, 0))
		diag_add(t->odb.diag, "%s: %s", path, err_text(r));
	return r;
}
