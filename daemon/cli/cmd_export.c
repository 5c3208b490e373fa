/* SPDX-License-Identifier: MIT */
/*
 * cmd_export.c - `cowfs export`: a snapshot, or an environment as it is now,
 * becomes an archive.
 *
 * A snapshot is read straight from the store. Of an environment the server
 * makes a snapshot first, which no record names: a pin keeps gc from it until
 * the archive is written.
 */
#include "cli/cmd.h"

#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/path.h"
#include "cli/remote.h"
#include "cli/snaps.h"
#include "cli/tarfile.h"
#include "exchange/export_tar.h"

enum { OPT_TAR };

static const struct opt_def options[] = {
	[OPT_TAR] = {"tar", 0, OPT_VALUE, ARG_TEXT, "FILE",
		     "the archive; - is standard output"},
};

static const struct out_col columns[] = {
	{"id", NULL, OUT_ID},
	{"entries", NULL, OUT_COUNT},
	{"bytes", NULL, OUT_SIZE},
};

struct job {
	const struct call *c;
	const char *what;
	struct store *store;
	struct oid id;
	int pin;
};

static void job_fini(struct job *j)
{
	if (j->pin >= 0)
		(void)close(j->pin);
	store_close(j->store);
}

static int open_store(struct job *j)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = store_open(j->c->store, 0, &diag, &j->store);

	if (r == 0)
		r = store_pin(j->store, &j->pin);
	return r < 0 ? call_fail_err(j->c, r, &diag, j->c->store) : CODE_DONE;
}

static int find_snapshot(struct job *j)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = open_store(j);

	if (r)
		return r;
	r = store_resolve(j->store, j->what, &diag, &j->id);
	if (r == -ENOENT) {
		(void)call_fail(j->c, 0, "%s: unknown environment or snapshot",
				j->what);
		if (diag_line(&diag, 0))
			call_hint("%s", diag_line(&diag, 0));
		return CODE_FAILED;
	}
	return r < 0 ? call_fail_err(j->c, r, &diag, j->what) : CODE_DONE;
}

static int write_archive(struct job *j, struct tarfile *f,
			 struct export_result *ret_result)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = export_tar(j->store, &j->id, f->fd, &diag, ret_result);

	return r < 0 ? call_fail_err(j->c, r, &diag, j->what)
		     : tarfile_finish(j->c, f);
}

static int print_result(const struct job *j, const struct export_result *res)
{
	_cleanup_out_ struct out o;
	char hex[OID_HEX + 1];

	out_init(&o, j->c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	oid_to_hex(&j->id, hex);
	out_row(&o, (struct out_cell[]){
			    out_str(hex),
			    out_num(res->entries),
			    out_num(res->bytes),
		    });
	out_printf(&o, "%s\n", hex);
	return call_finish(j->c, &o, CODE_DONE);
}

static int run(struct call *c)
{
	_cleanup_(job_fini) struct job j = {
		.c = c, .what = c->args->args[0], .pin = -1};
	_cleanup_(tarfile_fini) struct tarfile f = {.fd = -1, .dir = -1};
	const char *file = opt_value(c->args, OPT_TAR);
	struct export_result res;
	int r;

	if (!file)
		return call_fail(c, CODE_USAGE, "--tar FILE: missing");
	if (!strcmp(file, "-") && c->json)
		return call_fail(c, CODE_USAGE,
				 "--json: standard output is the archive's");
	r = find_snapshot(&j);
	if (!r)
		r = tarfile_begin(c, file, &f);
	if (!r)
		r = write_archive(&j, &f, &res);
	if (r || f.is_lent)
		return r;
	return print_result(&j, &res);
}

const struct verb cmd_export = {
	.name = "export",
	.synopsis = "ENV|SNAPSHOT --tar FILE",
	.summary = "write a snapshot, or an environment, to an archive",
	.text = "The same content gives the same bytes. FILE appears when the "
		"archive is whole; -\nis standard output. The id of what was "
		"written is printed.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_SNAPSHOT,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
