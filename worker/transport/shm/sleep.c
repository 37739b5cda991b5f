/*
 * Sleep until a peer writes something, and detection of a peer that never will.
 *
 * A rank about to sleep announces that, then looks once more. A writer first writes, then looks
 * whether its reader sleeps. Both have a full fence between the two steps. So at least one of them
 * sees the other: no wake-up is lost, and no system call is spent on a rank that is awake.
 *
 * A rank holds a lock on its byte of the segment's file. The kernel drops it when the process ends,
 * however it ends. Children do not inherit it, and it needs neither process numbers nor privileges.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/transport/shm/shm_internal.h"

#define IDLE_CALLS 1024
#define CHECK_NS 100000000
#define LETTER_NS 100000 /* the longest sleep while messages wait for room in a ring */

static void wake(struct hvd_shm_wake_flag *wake_flag)
{
    atomic_fetch_add(&wake_flag->doorbell, 1);
    (void)syscall(SYS_futex, &wake_flag->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wake_if_asleep(struct hvd_shm *s, int rank)
{
    if (!atomic_load_explicit(&s->doorbells[rank]->is_asleep, memory_order_relaxed))
        return;
    s->counts.wakes++;
    wake(s->doorbells[rank]);
}

void hvd_shm_ring_doorbell(struct hvd_shm *s, int rank)
{
    hvd_shm_fence();
    wake_if_asleep(s, rank);
}

void hvd_shm_ring_doorbells(struct hvd_shm *s)
{
    hvd_shm_fence();
    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        if (rank != s->base.topology.rank)
            wake_if_asleep(s, rank);
}

uint32_t hvd_shm_listen(struct hvd_transport *t)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_wake_flag *wake_flag = &s->wake_flags[t->topology.rank];
    const uint32_t ticket = atomic_load(&wake_flag->doorbell);

    atomic_store(&wake_flag->is_asleep, 1);
    hvd_shm_fence();
    return ticket;
}

void hvd_shm_sleep(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_wake_flag *wake_flag = &s->wake_flags[t->topology.rank];

    hvd_shm_flush(s);
    if (s->n_letters > 0 && (timeout_ns < 0 || timeout_ns > LETTER_NS))
        timeout_ns = LETTER_NS;
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                                     .tv_nsec = (long)(timeout_ns % 1000000000)};
    if (timeout_ns != 0 && !hvd_shm_has_mail(s) && !hvd_shm_can_move(s)) {
        s->counts.sleeps++;
        (void)syscall(SYS_futex, &wake_flag->doorbell, FUTEX_WAIT, ticket,
                      timeout_ns < 0 ? NULL : &timeout, NULL, 0);
    }
    atomic_store(&wake_flag->is_asleep, 0);
    s->n_idle = IDLE_CALLS; /* time has passed: check which ranks are alive */
}

void hvd_shm_wake(struct hvd_transport *t)
{
    const struct hvd_shm *s = (const struct hvd_shm *)t;

    wake(s->doorbells[t->topology.rank]);
}

bool hvd_shm_has_news(const struct hvd_transport *t)
{
    const struct hvd_shm *s = (const struct hvd_shm *)t;

    return hvd_shm_has_mail(s) || hvd_shm_can_move(s);
}

void hvd_shm_nudge(const struct hvd_transport *t, int rank)
{
    hvd_shm_ring_doorbell((struct hvd_shm *)t, rank);
}

/* --- Liveness --------------------------------------------------------------------------------- */

hvd_status_t hvd_shm_lock(const struct hvd_shm *s, struct hvd_err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = s->base.topology.rank, .l_len = 1};

    if (s->fd >= 0 && fcntl(s->fd, F_SETLK, &lock) != 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "no lock on the shared memory: %s",
                        strerror(errno));
    return HVD_OK;
}

static bool is_alive(struct hvd_shm *s, int rank)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = rank, .l_len = 1};

    if (rank == s->base.topology.rank || atomic_load(&s->wake_flags[rank].has_left))
        return true;
    s->counts.looks++;
    if (fcntl(s->fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK)
        return true;
    return atomic_load(&s->wake_flags[rank].has_left); /* it may have left between the two looks */
}

void hvd_shm_check_alive(struct hvd_shm *s)
{
    if (s->fd < 0 || s->n_idle++ < IDLE_CALLS)
        return;
    s->n_idle = 0;
    const int64_t now = hvd_clock_now_ns();
    if (now < s->next_check_ns)
        return;
    s->next_check_ns = now + CHECK_NS;
    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        if (s->is_lost[rank] || is_alive(s, rank))
            continue;
        s->is_lost[rank] = true;
        if (s->lost < 0)
            s->lost = rank;
    }
}
