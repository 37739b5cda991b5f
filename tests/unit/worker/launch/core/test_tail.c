#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/launch/core/tail.h"

static void add(struct hvd_tail *tail, const char *text)
{
    hvd_tail_add(tail, hvd_strview_of(text));
}

static void is_clean(const char *text, size_t size, const char *expected)
{
    struct hvd_tail whole = {0};
    struct hvd_tail cut = {0};
    char out[HVD_TAIL_MAX];

    add(&whole, text);
    assert_int_equal(hvd_tail_clean(&whole, out, size), strlen(expected));
    assert_string_equal(out, expected);
    for (const char *c = text; *c; c++)
        hvd_tail_add(&cut, (struct hvd_strview){c, 1});
    (void)hvd_tail_clean(&cut, out, size);
    assert_string_equal(out, expected);
}

static void whole_lines_at_the_end_are_kept(void **state)
{
    (void)state;
    is_clean("", 100, "");
    is_clean("\n \n\n", 100, "");
    is_clean("one\ntwo\n\n", 100, "one\ntwo");
    is_clean("one\ntwo\nthree\n", 10, "three");
    is_clean("one\ntwo\nthree", 11, "two\nthree");
    is_clean("one\n  indented\n", 100, "one\n  indented");
    is_clean("a line that is too long\n", 9, "too long");
    is_clean("\xc3\xa9\xc3\xa9\xc3\xa9", 4, "\xc3\xa9");
    is_clean("no end", 1, "");
}

static void what_a_carriage_return_overwrites_is_dropped(void **state)
{
    (void)state;
    is_clean("start\n 10%\r 50%\r100%\nend\r\n", 100, "start\n100%\nend");
    is_clean("start\n 10%\r 50%\rerror: x\n", 100, "start\nerror: x");
    is_clean("start\n 10%\b\b\b\b 50%\b\b\b\b\n", 100, "start\n 50%");
}

static void colours_and_bytes_that_are_no_text_are_cleaned(void **state)
{
    (void)state;
    is_clean("\033[1;31mError\033[0m: x\033[", 100, "Error: x");
    is_clean("a\001b\177c\tdebris\033", 100, "a?b?c\tdebris");
    is_clean("\xff\xfe \xc3\xa9 \xed\xa0\x80 \xc0\x80 \xf5 \xe2\x82", 100,
             "?? \xc3\xa9 ??? ?? ? ??");
}

static void a_stream_of_any_length_leaves_its_last_lines(void **state)
{
    struct hvd_tail tail = {0};
    char line[64], out[256];

    (void)state;
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(line, sizeof(line), "line %d\n", i);
        add(&tail, line);
    }
    assert_true(hvd_tail_clean(&tail, out, sizeof(out)) > 240);
    assert_memory_equal(out, "line 999", 8);
    assert_string_equal(out + strlen(out) - 21, "line 99998\nline 99999");
}

static void a_stack_of_any_depth_leaves_its_first_frames(void **state)
{
    struct hvd_tail tail = {0};
    char line[128], out[HVD_TAIL_MAX];

    (void)state;
    add(&tail, "RuntimeError: shape mismatch\nException raised from f at x.cpp:1\n");
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(line, sizeof(line), "frame #%d: f + 0x1 (0x2 in libtorch.so)\n", i);
        add(&tail, line);
    }
    add(&tail, "\nafter\n");
    assert_true(hvd_tail_clean(&tail, out, sizeof(out)) > 0);
    assert_string_equal(out, "RuntimeError: shape mismatch\nException raised from f at x.cpp:1\n"
                             "frame #0: f + 0x1 (0x2 in libtorch.so)\n"
                             "frame #1: f + 0x1 (0x2 in libtorch.so)\n"
                             "frame #2: f + 0x1 (0x2 in libtorch.so)\n"
                             "frame #3: f + 0x1 (0x2 in libtorch.so)\n\nafter");
}

static void a_line_of_any_length_leaves_its_beginning(void **state)
{
    struct hvd_tail tail = {0};
    char block[1000], out[HVD_TAIL_MAX];

    (void)state;
    memset(block, 'x', sizeof(block));
    add(&tail, "Traceback\nValueError: ");
    for (int i = 0; i < 5000; i++)
        hvd_tail_add(&tail, (struct hvd_strview){block, sizeof(block)});
    assert_int_equal(hvd_tail_clean(&tail, out, sizeof(out)), 10 + 1003);
    assert_memory_equal(out, "Traceback\nValueError: xxx", 24);
    assert_string_equal(out + 10 + 995, "xxxxx...");
    assert_int_equal(hvd_tail_clean(&tail, out, 100), 99);
    add(&tail, "\nKeyError: 'x'\n");
    (void)hvd_tail_clean(&tail, out, sizeof(out));
    assert_string_equal(out + 10 + 1000, "...\nKeyError: 'x'");
}

static void a_zero_byte_ends_nothing(void **state)
{
    struct hvd_tail tail = {0};
    char out[64];

    (void)state;
    hvd_tail_add(&tail, (struct hvd_strview){"a\0b\n", 4});
    (void)hvd_tail_clean(&tail, out, sizeof(out));
    assert_string_equal(out, "a?b");
}

static void the_order_is_that_of_the_newest_line_of_the_program(void **state)
{
    static const struct {
        const char *text;
        uint64_t newest; /* after this addition */
    } additions[] = {
        {"\n", 0},
        {"I0000 00:00:1795740136.1    7191 port.cc:153] oneDNN is on.\n", 0},
        {"step 1\n", 3},
        {"  \n", 3},
        {"frame #0: f + 0x1\n", 3},
        {"step", 6},
        {"\r", 6},
        {"step 2\nW0000 00:00:1795740136.1    7191 port.cc:153] slow\n", 8},
    };
    struct hvd_tail tail = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++) {
        tail.order = i + 1;
        add(&tail, additions[i].text);
        assert_int_equal(tail.newest, additions[i].newest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_at_the_end_are_kept),
        cmocka_unit_test(what_a_carriage_return_overwrites_is_dropped),
        cmocka_unit_test(colours_and_bytes_that_are_no_text_are_cleaned),
        cmocka_unit_test(a_stream_of_any_length_leaves_its_last_lines),
        cmocka_unit_test(a_stack_of_any_depth_leaves_its_first_frames),
        cmocka_unit_test(a_line_of_any_length_leaves_its_beginning),
        cmocka_unit_test(a_zero_byte_ends_nothing),
        cmocka_unit_test(the_order_is_that_of_the_newest_line_of_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
