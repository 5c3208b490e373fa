/* SPDX-License-Identifier: MIT */
/*
 * What a rescue writes into the origin, read by git's own program. The
 * environment is a plain copy here: it needs no mount.
 */
#include "test.h"

#include <errno.h>

#include "git/rescue.h"

static const char ref[] = "refs/cowfs/rescue/e-1";

static const char make[] =
	"export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null "
	"GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t GIT_COMMITTER_NAME=t "
	"GIT_COMMITTER_EMAIL=t; set -e; cd %s; git init -q -b main o; cd o; "
	"for i in 1 2 3; do echo $i > f$i; done; echo '*.o' > .gitignore; "
	"git add -A; git commit -qm one; git tag -a old -m old; "
	"git switch -qc side; echo s > f1; git commit -qam side; "
	"git switch -q main; echo m > f1; git commit -qam main; cd ..; "
	"cp -a o e; cd e; echo 1 >> f2; git stash -q; echo 2 >> f2; "
	"git stash -q; git switch -qc own; echo own > own; git add own; "
	"git commit -qm own; git tag -a heavy -m heavy; git tag tree "
	"HEAD^{tree};"
	"echo x > own; git commit -qam x; git commit -q --amend -m amended; "
	"git switch -q main; git merge side >/dev/null || true; "
	"echo u > new; echo i > new.o; echo s > f3; git add f3; echo w > f3";

static int run(void **state, const char *script)
{
	char *command = NULL;
	int r = asprintf(&command, "set -e; cd %s; R=%s; %s", (char *)*state,
			 ref, script);

	assert_true(r > 0);
	r = system(command);
	free(command);
	return r;
}

static int setup(void **state)
{
	char *command = NULL, *top = strdup("/tmp/cowfs-u-XXXXXX");
	int r;

	if (!top || !mkdtemp(top) || asprintf(&command, make, top) < 0)
		return -1;
	*state = top;
	r = system(command);
	free(command);
	return r;
}

static int teardown(void **state)
{
	int r = io_remove_tree(AT_FDCWD, *state);

	free(*state);
	return r;
}

static int rescue(void **state, char commit[GIT_HEX_BYTES])
{
	static const char *const paths[] = {"f1", "f3", "new", "new.o"};
	_cleanup_gitchanges_ struct gitchanges changes = {0};
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_gitrescue_ struct gitrescue *g = NULL;
	char origin[64], view[64];
	const struct gitwork work = {.origin = origin,
				     .view = view,
				     .env = "e",
				     .changes = &changes};
	int r;

	(void)snprintf(origin, sizeof origin, "%s/o/.git", (char *)*state);
	(void)snprintf(view, sizeof view, "%s/e", (char *)*state);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct delta_row row = {.kind = DELTA_ADDED,
					      .path = paths[i],
					      .path_len = strlen(paths[i])};

		assert_int_equal(gitchanges_add(&changes, &row), 0);
	}
	r = gitrescue_gather(&work, &diag, &g);
	return r ? r : gitrescue_publish(g, ref, "message\n", commit);
}

static int drop(void **state, const char *commit)
{
	char origin[64];

	(void)snprintf(origin, sizeof origin, "%s/o/.git", (char *)*state);
	return gitrescue_drop(origin, ref, commit, NULL);
}

static void a_ref_keeps_all_that_the_origin_lacks(void **state)
{
	char commit[GIT_HEX_BYTES];

	assert_int_equal(run(state, "cp -a o before"), 0);
	assert_int_equal(rescue(state, commit), 0);
	assert_int_equal(rescue(state, commit), -EEXIST);
	assert_int_equal(run(state, "for f in HEAD index config; do cmp "
				    "o/.git/$f before/.git/$f; done; cd o; "
				    "git gc -q --prune=now; "
				    "test -z \"$(git fsck --full --strict)\"; "
				    "test -z \"$(git status --short)\""),
			 0);
	/* the files; what is ignored is not among them */
	assert_int_equal(run(state, "cd o; for f in f1 f2 f3 new; do git show "
				    "$R:$f | cmp - ../e/$f; done; "
				    "! git cat-file -e $R:new.o 2>/dev/null"),
			 0);
	/* the index, and its bytes */
	assert_int_equal(run(state, "cd o; test $(git show $R^2:index/f3) = s; "
				    "git show $R^2:index.raw | "
				    "cmp - ../e/.git/index; "
				    "git show $R^2:git/MERGE_HEAD | "
				    "cmp - ../e/.git/MERGE_HEAD"),
			 0);
	/* every commit that a ref or a reflog of the environment names */
	assert_int_equal(run(state, "cd e; for o in $(git stash list "
				    "--format=%H; git reflog --format=%H; "
				    "git rev-parse own heavy^{}); do git -C "
				    "../o for-each-ref --contains $o | "
				    "grep -q .; done; git -C ../o merge-base "
				    "--is-ancestor $(git rev-parse own) $R"),
			 0);
	/* refs, and the bytes of a tag */
	assert_int_equal(run(state, "git -C e for-each-ref "
				    "--format='%(refname) %(objectname)' | sort"
				    " > refs; cd o; git show $R^2:refs | "
				    "cut -d' ' -f1,2 | sort | cmp - ../refs; "
				    "test $(git show $R^2:tags/refs/tags/heavy "
				    "| git hash-object -t tag --stdin) = "
				    "$(git -C ../e rev-parse heavy)"),
			 0);
}

static void a_ref_goes_only_from_where_it_was_left(void **state)
{
	static const char other[] = "1111111111111111111111111111111111111111";
	char commit[GIT_HEX_BYTES];

	assert_int_equal(rescue(state, commit), 0);
	assert_int_equal(drop(state, other), -EBUSY);
	assert_int_equal(run(state, "git -C o rev-parse -q --verify $R >out"),
			 0);
	assert_int_equal(drop(state, commit), 0);
	assert_int_equal(run(state, "! git -C o rev-parse -q --verify $R >out"),
			 0);
	assert_int_equal(drop(state, commit), 0);
	assert_int_equal(run(state, "rm -rf o"), 0);
	assert_int_equal(drop(state, commit), 0);
}

static void damage_is_left_out_or_refused(void **state)
{
	char commit[GIT_HEX_BYTES];

	/* an index that is none: HEAD and the files, and its bytes */
	assert_int_equal(run(state, "echo junk > e/.git/index; "
				    "echo nonsense > e/.git/refs/heads/bad"),
			 0);
	assert_int_equal(rescue(state, commit), 0);
	assert_int_equal(run(state, "cd o; test \"$(git show $R^2:index.raw)\" "
				    "= junk; git show $R:new | cmp - ../e/new; "
				    "git show $R:f2 | cmp - ../e/f2; "
				    "test -z \"$(git fsck --full)\""),
			 0);
	assert_int_equal(drop(state, commit), 0);
	assert_int_equal(run(state, "rm -rf e/.git"), 0);
	assert_int_equal(rescue(state, commit), -ENOENT);
	assert_int_equal(run(state, "test -z \"$(git -C o for-each-ref "
				    "refs/cowfs)\""),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_ref_keeps_all_that_the_origin_lacks, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_ref_goes_only_from_where_it_was_left, setup,
			teardown),
		cmocka_unit_test_setup_teardown(damage_is_left_out_or_refused,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
