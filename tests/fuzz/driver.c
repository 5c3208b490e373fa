/* SPDX-License-Identifier: MIT */
/*
 * driver.c - runs a fuzz target without libFuzzer:
 *   PROGRAM CORPUS [RUNS|SECONDSs [SEED]]
 *
 * How: every file of the corpus first, then RUNS inputs, or as many as the time
 * allows, each made from a file by a few random edits. The generator is seeded
 * (0: by the clock). Inputs are copied into a block of their exact size: a
 * sanitizer sees every byte read too far. When the target aborts, or works on
 * one input for half a minute, the input is printed in hex.
 *
 * CORPUS may be one file: `xxd -r -p` of that print makes it.
 */
#include "fuzz.h"

#include "base/clock.h"
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum {
	MAX_FILES = 256,
	INPUT_BYTES_MAX = 1 << 16,
	MAX_EDITS = 6,
	LIMIT_S = 30,
};

static struct buf files[MAX_FILES];
static size_t file_count;
static uint64_t rng_state;

/* The input being run, for the report. */
static const uint8_t *now_data;
static size_t now_size;

static void report(int sig)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < now_size; i++) {
		char hex[2] = {digits[now_data[i] >> 4],
			       digits[now_data[i] & 15]};

		if (write(STDERR_FILENO, hex, sizeof hex) < 0)
			break;
	}
	(void)!write(STDERR_FILENO, "\n", 1);
	(void)signal(SIGABRT, SIG_DFL);
	(void)raise(SIGABRT);
}

/* A counter through a mixing function: any seed is good. */
static uint64_t rng(uint64_t below)
{
	uint64_t v = rng_state += UINT64_C(0x9e3779b97f4a7c15);

	v = (v ^ v >> 31) * UINT64_C(0xd6e8feb86659fd93);
	v = (v ^ v >> 29) * UINT64_C(0xa3aac6cd2f1b5e5f);
	return (v ^ v >> 32) % below;
}

static void run(const struct buf *in)
{
	_cleanup_free_ uint8_t *data = malloc(in->len);

	FUZZ_CHECK(data || in->len == 0);
	if (in->len)
		memcpy(data, in->data, in->len);
	now_data = data;
	now_size = in->len;
	(void)alarm(LIMIT_S);
	(void)LLVMFuzzerTestOneInput(data, in->len);
	now_size = 0;
}

/* Moves the bytes from `at` on by n places, opening or closing a gap. */
static void shift(struct buf *b, size_t at, size_t n, bool grow)
{
	size_t tail = b->len - at;

	if (grow) {
		FUZZ_CHECK(buf_resize(b, b->len + n) == 0);
		memmove(b->data + at + n, b->data + at, tail);
		return;
	}
	n = MIN(n, tail);
	memmove(b->data + at, b->data + at + n, tail - n);
	b->len -= n;
}

static void splice_in(struct buf *b, size_t at)
{
	const struct buf *other = &files[rng(file_count)];
	size_t from;
	size_t n;

	if (other->len == 0)
		return;
	from = rng(other->len);
	n = 1 + rng(other->len - from);
	n = MIN(n, b->len - at);
	memcpy(b->data + at, other->data + from, n);
}

/* A small step, or a value at the edge of a width. */
static void edit_number(struct buf *b, size_t at)
{
	static const uint64_t edges[] = {
		0, 1, 0x7f, 0xff, 0xffff, UINT32_MAX, INT64_MAX, UINT64_MAX};
	size_t width = (size_t)1 << rng(4);
	uint64_t v = 0;

	width = MIN(width, b->len - at);
	memcpy(&v, b->data + at, width);
	if (rng(2))
		v += rng(9) - 4;
	else
		v = edges[rng(ARRAY_SIZE(edges))];
	memcpy(b->data + at, &v, width);
}

static void edit(struct buf *b)
{
	size_t at = b->len ? rng(b->len) : 0;

	if (b->len == 0 || (rng(8) == 0 && b->len < INPUT_BYTES_MAX)) {
		shift(b, at, 1 + rng(32), true);
		return;
	}
	switch (rng(6)) {
	case 0:
		b->data[at] ^= (uint8_t)(1 << rng(8));
		break;
	case 1:
		b->data[at] = (uint8_t)rng(256);
		break;
	case 2:
		shift(b, at, 1 + rng(32), false);
		break;
	case 3:
		splice_in(b, at);
		break;
	default:
		edit_number(b, at);
		break;
	}
}

/* Runs that many, or until a time of the monotonic clock. */
static uint64_t mutate(uint64_t runs, uint64_t until_ns)
{
	_cleanup_buf_ struct buf b = {0};
	uint64_t i = 0;

	for (; i < runs || (until_ns && clock_mono_ns() < until_ns); i++) {
		const struct buf *seed = &files[rng(file_count)];

		buf_clear(&b);
		buf_put(&b, seed->data, seed->len);
		for (uint64_t n = 1 + rng(MAX_EDITS); n > 0; n--)
			edit(&b);
		FUZZ_CHECK(buf_error(&b) == 0);
		run(&b);
	}
	(void)alarm(0);
	return i;
}

static int load(int dirfd, const char *name)
{
	if (file_count == MAX_FILES)
		return -E2BIG;
	return io_read_file(dirfd, name, INPUT_BYTES_MAX, &files[file_count++]);
}

static int load_all(const char *path)
{
	const struct dirent *e;
	DIR *dir = opendir(path);
	int r = 0;

	if (!dir)
		return load(AT_FDCWD, path);
	while (r == 0 && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			r = load(dirfd(dir), e->d_name);
	}
	(void)closedir(dir);
	return r;
}

int main(int argc, char **argv)
{
	char *unit = NULL;
	uint64_t runs = argc > 2 ? strtoull(argv[2], &unit, 10) : 0;
	uint64_t until_ns = 0;

	rng_state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	if (rng_state == 0)
		rng_state = clock_mono_ns();
	if (unit && *unit == 's') {
		until_ns = clock_mono_ns() + runs * UINT64_C(1000000000);
		runs = 0;
	}
	if (argc < 2 || load_all(argv[1]) < 0 || file_count == 0) {
		(void)fprintf(stderr, "usage: %s CORPUS [RUNS|SECONDSs [SEED]]\n",
			      argv[0]);
		return 2;
	}
	(void)signal(SIGABRT, report);
	(void)signal(SIGALRM, report);
	for (size_t i = 0; i < file_count; i++)
		run(&files[i]);
	(void)printf("%llu inputs\n",
		     (unsigned long long)mutate(runs, until_ns));
	while (file_count > 0)
		buf_fini(&files[--file_count]);
	return 0;
}
