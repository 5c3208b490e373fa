/* SPDX-License-Identifier: MIT */
/*
 * Which overlay has a layer in a mount, by its options as mountinfo has them.
 */
#include "test.h"

#include <string.h>

#include "serve/mounts_int.h"

static bool is_over(const char *type, const char *options)
{
	const struct mounts_entry e = {.type = type, .options = options};

	return mounts_is_over(&e, "/s/mnt/e");
}

TEST(a_layer_at_or_below_the_mount_counts)
{
	assert_true(is_over("overlay", "rw,lowerdir=/s/mnt/e,upperdir=/u"));
	assert_true(is_over("overlay", "rw,lowerdir=/a:/s/mnt/e/x:/b"));
	assert_true(is_over("overlay", "ro,lowerdir+=/a,lowerdir+=/s/mnt/e"));
	assert_true(is_over("overlay", "rw,lowerdir=/a,upperdir=/s/mnt/e/u"));
}

TEST(what_only_looks_like_it_does_not)
{
	assert_false(is_over("overlay", "rw,lowerdir=/s/mnt/e2:/s/mnt"));
	assert_false(is_over("overlay", "rw,xlowerdir=/s/mnt/e,lowerdir=/a"));
	assert_false(is_over("tmpfs", "rw,lowerdir=/s/mnt/e"));
	assert_false(is_over("overlay", "rw,lowerdir=,upperdir=,,lowerdir"));
	assert_false(is_over("overlay", NULL));
}

TEST(escaped_bytes_are_read)
{
	const struct mounts_entry e = {
		.type = "overlay",
		.options = "rw,lowerdir=/a\\040b\\054c/x,upperdir=/u"};

	assert_true(mounts_is_over(&e, "/a b,c"));
	assert_false(mounts_is_over(&e, "/a"));
}

struct seen {
	unsigned proc, root;
};

static int see(void *ctx, const struct mounts_entry *e)
{
	struct seen *s = ctx;

	assert_int_not_equal(e->id, 0);
	if (!strcmp(e->path, "/proc") && !strcmp(e->type, "proc"))
		s->proc = e->parent;
	if (!strcmp(e->path, "/"))
		s->root = e->id;
	return 0;
}

TEST(an_entry_tells_what_it_lies_on)
{
	struct seen s = {0};

	assert_int_equal(mounts_walk(0, see, &s), 0);
	assert_int_equal(s.proc, s.root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(a_layer_at_or_below_the_mount_counts),
		RUN(what_only_looks_like_it_does_not),
		RUN(escaped_bytes_are_read),
		RUN(an_entry_tells_what_it_lies_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
