#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/describe.h"
#include "worker/launch/core/missing.h"

#define SECOND 1000
#define WARNING (60 * SECOND)

/* Ranks 0 and 1 on east, 2 and 3 on west. */
static struct hvd_hosts two_hosts(void)
{
    struct hvd_hosts hosts = {0};

    assert_int_equal(hvd_hosts_parse_list("east:2,west:2", &hosts, NULL), HVD_OK);
    return hosts;
}

/* A job on its way, at a time of its own. */
struct job {
    struct hvd_hosts hosts;
    struct hvd_missing *missing;
    int64_t now_ms;
    int64_t shutdown_ms;
};

static void start(struct job *job)
{
    *job = (struct job){.hosts = two_hosts(), .now_ms = 7};
    job->missing = hvd_missing_create(&job->hosts);
}

static void end(struct job *job)
{
    hvd_missing_destroy(job->missing);
    hvd_hosts_fini(&job->hosts);
}

static enum hvd_missing_step hear(struct job *job, int64_t rank, enum hvd_report_notice notice,
                                  int64_t waited_ms)
{
    const struct hvd_report report = {.rank = rank,
                                      .notice = notice,
                                      .phase = HVD_RANK_JOINING,
                                      .waited_ms = waited_ms,
                                      .warning_ms = WARNING,
                                      .shutdown_ms = job->shutdown_ms};

    return hvd_missing_notice(job->missing, &report, job->now_ms);
}

/* The ranks of the mask wait until they have waited so long; the last step that was no nothing, and
 * how often there was one. */
static enum hvd_missing_step wait(struct job *job, unsigned mask, int64_t until_ms, int *n)
{
    enum hvd_missing_step last = HVD_MISSING_NOTHING;

    *n = 0;
    for (int64_t waited = 2 * SECOND; waited <= until_ms; waited += 4 * SECOND) {
        for (int64_t rank = 0; rank < 4; rank++) {
            const enum hvd_missing_step step =
                mask & 1u << rank ? hear(job, rank, HVD_NOTICE_WAITS, waited) : HVD_MISSING_NOTHING;
            if (step != HVD_MISSING_NOTHING) {
                last = step;
                (*n)++;
            }
        }
        job->now_ms += 4 * SECOND;
    }
    return last;
}

static void the_rank_that_has_not_come_is_named_with_its_host(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    assert_int_equal(wait(&job, 0x7, WARNING + HVD_MISSING_SLACK_MS + 4 * SECOND, &n),
                     HVD_MISSING_WARN);
    assert_int_equal(n, 1);
    assert_int_equal(hvd_missing_rank(job.missing), 3);
    assert_string_equal(hvd_missing_text(job.missing),
                        "rank 3 on host west has not come to horovod_init for 70 s, in which other "
                        "ranks wait for it");
    end(&job);
}

static void nobody_is_named_before_the_warning_time_and_who_has_just_come_never(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    assert_int_equal(wait(&job, 0x7, WARNING + 4 * SECOND, &n), HVD_MISSING_NOTHING);
    (void)hear(&job, 3, HVD_NOTICE_WAITS, 2 * SECOND);
    (void)hear(&job, 0, HVD_NOTICE_STOPPED, 0);
    assert_int_equal(hear(&job, 1, HVD_NOTICE_WAITS, WARNING + 9 * SECOND), HVD_MISSING_WARN);
    assert_string_equal(hvd_missing_text(job.missing),
                        "rank 0 on host east is stopped, and other ranks have waited for it in "
                        "horovod_init for 69 s");
    end(&job);
}

static void a_warning_comes_again_when_twice_the_time_has_passed(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    assert_int_equal(wait(&job, 0x3, 600 * SECOND, &n), HVD_MISSING_WARN);
    assert_int_equal(n, 4); /* at 70, 142, 286 and 574 seconds */
    assert_string_equal(hvd_missing_text(job.missing),
                        "2 ranks have not come to horovod_init for 574 s, in which other ranks "
                        "wait for them: rank 2 on host west and rank 3 on host west");
    (void)hear(&job, 0, HVD_NOTICE_GOES_ON, 0);
    (void)hear(&job, 1, HVD_NOTICE_GOES_ON, 0);
    assert_int_equal(wait(&job, 0x3, 80 * SECOND, &n), HVD_MISSING_WARN); /* the next job */
    end(&job);
}

