/* SPDX-License-Identifier: MIT */
/*
 * cmd_diff.c - `cowfs diff`: what changed in an environment.
 *
 * The server walks the delta and sends rows in order; here they only get their
 * form. With -z names are raw and each field ends in NUL, else they are quoted
 * as git does.
 */
#include "cli/cmd.h"

#include <inttypes.h>

#include "cli/quote.h"
#include "cli/remote.h"
#include "env/delta.h"

enum { OPT_NAME_STATUS, OPT_STAT, OPT_NUL, OPT_TIMES, OPT_EXIT_CODE };

static const struct opt_def options[] = {
	[OPT_NAME_STATUS] = {"name-status", 0, OPT_FLAG, ARG_NONE, NULL,
			     "a letter and the path (this is the default)"},
	[OPT_STAT] = {"stat", 0, OPT_FLAG, ARG_NONE, NULL,
		      "sizes before and after, and a sum"},
	[OPT_NUL] = {"null", 'z', OPT_FLAG, ARG_NONE, NULL,
		     "names as they are, each field ends in NUL"},
	[OPT_TIMES] = {"times", 0, OPT_FLAG, ARG_NONE, NULL,
		       "also where only the modification time changed"},
	[OPT_EXIT_CODE] = {"exit-code", 0, OPT_FLAG, ARG_NONE, NULL,
			   "exit 1 when there are changes"},
};

static const struct out_col columns[] = {
	{"status", NULL, OUT_STR},    {"path", NULL, OUT_STR},
	{"old_path", NULL, OUT_STR},  {"dir", NULL, OUT_BOOL},
	{"content", NULL, OUT_BOOL},  {"old_size", NULL, OUT_SIZE},
	{"new_size", NULL, OUT_SIZE}, {"old_mode", NULL, OUT_MODE},
	{"new_mode", NULL, OUT_MODE},
};

struct diff {
	struct out out;
	bool stat;
	bool nul;
	uint64_t rows;
	uint64_t added, modified, deleted, renamed;
	uint64_t grown, shrunk; /* bytes */
};

struct row {
	const char *status;	   /* "A", "M", "D", "T", "R100" */
	struct buf path, old_path; /* directories end in '/' */
	bool is_dir;
	uint64_t old_size, new_size;
};

static void row_fini(struct row *r)
{
	buf_fini(&r->path);
	buf_fini(&r->old_path);
}

/* Names a kind, and counts it. */
static const char *status_of(struct diff *d, uint64_t kind)
{
	switch (kind) {
	case DELTA_ADDED:
		d->added++;
		return "A";
	case DELTA_DELETED:
		d->deleted++;
		return "D";
	case DELTA_RENAMED:
		d->renamed++;
		return "R100";
	case DELTA_TYPE:
		d->modified++;
		return "T";
	default:
		d->modified++;
		return "M";
	}
}

static void read_path(const struct msg *m, enum ctl_tag tag, bool is_dir,
		      struct buf *path)
{
	size_t n;
	const uint8_t *s = msg_get(m, tag, 0, &n);

	if (!s)
		return;
	if (!n) /* the root itself */
		buf_put_u8(path, '.');
	buf_put(path, s, n);
	if (is_dir && path->data && path->data[path->len - 1] != '/')
		buf_put_u8(path, '/');
}

static void put_name(struct diff *d, const struct buf *name, char end)
{
	_cleanup_buf_ struct buf quoted = {0};

	if (d->nul)
		buf_put(&quoted, name->data, name->len);
	else
		quote_git(&quoted, (const char *)name->data, name->len);
	buf_put_u8(&quoted, d->nul ? 0 : (uint8_t)end);
	out_raw(&d->out, quoted.data, quoted.len);
}

static void put_name_status(struct diff *d, const struct row *row)
{
	out_raw(&d->out, row->status, strlen(row->status));
	out_raw(&d->out, d->nul ? "" : "\t", 1);
	if (row->old_path.len)
		put_name(d, &row->old_path, '\t');
	put_name(d, &row->path, '\n');
}

static void put_stat(struct diff *d, const struct row *row)
{
	out_printf(&d->out, "%" PRIu64 "\t%" PRIu64 "\t", row->old_size,
		   row->new_size);
	put_name(d, &row->path, '\n');
}

