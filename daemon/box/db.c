/* SPDX-License-Identifier: MIT */
/*
 * db.c - the record of an environment's database server.
 *
 * How: `cowfs db` writes STORE/envs/NAME/box/db, lines of a word and a text,
 * when a server is ready. A process is named by its id and the time of its
 * start, so that a record that outlives its server names nobody else. Nothing
 * here knows how a server is started; that it stops cleanly on a signal of its
 * own is all that the end of a sandbox needs.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>

#include "base/io.h"
#include "base/proc.h"

enum { RECORD_MAX = 64 << 10, STOP_MS = 10000 };

#define RECORD "db"

bool box_db_runs(const struct box_db *db)
{
	struct proc_stat s;

	return db->pid > 0 && db->start && proc_stat(db->pid, &s) == 0 &&
	       s.start == db->start && s.state != 'Z' && s.state != 'X';
}

static void take_text(char *to, size_t room, const char *text)
{
	(void)snprintf(to, room, "%s", text);
}

static void take_line(struct box_db *db, const char *word, const char *text)
{
	const unsigned long long n = strtoull(text, NULL, 10);

	if (!strcmp(word, "dir"))
		take_text(db->dir, sizeof db->dir, text);
	else if (!strcmp(word, "mount"))
		take_text(db->mount, sizeof db->mount, text);
	else if (!strcmp(word, "role"))
		take_text(db->role, sizeof db->role, text);
	else if (!strcmp(word, "database"))
		take_text(db->database, sizeof db->database, text);
	else if (!strcmp(word, "port"))
		db->port = (unsigned)n;
	else if (!strcmp(word, "uid"))
		db->uid = (uid_t)n;
	else if (!strcmp(word, "gid"))
		db->gid = (gid_t)n;
	else if (!strcmp(word, "pid"))
		db->pid = (pid_t)n;
	else if (!strcmp(word, "start"))
		db->start = n;
}

static int read_record(int folder, struct box_db *ret_db)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;
	int r = io_read_file(folder, RECORD, RECORD_MAX, &text);

	if (r < 0)
		return r;
	if (!buf_str(&text))
		return -ENOMEM;
	*ret_db = (struct box_db){0};
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *value = strchr(line, ' ');

		if (!value)
			continue;
		*value++ = 0;
		take_line(ret_db, line, value);
	}
	return 0;
}

int box_db_read(const char *store, const char *env, struct box_db *ret_db)
{
	_cleanup_close_ int folder = box_env_open(store, env, "/box");

	return folder < 0 ? folder : read_record(folder, ret_db);
}

int box_db_write(const char *store, const char *env, const struct box_db *db)
{
	_cleanup_close_ int folder = box_env_open(store, env, "/box");
	_cleanup_buf_ struct buf b = {0};

	if (folder < 0)
		return folder;
	buf_printf(&b, "dir %s\nmount %s\nrole %s\ndatabase %s\n", db->dir,
		   db->mount, db->role, db->database);
	buf_printf(&b, "port %u\nuid %u\ngid %u\npid %d\nstart %" PRIu64 "\n",
		   db->port, (unsigned)db->uid, (unsigned)db->gid, (int)db->pid,
		   db->start);
	return buf_error(&b)
		       ? -ENOMEM
		       : io_write_file(folder, RECORD, b.data, b.len, false);
}

int box_db_lock(const char *store, const char *env)
{
	/* Made and let go at once: starting a sandbox takes its lock. */
	_cleanup_close_ int folder = box_folder_open(store, env, true);
	_cleanup_close_ int fd = -1;
	int r;

	if (folder < 0)
		return folder;
	fd = io_open_file(folder, "db.lock", O_RDWR | O_CREAT);
	(void)close(TAKE_FD(folder));
	r = fd < 0 ? fd : io_lock(fd, LOCK_EX | LOCK_NB);
	return r < 0 ? r : TAKE_FD(fd);
}

int box_db_log(const char *store, const char *env)
{
	_cleanup_close_ int folder = box_env_open(store, env, "/box");

	return folder < 0 ? folder
			  : io_open_file(folder, "db.log",
					 O_RDWR | O_CREAT | O_APPEND);
}

void box_db_vars(const struct box_db *db, const char *top, const char *host,
		 struct buf *vars)
{
	const char *database = *db->database ? db->database : "postgres";
	char text[2 * PATH_MAX];

	box_vars_set(vars, "PGHOST", host);
	(void)snprintf(text, sizeof text, "%u", db->port);
	box_vars_set(vars, "PGPORT", text);
	box_vars_set(vars, "PGUSER", db->role);
	if (*db->database)
		box_vars_set(vars, "PGDATABASE", database);
	(void)snprintf(text, sizeof text, "%s/%s", top, db->dir);
	box_vars_set(vars, "PGDATA", text);
	(void)snprintf(text, sizeof text, "postgresql://%s@%s:%u/%s", db->role,
		       *host == '/' ? "127.0.0.1" : host, db->port, database);
	box_vars_set(vars, "DATABASE_URL", text);
}

/* SIGINT is PostgreSQL's fast shutdown: sessions end, all is written out. */
void box_db_end(int folder)
{
	struct pollfd p = {.events = POLLIN};
	_cleanup_close_ int pidfd = -1;
	struct box_db db;

	if (read_record(folder, &db) < 0 || db.pid <= 0)
		return;
	pidfd = pidfd_open(db.pid, 0);
	/* Asked when nobody else can get its number any more. */
	if (pidfd < 0 || !box_db_runs(&db) ||
	    pidfd_send_signal(pidfd, SIGINT, NULL, 0) < 0)
		return;
	p.fd = pidfd;
	while (poll(&p, 1, STOP_MS) < 0 && errno == EINTR)
		;
}
