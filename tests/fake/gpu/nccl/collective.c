/*
 * Collectives and messages: the kernel that does the parts of one group. A rank's contribution is
 * there for the others when its kernel starts; the kernel computes when all have started, and
 * writes at its end.
 */
#include "tests/fake/gpu/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake/gpu/nccl/arithmetic.h"

#define GARBAGE 0xdb /* what outputs hold whose collective did not end well */

struct kernel {
    struct ncclComm *comm;
    struct nccl_part *parts;
    bool is_published;
    uint64_t last; /* collective of it */
    uint64_t since_ms;
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void nccl_parts_destroy(struct nccl_part *parts)
{
    while (parts) {
        struct nccl_part *gone = parts;
        parts = gone->next;
        free(gone->result);
        free(gone);
    }
}

/* --- Sizes ------------------------------------------------------------------------------------ */

static size_t input_bytes(const struct nccl_part *part)
{
    const size_t bytes = part->count * arithmetic_size(part->type);

    switch (part->kind) {
    case NCCL_BROADCAST:
        return part->comm->rank == part->root ? bytes : 0;
    case NCCL_REDUCE_SCATTER:
        return bytes * (size_t)part->comm->n_ranks;
    case NCCL_RECV:
        return 0;
    default:
        return bytes;
    }
}

static size_t output_bytes(const struct nccl_part *part)
{
    const size_t bytes = part->count * arithmetic_size(part->type);

    switch (part->kind) {
    case NCCL_REDUCE:
        return part->comm->rank == part->root ? bytes : 0;
    case NCCL_ALLGATHER:
        return bytes * (size_t)part->comm->n_ranks;
    case NCCL_SEND:
        return 0;
    default:
        return bytes;
    }
}

const char *nccl_name_of(uint32_t kind)
{
    static const char *const names[] = {"ncclAllReduce", "ncclBroadcast",     "ncclReduce",
                                        "ncclAllGather", "ncclReduceScatter", "ncclSend",
                                        "ncclRecv"};

    return kind < sizeof(names) / sizeof(*names) ? names[kind] : "?";
}

/* --- Starting --------------------------------------------------------------------------------- */

/* Whether the memory may be accessed; reports what stands against it. */
static bool check_memory(struct fake_op *op, const struct nccl_part *part)
{
    bool is_good = fake_access_range(op, part->input, input_bytes(part), false);

    if (part->op == NCCL_PRE_MUL_SUM && part->scale.device_scalar)
        is_good =
            fake_access_range(op, part->scale.device_scalar, arithmetic_size(part->type), false) &&
            is_good;
    return fake_access_range(op, part->output, output_bytes(part), true) && is_good;
}

/* What the own contribution is multiplied by before it is sent, if it is. */
static const void *factor_of(const struct nccl_part *part, unsigned char scalar[8])
{
    if (part->op == HVD_NCCL_AVG && arithmetic_reciprocal(part->type, part->comm->n_ranks, scalar))
        return scalar;
    if (part->op != NCCL_PRE_MUL_SUM)
        return NULL;
    if (part->scale.device_scalar)
        memcpy(scalar, fake_at(part->scale.device_scalar), arithmetic_size(part->type));
    else
        memcpy(scalar, part->scale.scalar, 8);
    return scalar;
}

static void publish(struct ncclComm *comm, struct nccl_part *part)
{
    const size_t bytes = input_bytes(part);
    const int lane = part->kind == NCCL_SEND ? 1 + part->root : 0;
    unsigned char scalar[8];
    const struct meet_header header = {.kind = part->kind,
                                       .type = part->type,
                                       .op = part->op,
                                       .root = nccl_is_message(part->kind) ? 0 : part->root,
                                       .count = part->count,
                                       .bytes = bytes};
    char *copy = fake_calloc(bytes + 1, 1);

    if (part->is_good && bytes)
        memcpy(copy, fake_at(part->input), bytes);
    const void *factor = bytes ? factor_of(part, scalar) : NULL;
    if (factor && part->is_good)
        arithmetic_scale(part->type, copy, bytes / arithmetic_size(part->type), factor);
    if (part->kind != NCCL_RECV)
        meet_write(&comm->meet, lane, part->seq, &header, copy);
    free(copy);
    if (part->kind == NCCL_SEND)
        nccl_slot(comm, comm->rank)->sent[part->root] = part->seq;
    else if (part->kind != NCCL_RECV)
        nccl_slot(comm, comm->rank)->started = part->seq;
}

/* --- Computing -------------------------------------------------------------------------------- */

/* Compares what this rank does with what rank `other` does. */
static bool agrees(struct fake_op *op, const struct nccl_part *part, int other,
                   const struct meet_header *theirs)
{
    const struct ncclComm *comm = part->comm;
    const bool is_same =
        theirs->kind == (uint32_t)(part->kind == NCCL_RECV ? NCCL_SEND : part->kind) &&
        theirs->type == part->type && theirs->op == part->op &&
        theirs->root == (nccl_is_message(part->kind) ? 0 : part->root) &&
        theirs->count == part->count;
    const bool is_ours = other < comm->rank || part->kind == NCCL_RECV ||
                         nccl_slot(comm, other)->pid != nccl_slot(comm, comm->rank)->pid;

    if (!is_same && is_ours && !op->is_reported) {
        op->is_reported = true; /* one of the two in a process reports */
        fake_report(FAKE_GPU_MISMATCH,
                    "%s: rank %d has %zu elements of type %u, operation %u, root %d; rank %d calls "
                    "%s with %llu of type %u, operation %u, root %d",
                    op->access->what, comm->rank, part->count, part->type, part->op, part->root,
                    other, nccl_name_of(theirs->kind), (unsigned long long)theirs->count,
                    theirs->type, theirs->op, theirs->root);
    }
    return is_same;
}

static bool all_agree(struct fake_op *op, const struct nccl_part *part)
{
    bool is_good = true;

    for (int r = 0; r < part->comm->n_ranks; r++) {
        const struct meet_header theirs = meet_header_of(&part->comm->meet, r, 0, part->seq);
        is_good = agrees(op, part, r, &theirs) && is_good;
    }
    return is_good;
}

/* Reduces n elements of all ranks, from an offset in their contributions. */
static void reduce(const struct nccl_part *part, size_t offset, void *to)
{
    const struct ncclComm *comm = part->comm;
    const size_t bytes = part->count * arithmetic_size(part->type);
    const hvd_nccl_op_t op =
        part->op == HVD_NCCL_AVG || part->op == NCCL_PRE_MUL_SUM ? HVD_NCCL_SUM : part->op;
    char *all = fake_calloc(offset + bytes + 1, 1);
    unsigned char scalar[8];

    for (int r = 0; r < comm->n_ranks; r++) {
        meet_read(&comm->meet, r, 0, part->seq, all, offset + bytes);
        if (r == 0)
            memcpy(to, all + offset, bytes);
        else
            arithmetic_reduce(part->type, op, to, all + offset, part->count);
    }
    free(all);
    if (part->op == HVD_NCCL_AVG && !arithmetic_reciprocal(part->type, comm->n_ranks, scalar))
        arithmetic_divide(part->type, to, part->count, comm->n_ranks);
}

static void compute(struct nccl_part *part)
{
    const struct ncclComm *comm = part->comm;
    const size_t bytes = part->count * arithmetic_size(part->type);

    switch (part->kind) {
    case NCCL_BROADCAST:
        meet_read(&comm->meet, part->root, 0, part->seq, part->result, bytes);
        break;
    case NCCL_ALLGATHER:
        for (int r = 0; r < comm->n_ranks; r++)
            meet_read(&comm->meet, r, 0, part->seq, (char *)part->result + bytes * (size_t)r,
                      bytes);
        break;
    case NCCL_REDUCE_SCATTER:
        reduce(part, bytes * (size_t)comm->rank, part->result);
        break;
    case NCCL_RECV:
        meet_read(&comm->meet, part->root, 1 + comm->rank, part->seq, part->result, bytes);
        break;
    case NCCL_SEND:
        break;
    default:
        if (part->result_bytes)
            reduce(part, 0, part->result);
        break;
    }
}

/* Whether all that the part needs of the others is there. */
static bool is_ready(const struct nccl_part *part)
{
    const struct ncclComm *comm = part->comm;

    if (part->kind == NCCL_SEND)
        return nccl_slot(comm, part->root)->received[comm->rank] >= part->seq;
    if (part->kind == NCCL_RECV)
        return nccl_slot(comm, part->root)->sent[comm->rank] >= part->seq;
    for (int r = 0; r < comm->n_ranks; r++)
        if (nccl_slot(comm, r)->started < part->seq)
            return false;
    return true;
}

static void complete(struct fake_op *op, struct nccl_part *part)
{
    struct ncclComm *comm = part->comm;
    bool is_good = part->is_good;

    part->is_complete = true;
    part->result_bytes = output_bytes(part);
    part->result = fake_calloc(part->result_bytes + 1, 1);
    if (part->kind == NCCL_RECV) {
        const struct meet_header theirs =
            meet_header_of(&comm->meet, part->root, 1 + comm->rank, part->seq);
        is_good = agrees(op, part, part->root, &theirs) && is_good;
    } else if (part->kind != NCCL_SEND) {
        is_good = all_agree(op, part) && is_good;
    }
    if (is_good)
        compute(part);
    else
        memset(part->result, GARBAGE, part->result_bytes);
    if (part->kind == NCCL_RECV)
        nccl_slot(comm, comm->rank)->received[part->root] = part->seq;
    if (part->kind == NCCL_SEND)
        meet_forget(&comm->meet, 1 + part->root, part->seq);
}

/* --- Ranks that are stuck --------------------------------------------------------------------- */

/* A rank that has called the collective without being able to start it; -1 if there is none. */
static int stuck_rank(const struct nccl_part *part, bool is_blocked_too)
{
    const struct ncclComm *comm = part->comm;

    for (int r = 0; r < comm->n_ranks; r++) {
        const struct meet_slot *slot = nccl_slot(comm, r);
        if (slot->started < part->seq && slot->enqueued >= part->seq &&
            (!is_blocked_too || slot->blocked >= part->seq))
            return r;
    }
    return -1;
}

static const char *kernel_name(const struct kernel *kernel)
{
    return nccl_name_of(kernel->parts->kind);
}

static enum fake_step step(struct fake_op *op);

/* What cannot start on this device, as this kernel waits for a rank that cannot start it. */
static void mark_blocked(const struct fake_op *op)
{
    for (struct CUstream_st *s = op->stream->context->streams; s; s = s->next) {
        for (const struct fake_op *other = s->first; other; other = other->next) {
            if (other->step != step || other->is_started || !fake_cannot_start(other))
                continue;
            const struct kernel *kernel = other->data;
            nccl_slot(kernel->comm, kernel->comm->rank)->blocked = kernel->last;
        }
    }
}

/* Two ranks that each wait for a collective which the other cannot start have launched them in
 * different orders, without room for both. */
static void check_stuck(struct fake_op *op, const struct nccl_part *part)
{
    struct kernel *kernel = op->data;
    const uint64_t limit_ms = (uint64_t)fake_option(FAKE_GPU_STUCK_MS);

    if (now_ms() - kernel->since_ms < limit_ms || nccl_is_message(part->kind) ||
        stuck_rank(part, false) < 0)
        return;
    mark_blocked(op);
    const int rank = stuck_rank(part, true);
    if (rank < 0 || op->is_reported)
        return;
    op->is_reported = true;
    fake_report(
        FAKE_GPU_LAUNCH_ORDER,
        "%s %llu of communicator %d runs on rank %d and waits for rank %d, which has called "
        "it, but cannot start it behind another collective",
        kernel_name(kernel), (unsigned long long)part->seq, part->comm->number, part->comm->rank,
        rank);
}

/* --- The kernel ------------------------------------------------------------------------------- */

static void write_result(const struct nccl_part *part)
{
    if (part->is_good && part->result_bytes)
        memcpy(fake_at(part->output), part->result, part->result_bytes);
}

static void write_garbage(struct fake_op *op, const struct kernel *kernel)
{
    for (const struct nccl_part *part = kernel->parts; part; part = part->next)
        if (output_bytes(part) && (kernel->is_published ? part->is_good : check_memory(op, part)))
            memset(fake_at(part->output), GARBAGE, output_bytes(part));
}

static bool is_canceled(struct fake_op *op)
{
    const struct kernel *kernel = op->data;

    return kernel->comm->is_aborted;
}

static void start(struct fake_op *op, struct kernel *kernel)
{
    kernel->is_published = true;
    kernel->since_ms = now_ms();
    for (struct nccl_part *part = kernel->parts; part; part = part->next) {
        part->is_good = check_memory(op, part);
        publish(kernel->comm, part);
    }
    fake_wake();
}

static enum fake_step step(struct fake_op *op)
{
    struct kernel *kernel = op->data;
    struct nccl_part *waiting = NULL;

