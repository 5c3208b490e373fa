/* SPDX-License-Identifier: MIT */
/*
 * run_spec.c - which sandbox `cowfs run` wants.
 *
 * Where the environment appears, the working directory, and what of the host is
 * to be seen. What must be hidden is collected only when a sandbox starts: the
 * places of all environments, of this store and of any other one that has
 * something mounted, their origins, and the sockets that the caller's variables
 * name.
 */
#include "cli/run.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "cli/mountinfo.h"
#include "cli/number.h"
#include "cli/path.h"

#define WORKSPACE "/workspace"
#define OUR_TYPE  "fuse.cowfs"

void run_spec_fini(struct run_spec *s)
{
	for (size_t i = 0; s->texts && i < s->spec.path_count; i++)
		free(s->texts[i]);
	free((void *)s->texts);
	free(s->paths);
	free((void *)s->allow);
	free(s->at);
	free(s->cwd);
	free((void *)s->hidden_list);
	buf_fini(&s->hidden);
	run_root_fini(&s->root);
	*s = (struct run_spec){0};
}

/* --- where ----------------------------------------------------------------*/

static const char *home_of_caller(void)
{
	const char *home = getenv("HOME");

	if (!home || home[0] != '/') {
		const struct passwd *pw = getpwuid(geteuid());

		home = pw ? pw->pw_dir : NULL;
	}
	/* "/" cannot be private. */
	return home && home[0] == '/' && home[1] ? home : "/home/cowfs";
}

/* Where nothing can appear, as the sandbox needs it itself. */
static bool is_taken(const char *at)
{
	static const char *const taken[] = {"/proc", "/dev", "/sys", "/usr",
					    "/etc",  "/bin", "/lib"};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(at, taken[i]))
			return true;
	return !strcmp(at, "/") || !strncmp(at, "/proc/", 6);
}

static int find_place(const struct call *c, const struct remote_env *e,
		      struct run_spec *s)
{
	const char *at = opt_value(c->args, RUN_AT);
	_cleanup_free_ char *clean = NULL;
	size_t exists;
	int r;

	if (opt_has(c->args, RUN_ROOTFS)) {
		s->at = strdup("/");
		return s->at ? CODE_DONE
			     : call_fail_err(c, -ENOMEM, NULL, "run");
	}
	if (at && !strcmp(at, "mount"))
		at = e->path;
	else if (at && at[0] != '/')
		return call_fail(
			c, CODE_USAGE,
			"--at: %s: not an absolute path, nor \"mount\"", at);
	else if (!at)
		at = e->source[0] == '/' && e->source[1] ? e->source
							 : WORKSPACE;
	r = path_absolute(at, true, &clean);
	if (!r)
		r = box_resolve(clean, &s->at, &exists);
	if (r)
		return call_fail_err(c, r, NULL, at);
	if (is_taken(s->at))
		return call_fail(c, CODE_USAGE,
				 "%s: an environment cannot appear there; name "
				 "another place by --at",
				 s->at);
	return CODE_DONE;
}

/* The caller's working directory, as it is called in there. */
static int find_cwd(const struct call *c, const struct remote_env *e,
		    struct run_spec *s)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	_cleanup_free_ char *source = NULL;
	_cleanup_buf_ struct buf b = {0};
	const char *rest = NULL;
	size_t exists;

	if (e->source[0] == '/' &&
	    box_resolve(e->source, &source, &exists) == -ENOMEM)
		return call_fail_err(c, -ENOMEM, NULL, "run");
	if (cwd)
		rest = name_below(cwd, e->path);
	/* Everything is below "/", which appears elsewhere. */
	if (cwd && !rest && source && source[1])
		rest = name_below(cwd, source);
	if (s->at[1] || !rest || !*rest)
		buf_printf(&b, "%s", s->at);
	if (rest)
		buf_printf(&b, "%s", rest);
	s->cwd = buf_str(&b) ? strdup(buf_str(&b)) : NULL;
	return s->cwd ? CODE_DONE : call_fail_err(c, -ENOMEM, NULL, "run");
}

/* --- wishes -------------------------------------------------------------- */

