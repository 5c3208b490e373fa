/* SPDX-License-Identifier: MIT */
/*
 * cmd_import.c - `cowfs import`: a directory or an archive becomes a
 * snapshot.
 *
 * Runs in this process with the caller's rights; no server is needed. The
 * progress line is drawn over itself at most ten times a second and is gone
 * before anything else is written.
 */
#include "cli/import.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/number.h"
#include "cli/place.h"
#include "cli/room.h"
#include "cli/snaps.h"
#include "cli/tarfile.h"
#include "cli/warm.h"
#include "exchange/import_tar.h"

enum { REDRAW_NS = 100 * 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };
enum { MEMORY_BYTES = 512 << 20, NAME_BYTES = 256 };
#define ERASE_LINE "\r\033[K"

enum {
	OPT_TAG,
	OPT_EXCLUDE,
	OPT_SKIP,
	OPT_CROSS,
	OPT_RESCAN,
	OPT_MESSAGE,
	OPT_CACHE,
	OPT_TAR,
	OPT_MAX_SIZE,
	OPT_MAX_FILES,
};

static const struct opt_def options[] = {
	[OPT_TAG] = {"tag", 't', OPT_VALUE, ARG_TEXT, "NAME:TAG",
		     "let this name point to the snapshot"},
	[OPT_EXCLUDE] = {"exclude", 0, OPT_LIST, ARG_TEXT, "GLOB",
			 "leave out what fits; may be given several times"},
	[OPT_SKIP] = {"skip-unreadable", 0, OPT_FLAG, ARG_NONE, NULL,
		      "leave out unreadable files instead of failing"},
	[OPT_CROSS] = {"cross-mounts", 0, OPT_FLAG, ARG_NONE, NULL,
		       "take in what is mounted below PATH"},
	[OPT_RESCAN] = {"rescan", 0, OPT_FLAG, ARG_NONE, NULL,
			"read all files, also unchanged ones"},
	[OPT_MESSAGE] = {"message", 'm', OPT_VALUE, ARG_TEXT, "MSG",
			 "remember this text beside the snapshot"},
	[OPT_CACHE] = {"cache", 0, OPT_LIST, ARG_TEXT, "NAME=PATH",
		       "a tool's cache, which later environments begin with"},
	[OPT_TAR] = {"tar", 0, OPT_VALUE, ARG_TEXT, "FILE",
		     "read an archive; - is standard input"},
	[OPT_MAX_SIZE] = {"max-size", 0, OPT_VALUE, ARG_TEXT, "SIZE",
			  "refuse an archive with more bytes; 256G"},
	[OPT_MAX_FILES] = {"max-files", 0, OPT_VALUE, ARG_TEXT, "N",
			   "refuse one with more names; 4000000"},
};

static const struct out_col columns[] = {
	{"id", NULL, OUT_ID},	      {"ref", NULL, OUT_STR},
	{"inodes", NULL, OUT_COUNT},  {"files", NULL, OUT_COUNT},
	{"bytes", NULL, OUT_SIZE},    {"stored_bytes", NULL, OUT_SIZE},
	{"sockets", NULL, OUT_COUNT}, {"locks", NULL, OUT_COUNT},
	{"skipped", NULL, OUT_COUNT}, {"unchanged", NULL, OUT_COUNT},
};

struct progress {
	uint64_t start_ns;
	uint64_t drawn_ns;
};

static void draw(void *ctx, const struct import_progress *p)
{
	struct progress *state = ctx;
	uint64_t now = clock_mono_ns();
	double seconds = (double)(now - state->start_ns) / NS_PER_S;
	_cleanup_buf_ struct buf line = {0};

	if (state->drawn_ns && now - state->drawn_ns < REDRAW_NS)
		return;
	state->drawn_ns = now;
	buf_printf(&line, ERASE_LINE "%" PRIu64 " files, ", p->files);
	out_size(&line, p->bytes);
	if (seconds > 0) {
		buf_printf(&line, ", ");
		out_size(&line, (uint64_t)((double)p->bytes / seconds));
		buf_printf(&line, "/s");
	}
	if (!buf_error(&line))
		(void)!io_write(STDERR_FILENO, line.data, line.len);
}

