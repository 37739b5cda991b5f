#include "tests/unit/support.h"

#include "operator/api/version.h"

static void versions_are_numbers(void **state)
{
    (void)state;
    assert_true(hvd_version_number("1") == 1);
    assert_true(hvd_version_number("18446744073709551615") == 18446744073709551615ULL);
    assert_true(hvd_version_is_older("9", "10"));
    assert_false(hvd_version_is_older("10", "9"));
    assert_false(hvd_version_is_older("10", "10"));
}

static void of_what_is_no_number_nothing_is_known(void **state)
{
    static const char *const others[] = {NULL, "",   "0",  "-1",   "+5",
                                         " 5", "5 ", "5a", "0x10", "abc"};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_true(hvd_version_number(others[i]) == 0);
        assert_false(hvd_version_is_older(others[i], "7"));
        assert_false(hvd_version_is_older("7", others[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_numbers),
        cmocka_unit_test(of_what_is_no_number_nothing_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
