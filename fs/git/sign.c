/* SPDX-License-Identifier: MIT */
/*
 * sign.c - commits are written here, not by libgit2: they go into a pack of
 * ours, and their parents may not be in the origin yet.
 */
#include "git/sign_int.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum { HOST_BYTES = 256, MINUTES = 60 };

int gitsign_parse(const char *text, struct diag *diag, git_signature **ret_who)
{
	const char *open = strchr(text, '<');
	const char *end = open ? strchr(open, '>') : NULL;
	_cleanup_free_ char *name = NULL, *mail = NULL;
	size_t len = open ? (size_t)(open - text) : 0;

	while (len && text[len - 1] == ' ')
		len--;
	if (!end || end[1] || !len)
		return diag_fail(diag, -EINVAL,
				 "%s: not a name with an address, as in "
				 "\"Ann <ann@example.org>\"",
				 *text ? text : "\"\"");
	name = strndup(text, len);
	mail = strndup(open + 1, (size_t)(end - open - 1));
	if (!name || !mail)
		return -ENOMEM;
	if (git_signature_now(ret_who, name, mail) < 0)
		return diag_fail(diag, -EINVAL, "%s: not a name that git takes",
				 text);
	return 0;
}

/* A value of the environment, then of the config; NULL. */
static char *look_up(git_config *config, const char *who, const char *what,
		     const char *key)
{
	char variable[40];
	const char *value;

	(void)snprintf(variable, sizeof variable, "GIT_%s_%s", who, what);
	value = getenv(variable);
	if (value && *value)
		return strdup(value);
	value = NULL;
	if (config && git_config_get_string(&value, config, key) < 0)
		value = NULL;
	return value && *value ? strdup(value) : NULL;
}

/* The user's full name up to a comma, or how he logs in. */
static char *name_of_user(const struct passwd *pw)
{
	const char *full = pw && pw->pw_gecos ? pw->pw_gecos : "";
	const size_t len = strcspn(full, ",");

	if (len)
		return strndup(full, len);
	return strdup(pw && *pw->pw_name ? pw->pw_name : "unknown");
}

static char *mail_of_user(const struct passwd *pw)
{
	char host[HOST_BYTES] = "localhost";
	char *mail = NULL;

	if (gethostname(host, sizeof host - 1) < 0 || !*host)
		(void)snprintf(host, sizeof host, "localhost");
	if (asprintf(&mail, "%s@%s", pw ? pw->pw_name : "unknown", host) < 0)
		return NULL;
	return mail;
}

int gitsign_default(git_repository *repo, const char *who,
		    git_signature **ret_who)
{
	_cleanup_free_ char *name = NULL, *mail = NULL;
	const struct passwd *pw = NULL;
	git_config *config = NULL;

	if (git_repository_config_snapshot(&config, repo) < 0)
		config = NULL;
	name = look_up(config, who, "NAME", "user.name");
	mail = look_up(config, who, "EMAIL", "user.email");
	git_config_free(config);
	if (!name || !mail)
		pw = getpwuid(geteuid());
	if (!name)
		name = name_of_user(pw);
	if (!mail)
		mail = mail_of_user(pw);
	if (!name || !mail)
		return -ENOMEM;
	if (git_signature_now(ret_who, name, mail) < 0 &&
	    git_signature_now(ret_who, "unknown", "unknown@localhost") < 0)
		return -ENOMEM;
	return 0;
}

static void put_who(struct buf *out, const char *role, const git_signature *who)
{
	const int offset = who->when.offset;
	const int minutes = offset < 0 ? -offset : offset;

	buf_printf(out, "%s %s <%s> %lld %c%02d%02d\n", role, who->name,
		   who->email, (long long)who->when.time,
		   offset < 0 ? '-' : '+', minutes / MINUTES,
		   minutes % MINUTES);
}

void gitcommit_encode(const struct gitcommit *c, struct buf *out)
{
	const size_t len = strlen(c->message);
	char hex[GIT_OID_HEXSZ + 1];

	buf_printf(out, "tree %s\n", git_oid_tostr(hex, sizeof hex, &c->tree));
	for (size_t i = 0; i < c->parent_count; i++)
		buf_printf(out, "parent %s\n",
			   git_oid_tostr(hex, sizeof hex, &c->parents[i]));
	put_who(out, "author", c->author);
	put_who(out, "committer", c->committer);
	buf_put_u8(out, '\n');
	buf_put(out, c->message, len);
	if (!len || c->message[len - 1] != '\n')
		buf_put_u8(out, '\n');
}
