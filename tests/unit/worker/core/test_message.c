#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "worker/core/message.h"

static const struct hvd_request request = {
    .op = HVD_BROADCAST,
    .dtype = HVD_INT64,
    .reduce = HVD_SUM,
    .root = 5,
    .ndim = 3,
    .shape = {1, (int64_t)1 << 40, 0},
    .name = {.data = "layer/weight", .len = 12},
};

static const struct hvd_pos_range ranges[] = {{.first = 3, .n = 2}, {.first = 9, .n = 1}};
static const struct hvd_by by = {.ranges = ranges, .n_ranges = 2, .age_ms = 70};

static void build_requests(struct hvd_buf *buf)
{
    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_REQUESTS, 3), HVD_OK);
    assert_int_equal(hvd_message_add_request(buf, &request, &by), HVD_OK);
    assert_int_equal(hvd_message_add_request(buf, &request, &by), HVD_OK);
}

static void build_gather(struct hvd_buf *buf)
{
    struct hvd_request gather = request;
    const int64_t rows[] = {11, 12, -1, -1, -1, -1, 17}; /* of positions 3 to 9 */
    struct hvd_by with_rows = by;

    gather.op = HVD_ALLGATHER;
    with_rows.rows = rows;
    with_rows.rows_first = 3;
    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_REQUESTS, 3), HVD_OK);
    assert_int_equal(hvd_message_add_request(buf, &gather, &with_rows), HVD_OK);
}

static void build_refusal(struct hvd_buf *buf)
{
    struct hvd_by refused = by;

    refused.refusal = hvd_strview_of("input is NULL");
    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_REQUESTS, 3), HVD_OK);
    assert_int_equal(hvd_message_add_request(buf, &request, &refused), HVD_OK);
    assert_int_equal(hvd_message_add_request(buf, &request, &by), HVD_OK);
}

static void build_partial(struct hvd_buf *buf)
{
    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_begin_partial(buf, 3, 8), HVD_OK);
    assert_int_equal(hvd_message_add_partial(buf, 65, &by), HVD_OK);
}

static void build_plan(struct hvd_buf *buf)
{
    const int64_t rows[] = {3, 0, (int64_t)1 << 33};

    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    const uint64_t words[] = {5, (uint64_t)1 << 63};
    const struct hvd_plan_head head = {
        .epoch = 9, .fusion = 77, .cycle_us = 5, .words = words, .n_words = 2};
    const struct hvd_step gather = {.kind = HVD_ALLGATHER,
                                    .device = HVD_GPU,
                                    .dtype = HVD_BFLOAT16,
                                    .reduce = HVD_SUM,
                                    .prescale = 0.5,
                                    .count = 12,
                                    .slot = 4,
                                    .group = 2,
                                    .group_size = 7,
                                    .name = {.data = "g", .len = 1},
                                    .text = {.data = ""},
                                    .n_rows = 3};
    const struct hvd_step error = {.kind = HVD_STEP_ERROR,
                                   .reduce = HVD_SUM,
                                   .slot = HVD_CACHE_NO_SLOT,
                                   .name = {.data = "bad", .len = 3},
                                   .text = {.data = "why", .len = 3}};
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_PLAN, 1), HVD_OK);
    assert_int_equal(hvd_message_add_step(buf, &gather, rows), HVD_OK);
    assert_int_equal(hvd_message_add_step(buf, &error, NULL), HVD_OK);
    assert_int_equal(hvd_message_end_plan(buf, &head), HVD_OK);
}

static void build_bits(struct hvd_buf *buf)
{
    const uint64_t words[] = {1, 0, 6};

    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_bits(buf, 2, 41, words, 3), HVD_OK);
}

static void build_leave(struct hvd_buf *buf)
{
    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_LEAVE, 0), HVD_OK);
    assert_int_equal(hvd_message_add_leave(buf, ranges[0], HVD_LEAVE_FAILED, "out of memory"),
                     HVD_OK);
}

static void build_ping(struct hvd_buf *buf)
{
    const int silent[] = {7, 2};
    const struct hvd_beat beat = {.kind = HVD_WAIT_DATA,
                                  .age_ms = 2500,
                                  .name = {.data = "gradient", .len = 8},
                                  .behind = {.n_known = 9,
                                             .n = 5, /* more than have a place */
                                             .progress = (uint64_t)7 << 40,
                                             .positions = {1, 3, 4, 8}},
                                  .n_silent = 2};

    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_beat(buf, HVD_MESSAGE_PING, 4, &beat, silent), HVD_OK);
}

static void build_pong(struct hvd_buf *buf)
{
    const struct hvd_beat beat = {.kind = HVD_WAIT_NONE};

    hvd_buf_init(buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_beat(buf, HVD_MESSAGE_PONG, 0, &beat, NULL), HVD_OK);
}

