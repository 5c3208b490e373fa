/* SPDX-License-Identifier: MIT */
/*
 * How: our two names come first, since libc's words for the numbers they
 * borrow ("Structure needs cleaning", "Bad message") tell a user nothing. The
 * rest is libc's table, read through a call that is safe in threads.
 */
#include "base/err.h"

#include <limits.h>
#include <string.h>

const char *err_text(int err)
{
	const char *text;

	if (err < 0 && err != INT_MIN)
		err = -err;
	if (err == EFSCORRUPTED)
		return "Data is damaged (its structure makes no sense)";
	if (err == EFSBADCRC)
		return "Data is damaged (it does not match its checksum)";
	if (err == ESTALE)
		return "Something else is in its place (was the store repaired "
		       "meanwhile?): run the command again";
	text = strerrordesc_np(err);
	return text ? text : "Unknown error";
}
