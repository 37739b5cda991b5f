#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/cause.h"

#define RULER "--------------------------------------------------------------------------\n"
#define TRACEBACK                                                                                  \
    "Traceback (most recent call last):\n"                                                         \
    "  File \"train.py\", line 9, in <module>\n"                                                   \
    "    rate = config['learning_rate']\n"                                                         \
    "           ~~~~~~^^^^^^^^^^^^^^^^^\n"

static void is_line(const char *text, const char *expected)
{
    struct hvd_strview line = hvd_cause_line(hvd_strview_of(text));

    if (!hvd_strview_equal(line, expected))
        fail_msg("\"%.*s\" is not \"%s\"", (int)line.len, line.len ? line.data : "", expected);
}

static void the_cause_of_a_python_program_is_the_exception_behind_the_last_traceback(void **state)
{
    (void)state;
    is_line("epoch 1\n" TRACEBACK "KeyError: 'learning_rate'\n", "KeyError: 'learning_rate'");
    is_line(TRACEBACK "KeyError: 'a'\n\nDuring handling of the above exception, another exception "
                      "occurred:\n\n" TRACEBACK "ValueError: b\n",
            "ValueError: b");
    is_line(TRACEBACK "RuntimeError: CUDA error: out of memory\nFor debugging consider passing "
                      "CUDA_LAUNCH_BLOCKING=1\n\n",
            "RuntimeError: CUDA error: out of memory");
}

static void an_exception_that_came_from_another_process_is_named_as_it_was_there(void **state)
{
    (void)state;
    is_line(TRACEBACK "ValueError: Caught ValueError in DataLoader worker process 0.\n"
                      "Original " TRACEBACK "ValueError: bad sample\n\n",
            "ValueError: bad sample");
    is_line("multiprocessing.pool.RemoteTraceback: \n\"\"\"\n" TRACEBACK
            "ValueError: bad sample\n\"\"\"\n\nThe above exception was the direct cause of the "
            "following exception:\n\n" TRACEBACK "ValueError: bad sample\n",
            "ValueError: bad sample");
}

static void an_exception_group_is_named_by_its_own_line(void **state)
{
    static const char group[] = "  + Exception Group Traceback (most recent call last):\n"
                                "  |   File \"train.py\", line 1, in <module>\n"
                                "  |     raise ExceptionGroup('two of them', all)\n"
                                "  | ExceptionGroup: two of them (2 sub-exceptions)\n"
                                "  +-+---------------- 1 ----------------\n"
                                "    | Traceback (most recent call last):\n"
                                "    |   File \"train.py\", line 3, in f\n"
                                "    | ValueError: first\n"
                                "    +---------------- 2 ----------------\n"
                                "    | Exception Group Traceback (most recent call last):\n"
                                "    |   File \"train.py\", line 3, in g\n"
                                "    | ExceptionGroup: inner (1 sub-exception)\n"
                                "    +-+---------------- 1 ----------------\n"
                                "      | KeyError: 'second'\n"
                                "      +------------------------------------\n";
    char text[4096];

    (void)state;
    is_line(group, "ExceptionGroup: two of them (2 sub-exceptions)");
    snprintf(text, sizeof(text), TRACEBACK "KeyError: 'a'\n\nDuring handling:\n\n%smore\n", group);
    is_line(text, "ExceptionGroup: two of them (2 sub-exceptions)");
    snprintf(text, sizeof(text), "%s\nDuring handling:\n\n" TRACEBACK "KeyError: 'b'\n", group);
    is_line(text, "KeyError: 'b'");
    is_line("[rank1]:   + Exception Group Traceback (most recent call last):\n"
            "[rank1]:   |   File \"train.py\", line 1\n"
            "[rank1]:   | mine.Group: g (1 sub-exception)\n"
            "[rank1]:   +-+---------------- 1 ----------------\n"
            "[rank1]:     | ValueError: x\n",
            "mine.Group: g (1 sub-exception)");
}

