/*
 * The key pair of a job: P-256, because sshd and ssh read its plain PEM form ("EC PRIVATE KEY"),
 * while ed25519 would need OpenSSH's own container. OpenSSL makes the key; the public line is the
 * wire form of RFC 5656 in base64. Key material is wiped before it is freed.
 */
#include "operator/app/sshkey.h"

#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/buf.h"
#include "base/mem.h"
#include "operator/kube/base64.h"

#define KEY_TYPE "ecdsa-sha2-nistp256"
#define CURVE "nistp256"
#define POINT_BYTES 65
#define NUMBER_BYTES 32
#define DER_BYTES 121
#define PEM_BYTES 256

static hvd_status_t fail_openssl(const char *what, struct hvd_err *err)
{
    char text[160] = "unknown error";
    unsigned long code = ERR_get_error();

    if (code)
        ERR_error_string_n(code, text, sizeof(text));
    return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "ssh key: %s: %s", what, text);
}

/* ECPrivateKey of RFC 5915, in OpenSSL's form: for a fixed curve only the numbers differ. OpenSSL's
 * own writer rebuilds the curve for each key, which takes longer than the key. */
static void encode_private(const unsigned char number[NUMBER_BYTES],
                           const unsigned char point[POINT_BYTES], unsigned char out[DER_BYTES])
{
    static const unsigned char head[] = {0x30, 0x77, 0x02, 0x01, 0x01, 0x04, NUMBER_BYTES};
    static const unsigned char curve[] = {0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
                                          0x03, 0x01, 0x07, 0xa1, 0x44, 0x03, 0x42, 0x00};

    _Static_assert(sizeof(head) + NUMBER_BYTES + sizeof(curve) + POINT_BYTES == DER_BYTES, "DER");
    memcpy(out, head, sizeof(head));
    memcpy(out + sizeof(head), number, NUMBER_BYTES);
    memcpy(out + sizeof(head) + NUMBER_BYTES, curve, sizeof(curve));
    memcpy(out + sizeof(head) + NUMBER_BYTES + sizeof(curve), point, POINT_BYTES);
}

/* Wraps it in PEM: lines of 64 characters. */
static char *print_private(const unsigned char der[DER_BYTES])
{
    char base64[DER_BYTES / 3 * 4 + 5];
    char *pem = hvd_malloc(1, PEM_BYTES);

    (void)EVP_EncodeBlock((unsigned char *)base64, der, DER_BYTES);
    if (pem)
        (void)snprintf(pem, PEM_BYTES,
                       "-----BEGIN EC PRIVATE KEY-----\n%.64s\n%.64s\n%s\n"
                       "-----END EC PRIVATE KEY-----\n",
                       base64, base64 + 64, base64 + 128);
    OPENSSL_cleanse(base64, sizeof(base64));
    return pem;
}

static hvd_status_t write_private(EVP_PKEY *pkey, const unsigned char point[POINT_BYTES],
                                  struct hvd_sshkey *key, struct hvd_err *err)
{
    unsigned char number[NUMBER_BYTES], der[DER_BYTES];
    BIGNUM *bn = NULL;
    hvd_status_t st = HVD_OK;

    if (!EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_PRIV_KEY, &bn) ||
        BN_bn2binpad(bn, number, NUMBER_BYTES) != NUMBER_BYTES) {
        st = fail_openssl("reading the private key", err);
    } else {
        encode_private(number, point, der);
        key->private_pem = print_private(der);
        if (!key->private_pem)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "ssh key: out of memory");
    }
    OPENSSL_cleanse(number, sizeof(number));
    OPENSSL_cleanse(der, sizeof(der));
    BN_clear_free(bn);
    return st;
}

/* Writes a length in four bytes, then the bytes. */
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

static hvd_status_t write_keys(EVP_PKEY *pkey, struct hvd_sshkey *key, struct hvd_err *err)
{
    unsigned char point[POINT_BYTES];
    size_t len = 0;
    hvd_status_t st;

    if (!EVP_PKEY_get_octet_string_param(pkey, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                         &len) ||
        len != POINT_BYTES)
        return fail_openssl("reading the public key", err);
    st = write_private(pkey, point, key, err);
    if (st != HVD_OK)
        return st;
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
    st = write_keys(pkey, &key, err);
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
