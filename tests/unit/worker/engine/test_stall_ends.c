/*
 * A stall ends the job: every rank is told, and those that handle it leave in order, as long as all
 * of them do. Threads in turns, on their clock.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/unit/worker/engine/turns.h"
#include "tests/unit/worker/engine/world.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/state/state.h"

#define RANKS_MAX 7
#define WARNING INT64_C(1000000000)
#define SHUTDOWN (2 * WARNING)

/* What the victim does while all others wait for the tensor. */
enum what {
    OTHER,  /* submits another one */
    LATE,   /* submits it when they were told */
    STAY,   /* computes until they have left */
    FROZEN, /* stands still from the beginning */
    HANGS,  /* submits another one, is told, and stands still */
};

/* A rank that is busy while the job ends does not answer for so long, counted from when the
 * coordinator begins to wait for the tensor. */
#define BUSY_FROM (SHUTDOWN - WARNING * 5 / 8)
#define BUSY_UNTIL (SHUTDOWN + WARNING / 2)

struct run {
    int size;
    int fanout;
    int victim;
    enum what what;
    bool is_cached; /* the tensor, so that ranks ask for it by a bit */
    int busy;       /* one of the others, or -1 */

    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    struct hvd_log log;
    char text[8192]; /* of all ranks, WARN and worse */
    char problem[2048];
    pthread_mutex_t mu;
    pthread_cond_t cond;
    int n_told; /* of the others */
    int n_down; /* likewise */
    bool was_aborted[RANKS_MAX];
    int next;
};

static void keep(void *ctx, const struct hvd_log_record *record)
{
    struct run *r = ctx;
    const size_t len = strlen(r->text);

    snprintf(r->text + len, sizeof(r->text) - len, "%s\n", record->msg);
}

static void count(struct run *r, int *number)
{
    pthread_mutex_lock(&r->mu);
    (*number)++;
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mu);
}

static void wait_for_others(struct run *r, const int *number)
{
    pthread_mutex_lock(&r->mu);
    while (*number < r->size - 1)
        pthread_cond_wait(&r->cond, &r->mu);
    pthread_mutex_unlock(&r->mu);
}

/* Threads cannot assert. */
static void expect_status(struct run *r, int rank, hvd_status_t st, hvd_status_t want,
                          const char *msg)
{
    if (st != want && !r->problem[0])
        snprintf(r->problem, sizeof(r->problem), "rank %d: %s: %s", rank, hvd_status_str(st), msg);
}

static hvd_status_t reduce(struct run *r, int rank, const char *name, struct hvd_err *err)
{
    int64_t value = 1;
    int64_t handle = 0;
    const struct hvd_submission s = {
        .request = world_request(HVD_ALLREDUCE, name, 1), .input = &value, .output = &value};
    hvd_status_t st = hvd_engine_submit(r->engines[rank], &s, &handle, err);

    return st == HVD_OK ? hvd_engine_wait(r->engines[rank], handle, NULL, err) : st;
}

/* The tensor that ends the job, and the reason that the rank is given. */
static void stall(struct run *r, int rank, const char *name)
{
    struct hvd_err err = {0};

    expect_status(r, rank, reduce(r, rank, name, &err), HVD_ERR_SHUTDOWN, err.msg);
    expect_status(r, rank, hvd_engine_check(r->engines[rank], NULL), HVD_ERR_SHUTDOWN, err.msg);
    if (r->what != FROZEN && !strstr(err.msg, "is stalled for longer than 2 seconds"))
        expect_status(r, rank, HVD_ERR_INVALID, HVD_OK, err.msg);
}

/* Waits until then, and answers meanwhile or not. */
static void pass(struct run *r, int rank, int64_t until_ns, bool answers)
{
    int64_t now_ns;

    while ((now_ns = hvd_clock_now_ns()) < until_ns) {
        const int64_t next_ns = now_ns + 50000000;
        const struct timespec moment = {.tv_sec = next_ns / 1000000000,
                                        .tv_nsec = next_ns % 1000000000};
        if (answers)
            (void)hvd_engine_step(r->engines[rank]);
        pthread_mutex_lock(&r->mu);
        (void)pthread_cond_timedwait(&r->cond, &r->mu, &moment);
        pthread_mutex_unlock(&r->mu);
    }
}

/* Returns since when the coordinator has waited for the tensor, and answers until it does. */
static int64_t see_wait(struct run *r, int rank)
{
    int64_t since_ns = 0;

    while (!hvd_negotiator_oldest(r->engines[0]->sets[0]->own.negotiator, &since_ns))
        pass(r, rank, hvd_clock_now_ns() + 1, true);
    return since_ns;
}

