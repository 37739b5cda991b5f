#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/telemetry/core/trace.h"

static const struct hvd_trace_options options = {.start_unix_us = 1700000000000000, .rank = 3};

static struct hvd_note note(enum hvd_event_kind kind, uint64_t id, int detail, const char *name)
{
    struct hvd_note n = {.event = {.kind = (uint8_t)kind,
                                   .id = id,
                                   .detail = detail,
                                   .op = HVD_ALLREDUCE,
                                   .reduce = HVD_SUM,
                                   .dtype = HVD_FLOAT32,
                                   .name_len = (uint16_t)strlen(name)}};

    if (kind == HVD_EVENT_SUBMITTED) {
        n.event.ndim = 2;
        n.shape[0] = 2;
        n.shape[1] = 3;
    }
    snprintf(n.name, sizeof(n.name), "%s", name);
    return n;
}

/* Adds an event and checks the records that it makes. */
static void expect(struct hvd_trace *trace, struct hvd_note n, int64_t ns, const char *records)
{
    struct hvd_buf lines;

    hvd_buf_init(&lines, 1 << 20);
    assert_int_equal(hvd_trace_add(trace, &n, ns, &lines), HVD_OK);
    assert_string_equal(lines.data ? lines.data : "", records);
    hvd_buf_fini(&lines);
}

static struct hvd_trace *create(bool marks_cycles)
{
    struct hvd_trace_options o = options;
    struct hvd_trace *trace = NULL;
    struct hvd_buf lines;

    o.marks_cycles = marks_cycles;
    assert_int_equal(hvd_trace_create(&o, &trace), HVD_OK);
    hvd_buf_init(&lines, 1 << 20);
    assert_int_equal(hvd_trace_open(trace, &lines), HVD_OK);
    assert_string_equal(
        lines.data,
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 3\","
        "\"rank\":3,\"start_time_since_epoch_in_micros\":1700000000000000}}\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_sort_index\","
        "\"args\":{\"sort_index\":0}}\n");
    hvd_buf_fini(&lines);
    return trace;
}

static void the_first_records_name_the_program_and_the_hosts(void **state)
{
    static const char rank_hosts[] = "{\"ph\":\"M\",\"pid\":0}\n";
    struct hvd_trace_options o = options;
    struct hvd_trace *trace = NULL;
    struct hvd_buf lines;

    (void)state;
    o.size = 4;
    o.host = "node\n\"a\"";
    o.program = "train.py";
    o.rank_hosts = hvd_strview_of(rank_hosts);
    assert_int_equal(hvd_trace_create(&o, &trace), HVD_OK);
    hvd_buf_init(&lines, 1 << 20);
    for (int file = 0; file < 2; file++) { /* also in the one after that which was set aside */
        hvd_buf_reset(&lines);
        assert_int_equal(hvd_trace_open(trace, &lines), HVD_OK);
        assert_non_null(strstr(lines.data, "1700000000000000,\"size\":4,\"host\":\"node\\u000a"
                                           "\\\"a\\\"\",\"program\":\"train.py\"}}\n"));
        assert_true(hvd_str_has_suffix(lines.data, rank_hosts));
    }
    hvd_buf_fini(&lines);
    hvd_trace_destroy(trace);
}

#define LANE(pid, name)                                                                            \
    "{\"ph\":\"M\",\"pid\":" pid ",\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"" name \
    "\"}}\n{\"ph\":\"M\",\"pid\":" pid                                                             \
    ",\"tid\":0,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":" pid "}}\n"
#define BEGIN(pid, ts, name)                                                                       \
    "{\"ph\":\"B\",\"pid\":" pid ",\"tid\":0,\"ts\":" ts ",\"name\":\"" name "\"}\n"
#define END(pid, ts) "{\"ph\":\"E\",\"pid\":" pid ",\"tid\":0,\"ts\":" ts "}\n"
#define END_WITH(pid, ts, extra)                                                                   \
    "{\"ph\":\"E\",\"pid\":" pid ",\"tid\":0,\"ts\":" ts                                           \
    ",\"args\":{\"dtype\":\"float32\",\"shape\":\"[2, 3]\"" extra "}}\n"
