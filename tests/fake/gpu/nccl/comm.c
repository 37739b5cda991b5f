/*
 * Communicators: how they begin and end, and questions about them.
 */
#include "tests/fake/gpu/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake/gpu/nccl/arithmetic.h"

static struct ncclComm *comms;
static int n_comms;
static _Thread_local char last_error[256];

struct ncclComm *nccl_comms(void)
{
    return comms;
}

struct meet_slot *nccl_slot(const struct ncclComm *comm, int rank)
{
    return &comm->meet.segment->slots[rank];
}

hvd_nccl_result_t nccl_fail(struct ncclComm *comm, hvd_nccl_result_t result, const char *format,
                            ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(last_error, sizeof(last_error), format, list);
    va_end(list);
    if (comm)
        snprintf(comm->error, sizeof(comm->error), "%s", last_error);
    return result;
}

hvd_nccl_result_t nccl_check(struct ncclComm *comm, enum fake_call call)
{
    if (!comm)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "%s: comm is NULL", fake_call_name(call));
    if (comm->life != NCCL_ALIVE) {
        fake_report(FAKE_GPU_AFTER_ABORT, "%s on communicator %d (rank %d of %d), which was %s",
                    fake_call_name(call), comm->number, comm->rank, comm->n_ranks,
                    comm->life == NCCL_ABORTED ? "aborted" : "destroyed");
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "comm is not valid");
    }
    if (nccl_family(comm)->is_family_aborted) {
        fake_report(FAKE_GPU_AFTER_ABORT,
                    "%s on communicator %d (rank %d of %d), which shares resources with one that "
                    "was aborted",
                    fake_call_name(call), comm->number, comm->rank, comm->n_ranks);
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "comm is not valid");
    }
    if (comm->result == HVD_NCCL_IN_PROGRESS)
        return nccl_fail(comm, HVD_NCCL_INVALID_ARGUMENT, "%s: comm is in progress",
                         fake_call_name(call));
    return comm->result;
}

struct ncclComm *nccl_family(struct ncclComm *comm)
{
    while (comm->is_sharing && comm->parent)
        comm = comm->parent;
    return comm;
}

/* --- Beginning -------------------------------------------------------------------------------- */

