/* SPDX-License-Identifier: MIT */
/*
 * db_kind.c - which directories are databases, and what runs them.
 *
 * How: a kind is known by a file in its directory; PostgreSQL, the only one, by
 * PG_VERSION beside `global` (the databases in a cluster have PG_VERSION, too).
 * Everything is opened below the mount without following a link: an
 * environment may have links to anywhere. Without a name the upper levels of
 * the tree are searched, leaving out what is huge and has none.
 */
#include "cli/db.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "base/name.h"
#include "cli/number.h"

enum { DEPTH_MAX = 5, FOLDERS_MAX = 5000, VERSION_MAX = 64 };

static bool is_cluster(int dir)
{
	struct stat st;

	return fstatat(dir, "PG_VERSION", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) &&
	       fstatat(dir, "global", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* --- which directory ----------------------------------------------------- */

struct hunt {
	struct buf found; /* paths, each ending in NUL */
	size_t count, folders;
};

static void hunt(struct hunt *h, int dir, const char *path, int depth)
{
	static const char *const skipped[] = {
		".", "..", ".git", "node_modules", "target", ".venv", "venv"};
	const struct dirent *e;
	DIR *names;

	if (h->folders++ >= FOLDERS_MAX)
		return;
	if (is_cluster(dir)) {
		buf_put(&h->found, path, strlen(path) + 1);
		h->count++;
		return;
	}
	if (depth >= DEPTH_MAX || io_open_names(dir, ".", 0, &names) < 0)
		return;
	while ((e = readdir(names))) {
		char below[PATH_MAX];
		bool skip = e->d_type != DT_DIR && e->d_type != DT_UNKNOWN;
		int fd;

		for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
			skip |= !strcmp(e->d_name, skipped[i]);
		if (skip ||
		    snprintf(below, sizeof below, "%s%s%s", path,
			     *path ? "/" : "", e->d_name) >= (int)sizeof below)
			continue;
		fd = openat(dir, e->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		hunt(h, fd, below, depth + 1);
		(void)close(fd);
	}
	(void)closedir(names);
}

static int search(struct db *d)
{
	struct hunt h = {0};
	_cleanup_buf_ struct buf list = {0};
	int code = CODE_DONE;

	hunt(&h, d->top, "", 0);
	if (buf_error(&h.found))
		code = call_fail_err(d->c, -ENOMEM, NULL, d->env.name);
	else if (!h.count)
		code = call_fail(d->c, CODE_FAILED,
				 "%s: no database directory found; name it: "
				 "DIR, relative to the environment's root",
				 d->env.name);
	else if (h.count == 1)
		(void)snprintf(d->dir, sizeof d->dir, "%s",
			       (char *)h.found.data);
	for (size_t at = 0; h.count > 1 && at < h.found.len;) {
		const char *path = (char *)h.found.data + at;

		buf_printf(&list, "%s%s", at ? ", " : "", path);
		at += strlen(path) + 1;
	}
	if (h.count > 1)
		code = call_fail(d->c, CODE_USAGE,
				 "%s: several databases; name one: %s",
				 d->env.name, buf_str(&list));
	buf_fini(&h.found);
	return code;
}

static int take_arg(struct db *d, const char *arg)
{
	const char *rest = arg;
	size_t n;

	if (*arg == '/') {
		rest = name_below(arg, d->env.path);
		if (!rest && d->env.source[0] && d->env.source[1])
			rest = name_below(arg, d->env.source);
	}
	if (!rest)
		return call_fail(d->c, CODE_USAGE, "%s: not in the environment",
				 arg);
	while (*rest == '/' || !strncmp(rest, "./", 2))
		rest += *rest == '/' ? 1 : 2;
	n = strlen(rest);
	while (n && rest[n - 1] == '/')
		n--;
	if (n >= sizeof d->dir || memchr(rest, '\n', n))
		return call_fail(d->c, CODE_USAGE, "%s: not a usable name",
				 arg);
	(void)snprintf(d->dir, sizeof d->dir, "%.*s", (int)n, rest);
	return CODE_DONE;
}

int db_find_dir(struct db *d, const char *arg)
{
	int code = CODE_DONE;

	if (arg)
		code = take_arg(d, arg);
	else if (d->has_record)
		(void)snprintf(d->dir, sizeof d->dir, "%s", d->record.dir);
	else
		code = search(d);
	if (code)
		return code;
	d->data = io_open_beneath(d->top, *d->dir ? d->dir : ".",
				  O_RDONLY | O_DIRECTORY);
	if (d->data == -ELOOP)
		return call_fail(d->c, CODE_FAILED,
				 "%s: is a symbolic link, or below one",
				 d->dir);
	if (d->data < 0)
		return call_fail(d->c, CODE_FAILED, "%s: %s", d->dir,
				 err_text(d->data));
	if (faccessat(d->data, "PG_VERSION", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return call_fail(d->c, CODE_FAILED,
				 "%s: not a database directory: it has no "
				 "PG_VERSION",
				 d->dir);
	if (!is_cluster(d->data) || faccessat(d->data, "global/pg_control",
					      F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return call_fail(d->c, CODE_FAILED,
				 "%s: damaged: it has no global/pg_control",
				 d->dir);
	return CODE_DONE;
}

/* --- which programs ------------------------------------------------------ */

static bool has_server(const char *bin)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof path, "%s/pg_ctl", bin);
	if (access(path, X_OK) < 0)
		return false;
	(void)snprintf(path, sizeof path, "%s/postgres", bin);
	return access(path, X_OK) == 0;
}

/* A program's folder tells its version only when it is asked. */
static bool is_version(const char *bin, unsigned version)
{
	char path[PATH_MAX + 16], text[128] = "";
	const char *at;
	int p[2];
	pid_t pid;

	(void)snprintf(path, sizeof path, "%s/postgres", bin);
	if (pipe2(p, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		(void)dup2(p[1], STDOUT_FILENO);
		(void)execl(path, "postgres", "--version", (char *)NULL);
		_exit(1);
	}
	(void)close(p[1]);
	if (pid > 0) {
		(void)!io_read(p[0], text, sizeof text - 1);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	(void)close(p[0]);
	/* "postgres (PostgreSQL) 15.8 (Debian ...)" */
	at = strstr(text, "PostgreSQL) ");
	return at && strtoul(at + 12, NULL, 10) == version;
}

static bool find_bin(struct db *d)
{
	static const char *const usual[] = {
		"/usr/lib/postgresql/%u/bin", "/usr/pgsql-%u/bin",
		"/usr/lib/postgresql%u/bin", "/opt/postgresql/%u/bin"};
	const char *path = getenv("PATH");
	_cleanup_free_ char *copy = strdup(path ? path : "/usr/bin");
	char *save = NULL, *dir;

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(d->bin, sizeof d->bin, usual[i], d->version);
#pragma GCC diagnostic pop
		if (has_server(d->bin))
			return true;
	}
	for (dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
	     dir = strtok_r(NULL, ":", &save)) {
		(void)snprintf(d->bin, sizeof d->bin, "%s", dir);
		if (*dir == '/' && has_server(dir) &&
		    is_version(dir, d->version))
			return true;
	}
	return false;
}

int db_find_programs(struct db *d)
{
	_cleanup_buf_ struct buf text = {0};
	uint64_t version;
	int r = io_read_file(d->data, "PG_VERSION", VERSION_MAX, &text);

	if (r < 0 || !buf_str(&text))
		return call_fail(d->c, CODE_FAILED, "%s/PG_VERSION: %s", d->dir,
				 err_text(r));
	text.data[strcspn((char *)text.data, "\n")] = 0;
	if (number_read((char *)text.data, 1000, &version) || version < 10)
		return call_fail(d->c, CODE_FAILED,
				 "%s/PG_VERSION: not a version that is known: "
				 "\"%s\"",
				 d->dir, (char *)text.data);
	d->version = (unsigned)version;
	if (find_bin(d))
		return CODE_DONE;
	return call_fail(d->c, CODE_FAILED,
			 "%s: needs PostgreSQL %u: install the package "
			 "postgresql-%u",
			 d->dir, d->version, d->version);
}

/* --- which user ---------------------------------------------------------- */

/* Gives a tree to the user; links themselves, not where they lead. */
static int give_tree(const struct db *d, int dir)
{
	const struct dirent *e;
	DIR *names;
	int r = io_open_names(dir, ".", 0, &names);

	if (r < 0)
		return r;
	while (!r && (e = readdir(names))) {
		int fd;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (fchownat(dir, e->d_name, d->uid, d->gid,
			     AT_SYMLINK_NOFOLLOW) < 0)
			r = -errno;
		if (r || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		fd = openat(dir, e->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			r = give_tree(d, fd);
			(void)close(fd);
		}
	}
	(void)closedir(names);
	return r ? r : fchown(dir, d->uid, d->gid) < 0 ? -errno : 0;
}

/* PostgreSQL refuses to run as root: its data goes to its own user, or nobody's
 * where there is none. */
static int choose_user(struct db *d)
{
	static const char *const names[] = {"postgres", "nobody"};
	const struct passwd *pw = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !pw; i++)
		pw = getpwnam(names[i]);
	d->uid = pw ? pw->pw_uid : 65534;
	d->gid = pw ? pw->pw_gid : 65534;
	r = give_tree(d, d->data);
	return r ? call_fail_err(d->c, r, NULL, d->dir) : CODE_DONE;
}

int db_find_user(struct db *d)
{
	struct stat st;
	int code = CODE_DONE;

	if (fstat(d->data, &st) < 0)
		return call_fail_err(d->c, -errno, NULL, d->dir);
	d->uid = st.st_uid;
	d->gid = st.st_gid;
	if (geteuid() != 0 && st.st_uid != geteuid())
		return call_fail(d->c, CODE_FAILED,
				 "%s: belongs to another user, who alone (or "
				 "root) can start it",
				 d->dir);
	if (st.st_uid == 0)
		code = choose_user(d);
	/* It refuses data that others can get at; git and archives do not
	 * keep that. */
	if (!code && (st.st_mode & 027) &&
	    fchmod(d->data, st.st_mode & 0750) < 0)
		code = call_fail_err(d->c, -errno, NULL, d->dir);
	return code;
}
