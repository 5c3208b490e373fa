/* SPDX-License-Identifier: MIT */
/*
 * What the proxy of a sandbox reads of a request, and which hosts it refuses.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "box/box_int.h"

TEST(reads_targets)
{
	struct proxy_request q;

	assert_int_equal(proxy_parse("CONNECT a.b:443 HTTP/1.1\r\n\r\n", &q),
			 0);
	assert_true(q.is_tunnel);
	assert_string_equal(q.host, "a.b");
	assert_string_equal(q.port, "443");
	assert_int_equal(
		proxy_parse("PUT http://[::1]:81/x?y HTTP/1.1\r\n\r\n", &q), 0);
	assert_false(q.is_tunnel);
	assert_string_equal(q.host, "::1");
	assert_string_equal(q.port, "81");
	assert_true(!strncmp(q.rest, "/x?y HTTP", 9));
	assert_int_equal(proxy_parse("GET HTTP://h HTTP/1.1\r\n\r\n", &q), 0);
	assert_string_equal(q.host, "h");
	assert_string_equal(q.port, "80");
}

TEST(refuses_what_is_no_request_to_a_proxy)
{
	static const char *const bad[] = {
		"",
		"\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET https://h/ HTTP/1.1\r\n\r\n",
		"CONNECT h HTTP/1.1\r\n\r\n",
		"CONNECT :1 HTTP/1.1\r\n\r\n",
		"CONNECT h:x HTTP/1.1\r\n\r\n",
		"CONNECT [::1 HTTP/1.1\r\n\r\n",
		"CONNECT [::1]x:1 HTTP/1.1\r\n\r\n",
		"GET http://user@h/ HTTP/1.1\r\n\r\n",
		" GET http://h/ HTTP/1.1\r\n\r\n",
	};
	struct proxy_request q;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(proxy_parse(bad[i], &q), -EINVAL);
}

TEST(a_host_that_is_too_long_is_refused)
{
	char head[PROXY_HOST_MAX + 64] = "CONNECT ";
	struct proxy_request q;

	memset(head + 8, 'x', PROXY_HOST_MAX + 1);
	strcpy(head + 8 + PROXY_HOST_MAX + 1, ":1 HTTP/1.1\r\n\r\n");
	assert_int_equal(proxy_parse(head, &q), -EINVAL);
	memmove(head + 8, head + 9, strlen(head + 8));
	assert_int_equal(proxy_parse(head, &q), 0);
	assert_int_equal(strlen(q.host), PROXY_HOST_MAX);
}

static bool is_refused(const char *text)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return proxy_is_refused((const struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return proxy_is_refused((const struct sockaddr *)&six);
}

TEST(own_addresses_are_refused)
{
	static const char *const own[] = {"127.0.0.1",
					  "127.9.9.9",
					  "0.0.0.0",
					  "169.254.169.254",
					  "224.0.0.1",
					  "255.255.255.255",
					  "::",
					  "::1",
					  "::ffff:127.0.0.1",
					  "::ffff:169.254.1.1",
					  "fe80::1",
					  "ff02::1",
					  "::127.0.0.1"};
	static const char *const others[] = {"10.0.0.1",    "192.168.1.1",
					     "169.253.1.1", "126.0.0.1",
					     "2001:db8::1", "::ffff:10.0.0.1"};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		assert_true(is_refused(own[i]));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(is_refused(others[i]));
}

TEST(a_list_decides)
{
	static const char *const list[] = {"a.org", "*.b.org", "localhost:80",
					   "c.org:443"};
	const struct proxy_rules r = {.allow = list, .count = 4}, none = {0};

	assert_int_equal(proxy_judge(&none, "x", "1"), PROXY_WORLD);
	assert_int_equal(proxy_judge(&r, "A.org", "1"), PROXY_WORLD);
	assert_int_equal(proxy_judge(&r, "x.b.org", "1"), PROXY_WORLD);
	assert_int_equal(proxy_judge(&r, "b.org", "1"), PROXY_REFUSED);
	assert_int_equal(proxy_judge(&r, "xb.org", "1"), PROXY_REFUSED);
	assert_int_equal(proxy_judge(&r, "x.a.org", "1"), PROXY_REFUSED);
	assert_int_equal(proxy_judge(&r, "localhost", "80"), PROXY_ANY);
	assert_int_equal(proxy_judge(&r, "localhost", "81"), PROXY_REFUSED);
	assert_int_equal(proxy_judge(&r, "c.org", "80"), PROXY_REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(reads_targets),
		RUN(refuses_what_is_no_request_to_a_proxy),
		RUN(a_host_that_is_too_long_is_refused),
		RUN(own_addresses_are_refused),
		RUN(a_list_decides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
