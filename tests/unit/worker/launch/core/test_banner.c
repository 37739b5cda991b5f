#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/launch/core/banner.h"

#define RULER "--------------------------------------------------------------------------\n"
#define NOTICED                                                                                    \
    "mpirun noticed that process rank 1 with PID 7 on node w exited on signal 9 (Killed).\n"

static int64_t mpirun; /* which process it is */

/* What passes of the text at once, and *held what is kept of banners. */
static void filter_text(const char *text, struct hvd_buf *pass, struct hvd_buf *held)
{
    struct hvd_banner_filter *filter = calloc(1, sizeof(*filter));

    filter->mpirun = mpirun;
    hvd_buf_init(pass, 1 << 20);
    hvd_buf_init(held, 1 << 20);
    for (const char *c = text; *c; c++)
        assert_int_equal(hvd_banner_feed(filter, *c, pass), HVD_OK);
    assert_int_equal(hvd_banner_idle(filter, pass), HVD_OK);
    assert_false(hvd_banner_is_holding(filter));
    assert_int_equal(hvd_banner_take(filter, held), HVD_OK);
    free(filter);
}

static void expect(const char *text, const char *pass_want, const char *held_want)
{
    struct hvd_buf pass, held;

    filter_text(text, &pass, &held);
    assert_string_equal(pass.len ? pass.data : "", pass_want);
    assert_string_equal(held.len ? held.data : "", held_want);
    hvd_buf_fini(&pass);
    hvd_buf_fini(&held);
}

static void banners_are_held_back_between_their_rulers(void **state)
{
    (void)state;
    expect("one\n" RULER NOTICED RULER "two\n", "one\ntwo\n", RULER NOTICED RULER);
    expect(RULER NOTICED RULER RULER NOTICED "more\n\n" RULER, "",
           RULER NOTICED RULER RULER NOTICED "more\n\n" RULER);
    expect(RULER NOTICED "its end is missing", "", RULER NOTICED "its end is missing");
}

#define BROKEN                                                                                     \
    "[hvd-east:00000] *** An error occurred in Socket closed\n"                                    \
    "[hvd-east:00000] *** reported by process [711065601,0]\n"                                     \
    "[hvd-east:00000] *** on a NULL communicator\n"                                                \
    "[hvd-east:00000] *** Unknown error\n"                                                         \
    "[hvd-east:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"  \
    "[hvd-east:00000] ***    and MPI will try to terminate your MPI job as well)\n"
#define FAILED                                                                                     \
    "[hvd-east:12663] PMIX ERROR: PMIX_ERR_NOT_FOUND in file pmix_server.c at line 1747\n"

static void an_error_of_pmix_may_stand_within_any_other_text(void **state)
{
    static const char broken[] = BROKEN;
    const char *rest = strchr(broken, '\n') + 1;
    char text[2048];

    (void)state;
    expect("one\n" RULER FAILED NOTICED RULER "two\n", "one\ntwo\n", RULER FAILED NOTICED RULER);
    expect(RULER FAILED FAILED NOTICED FAILED RULER, "", RULER FAILED FAILED NOTICED FAILED RULER);
    assert_in_range(
        snprintf(text, sizeof(text), "%.*s" FAILED "%s", (int)(rest - broken), broken, rest), 1,
        sizeof(text) - 1);
    expect(text, "", text);
    expect(RULER FAILED "not of mpirun\n", RULER FAILED "not of mpirun\n", "");
    expect(RULER "[hvd-east:1] mine\n" RULER, RULER "[hvd-east:1] mine\n" RULER, "");
}

static void what_open_mpi_5_writes_of_a_broken_connection_is_held_back(void **state)
{
    (void)state;
    expect("one\n" BROKEN "two\n" FAILED "three\n", "one\ntwo\nthree\n", BROKEN FAILED);
    expect(BROKEN RULER NOTICED RULER FAILED, "", BROKEN RULER NOTICED RULER FAILED);
    expect("[east:00000] *** An error occurred in Socket closed\n[0]<stderr>:on it goes\n",
           "[east:00000] *** An error occurred in Socket closed\n[0]<stderr>:on it goes\n", "");
}

static void that_the_launchers_own_signal_is_passed_on_is_left_out(void **state)
{
    (void)state;
    expect("one\nmpirun: Forwarding signal 14 to job\ntwo\n", "one\ntwo\n", "");
    expect("mpirun: Forwarding signal 10 to job\n", "mpirun: Forwarding signal 10 to job\n", "");
}

#define STACK                                                                                      \
    "[hvd-east:00640] *** Process received signal ***\n"                                           \
    "[hvd-east:00640] Signal: Segmentation fault (11)\n"                                           \
    "[hvd-east:00640] [ 0] /lib/libpmix.so.2(PMIx_Finalize+0x703)[0x7f4179850e83]\n"               \
    "[hvd-east:00640] *** End of error message ***\n"

