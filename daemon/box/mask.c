/* SPDX-License-Identifier: MIT */
/*
 * mask.c - what is secret, and how it is covered.
 *
 * How: values that are known to be secret are looked for as they are, the
 * longest first, since one may contain another. In arguments also what stands
 * behind a name that looks like a secret's (NAME=..., NAME: ..., --NAME ...)
 * and the password of a URL is covered, as nobody has told the value. Something
 * that is encoded is not found.
 *
 * In a stream each byte becomes a star, so that all others keep their places.
 */
#include "box/mask.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
	LINE_MIN = 8, /* of a value with several lines */
	LINES_MAX = 64,
};

#define COVER "***"

/* What such a name contains; and what is a whole word of it. */
static const char *const parts[] = {
	"token",     "secret",	    "passw",	  "passphrase",	   "credential",
	"apikey",    "api_key",	    "privatekey", "private_key",   "access_key",
	"accesskey", "signing_key", "cookie",	  "authorization",
};
static const char *const words[] = {"key", "keys", "auth", "pass", "pat",
				    "psk", "pin",  "pwd",  "cred", "creds"};

void mask_fini(struct mask *m)
{
	for (size_t i = 0; i < m->count; i++) {
		explicit_bzero(m->values[i].text, m->values[i].len);
		free(m->values[i].text);
	}
	free(m->values);
	*m = (struct mask){0};
}

/* --- what is secret ------------------------------------------------------ */

static void add_one(struct mask *m, const char *text, size_t len)
{
	struct mask_value *v;
	size_t at = 0;

	if (!len)
		return;
	v = reallocarray(m->values, m->count + 1, sizeof *v);
	if (v)
		m->values = v;
	text = v ? strndup(text, len) : NULL;
	if (!text) {
		m->failed = true;
		return;
	}
	while (at < m->count && v[at].len >= len)
		at++;
	memmove(&v[at + 1], &v[at], (m->count - at) * sizeof *v);
	v[at] = (struct mask_value){.text = (char *)text, .len = len};
	m->count++;
}

void mask_add(struct mask *m, const char *value)
{
	const char *line = value;

	add_one(m, value, strlen(value));
	for (int i = 0; strchr(value, '\n') && *line && i < LINES_MAX; i++) {
		const size_t n = strcspn(line, "\n");

		if (n >= LINE_MIN)
			add_one(m, line, n);
		line += n + (line[n] == '\n');
	}
}

static bool has_part(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

/* PWD and OLDPWD are what the shell says of the working directory. */
static bool has_word(char *name)
{
	const bool alone = !strchr(name, '_');
	char *save = NULL, *word;

	for (word = strtok_r(name, "_", &save); word;
	     word = strtok_r(NULL, "_", &save))
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (!strcmp(word, words[i]) &&
			    !(alone && !strcmp(word, "pwd")))
				return true;
	return false;
}

bool mask_is_name(const char *name, size_t n)
{
	char low[128];

	if (n >= sizeof low)
		n = sizeof low - 1;
	for (size_t i = 0; i < n; i++)
		low[i] = name[i] == '-' ? '_'
					: (char)tolower((unsigned char)name[i]);
	low[n] = 0;
	return has_part(low) || has_word(low);
}

/* AUTH=none, USE_TOKEN=true */
static bool is_switch(const char *value)
{
	static const char *const all[] = {"true", "false", "none", "null"};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!strcasecmp(value, all[i]))
			return true;
	return false;
}

void mask_add_vars(struct mask *m, char *const *vars, size_t least)
{
	for (; *vars; vars++) {
		const size_t n = strcspn(*vars, "=");

		if ((*vars)[n] && strlen(*vars + n + 1) >= least &&
		    !is_switch(*vars + n + 1) && mask_is_name(*vars, n))
			mask_add(m, *vars + n + 1);
	}
}

/* --- arguments ----------------------------------------------------------- */

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* How long what stands behind NAME= or NAME: is. */
static size_t value_len(const char *s)
{
	if (*s == '"' || *s == '\'') {
		const char *end = strchr(s + 1, *s);

		return end ? (size_t)(end - s) + 1 : strlen(s);
	}
	return strcspn(s, " \t\n\"';&|)<>");
}