static int add_path(const struct call *c, struct run_spec *s,
		    enum box_share share, const char *text)
{
	static const char *const names[] = {"ro", "rw", "hide"};
	char *real = realpath(text, NULL);
	size_t i = s->spec.path_count;

	if (!real)
		return call_fail(c, CODE_FAILED, "--%s: %s: %s", names[share],
				 text, err_text(errno));
	s->texts[i] = real;
	s->paths[i] = (struct box_path){.share = share, .path = real};
	s->spec.path_count++;
	if (!strcmp(real, "/") || !strncmp(real, "/proc/", 6))
		return call_fail(c, CODE_USAGE, "--%s: %s: not possible",
				 names[share], text);
	return CODE_DONE;
}

static int find_paths(const struct call *c, struct run_spec *s)
{
	const struct opt_args *a = c->args;
	int r = CODE_DONE;

	s->paths = calloc(a->item_count + 1, sizeof *s->paths);
	s->texts = calloc(a->item_count + 1, sizeof *s->texts);
	if (!s->paths || !s->texts)
		return call_fail_err(c, -ENOMEM, NULL, "run");
	for (size_t i = 0; i < a->item_count && !r; i++) {
		const char *value = a->items[i].value;

		if (a->items[i].opt == RUN_RO)
			r = add_path(c, s, BOX_RO, value);
		else if (a->items[i].opt == RUN_RW)
			r = add_path(c, s, BOX_RW, value);
		else if (a->items[i].opt == RUN_HIDE)
			r = add_path(c, s, BOX_HIDE, value);
	}
	s->spec.paths = s->paths;
	return r;
}

/* Reads "1", "0.5", "2.25" as thousandths. */
static int read_cpus(const char *text, uint64_t *ret_milli)
{
	char *end;
	const double n = strtod(text, &end);

	if (end == text || *end || !(n >= 0.01 && n <= 4096) ||
	    strspn(text, "0123456789.") != strlen(text))
		return -EINVAL;
	*ret_milli = (uint64_t)(n * 1000 + 0.5);
	return 0;
}

static int find_limits(const struct call *c, struct box_limits *l)
{
	enum { PIDS_MAX = 1 << 22, MEMORY_MIN = 1 << 20 };
	const char *memory = opt_value(c->args, RUN_MEMORY);
	const char *cpus = opt_value(c->args, RUN_CPUS);
	const char *pids = opt_value(c->args, RUN_PIDS);

	if (memory &&
	    (number_read_size(memory, &l->memory) || l->memory < MEMORY_MIN))
		return call_fail(c, CODE_USAGE,
				 "--memory: %s: not a size of at least 1M",
				 memory);
	if (cpus && read_cpus(cpus, &l->cpus_milli))
		return call_fail(c, CODE_USAGE,
				 "--cpus: %s: not a number of processors, as "
				 "0.5 or 2",
				 cpus);
	if (pids && (number_read(pids, PIDS_MAX, &l->pids) || !l->pids))
		return call_fail(c, CODE_USAGE,
				 "--pids: %s: not a number of processes", pids);
	return CODE_DONE;
}

int run_spec_make(const struct call *c, const struct remote_env *e,
		  struct run_spec *s)
{
	int r = find_place(c, e, s);

	if (!r)
		r = find_cwd(c, e, s);
	if (!r)
		r = find_paths(c, s);
	if (!r)
		r = run_net_find(c, &e->ports, s);
	if (!r)
		r = find_limits(c, &s->spec.limits);
	if (r)
		return r;
	s->spec.store = c->store;
	s->spec.env = e->name;
	s->spec.mount = e->path;
	s->spec.at = s->at;
	s->spec.home = home_of_caller();
	s->spec.rootfs = opt_has(c->args, RUN_ROOTFS);
	s->spec.nested = opt_has(c->args, RUN_NESTED);
	return CODE_DONE;
}

/* --- HOME ---------------------------------------------------------------- */

static int fail_plain(const struct call *c, const char *env)
{
	(void)call_fail(
		c, 0, "--warm: %s: its HOME has been made without caches", env);
	call_hint("run it without --warm, or mount a new environment");
	return CODE_FAILED;
}

int run_spec_home(const struct call *c, int *fd, const struct box_command *cmd,
		  struct run_spec *s)
{
	const bool warm = opt_has(c->args, RUN_WARM);
	int r = CODE_DONE;