static void the_stack_of_mpirun_itself_is_held_back_and_no_other(void **state)
{
    (void)state;
    mpirun = 640;
    expect("one\n" STACK "two\n" FAILED, "one\ntwo\n", STACK FAILED);
    expect(STACK RULER NOTICED RULER, "", STACK RULER NOTICED RULER);
    expect("[hvd-east:00640] *** Process received", "[hvd-east:00640] *** Process received", "");
    expect("[hvd-east:00640] *** Process received signal ***\nits end is missing", "",
           "[hvd-east:00640] *** Process received signal ***\nits end is missing");
    mpirun = 6400;
    expect(STACK, STACK, "");
    mpirun = 0;
    expect(STACK, STACK, "");
}

static void what_mpirun_writes_when_the_launcher_stops_it_again_is_left_out(void **state)
{
#define AGAIN "in progress...hit ctrl-c again to forcibly terminate\n\n"
    (void)state;
    expect("one\nmpirun: abort is already " AGAIN "two\n", "one\ntwo\n", "");
    expect("prterun: abort is already " AGAIN "Abort is " AGAIN, "", "");
    expect("mpirun: abort is late\n", "mpirun: abort is late\n", "");
}

static void a_programs_own_lines_pass_as_they_are(void **state)
{
    static const char *const texts[] = {
        RULER,
        RULER "epoch 1\n" RULER,
        "---\n" NOTICED,
        RULER "mpirun",
        "-",
        "\n\n--x\n",
        NOTICED,
        "[0]<stderr>:" BROKEN,
        "[hvd-west:00640] *** Process received signal ***\n",
        "[hvd-east:00000] *** An error occurred in MPI_Send\n",
        "[1, 2, 3]\n[a] b\n[",
        "mpirun: Forward\nm",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect(texts[i], texts[i], "");
}

static void what_comes_after_a_silence_is_in_order(void **state)
{
    struct hvd_banner_filter *filter = calloc(1, sizeof(*filter));
    struct hvd_buf pass;

    (void)state;
    hvd_buf_init(&pass, 1000);
    for (const char *c = "--"; *c; c++)
        assert_int_equal(hvd_banner_feed(filter, *c, &pass), HVD_OK);
    assert_true(hvd_banner_is_holding(filter));
    assert_int_equal(hvd_banner_idle(filter, &pass), HVD_OK);
    assert_int_equal(hvd_banner_feed(filter, '>', &pass), HVD_OK);
    assert_string_equal(pass.data, "-->");
    hvd_buf_fini(&pass);
    free(filter);
}

static void more_than_is_kept_passes(void **state)
{
    char *text = malloc(4 * HVD_BANNER_MAX);
    struct hvd_buf pass, held;

    (void)state;
    memcpy(text, RULER NOTICED, sizeof(RULER NOTICED));
    for (size_t len = strlen(text); len < 3 * HVD_BANNER_MAX; len += 8)
        memcpy(text + len, "a line\n\n", 9);
    filter_text(text, &pass, &held);
    assert_int_equal(held.len, 0);
    assert_string_equal(pass.data, text);
    hvd_buf_fini(&pass);
    hvd_buf_fini(&held);
    free(text);
}

/* A rank may have left its last line without an end, and mpirun writes on behind that. */
static void what_stands_behind_an_unfinished_line_of_a_rank_is_held_back(void **state)
{
    (void)state;
    expect("[0]<stderr>:loss 0.5" RULER NOTICED RULER, "[0]<stderr>:loss 0.5", RULER NOTICED RULER);
    expect("loss" RULER NOTICED RULER "x" RULER NOTICED RULER "two\n", "lossxtwo\n",
           RULER NOTICED RULER RULER NOTICED RULER);
    expect("[0]<stderr>:map mpirun: Forwarding signal 14 to job\nx\n", "[0]<stderr>:map x\n", "");
    expect("a-b - pm" RULER "of the program\n", "a-b - pm" RULER "of the program\n", "");
    expect("x" RULER RULER NOTICED RULER, "x" RULER, RULER NOTICED RULER);
    expect(RULER RULER NOTICED RULER, RULER, RULER NOTICED RULER);
    expect("mpirun: A--------------------------", "mpirun: A--------------------------", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(banners_are_held_back_between_their_rulers),
        cmocka_unit_test(an_error_of_pmix_may_stand_within_any_other_text),
        cmocka_unit_test(what_open_mpi_5_writes_of_a_broken_connection_is_held_back),
        cmocka_unit_test(that_the_launchers_own_signal_is_passed_on_is_left_out),
        cmocka_unit_test(the_stack_of_mpirun_itself_is_held_back_and_no_other),
        cmocka_unit_test(what_mpirun_writes_when_the_launcher_stops_it_again_is_left_out),
        cmocka_unit_test(a_programs_own_lines_pass_as_they_are),
        cmocka_unit_test(what_comes_after_a_silence_is_in_order),
        cmocka_unit_test(what_stands_behind_an_unfinished_line_of_a_rank_is_held_back),
        cmocka_unit_test(more_than_is_kept_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