/* The files that could not be read go into one line, like every error. */
static int fail_import(const struct call *c, int err, const struct diag *diag,
		       const char *path)
{
	_cleanup_buf_ struct buf all = {0};
	const char *line, *text;

	if (!diag_line(diag, 1) || (err != -EACCES && err != -EIO))
		return call_fail_err(c, err, diag, path);
	for (size_t i = 0; (line = diag_line(diag, i)); i++)
		buf_printf(&all, "%s%s", i ? "; " : "", line);
	text = buf_str(&all);
	(void)call_fail(c, 0, "%s", text ? text : path);
	call_hint("--skip-unreadable leaves out what cannot be read");
	return exit_code_of(err);
}

static int check_directory(const struct call *c, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		bool usage = errno == ENOENT || errno == ENOTDIR ||
			     errno == ENAMETOOLONG;

		return call_fail(c, usage ? CODE_USAGE : CODE_FAILED, "%s: %s",
				 *path ? path : "PATH", err_text(errno));
	}
	if (!S_ISDIR(st.st_mode))
		return call_fail(c, CODE_USAGE, "%s: not a directory", path);
	return CODE_DONE;
}

/* From a directory, or from an archive when there is one. */
static int import_from(const struct call *c, const char *path, const char *ref,
		       const struct import_tar_source *tar,
		       struct import_options *o,
		       struct import_result *ret_result)
{
	_cleanup_store_ struct store *s = NULL;
	_cleanup_diag_ struct diag diag = {0}, notes = {0};
	struct progress state = {.start_ns = clock_mono_ns()};
	const char *note;
	int r = place_check(c);

	if (r)
		return r;
	r = store_open(c->store, STORE_CREATE, &diag, &s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	if (isatty(STDERR_FILENO)) {
		o->progress = draw;
		o->progress_ctx = &state;
	}
	if (isatty(STDERR_FILENO) && store_is_collecting(s))
		(void)call_fail(c, 0, "waiting for cowfs gc to finish");
	r = tar ? import_tar(s, tar, o, &notes, &diag, ret_result)
		: import_dir(s, path, ref, o, &notes, &diag, ret_result);
	if (state.drawn_ns)
		(void)!io_write(STDERR_FILENO, ERASE_LINE,
				sizeof ERASE_LINE - 1);
	if (r == -ENOSPC || r == -EDQUOT)
		return room_fail(c, s, r, path);
	if (r)
		return fail_import(c, r, &diag, path);
	room_warn(c, s);
	for (size_t i = 0; (note = diag_line(&notes, i)); i++)
		(void)call_fail(c, 0, "%s", note);
	return CODE_DONE;
}

int import_path_of(const struct call *c, const char *path, const char *ref,
		   struct import_options *o, struct import_result *ret_result)
{
	int r = check_directory(c, path);

