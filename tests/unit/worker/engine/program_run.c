/*
 * The run of a program. Without threads, one thread steps the engines in an order drawn from the
 * seed and asks after every tensor. With threads, each actor submits a round and waits; who waits,
 * drives, and the engines' own threads do when nobody waits.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/support.h"
#include "tests/unit/worker/device/fake.h"
#include "tests/unit/worker/engine/program.h"
#include "tests/unit/worker/engine/turns.h"

#define STEPS_MAX 400000
#define REST_NS 1000000

static char last_problem[TEXT_MAX];

static struct hvd_request request_of(const struct program_actor *a, int tensor, char name[16])
{
    const struct program_run *r = a->run;
    const struct program_tensor *t = program_tensor_of(r, a->round, tensor);
    const struct program_set *set = &r->sets[t->set];
    const int place = program_place(r, t, a->rank);
    struct hvd_request request = {.op = t->op,
                                  .prescale = t->prescale,
                                  .postscale = 1 / t->prescale,
                                  .dtype = t->dtype,
                                  .reduce = t->reduce,
                                  .root = set->ranks[t->root],
                                  .ndim = 2,
                                  .shape = {program_rows(r, t, place), t->columns}};

    snprintf(name, 16, "t%d", tensor);
    request.name = hvd_strview_of(name);
    if (place != t->odd_rank)
        return request;
    if (t->odd_about == 0)
        request.dtype = t->dtype == HVD_INT32 ? HVD_FLOAT32 : HVD_INT32;
    else if (t->odd_about == 1)
        request.shape[1] = t->columns + 1;
    else if (t->op == HVD_BROADCAST)
        request.root = set->ranks[(t->root + 1) % set->n];
    else
        request.reduce = t->reduce == HVD_MIN ? HVD_MAX : HVD_MIN;
    if (t->odd_about == 0 && hvd_dtype_is_real(t->dtype)) {
        request.prescale = 1; /* whole numbers are not scaled here */
        request.postscale = 1;
    }
    return request;
}

static bool has_outputs_of_library(enum hvd_op op)
{
    return op == HVD_ALLGATHER || op == HVD_ALLTOALL;
}

static struct program_submitted *state_of(const struct program_actor *a, int tensor)
{
    return &a->run->state[a->rank * TENSORS_MAX + tensor];
}

static void release(struct program_submitted *s)
{
    program_drop(s);
    if (s->output != s->input)
        free(s->output);
    free(s->input);
    *s = (struct program_submitted){0};
}

static struct hvd_submission prepare(const struct program_actor *a, int tensor, char name[16],
                                     int64_t splits[RANKS_MAX])
{
    const struct program_run *r = a->run;
    struct program_submitted *s = state_of(a, tensor);
    const struct program_tensor *t = program_tensor_of(r, a->round, tensor);
    const struct hvd_request request = request_of(a, tensor, name);
    const int64_t count = request.shape[0] * request.shape[1];
    const size_t bytes = (size_t)count * hvd_dtype_size((int)request.dtype) + 1;
    const bool is_shared = has_outputs_of_library(t->op) || t->is_in_place;
    const int place = program_place(r, t, a->rank);

    release(s);
    s->input = malloc(bytes);
    s->output = is_shared ? s->input : calloc(1, bytes);
    if (!s->input || !s->output)
        abort(); /* this may be a coroutine: no assertion leads out of it */
    program_fill(r, t, place, request.dtype, s->input, count);
    for (int to = 0; to < r->sets[t->set].n; to++)
        splits[to] = program_split(t, place, to);
    s->bytes = bytes;
    struct hvd_submission submission = {.request = request,
                                        .input = s->input,
                                        .output = has_outputs_of_library(t->op) ? NULL : s->output,
                                        .splits = t->op == HVD_ALLTOALL ? splits : NULL,
                                        .set = r->sets[t->set].id};
    if (program_is_on_device(r, a->round, tensor))
        program_load(a->run, a->rank, s, &submission);
    return submission;
}

