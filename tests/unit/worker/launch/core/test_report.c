#include "tests/unit/support.h"
#include "tests/unit/worker/launch/core/reports.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/launch/core/describe.h"
#include "worker/launch/core/report.h"

static const struct hvd_report killed = {
    .rank = 1, .host = "digits-worker-1", .signal = 9, .is_oom = true, .limit_bytes = 67108864};
static const struct hvd_report stopped = {
    .rank = 0, .host = "h", .signal = 15, .was_stopped = true, .limit_bytes = INT64_MAX};

/* The stream after the text, fed piece by piece; *pass holds what went through. */
static struct hvd_report_stream feed(const char *text, size_t piece, struct hvd_buf *pass)
{
    struct hvd_report_stream stream;

    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(pass, 100000);
    for (size_t at = 0; at < strlen(text); at += piece) {
        size_t len = strlen(text) - at < piece ? strlen(text) - at : piece;

        assert_int_equal(hvd_report_stream_feed(
                             &stream, (struct hvd_strview){.data = text + at, .len = len}, pass),
                         HVD_OK);
    }
    assert_int_equal(hvd_report_stream_finish(&stream, pass), HVD_OK);
    return stream;
}

static void a_report_is_taken_out_of_the_text_around_it(void **state)
{
    char report[HVD_REPORT_MAX];
    char text[2 * HVD_REPORT_MAX];

    (void)state;
    assert_int_equal(hvd_report_format(&killed, NONCE, report, sizeof(report)), HVD_OK);
    (void)snprintf(text, sizeof(text), "before %safter\n", report);
    for (size_t piece = 1; piece < 200; piece++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(text, piece, &pass);
        const struct hvd_report *failure = hvd_report_stream_failure(&stream);

        assert_string_equal(pass.data, "before after\n");
        assert_non_null(failure);
        assert_int_equal(failure->rank, 1);
        assert_int_equal(failure->signal, 9);
        assert_true(failure->is_oom);
        assert_int_equal(failure->limit_bytes, 67108864);
        assert_string_equal(failure->host, "digits-worker-1");
        assert_int_equal(hvd_report_exit_code(failure), 137);
        hvd_buf_fini(&pass);
    }
}

static void text_that_only_resembles_a_report_passes_unchanged(void **state)
{
    static const char *const texts[] = {
        "\036\n",
        "\036horovod-rank other rank=1 host=h exit=1 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=x host=h exit=1 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=256 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=1 signal=0 stopped=0 oom=0 limit=1",
        "a\036b\036c\n\036\036\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(texts[i], 7, &pass);

        assert_string_equal(pass.data, texts[i]);
        assert_null(hvd_report_stream_failure(&stream));
        hvd_buf_fini(&pass);
    }
}

static void a_mark_and_much_text_behind_it_passes(void **state)
{
    char text[3 * HVD_REPORT_MAX];
    struct hvd_buf pass;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[0] = '\036';
    text[sizeof(text) - 1] = '\0';
    (void)feed(text, 100, &pass);
    assert_string_equal(pass.data, text);
    hvd_buf_fini(&pass);
}

static void ranks_that_were_stopped_are_not_the_cause(void **state)
{
    char first[HVD_REPORT_MAX];
    char second[HVD_REPORT_MAX];
    char text[2 * HVD_REPORT_MAX];
    struct hvd_buf pass;
    struct hvd_report_stream stream;

    (void)state;
    assert_int_equal(hvd_report_format(&stopped, NONCE, first, sizeof(first)), HVD_OK);
    assert_int_equal(hvd_report_format(&killed, NONCE, second, sizeof(second)), HVD_OK);
    (void)snprintf(text, sizeof(text), "%s%s", first, second);
    stream = feed(text, 50, &pass);
    assert_int_equal(hvd_report_stream_failure(&stream)->rank, 1);
    hvd_buf_fini(&pass);
    stream = feed(first, 50, &pass);
    assert_null(hvd_report_stream_failure(&stream));
    hvd_buf_fini(&pass);
}

/* The last line of a run over these hosts, of which ranks were stopped and mpirun wrote so. */
static void conclude_run(const char *list, const char *text, const int64_t *ranks, size_t n,
                         char *line)
{
    struct hvd_report_stream stream;
    struct hvd_hosts hosts = {0};
    char report[HVD_REPORT_MAX];
    struct hvd_buf pass;

    assert_int_equal(hvd_hosts_parse_list(list, &hosts, NULL), HVD_OK);
    hvd_report_stream_init(&stream, NONCE, &hosts);
    hvd_buf_init(&pass, 1000);
    assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(text), &pass), HVD_OK);
    for (size_t i = 0; i < n; i++) {
        struct hvd_report one = stopped;

        one.rank = ranks[i];
        assert_int_equal(hvd_report_format(&one, NONCE, report, sizeof(report)), HVD_OK);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(report), &pass), HVD_OK);
    }
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    line[0] = '\0';
    if (hvd_report_stream_failure(&stream)) {
        hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, HVD_REPORT_MAX);
        assert_int_equal(hvd_report_exit_code(hvd_report_stream_failure(&stream)), 1);
    }
    hvd_report_stream_fini(&stream);
    hvd_buf_fini(&pass);
    hvd_hosts_fini(&hosts);
}