static void what_python_ignored_at_its_end_is_not_what_ended_it(void **state)
{
    (void)state;
    is_line(TRACEBACK "KeyError: 'a'\nException ignored in: <function f at 0x1>\n" TRACEBACK
                      "TypeError: late\n",
            "KeyError: 'a'");
    is_line("Exception ignored in: <function f at 0x1>\n" TRACEBACK "TypeError: early\n" TRACEBACK
            "KeyError: 'a'\n",
            "KeyError: 'a'");
}

static void what_follows_the_line_of_an_exception_does_not_hide_it(void **state)
{
    (void)state;
    is_line(TRACEBACK "ValueError: one\ntwo\n  three\nfour\n", "ValueError: one");
    is_line(TRACEBACK "ValueError: one\na note\nanother\n", "ValueError: one");
    is_line(TRACEBACK
            "RuntimeError: shape mismatch\nException raised from f at x.cpp:1 (most recent "
            "call first):\nframe #0: c10::Error::Error() + 0x1 (0x2 in libc10.so)\n"
            "frame #1: main + 0x1 (0x2 in python)\n\n",
            "RuntimeError: shape mismatch");
    is_line(TRACEBACK
            "  File \"x.py\", line 1\n    f(\n     ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed");
    is_line("  File \"x.py\", line 1\n    f(\n     ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed");
    is_line(TRACEBACK "KeyboardInterrupt\n", "KeyboardInterrupt");
}

static void frames_of_a_stack_are_no_cause(void **state)
{
    (void)state;
    is_line("terminate called after throwing an instance of 'c10::Error'\n  what():  no memory\n"
            "Exception raised from f at x.cpp:1 (most recent call first):\n"
            "C++ CapturedTraceback:\n#4 c10::f() from x.cpp:0\n#5 main from ??:0\n"
            "frame #0: c10::Error::Error() + 0x1 (0x2 in libc10.so)\n\n",
            "what():  no memory");
    is_line("[rank1]: frame #0: f + 0x1\n", "[rank1]: frame #0: f + 0x1");
    is_line(
        "Timeout (0:00:15)!\nThread 0x1 (most recent call first):\n  File \"x.py\", line 1 in f\n"
        "  File \"x.py\", line 9 in <module>\n\nExtension modules: numpy (total: 1)\n",
        "Timeout (0:00:15)!");
    assert_true(hvd_cause_is_frame(hvd_strview_of("frame #12: f + 0x1 (0x2 in libc10.so)")));
    assert_true(hvd_cause_is_frame(hvd_strview_of("[rank1]: frame #12: f")));
    assert_true(hvd_cause_is_frame(hvd_strview_of("#3 0x1 in main x.c:1")));
    assert_true(hvd_cause_is_frame(hvd_strview_of("[h:12] [ 0] /lib/libc.so(+0x1)[0x2]")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("frame #x")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("frame #")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("#3 of 7 done")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("[rank1]: ")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("[1] [")));
    assert_false(hvd_cause_is_frame(hvd_strview_of("")));
}

static void a_prefix_of_each_line_does_not_hide_a_traceback(void **state)
{
    (void)state;
    is_line("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x.py\", line 1\n"
            "[rank1]:     f()\n[rank1]: TypeError: c\n[rank1]: more\n",
            "TypeError: c");
    is_line("[1]<stderr>:Traceback (most recent call last):\n[1]<stderr>:  File \"x.py\", line 1\n"
            "[1]<stderr>:ValueError: d\n" RULER
            "Primary job  terminated normally, but 1 process returned\n",
            "ValueError: d");
}