static void submit_next(struct program_actor *a)
{
    struct program_run *r = a->run;
    const struct program_unit *u = &r->units[a->order[a->n_next++]];
    struct hvd_submission submissions[3];
    char names[3][16];
    int64_t splits[3][RANKS_MAX];
    int64_t handles[3] = {0};
    struct hvd_err err = {0};
    hvd_status_t st;

    for (int i = 0; i < u->n; i++)
        submissions[i] = prepare(a, u->first + i, names[i], splits[i]);
    if (u->n == 1)
        st = hvd_engine_submit(r->engines[a->rank], submissions, handles, &err);
    else
        st = hvd_engine_submit_group(r->engines[a->rank], submissions, (uint32_t)u->n, handles,
                                     &err);
    for (int i = 0; i < u->n; i++) {
        struct program_submitted *s = state_of(a, u->first + i);
        s->handle = handles[i];
        s->is_submitted = true;
        s->is_ended = st != HVD_OK;
        a->n_open += st == HVD_OK;
    }
    if (st != HVD_OK && !program_may_fail(r, a->rank, st, err.msg))
        program_blame(r, "t%d on rank %d: submission failed: %s", u->first, a->rank, err.msg);
}

static void submit_join(struct program_actor *a)
{
    const struct hvd_submission s = {.request = {.op = HVD_JOIN,
                                                 .reduce = HVD_SUM,
                                                 .prescale = 1,
                                                 .postscale = 1,
                                                 .name = hvd_strview_of("join.noname")}};
    struct hvd_err err = {0};
    const hvd_status_t st = hvd_engine_submit(a->run->engines[a->rank], &s, &a->join, &err);

    if (st == HVD_OK)
        return;
    a->has_joined = true;
    if (!program_may_fail(a->run, a->rank, st, err.msg))
        program_blame(a->run, "rank %d could not join: %s", a->rank, err.msg);
}

/* Waits, first without staying or for a little while only, as it comes. */
static hvd_status_t wait_somehow(struct program_actor *a, int64_t handle,
                                 struct hvd_outcome *outcome, struct hvd_err *err)
{
    static const int64_t timeouts_ns[] = {0, 0, 1000, -1};
    struct hvd_engine *e = a->run->engines[a->rank];
    hvd_status_t st = HVD_INPROGRESS;

    while (st == HVD_INPROGRESS)
        st = hvd_engine_wait_for(e, handle, timeouts_ns[program_below(a->run, 4)], outcome, err);
    return st;
}

/* Waits until the device has the result. Without threads, nobody else lets the others work. */
static hvd_status_t await_result(const struct program_actor *a, struct hvd_device_event *event,
                                 struct hvd_err *err)
{
    struct program_run *r = a->run;

    while (event && !r->options->has_threads && !(a->rank == r->victim && program_is_lost(r)) &&
           event->device->ops->query(event->device, event, NULL) == HVD_INPROGRESS)
        for (int rank = 0; rank < r->options->n_ranks; rank++)
            if (rank != r->victim || !program_is_lost(r))
                (void)hvd_engine_step(r->engines[rank]);
    if (event && a->rank == r->victim && program_is_lost(r))
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "this rank is dead");
    return hvd_engine_await(r->engines[a->rank], event, err);
}

static void wait_for_tensor(struct program_actor *a, int tensor)
{
    struct program_submitted *s = state_of(a, tensor);
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};
    hvd_status_t st = wait_somehow(a, s->handle, &outcome, &err);

    if (st == HVD_OK)
        st = await_result(a, outcome.event, &err);
    hvd_device_event_release(outcome.event);
    s->is_ended = true;
    a->n_open--;
    a->run->n_ended++;
    program_unload(s, outcome.output);
    program_judge(a->run, a, tensor, st, err.msg, outcome.output);
    hvd_output_destroy(outcome.output);
}

static void wait_for_join(struct program_actor *a)
{
    struct program_run *r = a->run;
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};
    const hvd_status_t st = wait_somehow(a, a->join, &outcome, &err);
    int *last = &r->last_joined[a->round];

    a->has_joined = true;
    if (st != HVD_OK) {
        if (!program_may_fail(r, a->rank, st, err.msg))
            program_blame(r, "the join of rank %d failed: %s", a->rank, err.msg);
        return;
    }
    if (*last < 0)
        *last = (int)outcome.number;
    if (*last != outcome.number || outcome.number < 0 || outcome.number >= r->options->n_ranks)
        program_blame(r, "round %d: rank %d hears that rank %lld joined last, another %d", a->round,
                      a->rank, (long long)outcome.number, *last);
}

