/* SPDX-License-Identifier: MIT */
/*
 * start.c - making an environment's sandbox, or finding the one that runs.
 *
 * How: bubblewrap makes the name spaces and the mounts and then executes our
 * first process, from a descriptor (its program is in no file). It is
 * started by a process that ends at once, so that the sandbox is nobody's
 * child. Its options go through a descriptor, too, and do not stand in ps.
 *
 * One pipe tells the end: the first process writes a byte into it when it holds
 * the lock; what bubblewrap says when it fails comes the same way. Two commands
 * that start at once are kept apart by the lock of the folder.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "box/init.h"

enum {
	START_MS = 10000,
	GRACE_MS = 1000,
	OVER_MS = 1000,
	TEXT_BYTES = 512,
	/* Descriptors of bubblewrap and the first process. */
	FD_READY = 20,
	FD_LOCK,
	FD_PROGRAM,
	FD_OPTIONS,
};

/* --- what it is like ----------------------------------------------------- */

/* A mount that is not this one: its server has died, and the environment was
 * mounted anew. A number is not used again while a sandbox has the old one. */
static void put_mount(const struct box_spec *spec, struct buf *b)
{
	struct stat st = {0};

	(void)stat(spec->mount, &st);
	buf_printf(b, "mount %u:%u\n", major(st.st_dev), minor(st.st_dev));
}

/* Likewise its HOME, where that is one. */
static void put_mounts(const struct box_spec *spec, struct buf *b)
{
	struct stat st = {0};

	put_mount(spec, b);
	if (spec->home_view)
		(void)stat(spec->home_view, &st);
	buf_printf(b, "view %u:%u\n", major(st.st_dev), minor(st.st_dev));
}

/* Everything in which two sandboxes may differ; one that runs is compared. */
static void put_shape(const struct box_spec *spec, struct buf *b)
{
	static const char *const shares[] = {"ro", "rw", "hide"};

	put_mounts(spec, b);
	/* A root has homes of its own, one for each user. */
	buf_printf(b, "at %s\nhome %s\nnet %d\nnested %d\n", spec->at,
		   spec->rootfs ? "-" : spec->home, (int)spec->net,
		   spec->nested);
	if (spec->rootfs)
		buf_printf(b, "rootfs 1\n");
	buf_printf(b, "limits %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		   spec->limits.memory, spec->limits.pids,
		   spec->limits.cpus_milli);
	for (size_t i = 0; i < spec->allow_count; i++)
		buf_printf(b, "allow %s\n", spec->allow[i]);
	for (size_t i = 0; i < spec->path_count; i++)
		buf_printf(b, "%s %s\n", shares[spec->paths[i].share],
			   spec->paths[i].path);
}

/* Reads it; false: it is one of another mount. */
static bool read_shape(int folder, const struct buf *mount, struct buf *shape)
{
	enum { SHAPE_MAX = 1 << 20 };

	return io_read_file(folder, "shape", SHAPE_MAX, shape) == 0 &&
	       buf_str(shape) && shape->len >= mount->len &&
	       !memcmp(shape->data, mount->data, mount->len);
}

/* -ESTALE: it is one of a mount that is gone. */
static int check_shape(const struct box_spec *spec, int folder,
		       struct diag *diag)
{
	_cleanup_buf_ struct buf mount = {0}, want = {0}, have = {0};

	put_mounts(spec, &mount);
	put_shape(spec, &want);
	if (buf_error(&want) || buf_error(&mount))
		return -ENOMEM;
	if (!read_shape(folder, &mount, &have))
		return -ESTALE;
	if (want.len == have.len && !memcmp(want.data, have.data, want.len))
		return 0;
	diag_add(diag, "%s: its sandbox runs with other options", spec->env);
	diag_add(diag, "\"cowfs kill %s\" ends it and everything in it",
		 spec->env);
	return -EBUSY;
}

/* --- bubblewrap's options ------------------------------------------------ */

static void put(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text) + 1);
}