/* Submits as the others do, and does not run for a while around the end of the job. */
static void be_busy(struct run *r, int rank)
{
    int64_t value = 1;
    int64_t handle = 0;
    const struct hvd_submission s = {
        .request = world_request(HVD_ALLREDUCE, "t", 1), .input = &value, .output = &value};
    struct hvd_err err = {0};
    hvd_status_t st = hvd_engine_submit(r->engines[rank], &s, &handle, &err);

    if (st == HVD_OK) {
        const int64_t since_ns = see_wait(r, rank);
        pass(r, rank, since_ns + BUSY_FROM, true);
        pass(r, rank, since_ns + BUSY_UNTIL, false);
        st = hvd_engine_wait(r->engines[rank], handle, NULL, &err);
    }
    expect_status(r, rank, st, HVD_ERR_SHUTDOWN, err.msg);
}

static void be_the_victim(struct run *r, int rank)
{
    switch (r->what) {
    case LATE:
        wait_for_others(r, &r->n_told);
        stall(r, rank, "t");
        break;
    case STAY:
    case FROZEN:
        wait_for_others(r, &r->n_down);
        break;
    case OTHER:
    case HANGS:
    default:
        stall(r, rank, "other");
        if (r->what == HANGS)
            wait_for_others(r, &r->n_down);
        break;
    }
}

static void *live(void *arg)
{
    struct run *r = arg;
    const int rank = r->next++;
    struct hvd_err err = {0};

    for (int i = 0; i < 2 && r->is_cached; i++)
        expect_status(r, rank, reduce(r, rank, "t", &err), HVD_OK, err.msg);
    if (rank == r->victim) {
        be_the_victim(r, rank);
    } else {
        if (rank == r->busy)
            be_busy(r, rank);
        else
            stall(r, rank, "t");
        count(r, &r->n_told);
    }
    (void)hvd_engine_shutdown(r->engines[rank], NULL);
    r->was_aborted[rank] = r->engines[rank]->own.is_aborted;
    if (rank != r->victim)
        count(r, &r->n_down);
    return NULL;
}

/* Who stands still has no thread that answers. */
static bool has_background(const struct run *r, int rank)
{
    if (rank == r->busy)
        return false;
    return rank != r->victim || (r->what != FROZEN && r->what != HANGS);
}

static void run_world(void *arg)
{
    struct run *r = arg;
    const struct hvd_sim_options sim = {
        .size = r->size, .seed = 3, .max_delay = 3, .ranks_per_host = 1};
    struct hvd_engine_options options = {.cycle_ns = 50000000,
                                         .idle_poll_ns = 20000000,
                                         .tree_fanout = r->fanout,
                                         .stall_warning_ns = WARNING,
                                         .stall_shutdown_ns = SHUTDOWN,
                                         .log = &r->log,
                                         .cache_capacity = 64};
    struct hvd_transport *t[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    pthread_condattr_t attr;

    pthread_mutex_init(&r->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->cond, &attr);
    pthread_condattr_destroy(&attr);
    bool is_good = hvd_sim_create(&sim, &r->sim, NULL) == HVD_OK;
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = hvd_sim_join(r->sim, rank, &t[rank], NULL) == HVD_OK;
    for (int rank = 0; is_good && rank < r->size; rank++) {
        options.no_background = !has_background(r, rank);
        is_good = hvd_engine_create(t[rank], &options, &r->engines[rank], NULL) == HVD_OK;
    }
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = pthread_create(&threads[rank], NULL, live, r) == 0;
    if (!is_good)
        abort(); /* no assertion: this is not the stack of the test */
    for (int rank = 0; rank < r->size; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < r->size; rank++)
        hvd_engine_destroy(r->engines[rank]);
    hvd_sim_destroy(r->sim);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->mu);
}

static const struct run likes[] = {{.size = 3}, {.size = 6, .fanout = 2}, {.size = 4, .fanout = 1}};
#define N_LIKES (sizeof(likes) / sizeof(likes[0]))

static void play(struct run *r, void (*judge)(const struct run *r))
{
    r->log = (struct hvd_log){.level = HVD_LOG_WARN, .sink = keep, .ctx = r};
    const char *stopped = turns_run(1, run_world, r);

    if (stopped || r->problem[0])
        fail_msg("rank %d of %d, busy %d: %s", r->victim, r->size, r->busy,
                 stopped ? stopped : r->problem);
    judge(r);
}