static void what_stood_on_the_line_before_a_traceback_is_no_prefix_of_the_others(void **state)
{
    (void)state;
    is_line("epoch 3:  50%|#####     | 500/1000" TRACEBACK "ValueError: bad batch\n",
            "ValueError: bad batch");
    is_line("5%" TRACEBACK "ValueError: bad batch\nmore\n", "ValueError: bad batch");
    is_line("50%|###  |   + Exception Group Traceback (most recent call last):\n"
            "  |   File \"train.py\", line 1, in <module>\n"
            "  |     raise ExceptionGroup('two of them', all)\n"
            "  | ExceptionGroup: two of them (2 sub-exceptions)\n"
            "  +-+---------------- 1 ----------------\n"
            "    | ValueError: first\n"
            "    +------------------------------------\n",
            "ExceptionGroup: two of them (2 sub-exceptions)");
}

static void an_mpi_init_that_failed_is_not_said_to_have_completed(void **state)
{
#define EARLY                                                                                      \
    "*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n"                       \
    "*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"                   \
    "***    and potentially your MPI job)\n"
    (void)state;
    is_line(EARLY "[vm:9609] Local abort before MPI_INIT completed completed successfully, but am "
                  "not able to aggregate error messages, and not able to guarantee that all other "
                  "processes were killed!\n",
            "*** An error occurred in MPI_Init_thread");
    is_line("no such device\n" EARLY, "*** An error occurred in MPI_Init_thread");
#undef EARLY
}

static void a_traceback_without_its_end_names_no_frame(void **state)
{
    (void)state;
    is_line("loading\nTraceback (most recent call last):\n  File \"x.py\", line 1\n", "loading");
    is_line("Traceback (most recent call last):", "");
}

static void a_crash_is_named_by_what_stands_before_its_stack(void **state)
{
    (void)state;
    is_line("bad state\n[h:12] *** Process received signal ***\n[h:12] Signal: Segmentation fault "
            "(11)\n[h:12] Signal code:  (-6)\n[h:12] Failing at address: 0x1\n"
            "[h:12] [ 0] /lib/libc.so(+0x1)[0x2]\n[h:12] [10] prog(+0x1)\n"
            "[h:12] *** End of error message ***\n",
            "bad state");
    is_line("[h:12] *** An error occurred in MPI_Allreduce\n[h:12] *** reported by process [1,1]\n"
            "[h:12] *** on communicator MPI_COMM_WORLD\n[h:12] *** MPI_ERR_TRUNCATE: message "
            "truncated\n[h:12] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now "
            "abort,\n[h:12] ***    and potentially your MPI job)\n",
            "[h:12] *** MPI_ERR_TRUNCATE: message truncated");
    is_line("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call "
            "first):\n  File \"x.py\", line 1 in f\n\nExtension modules: numpy (total: 1)\n",
            "Fatal Python error: Segmentation fault");
    is_line("terminate called after throwing an instance of 'std::runtime_error'\n  what():  x\n",
            "what():  x");
}

static void the_stack_of_a_crash_is_no_word_of_the_program(void **state)
{
    static const char stack[] =
        "[h:12] *** Process received signal ***\n[h:12] Signal: Bus error (7)\n"
        "[h:12] Associated errno: Unknown error 3 (3)\n[h:12] Signal code: User function (0)\n"
        "[h:12] Sending PID: 7, Sending UID: 0, Status: 0\n[h:12] Band event: 1, File Descriptor "
        ": 2\n[h:12] Failing at address: 0x1\n[h:12] [ 0] /lib/libc.so(+0x1)[0x2]\n"
        "[h:12] *** End of error message ***\n";
    char text[1024];

    (void)state;
    assert_false(hvd_cause_is_told(hvd_strview_of("")));
    assert_false(hvd_cause_is_told(hvd_strview_of(stack)));
    assert_false(hvd_cause_is_told(hvd_strview_of(RULER "Process name: [[14440,1],1]\n")));
    assert_true(hvd_cause_is_told(hvd_strview_of("bad state\n")));
    (void)snprintf(text, sizeof(text), "bad state\n%s", stack);
    assert_true(hvd_cause_is_told(hvd_strview_of(text)));
    is_line(text, "bad state");
}

