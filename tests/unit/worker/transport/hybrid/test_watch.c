/*
 * Which ends of processes a watch reports, and when. The clock is the test's.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/transport/hybrid/hybrid_internal.h"

#define LOOK_NS 100000000
#define N 3

/* Processes that wait for their end, as the ranks 1, 3, 5. */
struct world {
    struct hvd_hybrid_watch watch;
    pid_t pids[N];
    int64_t now_ns;
};

static void begin(struct world *w, bool has_descriptors)
{
    struct rlimit before;

    *w = (struct world){0};
    assert_int_equal(hvd_hybrid_watch_init(&w->watch, N, NULL), HVD_OK);
    for (int i = 0; i < N; i++) {
        w->pids[i] = fork();
        if (w->pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a check fails, none is left behind */
            for (;;)
                pause();
        }
        assert_true(w->pids[i] > 0);
        hvd_hybrid_watch_add(&w->watch, 2 * i + 1, w->pids[i]);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (!has_descriptors)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    hvd_hybrid_watch_open(&w->watch);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Ends a process. It stays a zombie until collect. */
static void end(const struct world *w, int i)
{
    siginfo_t info;

    assert_int_equal(kill(w->pids[i], SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)w->pids[i], &info, WEXITED | WNOWAIT), 0);
}

static void collect(const struct world *w, int i)
{
    assert_int_equal(waitpid(w->pids[i], NULL, 0), w->pids[i]);
}

/* The rank that a look reports as lost; -1: none. */
static int look(struct world *w)
{
    struct hvd_inbound in = {.from = -1};
    struct hvd_err err = {0};
    char text[64];
    const hvd_status_t st = hvd_hybrid_watch_look(&w->watch, w->now_ns, &in, &err);

    if (st == HVD_INPROGRESS)
        return -1;
    assert_int_equal(st, HVD_ERR_GONE);
    snprintf(text, sizeof(text), "rank %d: its process ended during the job", in.from);
    assert_string_equal(err.msg, text);
    return in.from;
}

static int look_later(struct world *w)
{
    w->now_ns += LOOK_NS;
    return look(w);
}

static void finish(struct world *w)
{
    for (int i = 0; i < N; i++)
        if (kill(w->pids[i], SIGKILL) == 0)
            collect(w, i);
    hvd_hybrid_watch_fini(&w->watch);
    assert_int_equal(w->watch.n, 0);
}

static void a_rank_is_reported_once_at_the_look_after_its_end(void **state)
{
    struct world w;

    (void)state;
    begin(&w, true);
    assert_int_equal(look(&w), -1);
    end(&w, 1); /* not collected: a zombie has ended too */
    w.now_ns += LOOK_NS - 1;
    assert_int_equal(look(&w), -1);
    w.now_ns++;
    assert_int_equal(look(&w), -1); /* finds it; its last messages may be under way */
    w.now_ns += LOOK_NS - 1;
    assert_int_equal(look(&w), -1);
    w.now_ns++;
    assert_int_equal(look(&w), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_later(&w), -1);
    collect(&w, 1);
    finish(&w);
}

static void every_rank_that_ends_is_reported(void **state)
{
    struct world w;

    (void)state;
    begin(&w, true);
    for (int i = 0; i < N; i++)
        end(&w, i);
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 1);
    assert_int_equal(look(&w), 3);
    assert_int_equal(look(&w), 5);
    assert_int_equal(look(&w), -1);
    for (int i = 0; i < N; i++)
        collect(&w, i);
    finish(&w);
}

static void without_descriptors_the_number_shows_the_end(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    for (int i = 0; i < N; i++)
        assert_int_equal(w.watch.processes[i].fd, -1);
    assert_int_equal(look_later(&w), -1);
    end(&w, 2);
    collect(&w, 2);
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 5);
    assert_int_equal(look_later(&w), -1);
    finish(&w);
}

static void without_descriptors_a_zombie_has_ended(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    end(&w, 0);
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 1);
    collect(&w, 0);
    finish(&w);
}

static void *outlive(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* What prctl calls the process: parentheses and spaces confuse who splits at the first one. */
static void be_a_rank_of_threads(void)
{
    pthread_t thread;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, ") Z 1 (");
    if (pthread_create(&thread, NULL, outlive, NULL) == 0)
        pthread_exit(NULL);
}

static void a_process_whose_first_thread_ended_is_alive(void **state)
{
    struct world w = {0};

    (void)state;
    assert_int_equal(hvd_hybrid_watch_init(&w.watch, 1, NULL), HVD_OK);
    const pid_t pid = fork();
    if (pid == 0)
        be_a_rank_of_threads();
    assert_true(pid > 0);
    hvd_hybrid_watch_add(&w.watch, 7, pid); /* no descriptor: the state is asked */
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        assert_int_equal(look_later(&w), -1);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 7);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    hvd_hybrid_watch_fini(&w.watch);
}

/* A program that closes all that it has not opened, as daemons do. */
static void closed_descriptors_report_nobody(void **state)
{
    int ends[2];
    struct world w;

    (void)state;
    begin(&w, true);
    close(w.watch.processes[0].fd);
    close(w.watch.processes[1].fd);
    assert_int_equal(pipe(ends), 0); /* has the lowest numbers */
    assert_int_equal(write(ends[1], "x", 1), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_later(&w), -1);
    end(&w, 1);
    collect(&w, 1);
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 3);
    finish(&w);
    assert_int_equal(close(ends[0]), 0); /* the watch has left it open */
    assert_int_equal(close(ends[1]), 0);
}

static void a_process_that_has_ended_before_is_reported(void **state)
{
    struct hvd_hybrid_watch watch = {0};
    struct world w;

    (void)state;
    begin(&w, true);
    end(&w, 0);
    collect(&w, 0);
    assert_int_equal(hvd_hybrid_watch_init(&watch, 1, NULL), HVD_OK);
    hvd_hybrid_watch_add(&watch, 1, w.pids[0]);
    hvd_hybrid_watch_open(&watch);
    hvd_hybrid_watch_fini(&w.watch);
    w.watch = watch;
    assert_int_equal(look_later(&w), -1);
    assert_int_equal(look_later(&w), 1);
    finish(&w);
}

static void an_empty_watch_reports_nothing(void **state)
{
    struct world w = {.now_ns = 1};

    (void)state;
    assert_int_equal(look(&w), -1);
    hvd_hybrid_watch_fini(&w.watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_reported_once_at_the_look_after_its_end),
        cmocka_unit_test(every_rank_that_ends_is_reported),
        cmocka_unit_test(without_descriptors_the_number_shows_the_end),
        cmocka_unit_test(without_descriptors_a_zombie_has_ended),
        cmocka_unit_test(a_process_whose_first_thread_ended_is_alive),
        cmocka_unit_test(closed_descriptors_report_nobody),
        cmocka_unit_test(a_process_that_has_ended_before_is_reported),
        cmocka_unit_test(an_empty_watch_reports_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