#define UNFINISHED(pid)                                                                            \
    "{\"ph\":\"E\",\"pid\":" pid ",\"tid\":0,\"ts\":6.000,\"args\":{\"unfinished\":true}}\n"
#define TICK(pid, ts, rank)                                                                        \
    "{\"ph\":\"X\",\"pid\":" pid ",\"tid\":0,\"ts\":" ts ",\"name\":\"" rank "\",\"dur\":0}\n"

static void a_tensor_goes_through_the_phases_of_horovods_timeline(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 7, 0, "grad"), 1000,
           LANE("1", "grad") BEGIN("1", "1.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_READY, 0, 0, "grad"), 2000, TICK("1", "2.000", "0"));
    expect(trace, note(HVD_EVENT_READY, 0, 1, "grad"), 2500, TICK("1", "2.500", "1"));
    expect(trace, note(HVD_EVENT_AGREED, 7, 0, ""), 3000,
           END("1", "3.000") BEGIN("1", "3.000", "ALLREDUCE") BEGIN("1", "3.000", "QUEUE"));
    expect(trace, note(HVD_EVENT_STARTED, 7, 0, "MPI"), 4000,
           END("1", "4.000") BEGIN("1", "4.000", "MPI_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_DONE, 7, HVD_OK, ""), 5001,
           END("1", "5.001") END_WITH("1", "5.001", ""));
    expect(trace, note(HVD_EVENT_SUBMITTED, 8, 0, "grad"), 6000,
           BEGIN("1", "6.000", "NEGOTIATE_ALLREDUCE"));
    hvd_trace_destroy(trace);
}

static void the_steps_of_a_hierarchical_allreduce_have_horovods_names(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 7, 0, "grad"), 1000,
           LANE("1", "grad") BEGIN("1", "1.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_AGREED, 7, 0, ""), 2000,
           END("1", "2.000") BEGIN("1", "2.000", "ALLREDUCE") BEGIN("1", "2.000", "QUEUE"));
    expect(trace, note(HVD_EVENT_STARTED, 7, 0, "nccl_REDUCESCATTER"), 3000,
           END("1", "3.000") BEGIN("1", "3.000", "NCCL_REDUCESCATTER"));
    expect(trace, note(HVD_EVENT_STARTED, 7, 0, "shm+mpi"), 4000,
           END("1", "4.000") BEGIN("1", "4.000", "SHM+MPI_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_STARTED, 7, 0, "nccl_ALLGATHER"), 5000,
           END("1", "5.000") BEGIN("1", "5.000", "NCCL_ALLGATHER"));
    expect(trace, note(HVD_EVENT_DONE, 7, HVD_OK, ""), 6000,
           END("1", "6.000") END_WITH("1", "6.000", ""));
    hvd_trace_destroy(trace);
}

static void the_first_rank_that_asks_opens_the_negotiation(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_READY, 0, 2, "g"), 1000,
           LANE("1", "g") BEGIN("1", "1.000", "NEGOTIATE_ALLREDUCE") TICK("1", "1.000", "2"));
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "g"), 2000, "");
    hvd_trace_destroy(trace);
}

static void a_tensor_that_fails_says_so_at_its_end(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "g"), 0,
           LANE("1", "g") BEGIN("1", "0.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_DONE, 1, HVD_ERR_MISMATCH, ""), 1000,
           END_WITH("1", "1.000", ",\"error\":\"ranks disagree about the operation\""));
    hvd_trace_destroy(trace);
}

static void what_began_before_the_trace_is_left_out(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_AGREED, 5, 0, ""), 1, "");
    expect(trace, note(HVD_EVENT_STARTED, 5, 0, "MPI"), 2, "");
    expect(trace, note(HVD_EVENT_DONE, 5, 0, ""), 3, "");
    hvd_trace_destroy(trace);
}

