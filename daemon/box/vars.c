/* SPDX-License-Identifier: MIT */
/*
 * vars.c - the environment variables of a command.
 *
 * How: a clean list. Of the caller's variables only those pass that say how
 * text and terminal look, where programs are and who calls: tokens, sockets and
 * settings of other tools stay outside unless the user hands them on. A root of
 * its own has its own programs, languages and users.
 */
#include "box/box_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const passed[] = {
	"PATH", "TERM",	   "COLORTERM", "NO_COLOR", "LANG",
	"TZ",	"LOGNAME", "USER",	"SHELL",
};

void box_vars_set(struct buf *vars, const char *name, const char *value)
{
	const size_t n = strlen(name);

	for (size_t at = 0; at < vars->len;) {
		const char *entry = (const char *)vars->data + at;
		size_t len = strlen(entry) + 1;

		if (!strncmp(entry, name, n) && entry[n] == '=') {
			memmove(vars->data + at, vars->data + at + len,
				vars->len - at - len);
			vars->len -= len;
			break;
		}
		at += len;
	}
	if (!value)
		return;
	buf_put(vars, name, n);
	buf_put_u8(vars, '=');
	buf_put(vars, value, strlen(value) + 1);
}

/* Tools ask for either case. The sandbox's own servers are reached directly. */
static void set_proxy(struct buf *vars)
{
	static const char *const names[] = {"http_proxy", "https_proxy",
					    "HTTP_PROXY", "HTTPS_PROXY"};
	static const char own[] = "localhost,127.0.0.1,::1";
	char url[64];

	(void)snprintf(url, sizeof url, "http://127.0.0.1:%d", BOX_PROXY);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		box_vars_set(vars, names[i], url);
	box_vars_set(vars, "no_proxy", own);
	box_vars_set(vars, "NO_PROXY", own);
}

static void pass_vars(const char *const *names, size_t count, struct buf *vars)
{
	for (size_t i = 0; i < count; i++) {
		const char *value = getenv(names[i]);

		if (value)
			box_vars_set(vars, names[i], value);
	}
}

static void host_vars(uid_t uid, struct buf *vars)
{
	char runtime[64];

	pass_vars(passed, ARRAY_SIZE(passed), vars);
	for (char **v = environ; v && *v; v++)
		if (!strncmp(*v, "LC_", 3) && strchr(*v, '='))
			buf_put(vars, *v, strlen(*v) + 1);
	if (!getenv("PATH"))
		box_vars_set(vars, "PATH",
			     "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:"
			     "/usr/sbin:/sbin");
	(void)snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)uid);
	box_vars_set(vars, "XDG_RUNTIME_DIR", runtime);
	box_switches(vars);
}

static void root_vars(struct buf *vars)
{
	static const char *const names[] = {"TERM", "COLORTERM", "NO_COLOR"};

	pass_vars(names, ARRAY_SIZE(names), vars);
	box_vars_set(vars, "PATH",
		     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
		     "/sbin:/bin");
}

void box_vars(const struct box_spec *spec, uid_t uid, struct buf *vars)
{
	if (spec->rootfs)
		root_vars(vars);
	else
		host_vars(uid, vars);
	box_vars_set(vars, "HOME", spec->home);
	box_vars_set(vars, "COWFS_ENV", spec->env);
	if (spec->net == BOX_NET_PRIVATE)
		set_proxy(vars);
}

static void set_number(struct buf *vars, const char *name, unsigned n)
{
	char text[16];

	(void)snprintf(text, sizeof text, "%u", n);
	box_vars_set(vars, name, text);
}

void box_ports_vars(const struct box_ports *p, struct buf *vars)
{
	char text[64];

	for (size_t i = 0; i < p->count; i++) {
		(void)snprintf(text, sizeof text, "COWFS_PORT_%zu", i);
		set_number(vars, text, p->v[i]);
	}
	if (p->count) {
		set_number(vars, "PORT", p->v[0]);
		(void)snprintf(text, sizeof text, "http://%s:%u", p->host,
			       p->v[0]);
		box_vars_set(vars, "COWFS_URL", text);
	}
	if (p->database)
		set_number(vars, "PGPORT", p->database);
}

char **box_vars_list(struct buf *vars)
{
	size_t n = 0;
	char **list;

	if (buf_error(vars))
		return NULL;
	for (size_t at = 0; at < vars->len; n++)
		at += strlen((char *)vars->data + at) + 1;
	list = calloc(n + 1, sizeof *list);
	n = 0;
	for (size_t at = 0; list && at < vars->len; n++) {
		list[n] = (char *)vars->data + at;
		at += strlen(list[n]) + 1;
	}
	return list;
}
