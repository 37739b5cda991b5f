#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/prefix.h"

/* Feeds the texts one by one and returns what came out; the caller frees the buffer. */
static void feed(struct hvd_prefix *prefix, const char *const *texts, struct hvd_buf *out)
{
    hvd_buf_init(out, 100000);
    for (size_t i = 0; texts[i]; i++)
        assert_int_equal(hvd_prefix_feed(prefix, "", hvd_strview_of(texts[i]), out), HVD_OK);
}

static void whole_lines_come_out_with_the_rank_before_them(void **state)
{
    struct hvd_prefix prefix;
    struct hvd_buf out;

    (void)state;
    hvd_prefix_init(&prefix, "3", "stdout");
    feed(&prefix, (const char *const[]){"one\ntw", "o\n\nthr", NULL}, &out);
    assert_string_equal(out.data, "[3]<stdout>:one\n[3]<stdout>:two\n[3]<stdout>:\n");
    assert_true(hvd_prefix_is_holding(&prefix));
    hvd_buf_fini(&out);
    hvd_prefix_fini(&prefix);
}

static void a_flushed_line_goes_on_without_a_second_prefix(void **state)
{
    struct hvd_prefix prefix;
    struct hvd_buf out;

    (void)state;
    hvd_prefix_init(&prefix, "0", "stderr");
    feed(&prefix, (const char *const[]){"50%", NULL}, &out);
    assert_int_equal(hvd_prefix_flush(&prefix, "12:00 ", &out), HVD_OK);
    assert_false(hvd_prefix_is_holding(&prefix));
    assert_int_equal(hvd_prefix_feed(&prefix, "12:01 ", hvd_strview_of(" 100%\nend\n"), &out),
                     HVD_OK);
    assert_string_equal(out.data, "12:00 [0]<stderr>:50% 100%\n12:01 [0]<stderr>:end\n");
    assert_int_equal(hvd_prefix_flush(&prefix, "", &out), HVD_OK);
    hvd_buf_fini(&out);
    hvd_prefix_fini(&prefix);
}

static void no_byte_is_lost_however_the_text_is_cut(void **state)
{
    char text[20000];
    char expected[40000] = "[1]<stdout>:";
    size_t n = strlen(expected);

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 9973 == 9972 ? '\n' : "abcdefghijklmnopqrstuvwxyz"[i % 26];
    for (size_t i = 0; i < sizeof(text); i++) {
        expected[n++] = text[i];
        if (text[i] == '\n') {
            for (const char *c = "[1]<stdout>:"; *c; c++)
                expected[n++] = *c;
        }
    }
    for (size_t piece = 1; piece < 9000; piece = piece * 3 + 1) {
        struct hvd_prefix prefix;
        struct hvd_buf out;

        hvd_buf_init(&out, sizeof(expected));
        hvd_prefix_init(&prefix, "1", "stdout");
        for (size_t at = 0; at < sizeof(text); at += piece) {
            size_t len = sizeof(text) - at < piece ? sizeof(text) - at : piece;

            assert_int_equal(hvd_prefix_feed(&prefix, "",
                                             (struct hvd_strview){.data = text + at, .len = len},
                                             &out),
                             HVD_OK);
        }
        assert_int_equal(hvd_prefix_flush(&prefix, "", &out), HVD_OK);
        assert_int_equal(out.len, n);
        assert_memory_equal(out.data, expected, n);
        hvd_buf_fini(&out);
        hvd_prefix_fini(&prefix);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_prefix prefix;
        struct hvd_buf out;
        hvd_status_t st;

        hvd_buf_init(&out, 1000);
        hvd_prefix_init(&prefix, "0", "stdout");
        st = hvd_prefix_feed(&prefix, "", hvd_strview_of("a line\nhalf"), &out);
        if (st == HVD_OK)
            st = hvd_prefix_flush(&prefix, "", &out);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&out);
        hvd_prefix_fini(&prefix);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_come_out_with_the_rank_before_them),
        cmocka_unit_test(a_flushed_line_goes_on_without_a_second_prefix),
        cmocka_unit_test(no_byte_is_lost_however_the_text_is_cut),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
