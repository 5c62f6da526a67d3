/* Credentials from PEM, and the text that names the file and what is wrong with it. */
#include <pekoe/tls.h>

#include "failing_openssl.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path_of(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    const char *folder = getenv("CERTIFICATES");
    cr_assert_not_null(folder);
    if (!name || name[0] == '/')
        return name;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static char *text_of(const char *name)
{
    FILE *file = fopen(path_of(name), "r");
    char *text = calloc(1, 65536);
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, 65535, file), 0);
    fclose(file);
    return text;
}

Test(tls_credentials, of_servers_tell_exactly_what_is_wrong)
{
    static const struct {
        const char *certificate, *key, *password, *client_ca;
        pk_client_certificates mode;
        int error;
        const char *text; /* in the problem; NULL: it works */
    } cases[] = {
        {"server.pem", "server.key", NULL, NULL, 0, 0, NULL},
        {"chain.pem", "chain.key", NULL, NULL, 0, 0, NULL},
        {"server.pem", "server.key", NULL, "ca.pem", PK_CLIENT_CERTIFICATES_REQUIRED, 0, NULL},
        {"server.pem", "server.key", NULL, "ca.pem", PK_CLIENT_CERTIFICATES_REQUESTED, 0, NULL},
        {"client.pem", "client.encrypted.key", "sesame", NULL, 0, 0, NULL},
        {NULL, "server.key", NULL, NULL, 0, PK_ERR_INVALID, "there is no certificate"},
        {"server.pem", NULL, NULL, NULL, 0, PK_ERR_INVALID, "there is no key"},
        {"/nowhere/a.pem", "server.key", NULL, NULL, 0, PK_ERR_SYSTEM,
         "/nowhere/a.pem: No such file or directory"},
        {"server.pem", "/nowhere/a.key", NULL, NULL, 0, PK_ERR_SYSTEM,
         "/nowhere/a.key: No such file or directory"},
        {"server.key", "server.key", NULL, NULL, 0, PK_ERR_MALFORMED,
         "server.key: there is no certificate in it"},
        {"server.pem", "server.pem", NULL, NULL, 0, PK_ERR_MALFORMED,
         "server.pem: there is no private key in it"},
        {"server.pem", "client.key", NULL, NULL, 0, PK_ERR_INVALID,
         "client.key: the key does not belong to the certificate of "},
        {"client.pem", "client.encrypted.key", NULL, NULL, 0, PK_ERR_MALFORMED,
         "client.encrypted.key: the key cannot be read"},
        {"client.pem", "client.encrypted.key", "simsim", NULL, 0, PK_ERR_MALFORMED,
         "client.encrypted.key: the key cannot be read"},
        {"server.pem", "server.key", NULL, "server.key", PK_CLIENT_CERTIFICATES_REQUIRED,
         PK_ERR_MALFORMED, "server.key: there is no certificate in it"},
        {"server.pem", "server.key", NULL, NULL, PK_CLIENT_CERTIFICATES_REQUIRED, PK_ERR_INVALID,
         "client certificates are asked for, and there is no client_ca"},
        {"server.pem", "server.key", NULL, "ca.pem", PK_CLIENT_CERTIFICATES_NONE, PK_ERR_INVALID,
         "there is a client_ca, and client certificates are not asked for"},
        {"server.pem", "server.key", NULL, "ca.pem", 7, PK_ERR_INVALID, "none of its values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pk_server_credentials *made = NULL;
        char problem[PK_TLS_PROBLEM] = "";
        const pk_server_credentials_opts *opts =
            PK_SERVER_CREDENTIALS(.certificate.file = path_of(cases[i].certificate),
                                  .key.file = path_of(cases[i].key),
                                  .key_password = cases[i].password,
                                  .client_ca.file = path_of(cases[i].client_ca),
                                  .client_certificates = cases[i].mode);
        cr_expect_eq(pk_server_credentials_new(&made, opts, problem), cases[i].error, "%zu: %s", i,
                     problem);
        cr_expect_eq(made != NULL, cases[i].error == 0, "%zu", i);
        if (cases[i].text)
            cr_expect(strstr(problem, cases[i].text), "%zu: %s", i, problem);
        pk_server_credentials_unref(made);
        if (cases[i].error < 0)
            cr_expect_eq(pk_server_credentials_new(&made, opts, NULL), cases[i].error);
    }
    cr_assert_null(pk_server_credentials_unref(NULL));
}

Test(tls_credentials, come_from_memory_as_well)
{
    char *certificate = text_of("chain.pem"), *key = text_of("chain.key");
    char problem[PK_TLS_PROBLEM] = "";
    pk_server_credentials *made = NULL;
    cr_assert_eq(pk_server_credentials_new(
                     &made, PK_SERVER_CREDENTIALS(.certificate.text = certificate, .key.text = key),
                     problem),
                 0, "%s", problem);
    cr_assert_eq(pk_server_credentials_ref(made), made);
    pk_server_credentials_unref(made);
    pk_server_credentials_unref(made);
    char *broken = strstr(certificate, "\n") + 1;
    broken[3] = '!';
    made = NULL;
    cr_assert_eq(pk_server_credentials_new(
                     &made, PK_SERVER_CREDENTIALS(.certificate.text = certificate, .key.text = key),
                     problem),
                 PK_ERR_MALFORMED);
    cr_assert(strstr(problem, "the PEM in memory: a certificate cannot be read"), "%s", problem);
    free(certificate);
    free(key);
}

/* ---- Memory ---- */

/*
 * It fails with an error and a text, or succeeds where OpenSSL can do without. Of its thousands of
 * requests each of the first is refused, of later ones some.
 */
Test(tls_credentials, that_find_no_memory_say_so)
{
    cr_assert_eq(openssl_taken, 1);
    for (int channel = 0; channel < 2; channel++) {
        bool whole = false;
        size_t failed = 0;
        /* The first time OpenSSL sets itself up, which is not asked to survive. */
        for (size_t at = 0; !whole; at += 1 + at / 64) {
            pk_server_credentials *server = NULL;
            pk_channel_credentials *client = NULL;
            char problem[PK_TLS_PROBLEM] = "";
            openssl_requests = 0;
            openssl_fail_at = at;
            const pk_server_credentials_opts *server_opts =
                PK_SERVER_CREDENTIALS(.certificate.file = path_of("chain.pem"),
                                      .key.file = path_of("chain.key"));
            const pk_channel_credentials_opts *client_opts =
                PK_CHANNEL_CREDENTIALS(.server_ca.file = path_of("ca.pem"));
            openssl_counts = true;
            int r = channel ? pk_channel_credentials_new(&client, client_opts, problem)
                            : pk_server_credentials_new(&server, server_opts, problem);
            openssl_counts = false;
            whole = at > 0 && openssl_requests < at;
            cr_assert_eq(r < 0, problem[0] != '\0', "%zu: %d %s", at, r, problem);
            cr_assert_eq(r == 0, server || client);
            failed += r < 0;
            pk_server_credentials_unref(server);
            pk_channel_credentials_unref(client);
        }
        cr_assert_gt(failed, 20);
    }
}