	return r ? r : import_from(c, path, ref, NULL, o, ret_result);
}

static void put_result(struct out *o, const char *ref,
		       const struct import_result *res)
{
	char hex[OID_HEX + 1];

	oid_to_hex(&res->id, hex);
	out_row(o, (struct out_cell[]){
			   out_str(hex),
			   out_str(ref),
			   out_num(res->inodes),
			   out_num(res->files),
			   out_num(res->bytes),
			   out_num(res->stored_bytes),
			   out_num(res->sockets),
			   out_num(res->locks),
			   out_num(res->skipped),
			   out_num(res->unchanged),
		   });
	out_printf(o, "%s\n", hex);
}

static int print_result(const struct call *c, const char *ref,
			const struct import_result *res)
{
	_cleanup_out_ struct out o;

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	put_result(&o, ref, res);
	return call_finish(c, &o, CODE_DONE);
}

/* --- archives ------------------------------------------------------------ */

static int read_limits(const struct call *c, struct import_tar_source *source)
{
	const char *size = opt_value(c->args, OPT_MAX_SIZE);
	const char *files = opt_value(c->args, OPT_MAX_FILES);

	if (size && number_read_size(size, &source->max_bytes))
		return call_fail(c, CODE_USAGE, "--max-size: \"%s\" is no size",
				 size);
	if (files && number_read(files, FORMAT_MAX_INODE, &source->max_files))
		return call_fail(c, CODE_USAGE,
				 "--max-files: \"%s\" is no number", files);
	return CODE_DONE;
}

static int check_archive(const struct call *c)
{
	static const int others[] = {OPT_SKIP, OPT_CROSS, OPT_RESCAN,
				     OPT_CACHE};
	const struct opt_args *a = c->args;
	bool more = a->arg_count > 0;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		more = more || opt_has(a, (size_t)others[i]);
	if (more)
		return call_fail(c, CODE_USAGE,
				 "--tar: not together with PATH, --cache, "
				 "--skip-unreadable, --cross-mounts or "
				 "--rescan");
	return CODE_DONE;
}

/* What counts as data of this process already: a sanitizer's terabytes, too. */
static uint64_t data_bytes(void)
{
	enum { FIELD = 5, TEXT_MAX = 256 };
	_cleanup_buf_ struct buf text = {0};
	uint64_t pages = 0;
	char *at;

	if (io_read_file(AT_FDCWD, "/proc/self/statm", TEXT_MAX, &text) < 0 ||
	    !buf_str(&text))
		return 0;
	at = (char *)text.data;
	for (int i = 0; i <= FIELD; i++)
		pages = strtoull(at, &at, 10);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* An archive of 350 KiB can make libarchive remember a gigabyte of holes. Twice
 * what the names take is enough for every honest one; then it is told that
 * there is no memory. */
static void bound_memory(const struct import_tar_source *source)
{
	struct rlimit limit;
	rlim_t most = MEMORY_BYTES;

	if (source->max_files < UINT32_MAX)
		most = MAX(most, source->max_files * 2 * NAME_BYTES);
	most += data_bytes();
	if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_cur <= most)
		return;
	limit.rlim_cur = most;
	(void)setrlimit(RLIMIT_DATA, &limit);
}

static int import_archive(const struct call *c, const char *ref,
			  struct import_options *o,
			  struct import_result *ret_result)
{
	const char *name = opt_value(c->args, OPT_TAR);
	_cleanup_(tarfile_fini) struct tarfile f = {.fd = -1, .dir = -1};
	_cleanup_free_ char *real = NULL;
	struct import_tar_source source = {.max_bytes = IMPORT_TAR_BYTES,
					   .max_files = IMPORT_TAR_FILES};
	int r = check_archive(c);