static uint64_t host_of_process(void)
{
    const char *id = getenv("NCCL_HOSTID");
    uint64_t hash = 5381;

    for (const char *at = id ? id : ""; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    return hash;
}

static int find_leaks(void);

struct ncclComm *nccl_comm_create(int n_ranks, const struct hvd_nccl_id *id, int rank)
{
    struct ncclComm *comm = fake_calloc(1, sizeof(*comm));

    comm->life = NCCL_ALIVE;
    comm->number = ++n_comms;
    comm->rank = rank;
    comm->n_ranks = n_ranks;
    comm->id = *id;
    comm->context = fake_current();
    comm->is_blocking = true;
    comm->n_channels = (int)fake_option(FAKE_GPU_CHANNELS);
    comm->result = HVD_NCCL_SUCCESS;
    comm->next = comms;
    comms = comm;
    fake_set_leak_check(find_leaks);
    return comm;
}

hvd_nccl_result_t nccl_init_begin(struct ncclComm *comm)
{
    const bool is_agreed = meet_come(&comm->meet, &comm->id, comm->rank, comm->n_ranks);
    struct meet_slot *slot = nccl_slot(comm, comm->rank);

    if (!is_agreed) {
        fake_report(FAKE_GPU_MISMATCH,
                    "rank %d initialises a communicator of %d ranks, others one "
                    "of %u",
                    comm->rank, comm->n_ranks, comm->meet.segment->n_ranks);
        return nccl_fail(comm, HVD_NCCL_INVALID_USAGE, "ranks disagree about their number");
    }
    if (slot->stage != 0) {
        fake_report(FAKE_GPU_MISMATCH, "two initialise rank %d of one communicator", comm->rank);
        return nccl_fail(comm, HVD_NCCL_INVALID_USAGE, "rank %d is there twice", comm->rank);
    }
    slot->pid = (int)getpid();
    slot->gpu = comm->context->device + (int)fake_option(FAKE_GPU_FIRST_GPU);
    slot->host = host_of_process();
    slot->version = (int)fake_option(FAKE_GPU_NCCL_VERSION);
    slot->stage = 1;
    return HVD_NCCL_SUCCESS;
}

/* Waits until all ranks are there, or the communicator is aborted. */
static bool wait_for_stage(struct ncclComm *comm, uint32_t stage)
{
    /* an abort of the parent ends a split */
    while (!meet_is_at(&comm->meet, stage) && !comm->is_aborted &&
           !(comm->parent && comm->parent->is_aborted))
        fake_wait(200);
    return meet_is_at(&comm->meet, stage);
}

static hvd_nccl_result_t compare_ranks(struct ncclComm *comm)
{
    const struct meet_slot *own = nccl_slot(comm, comm->rank);

    for (int r = 0; r < comm->n_ranks; r++) {
        const struct meet_slot *other = nccl_slot(comm, r);
        if (own->version != other->version) {
            fake_report(FAKE_GPU_MISMATCH, "rank %d has NCCL %d, rank %d has %d", comm->rank,
                        own->version, r, other->version);
            return nccl_fail(comm, HVD_NCCL_INVALID_USAGE, "versions of NCCL differ");
        }
        if (r == comm->rank || own->gpu != other->gpu || own->host != other->host)
            continue;
        if (fake_option(FAKE_GPU_MULTI_RANK_GPU) && own->version >= 23003 && own->pid != other->pid)
            continue;
        return nccl_fail(comm, HVD_NCCL_INVALID_USAGE,
                         "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x",
                         comm->rank, r, (unsigned)own->gpu + 0x10);
    }
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t nccl_init_open(struct ncclComm *comm)
{
    if (!wait_for_stage(comm, 1))
        return HVD_NCCL_INTERNAL_ERROR;
    const hvd_nccl_result_t result = compare_ranks(comm);
    meet_open(&comm->meet);
    nccl_slot(comm, comm->rank)->stage = 2;
    return result;
}

hvd_nccl_result_t nccl_init_end(struct ncclComm *comm)
{
    if (!wait_for_stage(comm, 2))
        return HVD_NCCL_INTERNAL_ERROR;
    meet_hide(&comm->meet);
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t nccl_init_finish(struct ncclComm *comm)
{
    const hvd_nccl_result_t opened = nccl_init_open(comm);
    const hvd_nccl_result_t ended = nccl_init_end(comm);

    return opened ? opened : ended;
}

static hvd_nccl_result_t end_init(struct ncclComm *comm, void *data)
{
    (void)data;
    return nccl_init_finish(comm);
}

static hvd_nccl_result_t check_init(int n_ranks, int rank)
{
    if (!fake_current())
        fake_report(FAKE_GPU_WRONG_CONTEXT,
                    "an initialisation without a context, which NCCL makes on device 0");
    if (!fake_current())
        return nccl_fail(NULL, HVD_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure 'no device'");
    if (n_ranks < 1 || n_ranks > MEET_MAX_RANKS || rank < 0 || rank >= n_ranks)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank,
                         n_ranks);
    return HVD_NCCL_SUCCESS;
}

/* A struct of another size is that of another version. */
hvd_nccl_result_t nccl_configure(struct ncclComm *comm, const struct hvd_nccl_config *config)
{
    if (config->magic != HVD_NCCL_CONFIG_MAGIC)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "ncclConfig_t argument not initialized");
    if (config->size < offsetof(struct hvd_nccl_config, split_share) || config->version < 21400)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "ncclConfig_t is too short");
    if (config->blocking != HVD_NCCL_CONFIG_UNSET && config->blocking != 0 && config->blocking != 1)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "Invalid config blocking attribute");
    comm->is_blocking = config->blocking != 0;
    if (config->max_ctas != HVD_NCCL_CONFIG_UNSET && config->max_ctas <= 0)
        return nccl_fail(NULL, HVD_NCCL_INVALID_ARGUMENT, "Invalid config max CTAs attribute");
    if (config->max_ctas != HVD_NCCL_CONFIG_UNSET && config->max_ctas < comm->n_channels)
        comm->n_channels = config->max_ctas;
    if (config->min_ctas != HVD_NCCL_CONFIG_UNSET && config->min_ctas > comm->n_channels)
        comm->n_channels = config->min_ctas;
    if (config->size >= sizeof(*config) && config->split_share != HVD_NCCL_CONFIG_UNSET)
        comm->is_shared = config->split_share != 0;
    return HVD_NCCL_SUCCESS;
}

static hvd_nccl_result_t init(struct ncclComm **out, int n_ranks, const struct hvd_nccl_id *id,
                              int rank, const struct hvd_nccl_config *config)
{
    hvd_nccl_result_t result = check_init(n_ranks, rank);

    if (result != 0)
        return result;
    struct ncclComm *comm = nccl_comm_create(n_ranks, id, rank);
    if (config)
        result = nccl_configure(comm, config);
    if (result == 0 && nccl_is_grouped())
        return nccl_group_init(comm, out);
    if (result == 0)
        result = nccl_init_begin(comm);
    if (result == 0 && !comm->is_blocking) {
        *out = comm;
        nccl_run_aside(comm, end_init, NULL);
        return HVD_NCCL_IN_PROGRESS;
    }
    fake_count_blocking();
    if (result == 0)
        result = end_init(comm, NULL);
    if (result == 0)
        *out = comm;
    else
        comm->life = NCCL_DESTROYED;
    return result;
}

