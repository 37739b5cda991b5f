/* Texts in the layout of libstdc++. */
#include "tests/unit/support.h"

#include <string.h>

#include "worker/python/tensorflow/core/cxx_text.h"

static void a_borrowed_text_points_to_the_string(void **state)
{
    static const char sentence[] = "longer than what fits into the text itself";
    const struct hvd_cxx_text text = hvd_cxx_text_of(sentence);

    (void)state;
    assert_ptr_equal(text.data, sentence);
    assert_int_equal(text.len, strlen(sentence));
    assert_int_equal(text.capacity, strlen(sentence));
}

static void an_empty_text_is_in_itself(void **state)
{
    struct hvd_cxx_text text;

    (void)state;
    memset(&text, 0xff, sizeof(text));
    hvd_cxx_text_init(&text);
    assert_ptr_equal(text.data, text.local);
    assert_int_equal(text.len, 0);
    assert_string_equal(text.data, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_text_points_to_the_string),
        cmocka_unit_test(an_empty_text_is_in_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
