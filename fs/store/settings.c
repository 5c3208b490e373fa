/* SPDX-License-Identifier: MIT */
/*
 * The file `settings`: a line for each, and the checksum that `format` has too.
 * It is made by the first change. A line that this version does not know is
 * left out when the file is written again: whoever changes settings with an
 * older program gets what that one knows.
 */
#include "store/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "store/store_int.h"

enum { SETTINGS_FILE_MAX = 4096 };

static const char first_line[] = "cowfs settings 1\n";

/* Reads a line "NAME NUMBER". */
static bool read_line(const char *line, const char *name, uint64_t *ret_n)
{
	const size_t len = strlen(name);

	if (strncmp(line, name, len) != 0 || line[len] != ' ')
		return false;
	*ret_n = strtoull(line + len, NULL, 10);
	return true;
}

static int parse(const char *text, struct settings *s)
{
	for (const char *line = text; *line;) {
		const char *end = strchr(line, '\n');
		uint64_t n = 0;

		if (!end)
			return -EFSCORRUPTED;
		if (read_line(line, "max-store", &n))
			s->max_store = n;
		else if (read_line(line, "grace-days", &n) &&
			 n <= SETTINGS_MAX_GRACE_DAYS)
			s->grace_days = (uint32_t)n;
		else if (read_line(line, "birth-times", &n))
			s->no_births = n == 0;
		line = end + 1;
	}
	return 0;
}

int settings_read(struct store *s, struct diag *diag,
		  struct settings *ret_settings)
{
	struct settings out = {.grace_days = SETTINGS_GRACE_DAYS};
	_cleanup_buf_ struct buf text = {0};
	const char *str;
	int r = io_read_file(s->fd, "settings", SETTINGS_FILE_MAX, &text);

	if (r == -ENOENT) {
		*ret_settings = out;
		return 0;
	}
	if (r < 0 && r != -EFBIG)
		return diag_fail(diag, r, "%s/settings: %s", s->path,
				 err_text(r));
	str = r == 0 ? buf_str(&text) : NULL;
	if (!str || !store_is_sealed_int(&text))
		return diag_fail(diag, -EFSBADCRC,
				 "%s/settings is damaged: remove it and set "
				 "again what it said",
				 s->path);
	if (strncmp(str, first_line, strlen(first_line)) != 0)
		return diag_fail(diag, -EPROTONOSUPPORT,
				 "%s/settings is of a later version: use a "
				 "newer cowfs",
				 s->path);
	r = parse(str, &out);
	if (r == 0)
		*ret_settings = out;
	return r;
}

int settings_write(struct store *s, const struct settings *in)
{
	_cleanup_buf_ struct buf text = {0};
	int r;

	if (index_is_read_only(s->index))
		return -EROFS;
	buf_printf(&text, "%sgrace-days %u\nmax-store %" PRIu64 "\n",
		   first_line, in->grace_days, in->max_store);
	if (in->no_births)
		buf_printf(&text, "birth-times 0\n");
	store_seal_int(&text);
	r = buf_error(&text);
	if (r == 0)
		r = io_write_file(s->fd, "settings", text.data, text.len, true);
	return r;
}