	if (s->spec.rootfs)
		return CODE_DONE; /* it is in there */

	if (warm)
		r = warm_home(c, fd, s->spec.env, NULL, &s->home);
	if (r == CODE_DONE && warm && !strcmp(s->home.state, "plain"))
		return fail_plain(c, s->spec.env);
	if (r == CODE_DONE && warm && !strcmp(s->home.state, "none"))
		warm_import_own(c, s->spec.home);
	if (r == CODE_DONE)
		r = warm_home(c, fd, s->spec.env, cmd, &s->home);
	if (r == CODE_DONE && !strcmp(s->home.state, "view"))
		s->spec.home_view = s->home.path;
	return r;
}

/* --- what must not be seen ----------------------------------------------- */

struct hiding {
	const char *store;
	struct buf *out;
};

static void hide(struct hiding *h, const char *path)
{
	/* The store is hidden as a whole. */
	if (path[0] == '/' && !name_below(path, h->store))
		buf_put(h->out, path, strlen(path) + 1);
}

static int hide_row(void *ctx, const struct msg *row)
{
	struct remote_env e;

	remote_read_env(row, &e);
	hide(ctx, e.path);
	hide(ctx, e.source);
	return 0;
}

/* A mount of another store's: STORE/mnt/NAME, or anywhere. */
static void hide_mount(struct hiding *h, const char *path)
{
	char store[PATH_MAX], file[PATH_MAX + 8];
	const char *at = strstr(path, "/mnt/"), *next;

	while (at && (next = strstr(at + 1, "/mnt/")))
		at = next;
	if (at && (size_t)(at - path) < sizeof store) {
		(void)snprintf(store, sizeof store, "%.*s", (int)(at - path),
			       path);
		(void)snprintf(file, sizeof file, "%s/format", store);
		if (!access(file, F_OK))
			hide(h, store);
	}
	hide(h, path);
}

static void hide_sockets(struct hiding *h)
{
	static const char *const names[] = {"SSH_AUTH_SOCK", "DOCKER_HOST",
					    "DBUS_SESSION_BUS_ADDRESS",
					    "CONTAINER_HOST", "GPG_AGENT_INFO"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);
		const char *path = value ? strchr(value, '/') : NULL;
		char text[PATH_MAX];

		if (!path)
			continue;
		/* "unix:///run/x.sock", "unix:path=/x,guid=", "/x:1:1" */
		path += strspn(path, "/") - 1;
		(void)snprintf(text, sizeof text, "%.*s",
			       (int)strcspn(path, ",:;"), path);
		hide(h, text);
	}
}

static int make_list(const struct call *c, struct run_spec *s)
{
	size_t n = 0;

	if (buf_error(&s->hidden))
		return call_fail_err(c, -ENOMEM, NULL, "run");
	s->hidden_list = calloc(s->hidden.len / 2 + 1, sizeof *s->hidden_list);
	if (!s->hidden_list)
		return call_fail_err(c, -ENOMEM, NULL, "run");
	for (size_t at = 0; at < s->hidden.len; n++) {
		s->hidden_list[n] = (const char *)s->hidden.data + at;
		at += strlen(s->hidden_list[n]) + 1;
	}
	s->spec.hidden = s->hidden_list;
	s->spec.hidden_count = n;
	return CODE_DONE;
}

int run_spec_hide(const struct call *c, int *fd, struct run_spec *s)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_(mountinfo_fini) struct mountinfo mounts = {0};
	struct hiding h = {.store = c->store, .out = &s->hidden};
	int r;

	buf_fini(&s->hidden);
	free((void *)s->hidden_list);
	s->hidden = (struct buf){0};
	s->hidden_list = NULL;
	msg_begin(&request, CTL_LIST);
	r = remote_call(c, fd, &request, hide_row, &h, &done);
	if (r)
		return r;
	r = mountinfo_read(&mounts);
	if (r)
		return call_fail_err(c, r, NULL, "/proc/self/mountinfo");
	for (size_t i = 0; i < mounts.count; i++)
		if (!strcmp(mounts.v[i].type, OUR_TYPE))
			hide_mount(&h, mounts.v[i].path);
	hide_sockets(&h);
	return make_list(c, s);
}
