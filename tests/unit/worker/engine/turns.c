/*
 * A scheduler of coroutines behind the names of pthread functions. The linker leads the calls here
 * (--wrap); outside of turns_run they go on to the C library. Everything happens in one real
 * thread, so nothing here needs a lock.
 */
#include "tests/unit/worker/engine/turns.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#define FIBERS_MAX 512
#define STACK_BYTES (128 * 1024)
#define POINT_NS 1000
#define LIMIT_NS (100 * INT64_C(1000000000)) /* no program of the tests lasts so long */
#define TEXT_MAX 256

enum state { READY, WAITS_LOCK, WAITS_COND, WAITS_END, SLEEPS, OVER };

struct fiber {
    ucontext_t context;
    char *stack; /* kept for the next run */
    enum state state;
    const void *waits_for; /* lock, condition or fiber */
    int64_t deadline_ns;   /* -1: none */
    bool is_expired;
    void *(*start)(void *arg);
    void *arg;
    void *result;
    void *sanitizer; /* its own view of the fiber */
};

/* A lock that is held. */
struct held {
    const void *lock;
    const struct fiber *owner;
};

static struct fiber fibers[FIBERS_MAX];
static int n_fibers;
static struct fiber *current; /* NULL: no run */
static struct held locks[2 * FIBERS_MAX];
static int n_locks;
static ucontext_t outside;
static void *outside_sanitizer;
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

/* --- Switching -------------------------------------------------------------------------------- */

static void leave(void **mine, const void *stack, size_t size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(mine, stack, size);
#else
    (void)mine;
    (void)stack;
    (void)size;
#endif
}

static void arrive(void *mine)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(mine, NULL, NULL);
#else
    (void)mine;
#endif
}

static void switch_to(struct fiber *next)
{
    struct fiber *self = current;

    if (!self || next == self)
        return;
    current = next;
    leave(&self->sanitizer, next->stack, STACK_BYTES);
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(next->sanitizer, 0);
#endif
    swapcontext(&self->context, &next->context);
    arrive(self->sanitizer);
}

static void end_run(void)
{
    static size_t size = 8 * 1024 * 1024; /* of the real thread's stack, at most */
    struct fiber *self = current;

    current = NULL;
    leave(!self || self->state == OVER ? NULL : &self->sanitizer, NULL, size);
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(outside_sanitizer, 0);
#endif
    setcontext(&outside);
}

static struct held *find_lock(const void *lock)
{
    for (int i = 0; i < n_locks; i++)
        if (locks[i].lock == lock)
            return &locks[i];
    return NULL;
}

static bool can_run(const struct fiber *f)
{
    switch (f->state) {
    case READY:
        return true;
    case WAITS_LOCK:
        return !find_lock(f->waits_for);
    case WAITS_END:
        return ((const struct fiber *)f->waits_for)->state == OVER;
    default:
        return false;
    }
}

/* Any of those that can run; NULL when none can. */
static struct fiber *pick(void)
{
    struct fiber *found = NULL;
    unsigned n = 0;

    for (int i = 0; i < n_fibers; i++)
        if (can_run(&fibers[i]) && below(++n) == 0)
            found = &fibers[i];
    return found;
}

/* Sets the clock forward to the first deadline; NULL when nobody has one. */
static struct fiber *expire(void)
{
    struct fiber *first = NULL;

    for (int i = 0; i < n_fibers; i++) {
        struct fiber *f = &fibers[i];
        if ((f->state == WAITS_COND || f->state == SLEEPS) && f->deadline_ns >= 0 &&
            (!first || f->deadline_ns < first->deadline_ns))
            first = f;
    }
    if (!first)
        return NULL;
    if (now_ns < first->deadline_ns)
        now_ns = first->deadline_ns;
    n_expired++;
    first->state = READY;
    first->is_expired = true;
    return first;
}

/* Goes on with a thread that can run, this one or another. */
static void give_turn(void)
{
    struct fiber *next = pick();
    int n_waiting = 0;

    if (now_ns > LIMIT_NS) {
        snprintf(problem, sizeof(problem), "not at its end after %d s of its clock",
                 (int)(LIMIT_NS / 1000000000));
        end_run();
    }
    if (!next)
        next = expire();
    if (next) {
        switch_to(next);
        return;
    }
    for (int i = 0; i < n_fibers; i++)
        n_waiting += fibers[i].state != OVER;
    if (n_waiting > 0)
        snprintf(problem, sizeof(problem),
                 "a lost wake-up: all %d threads wait, %s, and nobody will wake them", n_waiting,
                 fibers[0].state == WAITS_END ? "the first for another to end" : "the first too");
    end_run();
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
    current->state = state;
    current->waits_for = what;
    current->deadline_ns = deadline_ns;
    current->is_expired = false;
    give_turn();
    current->state = READY;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void run_fiber(void)
{
    arrive(current->sanitizer);
    current->result = current->start(current->arg);
    current->state = OVER;
    give_turn();
    abort(); /* nobody goes on with what is over */
}

static void make_context(ucontext_t *context, char *stack)
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, run_fiber, 0);
}

static struct fiber *add_fiber(void *(*start)(void *), void *arg)
{
    if (n_fibers == FIBERS_MAX)
        return NULL;
    struct fiber *f = &fibers[n_fibers];
    if (!f->stack)
        f->stack = malloc(STACK_BYTES);
    if (!f->stack)
        return NULL;
    char *stack = f->stack;
    *f = (struct fiber){.stack = stack, .start = start, .arg = arg, .deadline_ns = -1};
#if defined(__SANITIZE_THREAD__)
    f->sanitizer = __tsan_create_fiber(0);
#endif
    make_context(&f->context, stack);
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
    n_locks = 0;
    n_expired = 0;
    problem[0] = '\0';
    if (!add_fiber(run_first, &first))
        return "no memory for a thread";
    current = &fibers[0];
    leave(&outside_sanitizer, current->stack, STACK_BYTES);
#if defined(__SANITIZE_THREAD__)
    outside_sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(current->sanitizer, 0);
#endif
    swapcontext(&outside, &current->context);
    arrive(outside_sanitizer);
#if defined(__SANITIZE_THREAD__)
    for (int i = 0; i < n_fibers; i++)
        __tsan_destroy_fiber(fibers[i].sanitizer);
#endif
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
    return current ? 0 : __real_pthread_setname_np(thread, name);
}

/* --- Locks, conditions, time ------------------------------------------------------------------ */

static void take(const void *lock)
{
    while (find_lock(lock))
        wait_as(WAITS_LOCK, lock, -1);
    if (n_locks == 2 * FIBERS_MAX)
        abort();
    locks[n_locks++] = (struct held){.lock = lock, .owner = current};
}

static void give(const void *lock)
{
    struct held *held = find_lock(lock);

    if (!held || held->owner != current)
        abort(); /* a lock that this thread does not hold */
    *held = locks[--n_locks];
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!current)
        return __real_pthread_mutex_lock(mutex);
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
    return current ? wait_on(cond, mutex, -1) : __real_pthread_cond_wait(cond, mutex);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline)
{
    if (!current)
        return __real_pthread_cond_timedwait(cond, mutex, deadline);
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
        found->state = READY;
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
