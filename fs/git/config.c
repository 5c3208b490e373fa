/* SPDX-License-Identifier: MIT */
/*
 * config.c - a scanner that stops at each setting and knows where it lies.
 *
 * libgit2 reads config files, but writes them by its own rules and includes
 * what they name; here all other bytes stay as they are. A setting that is
 * taken out leaves nothing behind when it had its line alone.
 */
#include "git/config.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

struct scan {
	const char *text;
	size_t len;
	size_t at;
	struct buf section; /* lower and upper case as written */
	bool subsection;
	struct buf key;
	struct buf value;
	bool has_value;
	size_t key_at; /* where the setting begins */
};

static void scan_fini(struct scan *s)
{
	buf_fini(&s->section);
	buf_fini(&s->key);
	buf_fini(&s->value);
}

static int peek(const struct scan *s)
{
	return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static void skip_line(struct scan *s)
{
	while (s->at < s->len && s->text[s->at] != '\n')
		s->at++;
}

static bool is_name(int c)
{
	return isalnum(c) || c == '-' || c == '.';
}

/* Takes "[section]" or "[section "sub"]"; false when it is none. */
static bool take_section(struct scan *s)
{
	bool quoted = false;

	buf_clear(&s->section);
	s->subsection = false;
	for (s->at++; is_name(peek(s)); s->at++)
		buf_put_u8(&s->section, (uint8_t)peek(s));
	for (; s->at < s->len; s->at++) {
		int c = peek(s);

		if (c == '\n')
			return false;
		if (c == ']' && !quoted) {
			s->at++;
			return true;
		}
		s->subsection |= c == '"';
		if (c == '"')
			quoted = !quoted;
		else if (c == '\\' && quoted)
			s->at++;
	}
	return false;
}

/* Takes what a backslash stands for; false when it is not known. */
static bool take_escape(struct scan *s)
{
	static const char known[] = "ntb\"\\";
	static const char meant[] = "\n\t\b\"\\";
	int c = peek(s);
	const char *k;

	if (c == '\r' && s->at + 1 < s->len && s->text[s->at + 1] == '\n')
		c = (unsigned char)s->text[++s->at];
	s->at++;
	if (c == '\n')
		return true; /* the line goes on */
	k = c > 0 ? strchr(known, c) : NULL;
	if (!k)
		return false;
	buf_put_u8(&s->value, (uint8_t)meant[k - known]);
	return true;
}

/* Takes a value up to the end of its line. */
static bool take_value(struct scan *s)
{
	bool quoted = false;
	size_t kept = 0; /* without blanks at the end */

	while (isblank(peek(s)))
		s->at++;
	for (int c = peek(s); c >= 0 && c != '\n'; c = peek(s)) {
		s->at++;
		if (!quoted && (c == '#' || c == ';')) {
			skip_line(s);
			break;
		}
		if (c == '"') {
			quoted = !quoted;
			kept = s->value.len;
		} else if (c == '\\') {
			if (!take_escape(s))
				return false;
			kept = s->value.len;
		} else {
			buf_put_u8(&s->value, (uint8_t)c);
			if (quoted || !isspace(c))
				kept = s->value.len;
		}
	}
	s->value.len = MIN(s->value.len, kept);
	return !quoted;
}

static bool take_setting(struct scan *s)
{
	s->key_at = s->at;
	buf_clear(&s->key);
	buf_clear(&s->value);
	for (; is_name(peek(s)); s->at++)
		buf_put_u8(&s->key, (uint8_t)peek(s));
	while (isblank(peek(s)))
		s->at++;
	s->has_value = peek(s) == '=';
	if (!s->has_value) {
		skip_line(s);
		return s->key.len > 0;
	}
	s->at++;
	return s->key.len && take_value(s);
}

/* Goes on to the next setting. */
static bool scan_next(struct scan *s)
{
	while (s->at < s->len) {
		int c = peek(s);

		if (c == '[') {
			if (!take_section(s))
				return false;
		} else if (c == '#' || c == ';') {
			skip_line(s);
		} else if (isspace(c) || (s->at < 3 && c >= 0x80)) {
			s->at++; /* or a byte order mark */
		} else {
			return take_setting(s);
		}
	}
	return false;
}

static bool is_in(struct scan *s, const char *section)
{
	const char *have = buf_str(&s->section);

	return have && !s->subsection && !strcasecmp(have, section);
}

static bool is_setting(struct scan *s, const char *section, const char *key)
{
	const char *have = buf_str(&s->key);

	return is_in(s, section) && have && !strcasecmp(have, key);
}

void gitconfig_each(const void *text, size_t len, const char *section,
		    gitconfig_fn fn, void *ctx)
{
	_cleanup_(scan_fini) struct scan s = {.text = text, .len = len};

	while (scan_next(&s)) {
		const char *key = buf_str(&s.key);
		const char *value = buf_str(&s.value);

		if (key && value && is_in(&s, section))
			fn(ctx, key, s.has_value ? value : "true");
	}
}

bool gitconfig_get(const void *text, size_t len, const char *section,
		   const char *key, struct buf *ret_value)
{
	_cleanup_(scan_fini) struct scan s = {.text = text, .len = len};
	bool found = false;

	while (scan_next(&s)) {
		if (!is_setting(&s, section, key))
			continue;
		found = true;
		buf_clear(ret_value);
		if (s.has_value)
			buf_put(ret_value, s.value.data, s.value.len);
		else
			buf_printf(ret_value, "true");
	}
	return found;
}

/* Widens [from, to) to the whole line if there is nothing else in it. */
static void widen(const char *text, size_t len, size_t *from, size_t *to)
{
	size_t start = *from;

	while (start && (text[start - 1] == ' ' || text[start - 1] == '\t'))
		start--;
	if (start && text[start - 1] != '\n')
		return;
	*from = start;
	if (*to < len)
		(*to)++;
}

void gitconfig_drop(const void *text, size_t len, const char *section,
		    const char *key, struct buf *out)
{
	_cleanup_(scan_fini) struct scan s = {.text = text, .len = len};
	size_t done = 0;

	while (scan_next(&s)) {
		size_t from = s.key_at;
		size_t to = s.at;

		if (!is_setting(&s, section, key))
			continue;
		widen(text, len, &from, &to);
		buf_put(out, s.text + done, from - done);
		done = to;
	}
	buf_put(out, s.text + done, len - done);
}

void gitconfig_add(struct buf *text, const char *section, const char *key,
		   const char *value)
{
	if (text->len && text->data[text->len - 1] != '\n')
		buf_put_u8(text, '\n');
	buf_printf(text, "[%s]\n\t%s = %s\n", section, key, value);
}
