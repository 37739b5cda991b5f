#include "tests/unit/support.h"
#include "tests/unit/worker/launch/core/reports.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/launch/core/describe.h"
#include "worker/launch/core/report.h"

static void what_the_library_told_a_rank_goes_before_what_that_one_wrote(void **state)
{
#define SHUT "Horovod has been shut down. "
    static const char mine[] = "saving emergency checkpoint";
    static const struct {
        const char *heard;
        const char *line;
    } cases[] = {
        {SHUT "Rank 1 on host w is lost: it has ended (tensor t)",
         "rank 1 on host w is lost: it has ended (tensor t)"},
        {SHUT "Rank 1 on host w called horovod_shutdown. (tensor t)",
         "rank 1 on host w called horovod_shutdown while other ranks waited for tensor t"},
        {SHUT "Tensor t is stalled for longer than 4 seconds (X): it waits for rank 1 on host w "
              "(tensor t)",
         "rank 1 on host w kept other ranks waiting: Tensor t is stalled for longer than 4 seconds "
         "(X): it waits for rank 1 on host w"},
        {SHUT "Rank 0 on host h called horovod_shutdown. (tensor t)",
         "rank 0 on host h exited with code 1: saving emergency checkpoint"},
        {SHUT "(tensor t)", "rank 0 on host h exited with code 1: saving emergency checkpoint"},
        {"", "rank 0 on host h exited with code 1: saving emergency checkpoint"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report report = wrote(0, "", mine);
        char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

        hvd_report_take_cause(&report, cases[i].heard);
        conclude(&report, 1, line, log);
        assert_string_equal(line, cases[i].line);
        assert_non_null(strstr(log, mine));
    }
}

#define FROZEN                                                                                     \
    "Horovod has been shut down. Rank 2 on host w is lost: it has not answered for 4 seconds "     \
    "while "                                                                                       \
    "tensor t is in transfer (tensor t)"
#define LOST                                                                                       \
    "rank 2 on host w is lost: it has not answered for 4 seconds while tensor t is in transfer "   \
    "(tensor t)"

/* A rank that fell silent goes on once mpirun ends the job, with a signal that wakes it. */
static void what_a_rank_does_after_it_was_lost_in_silence_is_no_cause(void **state)
{
    struct hvd_report told = wrote(0, "", "saving");
    struct hvd_report left_out = wrote(2, "", "PID 2 7345");
    struct hvd_report cut_off = wrote(2, "", "PID 2 7345");
    struct hvd_report raised = wrote(2, "", "no data");
    struct hvd_report excepted = wrote(2, "", "KeyError: 'x'");
    struct hvd_report late =
        wrote(2, "", "allreduce: Horovod has been shut down. Rank 2 failed: x");
    const struct hvd_report *ends[] = {&left_out, &cut_off, &raised, &excepted, &late};
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    hvd_report_take_cause(&told, FROZEN);
    cut_off.exit_code = 14;
    raised.has_raised = true;
    excepted.was_stopped = true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const struct hvd_report behind[] = {told, *ends[i]};
        const struct hvd_report before[] = {*ends[i], told};

        conclude(behind, 2, line, log);
        assert_string_equal(line, LOST);
        conclude(before, 2, line, log);
        assert_string_equal(line, LOST);
    }
}

static void a_rank_that_crashed_before_it_was_lost_in_silence_is_named(void **state)
{
    struct hvd_report told = wrote(0, "", "saving");
    struct hvd_report crashed = wrote(2, "", "no data");
    struct hvd_report_stream stream;
    struct hvd_buf pass;

    (void)state;
    hvd_report_take_cause(&told, FROZEN);
    crashed.signal = SIGSEGV;
    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(&pass, 100);
    feed_report(&stream, &crashed);
    feed_report(&stream, &told);
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    assert_int_equal(hvd_report_stream_failure(&stream)->rank, 2);
    assert_int_equal(hvd_report_stream_failure(&stream)->signal, SIGSEGV);
    hvd_buf_fini(&pass);
    hvd_report_stream_fini(&stream);
}

