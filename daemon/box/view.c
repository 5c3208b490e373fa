/* SPDX-License-Identifier: MIT */
/*
 * view.c - the list of mounts that makes a sandbox's file system.
 *
 * How: whoever knows a reason for a mount adds it, in the order of importance:
 * of two at one path the later one stays. Settling sorts them so that parents
 * come before children (bubblewrap mounts in the order of its options) and
 * drops hiding what does not show anyway: an origin below the private HOME
 * would otherwise leave an empty folder there.
 *
 * Paths are real ones: bubblewrap follows no symlink on the way to a mount
 * point as the sandbox would.
 */
#include "box/box_int.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/name.h"

void view_fini(struct view *v)
{
	for (size_t i = 0; i < v->count; i++) {
		if (v->steps[i].kind == VIEW_TEXT)
			(void)close(v->steps[i].fd);
		free(v->steps[i].path);
		free(v->steps[i].from);
	}
	free(v->steps);
	*v = (struct view){0};
}

static bool grow(struct view *v)
{
	size_t room = v->room ? v->room * 2 : 64;
	struct view_step *steps;

	if (v->count < v->room)
		return true;
	steps = reallocarray(v->steps, room, sizeof *steps);
	if (!steps)
		return false;
	v->steps = steps;
	v->room = room;
	return true;
}

struct view_step *view_add(struct view *v, enum view_kind kind,
			   const char *path, const char *from)
{
	static struct view_step none; /* what is set there nobody reads */
	struct view_step s = {.kind = kind, .fd = -1, .order = v->count};

	s.path = strdup(path);
	s.from = strdup(from ? from : path);
	if (!s.path || !s.from || !grow(v)) {
		free(s.path);
		free(s.from);
		v->failed = true;
		return &none;
	}
	v->steps[v->count] = s;
	return &v->steps[v->count++];
}

void view_hide(struct view *v, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct stat st;

	/* Who hid "/" or the programs would have nothing left. */
	if (!real || lstat(real, &st) < 0 || name_below("/usr/bin", real))
		return;
	view_add(v, VIEW_EMPTY, real, NULL)->is_file = !S_ISDIR(st.st_mode);
}

static int compare_steps(const void *a, const void *b)
{
	const struct view_step *x = a, *y = b;
	int r = name_compare_paths(x->path, y->path);

	if (r)
		return r;
	return x->order < y->order ? -1 : 1;
}

/* Whether what lies below it is the host's. */
static bool shows_host(const struct view_step *s)
{
	if (s->kind == VIEW_RW)
		return !strcmp(s->path, s->from); /* no HOME, nor environment */
	return s->kind == VIEW_RO || s->kind == VIEW_PROC;
}

const struct view_step *view_above(const struct view *v, size_t count,
				   const char *path)
{
	while (count-- > 0) {
		const struct view_step *s = &v->steps[count];

		if (strlen(s->path) < strlen(path) && name_below(path, s->path))
			return s;
	}
	return NULL;
}

static void drop(struct view_step *s)
{
	free(s->path);
	free(s->from);
}

int view_settle(struct view *v)
{
	size_t n = 0;

	if (v->failed)
		return -ENOMEM;
	qsort(v->steps, v->count, sizeof *v->steps, compare_steps);
	for (size_t i = 0; i < v->count; i++) {
		struct view_step *s = &v->steps[i];
		const struct view_step *up;

		if (i + 1 < v->count && !strcmp(s->path, s[1].path)) {
			drop(s);
			continue;
		}
		up = view_above(v, n, s->path);
		if (s->kind == VIEW_EMPTY && !s->keep &&
		    !(up && shows_host(up))) {
			drop(s);
			continue;
		}
		v->steps[n++] = *s;
	}
	v->count = n;
	return 0;
}

static void option(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text) + 1);
}

static void option3(struct buf *b, const char *name, const char *from,
		    const char *path)
{
	option(b, name);
	option(b, from);
	option(b, path);
}

static void option_perms(struct buf *b, const char *mode, const char *name,
			 const char *path)
{
	option3(b, "--perms", mode, name);
	option(b, path);
}

static void option_text(struct buf *b, const struct view_step *s)
{
	option(b, "--ro-bind-data");
	buf_printf(b, "%d", s->fd);
	buf_put_u8(b, 0);
	option(b, s->path);
}

/* The folders on the way to a mount point, where they are not the host's:
 * bubblewrap would close them to other users. */
static void option_parents(struct buf *b, const struct view *v, size_t i)
{
	const char *path = v->steps[i].path;
	const struct view_step *up = view_above(v, i, path);
	const char *slash = path + (up ? strlen(up->path) : 0);

	/* In an environment that is the root they have been made. */
	if (up && (up->kind == VIEW_RO || !strcmp(up->path, "/")))
		return;
	while ((slash = strchr(slash + 1, '/'))) {
		_cleanup_free_ char *dir =
			strndup(path, (size_t)(slash - path));

		if (!dir)
			b->failed = true;
		else
			option_perms(b, "0755", "--dir", dir);
	}
}

void view_options(const struct view *v, struct buf *b)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct view_step *s = &v->steps[i];

		option_parents(b, v, i);
		switch (s->kind) {
		case VIEW_RO:
			option3(b, "--ro-bind", s->from, s->path);
			break;
		case VIEW_RW:
			option3(b, "--bind", s->from, s->path);
			break;
		case VIEW_EMPTY:
			if (s->is_file)
				option3(b, "--ro-bind", "/dev/null", s->path);
			else
				option_perms(b, "0755", "--tmpfs", s->path);
			break;
		case VIEW_TMP:
			option_perms(b, "1777", "--tmpfs", s->path);
			break;
		case VIEW_LINK:
			option3(b, "--symlink", s->from, s->path);
			break;
		case VIEW_PROC:
			option(b, "--proc");
			option(b, s->path);
			break;
		case VIEW_DEV:
			option(b, "--dev");
			option(b, s->path);
			break;
		case VIEW_TEXT:
			option_text(b, s);
			break;
		}
	}
}

int box_resolve(const char *path, char **ret_real, size_t *ret_exists)
{
	_cleanup_free_ char *copy = strdup(path), *real = NULL;
	_cleanup_buf_ struct buf out = {0};
	size_t end = strlen(path);

	if (!copy)
		return -ENOMEM;
	/* "/" exists, so this ends. */
	while (!(real = realpath(end ? copy : "/", NULL))) {
		if (errno == ENOMEM)
			return -ENOMEM;
		while (end && copy[end - 1] != '/')
			end--;
		while (end && copy[end - 1] == '/')
			end--;
		copy[end] = 0;
	}
	*ret_exists = strlen(real);
	buf_printf(&out, "%s%s", strcmp(real, "/") ? real : "", path + end);
	if (!out.len)
		buf_put_u8(&out, '/');
	if (!buf_str(&out))
		return -ENOMEM;
	if (out.len >= PATH_MAX)
		return -ENAMETOOLONG;
	*ret_real = (char *)TAKE_PTR(out.data);
	out.len = out.cap = 0;
	return 0;
}