static void the_job_ends_at_the_shutdown_time(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    job.shutdown_ms = 2 * WARNING;
    assert_int_equal(wait(&job, 0xe, 2 * WARNING + HVD_MISSING_SLACK_MS - SECOND, &n),
                     HVD_MISSING_WARN);
    assert_int_equal(hear(&job, 2, HVD_NOTICE_WAITS, 2 * WARNING + HVD_MISSING_SLACK_MS),
                     HVD_MISSING_END);
    assert_int_equal(hvd_missing_rank(job.missing), 0);
    end(&job);
}

static void a_rank_that_waited_and_is_not_heard_of_any_more_is_named(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    (void)wait(&job, 0xf, 10 * SECOND, &n);
    assert_int_equal(wait(&job, 0x7, WARNING + HVD_MISSING_SLACK_MS + 4 * SECOND, &n),
                     HVD_MISSING_WARN);
    assert_string_equal(hvd_missing_text(job.missing),
                        "rank 3 on host west is not reporting, and other ranks have waited for it "
                        "in horovod_init for 70 s");
    end(&job);
}

static void all_ranks_that_wait_are_told_apart_from_none(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    assert_int_equal(wait(&job, 0xf, WARNING + HVD_MISSING_SLACK_MS + 4 * SECOND, &n),
                     HVD_MISSING_WARN);
    assert_string_equal(hvd_missing_text(job.missing),
                        "all ranks are in horovod_init, and have waited for 70 s: one may stand "
                        "still there, or MPI does not reach another host");
    end(&job);
}

static void a_launcher_that_was_stopped_blames_nobody_for_that_time(void **state)
{
    struct job job;
    int n;

    (void)state;
    start(&job);
    (void)wait(&job, 0xf, 60 * SECOND, &n);
    job.now_ms += (int64_t)3600 * SECOND;
    assert_int_equal(hear(&job, 0, HVD_NOTICE_WAITS, WARNING + HVD_MISSING_SLACK_MS),
                     HVD_MISSING_WARN);
    assert_non_null(strstr(hvd_missing_text(job.missing), "all ranks are in horovod_init"));
    end(&job);
}

