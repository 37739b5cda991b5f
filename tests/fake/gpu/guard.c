/*
 * What the host sees in pinned memory. The host may learn from a value that a stream has written,
 * without a call. So the pages of such a value are closed to the program when the stream writes;
 * the first access behind that faults, the handler opens the pages again, and the next call of the
 * double takes into account what the host has seen. With the option GUARD_PINNED, pinned memory
 * that copies and kernels write is treated alike, and an access before the host has waited is a
 * race. System calls do not fault: they fail on a closed page, so that option is for programs that
 * access pinned memory themselves.
 */
#include "tests/fake/gpu/machine.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_GUARDS 256

/* The handler reads the addresses; all else is under the lock. */
struct guard {
    _Atomic(char *) first; /* NULL: the place is free */
    _Atomic size_t bytes;
    _Atomic uint64_t touched; /* when the program came to the closed pages; 0: not yet */
    struct fake_block *block;
    bool is_value;            /* else data */
    struct fake_clock wrote;  /* what a look at the value shows now */
    struct fake_clock showed; /* and what looks before the latest write have shown */
};

static struct guard guards[MAX_GUARDS];
static _Atomic uint64_t n_touches;
static struct sigaction before; /* the handler of the program */

static void on_fault(int signal, siginfo_t *info, void *context)
{
    char *at = info->si_addr;

    for (int i = 0; i < MAX_GUARDS; i++) {
        char *first = atomic_load(&guards[i].first);
        const size_t bytes = atomic_load(&guards[i].bytes);
        if (!first || at < first || at >= first + bytes)
            continue;
        if (atomic_load(&guards[i].touched) == 0)
            atomic_store(&guards[i].touched, atomic_fetch_add(&n_touches, 1) + 1);
        mprotect(first, bytes, PROT_READ | PROT_WRITE);
        return;
    }
    if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
    else
        sigaction(signal, &before, NULL); /* it faults again, and the program ends */
}

/* Test frameworks install handlers of their own, so this looks each time. */
static void install(void)
{
    struct sigaction now;
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

    sigaction(SIGSEGV, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
        return;
    before = now;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, NULL);
}

static struct guard *guard_of(struct fake_block *block, bool is_value)
{
    struct guard *place = NULL;

    for (int i = 0; i < MAX_GUARDS; i++) {
        if (guards[i].block == block)
            return &guards[i];
        if (!guards[i].block && !place)
            place = &guards[i];
    }
    if (!place)
        return NULL; /* what is beyond them is not watched */
    place->block = block;
    place->is_value = is_value;
    atomic_store(&place->touched, 0);
    atomic_store(&place->bytes, block->pages);
    atomic_store(&place->first, block->first);
    return place;
}

static void close_pages(struct guard *guard)
{
    install();
    mprotect(guard->block->first, guard->block->pages, PROT_NONE);
}

void fake_guard_value(struct fake_op *op, struct fake_block *block)
{
    struct CUctx_st *context = block->context;

    if (!fake_option(FAKE_GPU_GUARD_VALUES)) {
        fake_clock_join(&context->host, &op->clock);
        return;
    }
    struct guard *guard = guard_of(block, true);
    if (!guard)
        return;
    if (atomic_exchange(&guard->touched, 0) != 0)
        fake_clock_join(&guard->showed, &guard->wrote);
    close_pages(guard);
    fake_clock_join(&guard->wrote, &op->clock);
}

void fake_guard_data(struct fake_op *op, struct fake_block *block)
{
    struct guard *guard = fake_option(FAKE_GPU_GUARD_PINNED) ? guard_of(block, false) : NULL;

    if (!guard || guard->is_value)
        return;
    fake_clock_join(&guard->wrote, &op->clock);
    close_pages(guard);
}

void fake_guard_end(struct fake_block *block)
{
    for (int i = 0; i < MAX_GUARDS; i++) {
        struct guard *guard = &guards[i];
        if (guard->block != block)
            continue;
        atomic_store(&guard->first, NULL);
        guard->block = NULL;
        fake_clock_fini(&guard->wrote);
        fake_clock_fini(&guard->showed);
    }
}

/* The guard that was touched first, of those that were. */
static struct guard *next_touched(void)
{
    struct guard *first = NULL;
    uint64_t when = UINT64_MAX;

    for (int i = 0; i < MAX_GUARDS; i++) {
        const uint64_t touched = guards[i].block ? atomic_load(&guards[i].touched) : 0;
        if (touched == 0 || touched >= when)
            continue;
        first = &guards[i];
        when = touched;
    }
    return first;
}

void fake_guard_look(void)
{
    bool is_any = false;

    for (int i = 0; i < MAX_GUARDS; i++) {
        struct guard *guard = &guards[i];
        if (!guard->block)
            continue;
        is_any = true;
        if (guard->is_value)
            fake_clock_join(&guard->block->context->host, &guard->showed);
    }
    for (struct guard *guard = next_touched(); guard; guard = next_touched()) {
        struct CUctx_st *context = guard->block->context;
        atomic_store(&guard->touched, 0);
        if (guard->is_value) {
            fake_clock_join(&context->host, &guard->wrote);
        } else if (!fake_clock_covers(&context->host, &guard->wrote)) {
            fake_report(
                FAKE_GPU_RACE,
                "the host accesses pinned memory of %zu bytes at %p, which a stream writes, "
                "unordered",
                guard->block->bytes, (void *)guard->block->at);
        }
    }
    if (is_any)
        install();
}
