/* SPDX-License-Identifier: MIT */
/*
 * cmd.h - what the verbs share: the call, messages, the command table.
 *
 * One verb, one file: cmd_<verb>.c has its option table and its function, which
 * returns an exit code (exitcode.h). Whoever sees an error first says it, once,
 * as "cowfs VERB: what: why" on standard error.
 *
 * Contract
 *   Ownership   everything in a struct call is lent
 *   Threads     one
 *   Errors      functions of type int here return exit codes, unless they say
 *               "negative errno"
 */
#ifndef COWFS_CLI_CMD_H
#define COWFS_CLI_CMD_H

#include "base/diag.h"
#include "cli/exitcode.h"
#include "cli/opt.h"
#include "cli/out.h"

struct call {
	const struct verb *verb;
	struct opt_args *args;
	const char *store; /* absolute path */
	bool json;
};

/* Says "cowfs VERB: " and the text on standard error, as one line; returns
 * code. */
int call_fail(const struct call *c, int code, const char *fmt, ...)
	_printf_(3, 4);
/* Says that a name is not a KIND, and what names are made of. */
int call_bad_name(const struct call *c, const char *name, const char *kind);
/* Says a second line: what to do. */
void call_hint(const char *fmt, ...) _printf_(1, 2);
/* Says what a lower layer reported: the first line of diag or "what: why",
 * then its other lines as one; returns the error's exit code. */
int call_fail_err(const struct call *c, int err, const struct diag *diag,
		  const char *what);
/* Writes the results; returns code, or CODE_FAILED when that failed. */
int call_finish(const struct call *c, struct out *o, int code);

extern const struct verb *const cmd_verbs[];
extern const size_t cmd_verb_count;

extern const struct verb cmd_import, cmd_export, cmd_mount, cmd_umount, cmd_rescue, cmd_ps,
	cmd_show, cmd_diff, cmd_save, cmd_snapshots, cmd_tag, cmd_rm, cmd_gc,
	cmd_df, cmd_settings, cmd_set, cmd_fsck, cmd_doctor, cmd_daemon,
	cmd_completion, cmd_help, cmd_version, cmd_run, cmd_kill, cmd_env,
	cmd_ports, cmd_stat, cmd_logs, cmd_db;

/* Prints help of a verb, or of the whole when verb is NULL. */
int help_print(const struct call *c, const struct verb *verb);
int version_print(const struct call *c);

#endif
