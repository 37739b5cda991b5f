/*
 * A scheduler of coroutines behind the names of pthread functions. The linker leads the calls here
 * (--wrap); outside of turns_run they go on to the C library. Everything happens in one real
 * thread, so nothing here needs a lock.
 */
#include "tests/unit/worker/engine/turns.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/worker/engine/turns_switch.h"

#define FIBERS_MAX 512
#define POINT_NS 1000
#define LIMIT_NS (40 * INT64_C(1000000000)) /* no program of the tests lasts so long */
#define TEXT_MAX 256

enum state { READY, WAITS_LOCK, WAITS_COND, WAITS_END, OVER };

struct fiber {
    struct turns_stack stack; /* its memory is kept for the next run */
    enum state state;
    int place;             /* among those that can run; -1: it cannot */
    const void *waits_for; /* lock, condition or fiber */
    const void *where;     /* the call that waits, or the last one */
    uint64_t n_turns;
    int64_t deadline_ns; /* -1: none */
    bool is_expired;
    void *(*start)(void *arg);
    void *arg;
    void *result;
    const char *name;
};

/* A lock that is held. */
struct held {
    const void *lock;
    const struct fiber *owner;
    bool is_wanted; /* somebody waits for it */
};

static struct fiber fibers[FIBERS_MAX];
static int n_fibers;
static struct fiber *current; /* NULL: no run */
static struct fiber *ready[FIBERS_MAX];
static int n_ready;
static int64_t first_deadline_ns; /* nobody's is sooner */
static struct held locks[2 * FIBERS_MAX];
static int n_locks;
static uint64_t random_state;
static int64_t now_ns;
static uint64_t n_expired;
static char problem[TEXT_MAX];

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __real_pthread_join(pthread_t thread, void **result);
pthread_t __real_pthread_self(void);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __real_pthread_setname_np(pthread_t thread, const char *name);
int __real_sched_yield(void);
int __real_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
pthread_t __wrap_pthread_self(void);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static unsigned below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 16) % n);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static void switch_to(struct fiber *next)
{
    struct fiber *self = current;

    next->n_turns++;
    if (!self || next == self)
        return;
    current = next;
    turns_switch(&self->stack, &next->stack);
}

static void end_run(void)
{
    struct fiber *self = current;

    current = NULL;
    turns_switch_out(&self->stack, self->state == OVER);
}

static void set_ready(struct fiber *f)
{
    f->state = READY;
    if (f->place >= 0)
        return;
    f->place = n_ready;
    ready[n_ready++] = f;
}

static void set_waiting(struct fiber *f, enum state state)
{
    f->state = state;
    ready[f->place] = ready[--n_ready];
    ready[f->place]->place = f->place;
    f->place = -1;
}

/* Those that wait so for it can run: whoever comes too late waits again. */
static void wake_all(enum state state, const void *what)
{
    for (int i = 0; i < n_fibers; i++)
        if (fibers[i].state == state && fibers[i].waits_for == what)
            set_ready(&fibers[i]);
}

static struct held *find_lock(const void *lock)
{
    for (int i = 0; i < n_locks; i++)
        if (locks[i].lock == lock)
            return &locks[i];
    return NULL;
}

static bool is_timed(const struct fiber *f)
{
    return f->state == WAITS_COND && f->deadline_ns >= 0;
}

/* Who has waited until now can run. */
static void expire(void)
{
    if (now_ns < first_deadline_ns)
        return;
    first_deadline_ns = INT64_MAX;
    for (int i = 0; i < n_fibers; i++) {
        struct fiber *f = &fibers[i];
        if (!is_timed(f))
            continue;
        if (f->deadline_ns <= now_ns) {
            set_ready(f);
            f->is_expired = true;
        } else if (f->deadline_ns < first_deadline_ns) {
            first_deadline_ns = f->deadline_ns;
        }
    }
}

/* Sets the clock forward to the first deadline, if somebody has one. */
static void wait_for_deadline(void)
{
    int64_t first_ns = INT64_MAX;

    for (int i = 0; i < n_fibers; i++)
        if (is_timed(&fibers[i]) && fibers[i].deadline_ns < first_ns)
            first_ns = fibers[i].deadline_ns;
    if (first_ns == INT64_MAX)
        return;
    if (now_ns < first_ns)
        now_ns = first_ns;
    n_expired++;
    first_deadline_ns = first_ns;
    expire();
}

