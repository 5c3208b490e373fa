/* SPDX-License-Identifier: MIT */
/* Tests of base/proc.h. */
#include "test.h"

#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_process_has_a_state_a_parent_and_a_start)
{
	struct proc_stat own, again, child;
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	assert_ok(proc_stat(getpid(), &own));
	assert_int_equal(own.state, 'R');
	assert_int_equal(own.parent, getppid());
	assert_true(own.resident > 0 && own.start > 0);
	assert_ok(proc_stat(getpid(), &again));
	assert_int_equal(again.start, own.start);
	assert_ok(proc_stat(pid, &child));
	assert_int_equal(child.parent, getpid());
	assert_true(child.start >= own.start);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(a_name_that_looks_like_fields_is_a_name)
{
	struct proc_stat s;
	char name[PROC_COMMAND_BYTES];

	assert_int_equal(prctl(PR_SET_NAME, ") Z 1 (\\x"), 0);
	assert_ok(proc_stat(getpid(), &s));
	assert_int_equal(s.state, 'R');
	assert_int_equal(s.parent, getppid());
	assert_ok(proc_command(getpid(), name));
	assert_string_equal(name, ") Z 1 (\\x");
}

TEST(who_waits_to_be_collected_has_ended)
{
	siginfo_t info;
	struct proc_stat s;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_false(proc_has_ended(getpid()));
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(proc_has_ended(pid));
	assert_ok(proc_stat(pid, &s));
	assert_int_equal(s.state, 'Z');
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_has_ended(pid));
}

TEST(who_is_not_there_has_nothing)
{
	char name[PROC_COMMAND_BYTES];
	struct proc_stat s;

	assert_int_equal(proc_stat(0, &s), -ENOENT);
	assert_int_equal(proc_command(0, name), -ENOENT);
	assert_true(proc_has_ended(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_has_a_state_a_parent_and_a_start),
		cmocka_unit_test(a_name_that_looks_like_fields_is_a_name),
		cmocka_unit_test(who_waits_to_be_collected_has_ended),
		cmocka_unit_test(who_is_not_there_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