/* As fields for scripts, with both names of a rename. */
static void put_stat_nul(struct diff *d, const struct row *row)
{
	out_printf(&d->out, "%" PRIu64 "%c%" PRIu64 "%c", row->old_size, 0,
		   row->new_size, 0);
	if (row->old_path.len)
		put_name(d, &row->old_path, 0);
	put_name(d, &row->path, 0);
}

static void put_json(struct diff *d, const struct row *row, const struct msg *m)
{
	const char *old = row->old_path.len ? (char *)row->old_path.data : NULL;

	out_row(&d->out, (struct out_cell[]){
				 out_str(row->status),
				 out_bytes(row->path.data, row->path.len),
				 out_bytes(old, row->old_path.len),
				 out_num(row->is_dir),
				 out_num(msg_get_u64(m, CTL_TAG_CONTENT, 0)),
				 out_num(row->old_size),
				 out_num(row->new_size),
				 out_num(msg_get_u64(m, CTL_TAG_OLD_MODE, 0)),
				 out_num(msg_get_u64(m, CTL_TAG_NEW_MODE, 0)),
			 });
}

static int add_row(void *ctx, const struct msg *m)
{
	struct diff *d = ctx;
	_cleanup_(row_fini) struct row row = {
		.is_dir = msg_get_u64(m, CTL_TAG_IS_DIR, 0) != 0,
		.old_size = msg_get_u64(m, CTL_TAG_OLD_SIZE, 0),
		.new_size = msg_get_u64(m, CTL_TAG_NEW_SIZE, 0),
	};

	row.status = status_of(d, msg_get_u64(m, CTL_TAG_KIND, 0));
	read_path(m, CTL_TAG_PATH, row.is_dir, &row.path);
	read_path(m, CTL_TAG_OLD_PATH, row.is_dir, &row.old_path);
	if (buf_error(&row.path) || buf_error(&row.old_path))
		return -ENOMEM;
	d->rows++;
	if (row.new_size > row.old_size)
		d->grown += row.new_size - row.old_size;
	else
		d->shrunk += row.old_size - row.new_size;
	if (d->out.json)
		put_json(d, &row, m);
	else if (d->stat && d->nul)
		put_stat_nul(d, &row);
	else if (d->stat)
		put_stat(d, &row);
	else
		put_name_status(d, &row);
	return 0;
}

static void put_sum(struct diff *d)
{
	out_printf(&d->out,
		   "%" PRIu64 " path%s changed, %" PRIu64 " added, %" PRIu64
		   " modified, %" PRIu64 " deleted, %" PRIu64
		   " renamed, +%" PRIu64 " -%" PRIu64 " bytes\n",
		   d->rows, d->rows == 1 ? "" : "s", d->added, d->modified,
		   d->deleted, d->renamed, d->grown, d->shrunk);
}

static int ask(struct call *c, struct diff *d)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	char name[REMOTE_NAME_BYTES];
	int r = remote_connect_env(c, c->args->args[0], REMOTE_WITHIN, &fd,
				   name);

	if (r)
		return r;
	msg_begin(&request, CTL_DIFF);
	msg_put_str(&request, CTL_TAG_NAME, name);
	if (opt_has(c->args, OPT_TIMES))
		msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_TIMES);
	r = remote_call(c, &fd, &request, add_row, d, &done);
	if (r)
		return r;
	if (d->stat && !d->nul)
		put_sum(d);
	return call_finish(c, &d->out,
			   d->rows && opt_has(c->args, OPT_EXIT_CODE)
				   ? CODE_NO
				   : CODE_DONE);
}

static int run(struct call *c)
{
	struct diff d = {
		.stat = opt_has(c->args, OPT_STAT),
		.nul = opt_has(c->args, OPT_NUL),
	};
	int r;

	if (d.stat && opt_has(c->args, OPT_NAME_STATUS))
		return call_fail(c, CODE_USAGE,
				 "--stat: not together with --name-status");
	out_init(&d.out, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	r = ask(c, &d);
	out_fini(&d.out);
	return r;
}

const struct verb cmd_diff = {
	.name = "diff",
	.synopsis = "ENV",
	.summary = "list what changed in an environment",
	.text = "Letters: A added, M modified, D deleted, T other kind of "
		"file, R100 renamed.\nFiles, symbolic links and special files; "
		"a directory (with a '/' at its end) when\nit is new and "
		"empty, gone, or its own attributes changed.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
