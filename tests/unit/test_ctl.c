/* SPDX-License-Identifier: MIT */
/* Tests of ctl/server.h and ctl/client.h, over a real socket. */
#include "test.h"

#include "base/clock.h"
#include "ctl/client.h"
#include "ctl/server.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

enum { ROWS = 3, MANY = 80 };

/* Answers LIST with rows, SHOW with silence (closed), STOP slowly. */
static int answer(void *ctx, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done)
{
	_cleanup_msg_ struct msg row = {0};
	int r = 0;

	if (msg_verb(request) == CTL_SHOW)
		return -EIO;
	if (msg_verb(request) == CTL_STOP)
		(void)usleep(700000);
	for (int i = 0; msg_verb(request) == CTL_LIST && i < ROWS && r == 0;
	     i++) {
		msg_begin(&row, CTL_ROW);
		msg_put_u64(&row, CTL_TAG_COUNT, (uint64_t)i);
		r = msg_send(peer->fd, &row, 1000);
	}
	msg_put_u64(done, CTL_TAG_CODE, 0);
	msg_put_u64(done, CTL_TAG_PID, (uint64_t)peer->pid);
	return r;
}

struct fixture {
	struct test_scratch *scratch;
	struct ctl_server *server;
};

static int setup(void **state)
{
	static struct fixture f;
	void *scratch = NULL;

	if (test_scratch_setup(&scratch) < 0)
		return -1;
	f.scratch = scratch;
	*state = &f;
	return ctl_server_start(f.scratch->fd, answer, NULL, &f.server);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	void *scratch = f->scratch;

	ctl_server_stop(f->server);
	return test_scratch_teardown(&scratch);
}

static int call(int fd, enum ctl_verb verb, client_row_fn fn, void *ctx,
		struct msg *done)
{
	_cleanup_msg_ struct msg request = {0};

	msg_begin(&request, verb);
	return client_call(fd, &request, fn, ctx, done);
}

static int connect_to(struct fixture *f)
{
	int fd = -1;

	assert_ok(client_connect(f->scratch->path, &fd));
	return fd;
}

static int sum_rows(void *ctx, const struct msg *row)
{
	*(uint64_t *)ctx += msg_get_u64(row, CTL_TAG_COUNT, 100) + 1;
	return 0;
}

static int refuse_row(void *ctx, const struct msg *row)
{
	return -ECANCELED;
}

TEST(a_request_gets_its_rows_and_its_end)
{
	_cleanup_msg_ struct msg done = {0};
	_cleanup_close_ int fd = connect_to(*state);
	uint64_t sum = 0;

	assert_ok(call(fd, CTL_LIST, sum_rows, &sum, &done));
	assert_true(sum == 6);
	assert_true(msg_get_u64(&done, CTL_TAG_PID, 0) == (uint64_t)getpid());
	/* The connection goes on. */
	assert_ok(call(fd, CTL_STATUS, NULL, NULL, &done));
}

TEST(a_callback_ends_the_call)
{
	_cleanup_msg_ struct msg done = {0};
	_cleanup_close_ int fd = connect_to(*state);

	assert_int_equal(call(fd, CTL_LIST, refuse_row, NULL, &done),
			 -ECANCELED);
}

TEST(a_handler_that_fails_closes_the_connection)
{
	_cleanup_msg_ struct msg done = {0};
	_cleanup_close_ int fd = connect_to(*state);

	assert_int_equal(call(fd, CTL_SHOW, NULL, NULL, &done), -ECONNRESET);
}

TEST(a_malformed_message_closes_the_connection)
{
	_cleanup_msg_ struct msg in = {0};
	_cleanup_close_ int fd = connect_to(*state);

	assert_int_equal(write(fd, "\4\0\0\0\11\1\0\0", 8), 8);
	assert_int_equal(msg_recv(fd, &in, 2000), -ECONNRESET);
}

TEST(the_socket_is_for_its_owner_alone)
{
	struct fixture *f = *state;
	struct stat st;

	assert_ok(fstatat(f->scratch->fd, "ctl.sock", &st, 0));
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
}

