/* SPDX-License-Identifier: MIT */
/*
 * host.c - what a sandbox shows of the host, and what it hides.
 *
 * How: the root is an empty directory in memory, into which the host's top
 * folders are bound read-only, so that a mount point that the host does not
 * have can be made. Some folders are left out and stand empty (homes, /run:
 * sockets are open on read-only mounts, too), some are private (/tmp), some
 * files are covered. As root, who owns them, that includes the machine's
 * secrets.
 *
 * A mount point that is missing below a folder of the host (an origin that is
 * gone) needs that folder writable: it is mirrored, an empty directory with
 * each of its entries bound.
 *
 * Where the environment is the root itself, nothing of the host is there but
 * what the user names; what hides is for that.
 */
#include "box/box_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/name.h"

/* Top folders that are not bound. */
static const char *const left_out[] = {
	"proc", "dev", "tmp", "run", "home", "root", "lost+found",
};

static const char *const empty[] = {
	"/proc/kcore",
	"/proc/keys",
	"/proc/timer_list",
	"/proc/sched_debug",
	"/proc/acpi",
	"/proc/scsi",
	"/proc/fs",
	"/sys/firmware",
	"/sys/kernel/debug",
	"/sys/kernel/tracing",
	"/sys/kernel/security",
	"/sys/fs/bpf",
	"/sys/fs/pstore",
	"/sys/fs/fuse/connections",
	"/var/lib/cowfs",
	"/var/lib/docker",
	"/var/lib/containerd",
	"/var/lib/containers",
	"/var/lib/kubelet",
	"/var/lib/systemd/coredump",
	"/var/spool/cron",
	"/boot",
};

/* What root could read without capabilities, for its owner is root. */
static const char *const secrets[] = {
	"/etc/shadow",
	"/etc/shadow-",
	"/etc/gshadow",
	"/etc/gshadow-",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/etc/ssl/private",
	"/etc/docker",
	"/etc/krb5.keytab",
	"/etc/NetworkManager/system-connections",
	"/etc/wireguard",
	"/etc/ssh/ssh_host_rsa_key",
	"/etc/ssh/ssh_host_dsa_key",
	"/etc/ssh/ssh_host_ecdsa_key",
	"/etc/ssh/ssh_host_ed25519_key",
	"/var/lib/private",
	"/var/log",
};

/* Of /run, which stands empty else. */
static const char *const wanted[] = {
	"/run/current-system",
	"/run/opengl-driver",
	"/run/resolvconf/resolv.conf",
};

static bool is_left_out(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		if (!strcmp(name, left_out[i]))
			return true;
	return false;
}

/* Adds one entry of a directory of the host. */
static void add_entry(struct view *v, const char *dir, const char *name)
{
	char path[PATH_MAX], text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (snprintf(path, sizeof path, "%s/%s", dir, name) >=
		    (int)sizeof path ||
	    lstat(path, &st) < 0)
		return;
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) {
		view_add(v, VIEW_RO, path, NULL);
	} else if (S_ISLNK(st.st_mode)) {
		n = readlink(path, text, sizeof text - 1);
		if (n < 0)
			return;
		text[n] = 0;
		view_add(v, VIEW_LINK, path, text);
	}
}

static int add_entries(struct view *v, const char *dir,
		       bool (*skip)(const char *name))
{
	DIR *d = opendir(*dir ? dir : "/");
	const struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 && !(skip && skip(e->d_name)))
			add_entry(v, dir, e->d_name);
	(void)closedir(d);
	return 0;
}

/* Makes room for a mount point that the host does not have: exists is how much
 * of it there is. */