	if (!r)
		r = read_limits(c, &source);
	if (!r)
		r = tarfile_read(c, name, &f);
	if (r)
		return r;
	bound_memory(&source);
	real = f.is_lent ? NULL : realpath(name, NULL);
	source.fd = f.fd;
	source.ref = ref;
	source.path = real ? real : "";
	return import_from(c, name, ref, &source, o, ret_result);
}

/* --- caches -------------------------------------------------------------- */

/* Nothing is imported before all of it makes sense. */
static int check_caches(const struct call *c)
{
	const struct opt_args *a = c->args;
	const struct box_cache *cache;
	const char *path;
	int r = CODE_DONE;

	if (a->arg_count || opt_has(a, OPT_TAG) || opt_has(a, OPT_EXCLUDE))
		return call_fail(c, CODE_USAGE,
				 "--cache: not together with PATH, --tag or "
				 "--exclude");
	for (size_t i = 0; i < a->item_count && !r; i++) {
		if (a->items[i].opt != OPT_CACHE)
			continue;
		r = warm_parse(c, a->items[i].value, &cache, &path);
		if (!r)
			r = check_directory(c, path);
	}
	return r;
}

static int import_caches(const struct call *c,
			 const struct import_options *plain)
{
	const struct opt_args *a = c->args;
	_cleanup_out_ struct out o;
	int r = check_caches(c);

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < a->item_count && !r; i++) {
		struct import_options one = *plain;
		const struct box_cache *cache;
		struct import_result res = {0};
		char ref[STORE_REF_MAX];
		const char *path;

		if (a->items[i].opt != OPT_CACHE)
			continue;
		r = warm_parse(c, a->items[i].value, &cache, &path);
		if (!r)
			r = warm_import(c, cache, path, &one, ref, &res);
		if (!r)
			put_result(&o, ref, &res);
	}
	return r ? r : call_finish(c, &o, CODE_DONE);
}

static int take_excludes(const struct call *c, const char **v,
			 struct import_options *o)
{
	const struct opt_args *a = c->args;

	for (size_t i = 0; i < a->item_count; i++) {
		const char *glob = a->items[i].value;

		if (a->items[i].opt != OPT_EXCLUDE)
			continue;
		if (!glob[strspn(glob, "/")])
			return call_fail(
				c, CODE_USAGE,
				"--exclude: \"%s\" excludes everything "
				"or nothing",
				glob);
		v[o->exclude_count++] = glob;
	}
	o->excludes = v;
	return CODE_DONE;
}

static int run(struct call *c)
{
	const struct opt_args *a = c->args;
	_cleanup_free_ const char **excludes = NULL;
	const char *tag = opt_value(a, OPT_TAG);
	char ref[STORE_REF_MAX];
	struct import_result res = {0};
	struct import_options o = {
		.skip_unreadable = opt_has(a, OPT_SKIP),
		.cross_mounts = opt_has(a, OPT_CROSS),
		.rescan = opt_has(a, OPT_RESCAN),
		.message = opt_value(a, OPT_MESSAGE),
	};
	int r;

	if (!opt_has(a, OPT_TAR) &&
	    (opt_has(a, OPT_MAX_SIZE) || opt_has(a, OPT_MAX_FILES)))
		return call_fail(c, CODE_USAGE,
				 "--max-size, --max-files: only with --tar");
	if (opt_has(a, OPT_CACHE) && !opt_has(a, OPT_TAR))
		return import_caches(c, &o);
	if (!a->arg_count && !opt_has(a, OPT_TAR)) {
		(void)call_fail(c, 0, "PATH: missing");
		call_hint("usage: cowfs import PATH");
		return CODE_USAGE;
	}
	if (tag && store_ref_normalize(tag, ref, sizeof ref))
		return *tag ? call_bad_name(c, tag, "NAME:TAG")
			    : call_fail(c, CODE_USAGE, "--tag: an empty name");
	excludes = calloc(a->item_count + 1, sizeof *excludes);
	if (!excludes)
		return call_fail_err(c, -ENOMEM, NULL, "import");
	r = take_excludes(c, excludes, &o);
	if (r)
		return r;
	if (opt_has(a, OPT_TAR))
		r = import_archive(c, tag ? ref : NULL, &o, &res);
	else
		r = import_path_of(c, a->args[0], tag ? ref : NULL, &o, &res);
	return r ? r : print_result(c, tag ? ref : NULL, &res);
}

const struct verb cmd_import = {
	.name = "import",
	.synopsis = "[PATH]",
	.summary = "read a directory or an archive into the store",
	.text = "Sockets, stale locks of git, other file systems and stores "
		"below PATH are left\nout. An unreadable file fails the "
		"import; nothing is visible unless all of it\nsucceeded. "
		"The snapshot's id is printed.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_DIR,
	.max_args = 1,
	.run = run,
};