static void put_spaces(const struct box_spec *spec, struct buf *b)
{
	put(b, "--unshare-pid");
	put(b, "--as-pid-1");
	put(b, "--unshare-ipc");
	put(b, "--unshare-uts");
	put(b, "--unshare-cgroup-try");
	if (spec->net != BOX_NET_HOST)
		put(b, "--unshare-net");
	if (geteuid() == 0) {
		put(b, "--cap-drop");
		put(b, "ALL");
		return;
	}
	put(b, "--unshare-user");
	put(b, "--uid");
	buf_printf(b, "%u", (unsigned)geteuid());
	buf_put_u8(b, 0);
	put(b, "--gid");
	buf_printf(b, "%u", (unsigned)getegid());
	buf_put_u8(b, 0);
}

static int make_options(const struct box_spec *spec, const struct view *v)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_close_ int fd = -1;
	int r;

	put_spaces(spec, &b);
	view_options(v, &b);
	if (!spec->rootfs) {
		put(&b, "--remount-ro");
		put(&b, "/");
	}
	put(&b, "--chdir");
	put(&b, "/");
	r = buf_error(&b);
	if (r)
		return r;
	fd = memfd_create("options", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = io_pwrite(fd, b.data, b.len, 0);
	return r ? r : TAKE_FD(fd);
}

/* --- the process --------------------------------------------------------- */

struct start {
	const struct box_spec *spec;
	const struct view *view;
	int folder;
	int ready, lock, program, options; /* above BOX_FD_ABOVE */
};

/*
 * Nothing of the caller's goes on to bubblewrap: who waits for the end of a
 * terminal, a pipe or a lock would wait for the end of the sandbox. dup2 clears
 * close-on-exec.
 */
static bool pass_on(const struct start *s)
{
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return false;
	for (size_t i = 0; i < s->view->count; i++)
		if (s->view->steps[i].kind == VIEW_TEXT)
			(void)fcntl(s->view->steps[i].fd, F_SETFD, 0);
	return dup2(s->ready, FD_READY) >= 0 && dup2(s->lock, FD_LOCK) >= 0 &&
	       dup2(s->program, FD_PROGRAM) >= 0 &&
	       dup2(s->options, FD_OPTIONS) >= 0 &&
	       dup2(null, STDIN_FILENO) >= 0 &&
	       dup2(s->ready, STDERR_FILENO) >= 0 &&
	       dup2(s->ready, STDOUT_FILENO) >= 0;
}

static _noreturn_ void exec_bubblewrap(const struct start *s)
{
	char args[16], fd[16], program[32], mark[4352];
	const char *const argv[] = {"bwrap", "--args", args, "--",
				    program, fd,       NULL};
	const char *const vars[] = {
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/"
		"sbin:/usr/sbin:/sbin",
		mark, "COWFS_STORE=/", NULL};
	sigset_t none;

	(void)snprintf(args, sizeof args, "%d", FD_OPTIONS);
	(void)snprintf(fd, sizeof fd, "%d", FD_READY);
	(void)snprintf(program, sizeof program, "/proc/self/fd/%d", FD_PROGRAM);
	(void)snprintf(mark, sizeof mark, "COWFS_BOX=%s/envs/%s",
		       s->spec->store, s->spec->env);
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)umask(022);
	(void)setsid();
	if (cgroup_join(s->folder) < 0) {
		(void)dprintf(s->ready, "cannot join its cgroups");
		_exit(1);
	}
	if (chdir("/") == 0 && pass_on(s))
		(void)execvpe("bwrap", (char *const *)argv,
			      (char *const *)vars);
	(void)dprintf(s->ready, "cannot be executed: %s%s", err_text(errno),
		      errno == ENOENT ? ": install the package bubblewrap"
				      : "");
	_exit(1);
}

