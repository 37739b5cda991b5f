#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/launch/core/merge.h"

#define PATIENCE_MS 100

static void out(struct hvd_merge *merge, const char *text, int64_t now_ms)
{
    assert_int_equal(hvd_merge_add(merge, HVD_STREAM_OUT, hvd_strview_of(text), now_ms), HVD_OK);
}

static void err(struct hvd_merge *merge, const char *text, int64_t now_ms)
{
    assert_int_equal(hvd_merge_add(merge, HVD_STREAM_ERR, hvd_strview_of(text), now_ms), HVD_OK);
}

static void lines_come_in_the_order_in_which_they_were_written(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    out(&merge, "a\n", 0);
    err(&merge, "b\nc\n", 0);
    out(&merge, "d\n", 0);
    out(&merge, "", 0);
    assert_string_equal(merge.text.data, "a\nb\nc\nd\n");
    assert_false(hvd_merge_is_holding(&merge));
    assert_false(hvd_merge_is_in_line(&merge));
    hvd_merge_fini(&merge);
}

static void a_line_is_not_cut_by_the_other_stream(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    out(&merge, "out", 0);
    assert_string_equal(merge.text.data, "out"); /* at once */
    err(&merge, "one\ntw", 0);
    assert_true(hvd_merge_is_holding(&merge));
    assert_int_equal(hvd_merge_len(&merge), 9);
    out(&merge, "put", 0);
    assert_string_equal(merge.text.data, "output");
    out(&merge, "\nmore\nla", 0); /* what was held goes before what was written later */
    assert_string_equal(merge.text.data, "output\none\nmore\nla");
    err(&merge, "o\n", 0);
    out(&merge, "st\n", 0);
    assert_string_equal(merge.text.data, "output\none\nmore\nlast\ntwo\n");
    assert_false(hvd_merge_is_holding(&merge));
    out(&merge, "x", 0);
    err(&merge, "half", 0);
    out(&merge, "\n", 0);
    assert_string_equal(merge.text.data, "output\none\nmore\nlast\ntwo\nx\nhalf");
    err(&merge, "\n", 0);
    out(&merge, "y", 0);
    err(&merge, "half", 0);
    out(&merge, "\nz\n", 0);
    assert_string_equal(merge.text.data, "output\none\nmore\nlast\ntwo\nx\nhalf\ny\nz\nhalf");
    hvd_merge_fini(&merge);
}

static void look(struct hvd_merge *merge, enum hvd_merge_look look, int64_t now_ms)
{
    assert_int_equal(hvd_merge_tick(merge, now_ms, look, PATIENCE_MS), HVD_OK);
}

static void a_prompt_is_waited_for_a_while_only(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    out(&merge, "prompt> ", 1000);
    look(&merge, HVD_MERGE_IDLE, 1040);
    err(&merge, "line\n", 1050);
    look(&merge, HVD_MERGE_IDLE, 1149);
    assert_string_equal(merge.text.data, "prompt> ");
    look(&merge, HVD_MERGE_IDLE, 1150);
    assert_string_equal(merge.text.data, "prompt> line\n");
    err(&merge, "more\n", 1151);
    assert_string_equal(merge.text.data, "prompt> line\nmore\n");
    hvd_merge_fini(&merge);
}

static void a_progress_bar_holds_up_the_other_stream_no_longer_than_a_prompt(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    err(&merge, "\r10%", 1000);
    out(&merge, "line\n", 1000);
    for (int64_t now_ms = 1050; now_ms < 1000 + PATIENCE_MS; now_ms += 50) {
        err(&merge, "\r11%", now_ms);
        look(&merge, HVD_MERGE_BUSY, now_ms);
        assert_true(hvd_merge_is_holding(&merge));
    }
    err(&merge, "\r12%", 1000 + PATIENCE_MS);
    look(&merge, HVD_MERGE_BUSY, 1000 + PATIENCE_MS);
    assert_false(hvd_merge_is_holding(&merge));
    assert_string_equal(merge.text.data, "\r10%\r11%\r12%line\n");
    hvd_merge_fini(&merge);
}

static void a_line_whose_end_is_in_the_pipe_is_not_cut(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    out(&merge, "half", 1000);
    err(&merge, "whole\n", 1000);
    look(&merge, HVD_MERGE_AWAY, 5000); /* the reader has paused: nothing was read */
    err(&merge, "more\n", 9000);        /* this process was stopped, and has read a part */
    look(&merge, HVD_MERGE_BUSY, 9000);
    out(&merge, " done\n", 9001);
    assert_string_equal(merge.text.data, "half done\nwhole\nmore\n");
    hvd_merge_fini(&merge);
}