static void a_lost_end_is_made_up_for_at_the_next_beginning(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "g"), 0,
           LANE("1", "g") BEGIN("1", "0.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_STARTED, 1, 0, "SHM"), 1000,
           END("1", "1.000") BEGIN("1", "1.000", "ALLREDUCE") BEGIN("1", "1.000", "SHM_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_SUBMITTED, 2, 0, "g"), 9000,
           END("1", "9.000") END_WITH("1", "9.000", "") BEGIN("1", "9.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_DONE, 1, 0, ""), 9500, "");
    hvd_trace_destroy(trace);
}

static void an_id_that_is_used_again_belongs_to_the_last_one(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "a"), 0,
           LANE("1", "a") BEGIN("1", "0.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "b"), 0,
           LANE("2", "b") BEGIN("2", "0.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_DONE, 1, HVD_ERR_SHUTDOWN, ""), 1000,
           END_WITH("2", "1.000", ",\"error\":\"shut down\""));
    hvd_trace_destroy(trace);
}

static void every_operation_has_horovods_names(void **state)
{
    static const struct {
        enum hvd_op op;
        enum hvd_reduce reduce;
        const char *name;
        const char *activity;
    } ops[] = {
        {HVD_ALLREDUCE, HVD_SUM, "ALLREDUCE", "MPI_ALLREDUCE"},
        {HVD_ALLREDUCE, HVD_ADASUM, "ADASUM", "MPI_ADASUM_ALLREDUCE"},
        {HVD_ALLGATHER, HVD_SUM, "ALLGATHER", "MPI_ALLGATHER"},
        {HVD_BROADCAST, HVD_SUM, "BROADCAST", "MPI_BCAST"},
        {HVD_ALLTOALL, HVD_SUM, "ALLTOALL", "MPI_ALLTOALL"},
        {HVD_REDUCESCATTER, HVD_SUM, "REDUCESCATTER", "MPI_REDUCESCATTER"},
    };
    struct hvd_trace *trace = create(false);

    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct hvd_note n = note(HVD_EVENT_SUBMITTED, i + 1, 0, "t");
        struct hvd_buf lines;
        char want[64];
        n.event.op = (uint8_t)ops[i].op;
        n.event.reduce = (uint8_t)ops[i].reduce;
        hvd_buf_init(&lines, 1 << 20);
        assert_int_equal(hvd_trace_add(trace, &n, 0, &lines), HVD_OK);
        snprintf(want, sizeof(want), "\"NEGOTIATE_%s\"", ops[i].name);
        assert_non_null(strstr(lines.data, want));
        n = note(HVD_EVENT_STARTED, i + 1, 0, "MPI");
        assert_int_equal(hvd_trace_add(trace, &n, 0, &lines), HVD_OK);
        snprintf(want, sizeof(want), "\"%s\"", ops[i].name);
        assert_non_null(strstr(lines.data, want));
        snprintf(want, sizeof(want), "\"%s\"", ops[i].activity);
        assert_non_null(strstr(lines.data, want));
        hvd_buf_fini(&lines);
    }
    hvd_trace_destroy(trace);
}

static void marks_of_the_job_reach_across_all_lanes(void **state)
{
    struct hvd_trace *quiet = create(false);
    struct hvd_trace *trace = create(true);
    struct hvd_buf lines;

    (void)state;
    expect(quiet, note(HVD_EVENT_PLAN, 0, 0, ""), 1000, "");
    expect(
        trace, note(HVD_EVENT_PLAN, 0, 0, ""), 1000,
        "{\"ph\":\"i\",\"pid\":0,\"tid\":0,\"ts\":1.000,\"name\":\"CYCLE_START\",\"s\":\"g\"}\n");
    expect(trace, note(HVD_EVENT_LOST, 0, 1, "rank 1 on \"h\""), 2000,
           "{\"ph\":\"i\",\"pid\":0,\"tid\":0,\"ts\":2.000,\"name\":\"LOST\",\"s\":\"g\","
           "\"args\":{\"text\":\"rank 1 on \\\"h\\\"\"}}\n");
    hvd_buf_init(&lines, 4096);
    assert_int_equal(hvd_trace_add_dropped(trace, 12, 3000, &lines), HVD_OK);
    assert_string_equal(lines.data, "{\"ph\":\"i\",\"pid\":0,\"tid\":0,\"ts\":3.000,\"name\":"
                                    "\"DROPPED\",\"s\":\"g\",\"args\":{\"events\":12}}\n");
    hvd_buf_fini(&lines);
    hvd_trace_destroy(quiet);
    hvd_trace_destroy(trace);
}

static void phases_of_the_program_are_in_the_process_of_the_rank(void **state)
{
    struct hvd_trace *trace = create(false);

    (void)state;
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "STEP"), 500, ""); /* it began before the trace */
    expect(trace, note(HVD_EVENT_MARK, 0, 1, "STEP"), 1000, BEGIN("0", "1.000", "STEP"));
    expect(trace, note(HVD_EVENT_MARK, 0, 1, "back\"ward"), 2000,
           BEGIN("0", "2.000", "back\\\"ward"));
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "back\"ward"), 3000, END("0", "3.000"));
    expect(trace, note(HVD_EVENT_MARK, 0, 1, "UPDATE"), 4000, BEGIN("0", "4.000", "UPDATE"));
    expect(trace, note(HVD_EVENT_MARK, 0, 1, "STEP"), 5000, /* two ends were lost */
           END("0", "5.000") END("0", "5.000") BEGIN("0", "5.000", "STEP"));
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "STEP"), 6000, END("0", "6.000"));
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "STEP"), 7000, "");
    hvd_trace_destroy(trace);
}

