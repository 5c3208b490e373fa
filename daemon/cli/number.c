/* SPDX-License-Identifier: MIT */
/*
 * number.c - digits only: strtoull would take signs, spaces and hexadecimal.
 */
#include "cli/number.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *digits(const char *s, uint64_t max, uint64_t *ret_n)
{
	uint64_t n = 0;

	if (*s < '0' || *s > '9')
		return NULL;
	for (; *s >= '0' && *s <= '9'; s++) {
		const uint64_t digit = (uint64_t)(*s - '0');

		if (n > (max - digit) / 10)
			return NULL;
		n = n * 10 + digit;
	}
	*ret_n = n;
	return s;
}

int number_read(const char *text, uint64_t max, uint64_t *ret_n)
{
	uint64_t n;
	const char *end = digits(text, max, &n);

	if (!end || *end || n > max)
		return -EINVAL;
	*ret_n = n;
	return 0;
}

int number_read_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	uint64_t n;
	const char *end = digits(text, INT64_MAX, &n);
	const char *unit = end && *end ? strchr(units, *end) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

	if (!end || (*end && (!unit || end[1])) ||
	    n > (uint64_t)INT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = n << shift;
	return 0;
}

int number_read_span(const char *text, uint64_t max, uint64_t *ret_seconds)
{
	static const struct {
		char letter;
		uint64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	uint64_t n, unit = 0;
	const char *end = digits(text, max, &n);

	if (!end)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!*end || (*end == units[i].letter && !end[1])) {
			unit = units[i].seconds;
			break;
		}
	if (!unit || n > max / unit)
		return -EINVAL;
	*ret_seconds = n * unit;
	return 0;
}
