/*
 * What the launcher makes of a job that was aborted, and whose ranks end with 0.
 */
#include "tests/unit/support.h"
#include "tests/unit/worker/launch/core/reports.h"

#include <signal.h>
#include <string.h>

#include "worker/launch/core/describe.h"
#include "worker/launch/core/report.h"

#define SILENT "Rank 2 on host west is lost: it has not answered for 6 seconds"

static const struct hvd_report good = {
    .host = "east", .phase = HVD_RANK_ENDED, .limit_bytes = INT64_MAX};

/* A rank that has handled the error and exited with 0, as its wrapper reports it. */
static struct hvd_report handled(int64_t rank, const char *words)
{
    struct hvd_report report = good;

    report.rank = rank;
    report.has_aborted = true;
    hvd_report_take_cause(&report, words);
    return report;
}

static struct hvd_report woken(int64_t rank, int signal, int code)
{
    struct hvd_report report = good;

    report.rank = rank;
    report.signal = signal;
    report.exit_code = code;
    (void)strcpy(report.host, "west");
    return report;
}

/* The last line after these reports on two hosts. */
static void end_with(const struct hvd_report *reports, size_t n, char line[HVD_REPORT_MAX])
{
    struct hvd_hosts hosts = {0};
    struct hvd_report_stream stream;
    struct hvd_buf pass;

    assert_int_equal(hvd_hosts_parse_list("east:2,west:2", &hosts, NULL), HVD_OK);
    hvd_report_stream_init(&stream, NONCE, &hosts);
    hvd_buf_init(&pass, 1000);
    for (size_t i = 0; i < n; i++)
        feed_report(&stream, &reports[i]);
    assert_true(hvd_report_stream_is_ending(&stream, false));
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    assert_non_null(hvd_report_stream_failure(&stream));
    hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, HVD_REPORT_MAX);
    hvd_buf_fini(&pass);
    hvd_report_stream_fini(&stream);
    hvd_hosts_fini(&hosts);
}

/* mpirun does not end where it cannot reach a host, and does not say why. */
static void mpirun_is_to_end_once_a_rank_has_left_an_aborted_job_with_0(void **state)
{
    const struct hvd_report aborted = handled(1, "Horovod has been shut down. " SILENT);
    struct hvd_report_stream stream;

    (void)state;
    hvd_report_stream_init(&stream, NONCE, NULL);
    feed_report(&stream, &good);
    assert_false(hvd_report_stream_is_ending(&stream, false));
    feed_report(&stream, &aborted);
    assert_true(hvd_report_stream_is_ending(&stream, false));
    assert_true(hvd_report_stream_is_ending(&stream, true));
    assert_false(hvd_report_stream_has_failure(&stream));
    hvd_report_stream_fini(&stream);
}

static void an_aborted_job_that_all_leave_with_0_has_its_reason_without_mpiruns_words(void **state)
{
    const struct hvd_report told[] = {handled(1, ""),
                                      handled(0, "Horovod has been shut down. " SILENT)};
    char line[HVD_REPORT_MAX];

    (void)state;
    end_with(told, 2, line);
    assert_string_equal(line, "rank 0 on host east aborted the job: " SILENT);
    end_with(told, 1, line);
    assert_string_equal(line, "rank 1 on host east exited with code 0 and without MPI_Finalize");
}

