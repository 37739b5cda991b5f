/*
 * What the launcher makes of a job when mpirun has lost the report of the rank that failed.
 */
#include "tests/unit/support.h"
#include "tests/unit/worker/launch/core/reports.h"

#include "worker/launch/core/describe.h"
#include "worker/launch/core/report.h"

/* A rank that mpirun has stopped. */
static struct hvd_report stopped(int64_t rank)
{
    return (struct hvd_report){
        .rank = rank, .host = "h", .signal = 15, .was_stopped = true, .limit_bytes = INT64_MAX};
}

/* The last line when these ranks alone have reported, and mpirun has ended with that code. */
static void conclude_code(const char *list, const struct hvd_report *reports, size_t n, int code,
                          char line[HVD_REPORT_MAX])
{
    struct hvd_hosts hosts = {0};
    struct hvd_report_stream stream;
    struct hvd_buf pass;
    const struct hvd_report *failure;

    assert_int_equal(hvd_hosts_parse_list(list, &hosts, NULL), HVD_OK);
    hvd_report_stream_init(&stream, NONCE, &hosts);
    hvd_buf_init(&pass, 1000);
    for (size_t i = 0; i < n; i++)
        feed_report(&stream, &reports[i]);
    stream.mpirun_code = code;
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    failure = hvd_report_stream_failure(&stream);
    line[0] = '\0';
    if (failure)
        hvd_describe_report(failure, &hosts, line, HVD_REPORT_MAX);
    hvd_buf_fini(&pass);
    hvd_report_stream_fini(&stream);
    hvd_hosts_fini(&hosts);
}

/* mpirun ends with a rank's exit code, and may lose what the rank's wrapper has written. */
static void a_rank_whose_report_is_lost_is_found_by_the_exit_code(void **state)
{
    const struct hvd_report others[] = {stopped(0), stopped(2)};
    static const struct {
        const char *list;
        size_t n;
        int code;
        const char *line;
    } cases[] = {
        {"east:1,west:1", 1, 139,
         "rank 1 on host west was killed by signal 11 (Segmentation fault)"},
        {"east:3", 2, 3, "rank 1 on host east exited with code 3"},
        {"east:1,west:1", 1, 9, /* ssh was killed by that signal */
         "host west unreachable: mpirun has lost its daemon there, and with it rank 1"},
        {"east:3", 2, 137, "rank 1 on host east was killed by signal 9 (Killed)"},
        {"east:2,west:2", 2, 139,
         "one of 2 ranks whose reports are lost, the first is rank 1 on host east, was killed by "
         "signal 11 (Segmentation fault)"},
        {"east:1,west:2", 0, 3,
         "one of 3 ranks whose reports are lost, the first is rank 0 on host east, exited with "
         "code 3"},
        {"east:1,west:1", 1, 1, /* mpirun's own */
         "host west unreachable: mpirun has lost its daemon there, and with it rank 1"},
        {"east:1,west:1", 1, 213,
         "host west unreachable: mpirun has lost its daemon there, and with it rank 1"},
        {"east:1", 1, 139, ""},
    };
    char line[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        conclude_code(cases[i].list, others, cases[i].n, cases[i].code, line);
        assert_string_equal(line, cases[i].line);
    }
}

/* mpirun may end without a word then. */
static void a_rank_without_init_is_named_where_others_have_come(void **state)
{
    const struct hvd_report absent = {.rank = 1, .host = "h", .limit_bytes = INT64_MAX};
    struct hvd_report reports[2] = {absent, stopped(0)};
    char line[HVD_REPORT_MAX];

    (void)state;
    for (int came = 0; came < 2; came++)
        for (int first = 0; first < 2; first++) {
            reports[first] = absent;
            reports[!first] = stopped(0);
            reports[!first].phase = came ? HVD_RANK_JOINING : HVD_RANK_OUTSIDE;
            for (int code = 0; code < 2; code++) {
                conclude_code("h:2", reports, 2, code, line);
                assert_string_equal(line, came || code
                                              ? "rank 1 on host h exited with code 0 and without "
                                                "horovod_init, in which other ranks wait for it"
                                              : "");
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_whose_report_is_lost_is_found_by_the_exit_code),
        cmocka_unit_test(a_rank_without_init_is_named_where_others_have_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
