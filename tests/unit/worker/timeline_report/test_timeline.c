#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "worker/timeline_report/analysis.h"
#include "worker/timeline_report/page.h"
#include "worker/timeline_report/reader.h"

/* A rank whose clock is 500 us ahead of what its timeline's beginning says, asks last. */
static const char first[] =
    "[\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank "
    "0\",\"rank\":0,\"start_time_since_epoch_in_micros\":1750000000000000}},\n"
    "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\",\"host\":"
    "\"node\",\"ranks\":\"0-1\"}},\n"
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"g<1>\"}},\n"
    "{\"ph\":\"B\",\"pid\":1,\"ts\":90.000,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
    "{\"ph\":\"X\",\"pid\":1,\"ts\":100.000,\"name\":\"0\",\"dur\":0},\n"
    "{\"ph\":\"X\",\"pid\":1,\"ts\":360.000,\"name\":\"1\",\"dur\":0},\n"
    "{\"ph\":\"E\",\"pid\":1,\"ts\":400.000},\n"
    "{\"ph\":\"B\",\"pid\":1,\"ts\":400.000,\"name\":\"ALLREDUCE\"},\n"
    "{\"ph\":\"B\",\"pid\":1,\"ts\":400.000,\"name\":\"QUEUE\"},\n"
    "{\"ph\":\"E\",\"pid\":1,\"ts\":410.000},\n"
    "{\"ph\":\"B\",\"pid\":1,\"ts\":410.000,\"name\":\"SHM+MPI_ALLREDUCE\"},\n"
    "{\"ph\":\"E\",\"pid\":1,\"ts\":600.000},\n"
    "{\"ph\":\"E\",\"pid\":1,\"ts\":600.500,\"args\":{\"dtype\":\"float32\",\"shape\":\"[2, "
    "3]\"}},\n"
    "{\"ph\":\"i\",\"pid\":0,\"ts\":700.000,\"name\":\"CYCLE_START\",\"s\":\"g\"}\n]\n";
static const char second[] =
    "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 1\",\"rank\":1,"
    "\"start_time_since_epoch_in_micros\":1750000000000000}},\n"
    "{\"ph\":\"M\",\"pid\":7,\"name\":\"process_name\",\"args\":{\"name\":\"g<1>\"}},\n"
    "{\"ph\":\"B\",\"pid\":7,\"ts\":850,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
    "{\"ph\":\"E\",\"pid\":7,\"ts\":900},\n"
    "{\"ph\":\"B\",\"pid\":7,\"ts\":900,\"name\":\"ALLREDUCE\"},\n"
    "{\"ph\":\"B\",\"pid\":7,\"ts\":900,\"name\":\"QUEUE\"},\n"
    "{\"ph\":\"E\",\"pid\":7,\"ts\":910},\n"
    "{\"ph\":\"B\",\"pid\":7,\"ts\":910,\"name\":\"SHM+MPI_ALLREDUCE\"},\n"
    "{\"ph\":\"E\",\"pid\":7,\"ts\":1100},\n"
    "{\"ph\":\"E\",\"pid\":7,\"ts\":1100.5}\n";

/* As Horovod writes: the coordinator alone, activities of its own, no escapes, no end. */
static const char horovods[] =
    "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": "
    "{\"start_time_since_epoch_in_micros\":1750000000000000}},\n"
    "{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"sort_index\": "
    "0}},\n"
    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"a \"b\"\"}},\n"
    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 2, \"args\": {\"name\": \"w\"}},\n"
    "{\"ph\": \"B\", \"name\": \"NEGOTIATE_ALLREDUCE\", \"ts\": 10, \"pid\": 2},\n"
    "{\"ph\": \"X\", \"name\": \"0\", \"ts\": 10, \"pid\": 2, \"dur\": 0},\n"
    "{\"ph\": \"X\", \"name\": \"1\", \"ts\": 210, \"pid\": 2, \"dur\": 0},\n"
    "{\"ph\": \"E\", \"ts\": 250, \"pid\": 2},\n"
    "{\"ph\": \"B\", \"name\": \"ALLREDUCE\", \"ts\": 250, \"pid\": 2},\n"
    "{\"ph\": \"B\", \"name\": \"MEMCPY_IN_FUSION_BUFFER\", \"ts\": 250, \"pid\": 2},\n"
    "{\"ph\": \"E\", \"ts\": 260, \"pid\": 2},\n"
    "{\"ph\": \"B\", \"name\": \"NCCL_ALLREDUCE\", \"ts\": 260, \"pid\": 2},\n"
    "{\"ph\": \"E\", \"ts\": 300, \"pid\": 2},\n"
    "{\"ph\": \"E\", \"ts\": 300, \"pid\": 2, \"args\": {\"dtype\": \"float16\", \"shape\": "
    "\"[10]\"}}";

