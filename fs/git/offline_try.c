/* SPDX-License-Identifier: MIT */
/*
 * offline_try.c - what CMake links to see whether offline.c fits the archive:
 * the parts of libgit2 that reach for the network when they can.
 */
#include <git2.h>

int main(void)
{
	git_repository *repo = NULL;
	git_submodule *sub = NULL;
	git_remote *remote = NULL;

	return git_libgit2_init() < 0 || git_repository_open(&repo, ".") < 0 ||
	       git_checkout_head(repo, NULL) < 0 ||
	       git_submodule_lookup(&sub, repo, "x") < 0 ||
	       git_remote_lookup(&remote, repo, "x") < 0 ||
	       git_remote_fetch(remote, NULL, NULL, NULL) < 0;
}