static void a_rank_that_failed_by_itself_goes_before_what_others_were_told(void **state)
{
    struct hvd_report reports[2] = {wrote(0, "", "saving"), wrote(1, "", "no data")};
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    hvd_report_take_cause(&reports[0], SHUT "Tensor t is stalled for longer than 4 seconds (X): it "
                                            "waits for rank 1 on host w (tensor t)");
    conclude(reports, 2, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: no data");
    reports[1].signal = SIGSEGV; /* an end of its own */
    hvd_report_take_cause(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_string_equal(reports[1].line, "no data");
    reports[1].signal = SIGABRT;
    reports[1].was_stopped = true;
    hvd_report_take_cause(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_string_equal(reports[1].line, "no data");
    reports[1].was_stopped = false;
    hvd_report_take_cause(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_int_equal(reports[1].follows, 3);
#undef SHUT
}

static void a_traceback_of_a_rank_that_succeeded_is_not_why_others_failed(void **state)
{
    static const char handled[] = "[1]<stderr>:Traceback (most recent call last):\n"
                                  "[1]<stderr>:  File \"x.py\", line 1\n"
                                  "[1]<stderr>:ValueError: handled\n";
    struct hvd_report other = wrote(0, "", "saving");
    struct hvd_report left = {
        .rank = 1, .host = "w", .limit_bytes = INT64_MAX, .phase = HVD_RANK_ENDED};

    (void)state;
    hvd_report_take_cause(&other, "Horovod has been shut down. Rank 1 on host w called "
                                  "horovod_shutdown. (tensor t)");
    for (size_t i = 0; i < 2; i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_report_stream stream;
        struct hvd_buf pass;
        char line[HVD_REPORT_MAX];

        assert_int_equal(hvd_hosts_parse_list("h:1,w:1", &hosts, NULL), HVD_OK);
        hvd_report_stream_init(&stream, NONCE, &hosts);
        hvd_buf_init(&pass, 1000);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(handled), &pass), HVD_OK);
        feed_report(&stream, &other);
        if (i == 0) /* else nothing is heard of it */
            feed_report(&stream, &left);
        assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
        hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
        assert_string_equal(line, i == 0 ? "rank 1 on host w called horovod_shutdown while other "
                                           "ranks waited for tensor t"
                                         : "rank 1 on host w failed: ValueError: handled");
        hvd_buf_fini(&pass);
        hvd_report_stream_fini(&stream);
        hvd_hosts_fini(&hosts);
    }
}

/* Open MPI 4 and 5 write the stack of a crash to standard error. */
static void a_crash_has_the_last_words_of_the_program_and_not_those_of_the_handler(void **state)
{
    static const char stack[] = "[vm:01178] *** Process received signal ***\n"
                                "[vm:01178] Signal: Segmentation fault (11)\n"
                                "[vm:01178] Signal code:  (-6)\n"
                                "[vm:01178] Failing at address: 0x49a\n"
                                "[vm:01178] [ 0] /lib/libc.so.6(+0x3c050)[0x7f]\n"
                                "[vm:01178] *** End of error message ***\n";
    static const struct {
        const char *out;
        const char *before; /* the stack, on standard error */
        int signal;
        const char *line;
    } cases[] = {
        {"under way\n", "", SIGSEGV,
         "rank 1 on host h was killed by signal 11 (Segmentation fault), last output: under way"},
        {"under way\n", "", SIGABRT,
         "rank 1 on host h was killed by signal 6 (Aborted), last output: under way"},
        {"under way\n", "bad state\n", SIGSEGV,
         "rank 1 on host h was killed by signal 11 (Segmentation fault), last output: bad state"},
        {"under way\n", "bad state\n", SIGABRT,
         "rank 1 on host h was killed by signal 6 (Aborted): bad state"},
        {"", "", SIGSEGV, "rank 1 on host h was killed by signal 11 (Segmentation fault)"},
    };
    const struct hvd_hosts none = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report report = {
            .rank = 1, .host = "h", .signal = cases[i].signal, .limit_bytes = INT64_MAX};
        struct hvd_tail tails[2] = {0};
        char line[HVD_REPORT_MAX];

        hvd_tail_add(&tails[0], hvd_strview_of(cases[i].out));
        hvd_tail_add(&tails[1], hvd_strview_of(cases[i].before));
        hvd_tail_add(&tails[1], hvd_strview_of(stack));
        hvd_report_take_words(&report, &tails[0], &tails[1]);
        hvd_describe_report(&report, &none, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
        assert_non_null(strstr(report.log, "Failing at address")); /* the stack is kept */
    }
}

/* What a rank of Keras writes, in this order. */
struct piece {
    int stream;
    const char *text;
};

static void conclude_pieces(const struct piece *pieces, int code, int signal,
                            char line[HVD_REPORT_MAX])
{
    struct hvd_report report = {
        .rank = 1, .host = "h", .exit_code = code, .signal = signal, .limit_bytes = INT64_MAX};
    struct hvd_tail tails[2] = {0};
    const struct hvd_hosts none = {0};

    for (uint64_t i = 0; i < 4 && pieces[i].text; i++) {
        tails[pieces[i].stream].order = i + 1;
        hvd_tail_add(&tails[pieces[i].stream], hvd_strview_of(pieces[i].text));
    }
    hvd_report_take_words(&report, &tails[0], &tails[1]);
    hvd_describe_report(&report, &none, line, HVD_REPORT_MAX);
}

static void a_notice_is_the_last_output_only_where_there_is_no_other(void **state)
{
#define ONEDNN                                                                                     \
    "I0000 00:00:1795740136.158072    7191 port.cc:153] oneDNN custom operations are on. To turn " \
    "them off, set the environment variable `TF_ENABLE_ONEDNN_OPTS=0`."
#define OLDER "2026-11-27 00:51:23.385065: I tensorflow/core/util/port.cc:113] oneDNN is on."
#define WARNED                                                                                     \
    "/lib/keras/epoch_iterator.py:74: UserWarning: `shuffle=True` was passed.\n"                   \
    "  self.data_adapter = data_adapters.get_data_adapter(\n"
#define KILLED "rank 1 on host h was killed by signal 9 (Killed)"
#define EXITED "rank 1 on host h exited with code 3"
    static const struct {
        struct piece pieces[4];
        int code, signal;
        const char *line;
    } cases[] = {
        {{{1, ONEDNN "\n"}, {1, WARNED}, {0, "step 2\nstep 3\n"}},
         3,
         0,
         EXITED ", last output: step 3"},
        {{{1, OLDER "\n"}, {0, "step 3\n"}}, 3, 0, EXITED ", last output: step 3"},
        {{{0, "step 3\n"}, {1, ONEDNN "\n"}}, 3, 0, EXITED ", last output: step 3"},
        {{{1, ONEDNN "\n"}}, 3, 0, EXITED ", last output: " ONEDNN},
        {{{1, "no data\n"}, {1, ONEDNN "\n"}, {0, "step 3\n"}}, 3, 0, EXITED ": no data"},
        {{{1, ONEDNN "\n"}, {0, "step 3\n"}}, 0, SIGKILL, KILLED ", last output: step 3"},
        {{{1, ONEDNN "\n"}}, 0, SIGKILL, KILLED ", last output: " ONEDNN},
        /* Of lines of the program itself, the newest one of either stream. */
        {{{1, "loaded\n"}, {0, "step 3\n"}}, 0, SIGKILL, KILLED ", last output: step 3"},
        {{{1, "loaded\n"}, {0, "step 3"}, {1, ONEDNN "\n"}},
         0,
         SIGKILL,
         KILLED ", last output: step 3"},
        {{{0, "step 3\n"}, {1, "slow\n"}, {0, "\n"}}, 0, SIGKILL, KILLED ", last output: slow"},
        {{{1, "bad state\n"}, {0, "step 3\n"}},
         0,
         SIGABRT,
         "rank 1 on host h was killed by signal 6 (Aborted): bad state"},
        {{{1, "KeyboardInterrupt\n"}, {0, "step 3\n"}},
         0,
         SIGINT,
         "rank 1 on host h was killed by signal 2 (Interrupt), last output: KeyboardInterrupt"},
    };
    char line[HVD_REPORT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        conclude_pieces(cases[i].pieces, cases[i].code, cases[i].signal, line);
        assert_string_equal(line, cases[i].line);
    }
#undef ONEDNN
#undef OLDER
#undef WARNED
#undef KILLED
#undef EXITED
}

#define GRAPH_ERROR                                                                                \
    "Traceback (most recent call last):\n  File \"/tmp/stop4.py\", line 11, in <module>\n    "     \
    "f()\n"                                                                                        \
    "tensorflow.python.framework.errors_impl.AbortedError: Graph execution error:\n\n"             \
    "Detected at node g1 defined at (most recent call last):\n"                                    \
    "  File \"/tmp/stop4.py\", line 8, in <module>\n\n"
#define OF_STALL                                                                                   \
    "Horovod has been shut down. Tensor g0 is stalled for longer than 8 seconds (X): it waits "    \
    "for "                                                                                         \
    "rank 1 on host w (tensor g1)"
#define OF_NODE "\n\t [[{{node g1}}]] [Op:__inference_f_22]\n"

/* mpirun wakes the rank to stop it, and the rank gets the library's message, or one that another
 * rank is lost. */
static void an_error_that_follows_from_the_end_of_the_job_is_no_exception_of_a_rank(void **state)
{
    static const char *const woken[] = {
        GRAPH_ERROR OF_STALL OF_NODE,
        GRAPH_ERROR "2 root error(s) found.\n  (0) ABORTED:  " OF_STALL OF_NODE,
        GRAPH_ERROR "Horovod has been shut down. Rank 0 on host h is lost: rank 0: its process "
                    "ended during the job (tensor g1)" OF_NODE,
    };
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(woken) / sizeof(woken[0]); i++) {
        const struct hvd_report seen = wrote(0, "", GRAPH_ERROR OF_STALL OF_NODE);
        struct hvd_report stopped = wrote(1, "", woken[i]);

        stopped.was_stopped = true;
        for (size_t first = 0; first < 2; first++) {
            const struct hvd_report both[] = {first ? stopped : seen, first ? seen : stopped};

            conclude(both, 2, line, log);
            assert_string_equal(line, "rank 1 on host w kept other ranks waiting: Tensor g0 is "
                                      "stalled for longer than 8 seconds (X): it waits for rank 1 "
                                      "on host w");
        }
    }
}

/* Its text does not name the library's message, but its library does. */
static void an_exception_after_the_librarys_message_is_none_of_a_stopped_rank(void **state)
{
    static const char failed[] = "Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                                 "RuntimeError: training failed\n";
    const struct hvd_report seen = wrote(0, "", GRAPH_ERROR OF_STALL OF_NODE);
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_report both[] = {seen, wrote(1, "", failed)};

        both[1].was_stopped = true;
        if (i == 0)
            hvd_report_take_cause(&both[1], OF_STALL);
        conclude(both, 2, line, log);
        assert_non_null(strstr(line, i == 0 ? "rank 1 on host w kept other ranks waiting"
                                            : "failed: RuntimeError: training failed"));
    }
}