static void the_banners_of_mpirun_are_no_cause(void **state)
{
    (void)state;
    is_line("no data in /data\n" RULER "Primary job  terminated normally, but 1 process returned\n"
            "a non-zero exit code. Per user-direction, the job has been aborted.\n" RULER RULER
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
            "the job to be terminated. The first process to do so was:\n\n"
            "  Process name: [[14440,1],1]\n  Exit code:    1\n" RULER,
            "no data in /data");
    is_line("no data\n" RULER
            "prterun detected that one or more processes exited with non-zero status,\n"
            "thus causing the job to be terminated. The first process to do so was:\n\n"
            "   Process name: [prterun-h-1@1,1]\n   Exit code:    1\n" RULER,
            "no data");
    is_line("no data\n" RULER "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
            "with errorcode 3.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI "
            "processes.\nYou may or may not see output from other processes, depending on\n"
            "exactly when Open MPI kills them.\n" RULER,
            "no data");
    is_line(RULER "mpirun noticed that process rank 3 with PID 0 on node w exited on signal 9.\n",
            "mpirun noticed that process rank 3 with PID 0 on node w exited on signal 9.");
}

#define STARTED                                                                                    \
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"     \
    "I0000 00:00:1795740136.158072    7191 port.cc:153] oneDNN custom operations are on. You may " \
    "see slightly different numerical results. To turn them off, set the environment variable "    \
    "`TF_ENABLE_ONEDNN_OPTS=0`.\n"                                                                 \
    "I0000 00:00:1795740118.727809    6905 cpu_feature_guard.cc:227] This TensorFlow binary is "   \
    "optimized to use available CPU instructions in performance-critical operations.\n"            \
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow "     \
    "with the appropriate compiler flags.\n"
#define WARNED                                                                                     \
    "/lib/keras/src/trainers/epoch_iterator.py:74: UserWarning: `shuffle=True` was passed, but "   \
    "will be ignored.\n  self.data_adapter = data_adapters.get_data_adapter(\n"

static void a_notice_is_no_cause(void **state)
{
    static const char *const notices[] = {
        "I0000 00:00:1795740146.965337    7192 generator_dataset_op.cc:213] Memory patch applied.",
        "W0000 00:00:1795740129.626665    7094 op_kernel.cc:1845] UNKNOWN: KeyError: 'bad record'",
        "W1126 12:00:00.123456 12345 file.cc:12] slow",
        "I20261126 12:00:00.123456 12345 file.cc:12] fast",
        "2026-11-27 00:51:23.385065: I tensorflow/core/util/port.cc:113] oneDNN operations are on.",
        "2026-11-27 00:51:23.385065: W tensorflow/core/framework/op_kernel.cc:1827] UNKNOWN: x",
        "WARNING:root:Limited tf.summary API due to missing TensorBoard installation.",
        "train.py:74: tensorflow.SomeWarning: x",
        "time=2026-11-27T00:50:15.809Z level=warn subsystem=engine msg=\"slow\"",
    };
    static const char *const others[] = {
        "E0000 00:00:1795740146.965337    7192 x.cc:213] no memory",
        "F1126 12:00:00.123456 12345 file.cc:12] Check failed: x",
        "2026-11-27 00:51:23.385065: E tensorflow/core/x.cc:1] no device",
        "2026-11-27 00:51:23.385065: F tensorflow/core/x.cc:1] no device",
        "2026-11-27 00:51:23.385065: In short, no device",
        "time=2026-11-27T00:50:15.809Z level=error subsystem=engine msg=\"lost\"",
        "I0000 is no number of a record] 1",
        "W0000 00",
        "I",
        "UserWarning: x",
        "at 7: UserWarning: x",
        "no Warning: 3",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(notices) / sizeof(notices[0]); i++) {
        if (!hvd_cause_is_notice(hvd_strview_of(notices[i])))
            fail_msg("no notice: %s", notices[i]);
        assert_false(hvd_cause_is_own(hvd_strview_of(notices[i])));
        is_line(notices[i], notices[i]);
        assert_false(hvd_cause_is_told(hvd_strview_of(notices[i])));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (hvd_cause_is_notice(hvd_strview_of(others[i])))
            fail_msg("a notice: %s", others[i]);
        assert_true(hvd_cause_is_told(hvd_strview_of(others[i])));
    }
    is_line("no data\n" STARTED WARNED, "no data");
    is_line(STARTED WARNED "no data\n" STARTED, "no data");
    is_line(WARNED "  indented\n", "indented");
    assert_false(hvd_cause_is_told(hvd_strview_of(STARTED WARNED)));
    is_line("[vm:1] *** End of error message ***\n", "[vm:1] *** End of error message ***");
}

