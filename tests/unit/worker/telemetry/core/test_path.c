#include "tests/unit/support.h"

#include "worker/telemetry/core/path.h"

static void the_rank_takes_its_place_or_goes_before_the_extension(void **state)
{
    static const char *const cases[][2] = {
        {"t.json", "t.3.json"},
        {"/tmp/x.d/t", "/tmp/x.d/t.3"},
        {"a.b/t.tar.gz", "a.b/t.tar.3.gz"},
        {"/tmp/r%d.json", "/tmp/r3.json"},
        {"%d", "3"},
        {".hidden", ".hidden.3"},
        {"d/.hidden", "d/.hidden.3"},
        {"/tmp/%d/t.json", "/tmp/3/t.json"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(hvd_path_of_rank(cases[i][0], 3, out, sizeof(out)));
        assert_string_equal(out, cases[i][1]);
    }
    assert_true(hvd_path_names_rank("a%d"));
    assert_false(hvd_path_names_rank("a%s"));
}

static void a_path_without_room_is_refused(void **state)
{
    char out[9];

    (void)state;
    assert_true(hvd_path_of_rank("t.json", 3, out, sizeof(out)));
    assert_false(hvd_path_of_rank("t.json", 33, out, sizeof(out)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_takes_its_place_or_goes_before_the_extension),
        cmocka_unit_test(a_path_without_room_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