/* Open MPI 5 carries no report of a rank that it stops. */
static void the_message_of_a_rank_without_a_report_is_read_in_what_passed(void **state)
{
    static const char woken[] =
        "[1]<stderr>:Traceback (most recent call last):\n"
        "[1]<stderr>:  File \"/tmp/stop4.py\", line 11, in <module>\n"
        "[1]<stderr>:AbortedError: Graph execution error:\n[1]<stderr>:\n"
        "[1]<stderr>:Detected at node g1 defined at (most recent call last):\n"
        "[1]<stderr>:  File \"/tmp/stop4.py\", line 8, in <module>\n[1]<stderr>:\n"
        "[1]<stderr>:" OF_STALL "\n[1]<stderr>:\t [[{{node g1}}]] [Op:__inference_f_22]\n";
    const struct hvd_report seen = wrote(0, "", GRAPH_ERROR OF_STALL OF_NODE);
    const struct hvd_hosts none = {0};
    struct hvd_report_stream stream;
    struct hvd_buf pass;
    char line[HVD_REPORT_MAX];

    (void)state;
    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(&pass, 10000);
    assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(woken), &pass), HVD_OK);
    feed_report(&stream, &seen);
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    hvd_describe_report(hvd_report_stream_failure(&stream), &none, line, sizeof(line));
    assert_non_null(
        strstr(line, "rank 1 on host w kept other ranks waiting: Tensor g0 is stalled"));
    hvd_buf_fini(&pass);
    hvd_report_stream_fini(&stream);
}

