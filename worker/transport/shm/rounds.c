/*
 * Runs the collectives of a rank in the order of their starts, round by round; shm_internal.h
 * defines a round. Calls of start and test move all that can move. They wait no longer than a peer
 * on another processor takes to write a flag, and not at all for one on the same processor, which
 * cannot run meanwhile.
 */
#include <sched.h>
#include <utlist.h>

#include "base/mem.h"
#include "worker/transport/shm/shm_internal.h"

#define BUSY_MAX 256 /* rounds in a call, so that control messages get their turn */

/* Whether every rank has posted so many rounds. `which` is the round whose cells to read. */
static bool all_posted(const struct hvd_shm *s, uint64_t rounds)
{
    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        if (atomic_load_explicit(&hvd_shm_cell(s, rank, rounds - 1)->posted, memory_order_acquire) <
            rounds)
            return false;
    return true;
}

static bool is_ready(const struct hvd_shm *s, const struct hvd_shm_move *mv)
{
    if (!mv->is_posted)
        return s->round == 0 || all_posted(s, s->round);
    if (mv->waits_for < 0)
        return all_posted(s, s->round + 1);
    return atomic_load_explicit(&hvd_shm_cell(s, mv->waits_for, s->round)->posted,
                                memory_order_acquire) > s->round;
}

/* Whether a collective waits for that rank, which has not posted so many rounds. */
static bool is_late(const struct hvd_shm *s, const struct hvd_shm_move *mv, int rank,
                    uint64_t rounds)
{
    return (!mv->is_posted || mv->waits_for < 0 || mv->waits_for == rank) &&
           atomic_load_explicit(&hvd_shm_cell(s, rank, rounds - 1)->posted, memory_order_acquire) <
               rounds;
}

/* All collectives wait for the first one, and that one for the ranks that have not posted its
 * round. */
int hvd_shm_awaits(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room)
{
    const struct hvd_shm *s = (const struct hvd_shm *)t;
    const struct hvd_shm_move *mv = s->first;
    int n = 0;

    (void)c;
    if (!mv || (!mv->is_posted && s->round == 0))
        return 0;
    const uint64_t rounds = s->round + mv->is_posted;
    for (int rank = 0; rank < s->shape.n_ranks && n < room; rank++)
        if (is_late(s, mv, rank, rounds))
            ranks[n++] = s->names[rank];
    return n;
}

/* A rank that is late has posted the round before. */
bool hvd_shm_blocks_peer(const struct hvd_transport *t)
{
    const struct hvd_shm *s = (const struct hvd_shm *)t;
    const struct hvd_shm_move *mv = s->first;
    const uint64_t rounds = mv ? s->round + mv->is_posted : 0;

    if (rounds < 2)
        return false;
    const int here = sched_getcpu();
    for (int rank = 0; rank < s->shape.n_ranks && here >= 0; rank++)
        if (is_late(s, mv, rank, rounds) &&
            atomic_load_explicit(&hvd_shm_cell(s, rank, rounds - 2)->processor,
                                 memory_order_relaxed) == here)
            return true;
    return false;
}

/* Counts half rounds: all collectives move in them, one after the other. */
uint64_t hvd_shm_moved(struct hvd_transport *t, const struct hvd_collective *c)
{
    const struct hvd_shm *s = (const struct hvd_shm *)t;

    (void)c;
    return 2 * s->round + (s->first && s->first->is_posted);
}

static void post(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    struct hvd_shm_cell *cell = hvd_shm_cell(s, s->base.topology.rank, s->round);

    mv->steps->write(s, mv);
    atomic_store_explicit(&cell->processor, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&cell->posted, s->round + 1, memory_order_release);
    mv->is_posted = true;
    hvd_shm_ring_doorbells(s);
}

/* Removes a collective that is finished, or abandoned. */
static void remove_move(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    DL_DELETE(s->first, mv);
    hvd_free(mv->input_copy);
    mv->input_copy = NULL;
}

