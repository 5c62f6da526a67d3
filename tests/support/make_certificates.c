/*
 * Makes the test CA and the certificates of the TLS tests, new in each build folder, so that no key
 * lies in the tree and none expires with it:
 *
 *     make-certificates FOLDER
 *
 * writes NAME.pem and NAME.key there: ca and other-ca; and, issued by ca unless said otherwise,
 * server and server1 (localhost, 127.0.0.1, ::1, *.test.google.fr), chain (by an intermediate, which follows it
 * in the file), elsewhere (another name), expired, early (not valid yet), stranger (by other-ca),
 * self (by itself), client, client-of-other (by other-ca); and client.encrypted.key, client's key with
 * the password "sesame".
 */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY 86400L
#define TEN_YEARS (3650 * DAY)

struct pair {
    X509 *certificate;
    EVP_PKEY *key;
};

static const char *folder;
static long serial = 1;

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "make-certificates: %s\n", what);
    exit(1);
}

static FILE *open_file(const char *name, const char *ending, const char *mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, mode);
    check(file != NULL, path);
    return file;
}

static void write_pair(const char *name, const struct pair *pair)
{
    FILE *file = open_file(name, ".pem", "w");
    check(PEM_write_X509(file, pair->certificate), name);
    fclose(file);
    file = open_file(name, ".key", "w");
    check(PEM_write_PrivateKey(file, pair->key, NULL, NULL, 0, NULL, NULL), name);
    fclose(file);
}

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    check(extension && X509_add_ext(certificate, extension, -1), value);
    X509_EXTENSION_free(extension);
}

/*
 * One certificate with a key of its own. `issuer` NULL: it signs itself. `names` NULL: it has none
 * but its subject. Valid between two times from now, in seconds.
 */
static struct pair make(const char *name, const struct pair *issuer, bool ca, const char *names,
                        long from, long until)
{
    struct pair made = {X509_new(), EVP_EC_gen("P-256")};
    check(made.certificate && made.key, "out of memory");
    const struct pair *by = issuer ? issuer : &made;
    X509_NAME *subject = X509_get_subject_name(made.certificate);
    check(X509_set_version(made.certificate, X509_VERSION_3) &&
              ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++) &&
              X509_gmtime_adj(X509_getm_notBefore(made.certificate), from) &&
              X509_gmtime_adj(X509_getm_notAfter(made.certificate), until) &&
              X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC,
                                         (const unsigned char *) "pekoe", -1, -1, 0) &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *) name,
                                         -1, -1, 0) &&
              X509_set_issuer_name(made.certificate, X509_get_subject_name(by->certificate)) &&
              X509_set_pubkey(made.certificate, made.key),
          name);
    extend(made.certificate, by->certificate, NID_basic_constraints,
           ca ? "critical,CA:TRUE" : "CA:FALSE");
    extend(made.certificate, by->certificate, NID_subject_key_identifier, "hash");
    if (issuer)
        extend(made.certificate, by->certificate, NID_authority_key_identifier, "keyid");
    if (ca)
        extend(made.certificate, by->certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    if (names)
        extend(made.certificate, by->certificate, NID_subject_alt_name, names);
    check(X509_sign(made.certificate, by->key, EVP_sha256()) > 0, name);
    write_pair(name, &made);
    return made;
}

static void give_back(struct pair pair)
{
    X509_free(pair.certificate);
    EVP_PKEY_free(pair.key);
}

#define SERVER_NAMES "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:*.test.google.fr"

int main(int argc, char **argv)
{
    check(argc == 2, "usage: make-certificates FOLDER");
    folder = argv[1];
    struct pair ca = make("ca", NULL, true, NULL, -DAY, TEN_YEARS);
    struct pair other = make("other-ca", NULL, true, NULL, -DAY, TEN_YEARS);
    struct pair middle = make("intermediate", &ca, true, NULL, -DAY, TEN_YEARS);
    give_back(make("server", &ca, false, SERVER_NAMES, -DAY, TEN_YEARS));
    give_back(make("server1", &ca, false, SERVER_NAMES, -DAY, TEN_YEARS));
    give_back(make("chain", &middle, false, SERVER_NAMES, -DAY, TEN_YEARS));
    give_back(make("elsewhere", &ca, false, "DNS:elsewhere.example,IP:192.0.2.1", -DAY, TEN_YEARS));
    give_back(make("expired", &ca, false, SERVER_NAMES, -2 * DAY, -DAY));
    give_back(make("early", &ca, false, SERVER_NAMES, DAY, TEN_YEARS));
    give_back(make("stranger", &other, false, SERVER_NAMES, -DAY, TEN_YEARS));
    give_back(make("self", NULL, false, SERVER_NAMES, -DAY, TEN_YEARS));
    struct pair client = make("client", &ca, false,
                              "DNS:client.example,URI:spiffe://pekoe/ann,IP:192.0.2.7,"
                              "email:ann@pekoe.example",
                              -DAY, TEN_YEARS);
    give_back(make("client-of-other", &other, false, "DNS:client.example", -DAY, TEN_YEARS));

    FILE *file = open_file("chain", ".pem", "a");
    check(PEM_write_X509(file, middle.certificate), "chain.pem");
    fclose(file);
    file = open_file("client.encrypted", ".key", "w");
    check(PEM_write_PKCS8PrivateKey(file, client.key, EVP_aes_128_cbc(), "sesame", 6, NULL, NULL),
          "client.encrypted.key");
    fclose(file);
    give_back(client);
    give_back(middle);
    give_back(other);
    give_back(ca);
    return 0;
}