/* Every shape, with every rank in turn as the victim, and what is true of each run. */
static void run_all(enum what what, bool is_cached, void (*judge)(const struct run *r))
{
    static struct run r;

    for (size_t i = 0; i < N_LIKES; i++) {
        for (int victim = 0; victim < likes[i].size; victim++) {
            r = likes[i];
            r.victim = victim;
            r.what = what;
            r.is_cached = is_cached;
            r.busy = -1;
            play(&r, judge);
        }
    }
}

static void expect_text(const struct run *r, const char *text, bool is_there)
{
    if ((strstr(r->text, text) != NULL) != is_there)
        fail_msg("rank %d of %d, %s: %s; the log: %s", r->victim, r->size,
                 is_there ? "not said" : "said", text, r->text);
}

static void left_in_order(const struct run *r)
{
    for (int rank = 0; rank < r->size; rank++)
        if (r->was_aborted[rank])
            fail_msg("rank %d of %d was aborted: %s", rank, r->size, r->text);
    expect_text(r, "Will shutdown.", true);
    expect_text(r, "did not call", false);
    expect_text(r, "is lost", false);
    if (strstr(strstr(r->text, "Will shutdown.") + 1, "Will shutdown."))
        fail_msg("twice: %s", r->text);
}

/* Those that have left wait no longer. */
static void were_aborted(const struct run *r, const char *what)
{
    char text[96];

    for (int rank = 0; rank < r->size; rank++)
        if (rank != r->victim && !r->was_aborted[rank])
            fail_msg("rank %d of %d was not aborted: %s", rank, r->size, r->text);
    snprintf(text, sizeof(text), "Rank %d on host sim-%d %s", r->victim, r->victim, what);
    expect_text(r, text, true);
}

static void named_who_stayed(const struct run *r)
{
    were_aborted(r, "did not call horovod_shutdown in the 10 seconds since the job was to end: "
                    "Tensor t is stalled");
    expect_text(r, "is lost", false);
}

static void named_who_hangs(const struct run *r)
{
    were_aborted(r, "is lost: it has not answered for ");
    expect_text(r, "seconds while the job shuts down, for longer than 2 seconds", true);
    expect_text(r, "in the 10 seconds", false);
}

static void ended_at_once(const struct run *r)
{
    were_aborted(r, "has not answered for "); /* as long as was looked: all are away at first */
    expect_text(r, "seconds while tensor t waits to be agreed on: it may be stopped", true);
    expect_text(r, "did not call", false);
    if (r->victim > 0) /* it finds itself alone, when it goes on */
        expect_text(r, "the job shuts down", false);
}

static void ranks_that_handle_a_stall_leave_in_order(void **state)
{
    (void)state;
    run_all(OTHER, false, left_in_order);
    run_all(OTHER, true, left_in_order);
    run_all(LATE, true, left_in_order);
}

static void a_rank_that_does_not_leave_after_a_stall_is_named_and_keeps_nobody(void **state)
{
    (void)state;
    run_all(STAY, true, named_who_stayed);
}

/* It has asked for the tensor, so nobody waits for it, and goes on before it is missed. */
static void a_rank_that_is_busy_when_a_stall_ends_the_job_leaves_in_order_too(void **state)
{
    static struct run r;

    (void)state;
    for (size_t i = 0; i < N_LIKES; i++) {
        for (int at = 0; at < 2 * likes[i].size; at++) {
            r = likes[i];
            r.what = LATE;
            r.is_cached = true;
            r.victim = at < r.size ? 0 : r.size - 1;
            r.busy = at % r.size;
            if (r.busy != r.victim)
                play(&r, left_in_order);
        }
    }
}

/* The bits that are left over are no reason to wait. */
static void a_rank_that_stands_still_after_a_stall_is_named_for_that(void **state)
{
    (void)state;
    run_all(HANGS, true, named_who_hangs);
}

static void nobody_waits_for_a_rank_that_stood_still_before_the_stall(void **state)
{
    (void)state;
    run_all(FROZEN, false, ended_at_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_handle_a_stall_leave_in_order),
        cmocka_unit_test(a_rank_that_does_not_leave_after_a_stall_is_named_and_keeps_nobody),
        cmocka_unit_test(a_rank_that_is_busy_when_a_stall_ends_the_job_leaves_in_order_too),
        cmocka_unit_test(a_rank_that_stands_still_after_a_stall_is_named_for_that),
        cmocka_unit_test(nobody_waits_for_a_rank_that_stood_still_before_the_stall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