/* Tells who waits for what, for whoever has to find out why. */
static void tell_waiting(void)
{
    static const char *const doing[] = {[READY] = "can run",
                                        [WAITS_LOCK] = "waits for a lock",
                                        [WAITS_COND] = "waits for a condition",
                                        [WAITS_END] = "waits for a thread to end"};

    fprintf(stderr, "at %lld us, threads:\n", (long long)(now_ns / 1000));
    for (int i = 0; i < n_fibers; i++) {
        const struct fiber *f = &fibers[i];
        const struct held *held = f->state == WAITS_LOCK ? find_lock(f->waits_for) : NULL;
        Dl_info info = {0};
        if (f->state == OVER)
            continue;
        fprintf(stderr, "%4d %-8s %s", i, f->name, doing[f->state]);
        if (f->state == WAITS_END)
            fprintf(stderr, " (%d)", (int)((const struct fiber *)f->waits_for - fibers));
        else if (f->state != READY)
            fprintf(stderr, " (%p)", f->waits_for);
        if (held)
            fprintf(stderr, " of %d", (int)(held->owner - fibers));
        if (f->state == WAITS_COND && f->deadline_ns >= 0)
            fprintf(stderr, " until %lld us", (long long)(f->deadline_ns / 1000));
        fprintf(stderr, ", %llu turns", (unsigned long long)f->n_turns);
        if (f->where && dladdr(f->where, &info))
            fprintf(stderr, ", at %s+%#lx", info.dli_fname,
                    (unsigned long)((uintptr_t)f->where - (uintptr_t)info.dli_fbase));
        fputc('\n', stderr);
    }
}

/* The run cannot go on. */
static void give_up(void)
{
    int n_waiting = 0;

    for (int i = 0; i < n_fibers; i++)
        n_waiting += fibers[i].state != OVER;
    if (now_ns > LIMIT_NS)
        snprintf(problem, sizeof(problem), "not at its end after %d s of its clock",
                 (int)(LIMIT_NS / 1000000000));
    else if (n_waiting > 0)
        snprintf(problem, sizeof(problem),
                 "a lost wake-up: all %d threads wait, %s, and nobody will wake them", n_waiting,
                 fibers[0].state == WAITS_END ? "the first for another to end" : "the first too");
    if (problem[0])
        tell_waiting();
    end_run();
}

/* Goes on with a thread that can run, this one or another. */
static void give_turn(void)
{
    expire();
    if (n_ready == 0)
        wait_for_deadline();
    if (n_ready == 0 || now_ns > LIMIT_NS)
        give_up();
    else
        switch_to(ready[below((unsigned)n_ready)]);
}

/* Where the turn may pass on. */
static void point(void)
{
    now_ns += POINT_NS;
    if (below(2) == 0)
        give_turn();
}

