/*
 * Groups: what a thread calls between ncclGroupStart and the outermost ncclGroupEnd happens at that
 * end. A call outside of a group is a group of one.
 */
#include "tests/fake/gpu/nccl/nccl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* An initialisation or an abort in a group. */
struct pending {
    struct pending *next;
    struct ncclComm *comm;
    struct ncclComm **out; /* NULL: an abort */
};

static _Thread_local int depth;
static _Thread_local struct nccl_part *parts;
static _Thread_local struct pending *pending;
static _Thread_local hvd_nccl_result_t first_error;

bool nccl_is_grouped(void)
{
    return depth > 0;
}

/* --- Connections ------------------------------------------------------------------------------ */

/* Shows the peers what this rank is ready to connect. All communicators of a group do before one
 * waits. */
static void offer(const struct nccl_part *first)
{
    for (const struct nccl_part *part = first; part; part = part->next) {
        struct ncclComm *comm = part->comm;
        struct meet_slot *slot = nccl_slot(comm, comm->rank);
        const bool is_message = nccl_is_message(part->kind);
        const uint32_t bit = 1U << (is_message ? part->root : (int)part->kind);
        _Atomic uint32_t *bits = is_message ? &slot->peers : &slot->connected;

        if (comm->n_ranks > 1 && !(is_message && part->root == comm->rank) &&
            !(atomic_fetch_or(bits, bit) & bit))
            comm->must_connect = true;
    }
}

static bool is_answered(const struct ncclComm *comm, const struct nccl_part *part)
{
    if (nccl_is_message(part->kind))
        return part->root == comm->rank || (nccl_slot(comm, part->root)->peers & 1U << comm->rank);
    for (int r = 0; r < comm->n_ranks; r++)
        if (!(nccl_slot(comm, r)->connected & 1U << part->kind))
            return false;
    return true;
}

/* A rank that connects what this one does not, which therefore never answers; -1: none. */
static int rank_elsewhere(const struct ncclComm *comm)
{
    const uint32_t own = nccl_slot(comm, comm->rank)->connected;

    for (int r = 0; r < comm->n_ranks; r++)
        if (nccl_slot(comm, r)->connected & ~own)
            return r;
    return -1;
}

/* Reports why the peers do not answer, if it is to be seen. */
static bool report_stuck(const struct ncclComm *comm, const struct nccl_part *part)
{
    const int other = rank_elsewhere(comm);

    if (other >= 0) {
        fake_report(FAKE_GPU_MISMATCH,
                    "rank %d connects for kind %d of communicator %d, rank %d for another",
                    comm->rank, (int)part->kind, comm->number, other);
        return true;
    }
    for (const struct ncclComm *c = nccl_comms(); c; c = c->next) {
        if (c == comm || c->context != comm->context || c->life != NCCL_ALIVE || c->is_freed ||
            !c->meet.segment || rank_elsewhere(c) < 0)
            continue;
        fake_report(FAKE_GPU_LAUNCH_ORDER,
                    "rank %d connects communicator %d inside a call, and rank %d of communicator "
                    "%d does the same and waits for this one",
                    comm->rank, comm->number, rank_elsewhere(c), c->number);
        return true;
    }
    return false;
}

/* Waits until the peers are ready, too: what the first use of an algorithm does. */
static hvd_nccl_result_t connect_all(struct ncclComm *comm, const struct nccl_part *first)
{
    const uint64_t limit_us = (uint64_t)fake_option(FAKE_GPU_STUCK_MS) * 1000;
    uint64_t waited_us = 0; /* at least */

    if (!comm->must_connect)
        return HVD_NCCL_SUCCESS;
    comm->must_connect = false;
    fake_count_blocking();
    for (const struct nccl_part *part = first; part; part = part->next) {
        while (!is_answered(comm, part) && !comm->is_aborted) {
            fake_wait(200);
            waited_us += 200;
            if (waited_us < limit_us)
                continue;
            waited_us = 0;
            if (report_stuck(comm, part))
                return nccl_fail(comm, HVD_NCCL_INTERNAL_ERROR, "this would hang");
        }
    }
    return comm->is_aborted ? nccl_fail(comm, HVD_NCCL_INTERNAL_ERROR, "aborted while connecting")
                            : HVD_NCCL_SUCCESS;
}

/* --- Launching -------------------------------------------------------------------------------- */

/* Takes the parts of one communicator out of a list, in their order. */
static struct nccl_part *take_parts(struct nccl_part **list, const struct ncclComm *comm)
{
    struct nccl_part *taken = NULL;
    struct nccl_part **end = &taken;

    for (struct nccl_part **at = list; *at;) {
        struct nccl_part *part = *at;
        if (part->comm != comm) {
            at = &part->next;
            continue;
        }
        *at = part->next;
        part->next = NULL;
        *end = part;
        end = &part->next;
    }
    return taken;
}