static void a_host_that_is_lost_is_named_and_no_rank_that_was_stopped(void **state)
{
    static const char lost[] = "ORTE has lost communication with a remote daemon.\n\n"
                               "  HNP daemon   : [[876,0],0] on node east\n"
                               "  Remote daemon: [[876,0],1] on node west\n\n";
    const int64_t first[] = {0, 1};
    const int64_t all[] = {0, 1, 2};
    char line[HVD_REPORT_MAX];

    (void)state;
    conclude_run("east:2,west.jobs:2", lost, first, 2, line);
    assert_string_equal(line, "host west.jobs unreachable: mpirun has lost its daemon there, and "
                              "with it ranks 2 to 3");
    conclude_run("east:2,west:1", "", first, 2, line);
    assert_string_equal(line, "host west unreachable: mpirun has lost its daemon there, and with "
                              "it rank 2");
    conclude_run("east:2,west:1", "", all, 3, line);
    assert_string_equal(line, "");
    conclude_run("east:1,west:1,north:1", "", all, 1, line);
    assert_string_equal(line, "");
    conclude_run("east:2", "", all, 0, line);
    assert_string_equal(line, "");
}

static void a_host_is_lost_whose_ssh_has_hung_up_though_its_ranks_were_stopped(void **state)
{
    static const char closed[] = "Connection to west closed by remote host.\n";
    const int64_t all[] = {0, 1, 2};
    char line[HVD_REPORT_MAX];

    (void)state;
    conclude_run("east:2,west:1", closed, all, 3, line);
    assert_string_equal(line, "host west unreachable: mpirun has lost its daemon there, and with "
                              "it rank 2");
    conclude_run("east:2,west:1", closed, all + 2, 1, line); /* the reports of east are lost */
    assert_string_equal(line, "host west unreachable: mpirun has lost its daemon there, and with "
                              "it rank 2");
    conclude_run("east:2,west.jobs:1", closed, all, 3, line);
    assert_string_equal(line, "");
    conclude_run("east:2,west:1", "Connection to west is slow\n", all, 3, line);
    assert_string_equal(line, "");
}

/* The rank of the two on west has died of this signal, before or after mpirun's text. */
static void conclude_pipe(const char *text, int signal, bool is_first, char *line)
{
    struct hvd_report_stream stream;
    struct hvd_hosts hosts = {0};
    struct hvd_report end = killed;
    char report[HVD_REPORT_MAX];
    struct hvd_buf pass;

    end.rank = 2;
    end.signal = signal;
    assert_int_equal(hvd_hosts_parse_list("east:2,west.jobs:2,west2:1", &hosts, NULL), HVD_OK);
    assert_int_equal(hvd_report_format(&end, NONCE, report, sizeof(report)), HVD_OK);
    hvd_report_stream_init(&stream, NONCE, &hosts);
    hvd_buf_init(&pass, 10000);
    for (int i = 0; i < 2; i++)
        assert_int_equal(hvd_report_stream_feed(
                             &stream, hvd_strview_of((i == 0) == is_first ? report : text), &pass),
                         HVD_OK);
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, HVD_REPORT_MAX);
    hvd_report_stream_fini(&stream);
    hvd_buf_fini(&pass);
    hvd_hosts_fini(&hosts);
}

static void a_rank_that_a_signal_of_others_ends_on_a_lost_host_is_no_cause(void **state)
{
    static const char west[] = "  Remote daemon: [[876,0],1] on node west\n\n";
    static const char west2[] = "  Remote daemon: [[876,0],2] on node west2\n\n";
    static const char closed[] = "Connection to west.jobs closed by remote host.\n";
    static const char lost[] = "host west.jobs unreachable: mpirun has lost its daemon there, and "
                               "with it ranks 2 to 3";
    char line[HVD_REPORT_MAX];

    (void)state;
    for (int is_first = 0; is_first < 2; is_first++) {
        conclude_pipe(west, SIGPIPE, is_first, line);
        assert_string_equal(line, lost);
        conclude_pipe(closed, SIGPIPE, is_first, line);
        assert_string_equal(line, lost);
        conclude_pipe(west2, SIGPIPE, is_first, line);
        assert_non_null(strstr(line, "rank 2 on host "));
        conclude_pipe(west, SIGSEGV, is_first, line);
        assert_non_null(strstr(line, "rank 2 on host "));
    }
}

static void a_host_is_lost_whose_daemon_open_mpi_5_has_seen_end(void **state)
{
    static const char ended[] =
        "------------------------------------------------------------\n"
        "A daemon failed to report back after being spawned. This could\n"
        "be due to several factors\n\n"
        "  Local host:    east\n  Remote host:   west\n  Daemon exit status: 0\n\n"
        "------------------------------------------------------------\n";
    char line[HVD_REPORT_MAX];

    (void)state;
    conclude_run("east:2,west.jobs:2", ended, NULL, 0, line);
    assert_string_equal(line, "host west.jobs unreachable: mpirun has lost its daemon there, and "
                              "with it ranks 2 to 3");
    conclude_run("east:2,west.jobs:2", "  Remote host:   west\n", NULL, 0, line);
    assert_string_equal(line, "");
}

