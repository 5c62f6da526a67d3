/* What a handshake tells of the peer: fills pk_tls_info. Called by tls.c once per connection. */
#include "transport/tls.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <string.h>

#define NAMES_MAX 1000 /* of one certificate; a handshake's messages are bounded as well */

/* What was written to a memory BIO, as a text of the arena; frees the BIO. NULL without memory. */
static char *text_of(pk_arena *arena, BIO *bio)
{
    const char *bytes = NULL;
    long length = bio ? BIO_get_mem_data(bio, (char **) &bytes) : 0;
    char *text = pk_arena_try(arena, (size_t) length + 1);
    if (text) {
        if (length > 0)
            memcpy(text, bytes, (size_t) length);
        text[length] = '\0';
    }
    BIO_free(bio);
    return text;
}

static const char *common_name(pk_arena *arena, const X509_NAME *subject)
{
    int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (place < 0)
        return NULL;
    unsigned char *bytes;
    const ASN1_STRING *value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place));
    int length = ASN1_STRING_to_UTF8(&bytes, value);
    if (length < 0)
        return NULL;
    /* A NUL would let the name look like another. */
    const char *text =
        memchr(bytes, '\0', (size_t) length) ? NULL : pk_arena_copy(arena, bytes, (size_t) length);
    OPENSSL_free(bytes);
    return text;
}

static const char *address_text(pk_arena *arena, const ASN1_OCTET_STRING *address)
{
    char text[INET6_ADDRSTRLEN];
    int length = ASN1_STRING_length(address);
    if ((length != 4 && length != 16) ||
        !inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text,
                   sizeof text))
        return NULL;
    return pk_arena_printf(arena, "IP:%s", text);
}

/* NULL for kinds that are not told. */
static const char *name_text(pk_arena *arena, const GENERAL_NAME *name)
{
    const char *prefix = name->type == GEN_DNS     ? "DNS:"
                         : name->type == GEN_URI   ? "URI:"
                         : name->type == GEN_EMAIL ? "email:"
                                                   : NULL;
    if (name->type == GEN_IPADD)
        return address_text(arena, name->d.iPAddress);
    if (!prefix)
        return NULL;
    const unsigned char *bytes = ASN1_STRING_get0_data(name->d.ia5);
    int length = ASN1_STRING_length(name->d.ia5);
    if (length < 0 || memchr(bytes, '\0', (size_t) length))
        return NULL;
    return pk_arena_printf(arena, "%s%.*s", prefix, length, (const char *) bytes);
}

void pk_tls_describe_names(pk_arena *arena, const X509 *certificate, pk_tls_info *info)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int count = all ? sk_GENERAL_NAME_num(all) : 0;
    if (count > NAMES_MAX)
        count = NAMES_MAX;
    const char **names = count > 0 ? pk_arena_get(arena, (size_t) count * sizeof *names) : NULL;
    for (int i = 0; i < count && !arena->exhausted; i++) {
        const char *text = name_text(arena, sk_GENERAL_NAME_value(all, i));
        if (text)
            names[info->name_count++] = text;
    }
    info->names = names;
    GENERAL_NAMES_free(all);
}

static int describe_certificate(pk_arena *arena, X509 *certificate, pk_tls_info *info)
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    BIO *bio = BIO_new(BIO_s_mem());
    if (!bio || X509_NAME_print_ex(bio, subject, 0, XN_FLAG_RFC2253) < 0) {
        BIO_free(bio);
        return PK_ERR_NOMEM;
    }
    info->subject = text_of(arena, bio);
    info->common_name = common_name(arena, subject);
    pk_tls_describe_names(arena, certificate, info);
    bio = BIO_new(BIO_s_mem());
    if (!bio || !PEM_write_bio_X509(bio, certificate)) {
        BIO_free(bio);
        return PK_ERR_NOMEM;
    }
    info->pem = text_of(arena, bio);
    int length = i2d_X509(certificate, NULL);
    unsigned char *der = length > 0 ? pk_arena_try(arena, (size_t) length) : NULL;
    if (!der || !info->subject || !info->pem || arena->exhausted)
        return PK_ERR_NOMEM;
    info->der = (pk_slice){der, (size_t) length};
    i2d_X509(certificate, &der); /* moves der on */
    return 0;
}

int pk_tls_describe(pk_tls *tls)
{
    const unsigned char *protocol;
    unsigned length;
    pk_tls_info *info = &tls->info;
    SSL_get0_alpn_selected(tls->ssl, &protocol, &length);
    *info = (pk_tls_info){
        .version = SSL_get_version(tls->ssl),
        .cipher = SSL_get_cipher_name(tls->ssl),
        .protocol = pk_arena_copy(&tls->arena, length > 0 ? (const char *) protocol : "", length),
        .resumed = SSL_session_reused(tls->ssl) == 1,
    };
    X509 *certificate = SSL_get1_peer_certificate(tls->ssl);
    int r = 0;
    if (certificate) {
        info->verified = SSL_get_verify_result(tls->ssl) == X509_V_OK;
        r = describe_certificate(&tls->arena, certificate, info);
        X509_free(certificate);
    }
    return tls->arena.exhausted ? PK_ERR_NOMEM : r;
}
