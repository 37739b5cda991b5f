/*
 * A rank stands still while all others shut down: they name it and come to their end, and so does
 * it when it goes on. Threads in turns, on their clock.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/engine/turns.h"
#include "tests/unit/worker/engine/world.h"

#define RANKS_MAX 7
#define WARNING INT64_C(2000000000)

struct run {
    int size;
    int fanout;
    int victim;
    int64_t shutdown_ns;
    bool answers;     /* the victim drives, and does not leave */
    int64_t late_ns;  /* it does so for that time, and then ... */
    int64_t pause_ns; /* ... it stands still for so long and goes on, or 0: for good */
    bool is_pending;  /* a cached tensor, of all but the victim, when the job ends */

    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    struct hvd_log log;
    char text[8192]; /* of all ranks */
    pthread_mutex_t mu;
    pthread_cond_t cond;
    int n_ended; /* of the others */
    bool is_warned;
    int next;
};

static void keep(void *ctx, const struct hvd_log_record *record)
{
    struct run *r = ctx;
    const size_t len = strlen(r->text);

    snprintf(r->text + len, sizeof(r->text) - len, "%s\n", record->msg);
    r->is_warned = true;
}

/* Lets time pass, without and with answers. Holds mu, but in a step. */
static void pass(struct run *r, int64_t ns, bool answers)
{
    struct timespec moment, end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    ns += end.tv_nsec;
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    do {
        if (answers) {
            pthread_mutex_unlock(&r->mu);
            (void)hvd_engine_step(r->engines[r->victim]);
            pthread_mutex_lock(&r->mu);
        }
        clock_gettime(CLOCK_MONOTONIC, &moment);
        moment.tv_nsec += 50000000;
        moment.tv_sec += moment.tv_nsec / 1000000000;
        moment.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&r->cond, &r->mu, &moment);
    } while (moment.tv_sec < end.tv_sec ||
             (moment.tv_sec == end.tv_sec && moment.tv_nsec < end.tv_nsec));
}

/* Answers for long, and then not. */
static void fall_silent(struct run *r)
{
    pthread_mutex_lock(&r->mu);
    pass(r, r->late_ns, true);
    if (r->pause_ns > 0) {
        pass(r, r->pause_ns, false);
        pass(r, r->late_ns, true);
    }
    while (r->pause_ns == 0 && r->n_ended < r->size - 1)
        pthread_cond_wait(&r->cond, &r->mu);
    pthread_mutex_unlock(&r->mu);
}

/* Until the others have ended, or it is named and would never end. */
static void stay(struct run *r)
{
    struct timespec moment;

    pthread_mutex_lock(&r->mu);
    while (r->n_ended < r->size - 1 && !(r->answers && r->is_warned)) {
        if (!r->answers) {
            pthread_cond_wait(&r->cond, &r->mu);
            continue;
        }
        pthread_mutex_unlock(&r->mu);
        (void)hvd_engine_step(r->engines[r->victim]);
        pthread_mutex_lock(&r->mu);
        clock_gettime(CLOCK_MONOTONIC, &moment);
        moment.tv_nsec += 10000000;
        moment.tv_sec += moment.tv_nsec / 1000000000;
        moment.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&r->cond, &r->mu, &moment);
    }
    pthread_mutex_unlock(&r->mu);
}

/* The handle of a tensor that is cached once all have submitted it; 0: it was not taken. */
static int64_t submit(struct run *r, int rank, int64_t *value)
{
    int64_t handle = 0;
    const struct hvd_submission s = {
        .request = world_request(HVD_ALLREDUCE, "t", 1), .input = value, .output = value};

    (void)!hvd_engine_submit(r->engines[rank], &s, &handle, NULL);
    return handle;
}