static void wait_as(enum state state, const void *what, int64_t deadline_ns)
{
    set_waiting(current, state);
    current->waits_for = what;
    current->deadline_ns = deadline_ns;
    current->is_expired = false;
    if (deadline_ns >= 0 && deadline_ns < first_deadline_ns)
        first_deadline_ns = deadline_ns;
    give_turn();
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void run_fiber(void)
{
    turns_arrived(&current->stack);
    current->result = current->start(current->arg);
    set_waiting(current, OVER);
    wake_all(WAITS_END, current);
    give_turn();
    abort(); /* nobody goes on with what is over */
}

static struct fiber *add_fiber(void *(*start)(void *), void *arg)
{
    if (n_fibers == FIBERS_MAX)
        return NULL;
    struct fiber *f = &fibers[n_fibers];
    if (!turns_stack_begin(&f->stack, run_fiber))
        return NULL;
    *f = (struct fiber){.stack = f->stack,
                        .place = -1,
                        .start = start,
                        .arg = arg,
                        .deadline_ns = -1,
                        .name = n_fibers == 0 ? "first" : ""};
    set_ready(f);
    n_fibers++;
    return f;
}

struct first {
    void (*body)(void *arg);
    void *arg;
};

static void *run_first(void *arg)
{
    const struct first *first = arg;

    first->body(first->arg);
    return NULL;
}

const char *turns_run(uint64_t seed, void (*body)(void *arg), void *arg)
{
    struct first first = {.body = body, .arg = arg};

    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    now_ns = 1000000000;
    n_fibers = 0;
    n_ready = 0;
    first_deadline_ns = INT64_MAX;
    n_locks = 0;
    n_expired = 0;
    problem[0] = '\0';
    if (!add_fiber(run_first, &first))
        return "no memory for a thread";
    current = &fibers[0];
    turns_switch_in(&current->stack);
    for (int i = 0; i < n_fibers; i++)
        turns_stack_end(&fibers[i].stack);
    return problem[0] ? problem : NULL;
}

uint64_t turns_expired(void)
{
    return n_expired;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    if (!current)
        return __real_pthread_create(thread, attr, start, arg);
    if (!add_fiber(start, arg))
        return EAGAIN;
    *thread = (pthread_t)n_fibers; /* the number of the fiber, from 1 */
    point();
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (!current)
        return __real_pthread_join(thread, result);
    const struct fiber *f = &fibers[thread - 1];
    current->where = __builtin_return_address(0);
    if (f->state != OVER)
        wait_as(WAITS_END, f, -1);
    if (result)
        *result = f->result;
    return 0;
}

pthread_t __wrap_pthread_self(void)
{
    return current ? (pthread_t)(current - fibers + 1) : __real_pthread_self();
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    if (!current)
        return __real_pthread_setname_np(thread, name);
    fibers[thread - 1].name = name; /* a constant, in all that is tested so */
    return 0;
}

/* --- Locks, conditions, time ------------------------------------------------------------------ */

static void take(const void *lock)
{
    struct held *held;

    while ((held = find_lock(lock))) {
        held->is_wanted = true;
        wait_as(WAITS_LOCK, lock, -1);
    }
    if (n_locks == 2 * FIBERS_MAX)
        abort();
    locks[n_locks++] = (struct held){.lock = lock, .owner = current};
}

static void give(const void *lock)
{
    struct held *held = find_lock(lock);

    if (!held || held->owner != current)
        abort(); /* a lock that this thread does not hold */
    const bool is_wanted = held->is_wanted;
    *held = locks[--n_locks];
    if (is_wanted)
        wake_all(WAITS_LOCK, lock);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!current)
        return __real_pthread_mutex_lock(mutex);
    current->where = __builtin_return_address(0);
    point();
    take(mutex);
    return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (!current)
        return __real_pthread_mutex_trylock(mutex);
    point();
    if (find_lock(mutex))
        return EBUSY;
    take(mutex);
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!current)
        return __real_pthread_mutex_unlock(mutex);
    give(mutex);
    point();
    return 0;
}

static int wait_on(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    give(mutex);
    wait_as(WAITS_COND, cond, deadline_ns);
    const bool is_expired = current->is_expired;
    take(mutex);
    return is_expired ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (!current)
        return __real_pthread_cond_wait(cond, mutex);
    current->where = __builtin_return_address(0);
    return wait_on(cond, mutex, -1);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline)
{
    if (!current)
        return __real_pthread_cond_timedwait(cond, mutex, deadline);
    current->where = __builtin_return_address(0);
    return wait_on(cond, mutex, (int64_t)deadline->tv_sec * 1000000000 + deadline->tv_nsec);
}

/* Wakes one of those that wait, drawn; false when nobody does. */
static bool wake_one(const pthread_cond_t *cond)
{
    struct fiber *found = NULL;
    unsigned n = 0;

    for (int i = 0; i < n_fibers; i++)
        if (fibers[i].state == WAITS_COND && fibers[i].waits_for == cond && below(++n) == 0)
            found = &fibers[i];
    if (found)
        set_ready(found);
    return found != NULL;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    if (!current)
        return __real_pthread_cond_signal(cond);
    (void)wake_one(cond);
    point();
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!current)
        return __real_pthread_cond_broadcast(cond);
    while (wake_one(cond))
        continue;
    point();
    return 0;
}

int __wrap_sched_yield(void)
{
    if (!current)
        return __real_sched_yield();
    current->where = __builtin_return_address(0);
    now_ns += POINT_NS;
    give_turn();
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!current)
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}
