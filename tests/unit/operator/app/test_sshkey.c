#include "tests/unit/support.h"

#include <string.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/buf.h"
#include "base/str.h"
#include "operator/app/sshkey.h"
#include "operator/kube/base64.h"

static void the_public_line_belongs_to_the_private_key(void **state)
{
    static const unsigned char head[] = "\0\0\0\x13"
                                        "ecdsa-sha2-nistp256\0\0\0\x08nistp256\0\0\0\x41\x04";
    struct hvd_sshkey key = {0};
    struct hvd_buf wire;
    unsigned char point[65];
    size_t len = 0;
    BIO *bio;
    EVP_PKEY *pkey;

    (void)state;
    assert_int_equal(hvd_sshkey_generate(&key, NULL), HVD_OK);
    assert_true(hvd_str_has_prefix(key.private_pem, "-----BEGIN EC PRIVATE KEY-----\n"));
    assert_true(hvd_str_has_suffix(key.private_pem, "-----END EC PRIVATE KEY-----\n"));
    assert_true(hvd_str_has_prefix(key.public_line, "ecdsa-sha2-nistp256 AAAA"));
    assert_null(strchr(key.public_line, '\n'));
    bio = BIO_new_mem_buf(key.private_pem, -1);
    pkey = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    assert_non_null(pkey);
    assert_true(EVP_PKEY_get_octet_string_param(pkey, "pub", point, sizeof(point), &len) &&
                len == 65);
    hvd_buf_init(&wire, 256);
    assert_int_equal(hvd_base64_decode(hvd_strview_of(strchr(key.public_line, ' ') + 1), &wire),
                     HVD_OK);
    assert_int_equal(wire.len, sizeof(head) - 2 + 65);
    assert_memory_equal(wire.data, head, sizeof(head) - 2);
    assert_memory_equal(wire.data + sizeof(head) - 2, point, 65);
    hvd_buf_fini(&wire);
    EVP_PKEY_free(pkey);
    BIO_free(bio);
    hvd_sshkey_fini(&key);
    assert_null(key.private_pem);
}

/* Numbers that begin with zeros among them. */
static void the_private_key_is_written_as_openssl_does(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct hvd_sshkey key = {0};
        BIO *bio, *again = BIO_new(BIO_s_mem());
        EVP_PKEY *pkey;
        char *text = NULL;
        long len;

        assert_int_equal(hvd_sshkey_generate(&key, NULL), HVD_OK);
        bio = BIO_new_mem_buf(key.private_pem, -1);
        pkey = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
        assert_non_null(pkey);
        assert_int_equal(
            PEM_write_bio_PrivateKey_traditional(again, pkey, NULL, NULL, 0, NULL, NULL), 1);
        len = BIO_get_mem_data(again, &text);
        assert_int_equal(len, strlen(key.private_pem));
        assert_memory_equal(text, key.private_pem, (size_t)len);
        EVP_PKEY_free(pkey);
        BIO_free(bio);
        BIO_free(again);
        hvd_sshkey_fini(&key);
    }
}

static void two_keys_differ(void **state)
{
    struct hvd_sshkey a = {0}, b = {0};

    (void)state;
    assert_int_equal(hvd_sshkey_generate(&a, NULL), HVD_OK);
    assert_int_equal(hvd_sshkey_generate(&b, NULL), HVD_OK);
    assert_string_not_equal(a.private_pem, b.private_pem);
    assert_string_not_equal(a.public_line, b.public_line);
    hvd_sshkey_fini(&a);
    hvd_sshkey_fini(&b);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_sshkey key = {0};
        hvd_status_t st = hvd_sshkey_generate(&key, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_sshkey_fini(&key);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_public_line_belongs_to_the_private_key),
        cmocka_unit_test(the_private_key_is_written_as_openssl_does),
        cmocka_unit_test(two_keys_differ),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