#define BROKEN                                                                                     \
    "[east:00000] *** An error occurred in Socket closed\n"                                        \
    "[east:00000] ***    and MPI will try to terminate your MPI job as well)\n"

/* The last line after these ends of ranks, with Open MPI 5's words before the one of that index. */
static void conclude_broken(const struct hvd_report *reports, size_t n, size_t broken,
                            char line[HVD_REPORT_MAX])
{
    struct hvd_hosts none = {0};
    struct hvd_report_stream stream;
    struct hvd_buf pass;
    char text[HVD_REPORT_MAX];

    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(&pass, 10000);
    for (size_t i = 0; i <= n; i++) {
        if (i == broken)
            assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(BROKEN), &pass),
                             HVD_OK);
        if (i == n)
            break;
        assert_int_equal(hvd_report_format(&reports[i], NONCE, text, sizeof(text)), HVD_OK);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(text), &pass), HVD_OK);
        if (i == broken)
            assert_int_equal(
                hvd_report_stream_feed(&stream, (struct hvd_strview){.data = "", .len = 1}, &pass),
                HVD_OK);
    }
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    assert_int_equal(pass.len, 0);
    hvd_describe_report(hvd_report_stream_failure(&stream), &none, line, HVD_REPORT_MAX);
    hvd_buf_fini(&pass);
}

static void a_rank_that_open_mpi_5_ended_for_its_connection_is_no_cause(void **state)
{
    const struct hvd_report cut = {.rank = 0,
                                   .host = "east",
                                   .exit_code = 14,
                                   .phase = HVD_RANK_RUNNING,
                                   .limit_bytes = INT64_MAX};
    const struct hvd_report crashed = {
        .rank = 1, .host = "west", .signal = 11, .limit_bytes = INT64_MAX};
    const struct hvd_report both[2][2] = {{cut, crashed}, {crashed, cut}};
    char line[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        conclude_broken(both[i % 2], 2, i / 2, line);
        assert_string_equal(line,
                            "rank 1 on host west was killed by signal 11 (Segmentation fault)");
    }
    conclude_broken(&cut, 1, 0, line);
    assert_string_equal(
        line, "rank 0 on host east was ended by Open MPI: its connection to another rank broke");
    conclude_broken(both[0], 2, SIZE_MAX, line); /* without Open MPI's words it is a code as any */
    assert_string_equal(line, "rank 0 on host east exited with code 14");
    conclude_broken(both[1], 2, SIZE_MAX, line);
    assert_string_equal(line, "rank 1 on host west was killed by signal 11 (Segmentation fault)");
}

static void mpiruns_own_words_are_read_when_no_wrapper_reported(void **state)
{
    static const struct {
        const char *text;
        int64_t rank;
        int code;
    } cases[] = {
        {"mpirun noticed that process rank 3 with PID 0 on node w-1 exited on signal 9 (Killed).\n",
         3, 137},
        {"  Process name: [[14440,1],12]\n  Exit code:    3\n", 12, 3},
        {"prterun noticed that process rank 2 with PID 77 on node w-1 exited on signal 11 (Seg"
         "mentation fault).\n",
         2, 139},
        {"prterun noticed that process rank 1 with PID 5316 on node w-1 exited on\nsignal 9 "
         "(Killed).\n",
         1, 137},
        {"prterun noticed that process rank 1 with PID 5316 on\nnode w-1 exited on signal\n9 "
         "(Killed).\n-----\n",
         1, 137},
        {"   Process name: [prterun-w-1@1,5]\n   Exit code:    7\n", 5, 7},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(cases[i].text, 11, &pass);
        const struct hvd_report *failure = hvd_report_stream_failure(&stream);

        assert_non_null(failure);
        assert_int_equal(failure->rank, cases[i].rank);
        assert_int_equal(hvd_report_exit_code(failure), cases[i].code);
        assert_string_equal(pass.data, cases[i].text);
        hvd_buf_fini(&pass);
    }
}