static int mirror(struct view *v, const char *path, size_t exists)
{
	_cleanup_free_ char *dir = strndup(path, exists);
	const struct view_step *up;

	if (!dir)
		return -ENOMEM;
	if (!path[exists] || exists <= 1)
		return 0;
	/* What is private or in memory has room as it is. */
	for (size_t i = v->count; i-- > 0;) {
		up = &v->steps[i];
		if (!name_below(dir, up->path))
			continue;
		if (up->kind != VIEW_RO)
			return 0;
		break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		if (!strncmp(dir + 1, left_out[i], strlen(left_out[i])) &&
		    name_below(dir + 1, left_out[i]))
			return 0;
	view_add(v, VIEW_EMPTY, dir, NULL)->keep = true;
	return add_entries(v, dir, NULL);
}

/* The file that says where names are looked up often lies in /run. */
static void add_resolver(struct view *v)
{
	_cleanup_free_ char *real = realpath("/etc/resolv.conf", NULL);

	if (real && name_below(real, "/run"))
		view_add(v, VIEW_RO, real, NULL);
}

static void add_hidden(const struct box_spec *spec, struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
		view_hide(v, empty[i]);
	for (size_t i = 0; i < ARRAY_SIZE(secrets) && geteuid() == 0; i++)
		view_hide(v, secrets[i]);
	for (size_t i = 0; i < spec->hidden_count; i++)
		view_hide(v, spec->hidden[i]);
	view_hide(v, spec->store);
}

/* What root could change there without capabilities. They show the name spaces
 * of whoever looks, so the host's serve as well as the sandbox's. */
static void add_fixed(struct view *v)
{
	static const char *const fixed[] = {"/proc/sys", "/proc/irq",
					    "/proc/bus", "/proc/sysrq-trigger"};
	for (size_t i = 0; i < ARRAY_SIZE(fixed) && geteuid() == 0; i++)
		if (!access(fixed[i], F_OK))
			view_add(v, VIEW_RO, fixed[i], NULL);
}

static void add_private(struct view *v)
{
	view_add(v, VIEW_PROC, "/proc", NULL);
	add_fixed(v);
	view_add(v, VIEW_DEV, "/dev", NULL);
	view_add(v, VIEW_TMP, "/dev/shm", NULL);
	view_add(v, VIEW_TMP, "/tmp", NULL);
	if (!access("/var/tmp", F_OK))
		view_add(v, VIEW_TMP, "/var/tmp", NULL);
	view_add(v, VIEW_EMPTY, "/run", NULL)->keep = true;
	view_add(v, VIEW_TMP, "/run/user", NULL);
	view_add(v, VIEW_TMP, "/run/lock", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!access(wanted[i], F_OK))
			view_add(v, VIEW_RO, wanted[i], NULL);
	add_resolver(v);
}

/* What the user wants there, or not. */
static int add_wishes(const struct box_spec *spec, struct view *v)
{
	for (size_t i = 0; i < spec->path_count; i++) {
		const struct box_path *p = &spec->paths[i];
		_cleanup_free_ char *real = realpath(p->path, NULL);
		struct view_step *s;
		struct stat st;

		if (!real || stat(real, &st) < 0)
			return -errno;
		s = view_add(v,
			     p->share == BOX_RO	  ? VIEW_RO
			     : p->share == BOX_RW ? VIEW_RW
						  : VIEW_EMPTY,
			     real, NULL);
		s->is_file = !S_ISDIR(st.st_mode);
		s->keep = true;
	}
	return 0;
}

int host_view(const struct box_spec *spec, struct view *v)
{
	_cleanup_free_ char *at = NULL, *home = NULL;
	size_t at_exists, home_exists;
	int r = box_resolve(spec->at, &at, &at_exists);

	if (!r)
		r = box_resolve(spec->home, &home, &home_exists);
	if (!r)
		r = add_entries(v, "", is_left_out);
	if (r)
		return r;
	add_hidden(spec, v);
	add_private(v);
	r = mirror(v, home, home_exists);
	if (!r && !name_below(home, at))
		home_view(spec, home, v);
	if (!r)
		r = mirror(v, at, at_exists);
	if (!r)
		r = add_wishes(spec, v);
	if (!r)
		view_add(v, VIEW_RW, at, spec->mount);
	return r ? r : view_settle(v);
}

int root_view(const struct box_spec *spec, struct view *v)
{
	int r;

	view_add(v, VIEW_RW, "/", spec->mount);
	/* Of these only what a wish of the user's or /proc would show. */
	add_hidden(spec, v);
	view_add(v, VIEW_PROC, "/proc", NULL);
	add_fixed(v);
	view_add(v, VIEW_DEV, "/dev", NULL);
	view_add(v, VIEW_TMP, "/dev/shm", NULL);
	view_add(v, VIEW_TMP, "/tmp", NULL);
	r = add_wishes(spec, v);
	return r ? r : view_settle(v);
}
