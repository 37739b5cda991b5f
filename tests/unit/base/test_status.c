#include "tests/unit/support.h"

#include <string.h>

static void every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
#define X(name, value, text)                                                                       \
    assert_string_equal(hvd_status_str(name), text);                                               \
    assert_string_equal(hvd_status_name(name), #name);                                             \
    assert_int_equal(name, value);
    HVD_STATUS_MAP(X)
#undef X
    assert_string_equal(hvd_status_str((hvd_status_t)-99), "unknown status");
    assert_string_equal(hvd_status_name((hvd_status_t)-99), "unknown status");
}

static void the_first_error_wins(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(HVD_FAIL(&err, HVD_ERR_TIMEOUT, 110, "connect to %s", "a"), HVD_ERR_TIMEOUT);
    assert_int_equal(HVD_FAIL(&err, HVD_ERR_NOMEM, 12, "second"), HVD_ERR_NOMEM);
    assert_int_equal(err.status, HVD_ERR_TIMEOUT);
    assert_int_equal(err.sys, 110);
    assert_string_equal(err.msg, "connect to a");
    hvd_err_clear(&err);
    assert_int_equal(err.status, HVD_OK);
    assert_string_equal(err.msg, "");
}

static void wrap_puts_the_outermost_context_first(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    hvd_err_set(&err, HVD_ERR_INVALID, 0, "empty name");
    assert_int_equal(HVD_WRAP(&err, HVD_ERR_INVALID, "load %s", "cfg"), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "load cfg: empty name");
}

static void a_long_message_loses_its_innermost_end(void **state)
{
    struct hvd_err err = {0};
    char detail[HVD_ERR_MSG_MAX + 100];

    (void)state;
    memset(detail, 'x', sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    hvd_err_set(&err, HVD_ERR_INVALID, 0, "%s", detail);
    hvd_err_wrap(&err, "outer");
    assert_memory_equal(err.msg, "outer: xxx", 10);
    assert_int_equal(strlen(err.msg), HVD_ERR_MSG_MAX - 1);
}

/* A path may hold whatever its user writes, and a message goes to terminals. */
static void control_characters_do_not_get_into_a_message(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    hvd_err_set(&err, HVD_ERR_SYSTEM, 2, "cannot read %s",
                "a\033[2Jb\nc\r\td\177\302\233e\302\240");
    assert_string_equal(err.msg, "cannot read a?[2Jb c  d???e\302\240");
    hvd_err_wrap(&err, "file %s", "\a\302");
    assert_string_equal(err.msg, "file ?\302: cannot read a?[2Jb c  d???e\302\240");
}

static void a_missing_record_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(HVD_FAIL(NULL, HVD_ERR_GONE, 0, "x"), HVD_ERR_GONE);
    assert_int_equal(HVD_WRAP(NULL, HVD_ERR_GONE, "y"), HVD_ERR_GONE);
    hvd_err_clear(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(wrap_puts_the_outermost_context_first),
        cmocka_unit_test(a_long_message_loses_its_innermost_end),
        cmocka_unit_test(control_characters_do_not_get_into_a_message),
        cmocka_unit_test(a_missing_record_is_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