/* Moves the first collective, which is ready, by half a round. */
static void advance(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    if (!mv->is_posted) {
        post(s, mv);
        return;
    }
    mv->is_done = mv->steps->read(s, mv);
    mv->is_posted = false;
    s->round++;
    s->counts.rounds++;
    if (mv->is_done)
        remove_move(s, mv);
}

/* Polls up to n_spins times until the first collective is ready; whether it is. */
static bool poll_first(struct hvd_shm *s, unsigned n_spins)
{
    if (is_ready(s, s->first))
        return true;
    if (n_spins == 0 || hvd_shm_blocks_peer(&s->base))
        return false;
    for (unsigned n = 0; n < n_spins; n++) {
        if (is_ready(s, s->first))
            return true;
        s->counts.polls++;
    }
    return false;
}

/* Moves as far as possible, and polls up to n_spins times for more. */
static bool progress(struct hvd_shm *s, unsigned n_spins)
{
    bool progressed = false;

    for (int busy = 0; s->first && !s->is_broken && busy < BUSY_MAX; busy++) {
        if (!poll_first(s, n_spins))
            break;
        advance(s, s->first);
        progressed = true;
    }
    return progressed;
}

bool hvd_shm_can_move(const struct hvd_shm *s)
{
    return s->first && !s->is_broken && is_ready(s, s->first);
}

static hvd_status_t prepare(struct hvd_shm *s, struct hvd_shm_move *mv, struct hvd_err *err)
{
    switch ((int)mv->c->op) {
    case HVD_ALLREDUCE:
        hvd_shm_prepare_allreduce(s, mv);
        return HVD_OK;
    case HVD_BROADCAST:
        hvd_shm_prepare_broadcast(s, mv);
        return HVD_OK;
    case HVD_ALLGATHER:
        hvd_shm_prepare_allgather(s, mv);
        return HVD_OK;
    case HVD_ALLTOALL:
        return hvd_shm_prepare_alltoall(s, mv, err);
    case HVD_REDUCESCATTER:
        hvd_shm_prepare_reducescatter(s, mv);
        return HVD_OK;
    default:
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s moves no data", hvd_op_name((int)mv->c->op));
    }
}

hvd_status_t hvd_shm_start(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_move *mv = s->spare;

    if (mv)
        s->spare = mv->next;
    else
        mv = hvd_malloc(1, sizeof(*mv));
    if (!mv)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    hvd_shm_tune_once(s);
    *mv = (struct hvd_shm_move){.c = c, .waits_for = -1};
    hvd_status_t st = prepare(s, mv, err);
    if (st != HVD_OK) {
        LL_PREPEND(s->spare, mv);
        return st;
    }
    c->_state = mv;
    DL_APPEND(s->first, mv);
    progress(s, 1);
    return HVD_OK;
}

hvd_status_t hvd_shm_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_move *mv = c->_state;

    /* All wait for the first one. Were the others to poll as well, a rank would poll for longer
     * before it sleeps, the more collectives it has started. */
    if (!mv->is_done && !progress(s, mv == s->first ? s->n_spins : 0)) {
        hvd_shm_flush(s);
        hvd_shm_check_alive(s);
    }
    if (!mv->is_done && s->lost >= 0)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0,
                        "rank %d is lost: its process ended during the job", s->names[s->lost]);
    if (!mv->is_done)
        return HVD_INPROGRESS;
    LL_PREPEND(s->spare, mv);
    c->_state = NULL;
    return HVD_OK;
}

/* From here on the rounds of the ranks are out of step, so nothing moves any more. */
void hvd_shm_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_move *mv = c->_state;

    if (!mv->is_done) {
        s->is_broken = true;
        remove_move(s, mv);
    }
    c->_state = NULL;
    LL_PREPEND(s->spare, mv);
}

static void free_moves(struct hvd_shm_move *mv)
{
    while (mv) {
        struct hvd_shm_move *next = mv->next;
        hvd_free(mv->input_copy);
        hvd_free(mv);
        mv = next;
    }
}

void hvd_shm_moves_fini(struct hvd_shm *s)
{
    free_moves(s->first);
    free_moves(s->spare);
}