static void the_parts_of_a_record_are_read(void **state)
{
    struct hvd_tl_reader reader = {
        .rest = hvd_strview_of(
            "[{\"ph\":\"X\",\"pid\":3,\"ts\":1.5,\"dur\":2,\"tid\":[1,{\"a\":null}],"
            "\"name\":\"\\u00e4\\ud83d\\ude00\\n\\\"\"},\n{\"ph\":\"E\",\"ts\":-1.0009,"
            "\"args\":{\"dtype\":\"bfloat16\",\"shape\":\"[]\",\"error\":\"x\"}}]")};
    struct hvd_tl_event e;

    (void)state;
    assert_true(hvd_tl_reader_read(&reader, &e));
    assert_int_equal(e.phase, 'X');
    assert_int_equal(e.pid, 3);
    assert_int_equal(e.at_ns, 1500);
    assert_int_equal(e.dur_ns, 2000);
    assert_string_equal(e.name, "\xc3\xa4\xf0\x9f\x98\x80\n\"");
    assert_int_equal(e.bytes, -1);
    assert_true(hvd_tl_reader_read(&reader, &e));
    assert_int_equal(e.at_ns, -1000);
    assert_int_equal(e.bytes, 2);
    assert_false(hvd_tl_reader_read(&reader, &e));
    assert_int_equal(reader.n_damaged, 0);
}

static void what_is_no_record_is_counted_and_passed_over(void **state)
{
    struct hvd_tl_reader reader = {
        .rest = hvd_strview_of("[{\"name\":\"a \"b\"\"},\n{\"ts\":99999999999999999999},\n"
                               "{\"ph\":\"i\"},\n{\"name\":\"\\q\"},\n{\"ph\":\"i\",\"pid\":")};
    struct hvd_tl_event e;

    (void)state;
    assert_true(hvd_tl_reader_read(&reader, &e));
    assert_int_equal(e.phase, 'i');
    assert_false(hvd_tl_reader_read(&reader, &e));
    assert_int_equal(reader.n_damaged, 4);
}

static void a_rank_waits_for_the_one_that_asks_last(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(second), NULL), HVD_OK);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(first), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    assert_int_equal(m.ranks[0].rank, 0); /* ordered, although given the other way round */
    assert_int_equal(a.shares[1].offset_ns, -500000);
    assert_int_equal(a.shares[0].ns[HVD_TL_WAITING], 250000);
    assert_int_equal(a.shares[0].ns[HVD_TL_NEGOTIATING], 50000);
    assert_int_equal(a.shares[0].ns[HVD_TL_QUEUED], 10000);
    assert_int_equal(a.shares[0].ns[HVD_TL_MOVING], 190000);
    assert_int_equal(a.shares[0].ns[HVD_TL_IDLE], 110000); /* 90 to 100, and 600 to 700 */
    assert_int_equal(a.shares[1].ns[HVD_TL_WAITING], 0);
    assert_int_equal(a.shares[1].ns[HVD_TL_NEGOTIATING], 50000);
    assert_int_equal((int64_t)a.waited_ns[0 * 3 + 1], 250000);
    assert_int_equal(a.n_last[1], 1);
    assert_int_equal(a.n_groups, 1);
    assert_int_equal(a.n_odd, 0);
    assert_int_equal(a.n_rows, 1);
    assert_int_equal(a.rows[0].n, 2);
    assert_int_equal((int64_t)a.rows[0].bytes, 24);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void the_coordinators_ticks_tell_it_too(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(horovods), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    assert_int_equal(m.ranks[0].n_damaged, 1);
    assert_int_equal(a.shares[0].ns[HVD_TL_WAITING], 200000);
    assert_int_equal(a.shares[0].ns[HVD_TL_NEGOTIATING], 40000);
    assert_int_equal(a.shares[0].ns[HVD_TL_COPYING], 10000);
    assert_int_equal(a.shares[0].ns[HVD_TL_MOVING], 40000);
    assert_int_equal((int64_t)a.waited_ns[1], 200000); /* for ranks without a timeline */
    assert_int_equal((int64_t)a.rows[0].bytes, 20);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void puts_times(struct hvd_buf *text, const char *line, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(hvd_buf_puts(text, line), HVD_OK);
}

/* Another writer nests activities in those of the collective, deeper than any that are read. */
static void the_ends_of_deeply_nested_records_close_no_other(void **state)
{
    (void)state;
    for (int depth = 0; depth < 40; depth++) {
        struct hvd_tl_model m = {0};
        struct hvd_tl_analysis a = {0};
        struct hvd_buf text = {0};

        hvd_buf_init(&text, 1 << 20);
        puts_times(
            &text,
            "[{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"a\"}},\n"
            "{\"ph\":\"B\",\"pid\":1,\"ts\":10,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
            "{\"ph\":\"E\",\"pid\":1,\"ts\":20},\n"
            "{\"ph\":\"B\",\"pid\":1,\"ts\":20,\"name\":\"ALLREDUCE\"},\n"
            "{\"ph\":\"B\",\"pid\":1,\"ts\":30,\"name\":\"MPI_ALLREDUCE\"},\n",
            1);
        puts_times(&text, "{\"ph\":\"B\",\"pid\":1,\"ts\":40,\"name\":\"part\"},\n", depth);
        puts_times(&text, "{\"ph\":\"E\",\"pid\":1,\"ts\":50},\n", depth);
        puts_times(&text,
                   "{\"ph\":\"E\",\"pid\":1,\"ts\":90},\n{\"ph\":\"E\",\"pid\":1,\"ts\":100}\n]\n",
                   1);
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
        assert_int_equal(m.n_ops, 1);
        assert_int_equal(m.ops[0].done_ns, 100000);
        assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
        assert_int_equal(a.shares[0].ns[HVD_TL_MOVING], 60000);
        hvd_tl_analysis_fini(&a);
        hvd_tl_model_fini(&m);
        hvd_buf_fini(&text);
    }
}

/* A step of two tensors, the first of which moves while the second is not handed out yet. */
static void add_step(struct hvd_buf *text, int at)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            hvd_buf_printf(
                text,
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
                "{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n"
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"ALLREDUCE\"},\n"
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"MPI_ALLREDUCE\"},\n"
                "{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n",
                i + 1, at + 50 * i, i + 1, at + 50 * i + 10, i + 1, at + 50 * i + 10, i + 1,
                at + 50 * i + 10, i + 1, at + 50 * i + 40, i + 1, at + 50 * i + 40),
            HVD_OK);
}