/* Forks twice: whoever runs bubblewrap is nobody's child. */
static int launch(const struct start *s)
{
	pid_t pid = fork();
	int state;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			exec_bubblewrap(s);
		_exit(pid < 0);
	}
	while (waitpid(pid, &state, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(state) && !WEXITSTATUS(state) ? 0 : -EAGAIN;
}

/* Reads the byte, or the reason why there is none. */
static int wait_ready(int in, struct diag *diag)
{
	struct pollfd p = {.fd = in, .events = POLLIN};
	char text[TEXT_BYTES];
	size_t len = 0;

	for (;;) {
		int r = poll(&p, 1, START_MS);
		ssize_t n;

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return diag_fail(diag, -ETIMEDOUT,
					 "bubblewrap: does not get ready");
		n = read(in, text + len, sizeof text - 1 - len);
		if (n > 0 && text[len] == BOX_INIT_READY)
			return 0;
		if (n > 0 && len + (size_t)n < sizeof text - 1) {
			len += (size_t)n;
			continue;
		}
		text[len] = 0;
		text[strcspn(text, "\n")] = 0;
		return diag_fail(
			diag, -EPERM, "bubblewrap: %s",
			len ? text + (!strncmp(text, "bwrap: ", 7) ? 7 : 0)
			    : "ended at once");
	}
}

/* A descriptor above those that bubblewrap gets. */
static int move_up(int fd)
{
	int up = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, BOX_FD_ABOVE);

	if (fd >= 0)
		(void)close(fd);
	return up;
}

static int run_bubblewrap(const struct box_spec *spec, const struct view *v,
			  int folder, struct diag *diag)
{
	_cleanup_close_ int in = -1, ready = -1, lock = -1,
			    program = init_image(),
			    options = make_options(spec, v);
	struct start s = {.spec = spec, .view = v, .folder = folder};
	int p[2], r;

	if (options < 0)
		return options;
	if (program == -EACCES)
		return diag_fail(diag, program,
				 "its first process is in memory, which may not "
				 "be executed: set vm.memfd_noexec to 1");
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	s.ready = ready = move_up(p[1]);
	s.lock = lock = move_up(box_lock_file(folder));
	s.program = program = move_up(program);
	s.options = options = move_up(options);
	if (ready < 0 || lock < 0 || program < 0 || options < 0)
		return -EMFILE;
	r = launch(&s);
	(void)close(TAKE_FD(ready));
	return r ? r : wait_ready(in, diag);
}

/* What is to be mounted in the environment has to be there, and no link: its
 * commands could have made it one. */
static int check_points(const struct box_spec *spec, const struct view *v,
			struct diag *diag)
{
	_cleanup_close_ int top =
		open(spec->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < v->count && top >= 0; i++) {
		const struct view_step *s = &v->steps[i];
		const struct view_step *up = view_above(v, i, s->path);
		int fd;

		if (!up || strcmp(up->from, spec->mount) != 0)
			continue;
		fd = io_open_beneath(
			top, s->path + strlen(up->path) + (up->path[1] != 0),
			O_PATH);
		if (fd < 0)
			return diag_fail(diag, fd,
					 "%s: not in the environment, or a "
					 "link: %s",
					 s->path, err_text(fd));
		(void)close(fd);
	}
	return top < 0 ? -errno : 0;
}

/* Makes the mount points in what may be written. */
static int prepare(const struct box_spec *spec, int folder, struct view *v,
		   struct diag *diag)
{
	const char *path;
	int r;

	if (!spec->rootfs)
		return home_prepare(spec, folder, v);
	r = root_prepare(spec, v, &path);
	return r < 0 ? diag_fail(diag, r, "%s: cannot be a mount point: %s",
				 path, err_text(r))
		     : 0;
}

int box_start(const struct box_spec *spec, int folder, struct diag *diag)
{
	_cleanup_(view_fini) struct view v = {0};
	_cleanup_buf_ struct buf shape = {0};
	int r;

	put_shape(spec, &shape);
	r = buf_error(&shape);
	if (!r && !spec->rootfs && !spec->home_view &&
	    mkdirat(folder, "home", 0755) < 0 && errno != EEXIST)
		r = -errno;
	if (!r)
		r = io_write_file(folder, "shape", shape.data, shape.len,
				  false);
	if (!r)
		r = cgroup_make(spec, folder, diag);
	if (!r)
		r = spec->rootfs ? root_view(spec, &v) : host_view(spec, &v);
	if (!r)
		r = prepare(spec, folder, &v, diag);
	if (!r)
		r = check_points(spec, &v, diag);
	if (!r)
		r = run_bubblewrap(spec, &v, folder, diag);
	for (size_t i = 0; i < v.count; i++)
		if (v.steps[i].fd >= 0)
			(void)close(v.steps[i].fd);
	return r;
}