static void what_is_left_of_what_waits_has_a_wait_of_its_own(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    out(&merge, "a", 1000);
    err(&merge, "b\nc", 1000);
    look(&merge, HVD_MERGE_IDLE, 1090);
    out(&merge, "\nd", 1090); /* shows b, and c waits for the end of d */
    look(&merge, HVD_MERGE_IDLE, 1100);
    assert_string_equal(merge.text.data, "a\nb\nd");
    look(&merge, HVD_MERGE_IDLE, 1190);
    assert_string_equal(merge.text.data, "a\nb\ndc");
    hvd_merge_fini(&merge);
}

static void a_line_of_our_own_stands_alone(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 1000);
    assert_int_equal(hvd_merge_say(&merge, hvd_strview_of("first\n")), HVD_OK);
    out(&merge, "half", 0);
    err(&merge, "held", 0);
    assert_int_equal(hvd_merge_say(&merge, hvd_strview_of("own\n")), HVD_OK);
    assert_string_equal(merge.text.data, "first\nhalfheld\nown\n");
    assert_int_equal(hvd_merge_release(&merge), HVD_OK);
    assert_false(hvd_merge_is_in_line(&merge));
    hvd_merge_fini(&merge);
}

static void a_full_one_says_so(void **state)
{
    struct hvd_merge merge;

    (void)state;
    hvd_merge_init(&merge, 4);
    out(&merge, "abc", 0);
    assert_int_equal(hvd_merge_add(&merge, HVD_STREAM_OUT, hvd_strview_of("de"), 0),
                     HVD_ERR_TOO_LARGE);
    hvd_merge_fini(&merge);
}

/* However both streams are cut into pieces, each line is whole, and those of a stream in order. */
static void no_line_is_cut_however_the_pieces_come(void **state)
{
    char texts[2][4096];
    size_t len[2] = {0, 0};

    (void)state;
    for (int i = 0; i < 200; i++)
        for (int s = 0; s < 2; s++)
            len[s] += (size_t)snprintf(texts[s] + len[s], sizeof(texts[s]) - len[s], "%c%d%.*s;\n",
                                       s ? 'e' : 'o', i, i % 9, "xxxxxxxxx");
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct hvd_merge merge;
        size_t at[2] = {0, 0};
        size_t n_lines = 0;
        int next[2] = {0, 0};

        hvd_merge_init(&merge, 10000);
        srand(seed);
        while (at[0] < len[0] || at[1] < len[1]) {
            const int s = at[0] == len[0] || (at[1] < len[1] && rand() % 2);
            size_t n = 1 + (size_t)rand() % 40;

            n = n < len[s] - at[s] ? n : len[s] - at[s];
            assert_int_equal(hvd_merge_add(&merge, s ? HVD_STREAM_ERR : HVD_STREAM_OUT,
                                           (struct hvd_strview){texts[s] + at[s], n}, 0),
                             HVD_OK);
            at[s] += n;
        }
        assert_int_equal(merge.text.len, len[0] + len[1]);
        for (char *line = merge.text.data; *line; line = strchr(line, '\n') + 1) {
            const int s = line[0] == 'e';
            char expected[64];
            const int width = snprintf(expected, sizeof(expected), "%c%d%.*s;\n", s ? 'e' : 'o',
                                       next[s], next[s] % 9, "xxxxxxxxx");

            assert_memory_equal(line, expected, (size_t)width);
            next[s]++;
            n_lines++;
        }
        assert_int_equal(n_lines, 400);
        hvd_merge_fini(&merge);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_in_the_order_in_which_they_were_written),
        cmocka_unit_test(a_line_is_not_cut_by_the_other_stream),
        cmocka_unit_test(a_prompt_is_waited_for_a_while_only),
        cmocka_unit_test(a_progress_bar_holds_up_the_other_stream_no_longer_than_a_prompt),
        cmocka_unit_test(a_line_whose_end_is_in_the_pipe_is_not_cut),
        cmocka_unit_test(what_is_left_of_what_waits_has_a_wait_of_its_own),
        cmocka_unit_test(a_line_of_our_own_stands_alone),
        cmocka_unit_test(a_full_one_says_so),
        cmocka_unit_test(no_line_is_cut_however_the_pieces_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