static void analyse_steps(const char *more, struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    struct hvd_buf text = {0};

    hvd_buf_init(&text, 1 << 20);
    assert_int_equal(
        hvd_buf_puts(
            &text,
            "[{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"a\"}},\n"
            "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"b\"}},\n"),
        HVD_OK);
    for (int i = 0; i < 5; i++)
        add_step(&text, 1000 + i * (200 + 10 * i));
    assert_int_equal(hvd_buf_puts(&text, more), HVD_OK);
    assert_int_equal(hvd_tl_model_add(m, hvd_strview_of(text.data), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analysis_make(m, a), HVD_OK);
    hvd_buf_fini(&text);
}

static void a_step_begins_where_a_tensor_comes_again(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    analyse_steps("", &m, &a);
    assert_int_equal(a.n_steps, 5);
    assert_int_equal(a.step_to_ns - a.step_from_ns, 250000); /* of 210, 230, 250, 270 */
    assert_int_equal(a.shares[0].ns[HVD_TL_MOVING], 5 * 60000);
    assert_int_equal(a.shares[0].beside_ns, 5 * 30000); /* the second began with the first done */
    assert_false(a.has_backward);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void marks_of_backward_tell_the_overlap(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    analyse_steps("{\"ph\":\"B\",\"pid\":90,\"ts\":1000,\"name\":\"BACKWARD\"},\n"
                  "{\"ph\":\"E\",\"pid\":90,\"ts\":1020},\n"
                  "{\"ph\":\"X\",\"pid\":90,\"ts\":1060,\"dur\":5,\"name\":\"backward\"}]",
                  &m, &a);
    assert_true(a.has_backward);
    assert_int_equal(a.shares[0].beside_ns, 10000 + 5000);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void ranks_that_do_not_fit_together_wait_for_nobody(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf text = {0};

    (void)state;
    hvd_buf_init(&text, 1 << 20);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(first), NULL), HVD_OK);
    /* The same again twice, but the last time is half a second later than on the first rank. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            hvd_buf_printf(&text,
                           "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
                           "\"%s\",\"rank\":1}}\n"
                           "{\"ph\":\"B\",\"pid\":1,\"ts\":%d,\"name\":\"NEGOTIATE_ALLREDUCE\"}\n"
                           "{\"ph\":\"E\",\"pid\":1,\"ts\":%d}\n{\"ph\":\"B\",\"pid\":1,\"ts\":%d,"
                           "\"name\":\"ALLREDUCE\"}\n{\"ph\":\"E\",\"pid\":1,\"ts\":%d}\n",
                           i ? "g<1>" : "x", 100 + i * 500000, 200 + i * 500000, 200 + i * 500000,
                           300 + i * 500000),
            HVD_OK);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
    hvd_buf_reset(&text);
    assert_int_equal(
        hvd_buf_puts(&text,
                     "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"rank\":2,"
                     "\"name\":\"x\"}}\n"
                     "{\"ph\":\"B\",\"pid\":1,\"ts\":1,\"name\":\"NEGOTIATE_X\"}\n"
                     "{\"ph\":\"E\",\"pid\":1,\"ts\":900000}\n{\"ph\":\"B\",\"pid\":1,"
                     "\"ts\":900000,\"name\":\"X\"}\n{\"ph\":\"E\",\"pid\":1,\"ts\":900001}\n"),
        HVD_OK);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    assert_true(a.n_odd > 0);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
    hvd_buf_fini(&text);
}

static void what_is_no_timeline_is_refused(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of("hello"), &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "no record of a timeline"));
    hvd_tl_model_fini(&m);
    hvd_err_clear(&err);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(first), &err), HVD_OK);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(first), &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "there is another one of rank 0");
    hvd_tl_model_fini(&m);
}

/* The page of both ranks. */
static hvd_status_t make_page(struct hvd_buf *out)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    char *files[] = {"t.0.json", "t.<1>.json"};
    const struct hvd_tl_about about = {
        .files = files, .n_files = 2, .host = "here", .made = "2026-01-02 03:04:05 UTC"};
    hvd_status_t st = hvd_tl_model_add(&m, hvd_strview_of(first), NULL);

    hvd_buf_init(out, 1 << 20);
    if (st == HVD_OK)
        st = hvd_tl_model_add(&m, hvd_strview_of(second), NULL);
    if (st == HVD_OK)
        st = hvd_tl_analysis_make(&m, &a);
    if (st == HVD_OK)
        st = hvd_tl_page(&m, &a, &about, out);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
    return st;
}

static void the_page_says_it_and_needs_nothing_else(void **state)
{
    struct hvd_buf page = {0};

    (void)state;
    assert_int_equal(make_page(&page), HVD_OK);
    assert_non_null(strstr(page.data, "class=\"name\">g&lt;1&gt;</th><td>2</td><td>24 B</td>"));
    assert_non_null(
        strstr(page.data, "<tr><th scope=\"row\">rank 0</th><td></td><td>250 &micro;s</td></tr>"));
    assert_non_null(strstr(page.data, "was the last</th><td>0.0 %</td><td>100.0 %</td>"));
    assert_non_null(strstr(page.data, "<dt>job</dt><dd>2 ranks"));
    assert_non_null(strstr(page.data, "<dt>files</dt><dd>t.0.json, t.&lt;1&gt;.json</dd>"));
    assert_non_null(strstr(page.data, "made on host here, 2026-01-02 03:04:05 UTC"));
    assert_null(strstr(page.data, "The green line")); /* there is none */
    assert_null(strstr(page.data, "http"));
    assert_null(strstr(page.data, "<script"));
    assert_non_null(strstr(page.data, "</body></html>"));
    hvd_buf_fini(&page);
}

/* The head of a page of timelines, each with fields of its own in its first record. */
static void make_head(const char *const *fields, size_t n, struct hvd_buf *page)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf text;

    hvd_buf_init(&text, 1 << 20);
    hvd_buf_init(page, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        hvd_buf_reset(&text);
        assert_int_equal(
            hvd_buf_printf(
                &text,
                "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
                "\"rank %zu\",\"rank\":%zu,%s}},\n{\"ph\":\"i\",\"pid\":0,\"ts\":1}\n]",
                i, i, fields[i]),
            HVD_OK);
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
        assert_int_equal(m.ranks[m.n_ranks - 1].n_damaged, 0);
    }
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    assert_int_equal(hvd_tl_page(&m, &a, &(struct hvd_tl_about){0}, page), HVD_OK);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
    hvd_buf_fini(&text);
}

