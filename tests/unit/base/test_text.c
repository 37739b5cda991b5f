/* A text that is put together in a fixed room. */
#include "tests/unit/support.h"

#include <string.h>

#include "base/text.h"

static void pieces_stand_one_after_the_other(void **state)
{
    char out[32];
    struct hvd_text text = hvd_text_in(out, sizeof(out));

    (void)state;
    assert_string_equal(out, "");
    hvd_text_add(&text, "rank %d", 3);
    hvd_text_add(&text, "%s", "");
    hvd_text_add(&text, " on host %s", "a");
    assert_string_equal(out, "rank 3 on host a");
    assert_int_equal(text.len, strlen(out));
}

static void what_does_not_fit_is_cut_and_the_rest_left_out(void **state)
{
    char out[8 + 1];

    (void)state;
    out[8] = '#';
    for (size_t size = 1; size <= 8; size++) {
        struct hvd_text text = hvd_text_in(out, size);
        for (int i = 0; i < 5; i++)
            hvd_text_add(&text, "%d23", 1);
        assert_int_equal(text.len, size - 1);
        assert_int_equal(strlen(out), size - 1);
        assert_memory_equal(out, "1231231", size - 1);
        assert_int_equal(out[8], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_stand_one_after_the_other),
        cmocka_unit_test(what_does_not_fit_is_cut_and_the_rest_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