static void phases_that_lie_too_deep_are_left_out_and_long_names_cut(void **state)
{
    struct hvd_trace *trace = create(false);
    struct hvd_buf lines;
    char name[2] = "a";

    (void)state;
    expect(trace, note(HVD_EVENT_MARK, 0, 1, "0123456789012345678901234567890123456789"), 1000,
           BEGIN("0", "1.000", "0123456789012345678901234567890"));
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "0123456789012345678901234567890123456789"), 2000,
           END("0", "2.000"));
    for (int i = 0; i < HVD_TRACE_PHASES_MAX; i++, name[0]++) {
        struct hvd_note phase = note(HVD_EVENT_MARK, 0, 1, name);
        hvd_buf_init(&lines, 1 << 20);
        assert_int_equal(hvd_trace_add(trace, &phase, 3000, &lines), HVD_OK);
        assert_int_not_equal(lines.len, 0);
        hvd_buf_fini(&lines);
    }
    expect(trace, note(HVD_EVENT_MARK, 0, 1, name), 4000, "");
    expect(trace, note(HVD_EVENT_MARK, 0, 0, name), 5000, "");
    expect(trace, note(HVD_EVENT_MARK, 0, 0, "g"), 5000, END("0", "5.000") END("0", "5.000"));
    hvd_buf_init(&lines, 1 << 20);
    assert_int_equal(hvd_trace_close(trace, 6000, &lines), HVD_OK);
    assert_string_equal(lines.data, END("0", "6.000") END("0", "6.000") END("0", "6.000")
                                        END("0", "6.000") END("0", "6.000") END("0", "6.000"));
    hvd_buf_fini(&lines);
    hvd_trace_destroy(trace);
}

static void a_new_file_names_every_lane_anew(void **state)
{
    struct hvd_trace *trace = create(false);
    struct hvd_buf lines;

    (void)state;
    expect(trace, note(HVD_EVENT_SUBMITTED, 1, 0, "g"), 0,
           LANE("1", "g") BEGIN("1", "0.000", "NEGOTIATE_ALLREDUCE"));
    hvd_buf_init(&lines, 4096);
    assert_int_equal(hvd_trace_open(trace, &lines), HVD_OK);
    hvd_buf_fini(&lines);
    expect(trace, note(HVD_EVENT_DONE, 1, 0, ""), 1, "");
    expect(trace, note(HVD_EVENT_SUBMITTED, 2, 0, "g"), 2,
           LANE("1", "g") BEGIN("1", "0.002", "NEGOTIATE_ALLREDUCE"));
    hvd_trace_destroy(trace);
}