hvd_nccl_result_t ncclCommInitRank(struct ncclComm **comm, int n_ranks, struct hvd_nccl_id id,
                                   int rank)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommInitRank);

    if (result == 0)
        result = init(comm, n_ranks, &id, rank, NULL);
    return fake_end(result);
}

hvd_nccl_result_t ncclCommInitRankConfig(struct ncclComm **comm, int n_ranks, struct hvd_nccl_id id,
                                         int rank, struct hvd_nccl_config *config)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommInitRankConfig);

    if (result == 0)
        result = init(comm, n_ranks, &id, rank, config);
    return fake_end(result);
}

hvd_nccl_result_t ncclGetUniqueId(struct hvd_nccl_id *id)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclGetUniqueId);

    if (result == 0)
        meet_make_id(id);
    return fake_end(result);
}

/* --- End -------------------------------------------------------------------------------------- */

/* Waits for the own work, and for all ranks to do the same. */
static hvd_nccl_result_t finalize(struct ncclComm *comm, void *data)
{
    (void)data;
    while (comm->n_in_flight > 0 && !comm->is_aborted)
        fake_wait(1000);
    nccl_slot(comm, comm->rank)->has_ended = 1;
    fake_wake();
    for (int r = 0; r < comm->n_ranks; r++)
        while (!nccl_slot(comm, r)->has_ended && !comm->is_aborted)
            fake_wait(200);
    comm->is_finalized = true;
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t ncclCommFinalize(struct ncclComm *comm)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommFinalize);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommFinalize);
    if (result == 0 && !comm->is_blocking) {
        nccl_run_aside(comm, finalize, NULL);
        return fake_end(HVD_NCCL_IN_PROGRESS);
    }
    if (result == 0) {
        fake_count_blocking();
        result = finalize(comm, NULL);
    }
    return fake_end(result);
}

static void free_comm(struct ncclComm *comm)
{
    if (comm->is_freed)
        return;
    comm->is_freed = true;
    meet_close(&comm->meet);
}

hvd_nccl_result_t ncclCommDestroy(struct ncclComm *comm)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommDestroy);

    if (result == 0 && !comm)
        return fake_end(HVD_NCCL_SUCCESS);
    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommDestroy);
    if (result == 0 && !comm->is_finalized) {
        fake_count_blocking();
        result = finalize(comm, NULL);
    }
    if (result == 0) {
        comm->life = NCCL_DESTROYED;
        free_comm(comm);
    }
    return fake_end(result);
}

/* Freeing what the kernels use waits until the device is idle, so a kernel of another
 * communicator that waits for a peer delays it for ever. */
static void report_blocking(const struct ncclComm *comm)
{
    for (const struct ncclComm *other = comms; other; other = other->next) {
        if (other->context != comm->context || other->is_aborted || other->n_in_flight == 0)
            continue;
        if (fake_option(FAKE_GPU_REPORT_BLOCKING))
            fake_report(FAKE_GPU_BLOCKING,
                        "ncclCommAbort of communicator %d waits for device %d, where communicator "
                        "%d may wait for a peer",
                        comm->number, comm->context->device, other->number);
        return;
    }
}

void nccl_abort_end(struct ncclComm *comm)
{
    report_blocking(comm);
    fake_count_blocking();
    while (comm->context->is_locked) /* behind another thread that is inside of the driver */
        fake_wait(1000);
    if (!comm->context->broken) /* else each call of the driver fails at once */
        fake_wait_idle(comm->context);
    while (comm->n_in_flight > 0 && !comm->context->broken)
        fake_wait(1000);
    free_comm(comm);
}

static hvd_nccl_result_t abort_comm(struct ncclComm *comm)
{
    if (comm->life != NCCL_ALIVE)
        return nccl_check(comm, FAKE_CALL_ncclCommAbort);
    const bool is_initializing = comm->result == HVD_NCCL_IN_PROGRESS;
    comm->is_aborted = true;
    fake_wake();
    while (is_initializing && comm->result == HVD_NCCL_IN_PROGRESS)
        fake_wait(1000);
    comm->life = NCCL_ABORTED;
    nccl_family(comm)->is_family_aborted = comm->is_sharing || comm->is_shared;
    if (comm->meet.segment)
        nccl_slot(comm, comm->rank)->has_ended = 1;
    fake_wake();
    return nccl_group_abort(comm);
}