static void text_without_a_word_has_no_cause(void **state)
{
    (void)state;
    is_line("", "");
    is_line("\n \n\t\n", "");
    is_line(RULER, "");
    is_line("-x-", "-x-");
}

/* Texts of TensorFlow 2.21 and 2.15 and of Keras, shortened. */
#define GRAPH                                                                                      \
    TRACEBACK "tensorflow.python.framework.errors_impl.AbortedError: Graph execution error:\n\n"
#define PLACE                                                                                      \
    "Detected at node g1 defined at (most recent call last):\n"                                    \
    "  File \"/tmp/stop4.py\", line 8, in <module>\n\n"                                            \
    "  File \"<string>\", line 112, in horovod_allreduce\n\n"
#define STALLED                                                                                    \
    "Horovod has been shut down. Tensor g0 is stalled for longer than 8 seconds (X): it waits "    \
    "for "                                                                                         \
    "rank 1 on host vm (tensor g1)"
#define NODE "\n\t [[{{node g1}}]] [Op:__inference_f_22]\n"
#define UNPLACED                                                                                   \
    "Detected at node PyFunc defined at (most recent call last):\n<stack traces unavailable>\n"
#define USER                                                                                       \
    "in user code:\n\n    File \"/lib/keras/training.py\", line 1401, in train_function  *\n"      \
    "        return step_function(self, iterator)\n"
static const struct {
    const char *text, *reason;
} headed[] = {
    {GRAPH PLACE STALLED NODE, STALLED},
    {GRAPH PLACE PLACE "2 root error(s) found.\n  (0) ABORTED:  " STALLED "\n\t [[{{node g1}}]]\n"
                       "\t [[g1/_6]]\n  (1) ABORTED:  other" NODE "0 successful operations.\n",
     STALLED},
    {GRAPH PLACE "2 root error(s) found.\n  (0) CANCELLED:  Function was cancelled before it "
                 "was started\n  (1) INVALID_ARGUMENT:  indices[0] = 77 is not in [0, 3)" NODE,
     "indices[0] = 77 is not in [0, 3)"},
    {GRAPH UNPLACED "assertion failed: [pixel too bright]" NODE,
     "assertion failed: [pixel too bright]"},
    {GRAPH "Detected at node 'Reshape' defined at (most recent call last):\n"
           "    File \"v1.py\", line 5, in <module>\nNode: 'Reshape'\nInput to reshape is a "
           "tensor with 1 values" NODE "\nOriginal stack trace for 'Reshape':\n",
     "Input to reshape is a tensor with 1 values"},
    {GRAPH PLACE "it is\nbad : Tensor had Inf values" NODE, "it is"},
    {TRACEBACK "ValueError: " USER "\n    ValueError: Shape must be rank 2\n\n",
     "ValueError: Shape must be rank 2"},
    {TRACEBACK "ValueError: " USER
               "\n    ValueError: Exception encountered when calling layer 'l' (type L).\n    \n"
               "    in user code:\n    \n        File \"c.py\", line 38, in call  *\n"
               "            return tf.matmul(x, y)\n    \n        ValueError: Dimensions must be "
               "equal\n    \n    Call arguments received by layer 'l' (type L):\n      • x=1\n",
     "ValueError: Dimensions must be equal"},
    {TRACEBACK "ValueError: Exception encountered when calling Sequential.call().\n\nInput 0 is "
               "incompatible\n\nArguments received by Sequential.call():\n  • inputs=1\n",
     "Input 0 is incompatible"},
    {"[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x.py\", line 1\n"
     "[rank1]: AbortedError: Graph execution error:\n[rank0]: other\n[rank1]: \n[rank1]: its "
     "own\n",
     "its own"},
    {GRAPH STARTED "no memory" NODE, "no memory"},
    {GRAPH NODE "later\n", ""},
    {GRAPH RULER "later\n", ""},
    {GRAPH PLACE, ""},
    {TRACEBACK "ValueError: one\ntwo\n", ""},
    {"ValueError:\ntwo\n", ""},
    {GRAPH "(1) (2) (x): y\n", "(1) (2) (x): y"},
    {GRAPH "(", "("},
    {"", ""},
};