static void a_rank_that_waits_for_some_or_names_them_itself_blames_nobody(void **state)
{
    static const struct {
        enum hvd_report_notice notice;
        enum hvd_rank_phase phase;
        enum hvd_missing_step step;
    } cases[] = {
        {HVD_NOTICE_WAITS, HVD_RANK_JOINING, HVD_MISSING_WARN},
        {HVD_NOTICE_WAITS_SOME, HVD_RANK_JOINING, HVD_MISSING_WARN}, /* MPI_Init waits for all */
        {HVD_NOTICE_WAITS, HVD_RANK_GATHERING, HVD_MISSING_WARN},
        {HVD_NOTICE_WAITS_SOME, HVD_RANK_GATHERING, HVD_MISSING_NOTHING},
        {HVD_NOTICE_WAITS, HVD_RANK_MEETING, HVD_MISSING_NOTHING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job;
        struct hvd_report report = {.rank = 1,
                                    .notice = cases[i].notice,
                                    .phase = cases[i].phase,
                                    .waited_ms = 2 * WARNING,
                                    .warning_ms = WARNING};

        start(&job);
        assert_int_equal(hvd_missing_notice(job.missing, &report, 1), cases[i].step);
        report.warning_ms = 0; /* HOROVOD_STALL_CHECK_DISABLE */
        report.waited_ms *= 10;
        assert_int_equal(hvd_missing_notice(job.missing, &report, 2), HVD_MISSING_NOTHING);
        end(&job);
    }
}

static void ranks_that_have_ended_are_no_longer_waited_for_here(void **state)
{
    struct job job;
    const struct hvd_report gone = {.rank = 3};
    int n;

    (void)state;
    start(&job);
    hvd_missing_end(job.missing, &gone);
    assert_int_equal(wait(&job, 0x7, 600 * SECOND, &n), HVD_MISSING_NOTHING);
    end(&job);
}

static void who_had_not_come_is_known_when_the_job_has_ended(void **state)
{
    struct job job;
    struct hvd_report failure = {.rank = 0, .exit_code = 1};
    int n;

    (void)state;
    start(&job);
    assert_false(hvd_missing_blame(job.missing, &failure));
    (void)wait(&job, 0x3, 10 * SECOND, &n);
    hvd_missing_end(job.missing, &(struct hvd_report){.rank = 0, .exit_code = 1});
    hvd_missing_end(job.missing, &(struct hvd_report){.rank = 1, .was_stopped = true});
    hvd_missing_end(job.missing, &(struct hvd_report){
                                     .rank = 2, .was_stopped = true, .phase = HVD_RANK_GATHERING});
    hvd_missing_end(job.missing, &(struct hvd_report){.rank = 3, .was_stopped = true});
    assert_true(hvd_missing_blame(job.missing, &failure));
    assert_int_equal(failure.rank, 3);
    assert_string_equal(failure.line, "rank 3 on host west has not come to horovod_init for 10 s, "
                                      "in which other ranks wait for it");
    end(&job);
}

static void more_ranks_than_fit_are_counted(void **state)
{
    struct job job;
    const struct hvd_report report = {.rank = 0,
                                      .notice = HVD_NOTICE_WAITS,
                                      .phase = HVD_RANK_JOINING,
                                      .waited_ms = 70 * SECOND,
                                      .warning_ms = WARNING};

    (void)state;
    start(&job);
    end(&job);
    assert_int_equal(hvd_hosts_parse_list("a:4,b:4,c:4", &job.hosts, NULL), HVD_OK);
    job.missing = hvd_missing_create(&job.hosts);
    assert_int_equal(hvd_missing_notice(job.missing, &report, 1), HVD_MISSING_WARN);
    assert_string_equal(hvd_missing_text(job.missing),
                        "11 ranks have not come to horovod_init for 70 s, in which other ranks "
                        "wait for them: rank 1 on host a, rank 2 on host a, rank 3 on host a, rank "
                        "4 on host b, rank 5 on host b, rank 6 on host b and 5 more");
    end(&job);
}

/* Ranks 0 and 2 wait in MPI_Finalize until then; the last step. */
static enum hvd_missing_step wait_final(struct job *job, int64_t waited_ms)
{
    (void)hear(job, 0, HVD_NOTICE_WAITS_FINAL, 2 * SECOND); /* it has just come */
    return hear(job, 2, HVD_NOTICE_WAITS_FINAL, waited_ms);
}

static void ranks_that_do_not_come_to_mpi_finalize_are_named(void **state)
{
    static const int64_t late = WARNING + HVD_MISSING_SLACK_MS;
    const struct hvd_report ended = {.rank = 3, .phase = HVD_RANK_ENDED};
    struct job job;

    (void)state;
    start(&job);
    job.shutdown_ms = 2 * WARNING;
    (void)hear(&job, 0, HVD_NOTICE_FINAL, 0);
    assert_int_equal(wait_final(&job, late - 1), HVD_MISSING_NOTHING);
    assert_int_equal(wait_final(&job, late), HVD_MISSING_WARN);
    assert_string_equal(hvd_missing_text(job.missing),
                        "2 ranks have not come to MPI_Finalize for 68 s, in which other ranks wait "
                        "for them: rank 1 on host east and rank 3 on host west");
    hvd_missing_end(job.missing, &ended);
    assert_int_equal(wait_final(&job, 2 * late - 1), HVD_MISSING_NOTHING); /* said a while ago */
    assert_int_equal(wait_final(&job, 4 * late), HVD_MISSING_WARN); /* busy, as long as it likes */
    assert_string_equal(hvd_missing_text(job.missing),
                        "rank 1 on host east has not come to MPI_Finalize for 272 s, in which "
                        "other ranks wait for it");
    (void)hear(&job, 1, HVD_NOTICE_STOPPED, 0); /* and goes on: a pause ends nothing */
    assert_int_equal(wait_final(&job, 4 * late + SECOND), HVD_MISSING_NOTHING);
    (void)hear(&job, 1, HVD_NOTICE_GOES_ON, 0);
    for (int64_t stopped = 0; stopped < job.shutdown_ms; stopped += 4 * SECOND) {
        (void)hear(&job, 1, HVD_NOTICE_STOPPED, 0);
        assert_int_equal(wait_final(&job, 4 * late + SECOND), HVD_MISSING_NOTHING);
        job.now_ms += 4 * SECOND;
    }
    assert_int_equal(wait_final(&job, 4 * late + SECOND), HVD_MISSING_END);
    assert_int_equal(hvd_missing_rank(job.missing), 1);
    assert_string_equal(hvd_missing_text(job.missing),
                        "rank 1 on host east is stopped, and other ranks have waited for it in "
                        "MPI_Finalize for 273 s");
    (void)hear(&job, 1, HVD_NOTICE_WAITS, SECOND); /* in horovod_init: it is named there */
    assert_int_equal(wait_final(&job, 16 * late), HVD_MISSING_NOTHING);
    (void)hear(&job, 1, HVD_NOTICE_FINAL, 0);
    assert_int_equal(wait_final(&job, 16 * late), HVD_MISSING_NOTHING);
    end(&job);
}

static void a_notice_of_a_rank_that_does_not_exist_changes_nothing(void **state)
{
    struct job job;

    (void)state;
    start(&job);
    assert_int_equal(hear(&job, 4, HVD_NOTICE_WAITS, 600 * SECOND), HVD_MISSING_NOTHING);
    hvd_missing_end(job.missing, &(struct hvd_report){.rank = 4});
    assert_int_equal(hvd_missing_notice(NULL, &(struct hvd_report){.rank = 0}, 1),
                     HVD_MISSING_NOTHING);
    hvd_missing_end(NULL, &(struct hvd_report){.rank = 0});
    end(&job);
}

/* A stream that has read the reports of its wrappers. */
static void feed(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    char line[HVD_REPORT_MAX];
    struct hvd_buf pass;

    hvd_buf_init(&pass, 100000);
    stream->now_ms += 4 * SECOND;
    assert_int_equal(hvd_report_format(report, "nonce", line, sizeof(line)), HVD_OK);
    assert_int_equal(hvd_report_stream_feed(stream, hvd_strview_of(line), &pass), HVD_OK);
    assert_int_equal(pass.len, 0);
    hvd_buf_fini(&pass);
}

static void the_stream_shows_who_is_missing_and_ends_with_it(void **state)
{
    struct hvd_hosts hosts = two_hosts();
    struct hvd_report_stream stream;
    struct hvd_report notice = {.host = "-",
                                .limit_bytes = INT64_MAX,
                                .notice = HVD_NOTICE_WAITS,
                                .phase = HVD_RANK_GATHERING,
                                .warning_ms = WARNING,
                                .shutdown_ms = 2 * WARNING};
    char line[HVD_REPORT_MAX];

    (void)state;
    hvd_report_stream_init(&stream, "nonce", &hosts);
    for (notice.rank = 1; notice.rank < 4; notice.rank++)
        feed(&stream, &notice);
    notice.rank = 1;
    notice.waited_ms = WARNING + HVD_MISSING_SLACK_MS;
    feed(&stream, &notice);
    assert_string_equal(hvd_report_stream_remark(&stream),
                        "rank 0 on host east has not come to horovod_init for 68 s, in which other "
                        "ranks wait for it");
    assert_null(hvd_report_stream_remark(&stream));
    assert_false(hvd_report_stream_is_stuck(&stream));
    for (notice.rank = 1; notice.rank < 4; notice.rank++)
        feed(&stream, &notice);
    notice.rank = 2;
    notice.waited_ms = 2 * WARNING + HVD_MISSING_SLACK_MS;
    feed(&stream, &notice);
    assert_true(hvd_report_stream_is_stuck(&stream));
    feed(&stream, &(struct hvd_report){.rank = 1, .host = "east", .exit_code = 1});
    hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 0 on host east has not come to horovod_init for 128 s, in "
                              "which other ranks wait for it");
    assert_int_equal(hvd_report_exit_code(hvd_report_stream_failure(&stream)), 1);
    hvd_report_stream_fini(&stream);
    hvd_hosts_fini(&hosts);
}