/* Opened anew: the folder that is locked is let go. */
static int take(int folder, int *pidfd, pid_t pid, struct box *box)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	box->pidfd = TAKE_FD(*pidfd);
	box->folder = fd;
	box->pid = pid;
	return 0;
}

/* The folder is locked. */
static int join(const struct box_spec *spec, int folder, struct diag *diag,
		struct box *ret_box)
{
	_cleanup_close_ int pidfd = -1;
	pid_t pid;
	int r;

	pidfd = box_find(folder, &pid);
	if (pidfd < 0)
		return pidfd;
	r = check_shape(spec, folder, diag);
	if (r < 0)
		return r;
	r = relay_start(spec, folder, pidfd, diag);
	if (r < 0)
		return r;
	*ret_box = (struct box){.nested = spec->nested, .rootfs = spec->rootfs};
	return take(folder, &pidfd, pid, ret_box);
}

int box_join(const struct box_spec *spec, struct diag *diag,
	     struct box *ret_box)
{
	_cleanup_close_ int folder =
		box_folder_open(spec->store, spec->env, false);
	int r;

	if (folder < 0)
		return folder == -ENOENT ? -ESRCH : folder;
	r = join(spec, folder, diag, ret_box);
	return r == -ESTALE ? -ESRCH : r;
}

/* Reads the lines "at PATH" and "net N" of a shape. */
static int read_look(const struct buf *shape, struct box_look *ret_look)
{
	const char *at = strstr((const char *)shape->data, "\nat ");
	const char *net = strstr((const char *)shape->data, "\nnet ");
	size_t n = at ? strcspn(at + 4, "\n") : 0;

	if (!n || n >= sizeof ret_look->at || !net)
		return -ESRCH;
	ret_look->net = (enum box_net)strtol(net + 5, NULL, 10);
	memcpy(ret_look->at, at + 4, n);
	ret_look->at[n] = 0;
	return 0;
}

int box_join_any(const struct box_spec *spec, struct box *ret_box,
		 struct box_look *ret_look)
{
	_cleanup_close_ int folder =
		box_folder_open(spec->store, spec->env, false);
	_cleanup_close_ int pidfd = -1;
	_cleanup_buf_ struct buf shape = {0}, mount = {0};
	pid_t pid;
	int r;

	if (folder < 0)
		return folder == -ENOENT ? -ESRCH : folder;
	pidfd = box_find(folder, &pid);
	if (pidfd < 0)
		return pidfd;
	put_mount(spec, &mount);
	if (buf_error(&mount) || !read_shape(folder, &mount, &shape))
		return -ESRCH;
	r = read_look(&shape, ret_look);
	if (r)
		return r;
	*ret_box = (struct box){
		.nested = strstr((char *)shape.data, "\nnested 1\n"),
		.rootfs = strstr((char *)shape.data, "\nrootfs 1\n"),
	};
	return take(folder, &pidfd, pid, ret_box);
}

int box_open(const struct box_spec *spec, struct diag *diag,
	     struct box *ret_box)
{
	_cleanup_close_ int folder =
		box_folder_open(spec->store, spec->env, true);
	struct box_ended ended;
	int r;

	if (folder < 0)
		return folder;
	r = join(spec, folder, diag, ret_box);
	if (r == -ESTALE)
		r = box_end_locked(folder, GRACE_MS, &ended);
	else if (r != -ESRCH)
		return r;
	if (r < 0 && r != -ESRCH)
		return r;
	/* One that just sees its sandbox's end is none for the next. */
	relay_end(folder);
	r = box_start(spec, folder, diag);
	if (r)
		return r;
	r = join(spec, folder, diag, ret_box);
	/* One that lacks its proxy or its ports is of no use. */
	if (r < 0)
		(void)!box_end_locked(folder, 0, &ended);
	return r;
}

bool box_is_over(const struct box *b)
{
	struct pollfd p = {.fd = b->pidfd, .events = POLLIN};

	/* Its end takes those first that were on their way in. */
	return poll(&p, 1, OVER_MS) > 0;
}

void box_close(struct box *b)
{
	if (b->pidfd > 0)
		(void)close(b->pidfd);
	if (b->folder > 0)
		(void)close(b->folder);
}