static void the_reason_stands_behind_the_heading_of_a_message(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(headed) / sizeof(headed[0]); i++) {
        const struct hvd_strview reason = hvd_cause_reason(hvd_strview_of(headed[i].text));

        if (!hvd_strview_equal(reason, headed[i].reason))
            fail_msg("%zu: \"%.*s\" is not \"%s\"", i, (int)reason.len,
                     reason.len ? reason.data : "", headed[i].reason);
    }
    /* An exception within the message: of a generator of tf.data. */
    is_line(GRAPH UNPLACED "KeyError: 'bad record'\n" TRACEBACK "\nKeyError: 'bad record'\n\n" NODE,
            "KeyError: 'bad record'");
    /* Its head is lost, because its place is long. */
    is_line("  File \"<string>\", line 112, in horovod_allreduce\n\n" STALLED NODE, STALLED);
}

static void a_shutdown_that_another_rank_caused_blames_it(void **state)
{
    static const struct {
        const char *line;
        int64_t rank;
    } cases[] = {
        {"HorovodInternalError: Horovod has been shut down. Rank 12 on host w-1 called "
         "horovod_shutdown. (tensor t)",
         12},
        {"Horovod has been shut down. Rank 0 on host w-1 is lost: its process ended", 0},
        {"Horovod has been shut down. Rank 3 failed: out of memory", 3},
        {"Horovod has been shut down. Tensor t is stalled for longer than 60 seconds "
         "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for rank 1 on host w-1",
         -1},
        {"Horovod has been shut down. Rank x is lost: y", -1},
        {"Horovod has been shut down. Rank 99999999999 is lost: y", -1},
        {"Horovod has been shut down. Rank", -1},
        {"KeyError: 'Rank 1 is lost: '", -1},
        {"time=1 level=error subsystem=api msg=\"horovod_init failed: Rank 2 on host w is lost: "
         "x\"",
         2},
        {"horovod_init failed: Rank 2 on host w failed: HOROVOD_X is no number", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(hvd_cause_blamed(hvd_strview_of(cases[i].line)), cases[i].rank);
}

static void a_rank_that_a_stalled_tensor_waited_for_is_told_with_its_host(void **state)
{
    static const char why[] = "Tensor t is stalled for longer than 4 seconds (X)";
    static const char all[] =
        "Tensor t is stalled for longer than 4 seconds (X): it waits for rank ";
    static const struct {
        const char *line, *host;
        int64_t rank;
        const char *ranks; /* NULL: one, and why does not repeat it */
    } cases[] = {
        {"ERR Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it "
         "waits for rank 12 on host w-1, rank 3 on host w and 2 more (tensor t)",
         "w-1", 12, "12 on host w-1, rank 3 on host w and 2 more"},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank 2 on host w and rank 3 on host w (tensor t)",
         "w", 2, "2 on host w and rank 3 on host w"},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank 2 and rank 3",
         "", 2, "2 and rank 3"},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank 1 on host w",
         "w", 1, NULL},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank 1 on host w (tensor t)",
         "w", 1, NULL},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank 1, rank 2",
         "", 1, "1, rank 2"},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X): it waits "
         "for rank x",
         NULL, -1, NULL},
        {"Horovod has been shut down. Tensor t is stalled for longer than 4 seconds (X)", NULL, -1,
         NULL},
        {": it waits for rank 1 Horovod has been shut down. Tensor t is stalled for longer than 4",
         NULL, -1, NULL},
        {"Tensor t is stalled for longer than 4 seconds (X): it waits for rank 1", NULL, -1, NULL},
        {"", NULL, -1, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_strview host;
        int64_t rank = -1;
        const struct hvd_strview found =
            hvd_cause_awaited(hvd_strview_of(cases[i].line), &rank, &host);

        assert_int_equal(found.len > 0, cases[i].host != NULL);
        assert_int_equal(rank, cases[i].rank);
        if (!cases[i].host)
            continue;
        char want[160];
        if (cases[i].ranks)
            snprintf(want, sizeof(want), "%s%s", all, cases[i].ranks);
        else
            snprintf(want, sizeof(want), "%s", why);
        assert_true(hvd_strview_equal(found, want));
        assert_true(hvd_strview_equal(host, cases[i].host));
    }
}

