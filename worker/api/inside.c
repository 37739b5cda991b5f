/*
 * Tracks which threads are inside the library, so that no thread frees an object that another one
 * uses. Every call enters and leaves, but only horovod_init waits for others to leave. So entering
 * costs no atomic operation, and waiting costs a system call that executes a fence in all threads.
 *
 *     visitor:  depth++;  (no fence)  read the pointer      leaver:  depth--
 *     host:     replace the pointer;  membarrier;           wait until each depth was 0 once
 *
 * A visitor that has read the old pointer has incremented its depth before, and the host sees that
 * behind the membarrier. Without membarrier in the kernel, visitors execute the fence themselves. A
 * visitor belongs to one thread; another thread reuses it later. Visitors are freed only when the
 * library is unloaded.
 */
#include "worker/api/inside.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define LINE 128

struct visitor {
    struct visitor *next; /* constant once it is in the list */
    atomic_bool is_taken; /* by a thread */
    atomic_uint depth;    /* changed by that thread alone; that of `others` by several */
    char apart[LINE - sizeof(void *) - 2 * sizeof(unsigned)];
};

static struct visitor others; /* threads for which there was no memory */
static struct visitor *_Atomic all = &others;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static bool has_membarrier; /* constant after once */
static _Thread_local struct visitor *self;

/* Releases the visitor of a thread that ends. */
static void let_go(void *visitor)
{
    struct visitor *v = visitor;

    self = &others; /* destructors of other libraries may enter after this one */
    atomic_store_explicit(&v->is_taken, false, memory_order_release);
}

static void begin(void)
{
    has_key = pthread_key_create(&key, let_go) == 0;
    has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Runs when the library is unloaded, and no thread is inside. */
__attribute__((destructor)) static void end(void)
{
    if (has_key)
        pthread_key_delete(key);
    for (struct visitor *v = atomic_load(&all); v != &others;) {
        struct visitor *next = v->next;
        hvd_free(v);
        v = next;
    }
    atomic_store(&all, &others);
}

/* Returns a visitor for this thread: a released one or a new one; NULL if out of memory. */
static struct visitor *take(void)
{
    struct visitor *v = atomic_load_explicit(&all, memory_order_acquire);

    for (; v != &others; v = v->next) {
        bool taken = false;
        if (atomic_compare_exchange_strong(&v->is_taken, &taken, true))
            return v;
    }
    v = hvd_calloc(1, sizeof(*v));
    if (!v)
        return NULL;
    atomic_store(&v->is_taken, true);
    v->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &v->next, v))
        ;
    return v;
}

static struct visitor *arrive(void)
{
    pthread_once(&once, begin);
    struct visitor *v = has_key ? take() : NULL;
    if (v && pthread_setspecific(key, v) != 0) {
        atomic_store(&v->is_taken, false);
        v = NULL;
    }
    self = v ? v : &others;
    return self;
}

void hvd_inside_enter(void)
{
    struct visitor *v = self ? self : arrive();

    if (v == &others) {
        atomic_fetch_add(&v->depth, 1);
        return;
    }
    const unsigned depth = atomic_load_explicit(&v->depth, memory_order_relaxed);
    atomic_store_explicit(&v->depth, depth + 1, memory_order_relaxed);
    if (has_membarrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_fetch_add(&v->depth, 0); /* a fence that sanitizers recognise */
}

void hvd_inside_exit(void)
{
    struct visitor *v = self;

    if (v == &others) {
        atomic_fetch_sub(&v->depth, 1);
        return;
    }
    const unsigned depth = atomic_load_explicit(&v->depth, memory_order_relaxed);
    atomic_store_explicit(&v->depth, depth - 1, memory_order_release);
}

void hvd_inside_drain(void)
{
    pthread_once(&once, begin);
    atomic_thread_fence(memory_order_seq_cst);
    if (has_membarrier)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    for (struct visitor *v = atomic_load(&all); v; v = v->next)
        while (atomic_load_explicit(&v->depth, memory_order_acquire) != 0)
            sched_yield();
}
