/* SPDX-License-Identifier: MIT */
/*
 * cmd_stat.c - `cowfs stat`: what an environment takes now.
 *
 * Processes, memory and processor time are those of its sandbox, read here;
 * room and inodes are what the server says of the environment, or the store
 * when none runs.
 */
#include "cli/cmd.h"

#include <inttypes.h>

#include "box/box.h"
#include "cli/remote.h"

static const struct out_col columns[] = {
	{"name", "Environment", OUT_STR},
	{"state", "State", OUT_STR},
	{"processes", "Processes", OUT_COUNT},
	{"memory_bytes", "Memory", OUT_SIZE},
	{"cpu_ms", NULL, OUT_COUNT},
	{NULL, "CPU time", OUT_STR},
	{"used_bytes", "On disk", OUT_SIZE},
	{"used_inodes", "Inodes", OUT_COUNT},
};

static int run(struct call *c)
{
	_cleanup_buf_ struct buf cpu = {0};
	struct remote_env e;
	const struct limits_row *use = &e.limits;
	_cleanup_out_ struct out o;
	struct box_usage u;
	int r;

	out_init(&o, c->json, OUT_FIELDS, columns, ARRAY_SIZE(columns));
	r = remote_list_one(c, c->args->args[0], &e);
	if (r)
		return r;
	r = box_usage(c->store, e.name, &u);
	if (r < 0)
		return call_fail_err(c, r, NULL, e.name);
	buf_printf(&cpu, "%" PRIu64 ".%03" PRIu64 " s", u.cpu_ms / 1000,
		   u.cpu_ms % 1000);
	out_row(&o, (struct out_cell[]){
			    out_str(e.name),
			    out_str(e.state),
			    out_num(u.processes),
			    out_num(u.memory),
			    out_num(u.cpu_ms),
			    out_str(buf_str(&cpu)),
			    out_num_if(use->has_use, use->used_bytes),
			    out_num_if(use->has_use, use->used_inodes),
		    });
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_stat = {
	.name = "stat",
	.synopsis = "ENV",
	.summary = "say what an environment takes: memory, time, room",
	.text = "Processes, memory and CPU time are those of what \"run\" has "
		"started and still runs;\nroom and inodes are those of the "
		"environment itself, without its base.",
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
