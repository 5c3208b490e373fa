/* SPDX-License-Identifier: MIT */
/*
 * env_model.h - a simple model of a file system, to compare an environment to.
 *
 * All names come from a small set, so that operations meet; a directory is an
 * array over it. Of times the model knows which were to move since the last
 * comparison. Node 0 is none, ROOT the root.
 *
 * Contract
 *   Ownership   model_load makes the nodes, model_free frees all
 *   Threads     one
 */
#ifndef COWFS_TESTS_ENV_MODEL_H
#define COWFS_TESTS_ENV_MODEL_H

#include "env_case.h"

enum { NAMES = 12, INODES = 4000, XNAMES = 4, ROOT = 1 };

extern const char *const model_names[NAMES];
extern const char *const model_xnames[XNAMES];

enum { MTIME = 1, CTIME = 2 };

struct node {
	bool used;
	uint64_t ino, size, rdev;
	uint32_t mode, uid, gid, nlink;
	uint8_t *data;
	char target[16];
	int parent;
	int child[NAMES]; /* 0: no such name */
	int xlen[XNAMES]; /* -1: none */
	uint8_t xbyte[XNAMES];
	struct timespec mtime, ctime;
	unsigned moved; /* times that changed since the comparison */
};

extern struct node nodes[INODES];

/* A number below `below`, from the seed. */
unsigned model_random(unsigned below);
void model_seed(unsigned value);

static inline bool is_dir(int i)
{
	return (nodes[i].mode & 0170000) == 0040000;
}

int node_new(const struct env_attr *a, int parent);
void node_free(int i);
/* Finds a node by inode number; 0: none. */
int node_find(uint64_t ino);
/* Reads the model from an environment. */
void model_load(struct env_case *c);
/* Fails the test where the environment differs. */
void model_compare(struct env_case *c);
void model_free(void);

#endif