static void the_last_line_names_rank_host_and_reason(void **state)
{
    struct hvd_report exited = {.rank = 2, .host = "x", .exit_code = 3, .limit_bytes = INT64_MAX};
    struct hvd_report segfault = {
        .rank = 0, .host = "digits-worker-0", .signal = 11, .limit_bytes = INT64_MAX};
    struct hvd_report unlimited = {
        .rank = 2, .host = "", .signal = 9, .is_oom = true, .limit_bytes = INT64_MAX};
    struct hvd_hosts hosts = {0};
    char line[HVD_REPORT_MAX];

    (void)state;
    assert_int_equal(
        hvd_hosts_parse_list("digits-worker-0.digits,digits-worker-1.digits", &hosts, NULL),
        HVD_OK);
    hvd_describe_report(&killed, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host digits-worker-1.digits was killed by signal 9 "
                              "(Killed): out of memory (limit 64Mi)");
    hvd_describe_report(&segfault, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 0 on host digits-worker-0.digits was killed by signal 11 "
                              "(Segmentation fault)");
    hvd_describe_report(&exited, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 2 on host x exited with code 3");
    hvd_describe_report(&unlimited, &hosts, line, sizeof(line));
    assert_string_equal(line,
                        "rank 2 on host unknown was killed by signal 9 (Killed): out of memory");
    hvd_hosts_fini(&hosts);
}

#define KEY_ERROR                                                                                  \
    "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n"               \
    "KeyError: 'learning_rate'"
#define BLAMES_1                                                                                   \
    "Traceback (most recent call last):\n  File \"train.py\", line 2, in <module>\n"               \
    "HorovodInternalError: Horovod has been shut down. Rank 1 on host w called horovod_shutdown. " \
    "(tensor t)"

/* The same of one that was stopped after that. */
static struct hvd_report wrote_and_was_stopped(int64_t rank, const char *err)
{
    struct hvd_report report = {
        .rank = rank, .host = "h", .signal = 15, .was_stopped = true, .limit_bytes = INT64_MAX};
    struct hvd_tail tails[2] = {0};

    hvd_tail_add(&tails[1], hvd_strview_of(err));
    hvd_report_take_words(&report, &tails[0], &tails[1]);
    return report;
}

static void the_last_words_of_the_first_rank_that_fails_go_with_it(void **state)
{
    const struct hvd_report both[] = {wrote(1, "epoch 1\n", "warning\n" KEY_ERROR "\n"),
                                      wrote(0, "", "ValueError: later\n")};
    const struct hvd_report quiet = wrote(2, "no data in /data\n", "\n");
    const struct hvd_report silent = wrote(3, "", "");
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    conclude(both, 2, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: KeyError: 'learning_rate'");
    assert_string_equal(log, "warning\n" KEY_ERROR);
    conclude(&quiet, 1, line, log);
    assert_string_equal(line, "rank 2 on host h exited with code 1, last output: no data in /data");
    assert_string_equal(log, "no data in /data");
    conclude(&silent, 1, line, log);
    assert_string_equal(line, "rank 3 on host h exited with code 1, without output");
    assert_string_equal(log, "");
}

static void a_rank_that_was_ended_by_another_does_not_hide_it(void **state)
{
    const struct hvd_report late[] = {wrote(0, "", BLAMES_1), wrote(2, "", "TypeError: own"),
                                      wrote(1, "", KEY_ERROR)};
    const struct hvd_report slower[] = {wrote(0, "", BLAMES_1),
                                        wrote_and_was_stopped(2, "epoch 1\n"),
                                        wrote_and_was_stopped(1, KEY_ERROR)};
    const struct hvd_report sooner[] = {wrote_and_was_stopped(1, KEY_ERROR),
                                        wrote(0, "", BLAMES_1)};
    const struct hvd_report left[] = {wrote(0, "", BLAMES_1), wrote(2, "", BLAMES_1)};
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    conclude(late, 3, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: KeyError: 'learning_rate'");
    assert_string_equal(log, KEY_ERROR);
    conclude(slower, 3, line, log);
    assert_string_equal(line, "rank 1 on host h failed: KeyError: 'learning_rate'");
    assert_string_equal(log, KEY_ERROR);
    conclude(sooner, 2, line, log);
    assert_string_equal(line, "rank 1 on host h failed: KeyError: 'learning_rate'");
    conclude(left, 2, line, log);
    assert_string_equal(line,
                        "rank 1 on host w called horovod_shutdown while other ranks waited for "
                        "tensor t");
    assert_non_null(strstr(log, "HorovodInternalError: "));
}

/* The library knows whom a rank followed, whatever the rank wrote. */
static void a_rank_that_followed_another_gives_way_to_it_without_a_word(void **state)
{
    struct hvd_report follower = wrote(1, "", "training failed\n");
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    follower.follows = 1;
    const struct hvd_report late[] = {follower, wrote(2, "", "other\n"), wrote(0, "", "no data\n")};
    const struct hvd_report alone[] = {follower, wrote_and_was_stopped(0, "epoch 1\n")};

    conclude(late, 3, line, log);
    assert_string_equal(line, "rank 0 on host h exited with code 1: no data");
    conclude(alone, 2, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: training failed");
}

/* It hears in horovod_shutdown that the others, which it has ended, are gone. */
static void the_loss_of_ranks_that_a_rank_has_ended_does_not_cover_its_own_words(void **state)
{
    static const char lost[] = "time=2026-01-02T03:04:05.678Z level=error subsystem=engine "
                               "msg=\"Rank 0 on host h is lost: "
                               "its process ended during the job\"\n";
    char text[400];

    (void)state;
    (void)snprintf(text, sizeof(text), "no data\n%s", lost);
    const struct hvd_report left[] = {wrote(0, "", BLAMES_1), wrote(1, "", text)};
    const struct hvd_report alone = wrote(1, "", text);
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    conclude(left, 2, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: no data");
    assert_string_equal(log, "no data");
    conclude(&alone, 1, line, log);
    assert_non_null(strstr(line, "is lost: its process ended"));
}

/* mpirun stops all ranks then, and names nobody. */
static void the_end_of_srun_is_named_by_its_host_where_there_is_but_one(void **state)
{
    static const struct {
        const char *list;
        bool has_srun;
        const char *line;
        bool is_well; /* the ranks ended by themselves */
    } cases[] = {
        {"east:1,west:2", true, NULL, true},
        {"east:1,west:2", true,
         "host west unreachable: mpirun has lost its daemon there, and with it ranks 1 to 2",
         false},
        {"east:1,west:1,north:1", true,
         "mpirun has lost srun, and with it its daemons on other hosts", false},
        {"east:3", true, NULL, false},
        {"east:1,west:2", false, NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_report_stream stream;
        struct hvd_buf pass;
        char text[HVD_REPORT_MAX], line[HVD_REPORT_MAX];

        assert_int_equal(hvd_hosts_parse_list(cases[i].list, &hosts, NULL), HVD_OK);
        hosts.items[0].is_local = true;
        hvd_report_stream_init(&stream, NONCE, &hosts);
        stream.has_srun = cases[i].has_srun;
        hvd_buf_init(&pass, 1000);
        for (int64_t rank = 0; rank < 2; rank++) {
            const struct hvd_report report = {.rank = rank,
                                              .host = "h",
                                              .signal = cases[i].is_well ? 0 : 15,
                                              .was_stopped = !cases[i].is_well,
                                              .phase = HVD_RANK_ENDED};

            assert_int_equal(hvd_report_format(&report, NONCE, text, sizeof(text)), HVD_OK);
            assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(text), &pass), HVD_OK);
        }
        assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
        const struct hvd_report *failure = hvd_report_stream_failure(&stream);
        assert_int_equal(failure != NULL, cases[i].line != NULL);
        if (failure) {
            hvd_describe_report(failure, &hosts, line, sizeof(line));
            assert_string_equal(line, cases[i].line);
            assert_int_equal(hvd_report_exit_code(failure), 1);
        }
        hvd_report_stream_fini(&stream);
        hvd_hosts_fini(&hosts);
        hvd_buf_fini(&pass);
    }
}

static void a_rank_that_others_have_lost_is_named(void **state)
{
    const struct hvd_report seen[] = {
        wrote(0, "",
              "allreduce: Horovod has been shut down. Rank 3 on host w is lost: no answer\n"),
        wrote_and_was_stopped(3, "epoch 1\n")};
    const struct hvd_report own[] = {seen[0], wrote(3, "", KEY_ERROR)};
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    conclude(seen, 2, line, log);
    assert_string_equal(line, "rank 3 on host w is lost: no answer");
    conclude(seen, 1, line, log);
    assert_string_equal(line, "rank 3 on host w is lost: no answer");
    conclude(own, 2, line, log);
    assert_string_equal(line, "rank 3 on host h exited with code 1: KeyError: 'learning_rate'");
}

/* A rank that is within horovod_init for long. */
static struct hvd_report waits_of(int64_t rank, enum hvd_report_notice notice)
{
    return (struct hvd_report){.rank = rank,
                               .host = "-",
                               .limit_bytes = INT64_MAX,
                               .phase = HVD_RANK_JOINING,
                               .notice = notice,
                               .waited_ms = 10000};
}

static void a_rank_that_comes_to_no_init_any_more_is_named_once_others_wait(void **state)
{
    static const struct {
        struct hvd_report absent;
        const char *line;
        bool is_for_some; /* who waits for some ranks waits for it, too */
    } cases[] = {
        {{.phase = HVD_RANK_OUTSIDE},
         "rank 1 on host h exited with code 0 and without horovod_init, in which other ranks wait "
         "for it",
         true},
        {{.phase = HVD_RANK_ENDED},
         "rank 1 on host h exited with code 0, and other ranks wait for it in horovod_init",
         false},
        {{.phase = HVD_RANK_ENDED, .notice = HVD_NOTICE_FINAL, .words = HVD_WORDS_NONE},
         "rank 1 on host h is in MPI_Finalize, and other ranks wait for it in horovod_init",
         false},
        {{.phase = HVD_RANK_ENDED,
          .notice = HVD_NOTICE_FINAL,
          .words = HVD_WORDS_STDERR,
          .line = "no data"},
         "rank 1 on host h is in MPI_Finalize, last output: no data, and other ranks wait for it "
         "in horovod_init",
         false},
        {{.phase = HVD_RANK_ENDED,
          .notice = HVD_NOTICE_FINAL,
          .was_stopped = true,
          .words = HVD_WORDS_STDERR,
          .line = "KeyError: 'oops'"},
         "rank 1 on host h failed: KeyError: 'oops', and other ranks wait for it in horovod_init",
         false},
    };
    const struct hvd_report all = waits_of(0, HVD_NOTICE_WAITS);
    const struct hvd_report other = waits_of(2, HVD_NOTICE_WAITS);
    const struct hvd_report some = waits_of(0, HVD_NOTICE_WAITS_SOME);
    struct hvd_report short_time = all;
    const struct hvd_hosts none = {0};
    char text[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report absent = cases[i].absent;
        struct hvd_report_stream stream;

        absent.rank = 1;
        absent.limit_bytes = INT64_MAX;
        (void)snprintf(absent.host, sizeof(absent.host), "h");
        hvd_report_stream_init(&stream, NONCE, NULL);
        feed_report(&stream, &all); /* and is through soon after */
        feed_report(&stream, &all);
        feed_report(&stream, &absent);
        feed_report(&stream, &all); /* on its way since before */
        feed_report(&stream, &other);
        short_time.waited_ms = 9999;
        feed_report(&stream, &short_time);
        assert_false(hvd_report_stream_is_stuck(&stream));
        assert_null(hvd_report_stream_failure(&stream));
        assert_false(hvd_report_stream_is_ending(&stream, false));
        feed_report(&stream, &all);
        assert_true(hvd_report_stream_is_stuck(&stream));
        assert_int_equal(stream.n_ended, absent.notice == HVD_NOTICE_END);
        feed_report(&stream, &killed); /* because the job is stopped */
        hvd_describe_report(hvd_report_stream_failure(&stream), &none, text, sizeof(text));
        assert_string_equal(text, cases[i].line);
        assert_int_equal(hvd_report_exit_code(hvd_report_stream_failure(&stream)), 1);
        hvd_report_stream_init(&stream, NONCE, NULL);
        feed_report(&stream, &absent);
        feed_report(&stream, &some);
        feed_report(&stream, &some);
        assert_int_equal(hvd_report_stream_is_stuck(&stream), cases[i].is_for_some);
    }
}

static void of_ranks_that_come_no_more_the_one_with_an_exception_is_named(void **state)
{
    const struct hvd_report final = {.rank = 1,
                                     .host = "h",
                                     .limit_bytes = INT64_MAX,
                                     .phase = HVD_RANK_ENDED,
                                     .notice = HVD_NOTICE_FINAL};
    const struct hvd_report waits = waits_of(0, HVD_NOTICE_WAITS);
    struct hvd_report excepted = final;

    (void)state;
    excepted.rank = 2;
    excepted.was_stopped = true;
    excepted.words = HVD_WORDS_STDERR;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_report_stream stream;

        hvd_report_stream_init(&stream, NONCE, NULL);
        feed_report(&stream, i ? &final : &excepted);
        feed_report(&stream, i ? &excepted : &final);
        feed_report(&stream, &waits);
        feed_report(&stream, &waits);
        assert_int_equal(hvd_report_stream_failure(&stream)->rank, 2);
    }
}

static void mpirun_is_to_end_once_a_rank_has_failed_or_was_stopped(void **state)
{
    struct hvd_report_stream stream;

    (void)state;
    hvd_report_stream_init(&stream, NONCE, NULL);
    feed_report(&stream, &(struct hvd_report){.host = "h", .phase = HVD_RANK_ENDED});
    assert_false(hvd_report_stream_is_ending(&stream, false));
    feed_report(&stream, &stopped);
    assert_true(hvd_report_stream_is_ending(&stream, false));
    assert_false(hvd_report_stream_is_ending(&stream, true));
    feed_report(&stream, &killed);
    assert_true(hvd_report_stream_is_ending(&stream, true));
}

static void a_rank_that_a_stalled_tensor_waits_for_and_nobody_hears_is_lost(void **state)
{
    struct hvd_report report = wrote(
        0, "",
        "ERR Horovod has been shut down. Tensor t is stalled for longer than 4 seconds "
        "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for rank 1 on host west (tensor t)\n");
    struct hvd_report own = report;
    char line[HVD_REPORT_MAX];

    (void)state;
    own.rank = 1;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_report_stream stream;
        struct hvd_buf pass;

        assert_int_equal(hvd_hosts_parse_list("east:1,west:1", &hosts, NULL), HVD_OK);
        hvd_report_stream_init(&stream, NONCE, &hosts);
        hvd_buf_init(&pass, 100);
        feed_report(&stream, &report);
        if (i)
            feed_report(&stream, &own);
        assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
        hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
        if (i)
            assert_string_equal(line, "rank 1 on host west kept other ranks waiting: Tensor t is "
                                      "stalled for longer than 4 seconds "
                                      "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for rank 1 "
                                      "on host west");
        else
            assert_string_equal(line, "rank 1 on host west is lost: Tensor t is stalled for longer "
                                      "than 4 seconds (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)");
        hvd_buf_fini(&pass);
        hvd_report_stream_fini(&stream);
        hvd_hosts_fini(&hosts);
    }
}

static void an_end_without_shutdown_is_a_failure(void **state)
{
    struct hvd_report report = wrote(2, "", "under way\n");
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    report.exit_code = 0;
    report.phase = HVD_RANK_RUNNING;
    conclude(&report, 1, line, log);
    assert_string_equal(line, "rank 2 on host h exited without horovod_shutdown: under way");
}

static void last_words_of_any_length_fit_into_a_report(void **state)
{
    char long_line[3000], many[6000], line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];
    struct hvd_report report;

    (void)state;
    memset(long_line, 'y', sizeof(long_line) - 1);
    long_line[sizeof(long_line) - 1] = '\0';
    report = wrote(0, "", long_line);
    conclude(&report, 1, line, log);
    assert_int_equal(strlen(log), 1003);
    assert_true(strlen(line) < 600);
    many[0] = '\0';
    for (size_t i = 0; i < 300; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "line %zu\n", i);
    report = wrote(0, "", many);
    conclude(&report, 1, line, log);
    assert_memory_equal(log, "line ", 5);
    assert_true(strlen(log) > 1000);
    assert_non_null(strstr(log, "line 299"));
    memset(report.host, 'h', sizeof(report.host) - 1);
    memset(report.line, 'l', sizeof(report.line) - 1);
    memset(report.log, '\n', sizeof(report.log) - 1);
    report.rank = INT32_MAX;
    report.exit_code = 255;
    report.limit_bytes = INT64_MAX;
    assert_int_equal(
        hvd_report_format(&report, "0123456789abcdef0123456789abcdef", many, HVD_REPORT_MAX),
        HVD_OK);
    assert_int_equal(hvd_report_format(&report, NONCE, many, 1000), HVD_ERR_TOO_LARGE);
    assert_int_equal(hvd_report_format(&report, NONCE, many, 10), HVD_ERR_TOO_LARGE);
}

static void a_signal_of_the_programs_own_is_told_by_its_last_line(void **state)
{
    struct hvd_report report = wrote(1, "", "prog: a.c:3: Assertion `x' failed.\n");
    const struct hvd_hosts none = {0};
    char line[HVD_REPORT_MAX];

    (void)state;
    report.signal = 6;
    hvd_describe_report(&report, &none, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host h was killed by signal 6 (Aborted): prog: a.c:3: "
                              "Assertion `x' failed.");
    report.signal = 11;
    hvd_describe_report(&report, &none, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host h was killed by signal 11 (Segmentation fault), last "
                              "output: prog: a.c:3: Assertion `x' failed.");
    report.signal = 9;
    report.is_oom = true;
    hvd_describe_report(&report, &none, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host h was killed by signal 9 (Killed): out of memory");
}

static void a_rank_whose_wrapper_was_killed_leaves_its_own_lines(void **state)
{
    struct hvd_buf pass;
    struct hvd_report_stream stream =
        feed("[0]<stderr>:of another\n2026-01-01T00:00:00.000Z [1]<stderr>:its own\n"
             "[11]<stderr>:of another\n------------------------------\n"
             "mpirun noticed that process rank 1 with PID 0 on node w exited on signal 9.\n",
             9, &pass);

    (void)state;
    assert_string_equal(hvd_report_stream_failure(&stream)->log, "its own");
    assert_string_equal(hvd_report_stream_failure(&stream)->line, "its own");
    hvd_buf_fini(&pass);
}

/* Of what all ranks wrote, a part is kept; here it is filled once more than it can be. */
static void an_exception_of_a_rank_that_sent_no_report_is_found_in_what_passed(void **state)
{
    const struct hvd_report cause = wrote(0, "", BLAMES_1);
    const struct hvd_hosts none = {0};
    char report[HVD_REPORT_MAX], line[HVD_REPORT_MAX];
    struct hvd_report_stream stream;
    struct hvd_buf pass;

    (void)state;
    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(&pass, (size_t)1 << 20);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(
            hvd_report_stream_feed(&stream, hvd_strview_of("[0]<stderr>: 1%\r 2%\n"), &pass),
            HVD_OK);
    assert_int_equal(
        hvd_report_stream_feed(
            &stream,
            hvd_strview_of("[1]<stderr>:Traceback (most recent call last):\n"
                           "[1]<stderr>:  File \"x\"\n[0]<stderr>:x\n[1]<stderr>:KeyError: 'a'\n"),
            &pass),
        HVD_OK);
    assert_int_equal(hvd_report_format(&cause, NONCE, report, sizeof(report)), HVD_OK);
    assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(report), &pass), HVD_OK);
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    hvd_describe_report(hvd_report_stream_failure(&stream), &none, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host unknown failed: KeyError: 'a'");
    assert_string_equal(hvd_report_stream_failure(&stream)->log,
                        "Traceback (most recent call last):\n  File \"x\"\nKeyError: 'a'");
    hvd_buf_fini(&pass);
}

/* Each rank caught the exception and ended with 0: mpirun alone has ended with 1. */
static void an_end_by_mpirun_that_every_rank_survives_is_named(void **state)
{
    static const char banner[] =
        "---------------------------------------------------------------------\n"
        "mpirun has exited due to process rank 1 with PID 0 on\n"
        "node vm exiting improperly. There are three reasons this could occur:\n\n"
        "1. this process did not call \"init\" before exiting\n"
        "---------------------------------------------------------------------\n";
    static const char error[] =
        "[0]<stderr>:time=2026 level=warn subsystem=engine msg=\"slow\"\n"
        "[0]<stderr>:time=2026 level=error subsystem=engine msg=\"Tensor t is stalled.\"\n"
        "[1]<stderr>:time=2026 level=error subsystem=engine msg=\"Later.\"\n";
    static const char staying[] = /* of a job that the stall has ended in order */
        "[0]<stderr>:time=2026 level=error subsystem=engine msg=\"Rank 2 is lost: silent while the "
        "job shuts down\"\n";
    struct hvd_host items[] = {{.name = (char *)"a", .slots = 1},
                               {.name = (char *)"b", .slots = 1}};
    const struct hvd_hosts hosts = {.items = items, .n = 2};
    const struct hvd_report absent = {.rank = 1, .host = "b", .limit_bytes = INT64_MAX};
    const struct hvd_report other = {.rank = 0, .host = "a", .limit_bytes = INT64_MAX};
    static const struct {
        bool with_error, with_staying, with_other, with_absent;
        const char *line;
    } cases[] = {
        {false, false, false, false,
         "rank 1 on host vm exited with code 0 and without MPI_Finalize"},
        {false, false, true, false,
         "rank 1 on host vm exited with code 0 and without MPI_Finalize"},
        {true, false, false, true, "rank 0 on host a aborted the job: Tensor t is stalled."},
        {true, true, false, true,
         "rank 0 on host a aborted the job: Rank 2 is lost: silent while the job shuts down"},
        {false, false, false, true,
         "rank 1 on host b exited with code 0 and without horovod_init, in which other ranks wait "
         "for it"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report_stream stream;
        struct hvd_buf pass = {0};
        char line[200];

        hvd_report_stream_init(&stream, NONCE, &hosts);
        hvd_buf_init(&pass, 1 << 16);
        if (cases[i].with_error)
            assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(error), &pass), HVD_OK);
        if (cases[i].with_staying)
            assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(staying), &pass),
                             HVD_OK);
        if (cases[i].with_other)
            feed_report(&stream, &other);
        if (cases[i].with_absent)
            feed_report(&stream, &absent);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(banner), &pass), HVD_OK);
        assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
        assert_non_null(hvd_report_stream_failure(&stream));
        hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
        assert_int_equal(hvd_report_exit_code(hvd_report_stream_failure(&stream)), 1);
        hvd_report_stream_fini(&stream);
        hvd_buf_fini(&pass);
    }
}

