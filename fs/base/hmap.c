/* SPDX-License-Identifier: MIT */
/*
 * How: a power of two of slots, each a singly linked chain; doubled when there
 * is one node per slot. Nodes keep their whole hash, so growing never calls
 * back and a search compares 64 bits before the caller compares names.
 *
 * The hash is one strong 64-bit mixing step per 8 bytes, begun with a random
 * state. The state before each step is secret, so names that collide in one
 * process cannot be computed outside it.
 */
#include "base/hmap.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <sys/random.h>

enum { HMAP_FIRST_SLOTS = 16 };

static uint64_t seed[2];

/* A constructor: it runs before any thread, so hashing needs no check. */
__attribute__((constructor)) static void seed_init(void)
{
	if (getrandom(seed, sizeof seed, GRND_NONBLOCK) == sizeof seed)
		return;
	/* Very early boot or a sandbox: guessable, but not the same twice. */
	seed[0] = clock_mono_ns() ^ (uint64_t)(uintptr_t)&seed;
	seed[1] = (uint64_t)clock_now().tv_nsec << 32 ^ (uint64_t)getpid();
}

void hmap_fini(struct hmap *m)
{
	free(m->slots);
	*m = (struct hmap){0};
}

static int grow(struct hmap *m)
{
	size_t n = m->slots ? (m->mask + 1) * 2 : HMAP_FIRST_SLOTS;
	struct hnode **slots = calloc(n, sizeof(struct hnode *));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; m->slots && i <= m->mask; i++) {
		struct hnode *next;

		for (struct hnode *p = m->slots[i]; p; p = next) {
			struct hnode **slot = &slots[p->hash & (n - 1)];

			next = p->next;
			p->next = *slot;
			*slot = p;
		}
	}
	free(m->slots);
	m->slots = slots;
	m->mask = n - 1;
	return 0;
}

int hmap_insert(struct hmap *m, struct hnode *n, uint64_t hash)
{
	struct hnode **slot;

	if ((!m->slots || m->count > m->mask) && grow(m) < 0 && !m->slots)
		return -ENOMEM;
	slot = &m->slots[hash & m->mask];
	n->hash = hash;
	n->next = *slot;
	*slot = n;
	m->count++;
	return 0;
}

void hmap_remove(struct hmap *m, struct hnode *n)
{
	struct hnode **at = &m->slots[n->hash & m->mask];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	n->next = NULL;
	m->count--;
}

static struct hnode *seek(struct hnode *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct hnode *hmap_first(const struct hmap *m, uint64_t hash)
{
	return m->slots ? seek(m->slots[hash & m->mask], hash) : NULL;
}

struct hnode *hmap_next(const struct hnode *n)
{
	return seek(n->next, n->hash);
}

struct hnode *hmap_each(const struct hmap *m, struct hmap_cursor *c)
{
	struct hnode *n = c->next;

	while (!n && m->slots && c->slot <= m->mask)
		n = m->slots[c->slot++];
	c->next = n ? n->next : NULL;
	return n;
}

/* Two rounds of multiply and xor-shift: every input bit reaches every output
 * bit. The multipliers are odd with about half their bits set. */
static uint64_t mix64(uint64_t v)
{
	v ^= v >> 32;
	v *= UINT64_C(0xd6e8feb86659fd93);
	v ^= v >> 29;
	v *= UINT64_C(0xa3aac6cd2f1b5e5f);
	v ^= v >> 32;
	return v;
}

uint64_t hmap_hash_u64(uint64_t v)
{
	return mix64(mix64(v ^ seed[0]) + seed[1]);
}

uint64_t hmap_hash_bytes(const void *data, size_t len, uint64_t mix)
{
	const uint8_t *p = data;
	uint64_t h = mix64(seed[0] ^ mix) + seed[1];
	uint64_t tail = 0;

	/* The length goes in first: a tail padded with zeros is no prefix. */
	h = mix64(h ^ len);
	for (; len >= sizeof tail; len -= sizeof tail, p += sizeof tail)
		h = mix64(h ^ bytes_load_u64(p)) + seed[1];
	if (len > 0)
		memcpy(&tail, p, len);
	return mix64(h ^ tail);
}