TEST(silent_clients_do_not_keep_others_out)
{
	_cleanup_msg_ struct msg done = {0};
	uint64_t start = clock_mono_ns();
	int silent[MANY];
	int fd;

	for (int i = 0; i < MANY; i++) {
		silent[i] = connect_to(*state);
		assert_int_equal(write(silent[i], "\4\0", 2), 2);
	}
	fd = connect_to(*state);
	assert_ok(call(fd, CTL_STATUS, NULL, NULL, &done));
	assert_true(clock_mono_ns() - start < UINT64_C(10000000000));
	(void)close(fd);
	for (int i = 0; i < MANY; i++)
		(void)close(silent[i]);
}

TEST(a_request_in_work_does_not_hold_others_up)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int slow = connect_to(*state);
	_cleanup_close_ int fd = connect_to(*state);
	struct pollfd p = {.fd = slow, .events = POLLIN};

	msg_begin(&request, CTL_STOP);
	assert_ok(msg_send(slow, &request, 1000));
	assert_ok(call(fd, CTL_STATUS, NULL, NULL, &done));
	assert_int_equal(poll(&p, 1, 0), 0);
}

TEST(stopping_lets_an_answer_be_finished_and_removes_the_socket)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	struct fixture *f = *state;
	_cleanup_close_ int slow = connect_to(f);
	int fd;

	msg_begin(&request, CTL_STOP);
	assert_ok(msg_send(slow, &request, 1000));
	(void)usleep(50000);
	ctl_server_stop(f->server);
	f->server = NULL;
	assert_ok(msg_recv(slow, &done, 1000));
	assert_int_equal(msg_verb(&done), CTL_DONE);
	assert_int_equal(client_connect(f->scratch->path, &fd), -ECONNREFUSED);
	assert_int_equal(faccessat(f->scratch->fd, "ctl.sock", F_OK, 0), -1);
}

TEST(a_path_over_the_limit_of_sockets_works)
{
	_cleanup_msg_ struct msg done = {0};
	struct fixture *f = *state;
	struct ctl_server *server;
	char path[512];
	char name[201];
	int dir;
	int fd;

	memset(name, 'x', 200);
	name[200] = '\0';
	(void)snprintf(path, sizeof path, "%s/%s", f->scratch->path, name);
	assert_ok(mkdir(path, 0700));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	assert_ok(ctl_server_start(dir, answer, NULL, &server));
	(void)close(dir);
	assert_ok(client_connect(path, &fd));
	assert_ok(call(fd, CTL_STATUS, NULL, NULL, &done));
	(void)close(fd);
	ctl_server_stop(server);
}

TEST(a_stale_socket_is_replaced)
{
	_cleanup_msg_ struct msg done = {0};
	struct fixture *f = *state;
	struct ctl_server *second;
	int fd;

	/* What the caller's lock makes sure of in the real server. */
	assert_ok(ctl_server_start(f->scratch->fd, answer, NULL, &second));
	fd = connect_to(f);
	assert_ok(call(fd, CTL_STATUS, NULL, NULL, &done));
	(void)close(fd);
	ctl_server_stop(second);
}

TEST(no_store_and_no_server_look_the_same)
{
	int fd;

	assert_int_equal(client_connect("/nonexistent/store", &fd),
			 -ECONNREFUSED);
}

#define RUN_SERVER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SERVER(a_request_gets_its_rows_and_its_end),
		RUN_SERVER(a_callback_ends_the_call),
		RUN_SERVER(a_handler_that_fails_closes_the_connection),
		RUN_SERVER(a_malformed_message_closes_the_connection),
		RUN_SERVER(the_socket_is_for_its_owner_alone),
		RUN_SERVER(silent_clients_do_not_keep_others_out),
		RUN_SERVER(a_request_in_work_does_not_hold_others_up),
		RUN_SERVER(
			stopping_lets_an_answer_be_finished_and_removes_the_socket),
		RUN_SERVER(a_path_over_the_limit_of_sockets_works),
		RUN_SERVER(a_stale_socket_is_replaced),
		RUN(no_store_and_no_server_look_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