#define HOST(host, ranks)                                                                          \
    "}},\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\","        \
    "\"host\":\"" host "\",\"ranks\":\"" ranks "\""

static void the_head_names_the_program_and_the_hosts_of_all_ranks(void **state)
{
    static const char *const fields[] = {
        "\"size\":9,\"host\":\"a\",\"program\":\"train<1>.py\"" HOST("a", "0-3") HOST("b", "4")
            HOST("c<", "5") HOST("c<", "7") HOST("d", "6, 8"),
        "\"size\":9,\"host\":\"a\",\"program\":\"train<1>.py\""};
    struct hvd_buf page;

    (void)state;
    make_head(fields, 2, &page);
    assert_non_null(strstr(page.data, "<title>train&lt;1&gt;.py: Where the time went</title>"));
    assert_non_null(strstr(page.data, "<dt>program</dt><dd>train&lt;1&gt;.py</dd>"));
    assert_non_null(strstr(page.data, "<dt>job</dt><dd>9 ranks, 2 of them with a timeline"));
    assert_non_null(strstr(page.data, "<dt>hosts</dt><dd>a (ranks 0-3); b (rank 4); "
                                      "c&lt; (ranks 5, ...); d (ranks 6, 8)</dd>"));
    hvd_buf_fini(&page);
}

static void the_head_names_the_hosts_of_the_timelines_that_there_are(void **state)
{
    static const char *const fields[] = {"\"host\":\"a\",\"program\":\"x\"", "\"host\":\"a\"",
                                         "\"host\":\"b\",\"program\":\"y\"",
                                         "\"host\":\"a\",\"program\":\"x\"", "\"z\":0"};
    struct hvd_buf page;

    (void)state;
    make_head(fields, 5, &page);
    assert_non_null(strstr(page.data, "<title>x, y: Where"));
    assert_non_null(strstr(page.data, "<dt>programs</dt><dd>x, y</dd>"));
    assert_non_null(strstr(page.data, "<dt>hosts</dt><dd>a (ranks 0-1, 3); b (rank 2)</dd>"));
    hvd_buf_fini(&page);
}

static void a_head_of_many_hosts_and_programs_counts_the_rest(void **state)
{
    char texts[20][64];
    const char *fields[20];
    struct hvd_buf page;

    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(texts[i], sizeof(texts[i]), "\"host\":\"h%d\",\"program\":\"p%d\"", i, i);
        fields[i] = texts[i];
    }
    make_head(fields, 20, &page);
    assert_non_null(strstr(page.data, "; h15 (rank 15) and 4 more</dd>"));
    assert_non_null(strstr(page.data, ", p7 and 12 more</dd>"));
    hvd_buf_fini(&page);
}

static void a_timeline_without_those_fields_has_a_head_without_them(void **state)
{
    /* Of another writer, who means something else by them. */
    static const char *const fields[] = {
        "\"size\":\"large\",\"host\":1,\"program\":[\"x\",{}],\"ranks\":null"};
    struct hvd_buf page;

    (void)state;
    make_head(fields, 1, &page);
    assert_non_null(strstr(page.data, "<title>Where the time went</title>"));
    assert_non_null(strstr(page.data, "<dl class=\"about\"><dt>job</dt><dd>1 rank</dd>\n</dl>"));
    hvd_buf_fini(&page);
}

