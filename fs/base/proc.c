/* SPDX-License-Identifier: MIT */
/*
 * How: the line of `stat` is "PID (COMMAND) STATE PARENT ...". The command may
 * have any characters, so the fields are counted from the last parenthesis.
 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"

enum {
	TEXT_MAX = 4096,
	/* Fields behind the command, from 0. */
	FIELD_STATE = 0,
	FIELD_PARENT = 1,
	FIELD_TICKS = 11, /* own in user and system, of children likewise */
	FIELD_START = 19,
	FIELD_RESIDENT = 21,
};

static int read_text(pid_t pid, const char *name, struct buf *text)
{
	char path[32];
	int r;

	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	r = io_read_file(AT_FDCWD, path, TEXT_MAX, text);
	return r || buf_str(text) ? r : -ENOMEM;
}

static void take_field(struct proc_stat *s, int i, const char *field)
{
	const uint64_t n = strtoull(field, NULL, 10);

	if (i == FIELD_STATE)
		s->state = *field;
	else if (i == FIELD_PARENT)
		s->parent = (pid_t)n;
	else if (i >= FIELD_TICKS && i < FIELD_TICKS + 4)
		s->ticks += n;
	else if (i == FIELD_START)
		s->start = n;
	else if (i == FIELD_RESIDENT)
		s->resident = n;
}

int proc_stat(pid_t pid, struct proc_stat *ret)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *field;
	int r = read_text(pid, "stat", &text);

	*ret = (struct proc_stat){0};
	if (r)
		return r;
	field = strrchr((char *)text.data, ')');
	field = field ? strtok_r(field + 1, " ", &save) : NULL;
	for (int i = 0; field; i++, field = strtok_r(NULL, " ", &save))
		take_field(ret, i, field);
	return ret->state ? 0 : -EFSCORRUPTED;
}

bool proc_has_ended(pid_t pid)
{
	struct proc_stat s;

	return proc_stat(pid, &s) < 0 || s.state == 'Z' || s.state == 'X';
}

int proc_command(pid_t pid, char ret_name[PROC_COMMAND_BYTES])
{
	_cleanup_buf_ struct buf text = {0};
	int r = read_text(pid, "comm", &text);

	if (r)
		return r;
	(void)snprintf(ret_name, PROC_COMMAND_BYTES, "%.*s",
		       (int)strcspn((char *)text.data, "\n"),
		       (char *)text.data);
	return 0;
}
