/* SPDX-License-Identifier: MIT */
/*
 * table.c - the commands, in the order of help: a store's life.
 */
#include "cli/cmd.h"

const struct verb *const cmd_verbs[] = {
	&cmd_import, &cmd_export,     &cmd_snapshots, &cmd_tag,	    &cmd_rm,
	&cmd_mount,  &cmd_run,	      &cmd_kill,      &cmd_env,	    &cmd_ports,
	&cmd_stat,   &cmd_logs,	      &cmd_db,	      &cmd_set,	    &cmd_umount,
	&cmd_rescue, &cmd_ps,	      &cmd_show,      &cmd_diff,    &cmd_save,
	&cmd_gc,     &cmd_df,	      &cmd_settings,  &cmd_fsck,    &cmd_doctor,
	&cmd_daemon, &cmd_completion, &cmd_help,      &cmd_version,
};
const size_t cmd_verb_count = ARRAY_SIZE(cmd_verbs);