static void begin_round(struct program_actor *a, int round)
{
    a->round = round;
    a->n_next = 0;
    a->join = 0;
    a->has_joined = false;
    program_make_order(a->run, a);
}

static bool has_to_join(const struct program_actor *a)
{
    return a->run->ends_with_join[a->round] && !a->has_joined;
}

/* --- Step by step, in one thread -------------------------------------------------------------- */

static void end_done(struct program_actor *a)
{
    struct hvd_engine *e = a->run->engines[a->rank];

    for (int i = 0; i < a->n_next && a->n_open > 0; i++) {
        const struct program_unit *u = &a->run->units[a->order[i]];
        for (int tensor = u->first; tensor < u->first + u->n; tensor++) {
            const struct program_submitted *s = state_of(a, tensor);
            if (s->is_submitted && !s->is_ended && hvd_engine_poll(e, s->handle) == 1)
                wait_for_tensor(a, tensor);
        }
    }
    if (a->join && !a->has_joined && hvd_engine_poll(e, a->join) == 1)
        wait_for_join(a);
}

/* Whether the rank has nothing to do any more; begins its next round when the last one has ended.
 */
static bool is_over(struct program_actor *a)
{
    const struct program_run *r = a->run;

    if (program_is_lost(a->run) && a->rank == r->victim)
        return true;
    if (a->n_next < a->n_order || a->n_open > 0 || has_to_join(a))
        return false;
    if (a->round + 1 == r->n_rounds)
        return true;
    begin_round(a, a->round + 1);
    return false;
}

static void step(struct program_actor *a)
{
    struct program_run *r = a->run;

    if (program_is_lost(r) && a->rank == r->victim)
        return;
    if (program_below(r, 3) == 0) {
        if (a->n_next < a->n_order)
            submit_next(a);
        else if (has_to_join(a) && !a->join)
            submit_join(a);
    }
    (void)hvd_engine_step(r->engines[a->rank]);
    end_done(a);
}

static void drive(struct program_run *r)
{
    int n_over = 0;

    for (int steps = 0; !r->problem[0] && n_over < r->options->n_ranks; steps++) {
        if (steps > STEPS_MAX) {
            program_blame(r, "not at its end after %d steps: %d tensors ended", steps, r->n_ended);
            return;
        }
        if (r->victim >= 0 && r->die_at == 0 && !r->is_lost && r->n_ended >= r->lost_after) {
            hvd_sim_kill(r->sim, r->victim);
            r->is_lost = true;
        }
        step(&r->actors[program_below(r, r->options->n_ranks)][0]);
        n_over = 0;
        for (int rank = 0; rank < r->options->n_ranks; rank++)
            n_over += is_over(&r->actors[rank][0]);
    }
}

/* --- With threads ----------------------------------------------------------------------------- */

static void *shut_down(void *arg)
{
    const struct program_actor *a = arg;
    bool *is_down = &a->run->is_down[a->rank];

    if (!*is_down) {
        *is_down = true;
        (void)hvd_engine_shutdown(a->run->engines[a->rank], NULL);
    }
    return NULL;
}

/* A dead rank's threads would be gone. Here they are let out of what they wait for, once all others
 * have come to their end without them. */
static void bury(struct program_run *r)
{
    const bool is_last = r->n_over >= r->options->n_ranks - 1; /* the victim is not over */

    if (!program_is_lost(r) || r->leaves || r->has_undertaker || !is_last)
        return;
    r->has_undertaker = true;
    if (pthread_create(&r->undertaker, NULL, shut_down, &r->actors[r->victim][0]) != 0)
        abort();
}

/* The victim's time may have come: it is killed by whoever notices, or leaves by itself. Whether
 * this actor's rank has left. */
