/* SPDX-License-Identifier: MIT */
/*
 * cmd_set.c - `cowfs set`: bounds of an environment, mounted or not.
 */
#include "cli/cmd.h"

#include "cli/limits.h"
#include "cli/remote.h"

enum { OPT_QUOTA, OPT_TTL };

static const struct opt_def options[] = {
	[OPT_QUOTA] = {"quota", 0, OPT_VALUE, ARG_TEXT, "SIZE[,INODES]",
		       "it may store so many bytes and make so many inodes"},
	[OPT_TTL] = {"ttl", 0, OPT_VALUE, ARG_TEXT, "TIME",
		     "unmount and keep it when so much time is over"},
};

static int run(struct call *c)
{
	const struct opt_args *a = c->args;
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	char name[REMOTE_NAME_BYTES];
	struct limits limits = {0};
	int r = limits_parse(c, opt_value(a, OPT_QUOTA), opt_value(a, OPT_TTL),
			     &limits);

	if (r)
		return r;
	if (!a->item_count)
		return call_fail(c, CODE_USAGE,
				 "nothing to set: --quota or --ttl is missing");
	r = remote_connect_env(c, a->args[0], REMOTE_WITHIN, &fd, name);
	if (r)
		return r;
	msg_begin(&request, CTL_SET);
	msg_put_str(&request, CTL_TAG_NAME, name);
	limits_ask(&request, &limits);
	return remote_call(c, &fd, &request, NULL, NULL, &done);
}

const struct verb cmd_set = {
	.name = "set",
	.synopsis = "ENV",
	.summary = "change the quota or the ttl of an environment",
	.text = "ENV is a name, or a path inside the "
		"environment.\n" LIMITS_HELP,
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