static hvd_nccl_result_t run(struct ncclComm *comm, void *data)
{
    struct nccl_part *mine = data;

    comm->n_in_flight++; /* an abort in another thread does not free the communicator meanwhile */
    hvd_nccl_result_t result = connect_all(comm, mine);
    if (result == 0)
        result = nccl_launch(comm, mine);
    else
        nccl_parts_destroy(mine);
    comm->n_in_flight--;
    fake_wake();
    return result;
}

/* Launches one communicator after the other. */
static hvd_nccl_result_t run_parts(struct nccl_part *list)
{
    hvd_nccl_result_t result = HVD_NCCL_SUCCESS;

    if (fake_option(FAKE_GPU_RUNTIME_CONNECT))
        offer(list);
    while (list) {
        struct ncclComm *comm = list->comm;
        struct nccl_part *mine = take_parts(&list, comm);
        hvd_nccl_result_t one = HVD_NCCL_IN_PROGRESS;
        if (comm->is_blocking)
            one = run(comm, mine);
        else
            nccl_run_aside(comm, run, mine);
        if (result == 0 || (result == HVD_NCCL_IN_PROGRESS && one != 0))
            result = one;
    }
    return result;
}

/* --- Threads ---------------------------------------------------------------------------------- */

struct aside {
    struct ncclComm *comm;
    hvd_nccl_result_t (*run)(struct ncclComm *, void *);
    void *data;
};

static void *run_aside(void *at)
{
    struct aside *aside = at;

    fake_lock();
    const hvd_nccl_result_t result = aside->run(aside->comm, aside->data);
    aside->comm->result = result;
    fake_wake();
    fake_unlock();
    free(aside);
    return NULL;
}

void nccl_run_aside(struct ncclComm *comm, hvd_nccl_result_t (*call)(struct ncclComm *, void *),
                    void *data)
{
    struct aside *aside = fake_calloc(1, sizeof(*aside));
    pthread_t thread;

    *aside = (struct aside){.comm = comm, .run = call, .data = data};
    comm->result = HVD_NCCL_IN_PROGRESS;
    if (pthread_create(&thread, NULL, run_aside, aside) != 0)
        fake_die("cannot start a thread");
    pthread_detach(thread);
}

/* --- Calls in groups -------------------------------------------------------------------------- */

hvd_nccl_result_t nccl_group_put(const struct nccl_part *like)
{
    struct nccl_part *part = fake_calloc(1, sizeof(*part));

    *part = *like;
    if (depth == 0)
        return run_parts(part);
    struct nccl_part **end = &parts;
    while (*end)
        end = &(*end)->next;
    *end = part;
    return HVD_NCCL_SUCCESS;
}

static void put_pending(struct ncclComm *comm, struct ncclComm **out)
{
    struct pending *made = fake_calloc(1, sizeof(*made));
    struct pending **end = &pending;

    *made = (struct pending){.comm = comm, .out = out};
    while (*end)
        end = &(*end)->next;
    *end = made;
}

hvd_nccl_result_t nccl_group_init(struct ncclComm *comm, struct ncclComm **out)
{
    put_pending(comm, out);
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t nccl_group_abort(struct ncclComm *comm)
{
    if (depth == 0)
        nccl_abort_end(comm);
    else
        put_pending(comm, NULL);
    return HVD_NCCL_SUCCESS;
}

/* All come to their meetings before one waits. */
static hvd_nccl_result_t run_inits(const struct pending *list)
{
    hvd_nccl_result_t result = HVD_NCCL_SUCCESS;

    for (const struct pending *p = list; p && result == 0; p = p->next)
        if (p->out)
            result = nccl_init_begin(p->comm);
    for (const struct pending *p = list; p && result == 0; p = p->next)
        if (p->out)
            result = nccl_init_open(p->comm);
    for (const struct pending *p = list; p && result == 0; p = p->next) {
        if (!p->out)
            continue;
        fake_count_blocking();
        result = nccl_init_end(p->comm);
        if (result == 0)
            *p->out = p->comm;
    }
    return result;
}

static hvd_nccl_result_t end_group(void)
{
    struct nccl_part *list = parts;
    struct pending *others = pending;
    hvd_nccl_result_t result = first_error;

    parts = NULL;
    pending = NULL;
    first_error = HVD_NCCL_SUCCESS;
    if (result == 0)
        result = run_inits(others);
    if (result == 0)
        result = run_parts(list);
    else
        nccl_parts_destroy(list);
    while (others) {
        struct pending *gone = others;
        if (!gone->out)
            nccl_abort_end(gone->comm);
        others = gone->next;
        free(gone);
    }
    return result;
}

hvd_nccl_result_t ncclGroupStart(void)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclGroupStart);

    if (result == 0)
        depth++;
    return fake_end(result);
}

hvd_nccl_result_t ncclGroupEnd(void)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclGroupEnd);

    if (result != 0 && depth > 0) { /* a fault: nothing of the group happens */
        first_error = result;
        result = HVD_NCCL_SUCCESS;
    }
    if (result == 0 && depth == 0)
        result = nccl_fail(NULL, HVD_NCCL_INVALID_USAGE, "ncclGroupEnd: not in a group call.");
    else if (result == 0 && --depth == 0)
        result = end_group();
    return fake_end(result);
}
