/* SPDX-License-Identifier: MIT */
/*
 * import_list.c - the names of one directory, sorted.
 *
 * getdents64 is called directly into one shared buffer: opendir would cost an
 * allocation and two more calls for each of many small directories.
 *
 * While a directory is read, a file that is replaced by rename may move to a
 * place that was passed already (btrfs, tmpfs): it would be missing although
 * it was there all the time. So the directory's times are compared before and
 * after, and while they differ the names are listed again; the union counts,
 * a name that is gone by then is noticed when it is opened. A name may come
 * twice for the same reason.
 */
#include "exchange/import_int.h"

#include <dirent.h>
#include <string.h>

#include "base/err.h"

void import_list_fini(struct import_list *l)
{
	buf_fini(&l->bytes);
	free(l->names);
	l->names = NULL;
	l->count = 0;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Each name is its type, its bytes and a NUL. */
static int list_once(struct importer *imp, int fd, struct import_list *l)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		ssize_t n = getdents64(fd, imp->dents, IMPORT_DENTS_BYTES);

		if (n < 0 && errno == ENOENT)
			return 0; /* removed meanwhile: nothing in it */
		if (n < 0)
			return -errno;
		if (n == 0)
			return buf_error(&l->bytes);
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d =
				(const void *)(imp->dents + at);

			at += d->d_reclen;
			if (is_dots(d->d_name))
				continue;
			buf_put_u8(&l->bytes, d->d_type);
			buf_put(&l->bytes, d->d_name, strlen(d->d_name) + 1);
			l->count++;
		}
	}
}

static int name_compare(const void *a, const void *b)
{
	const struct import_name *x = a;
	const struct import_name *y = b;

	return strcmp(x->name, y->name); /* as unsigned bytes */
}

static int list_sort(struct import_list *l)
{
	const char *at = (const char *)l->bytes.data;
	size_t kept = 0;

	if (!l->count)
		return 0;
	l->names = malloc(l->count * sizeof *l->names);
	if (!l->names)
		return -ENOMEM;
	for (size_t i = 0; i < l->count; i++) {
		l->names[i].type = (unsigned char)*at++;
		l->names[i].name = at;
		at += strlen(at) + 1;
	}
	qsort(l->names, l->count, sizeof *l->names, name_compare);
	for (size_t i = 0; i < l->count; i++) {
		/* The same name with two types: let a stat decide. */
		if (kept && !strcmp(l->names[kept - 1].name, l->names[i].name))
			l->names[kept - 1].type = DT_UNKNOWN;
		else
			l->names[kept++] = l->names[i];
	}
	l->count = kept;
	return 0;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int import_list(struct importer *imp, int fd, struct stat *ret_st,
		struct import_list *ret_list)
{
	_cleanup_import_list_ struct import_list l = {.count = 0};
	struct stat before, after;
	int r;

	if (fstat(fd, &after) < 0)
		return -errno;
	for (int i = 0; i < IMPORT_TRIES; i++) {
		before = after;
		r = list_once(imp, fd, &l);
		if (r < 0)
			return r;
		if (fstat(fd, &after) < 0)
			return -errno;
		if (same_time(&before.st_mtim, &after.st_mtim) &&
		    same_time(&before.st_ctim, &after.st_ctim))
			break;
	}
	r = list_sort(&l);
	if (r < 0)
		return r;
	*ret_st = after;
	*ret_list = l;
	l = (struct import_list){.count = 0};
	return 0;
}

const struct import_name *import_list_find(const struct import_list *l,
					   const char *name)
{
	struct import_name key = {.name = name};

	if (!l->count)
		return NULL;
	return bsearch(&key, l->names, l->count, sizeof *l->names,
		       name_compare);
}