static void a_rank_that_gave_up_and_could_not_say_for_whom_is_not_to_blame(void **state)
{
    struct hvd_hosts hosts = two_hosts();
    struct hvd_report_stream stream;
    struct hvd_report notice = {.host = "-",
                                .notice = HVD_NOTICE_WAITS,
                                .phase = HVD_RANK_GATHERING,
                                .waited_ms = 4 * SECOND};
    struct hvd_report gave_up = {
        .rank = 1,
        .host = "east",
        .exit_code = 1,
        .phase = HVD_RANK_ENDED,
        .words = HVD_WORDS_STDERR,
        .line = "horovod_init failed: horovod_init has waited for 6 seconds for ranks that have "
                "not called it"};
    char line[HVD_REPORT_MAX];
    struct hvd_buf pass;

    (void)state;
    hvd_buf_init(&pass, 1000);
    hvd_report_stream_init(&stream, "nonce", &hosts);
    for (notice.rank = 0; notice.rank < 3; notice.rank++)
        feed(&stream, &notice);
    feed(&stream, &gave_up);
    gave_up.rank = 0;
    feed(&stream, &gave_up);
    feed(&stream, &(struct hvd_report){
                      .rank = 2, .host = "west", .signal = 15, .was_stopped = true, .phase = 2});
    feed(&stream,
         &(struct hvd_report){.rank = 3, .host = "west", .signal = 15, .was_stopped = true});
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 3 on host west has not come to horovod_init for 4 s, in which "
                              "other ranks wait for it");
    hvd_report_stream_fini(&stream);
    hvd_buf_fini(&pass);
    hvd_hosts_fini(&hosts);
}

