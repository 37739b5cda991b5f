#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "worker/launch/timeline/analysis.h"
#include "worker/launch/timeline/page.h"
#include "worker/launch/timeline/reader.h"

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
    assert_true(hvd_tl_read(&reader, &e));
    assert_int_equal(e.phase, 'X');
    assert_int_equal(e.pid, 3);
    assert_int_equal(e.at_ns, 1500);
    assert_int_equal(e.dur_ns, 2000);
    assert_string_equal(e.name, "\xc3\xa4\xf0\x9f\x98\x80\n\"");
    assert_int_equal(e.bytes, -1);
    assert_true(hvd_tl_read(&reader, &e));
    assert_int_equal(e.at_ns, -1000);
    assert_int_equal(e.bytes, 2);
    assert_false(hvd_tl_read(&reader, &e));
    assert_int_equal(reader.n_damaged, 0);
}

static void what_is_no_record_is_counted_and_passed_over(void **state)
{
    struct hvd_tl_reader reader = {
        .rest = hvd_strview_of("[{\"name\":\"a \"b\"\"},\n{\"ts\":99999999999999999999},\n"
                               "{\"ph\":\"i\"},\n{\"name\":\"\\q\"},\n{\"ph\":\"i\",\"pid\":")};
    struct hvd_tl_event e;

    (void)state;
    assert_true(hvd_tl_read(&reader, &e));
    assert_int_equal(e.phase, 'i');
    assert_false(hvd_tl_read(&reader, &e));
    assert_int_equal(reader.n_damaged, 4);
}

static void a_rank_waits_for_the_one_that_asks_last(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};

    (void)state;
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(second), NULL), HVD_OK);
    assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(first), NULL), HVD_OK);
    assert_int_equal(hvd_tl_analyse(&m, &a), HVD_OK);
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
    assert_int_equal(hvd_tl_analyse(&m, &a), HVD_OK);
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
    assert_int_equal(hvd_tl_analyse(m, a), HVD_OK);
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
    assert_int_equal(hvd_tl_analyse(&m, &a), HVD_OK);
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
        st = hvd_tl_analyse(&m, &a);
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
    assert_non_null(strstr(page.data, "<td>g&lt;1&gt;</td><td>2</td><td>24 B</td>"));
    assert_non_null(strstr(page.data, "<tr><td>rank 0</td><td></td><td>250 &micro;s</td></tr>"));
    assert_non_null(strstr(page.data, "<td>was the last</td><td>0.0 %</td><td>100.0 %</td>"));
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
    assert_int_equal(hvd_tl_analyse(&m, &a), HVD_OK);
    assert_int_equal(hvd_tl_page(&m, &a, &(struct hvd_tl_about){0}, page), HVD_OK);
    hvd_tl_analysis_fini(&a);
    hvd_tl_model_fini(&m);
    hvd_buf_fini(&text);
}

#define PLACE(host, ranks)                                                                         \
    "}},\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\","        \
    "\"host\":\"" host "\",\"ranks\":\"" ranks "\""

static void the_head_names_the_program_and_the_hosts_of_all_ranks(void **state)
{
    static const char *const fields[] = {
        "\"size\":9,\"host\":\"a\",\"program\":\"train<1>.py\"" PLACE("a", "0-3") PLACE("b", "4")
            PLACE("c<", "5") PLACE("c<", "7") PLACE("d", "6, 8"),
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
    static const char *const overlaps[] = {"There are no steps to tell it by.",
                                           "One step is too few to tell it by.", "%"};

    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        struct hvd_tl_model m = {0};
        struct hvd_tl_analysis a = {0};
        struct hvd_buf page = {0};

        assert_int_equal(hvd_tl_model_add(&m, hvd_strview_of(horovods), NULL), HVD_OK);
        assert_int_equal(hvd_tl_analyse(&m, &a), HVD_OK);
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

static void the_picture_of_a_step_has_an_axis_and_says_what_is_in_it(void **state)
{
    struct hvd_tl_model m = {0};
    struct hvd_tl_analysis a = {0};
    struct hvd_buf page = {0};

    (void)state;
    analyse_steps("", &m, &a);
    hvd_buf_init(&page, 1 << 20);
    assert_int_equal(hvd_tl_page(&m, &a, &(struct hvd_tl_about){0}, &page), HVD_OK);
    assert_non_null(strstr(page.data, "text-anchor=\"start\">0</text>"));
    assert_non_null(strstr(page.data, ">50.0 &micro;s</text>")); /* of 250 */
    assert_non_null(strstr(page.data, "text-anchor=\"end\">250 &micro;s</text>"));
    assert_non_null(strstr(page.data, "time since the step began</text>"));
    assert_non_null(strstr(page.data, "<rect class=\"bw\""));
    assert_non_null(strstr(page.data, "The green line: from the first to the last"));
    hvd_buf_fini(&page);
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
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