static bool lose(struct program_actor *a)
{
    struct program_run *r = a->run;
    const bool is_me = a->rank == r->victim;

    if (r->victim < 0)
        return false;
    if (program_is_lost(r) || r->die_at > 0 || r->n_ended < r->lost_after || (r->leaves && !is_me))
        return r->is_lost && is_me;
    r->is_lost = true;
    if (r->leaves) {
        shut_down(&r->actors[a->rank][0]);
        return is_me;
    }
    hvd_sim_kill(r->sim, r->victim);
    bury(r);
    return is_me;
}

/* Waits for all that the actor has submitted, in an order of its own. */
static void wait_for_all(struct program_actor *a)
{
    const struct program_run *r = a->run;
    const int first = a->n_next > 0 ? program_below(a->run, a->n_next) : 0;

    for (int i = 0; i < a->n_next; i++) {
        const struct program_unit *u = &r->units[a->order[(first + i) % a->n_next]];
        for (int tensor = u->first; tensor < u->first + u->n; tensor++)
            if (!state_of(a, tensor)->is_ended)
                wait_for_tensor(a, tensor);
    }
    if (a->join && !a->has_joined)
        wait_for_join(a);
}

static void *act(void *arg)
{
    struct program_actor *a = arg;
    struct program_run *r = a->run;

    for (int round = 0; round < r->n_rounds && !r->problem[0]; round++) {
        begin_round(a, round);
        while (a->n_next < a->n_order && !lose(a)) {
            submit_next(a);
            if (program_below(r, 4) == 0)
                sched_yield();
        }
        if (has_to_join(a))
            submit_join(a);
        wait_for_all(a);
        if (lose(a))
            break;
    }
    return NULL;
}

/* Every rank makes and removes the sets, in the same order; false when the job is over. */
static bool change_sets(struct program_run *r, int rank, bool removes)
{
    for (int i = 1; i < r->n_sets; i++) {
        struct program_set *set = &r->sets[i];
        uint32_t id = set->id;
        struct hvd_err err = {0};
        const hvd_status_t st =
            removes ? hvd_engine_remove_set(r->engines[rank], id, &err)
                    : hvd_engine_add_set(r->engines[rank], set->ranks, set->n, &id, &err);
        if (st == HVD_OK) {
            set->id = id;
            continue;
        }
        if (!program_may_fail(r, rank, st, err.msg))
            program_blame(r, "rank %d, set %d: %s", rank, i, err.msg);
        return false;
    }
    return true;
}

/* Lets the others run for a while. */
static void rest(void)
{
    pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until); /* in turns there is one clock */
    until.tv_sec += (until.tv_nsec + REST_NS) / 1000000000;
    until.tv_nsec = (until.tv_nsec + REST_NS) % 1000000000;
    pthread_mutex_lock(&mu);
    (void)pthread_cond_timedwait(&cond, &mu, &until);
    pthread_mutex_unlock(&mu);
}

/* A rank: its actors, of which it is the first. */
static void *live(void *arg)
{
    struct program_actor *a = arg;
    struct program_run *r = a->run;
    pthread_t second;

    if (change_sets(r, a->rank, false)) {
        const bool has_second =
            r->n_actors > 1 && pthread_create(&second, NULL, act, &r->actors[a->rank][1]) == 0;
        act(a);
        if (has_second)
            pthread_join(second, NULL);
        if (r->victim < 0 && !r->problem[0])
            (void)change_sets(r, a->rank, true);
    }
    /* Who leaves early waits for the others to do so; who dies late has to be buried. */
    r->n_over++;
    while (r->victim >= 0 && !program_is_lost(r) && r->n_over < r->options->n_ranks)
        rest();
    bury(r);
    return r->leaves && r->is_lost ? shut_down(a) : NULL;
}

/* Runs a function for each rank, in a thread each. */
static void in_threads(struct program_run *r, void *(*body)(void *arg))
{
    pthread_t threads[RANKS_MAX];

    for (int rank = 0; rank < r->options->n_ranks; rank++)
        if (pthread_create(&threads[rank], NULL, body, &r->actors[rank][0]) != 0)
            abort();
    for (int rank = 0; rank < r->options->n_ranks; rank++)
        pthread_join(threads[rank], NULL);
}

