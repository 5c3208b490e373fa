/* SPDX-License-Identifier: MIT */
/*
 * offline.c - libgit2 without its ways to other machines.
 *
 * cowfs works on repositories of this machine only. libgit2's archive brings
 * SSH, TLS and Kerberos along, as shared libraries that would make the start of
 * every command 4 ms slower (docs/adr/0019). These definitions come first when
 * the archive is linked, so that its own, and all that they need, stay out of
 * the program. Whoever asks for a remote over the network gets an error.
 *
 * Linked only together with the archive; CMake tries whether they fit.
 */
#include <git2.h>
#include <stdbool.h>

int git_transport_ssh_global_init(void);
int git_mbedtls_stream_global_init(void);
int git_openssl_stream_global_init(void);
int git_mbedtls__set_cert_location(const char *file, const char *path);
int git_mbedtls_stream_new(void **out, const char *host, const char *port);
int git_mbedtls_stream_wrap(void **out, void *in, const char *host);
int git_smart_subtransport_http(void **out, git_transport *owner, void *param);
int git_smart_subtransport_ssh(void **out, git_transport *owner, void *param);
extern bool git_http__expect_continue;

bool git_http__expect_continue;

int git_transport_ssh_global_init(void)
{
	return 0;
}

int git_mbedtls_stream_global_init(void)
{
	return 0;
}

int git_openssl_stream_global_init(void)
{
	return 0;
}

int git_mbedtls__set_cert_location(const char *file, const char *path)
{
	return GIT_ENOTFOUND;
}

int git_mbedtls_stream_new(void **out, const char *host, const char *port)
{
	return GIT_ENOTFOUND;
}

int git_mbedtls_stream_wrap(void **out, void *in, const char *host)
{
	return GIT_ENOTFOUND;
}

int git_smart_subtransport_http(void **out, git_transport *owner, void *param)
{
	return GIT_ENOTFOUND;
}

int git_smart_subtransport_ssh(void **out, git_transport *owner, void *param)
{
	return GIT_ENOTFOUND;
}