static void requests_come_back_as_they_were(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_merged_request ask;

    (void)state;
    build_requests(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(r.left, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hvd_message_read_request(&r, &ask, NULL), HVD_OK);
        const struct hvd_request got = ask.request;
        assert_int_equal(got.op, request.op);
        assert_int_equal(got.dtype, request.dtype);
        assert_int_equal(got.root, 5);
        assert_int_equal(got.ndim, 3);
        assert_memory_equal(got.shape, request.shape, 3 * sizeof(int64_t));
        assert_true(hvd_strview_equal(got.name, "layer/weight"));
    }
    assert_int_equal(hvd_message_read_request(&r, &ask, NULL), HVD_ERR_INVALID);
    assert_int_equal(ask.age_ms, 70);
    assert_int_equal(ask.by.n, 2);
    assert_int_equal(hvd_message_ranges_at(&ask.by, 0).first, 3);
    assert_int_equal(hvd_message_ranges_at(&ask.by, 0).n, 2);
    assert_int_equal(hvd_message_ranges_at(&ask.by, 1).first, 9);
    assert_true(hvd_message_ranges_within(&ask.by, (struct hvd_pos_range){.first = 3, .n = 7}));
    assert_false(hvd_message_ranges_within(&ask.by, (struct hvd_pos_range){.first = 4, .n = 7}));
    assert_false(hvd_message_ranges_within(&ask.by, (struct hvd_pos_range){.first = 3, .n = 6}));
    hvd_buf_fini(&buf);
}

static void the_rows_of_an_allgather_come_back_by_position(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_merged_request ask;

    (void)state;
    build_gather(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_request(&r, &ask, NULL), HVD_OK);
    assert_int_equal(ask.request.shape[0], 11);
    assert_int_equal(hvd_message_request_row(&ask, 0), 11);
    assert_int_equal(hvd_message_request_row(&ask, 1), 12);
    assert_int_equal(hvd_message_request_row(&ask, 2), 17);
    hvd_buf_fini(&buf);
}