/* mpirun wakes a rank in order to end it: what it does then is no cause, a crash may be one. */
static void the_end_of_a_rank_that_was_woken_is_no_cause(void **state)
{
    static const struct {
        int64_t rank;
        int signal, code;
        const char *line;
    } cases[] = {
        {2, SIGPIPE, 0, "rank 0 on host east aborted the job: " SILENT},
        {2, SIGHUP, 0, "rank 0 on host east aborted the job: " SILENT},
        {2, SIGTERM, 0, "rank 0 on host east aborted the job: " SILENT},
        {2, SIGABRT, 0, "rank 0 on host east aborted the job: " SILENT},
        {2, 0, 1, "rank 0 on host east aborted the job: " SILENT},
        {3, SIGPIPE, 0, "rank 0 on host east aborted the job: " SILENT},
        {2, SIGSEGV, 0, "rank 2 on host west was killed by signal 11 (Segmentation fault)"},
        {3, SIGSEGV, 0, "rank 3 on host west was killed by signal 11 (Segmentation fault)"},
        {3, 0, 1, "rank 3 on host west exited with code 1"},
    };
    char line[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct hvd_report reports[] = {handled(0, "Horovod has been shut down. " SILENT),
                                             woken(cases[i].rank, cases[i].signal, cases[i].code),
                                             handled(1, "Horovod has been shut down. " SILENT)};

        end_with(reports, 3, line);
        assert_string_equal(line, cases[i].line);
        if (cases[i].rank == 2) { /* the same in the other order */
            end_with(reports + 1, 2, line);
            assert_string_equal(line + strlen("rank 0"), cases[i].line + strlen("rank 0"));
        }
    }
}

/* The same where a tensor was stalled, and nobody could say that the rank was silent. */
static void a_broken_pipe_of_a_rank_that_a_tensor_waited_for_is_no_cause(void **state)
{
    static const char words[] = "Horovod has been shut down. Tensor t is stalled for longer than 3 "
                                "seconds (X): it waits for rank 3 on host west";
    const struct hvd_report reports[] = {woken(3, SIGPIPE, 0), handled(0, words),
                                         woken(3, SIGPIPE, 0)};
    char line[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        end_with(reports + i, 2, line);
        assert_string_equal(line, "rank 0 on host east aborted the job: Tensor t is stalled for "
                                  "longer than 3 seconds (X): it waits for rank 3 on host west");
    }
}

/* The same where the others exit with 1. */
static void a_broken_pipe_of_a_rank_that_others_have_lost_is_no_cause(void **state)
{
    struct hvd_report seen = woken(0, 0, 1);
    char line[HVD_REPORT_MAX];

    (void)state;
    hvd_report_take_cause(&seen, "Horovod has been shut down. " SILENT);
    const struct hvd_report reports[] = {woken(2, SIGPIPE, 0), seen, woken(2, SIGPIPE, 0)};
    end_with(reports, 2, line);
    assert_string_equal(line, "rank 2 on host west is lost: it has not answered for 6 seconds");
    end_with(reports + 1, 2, line);
    assert_string_equal(line, "rank 2 on host west is lost: it has not answered for 6 seconds");
}

/* A log line of the library is no subject: the rank that it names is. */
static void a_rank_that_was_lost_in_init_is_named_in_place_of_the_one_that_says_so(void **state)
{
    struct hvd_report seen = woken(0, 0, 1);
    char line[HVD_REPORT_MAX];

    (void)state;
    seen.words = HVD_WORDS_STDERR;
    (void)strcpy(seen.line,
                 "time=2026 level=error subsystem=api msg=\"horovod_init failed: " SILENT "\"");
    const struct hvd_report reports[] = {seen, woken(2, SIGPIPE, 0)};
    end_with(reports, 2, line);
    assert_string_equal(line, "rank 2 on host west is lost: it has not answered for 6 seconds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpirun_is_to_end_once_a_rank_has_left_an_aborted_job_with_0),
        cmocka_unit_test(an_aborted_job_that_all_leave_with_0_has_its_reason_without_mpiruns_words),
        cmocka_unit_test(the_end_of_a_rank_that_was_woken_is_no_cause),
        cmocka_unit_test(a_broken_pipe_of_a_rank_that_a_tensor_waited_for_is_no_cause),
        cmocka_unit_test(a_rank_that_was_lost_in_init_is_named_in_place_of_the_one_that_says_so),
        cmocka_unit_test(a_broken_pipe_of_a_rank_that_others_have_lost_is_no_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