static void a_refusal_of_mpirun_is_one_line(void **state)
{
    static const char ruler[] = "--------------------------------------------------\n";
    char text[1000], out[200];
    struct hvd_buf pass;
    struct hvd_report_stream stream;

    (void)state;
    (void)snprintf(
        text, sizeof(text),
        "%sThere are not enough slots available\nthat were requested:\n\n  train\n\nMore.\n%s",
        ruler, ruler);
    stream = feed(text, 100, &pass);
    assert_null(hvd_report_stream_failure(&stream));
    hvd_report_stream_refusal(&stream, out, sizeof(out));
    assert_string_equal(out, "There are not enough slots available that were requested: train");
    hvd_buf_fini(&pass);
    stream = feed("[0]<stderr>:of a rank\n", 100, &pass);
    hvd_report_stream_refusal(&stream, out, sizeof(out));
    assert_string_equal(out, "");
    hvd_buf_fini(&pass);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_report_stream stream;
        struct hvd_buf pass;
        hvd_status_t st;

        hvd_report_stream_init(&stream, NONCE, NULL);
        hvd_buf_init(&pass, 1000);
        st = hvd_report_stream_feed(&stream, hvd_strview_of("text\036text\n"), &pass);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&pass);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_taken_out_of_the_text_around_it),
        cmocka_unit_test(text_that_only_resembles_a_report_passes_unchanged),
        cmocka_unit_test(a_mark_and_much_text_behind_it_passes),
        cmocka_unit_test(ranks_that_were_stopped_are_not_the_cause),
        cmocka_unit_test(a_host_that_is_lost_is_named_and_no_rank_that_was_stopped),
        cmocka_unit_test(a_rank_that_others_have_lost_is_named),
        cmocka_unit_test(an_end_without_shutdown_is_a_failure),
        cmocka_unit_test(a_rank_that_comes_to_no_init_any_more_is_named_once_others_wait),
        cmocka_unit_test(of_ranks_that_come_no_more_the_one_with_an_exception_is_named),
        cmocka_unit_test(mpirun_is_to_end_once_a_rank_has_failed_or_was_stopped),
        cmocka_unit_test(a_rank_that_a_stalled_tensor_waits_for_and_nobody_hears_is_lost),
        cmocka_unit_test(a_host_is_lost_whose_ssh_has_hung_up_though_its_ranks_were_stopped),
        cmocka_unit_test(a_rank_that_a_signal_of_others_ends_on_a_lost_host_is_no_cause),
        cmocka_unit_test(a_host_is_lost_whose_daemon_open_mpi_5_has_seen_end),
        cmocka_unit_test(a_rank_that_open_mpi_5_ended_for_its_connection_is_no_cause),
        cmocka_unit_test(mpiruns_own_words_are_read_when_no_wrapper_reported),
        cmocka_unit_test(the_last_line_names_rank_host_and_reason),
        cmocka_unit_test(the_last_words_of_the_first_rank_that_fails_go_with_it),
        cmocka_unit_test(a_rank_that_was_ended_by_another_does_not_hide_it),
        cmocka_unit_test(a_rank_that_followed_another_gives_way_to_it_without_a_word),
        cmocka_unit_test(the_end_of_srun_is_named_by_its_host_where_there_is_but_one),
        cmocka_unit_test(the_loss_of_ranks_that_a_rank_has_ended_does_not_cover_its_own_words),
        cmocka_unit_test(last_words_of_any_length_fit_into_a_report),
        cmocka_unit_test(a_signal_of_the_programs_own_is_told_by_its_last_line),
        cmocka_unit_test(a_rank_whose_wrapper_was_killed_leaves_its_own_lines),
        cmocka_unit_test(an_exception_of_a_rank_that_sent_no_report_is_found_in_what_passed),
        cmocka_unit_test(an_end_by_mpirun_that_every_rank_survives_is_named),
        cmocka_unit_test(a_refusal_of_mpirun_is_one_line),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