/* A header's goes to the end of its line or string. */
static size_t header_len(const char *s)
{
	return strcspn(s, "\n\"'");
}

/* Returns how much of a text is a name and its secret, and how much of that is
 * the name; 0: it is not. */
static size_t named_len(const char *s, size_t *ret_name)
{
	size_t n = 0;

	while (is_name_byte(s[n]))
		n++;
	if ((s[n] != '=' && s[n] != ':') || !mask_is_name(s, n))
		return 0;
	*ret_name = n + 1;
	if (s[n] == '=')
		return n + 1 + value_len(s + n + 1);
	if (s[n + 1] != ' ')
		return 0;
	*ret_name = n + 2;
	return n + 2 + header_len(s + n + 2);
}

/* Likewise "//USER:PASSWORD", up to the '@'. */
static size_t url_len(const char *s, size_t *ret_name)
{
	const size_t n = strcspn(s + 2, "/ \t\n\"'@");
	const char *colon = memchr(s + 2, ':', n);

	if (s[2 + n] != '@' || !colon)
		return 0;
	*ret_name = (size_t)(colon - s) + 1;
	return 2 + n;
}

static void cover_named(const char *s, struct buf *out)
{
	bool in_name = false;

	while (*s) {
		size_t name, n = 0;

		if (!in_name && is_name_byte(*s))
			n = named_len(s, &name);
		else if (!strncmp(s, "//", 2))
			n = url_len(s, &name);
		if (n > 0) {
			buf_put(out, s, name);
			if (n > name)
				buf_put(out, COVER, strlen(COVER));
			s += n;
			in_name = false;
			continue;
		}
		in_name = is_name_byte(*s);
		buf_put_u8(out, (uint8_t)*s++);
	}
}

static void cover_values(const struct mask *m, const char *s, struct buf *out)
{
	while (*s) {
		size_t i = 0;

		while (i < m->count &&
		       strncmp(s, m->values[i].text, m->values[i].len) != 0)
			i++;
		if (i < m->count) {
			buf_put(out, COVER, strlen(COVER));
			s += m->values[i].len;
		} else {
			buf_put_u8(out, (uint8_t)*s++);
		}
	}
}

/* "--token", but not "--key", which sort(1) has, nor "--token=x". */
static bool is_option(const char *text)
{
	const size_t skip = text ? strspn(text, "-") : 0;

	return skip && !strchr(text, '=') && strcmp(text + skip, "key") != 0 &&
	       mask_is_name(text + skip, strlen(text + skip));
}

void mask_argument(const struct mask *m, const char *before, const char *text,
		   struct buf *out)
{
	_cleanup_buf_ struct buf b = {0};

	if (is_option(before) || m->failed) {
		buf_put(out, COVER, strlen(COVER));
		return;
	}
	cover_values(m, text, &b);
	if (buf_str(&b))
		cover_named(buf_str(&b), out);
	else
		out->failed = true;
}

/* --- streams ------------------------------------------------------------- */

static void cover(const struct mask_value *v, uint8_t *data, size_t n)
{
	uint8_t *at;

	while ((at = memmem(data, n, v->text, v->len))) {
		memset(at, '*', v->len);
		n -= (size_t)(at - data) + v->len;
		data = at + v->len;
	}
}

/* How long the end is that a value begins with. */
static size_t begun_len(const struct mask_value *v, const uint8_t *data,
			size_t n)
{
	for (size_t len = MIN(v->len - 1, n); len > 0; len--)
		if (!memcmp(data + n - len, v->text, len))
			return len;
	return 0;
}

size_t mask_bytes(const struct mask *m, uint8_t *data, size_t n, bool is_last)
{
	size_t held = 0;

	if (m->failed)
		memset(data, '*', n);
	for (size_t i = 0; i < m->count; i++)
		cover(&m->values[i], data, n);
	for (size_t i = 0; i < m->count && !is_last; i++)
		held = MAX(held, begun_len(&m->values[i], data, n));
	return n - held;
}