static void the_page_of_one_timeline_of_several_counts_what_there_is(void **state)
{
    static const char *const steps[] = {", 0 steps.", ", 1 step.", ", 2 steps."};
    static const char *const overlaps[] = {"There are no steps to measure it by.",
                                           "One step is too few to measure it.", "%"};

    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        struct hvd_tl_model m = {0};
        struct hvd_tl_analysis a = {0};
        struct hvd_buf page = {0};

        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(horovods), NULL), HVD_OK);
        assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
        a.n_steps = n;
        hvd_buf_init(&page, 1 << 20);
        assert_int_equal(hvd_tl_page(&m, &a, &(struct hvd_tl_about){0}, &page), HVD_OK);
        assert_non_null(strstr(page.data, "<dd>2 ranks, 1 of them with a timeline"));
        assert_non_null(strstr(page.data, " 1 collective, 1 tensor,"));
        assert_non_null(strstr(page.data, steps[n]));
        assert_non_null(strstr(strstr(page.data, "<h2>Overlap</h2>"), overlaps[n]));
        hvd_buf_fini(&page);
        hvd_tl_analysis_fini(&a);
        hvd_tl_model_fini(&m);
    }
}

/* How often a text is in another. */
static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

static void page_of(const struct hvd_tl_model *m, const struct hvd_tl_analysis *a,
                    struct hvd_buf *page)
{
    hvd_buf_init(page, HVD_TL_PAGE_MAX);
    assert_int_equal(hvd_tl_page(m, a, &(struct hvd_tl_about){0}, page), HVD_OK);
}

