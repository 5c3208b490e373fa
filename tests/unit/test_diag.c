/* SPDX-License-Identifier: MIT */
/* Tests of base/diag.h and base/err.h. */
#include "test.h"

#include "base/diag.h"
#include "base/err.h"

#include <limits.h>

TEST(lines_come_back_in_the_order_they_were_added)
{
	_cleanup_diag_ struct diag d = {0};

	diag_add(&d, "first %d", 1);
	diag_add(&d, "%s", "");
	diag_add(&d, "third");
	assert_int_equal(d.count, 3);
	assert_string_equal(diag_line(&d, 0), "first 1");
	assert_string_equal(diag_line(&d, 1), "");
	assert_string_equal(diag_line(&d, 2), "third");
	assert_null(diag_line(&d, 3));
}

TEST(control_bytes_become_question_marks)
{
	_cleanup_diag_ struct diag d = {0};

	diag_add(&d, "a\nb\x1b[1m\x7f%cz", '\0');
	assert_int_equal(d.count, 1);
	assert_string_equal(diag_line(&d, 0), "a?b?[1m??z");
}

TEST(names_in_utf8_are_kept)
{
	_cleanup_diag_ struct diag d = {0};

	diag_add(&d, "gr\xc3\xbc\xc3\x9f");
	assert_string_equal(diag_line(&d, 0), "gr\xc3\xbc\xc3\x9f");
}

TEST(fail_adds_a_line_and_returns_its_error)
{
	_cleanup_diag_ struct diag d = {0};

	assert_int_equal(diag_fail(&d, -EINVAL, "no %s", "way"), -EINVAL);
	assert_string_equal(diag_line(&d, 0), "no way");
}

TEST(every_function_accepts_null)
{
	diag_add(NULL, "x");
	assert_int_equal(diag_fail(NULL, -EIO, "x"), -EIO);
	assert_null(diag_line(NULL, 0));
	diag_fini(NULL);
}

TEST(fini_leaves_no_lines)
{
	struct diag d = {0};

	diag_add(&d, "x");
	diag_fini(&d);
	assert_int_equal(d.count, 0);
	assert_null(diag_line(&d, 0));
}

TEST(err_text_takes_both_signs_and_any_number)
{
	assert_string_equal(err_text(-ENOENT), "No such file or directory");
	assert_string_equal(err_text(ENOENT), err_text(-ENOENT));
	assert_non_null(strstr(err_text(-EFSCORRUPTED), "structure"));
	assert_non_null(strstr(err_text(-EFSBADCRC), "checksum"));
	assert_string_equal(err_text(99999), "Unknown error");
	assert_string_equal(err_text(INT_MIN), "Unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(lines_come_back_in_the_order_they_were_added),
		RUN(control_bytes_become_question_marks),
		RUN(names_in_utf8_are_kept),
		RUN(fail_adds_a_line_and_returns_its_error),
		RUN(every_function_accepts_null),
		RUN(fini_leaves_no_lines),
		RUN(err_text_takes_both_signs_and_any_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
