/*
 * The key pair of a job: P-256, because sshd and ssh read its plain PEM form ("EC PRIVATE KEY"),
 * while ed25519 would need OpenSSH's own container. OpenSSL makes the key; the public line is the
 * wire form of RFC 5656 in base64. Key material is wiped before it is freed.
 */
#include "operator/app/sshkey.h"

#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/buf.h"
#include "base/mem.h"
#include "operator/kube/base64.h"

#define KEY_TYPE "ecdsa-sha2-nistp256"
#define CURVE "nistp256"
#define POINT_BYTES 65

static hvd_status_t fail_openssl(const char *what, struct hvd_err *err)
{
    char text[160] = "unknown error";
    unsigned long code = ERR_get_error();

    if (code)
        ERR_error_string_n(code, text, sizeof(text));
    return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "ssh key: %s: %s", what, text);
}

static hvd_status_t write_private(EVP_PKEY *pkey, struct hvd_sshkey *key, struct hvd_err *err)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    char *text = NULL;
    long len;
    hvd_status_t st = HVD_OK;

    if (!bio)
        bio = BIO_new(BIO_s_mem());
    if (!bio || !PEM_write_bio_PrivateKey_traditional(bio, pkey, NULL, NULL, 0, NULL, NULL)) {
        st = fail_openssl("writing the private key", err);
    } else {
        len = BIO_get_mem_data(bio, &text);
        key->private_pem = hvd_strndup(text, len > 0 ? (size_t)len : 0);
        if (!key->private_pem)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "ssh key: out of memory");
        if (text && len > 0)
            OPENSSL_cleanse(text, (size_t)len);
    }
    BIO_free(bio);
    return st;
}

/* A length in four bytes, then the bytes. */
static hvd_status_t put_string(struct hvd_buf *wire, const void *data, size_t len)
{
    const unsigned char head[4] = {0, 0, (unsigned char)(len >> 8), (unsigned char)len};
    hvd_status_t st = hvd_buf_add(wire, head, sizeof(head));

    return st == HVD_OK ? hvd_buf_add(wire, data, len) : st;
}

static hvd_status_t encode_public(const unsigned char *point, struct hvd_sshkey *key)
{
    struct hvd_buf wire, line;
    hvd_status_t st;

    hvd_buf_init(&wire, 256);
    hvd_buf_init(&line, 512);
    st = put_string(&wire, KEY_TYPE, strlen(KEY_TYPE));
    if (st == HVD_OK)
        st = put_string(&wire, CURVE, strlen(CURVE));
    if (st == HVD_OK)
        st = put_string(&wire, point, POINT_BYTES);
    if (st == HVD_OK)
        st = hvd_buf_puts(&line, KEY_TYPE " ");
    if (st == HVD_OK)
        st = hvd_base64_encode(wire.data, wire.len, &line);
    if (st == HVD_OK)
        key->public_line = hvd_buf_take(&line);
    hvd_buf_fini(&wire);
    hvd_buf_fini(&line);
    return st;
}

static hvd_status_t write_public(EVP_PKEY *pkey, struct hvd_sshkey *key, struct hvd_err *err)
{
    unsigned char point[POINT_BYTES];
    size_t len = 0;
    hvd_status_t st;

    if (!EVP_PKEY_get_octet_string_param(pkey, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                         &len) ||
        len != POINT_BYTES)
        return fail_openssl("reading the public key", err);
    st = encode_public(point, key);
    if (st != HVD_OK)
        hvd_err_set(err, st, 0, "ssh key: %s", hvd_status_str(st));
    return st;
}

hvd_status_t hvd_sshkey_generate(struct hvd_sshkey *out, struct hvd_err *err)
{
    EVP_PKEY *pkey = EVP_EC_gen("P-256");
    struct hvd_sshkey key = {0};
    hvd_status_t st;

    if (!pkey)
        return fail_openssl("making a P-256 key", err);
    st = write_private(pkey, &key, err);
    if (st == HVD_OK)
        st = write_public(pkey, &key, err);
    if (st == HVD_OK)
        *out = key;
    else
        hvd_sshkey_fini(&key);
    EVP_PKEY_free(pkey);
    return st;
}

void hvd_sshkey_fini(struct hvd_sshkey *key)
{
    if (key->private_pem)
        OPENSSL_cleanse(key->private_pem, strlen(key->private_pem));
    hvd_free(key->private_pem);
    hvd_free(key->public_line);
    *key = (struct hvd_sshkey){0};
}