static void a_rank_that_left_is_told_with_host_and_tensor_where_they_stand(void **state)
{
    static const struct {
        const char *line, *host, *tensor;
    } cases[] = {
        {"x: Horovod has been shut down. Rank 2 on host w called horovod_shutdown. (tensor a (b))",
         "w", "a (b)"},
        {"Horovod has been shut down. Rank 2 called horovod_shutdown.", "", ""},
        {"Horovod has been shut down. Rank 2 called horovod_shutdown. (tensor", "", ""},
        {"Horovod has been shut down. Rank 2 on host w is lost: x", NULL, NULL},
        {"Rank 2 on host w called horovod_shutdown.", NULL, NULL},
        {"", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_strview host, tensor;
        const bool has = hvd_cause_left(hvd_strview_of(cases[i].line), &host, &tensor);

        assert_int_equal(has, cases[i].host != NULL);
        if (!has)
            continue;
        assert_true(hvd_strview_equal(host, cases[i].host));
        assert_true(hvd_strview_equal(tensor, cases[i].tensor));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_a_stalled_tensor_waited_for_is_told_with_its_host),
        cmocka_unit_test(a_rank_that_left_is_told_with_host_and_tensor_where_they_stand),
        cmocka_unit_test(the_cause_of_a_python_program_is_the_exception_behind_the_last_traceback),
        cmocka_unit_test(an_exception_that_came_from_another_process_is_named_as_it_was_there),
        cmocka_unit_test(an_exception_group_is_named_by_its_own_line),
        cmocka_unit_test(what_python_ignored_at_its_end_is_not_what_ended_it),
        cmocka_unit_test(what_follows_the_line_of_an_exception_does_not_hide_it),
        cmocka_unit_test(frames_of_a_stack_are_no_cause),
        cmocka_unit_test(a_prefix_of_each_line_does_not_hide_a_traceback),
        cmocka_unit_test(what_stood_on_the_line_before_a_traceback_is_no_prefix_of_the_others),
        cmocka_unit_test(an_mpi_init_that_failed_is_not_said_to_have_completed),
        cmocka_unit_test(a_traceback_without_its_end_names_no_frame),
        cmocka_unit_test(a_crash_is_named_by_what_stands_before_its_stack),
        cmocka_unit_test(the_stack_of_a_crash_is_no_word_of_the_program),
        cmocka_unit_test(the_banners_of_mpirun_are_no_cause),
        cmocka_unit_test(a_notice_is_no_cause),
        cmocka_unit_test(the_reason_stands_behind_the_heading_of_a_message),
        cmocka_unit_test(text_without_a_word_has_no_cause),
        cmocka_unit_test(a_shutdown_that_another_rank_caused_blames_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