    if (is_canceled(op)) {
        write_garbage(op, kernel);
        return FAKE_DONE;
    }
    if (!kernel->is_published)
        start(op, kernel);
    for (struct nccl_part *part = kernel->parts; part; part = part->next) {
        if (!part->is_complete && is_ready(part))
            complete(op, part);
        if (!part->is_complete && !waiting)
            waiting = part;
    }
    if (waiting) {
        check_stuck(op, waiting);
        return FAKE_AGAIN;
    }
    for (const struct nccl_part *part = kernel->parts; part; part = part->next)
        write_result(part);
    if (kernel->last)
        nccl_slot(kernel->comm, kernel->comm->rank)->read = kernel->last;
    meet_drop(&kernel->comm->meet);
    return FAKE_DONE;
}

static void fini(struct fake_op *op)
{
    struct kernel *kernel = op->data;

    kernel->comm->n_in_flight--;
    nccl_parts_destroy(kernel->parts);
}

/* --- Launching -------------------------------------------------------------------------------- */

/* Gives the parts their numbers. Returns the number of the last collective, or 0. */
static uint64_t number_parts(struct ncclComm *comm, struct nccl_part *parts)
{
    uint64_t last = 0;

    for (struct nccl_part *part = parts; part; part = part->next) {
        if (part->kind == NCCL_SEND)
            part->seq = ++comm->n_sent[part->root];
        else if (part->kind == NCCL_RECV)
            part->seq = ++comm->n_received[part->root];
        else
            last = part->seq = ++comm->n_collectives;
    }
    if (last)
        nccl_slot(comm, comm->rank)->enqueued = last;
    return last;
}

static enum fake_step do_nothing(struct fake_op *op)
{
    (void)op;
    return FAKE_DONE;
}

/* What the kernel waits for beside its own stream: the other streams of the group, and in program
 * order the collectives in front of it. */
static unsigned collect_deps(const struct ncclComm *comm, const struct nccl_part *parts,
                             struct fake_dep *deps, unsigned max, struct fake_clock *learned)
{
    unsigned n = 0;