/* --- The world -------------------------------------------------------------------------------- */

static void open_world(struct program_run *r)
{
    static const uint32_t capacities[] = {0, 2, 1024};
    static const int64_t fusions[] = {0, 200, 1 << 20};
    struct hvd_engine_options options = {.cycle_ns = 200000,
                                         .idle_poll_ns = 1000000,
                                         .no_background = !r->options->has_threads,
                                         /* the tree that is chosen, a chain, or a narrow one */
                                         .tree_fanout = (int)(r->options->seed / 3 % 4),
                                         .cache_capacity = capacities[program_below(r, 3)],
                                         .fusion_bytes = fusions[program_below(r, 3)]};
    const struct hvd_sim_options sim = {
        .size = r->options->n_ranks,
        .seed = r->options->seed,
        .ranks_per_host = 1 + (int)(r->options->seed / 7 % 5),
        .max_delay = 1 + (unsigned)program_below(r, 5),
        .faults = {.die_at = r->die_at,
                   .die_rank = r->victim,
                   .spike_every = program_below(r, 3) ? 0 : 2 + (uint64_t)program_below(r, 20),
                   .spike_looks = (unsigned)program_below(r, 40),
                   .slow_looks = program_below(r, 3) ? 0 : (unsigned)program_below(r, 5),
                   .slow_rank = program_below(r, r->options->n_ranks)}};
    struct hvd_transport *transports[RANKS_MAX];
    bool is_good = hvd_sim_create(&sim, &r->sim, NULL) == HVD_OK;

    for (int rank = 0; is_good && rank < sim.size; rank++)
        is_good = hvd_sim_join(r->sim, rank, &transports[rank], NULL) == HVD_OK;
    if (r->options->has_devices)
        program_open_devices(r);
    for (int rank = 0; is_good && rank < sim.size; rank++) {
        options.device = r->devices[rank];
        is_good = hvd_engine_create(transports[rank], &options, &r->engines[rank], NULL) == HVD_OK;
    }
    if (!is_good)
        abort();
}

/* Leaving is collective, so every rank does it in a thread of its own. */
static void close_world(struct program_run *r)
{
    in_threads(r, shut_down);
    if (r->has_undertaker)
        pthread_join(r->undertaker, NULL);
    for (int rank = 0; rank < r->options->n_ranks; rank++)
        hvd_engine_destroy(r->engines[rank]);
    if (r->options->has_devices && program_is_lost(r)) /* its end would have ended the work */
        fake_drain(r->devices[r->victim]);
    hvd_sim_destroy(r->sim);
    for (int i = 0; i < r->options->n_ranks * TENSORS_MAX; i++)
        release(&r->state[i]);
    if (r->options->has_devices)
        program_close_devices(r);
}

static void run_threads(void *arg)
{
    struct program_run *r = arg;

    open_world(r);
    in_threads(r, live);
    close_world(r);
}

static void run_steps(void *arg)
{
    struct program_run *r = arg;

    open_world(r);
    for (int rank = 0; rank < r->options->n_ranks; rank++)
        begin_round(&r->actors[rank][0], 0);
    drive(r);
    close_world(r);
}

const char *program_run(const struct program_options *options)
{
    static struct program_run r; /* too large for some stacks */
    const char *stopped;

    r = (struct program_run){.options = options};
    program_make(&r);
    for (int rank = 0; rank < options->n_ranks; rank++)
        for (int k = 0; k < r.n_actors; k++)
            r.actors[rank][k] = (struct program_actor){.run = &r, .rank = rank, .number = k};
    r.state = calloc((size_t)options->n_ranks * TENSORS_MAX, sizeof(*r.state));
    assert_non_null(r.state);
    stopped = turns_run(options->seed, options->has_threads ? run_threads : run_steps, &r);
    if (stopped)
        program_blame(&r, "%s", stopped);
    if (!stopped)
        free(r.state);
    memcpy(last_problem, r.problem, sizeof(last_problem));
    return last_problem[0] ? last_problem : NULL;
}