static void the_picture_of_a_step_has_an_axis_and_says_what_is_in_it(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf page = {0};

    (void)state;
    analyse_steps("", &m, &a);
    page_of(&m, &a, &page);
    /* At most six ticks behind 0, all in one unit, each a part of the width; every second one has
     * a label that a narrow page leaves out. */
    assert_non_null(strstr(page.data, "<text x=\"0.000%\" y=\"39\">0</text>"));
    assert_non_null(
        strstr(page.data, "<text class=\"between\" x=\"20.000%\" y=\"39\">50 &micro;s"));
    assert_non_null(strstr(page.data, "<text x=\"80.000%\" y=\"39\">200 &micro;s</text>"));
    assert_non_null(strstr(page.data, "x=\"100.000%\" y=\"39\">250 &micro;s</text>"));
    assert_int_equal(count_of(page.data, "<line "), 6);
    assert_non_null(strstr(page.data, "time since the step began</text>"));
    assert_non_null(strstr(page.data, "text-anchor=\"end\">rank 0</text>"));
    /* Both tensors, 10 to 40 and 60 to 90 of 250, and the green line below the handing out. */
    assert_non_null(strstr(page.data, "<path class=\"mo\" d=\"M40.00 2h120.00v14H40.00zM240.00 2h"
                                      "120.00v14H240.00z\"/>"));
    assert_non_null(strstr(page.data, "<path class=\"bw\" d=\"M0.00 16h200.00v3H0.00z\"/>"));
    assert_non_null(strstr(page.data, "The green line: from the first to the last"));
    assert_non_null(strstr(page.data, "<li><i class=\"bw\"></i>handing out</li>"));
    hvd_buf_fini(&page);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void a_green_line_is_named_where_one_is_drawn(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf page = {0};

    (void)state;
    analyse_steps("", &m, &a);
    for (size_t k = 0; k < a.shares[0].n_step; k++)
        a.shares[0].step[k].is_backward = false;
    page_of(&m, &a, &page);
    assert_null(strstr(page.data, "class=\"bw\""));
    assert_null(strstr(page.data, "The green line"));
    hvd_buf_fini(&page);
    /* One that is too short to be seen is no line. */
    a.shares[0].step[0].to_ns = a.shares[0].step[0].from_ns + 1;
    a.shares[0].step[0].is_backward = true;
    page_of(&m, &a, &page);
    assert_null(strstr(page.data, "class=\"bw\""));
    assert_null(strstr(page.data, "The green line"));
    hvd_buf_fini(&page);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void labels_keep_their_size_and_wide_parts_scroll_by_themselves(void **state)
{
    struct hvd_buf page = {0};
    const char *svg;

    (void)state;
    assert_int_equal(make_page(&page), HVD_OK);
    /* The image with the text is never scaled, that with the lanes holds no text. */
    svg = strstr(page.data, "<svg class=\"step\" width=\"100%\" height=\"");
    assert_null(strstr(page.data, "min-width"));
    assert_true(!svg || !strstr(svg, "viewBox") || strstr(svg, "preserveAspectRatio=\"none\""));
    /* Letters: never below 11 px. */
    for (const char *at = strstr(page.data, "font"); at; at = strstr(at + 1, "font")) {
        int px = 0;
        int end = 0;

        if (sscanf(at, "font:%dpx%n", &px, &end) == 1 && end > 0)
            assert_in_range(px, 11, 99);
        if (sscanf(at, "font-size:%dpx%n", &px, &end) == 1 && end > 0)
            assert_in_range(px, 11, 99);
    }
    /* Two ranks fit; what is wider scrolls by keys as well. */
    assert_non_null(strstr(page.data, "<div class=\"scroll\"><table"));
    assert_non_null(strstr(page.data, ".scroll{overflow-x:auto}"));
    /* Heads of lines and columns are such; paper keeps the colours. */
    assert_int_equal(count_of(page.data, "<thead>"), 3);
    assert_non_null(strstr(page.data, "<th scope=\"row\" rowspan=\"2\">rank 0</th>"));
    assert_non_null(strstr(page.data, "print-color-adjust:exact"));
    assert_non_null(strstr(page.data, "<b>queued</b>: agreed, but behind other tensors</li>"));
    hvd_buf_fini(&page);
}

/* The timeline of a rank with one collective of every of n tensors, every `steps` times; what comes
 * before a name makes it long. */
static void write_rank(struct hvd_buf *text, size_t rank, int n, int steps, const char *before)
{
    hvd_buf_reset(text);
    assert_int_equal(hvd_buf_printf(text,
                                    "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":"
                                    "{\"name\":\"rank %zu\",\"rank\":%zu}},\n",
                                    rank, rank),
                     HVD_OK);
    for (int i = 0; i < n; i++)
        assert_int_equal(
            hvd_buf_printf(text,
                           "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":"
                           "\"%s%d\"}},\n",
                           i + 1, before, i),
            HVD_OK);
    for (int i = 0; i < n * steps; i++)
        assert_int_equal(
            hvd_buf_printf(
                text,
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
                "{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n"
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"ALLREDUCE\"},\n"
                "{\"ph\":\"B\",\"pid\":%d,\"ts\":%d,\"name\":\"MPI_ALLREDUCE\"},\n"
                "{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n{\"ph\":\"E\",\"pid\":%d,\"ts\":%d},\n",
                i % n + 1, i * 100 + (int)rank, i % n + 1, i * 100 + 60, i % n + 1, i * 100 + 60,
                i % n + 1, i * 100 + 60, i % n + 1, i * 100 + 90, i % n + 1, i * 100 + 90),
            HVD_OK);
    assert_int_equal(hvd_buf_puts(text, "{\"ph\":\"i\",\"pid\":0,\"ts\":0,\"name\":\"x\"}\n]\n"),
                     HVD_OK);
}

/* The page of that many of them. */
static void make_large(size_t n_ranks, int n, int steps, const char *before, struct hvd_buf *page)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf text;

    hvd_buf_init(&text, 64 << 20);
    for (size_t i = 0; i < n_ranks; i++) {
        write_rank(&text, i, n, steps, before);
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
    }
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    page_of(&m, &a, page);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
    hvd_buf_fini(&text);
}

static void a_step_of_many_events_is_drawn_to_its_end_and_the_page_stays_small(void **state)
{
    struct hvd_buf page = {0};
    const char *path;
    double x = 0;
    double width = 0;

    (void)state;
    make_large(2, 9000, 2, "t", &page); /* 108,000 events of each rank, 18,000 stretches a step */
    assert_in_range(page.len, 1, 100000);
    assert_non_null(strstr(page.data, "is drawn in 1000 cells of one length"));
    path = strstr(page.data, "<path class=\"");
    assert_non_null(path);
    path = strchr(path, 'M');
    assert_non_null(path);
    for (; *path != '"'; path = strchr(path, 'z') + 1)
        assert_int_equal(sscanf(path, "M%lf %*dh%lf", &x, &width), 2);
    assert_true(x + width > 999);
    hvd_buf_fini(&page);
}

static void a_page_of_many_ranks_is_no_wider_than_eight(void **state)
{
    struct hvd_buf page = {0};
    const char *waits;

    (void)state;
    make_large(40, 3, 3, "t", &page);
    waits = strstr(page.data, "<h2>Waiting for whom</h2>");
    assert_non_null(waits);
    assert_non_null(strstr(waits, "The 8 ranks that were waited for the longest have a column."));
    /* Rank 39 is the last to ask, always. */
    assert_non_null(strstr(waits, "<th scope=\"col\">rank 39</th>"));
    assert_non_null(strstr(waits, "<div class=\"scroll\" tabindex=\"0\" role=\"region\""));
    assert_int_equal(count_of(waits, "<th scope=\"col\">rank "), 8);
    assert_non_null(strstr(waits, "<p>8 more ranks have no line.</p>"));
    assert_non_null(strstr(page.data, " 8 more ranks are not drawn."));
    hvd_buf_fini(&page);
}

static void a_long_name_is_folded_and_nothing_of_it_is_lost(void **state)
{
    static const char before[] = "layers.\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
                                 "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
                                 "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
                                 "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4.attention.<output>."
                                 "LayerNorm.of.the.last.block.weight.";
    struct hvd_buf page = {0};
    char part[64];

    (void)state;
    make_large(1, 1, 2, before, &page);
    (void)snprintf(part, sizeof(part), "%.55s&hellip;", before); /* 56 cuts a letter into two */
    assert_non_null(strstr(page.data, part));
    assert_non_null(strstr(page.data, "orm.of.the.last.block.weight.0</summary>layers."));
    assert_non_null(strstr(page.data,
                           ".attention.&lt;output&gt;.LayerNorm.of.the.last.block.weight.0"
                           "</details>"));
    hvd_buf_fini(&page);
}

/* The page of one rank's text, then of another's where there is one. */
static void page_of_texts(const char *one, const char *other, struct hvd_buf *page)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(one), NULL), HVD_OK);
    if (other)
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(other), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    page_of(&m, &a, page);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void a_job_without_a_collective_has_a_page(void **state)
{
    struct hvd_buf page = {0};

    (void)state;
    page_of_texts(
        "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\","
        "\"rank\":0,\"host\":\"h\",\"program\":\"p\",\"size\":2}}\n]\n",
        NULL, &page);
    assert_non_null(strstr(page.data, "1 timeline, in which no collective came to its end."));
    assert_non_null(strstr(page.data, "<dt>program</dt><dd>p</dd>"));
    assert_null(strstr(page.data, "<h2>"));
    assert_null(strstr(page.data, "class=\"note\""));
    hvd_buf_fini(&page);
}