static void *live(void *arg)
{
    struct run *r = arg;
    const int rank = r->next++;
    int64_t value = 1;

    for (int i = 0; i < 2 && r->is_pending; i++)
        (void)!hvd_engine_wait(r->engines[rank], submit(r, rank, &value), NULL, NULL);
    if (r->is_pending && rank != r->victim)
        (void)submit(r, rank, &value);
    if (rank == r->victim && r->late_ns > 0)
        fall_silent(r);
    else if (rank == r->victim)
        stay(r);
    (void)hvd_engine_shutdown(r->engines[rank], NULL);
    pthread_mutex_lock(&r->mu);
    r->n_ended += rank != r->victim;
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

static void run_world(void *arg)
{
    struct run *r = arg;
    const struct hvd_sim_options sim = {
        .size = r->size, .seed = 3, .max_delay = 3, .ranks_per_host = 1};
    /* an idle rank looks once a cycle: where many seconds pass, few looks are enough */
    struct hvd_engine_options options = {.cycle_ns = r->late_ns > 0 ? 50000000 : 5000000,
                                         .idle_poll_ns = 1000000,
                                         .tree_fanout = r->fanout,
                                         .no_background = true,
                                         .stall_warning_ns = WARNING,
                                         .stall_shutdown_ns = r->shutdown_ns,
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
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = hvd_engine_create(t[rank], &options, &r->engines[rank], NULL) == HVD_OK;
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

static void run(struct run *r)
{
    r->log = (struct hvd_log){.level = HVD_LOG_WARN, .sink = keep, .ctx = r};
    const char *stopped = turns_run(1, run_world, r);

    if (stopped)
        fail_msg("rank %d of %d stands still: %s", r->victim, r->size, stopped);
}

static void expect(const struct run *r, const char *what)
{
    char text[96];

    snprintf(text, sizeof(text), "Rank %d on host sim-%d %s", r->victim, r->victim, what);
    if (!strstr(r->text, text))
        fail_msg("of %d, not said: %s; but: %s", r->size, text, r->text);
}

static const struct run likes[] = {
    {.size = 2}, {.size = 5}, {.size = 7, .fanout = 2}, {.size = 5, .fanout = 1}};
#define N_LIKES (sizeof(likes) / sizeof(likes[0]))
/* Two ranks, and a chain of five: of them many seconds pass in little time. */
#define LATE_STEP (N_LIKES - 1)

static void whoever_stands_still_while_the_others_leave_is_named_and_keeps_nobody(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LIKES; i++) {
        for (int victim = 0; victim < likes[i].size; victim++) {
            struct run r = likes[i];
            r.victim = victim;
            r.shutdown_ns = 2 * WARNING;
            run(&r);
            expect(&r, "has not answered for 2");
            expect(&r, "is lost: it has not answered for 4");
            if (strstr(r.text, "did not call"))
                fail_msg("%s", r.text);
        }
    }
}

/* What nobody will agree on any more is no reason to wait. */
static void the_same_where_a_cached_tensor_is_pending(void **state)
{
    (void)state;
    for (int victim = 0; victim < 5; victim++) {
        struct run r = {
            .size = 5, .victim = victim, .is_pending = true, .shutdown_ns = 2 * WARNING};
        run(&r);
        expect(&r, "is lost: it has not answered for 4");
    }
}

static void who_answers_and_does_not_leave_is_named_and_ends_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LIKES; i++) {
        for (int victim = 0; victim < likes[i].size; victim++) {
            struct run r = likes[i];
            r.victim = victim;
            r.answers = true;
            r.shutdown_ns = WARNING;
            run(&r);
            expect(&r, "did not call horovod_shutdown in the 2");
            if (strstr(r.text, "not answered") || strstr(r.text, "lost"))
                fail_msg("%s", r.text);
        }
    }
}

/* The others have waited for longer than the shutdown time before it stands still. */
static void who_stands_still_late_is_lost_after_the_shutdown_time_of_silence(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LIKES; i += LATE_STEP) {
        for (int victim = 0; victim < likes[i].size; victim++) {
            struct run r = likes[i];
            r.victim = victim;
            r.shutdown_ns = 2 * WARNING;
            r.late_ns = 5 * WARNING;
            run(&r);
            expect(&r, "did not call horovod_shutdown in the 2");
            expect(&r, "is lost: it has not answered for 4");
        }
    }
}

static void a_pause_shorter_than_the_shutdown_time_ends_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LIKES; i += LATE_STEP) {
        for (int victim = 0; victim < likes[i].size; victim++) {
            struct run r = likes[i];
            r.victim = victim;
            r.shutdown_ns = 2 * WARNING;
            r.late_ns = 3 * WARNING;
            r.pause_ns = r.shutdown_ns - WARNING / 2;
            run(&r);
            if (strstr(r.text, "lost"))
                fail_msg("%s", r.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_stands_still_while_the_others_leave_is_named_and_keeps_nobody),
        cmocka_unit_test(the_same_where_a_cached_tensor_is_pending),
        cmocka_unit_test(who_answers_and_does_not_leave_is_named_and_ends_nothing),
        cmocka_unit_test(who_stands_still_late_is_lost_after_the_shutdown_time_of_silence),
        cmocka_unit_test(a_pause_shorter_than_the_shutdown_time_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