hvd_nccl_result_t ncclCommAbort(struct ncclComm *comm)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommAbort);

    if (result == 0 && comm)
        result = abort_comm(comm);
    return fake_end(result);
}

static int find_leaks(void)
{
    int n = 0;

    for (const struct ncclComm *comm = comms; comm; comm = comm->next) {
        if (comm->life != NCCL_ALIVE)
            continue;
        n++;
        fake_report(FAKE_GPU_LEAK, "communicator %d (rank %d of %d) is not destroyed", comm->number,
                    comm->rank, comm->n_ranks);
    }
    return n;
}

/* --- Questions -------------------------------------------------------------------------------- */

hvd_nccl_result_t ncclGetVersion(int *version)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclGetVersion);

    if (result == 0)
        *version = (int)fake_option(FAKE_GPU_NCCL_VERSION);
    return fake_end(result);
}

static hvd_nccl_result_t async_error(struct ncclComm *comm, hvd_nccl_result_t *out)
{
    if (comm->life != NCCL_ALIVE)
        return nccl_check(comm, FAKE_CALL_ncclCommGetAsyncError);
    *out = comm->context->async_error ? comm->context->async_error : comm->result;
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t ncclCommGetAsyncError(struct ncclComm *comm, hvd_nccl_result_t *out)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommGetAsyncError);

    if (result == 0)
        result = async_error(comm, out);
    return fake_end(result);
}

hvd_nccl_result_t ncclCommCount(struct ncclComm *comm, int *count)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommCount);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommCount);
    if (result == 0)
        *count = comm->n_ranks;
    return fake_end(result);
}

hvd_nccl_result_t ncclCommUserRank(struct ncclComm *comm, int *rank)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommUserRank);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommUserRank);
    if (result == 0)
        *rank = comm->rank;
    return fake_end(result);
}

hvd_nccl_result_t ncclCommCuDevice(struct ncclComm *comm, int *device)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommCuDevice);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommCuDevice);
    if (result == 0)
        *device = comm->context->device;
    return fake_end(result);
}

const char *ncclGetErrorString(hvd_nccl_result_t result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
        "timeout",
    };

    return result < sizeof(texts) / sizeof(*texts) ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(struct ncclComm *comm)
{
    return comm && comm->error[0] ? comm->error : last_error;
}

/* --- Operations ------------------------------------------------------------------------------- */

static hvd_nccl_result_t create_op(hvd_nccl_op_t *op, void *scalar, hvd_nccl_type_t type,
                                   unsigned residence, struct ncclComm *comm)
{
    if (arithmetic_size(type) == 0 || residence > HVD_NCCL_SCALAR_HOST)
        return nccl_fail(comm, HVD_NCCL_INVALID_ARGUMENT, "invalid type or residence");
    for (unsigned i = 0; i < NCCL_MAX_OPS; i++) {
        struct nccl_op *made = &comm->ops[i];
        if (made->is_used)
            continue;
        *made = (struct nccl_op){.is_used = true, .type = type};
        if (residence == HVD_NCCL_SCALAR_HOST)
            memcpy(made->scalar, scalar, arithmetic_size(type));
        else
            made->device_scalar = scalar;
        *op = HVD_NCCL_AVG + 1 + i;
        return HVD_NCCL_SUCCESS;
    }
    fake_report(FAKE_GPU_LEAK, "communicator %d has %d operations that are not destroyed",
                comm->number, NCCL_MAX_OPS);
    return nccl_fail(comm, HVD_NCCL_INTERNAL_ERROR, "too many operations");
}

hvd_nccl_result_t ncclRedOpCreatePreMulSum(hvd_nccl_op_t *op, void *scalar, hvd_nccl_type_t type,
                                           unsigned int residence, struct ncclComm *comm)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclRedOpCreatePreMulSum);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclRedOpCreatePreMulSum);
    if (result == 0)
        result = create_op(op, scalar, type, residence, comm);
    return fake_end(result);
}

static hvd_nccl_result_t destroy_op(hvd_nccl_op_t op, struct ncclComm *comm)
{
    const unsigned i = op - (HVD_NCCL_AVG + 1);

    if (op <= HVD_NCCL_AVG || i >= NCCL_MAX_OPS || !comm->ops[i].is_used)
        return nccl_fail(comm, HVD_NCCL_INVALID_ARGUMENT, "ncclRedOpDestroy: invalid operator");
    comm->ops[i].is_used = false;
    return HVD_NCCL_SUCCESS;
}

hvd_nccl_result_t ncclRedOpDestroy(hvd_nccl_op_t op, struct ncclComm *comm)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclRedOpDestroy);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclRedOpDestroy);
    if (result == 0)
        result = destroy_op(op, comm);
    return fake_end(result);
}