static void the_reason_of_a_message_follows_its_heading(void **state)
{
    const struct hvd_report report = wrote(1, "", GRAPH_ERROR "no memory" OF_NODE);
    char heading[HVD_REPORT_LINE_MAX + 200], line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    conclude(&report, 1, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: tensorflow.python.framework."
                              "errors_impl.AbortedError: Graph execution error: no memory");
    for (size_t over = 0; over < 4; over++) { /* a heading that fills the space, or nearly */
        (void)snprintf(heading, sizeof(heading),
                       "Traceback (most recent call last):\n%*s:\nreason\n",
                       HVD_REPORT_LINE_MAX - 3 + (int)over, "x");
        memset(strchr(heading, '\n') + 1, 'x', HVD_REPORT_LINE_MAX - 4);
        assert_true(strlen(wrote(1, "", heading).line) <= HVD_REPORT_LINE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_library_told_a_rank_goes_before_what_that_one_wrote),
        cmocka_unit_test(what_a_rank_does_after_it_was_lost_in_silence_is_no_cause),
        cmocka_unit_test(a_rank_that_crashed_before_it_was_lost_in_silence_is_named),
        cmocka_unit_test(a_rank_that_failed_by_itself_goes_before_what_others_were_told),
        cmocka_unit_test(a_crash_has_the_last_words_of_the_program_and_not_those_of_the_handler),
        cmocka_unit_test(a_notice_is_the_last_output_only_where_there_is_no_other),
        cmocka_unit_test(an_error_that_follows_from_the_end_of_the_job_is_no_exception_of_a_rank),
        cmocka_unit_test(an_exception_after_the_librarys_message_is_none_of_a_stopped_rank),
        cmocka_unit_test(the_message_of_a_rank_without_a_report_is_read_in_what_passed),
        cmocka_unit_test(the_reason_of_a_message_follows_its_heading),
        cmocka_unit_test(a_traceback_of_a_rank_that_succeeded_is_not_why_others_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