static void what_a_killed_rank_did_not_write_is_noted(void **state)
{
    struct hvd_buf page = {0};
    char cut[sizeof(first)] = "";

    (void)state;
    page_of_texts(first, NULL, &page);
    assert_null(strstr(page.data, "class=\"note\""));
    hvd_buf_fini(&page);
    /* In the middle of a record. */
    memcpy(cut, first, (size_t)(strstr(first, "600.500") - first));
    page_of_texts(cut, NULL, &page);
    assert_non_null(strstr(page.data, "no collective came to its end"));
    assert_non_null(strstr(page.data, "<p class=\"note\">rank 0: 1 record could not be read, 1 "
                                      "collective has no end, its file breaks off, so that later "
                                      "events are missing.</p>"));
    hvd_buf_fini(&page);
    /* Between two. */
    *(strstr(cut, "{\"ph\":\"E\",\"pid\":1,\"ts\":600.000}")) = '\0';
    page_of_texts(cut, NULL, &page);
    assert_non_null(strstr(page.data, "rank 0: 1 collective has no end, its file breaks off"));
    hvd_buf_fini(&page);
}

/* Three steps of one tensor on a rank; the last is shifted by that many microseconds. */
static const char *three_steps(int rank, int shift, char *text, size_t size)
{
    int len =
        snprintf(text, size,
                 "[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"rank\":%d}},\n"
                 "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"t\"}}",
                 rank);

    for (int i = 0; i < 3; i++) {
        const int at = i * 1000 + (i == 2 ? shift : 0);

        len += snprintf(text + len, size - (size_t)len,
                        ",\n{\"ph\":\"B\",\"pid\":1,\"ts\":%d,\"name\":\"NEGOTIATE_ALLREDUCE\"},\n"
                        "{\"ph\":\"E\",\"pid\":1,\"ts\":%d},\n"
                        "{\"ph\":\"B\",\"pid\":1,\"ts\":%d,\"name\":\"ALLREDUCE\"},\n"
                        "{\"ph\":\"E\",\"pid\":1,\"ts\":%d}",
                        at, at + 10, at + 10, at + 500);
    }
    (void)snprintf(text + len, size - (size_t)len, "\n]\n");
    return text;
}

static void a_clock_that_jumps_is_noted(void **state)
{
    char one[2048];
    char other[2048];
    struct hvd_buf page = {0};

    (void)state;
    page_of_texts(three_steps(0, 0, one, sizeof(one)), three_steps(1, 100, other, sizeof(other)),
                  &page);
    assert_null(strstr(page.data, "class=\"note\""));
    hvd_buf_fini(&page);
    /* Forward. */
    page_of_texts(one, three_steps(1, 900000000, other, sizeof(other)), &page);
    assert_null(strstr(page.data, "The last collective")); /* it is the same one */
    assert_non_null(strstr(page.data, "<p class=\"note\">1 of 3 collectives do not fit together"));
    hvd_buf_fini(&page);
    /* Back, to before the timeline began. */
    page_of_texts(one, three_steps(1, -900000000, other, sizeof(other)), &page);
    assert_non_null(strstr(page.data, "<p class=\"note\">rank 1: 1 time its clock went back.</p>"));
    assert_non_null(strstr(page.data, "<p class=\"note\">1 of 3 collectives do not fit together"));
    assert_null(strstr(page.data, ">-"));
    hvd_buf_fini(&page);
}

static void a_rank_that_took_part_in_no_more_is_noted(void **state)
{
    char one[2048];
    char other[2048];
    struct hvd_buf page = {0};

    (void)state;
    (void)three_steps(0, 600000, one, sizeof(one));
    (void)three_steps(1, 600000, other, sizeof(other));
    (void)memcpy(strstr(other, ",\n{\"ph\":\"B\",\"pid\":1,\"ts\":602000"), "\n]\n", 4);
    page_of_texts(one, other, &page);
    assert_non_null(strstr(page.data, "<p class=\"note\">The last collective of rank 1 ends 601 ms "
                                      "before that of rank 0: it took part in no more, or its "
                                      "later events are missing.</p>"));
    assert_null(strstr(page.data, "do not fit together"));
    hvd_buf_fini(&page);
}

static void a_page_names_no_more_than_sixteen_troubled_ranks(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf page = {0};
    char text[256];

    (void)state;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(
            text, sizeof(text),
            "[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"rank\":%d}},\n"
            "{\"ph\":\"i\",\"pid\":0,\"ts\":1,\"name\":\"LOST\",\"args\":{\"text\":\"gone\"}}]",
            i);
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text), NULL), HVD_OK);
    }
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    page_of(&m, &a, &page);
    assert_int_equal(count_of(page.data, "1 stall, loss or failure. The first: LOST: gone"), 16);
    assert_non_null(strstr(page.data, "The same goes for 24 more ranks."));
    hvd_buf_fini(&page);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

