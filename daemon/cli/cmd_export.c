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

#include <inttypes.h>
#include <limits.h>
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

/* --- an environment ------------------------------------------------------ */

struct answer {
	char hex[OID_HEX + 1];
	uint64_t sockets;
	char socket[PATH_MAX]; /* one of them */
};

static int take_answer(void *ctx, const struct msg *row)
{
	struct answer *a = ctx;

	if (msg_get_str(row, CTL_TAG_SNAPSHOT, a->hex, sizeof a->hex) < 0)
		return -EPROTO;
	a->sockets = msg_get_u64(row, CTL_TAG_COUNT, 0);
	remote_read_str(row, CTL_TAG_PATH, a->socket, sizeof a->socket);
	return 1;
}

static void tell_sockets(const struct call *c, const struct answer *a)
{
	if (a->sockets == 1)
		(void)call_fail(c, 0, "left out a socket: %s", a->socket);
	else if (a->sockets)
		(void)call_fail(c, 0,
				"left out %" PRIu64 " sockets, one of them: %s",
				a->sockets, a->socket);
}

/* Has the server make a snapshot, and keeps gc from it. */
static int freeze_env(struct job *j, int fd, const char *name)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_free_ struct answer *a = calloc(1, sizeof *a);
	int r;

	if (!a)
		return call_fail_err(j->c, -ENOMEM, NULL, name);
	msg_begin(&request, CTL_SNAPSHOT);
	msg_put_str(&request, CTL_TAG_NAME, name);
	r = client_call(fd, &request, take_answer, a, &done);
	if (r < 0)
		return call_fail(j->c, exit_code_of(r), "server: %s",
				 err_text(r));
	if (r == 0)
		return remote_say(
			j->c, &done,
			(int)msg_get_u64(&done, CTL_TAG_CODE, CODE_FAILED));
	r = oid_from_hex(a->hex, &j->id) < 0
		    ? call_fail(j->c, CODE_FAILED, "server: %s",
				err_text(-EPROTO))
		    : open_store(j);
	if (!r)
		tell_sockets(j->c, a);
	return r;
}

static int find_env(struct job *j)
{
	char name[REMOTE_NAME_BYTES];
	_cleanup_close_ int fd = -1;
	int r = remote_connect_env(j->c, j->what, REMOTE_WITHIN, &fd, name);

	return r ? r : freeze_env(j, fd, name);
}

static int find_what(struct job *j)
{
	const bool env =
		path_is_path(j->what) ||
		(name_is_label(j->what) && remote_has_env(j->c, j->what));

	return env ? find_env(j) : find_snapshot(j);
}

/* --- the archive --------------------------------------------------------- */

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
	r = tarfile_begin(c, file, &f);
	if (!r)
		r = find_what(&j);
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