/* mpirun lets it go on in order to end it, and it comes to horovod_init then. */
static void a_rank_that_was_stopped_until_the_others_gave_up_is_to_blame(void **state)
{
    struct job job;
    struct hvd_report found = {.rank = 0, .host = "east"};
    const struct hvd_report gave_up = {.rank = 0, .exit_code = 1, .phase = HVD_RANK_ENDED};
    const struct hvd_report stopped = {
        .rank = 1, .signal = 15, .was_stopped = true, .phase = HVD_RANK_GATHERING};

    (void)state;
    start(&job);
    for (int64_t rank = 0; rank < 4; rank++)
        (void)hear(&job, rank, rank == 1 ? HVD_NOTICE_STOPPED : HVD_NOTICE_WAITS,
                   rank == 1 ? 0 : 6 * SECOND);
    hvd_missing_end(job.missing, &gave_up);
    (void)hear(&job, 1, HVD_NOTICE_GOES_ON, 0);
    hvd_missing_end(job.missing, &stopped);
    assert_true(hvd_missing_blame(job.missing, &found));
    assert_int_equal(found.rank, 1);
    assert_string_equal(found.line, "rank 1 on host east is stopped, and other ranks have waited "
                                    "for it in horovod_init for 6 s");
    end(&job);
}

static void every_allocation_may_fail(void **state)
{
    struct hvd_hosts hosts = two_hosts();

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_missing *missing = hvd_missing_create(&hosts);

        assert_int_equal(missing == NULL, hvd_mem_fired());
        hvd_missing_destroy(missing);
    });
    hvd_hosts_fini(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_has_not_come_is_named_with_its_host),
        cmocka_unit_test(nobody_is_named_before_the_warning_time_and_who_has_just_come_never),
        cmocka_unit_test(a_warning_comes_again_when_twice_the_time_has_passed),
        cmocka_unit_test(the_job_ends_at_the_shutdown_time),
        cmocka_unit_test(a_rank_that_waited_and_is_not_heard_of_any_more_is_named),
        cmocka_unit_test(all_ranks_that_wait_are_told_apart_from_none),
        cmocka_unit_test(a_launcher_that_was_stopped_blames_nobody_for_that_time),
        cmocka_unit_test(a_rank_that_waits_for_some_or_names_them_itself_blames_nobody),
        cmocka_unit_test(ranks_that_have_ended_are_no_longer_waited_for_here),
        cmocka_unit_test(who_had_not_come_is_known_when_the_job_has_ended),
        cmocka_unit_test(more_ranks_than_fit_are_counted),
        cmocka_unit_test(ranks_that_do_not_come_to_mpi_finalize_are_named),
        cmocka_unit_test(a_notice_of_a_rank_that_does_not_exist_changes_nothing),
        cmocka_unit_test(the_stream_shows_who_is_missing_and_ends_with_it),
        cmocka_unit_test(a_rank_that_gave_up_and_could_not_say_for_whom_is_not_to_blame),
        cmocka_unit_test(a_rank_that_was_stopped_until_the_others_gave_up_is_to_blame),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