static void a_partial_comes_back_as_it_was(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_partial partial;

    (void)state;
    build_partial(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(r.epoch, 8);
    assert_int_equal(hvd_message_read_partial(&r, &partial, NULL), HVD_OK);
    assert_int_equal(partial.slot, 65);
    assert_int_equal(partial.age_ms, 70);
    assert_int_equal(partial.by.n, 2);
    hvd_buf_fini(&buf);
}

static void ranges_that_touch_or_go_back_are_refused(void **state)
{
    static const struct hvd_pos_range bad[][2] = {
        {{3, 2}, {5, 1}}, {{3, 2}, {4, 1}}, {{3, 2}, {1, 1}}, {{3, 0}, {9, 1}}, {{3, 2}, {9, 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct hvd_by worse = {.ranges = bad[i], .n_ranges = 2};
        struct hvd_partial partial;
        struct hvd_reader r;
        struct hvd_buf buf;
        hvd_buf_init(&buf, HVD_MESSAGE_MAX);
        assert_int_equal(hvd_message_begin_partial(&buf, 3, 8), HVD_OK);
        assert_int_equal(hvd_message_add_partial(&buf, 65, &worse), HVD_OK);
        assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
        assert_int_equal(hvd_message_read_partial(&r, &partial, NULL), HVD_ERR_INVALID);
        hvd_buf_fini(&buf);
    }
}

static void a_plan_comes_back_as_it_was(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_step step;

    (void)state;
    build_plan(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
    assert_int_equal(step.kind, HVD_ALLGATHER);
    assert_int_equal(r.set, 1);
    assert_int_equal(r.epoch, 9);
    assert_int_equal(r.fusion, 77);
    assert_int_equal(r.cycle_us, 5);
    assert_int_equal(r.n_words, 2);
    assert_true(hvd_message_word(&r, 1) == (uint64_t)1 << 63);
    assert_int_equal(step.dtype, HVD_BFLOAT16);
    assert_int_equal(step.device, HVD_GPU);
    assert_true(step.prescale > 0.4 && step.prescale < 0.6);
    assert_int_equal(step.count, 12);
    assert_int_equal(step.slot, 4);
    assert_int_equal(step.group, 2);
    assert_int_equal(step.group_size, 7);
    assert_int_equal(step.n_rows, 3);
    assert_int_equal(hvd_message_step_row(&step, 2), (int64_t)1 << 33);
    assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
    assert_int_equal(step.kind, HVD_STEP_ERROR);
    assert_true(hvd_strview_equal(step.name, "bad"));
    assert_true(hvd_strview_equal(step.text, "why"));
    hvd_buf_fini(&buf);
}

static void bits_come_back_as_they_were(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;

    (void)state;
    build_bits(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(r.type, HVD_MESSAGE_BITS);
    assert_int_equal(r.set, 2);
    assert_int_equal(r.epoch, 41);
    assert_int_equal(r.n_words, 3);
    assert_int_equal(hvd_message_word(&r, 2), 6);
    hvd_buf_fini(&buf);
}

static void a_refusal_comes_back_with_its_reason(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_merged_request ask;

    (void)state;
    build_refusal(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_request(&r, &ask, NULL), HVD_OK);
    assert_int_equal(ask.request.op, request.op);
    assert_true(hvd_strview_equal(ask.request.name, "layer/weight"));
    assert_true(hvd_strview_equal(ask.refusal, "input is NULL"));
    assert_int_equal(hvd_message_read_request(&r, &ask, NULL), HVD_OK);
    assert_int_equal(ask.refusal.len, 0);
    hvd_buf_fini(&buf);
}

static void bits_that_are_not_sent_read_like_those_of_a_message(void **state)
{
    uint64_t words[] = {1, 0, (uint64_t)6 << 40};
    struct hvd_reader r = hvd_message_of_bits(words, 3, 41);

    (void)state;
    assert_int_equal(r.type, HVD_MESSAGE_BITS);
    assert_int_equal(r.epoch, 41);
    assert_int_equal(r.left, 0);
    assert_int_equal(r.n_words, 3);
    assert_int_equal(hvd_message_word(&r, 0), 1);
    assert_int_equal(hvd_message_word(&r, 1), 0);
    assert_true(hvd_message_word(&r, 2) == (uint64_t)6 << 40);
}

static void a_leave_comes_back_as_it_was(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_strview text;
    struct hvd_pos_range who;
    enum hvd_leave_why why = HVD_LEAVE_CALLED;

    (void)state;
    build_leave(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_leave(&r, &who, &why, &text, NULL), HVD_OK);
    assert_int_equal(why, HVD_LEAVE_FAILED);
    assert_int_equal(who.first, 3);
    assert_int_equal(who.n, 2);
    assert_true(hvd_strview_equal(text, "out of memory"));
    hvd_buf_fini(&buf);
}

static void a_ping_comes_back_as_it_was(void **state)
{
    struct hvd_buf buf;
    struct hvd_reader r;
    struct hvd_beat beat;

    (void)state;
    build_ping(&buf);
    assert_int_equal(hvd_message_open(&r, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(r.type, HVD_MESSAGE_PING);
    assert_int_equal(r.set, 4);
    assert_int_equal(hvd_message_read_beat(&r, &beat, NULL), HVD_OK);
    assert_int_equal(beat.kind, HVD_WAIT_DATA);
    assert_int_equal(beat.age_ms, 2500);
    assert_true(hvd_strview_equal(beat.name, "gradient"));
    assert_int_equal(beat.n_silent, 2);
    assert_int_equal(hvd_message_beat_silent(&beat, 0), 7);
    assert_int_equal(hvd_message_beat_silent(&beat, 1), 2);
    assert_int_equal(beat.behind.n_known, 9);
    assert_int_equal(beat.behind.n, 5);
    assert_true(beat.behind.progress == (uint64_t)7 << 40);
    assert_int_equal(beat.behind.positions[0], 1);
    assert_int_equal(beat.behind.positions[3], 8);
    hvd_buf_fini(&buf);
}

/* Reads all of a message as whatever it says it is; whether it was well-formed. */
static bool read_all(const char *data, size_t len)
{
    struct hvd_reader r;
    struct hvd_merged_request ask;
    struct hvd_partial partial;
    struct hvd_pos_range who;
    struct hvd_step step;
    struct hvd_strview text;
    enum hvd_leave_why why;
    struct hvd_beat beat;
    hvd_status_t st = hvd_message_open(&r, data, len, NULL);

    if (st == HVD_OK && r.type >= HVD_MESSAGE_PING)
        return hvd_message_read_beat(&r, &beat, NULL) == HVD_OK;
    while (st == HVD_OK && r.left > 0) {
        if (r.type == HVD_MESSAGE_REQUESTS)
            st = hvd_message_read_request(&r, &ask, NULL);
        else if (r.type == HVD_MESSAGE_LEAVE)
            st = hvd_message_read_leave(&r, &who, &why, &text, NULL);
        else if (r.type == HVD_MESSAGE_PARTIAL)
            st = hvd_message_read_partial(&r, &partial, NULL);
        else
            st = hvd_message_read_step(&r, &step, NULL);
    }
    return st == HVD_OK;
}

static void ranks_that_are_behind_are_some_of_those_that_are_known_and_in_order(void **state)
{
    static const struct hvd_behind wrong[] = {
        {.n_known = 3, .n = 0},
        {.n_known = 3, .n = 4, .positions = {0, 1, 2, 3}},
        {.n_known = 3, .n = 2, .positions = {2, 1}},
        {.n_known = 3, .n = 2, .positions = {1, 1}},
        {.n_known = 3, .n = 1, .positions = {-1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const struct hvd_beat beat = {.behind = wrong[i]};
        struct hvd_buf buf;
        hvd_buf_init(&buf, HVD_MESSAGE_MAX);
        assert_int_equal(hvd_message_beat(&buf, HVD_MESSAGE_PONG, 0, &beat, NULL), HVD_OK);
        assert_false(read_all(buf.data, buf.len));
        hvd_buf_fini(&buf);
    }
}

typedef void (*build_fn)(struct hvd_buf *buf);
static const build_fn builders[] = {build_requests, build_gather, build_refusal,
                                    build_plan,     build_leave,  build_bits,
                                    build_partial,  build_ping,   build_pong};
#define N_BUILDERS (sizeof(builders) / sizeof(builders[0]))

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t b = 0; b < N_BUILDERS; b++) {
        struct hvd_buf buf;
        builders[b](&buf);
        assert_true(read_all(buf.data, buf.len));
        for (size_t len = 0; len < buf.len; len++) {
            /* A block of exactly that size: reading past it is seen by the address sanitizer. */
            char *cut = hvd_malloc(len, 1);
            memcpy(cut, buf.data, len);
            assert_false(read_all(cut, len));
            hvd_free(cut);
        }
        assert_int_equal(hvd_buf_add(&buf, "x", 1), HVD_OK);
        assert_false(read_all(buf.data, buf.len));
        hvd_buf_fini(&buf);
    }
}

static void garbage_is_survived(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 60000; round++) {
        struct hvd_buf buf;
        builders[(size_t)round % N_BUILDERS](&buf);
        for (int hits = 1 + round % 4; hits > 0; hits--) {
            size_t at = (size_t)rand_r(&seed) % buf.len;
            buf.data[at] = (char)rand_r(&seed);
        }
        char *copy = hvd_malloc(buf.len, 1);
        memcpy(copy, buf.data, buf.len);
        (void)read_all(copy, buf.len);
        hvd_free(copy);
        hvd_buf_fini(&buf);
    }
}

static void values_that_do_not_exist_are_refused(void **state)
{
    /* Offsets of op, dtype, reduce, device and ndim in the first request, and a value each cannot
     * have. */
    static const struct {
        size_t at;
        char value;
    } cases[] = {{12, 4},  {13, 13}, {14, 6}, {15, 2}, {16, 17},
                 {16, -1}, {2, 9},   {3, 0},  {3, 8},  {0, 'x'}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_buf buf;
        build_requests(&buf);
        buf.data[cases[i].at] = cases[i].value;
        assert_false(read_all(buf.data, buf.len));
        hvd_buf_fini(&buf);
    }
}

static void a_ping_of_what_does_not_exist_is_refused(void **state)
{
    /* The kind of wait, how many are silent, and the sign of one of them. */
    static const struct {
        size_t at;
        char value;
    } cases[] = {{12, HVD_WAIT_KINDS}, {4, 9}, {4, 1}, {62, -1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_buf buf;
        build_ping(&buf);
        buf.data[cases[i].at] = cases[i].value;
        assert_false(read_all(buf.data, buf.len));
        hvd_buf_fini(&buf);
    }
}

/* Builds a message as far as memory goes; checks that a failed item leaves no trace. */
static void build_as_far_as_possible(void)
{
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_REQUESTS, 3);
    for (int i = 0; i < 3 && st == HVD_OK; i++) {
        size_t before = buf.len;
        st = hvd_message_add_request(&buf, &request, &by);
        assert_true(st == HVD_OK || buf.len == before);
    }
    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    if (buf.len > 0)
        assert_true(read_all(buf.data, buf.len));
    hvd_buf_fini(&buf);
}

static void a_message_is_as_before_when_memory_runs_out(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(build_as_far_as_possible());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back_as_they_were),
        cmocka_unit_test(the_rows_of_an_allgather_come_back_by_position),
        cmocka_unit_test(a_partial_comes_back_as_it_was),
        cmocka_unit_test(ranges_that_touch_or_go_back_are_refused),
        cmocka_unit_test(a_plan_comes_back_as_it_was),
        cmocka_unit_test(bits_come_back_as_they_were),
        cmocka_unit_test(a_refusal_comes_back_with_its_reason),
        cmocka_unit_test(bits_that_are_not_sent_read_like_those_of_a_message),
        cmocka_unit_test(a_leave_comes_back_as_it_was),
        cmocka_unit_test(a_ping_comes_back_as_it_was),
        cmocka_unit_test(ranks_that_are_behind_are_some_of_those_that_are_known_and_in_order),
        cmocka_unit_test(a_ping_of_what_does_not_exist_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(values_that_do_not_exist_are_refused),
        cmocka_unit_test(a_message_is_as_before_when_memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