    for (const struct nccl_part *part = parts->next, *before = parts; part && n < max;
         before = part, part = part->next) {
        if (part->stream == parts->stream || part->stream == before->stream)
            continue;
        fake_clock_join(learned, &part->stream->clock);
        deps[n++] = (struct fake_dep){.stream = part->stream, .seq = part->stream->enqueued};
    }
    if (!fake_option(FAKE_GPU_LAUNCH_ORDER_IMPLICIT))
        return n;
    for (struct CUstream_st *s = comm->context->streams; s && n < max; s = s->next)
        if (s->last_collective)
            deps[n++] = (struct fake_dep){.stream = s, .seq = s->last_collective};
    return n;
}

/* The other streams of the group go on when the kernel is done. */
static void join_streams(const struct nccl_part *parts, struct CUstream_st *stream)
{
    const struct fake_dep dep = {.stream = stream, .seq = stream->enqueued};
    const struct fake_op op = {
        .call = "ncclGroupEnd", .step = do_nothing, .learns = &stream->clock};

    for (const struct nccl_part *part = parts, *before = parts; part; part = part->next) {
        if (part->stream != stream && part->stream != before->stream)
            (void)fake_enqueue(part->stream, &op, &dep, 1);
        before = part;
    }
}

/* One rank alone copies; only a scaling needs a kernel. */
static bool needs_kernel(const struct ncclComm *comm, const struct nccl_part *parts)
{
    for (const struct nccl_part *part = parts; part; part = part->next)
        if (comm->n_ranks > 1 || part->op == NCCL_PRE_MUL_SUM)
            return true;
    return false;
}

#define MAX_DEPS 256

hvd_nccl_result_t nccl_launch(struct ncclComm *comm, struct nccl_part *parts)
{
    struct kernel *kernel = fake_calloc(1, sizeof(*kernel));
    struct fake_dep *deps = fake_calloc(MAX_DEPS, sizeof(*deps));
    struct CUstream_st *stream = parts->stream;
    struct fake_clock learned = {0};
    struct fake_op op = {.call = nccl_name_of(parts->kind),
                         .step = step,
                         .is_canceled = is_canceled,
                         .fini = fini,
                         .data = kernel,
                         .is_collective = comm->n_ranks > 1,
                         .learns = &learned};

    *kernel = (struct kernel){.comm = comm, .parts = parts, .last = number_parts(comm, parts)};
    if (needs_kernel(comm, parts)) {
        op.n_multiprocessors = comm->n_channels;
        if (!fake_is_program())
            fake_counts()->launches++;
    }
    snprintf(op.what, sizeof(op.what), "of %zu elements, number %llu of communicator %d, rank %d",
             parts->count, (unsigned long long)parts->seq, comm->number, comm->rank);
    comm->n_in_flight++;
    const unsigned n_deps = collect_deps(comm, parts, deps, MAX_DEPS, &learned);
    /* From here on the stream owns the kernel and its parts. */
    struct nccl_part *copy = NULL;
    struct nccl_part **end = &copy;
    for (const struct nccl_part *part = parts; part; part = part->next) {
        *end = fake_calloc(1, sizeof(**end));
        (*end)->stream = part->stream;
        end = &(*end)->next;
    }
    const hvd_cu_result_t result = fake_enqueue(stream, &op, deps, n_deps);
    if (result == 0)
        join_streams(copy, stream);
    nccl_parts_destroy(copy);
    free(learned.at);
    free(deps);
    return result == 0 ? HVD_NCCL_SUCCESS
                       : nccl_fail(comm, HVD_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u", result);
}