static void names_without_end_share_a_lane(void **state)
{
    struct hvd_trace *trace = create(false);
    struct hvd_buf lines;
    char name[32];

    (void)state;
    hvd_buf_init(&lines, 64 << 20);
    for (int i = 0; i < HVD_TRACE_LANES_MAX; i++) {
        snprintf(name, sizeof(name), "noname.%d", i);
        struct hvd_note n = note(HVD_EVENT_READY, 0, 0, name);
        assert_int_equal(hvd_trace_add(trace, &n, 0, &lines), HVD_OK);
        hvd_buf_reset(&lines);
    }
    for (int i = 0; i < 2; i++) {
        struct hvd_note n = note(HVD_EVENT_SUBMITTED, 1, 0, i ? "next" : "last");
        assert_int_equal(hvd_trace_add(trace, &n, 0, &lines), HVD_OK);
        n = note(HVD_EVENT_DONE, 1, 0, "");
        assert_int_equal(hvd_trace_add(trace, &n, 0, &lines), HVD_OK);
    }
    assert_non_null(strstr(lines.data, "(other tensors)"));
    assert_null(strstr(lines.data, "last"));
    assert_null(strstr(lines.data, "next"));
    hvd_buf_fini(&lines);
    hvd_trace_destroy(trace);
}

/* An event of cached tensors, by a word of slots. */
static struct hvd_note of_slots(enum hvd_event_kind kind, uint32_t first, int detail, uint64_t word,
                                const char *text)
{
    struct hvd_note n = {.event = {.kind = (uint8_t)kind,
                                   .id = hvd_event_slot_id(2, first),
                                   .detail = detail,
                                   .n_words = 1,
                                   .name_len = (uint16_t)(sizeof(word) + strlen(text))}};

    memcpy(n.name, &word, sizeof(word));
    memcpy(n.name + sizeof(word), text, strlen(text) + 1);
    return n;
}

static struct hvd_note slot(uint32_t index, const char *name)
{
    struct hvd_note n = note(HVD_EVENT_SUBMITTED, hvd_event_slot_id(2, index), 0, name);

    n.event.kind = HVD_EVENT_SLOT;
    return n;
}

