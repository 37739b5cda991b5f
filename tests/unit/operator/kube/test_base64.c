#include "tests/unit/support.h"

#include <string.h>

#include "operator/kube/base64.h"

static void known_pairs_go_both_ways(void **state)
{
    static const struct {
        const char *plain;
        const char *coded;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
                {"\xff\xfe\xfd", "//79"},
                {"\xfb\xef\xbe", "++++"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_buf coded, plain;

        hvd_buf_init(&coded, 64);
        hvd_buf_init(&plain, 64);
        assert_int_equal(hvd_base64_encode(rows[i].plain, strlen(rows[i].plain), &coded), HVD_OK);
        assert_string_equal(coded.data ? coded.data : "", rows[i].coded);
        assert_int_equal(hvd_base64_decode(hvd_strview_of(rows[i].coded), &plain), HVD_OK);
        assert_string_equal(plain.data ? plain.data : "", rows[i].plain);
        hvd_buf_fini(&coded);
        hvd_buf_fini(&plain);
    }
}

static void white_space_inside_is_skipped(void **state)
{
    struct hvd_buf plain;

    (void)state;
    hvd_buf_init(&plain, 64);
    assert_int_equal(hvd_base64_decode(hvd_strview_of(" Zm9v\r\n YmFy\n"), &plain), HVD_OK);
    assert_string_equal(plain.data, "foobar");
    hvd_buf_fini(&plain);
}

static void wrong_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "Z", "Zm9", "Zg=", "Zg===", "=Zg=", "Zg==Zg", "Zm9*", "Zm_v", "====", "Z\xc3\xa4=="};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hvd_buf plain;

        hvd_buf_init(&plain, 64);
        assert_int_equal(hvd_base64_decode(hvd_strview_of(bad[i]), &plain), HVD_ERR_INVALID);
        hvd_buf_fini(&plain);
    }
}

static void the_maximum_of_the_buffer_holds(void **state)
{
    struct hvd_buf plain;

    (void)state;
    hvd_buf_init(&plain, 5);
    assert_int_equal(hvd_base64_decode(hvd_strview_of("Zm9vYmFy"), &plain), HVD_ERR_TOO_LARGE);
    hvd_buf_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_pairs_go_both_ways),
        cmocka_unit_test(white_space_inside_is_skipped),
        cmocka_unit_test(wrong_text_is_refused),
        cmocka_unit_test(the_maximum_of_the_buffer_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
