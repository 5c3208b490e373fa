/* SPDX-License-Identifier: MIT */
/* Tests of ctl/proto.h. */
#include "test.h"

#include "ctl/proto.h"

#include <errno.h>
#include <sys/socket.h>

/* A message of raw bytes. */
static void raw(struct msg *m, const void *data, size_t n)
{
	buf_clear(&m->bytes);
	buf_put(&m->bytes, data, n);
}

static void make_pair(int pair[2])
{
	assert_ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

TEST(fields_come_back_as_they_were_put)
{
	_cleanup_msg_ struct msg m = {0};
	const uint8_t *p;
	char s[16];
	size_t n;

	msg_begin(&m, CTL_MOUNT);
	msg_put_str(&m, CTL_TAG_REF, "base");
	msg_put_u64(&m, CTL_TAG_FLAGS, UINT64_MAX - 1);
	msg_put(&m, CTL_TAG_PATH, "a\0b", 3);
	assert_ok(msg_check(&m));
	assert_int_equal(msg_verb(&m), CTL_MOUNT);
	assert_ok(msg_get_str(&m, CTL_TAG_REF, s, sizeof s));
	assert_string_equal(s, "base");
	assert_true(msg_get_u64(&m, CTL_TAG_FLAGS, 0) == UINT64_MAX - 1);
	p = msg_get(&m, CTL_TAG_PATH, 0, &n);
	assert_int_equal(n, 3);
	assert_memory_equal(p, "a\0b", 3);
}

TEST(a_repeated_tag_is_found_by_its_number)
{
	_cleanup_msg_ struct msg m = {0};
	size_t n;

	msg_begin(&m, CTL_DONE);
	msg_put_str(&m, CTL_TAG_LINE, "one");
	msg_put_u64(&m, CTL_TAG_CODE, 4);
	msg_put_str(&m, CTL_TAG_LINE, "three");
	assert_non_null(msg_get(&m, CTL_TAG_LINE, 1, &n));
	assert_int_equal(n, 5);
	assert_null(msg_get(&m, CTL_TAG_LINE, 2, &n));
}

TEST(a_missing_number_gives_the_fallback)
{
	_cleanup_msg_ struct msg m = {0};

	msg_begin(&m, CTL_DONE);
	msg_put(&m, CTL_TAG_COUNT, "1234", 4); /* not eight bytes */
	assert_true(msg_get_u64(&m, CTL_TAG_CODE, 7) == 7);
	assert_true(msg_get_u64(&m, CTL_TAG_COUNT, 9) == 9);
}

TEST(a_string_is_refused_for_the_reason_it_has)
{
	_cleanup_msg_ struct msg m = {0};
	char s[4];

	msg_begin(&m, CTL_SHOW);
	msg_put_str(&m, CTL_TAG_NAME, "four");
	msg_put_str(&m, CTL_TAG_REF, "");
	msg_put(&m, CTL_TAG_AT, "a\0", 2);
	assert_int_equal(msg_get_str(&m, CTL_TAG_NAME, s, sizeof s), -EMSGSIZE);
	assert_int_equal(msg_get_str(&m, CTL_TAG_REF, s, sizeof s), -EPROTO);
	assert_int_equal(msg_get_str(&m, CTL_TAG_AT, s, sizeof s), -EPROTO);
	assert_int_equal(msg_get_str(&m, CTL_TAG_TEXT, s, sizeof s), -ENOENT);
}

TEST(unknown_tags_are_skipped)
{
	_cleanup_msg_ struct msg m = {0};

	msg_begin(&m, CTL_SHOW);
	msg_put_str(&m, (enum ctl_tag)60000, "from a later version");
	msg_put_u64(&m, CTL_TAG_CODE, 3);
	assert_ok(msg_check(&m));
	assert_true(msg_get_u64(&m, CTL_TAG_CODE, 0) == 3);
}

TEST(another_version_is_refused)
{
	_cleanup_msg_ struct msg m = {0};

	raw(&m, "\2\1\0\0", 4);
	assert_int_equal(msg_check(&m), -EPROTO);
}

TEST(a_message_cut_anywhere_is_refused_or_ends_between_fields)
{
	_cleanup_msg_ struct msg whole = {0}, cut = {0};

	msg_begin(&whole, CTL_SHOW);
	msg_put_str(&whole, CTL_TAG_NAME, "name");
	for (size_t n = 0; n < whole.bytes.len; n++) {
		raw(&cut, whole.bytes.data, n);
		assert_int_equal(msg_check(&cut), n == 4 ? 0 : -EPROTO);
	}
}

TEST(a_length_that_runs_over_the_end_is_refused)
{
	_cleanup_msg_ struct msg m = {0};
	size_t n;

	raw(&m, "\1\1\0\0\3\0\0\0\377\377\377\377abc", 15);
	assert_int_equal(msg_check(&m), -EPROTO);
	assert_null(msg_get(&m, CTL_TAG_NAME, 0, &n));
}

TEST(a_message_over_the_limit_is_refused_before_it_is_sent)
{
	_cleanup_free_ char *big = calloc(1, CTL_MAX_MESSAGE);
	_cleanup_msg_ struct msg m = {0};
	int pair[2];

	make_pair(pair);
	msg_begin(&m, CTL_ROW);
	msg_put(&m, CTL_TAG_PATH, big, CTL_MAX_MESSAGE);
	assert_int_equal(msg_check(&m), -EMSGSIZE);
	assert_int_equal(msg_send(pair[0], &m, 100), -EMSGSIZE);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

TEST(what_is_sent_is_received)
{
	_cleanup_msg_ struct msg out = {0}, in = {0};
	int pair[2];

	make_pair(pair);
	msg_begin(&out, CTL_LIST);
	msg_put_str(&out, CTL_TAG_NAME, "x");
	assert_ok(msg_send(pair[0], &out, 100));
	assert_ok(msg_send(pair[0], &out, 100));
	for (int i = 0; i < 2; i++) {
		assert_ok(msg_recv(pair[1], &in, 100));
		assert_int_equal(in.bytes.len, out.bytes.len);
		assert_memory_equal(in.bytes.data, out.bytes.data,
				    in.bytes.len);
	}
	(void)close(pair[0]);
	assert_int_equal(msg_recv(pair[1], &in, 100), -ECONNRESET);
	(void)close(pair[1]);
}

TEST(receiving_ends_at_its_time_limit_also_in_the_middle)
{
	_cleanup_msg_ struct msg in = {0};
	int pair[2];

	make_pair(pair);
	assert_int_equal(msg_recv(pair[1], &in, 20), -ETIMEDOUT);
	assert_int_equal(write(pair[0], "\10\0\0\0\1", 5), 5);
	assert_int_equal(msg_recv(pair[1], &in, 20), -ETIMEDOUT);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

TEST(an_announced_length_over_the_limit_is_refused_at_once)
{
	_cleanup_msg_ struct msg in = {0};
	int pair[2];

	make_pair(pair);
	assert_int_equal(write(pair[0], "\377\377\377\177", 4), 4);
	assert_int_equal(msg_recv(pair[1], &in, 1000), -EMSGSIZE);
	assert_int_equal(write(pair[0], "\1\0\0\0\1", 5), 5);
	assert_int_equal(msg_recv(pair[1], &in, 1000), -EPROTO);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

TEST(sending_to_one_who_does_not_read_ends_at_its_time_limit)
{
	_cleanup_free_ char *big = calloc(1, 60000);
	_cleanup_msg_ struct msg out = {0};
	int pair[2];
	int r = 0;

	make_pair(pair);
	msg_begin(&out, CTL_ROW);
	msg_put(&out, CTL_TAG_PATH, big, 60000);
	for (int i = 0; i < 1000 && r == 0; i++)
		r = msg_send(pair[0], &out, 20);
	assert_int_equal(r, -ETIMEDOUT);
	(void)close(pair[1]);
	assert_int_equal(msg_send(pair[0], &out, 20), -ECONNRESET);
	(void)close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(fields_come_back_as_they_were_put),
		RUN(a_repeated_tag_is_found_by_its_number),
		RUN(a_missing_number_gives_the_fallback),
		RUN(a_string_is_refused_for_the_reason_it_has),
		RUN(unknown_tags_are_skipped),
		RUN(another_version_is_refused),
		RUN(a_message_cut_anywhere_is_refused_or_ends_between_fields),
		RUN(a_length_that_runs_over_the_end_is_refused),
		RUN(a_message_over_the_limit_is_refused_before_it_is_sent),
		RUN(what_is_sent_is_received),
		RUN(receiving_ends_at_its_time_limit_also_in_the_middle),
		RUN(an_announced_length_over_the_limit_is_refused_at_once),
		RUN(sending_to_one_who_does_not_read_ends_at_its_time_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