/* A lane of n parts, each of which differs from the next, and so does the green line. */
static void fill_step(struct hvd_tl_analysis *a, size_t i, size_t n)
{
    const int64_t length = (a->step_to_ns - a->step_from_ns) / (int64_t)n;
    struct hvd_tl_share *share = &a->shares[i];

    hvd_free(share->step);
    share->step = hvd_calloc(n, sizeof(*share->step));
    assert_non_null(share->step);
    share->n_step = n;
    for (size_t k = 0; k < n; k++)
        share->step[k] =
            (struct hvd_tl_stretch){.from_ns = a->step_from_ns + (int64_t)k * length,
                                    .to_ns = a->step_from_ns + (int64_t)(k + 1) * length,
                                    .class_ = (uint8_t)(k % HVD_TL_CLASSES),
                                    .is_backward = k % 2};
}

static void the_largest_page_stays_below_its_limit(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf text;
    struct hvd_buf page;
    char name[1001] = "";
    char path[4096] = "";
    char *files[9];

    (void)state;
    memset(name, '<', sizeof(name) - 1);
    memset(path, '"', sizeof(path) - 1);
    for (size_t i = 0; i < 9; i++)
        files[i] = path;
    hvd_buf_init(&text, 64 << 20);
    for (size_t i = 0; i < 80; i++) {
        write_rank(&text, i, 40, 3, name);
        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(text.data), NULL), HVD_OK);
        memset(m.ranks[i].trouble, '<', sizeof(m.ranks[i].trouble) - 1);
        memset(m.ranks[i].host, '<', sizeof(m.ranks[i].host) - 1);
        memset(m.ranks[i].program, '<', sizeof(m.ranks[i].program) - 1);
        m.ranks[i].host[0] = m.ranks[i].program[0] = (char)('0' + i);
        m.ranks[i].n_stalls = 1;
    }
    assert_int_equal(hvd_tl_analysis_make(&m, &a), HVD_OK);
    for (size_t i = 0; i < 80; i++)
        fill_step(&a, i, 1000);
    hvd_buf_init(&page, HVD_TL_PAGE_MAX);
    assert_int_equal(
        hvd_tl_page(&m, &a, &(struct hvd_tl_about){.files = files, .n_files = 9}, &page), HVD_OK);
    assert_in_range(page.len, HVD_TL_PAGE_MAX / 2, HVD_TL_PAGE_MAX);
    hvd_buf_fini(&page);
    hvd_buf_fini(&text);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void without_memory_for_its_cells_there_is_no_page(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    analyse_steps("", &m, &a);
    fill_step(&a, 0, 5000);
    HVD_MEM_TORTURE({
        struct hvd_buf page = {0};
        hvd_status_t st;

        hvd_buf_init(&page, HVD_TL_PAGE_MAX);
        st = hvd_tl_page(&m, &a, &(struct hvd_tl_about){0}, &page);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&page);
    });
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_buf page = {0};
        hvd_status_t st = make_page(&page);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&page);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_record_are_read),
        cmocka_unit_test(what_is_no_record_is_counted_and_passed_over),
        cmocka_unit_test(a_rank_waits_for_the_one_that_asks_last),
        cmocka_unit_test(the_coordinators_ticks_tell_it_too),
        cmocka_unit_test(the_ends_of_deeply_nested_records_close_no_other),
        cmocka_unit_test(a_step_begins_where_a_tensor_comes_again),
        cmocka_unit_test(marks_of_backward_tell_the_overlap),
        cmocka_unit_test(ranks_that_do_not_fit_together_wait_for_nobody),
        cmocka_unit_test(what_is_no_timeline_is_refused),
        cmocka_unit_test(the_page_says_it_and_needs_nothing_else),
        cmocka_unit_test(the_head_names_the_program_and_the_hosts_of_all_ranks),
        cmocka_unit_test(the_head_names_the_hosts_of_the_timelines_that_there_are),
        cmocka_unit_test(a_head_of_many_hosts_and_programs_counts_the_rest),
        cmocka_unit_test(a_timeline_without_those_fields_has_a_head_without_them),
        cmocka_unit_test(the_page_of_one_timeline_of_several_counts_what_there_is),
        cmocka_unit_test(the_picture_of_a_step_has_an_axis_and_says_what_is_in_it),
        cmocka_unit_test(a_green_line_is_named_where_one_is_drawn),
        cmocka_unit_test(labels_keep_their_size_and_wide_parts_scroll_by_themselves),
        cmocka_unit_test(a_step_of_many_events_is_drawn_to_its_end_and_the_page_stays_small),
        cmocka_unit_test(a_page_of_many_ranks_is_no_wider_than_eight),
        cmocka_unit_test(a_long_name_is_folded_and_nothing_of_it_is_lost),
        cmocka_unit_test(a_job_without_a_collective_has_a_page),
        cmocka_unit_test(what_a_killed_rank_did_not_write_is_noted),
        cmocka_unit_test(a_clock_that_jumps_is_noted),
        cmocka_unit_test(a_rank_that_took_part_in_no_more_is_noted),
        cmocka_unit_test(a_page_names_no_more_than_sixteen_troubled_ranks),
        cmocka_unit_test(the_largest_page_stays_below_its_limit),
        cmocka_unit_test(without_memory_for_its_cells_there_is_no_page),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
