#include "tests/unit/support.h"

#include <string.h>

#include "operator/kube/framer.h"

/* Gathers the lines it is given, each followed by '|'. */
struct lines {
    char text[256];
    size_t len;
    unsigned n;
    unsigned stop_at; /* this line is answered by HVD_ERR_GONE; 0: none */
};

static hvd_status_t gather(void *ctx, struct hvd_strview line)
{
    struct lines *lines = ctx;

    assert_true(lines->len + line.len + 1 < sizeof(lines->text));
    memcpy(lines->text + lines->len, line.data, line.len);
    lines->len += line.len;
    lines->text[lines->len++] = '|';
    lines->text[lines->len] = '\0';
    return ++lines->n == lines->stop_at ? HVD_ERR_GONE : HVD_OK;
}

static void a_stream_cut_at_any_byte_gives_the_same_lines(void **state)
{
    static const char stream[] = "{\"a\":1}\n\n{\"b\":2}\r\n\n{\"c\":3}\n{\"rest";
    const size_t len = sizeof(stream) - 1;

    (void)state;
    for (size_t step = 1; step <= len; step++) {
        struct hvd_framer framer;
        struct lines lines = {0};

        hvd_framer_init(&framer, 64);
        for (size_t at = 0; at < len; at += step) {
            size_t n = len - at < step ? len - at : step;
            assert_int_equal(
                hvd_framer_feed(&framer, (struct hvd_strview){stream + at, n}, gather, &lines),
                HVD_OK);
        }
        assert_string_equal(lines.text, "{\"a\":1}|{\"b\":2}|{\"c\":3}|");
        hvd_framer_fini(&framer);
    }
}

static void an_oversized_line_is_refused_whole_or_in_pieces(void **state)
{
    struct hvd_framer framer;
    struct lines lines = {0};

    (void)state;
    hvd_framer_init(&framer, 4);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("1234\n"), gather, &lines), HVD_OK);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("12345\n"), gather, &lines),
                     HVD_ERR_TOO_LARGE);
    hvd_framer_reset(&framer);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("123"), gather, &lines), HVD_OK);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("45"), gather, &lines),
                     HVD_ERR_TOO_LARGE);
    assert_string_equal(lines.text, "1234|");
    hvd_framer_fini(&framer);
}

static void a_consumer_that_fails_ends_the_feed(void **state)
{
    struct hvd_framer framer;
    struct lines lines = {.stop_at = 2};

    (void)state;
    hvd_framer_init(&framer, 64);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("a\nb\nc\n"), gather, &lines),
                     HVD_ERR_GONE);
    assert_string_equal(lines.text, "a|b|");
    hvd_framer_fini(&framer);
}

static void reset_forgets_the_line_that_had_begun(void **state)
{
    struct hvd_framer framer;
    struct lines lines = {0};

    (void)state;
    hvd_framer_init(&framer, 64);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("old"), gather, &lines), HVD_OK);
    hvd_framer_reset(&framer);
    assert_int_equal(hvd_framer_feed(&framer, hvd_strview_of("new\n"), gather, &lines), HVD_OK);
    assert_string_equal(lines.text, "new|");
    hvd_framer_fini(&framer);
}

static void garbage_bytes_are_handed_on_as_they_are(void **state)
{
    struct hvd_framer framer;
    struct lines lines = {0};

    (void)state;
    hvd_framer_init(&framer, 64);
    assert_int_equal(
        hvd_framer_feed(&framer, (struct hvd_strview){"\xff\0\x01\n", 4}, gather, &lines), HVD_OK);
    assert_int_equal(lines.n, 1);
    assert_memory_equal(lines.text, "\xff\0\x01|", 4);
    hvd_framer_fini(&framer);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_framer framer;
        struct lines lines = {0};
        hvd_status_t st;
        hvd_framer_init(&framer, 64);
        st = hvd_framer_feed(&framer, hvd_strview_of("par"), gather, &lines);
        if (st == HVD_OK)
            st = hvd_framer_feed(&framer, hvd_strview_of("tial\n"), gather, &lines);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_framer_fini(&framer);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_cut_at_any_byte_gives_the_same_lines),
        cmocka_unit_test(an_oversized_line_is_refused_whole_or_in_pieces),
        cmocka_unit_test(a_consumer_that_fails_ends_the_feed),
        cmocka_unit_test(reset_forgets_the_line_that_had_begun),
        cmocka_unit_test(garbage_bytes_are_handed_on_as_they_are),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
