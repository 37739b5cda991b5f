#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/packet.h"

#define NONCE "0123456789abcdef0123456789abcdef"
#define OTHER "0123456789abcdef0123456789abcdee"

/* Appends a packet. */
static void add_packet(struct hvd_buf *text, const char *nonce, const char *data, size_t len)
{
    char head[HVD_PACKET_HEAD_LEN];

    hvd_packet_head(nonce, len, head);
    assert_int_equal(hvd_buf_add(text, head, sizeof(head)), HVD_OK);
    assert_int_equal(hvd_buf_add(text, data, len), HVD_OK);
}

/* Reads the text in pieces of so many bytes. */
static void read_in_pieces(const struct hvd_buf *text, size_t piece, struct hvd_buf *out,
                           struct hvd_buf *rest)
{
    struct hvd_packet_reader reader;

    hvd_packet_init(&reader, NONCE);
    hvd_buf_init(out, 100000);
    hvd_buf_init(rest, 100000);
    for (size_t at = 0; at < text->len; at += piece) {
        const size_t n = text->len - at < piece ? text->len - at : piece;

        assert_int_equal(hvd_packet_feed(&reader,
                                         (struct hvd_strview){.data = text->data + at, .len = n},
                                         out, rest),
                         HVD_OK);
    }
    assert_false(hvd_packet_is_holding(&reader));
    assert_int_equal(hvd_packet_idle(&reader, rest), HVD_OK);
}

static void packets_and_what_stands_between_them_are_told_apart_however_they_are_cut(void **state)
{
    static const char binary[] = {'\0', '\035', '\n', 'x'};
    struct hvd_buf text = {0};

    (void)state;
    hvd_buf_init(&text, 100000);
    assert_int_equal(hvd_buf_puts(&text, "before\n\035"), HVD_OK);
    add_packet(&text, NONCE, "one\n", 4);
    assert_int_equal(hvd_buf_puts(&text, "\035\035" NONCE ":00"), HVD_OK);
    add_packet(&text, OTHER, "none", 4);
    add_packet(&text, NONCE, binary, sizeof(binary));
    add_packet(&text, NONCE, "", 0);
    assert_int_equal(hvd_buf_puts(&text, "behind"), HVD_OK);
    for (size_t piece = 1; piece <= text.len; piece++) {
        struct hvd_buf out;
        struct hvd_buf rest;

        read_in_pieces(&text, piece, &out, &rest);
        assert_int_equal(out.len, 8);
        assert_memory_equal(out.data, "one\n\0\035\nx", 8);
        assert_string_equal(rest.data,
                            "before\n\035\035\035" NONCE ":00\035" OTHER ":0004;nonebehind");
        hvd_buf_fini(&out);
        hvd_buf_fini(&rest);
    }
    hvd_buf_fini(&text);
}

static void a_beginning_is_held_until_nothing_comes(void **state)
{
    struct hvd_packet_reader reader;
    struct hvd_buf out = {0};
    struct hvd_buf rest = {0};

    (void)state;
    hvd_packet_init(&reader, NONCE);
    hvd_buf_init(&out, 100);
    hvd_buf_init(&rest, 100);
    assert_int_equal(hvd_packet_feed(&reader, hvd_strview_of("x\035012"), &out, &rest), HVD_OK);
    assert_true(hvd_packet_is_holding(&reader));
    assert_string_equal(rest.data, "x");
    assert_int_equal(hvd_packet_idle(&reader, &rest), HVD_OK);
    assert_false(hvd_packet_is_holding(&reader));
    assert_string_equal(rest.data, "x\035012");
    hvd_buf_fini(&out);
    hvd_buf_fini(&rest);
}

static void a_piece_ends_with_a_line_where_one_fits(void **state)
{
    (void)state;
    assert_int_equal(hvd_packet_cut(hvd_strview_of("ab\ncd\nef"), 7), 6);
    assert_int_equal(hvd_packet_cut(hvd_strview_of("ab\ncd\nef"), 8), 8);
    assert_int_equal(hvd_packet_cut(hvd_strview_of("abcdef\n"), 4), 4);
    assert_int_equal(hvd_packet_cut(hvd_strview_of("abc\ndef\n"), 4), 4);
    assert_int_equal(hvd_packet_cut(hvd_strview_of(""), 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_and_what_stands_between_them_are_told_apart_however_they_are_cut),
        cmocka_unit_test(a_beginning_is_held_until_nothing_comes),
        cmocka_unit_test(a_piece_ends_with_a_line_where_one_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