static void cached_tensors_have_events_in_common(void **state)
{
    struct hvd_trace *trace = create(false);
    struct hvd_buf lines;

    (void)state;
    expect(trace, of_slots(HVD_EVENT_REQUESTED, 0, 0, 3, ""), 500, ""); /* unknown so far */
    expect(trace, slot(1, "b"), 1000, "");
    expect(trace, slot(66, "c"), 1000, "");
    expect(trace, of_slots(HVD_EVENT_READY, 0, 1, 2, ""), 1500,
           LANE("1", "b") BEGIN("1", "1.500", "NEGOTIATE_ALLREDUCE") TICK("1", "1.500", "1"));
    expect(trace, of_slots(HVD_EVENT_REQUESTED, 0, 0, 2, ""), 2000, "");
    expect(trace, of_slots(HVD_EVENT_REQUESTED, 1, 0, 4, ""), 2000,
           LANE("2", "c") BEGIN("2", "2.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, of_slots(HVD_EVENT_AGREED, 0, 0, 2, ""), 3000,
           END("1", "3.000") BEGIN("1", "3.000", "ALLREDUCE") BEGIN("1", "3.000", "QUEUE"));
    expect(trace, of_slots(HVD_EVENT_STARTED, 0, 0, 2, "shm"), 4000,
           END("1", "4.000") BEGIN("1", "4.000", "SHM_ALLREDUCE"));
    expect(trace, of_slots(HVD_EVENT_READY, 0, 1, 2, ""), 4500, TICK("1", "4.500", "1"));
    expect(trace, of_slots(HVD_EVENT_DONE, 0, HVD_OK, 2, ""), 5000,
           END("1", "5.000") END_WITH("1", "5.000", ""));
    expect(trace, of_slots(HVD_EVENT_DONE, 0, HVD_OK, 2, ""), 5500, ""); /* that is all */

    hvd_buf_init(&lines, 1 << 20); /* another file: the names are said anew */
    assert_int_equal(hvd_trace_open(trace, &lines), HVD_OK);
    hvd_buf_fini(&lines);
    expect(trace, of_slots(HVD_EVENT_AGREED, 0, 0, 2, ""), 6000, LANE("1", "b")); /* joined */
    expect(trace, slot(1, "d"), 6500, "");
    expect(trace, of_slots(HVD_EVENT_REQUESTED, 0, 0, 2, ""), 7000,
           LANE("2", "d") BEGIN("2", "7.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, of_slots(HVD_EVENT_DONE, 0, HVD_ERR_SHUTDOWN, 2, ""), 8000,
           END_WITH("2", "8.000", ",\"error\":\"shut down\""));
    hvd_trace_destroy(trace);
}

/* A trace with two tensors, and one that is cached. */
static hvd_status_t live(void)
{
    const struct hvd_note notes[] = {note(HVD_EVENT_SUBMITTED, 1, 0, "a"),
                                     note(HVD_EVENT_SUBMITTED, 2, 0, "b"),
                                     note(HVD_EVENT_DONE, 2, 0, ""), slot(40, "c"),
                                     of_slots(HVD_EVENT_REQUESTED, 0, 0, (uint64_t)1 << 40, "")};
    struct hvd_trace *trace = NULL;
    struct hvd_buf lines;
    hvd_status_t st = hvd_trace_create(&options, &trace);

    hvd_buf_init(&lines, 1 << 20);
    if (st == HVD_OK)
        st = hvd_trace_open(trace, &lines);
    for (size_t i = 0; st == HVD_OK && i < sizeof(notes) / sizeof(notes[0]); i++)
        st = hvd_trace_add(trace, &notes[i], 0, &lines);
    hvd_trace_destroy(trace);
    hvd_buf_fini(&lines);
    return st;
}

static void a_trace_that_is_ended_closes_what_is_open(void **state)
{
    struct hvd_trace *trace = create(false);
    struct hvd_buf lines;

    (void)state;
    expect(trace, note(HVD_EVENT_READY, 0, 1, "early"), 1000,
           LANE("1", "early") BEGIN("1", "1.000", "NEGOTIATE_ALLREDUCE") TICK("1", "1.000", "1"));
    expect(trace, note(HVD_EVENT_SUBMITTED, 7, 0, "running"), 2000,
           LANE("2", "running") BEGIN("2", "2.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_STARTED, 7, 0, "SHM"), 3000,
           END("2", "3.000") BEGIN("2", "3.000", "ALLREDUCE") BEGIN("2", "3.000", "SHM_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_SUBMITTED, 8, 0, "done"), 4000,
           LANE("3", "done") BEGIN("3", "4.000", "NEGOTIATE_ALLREDUCE"));
    expect(trace, note(HVD_EVENT_DONE, 8, HVD_OK, ""), 5000, END("3", "5.000"));
    for (int round = 0; round < 2; round++) {
        hvd_buf_init(&lines, 1 << 20);
        assert_int_equal(hvd_trace_close(trace, 6000, &lines), HVD_OK);
        assert_string_equal(lines.data ? lines.data : "",
                            round ? "" : UNFINISHED("1") END("2", "6.000") UNFINISHED("2"));
        hvd_buf_fini(&lines);
    }
    hvd_trace_destroy(trace);
}

static void running_out_of_memory_loses_records_and_nothing_else(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        const hvd_status_t st = live();
        assert_true(st == HVD_OK || (hvd_mem_fired() && st == HVD_ERR_NOMEM));
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_records_name_the_program_and_the_hosts),
        cmocka_unit_test(a_tensor_goes_through_the_phases_of_horovods_timeline),
        cmocka_unit_test(the_steps_of_a_hierarchical_allreduce_have_horovods_names),
        cmocka_unit_test(the_first_rank_that_asks_opens_the_negotiation),
        cmocka_unit_test(a_tensor_that_fails_says_so_at_its_end),
        cmocka_unit_test(what_began_before_the_trace_is_left_out),
        cmocka_unit_test(a_lost_end_is_made_up_for_at_the_next_beginning),
        cmocka_unit_test(an_id_that_is_used_again_belongs_to_the_last_one),
        cmocka_unit_test(cached_tensors_have_events_in_common),
        cmocka_unit_test(every_operation_has_horovods_names),
        cmocka_unit_test(marks_of_the_job_reach_across_all_lanes),
        cmocka_unit_test(phases_of_the_program_are_in_the_process_of_the_rank),
        cmocka_unit_test(phases_that_lie_too_deep_are_left_out_and_long_names_cut),
        cmocka_unit_test(a_new_file_names_every_lane_anew),
        cmocka_unit_test(names_without_end_share_a_lane),
        cmocka_unit_test(a_trace_that_is_ended_closes_what_is_open),
        cmocka_unit_test(running_out_of_memory_loses_records_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
