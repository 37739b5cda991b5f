#ifndef HVD_TESTS_FAKE_GPU_NCCL_NCCL_H
#define HVD_TESTS_FAKE_GPU_NCCL_NCCL_H

#include "tests/fake/gpu/machine.h"
#include "tests/fake/gpu/nccl/meet.h"

/*
 * What the files of NCCL's double share. The lock of the machine guards it all. A collective is
 * work on a stream of the driver's double; the ranks exchange bytes through meet.h.
 */
#define NCCL_MAX_OPS 64

enum nccl_kind {
    NCCL_ALLREDUCE,
    NCCL_BROADCAST,
    NCCL_REDUCE,
    NCCL_ALLGATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_SEND,
    NCCL_RECV
};

/* An operation of ncclRedOpCreatePreMulSum. */
struct nccl_op {
    bool is_used;
    hvd_nccl_type_t type;
    const void *device_scalar; /* read when the collective runs; or NULL */
    unsigned char scalar[8];
};

enum nccl_life { NCCL_ALIVE = 0x1c1, NCCL_ABORTED, NCCL_DESTROYED };

/* A communicator. It stays when it is destroyed, so a late use is found. */
struct ncclComm {
    struct ncclComm *next;
    enum nccl_life life;
    int number;
    int rank;
    int n_ranks;
    struct hvd_nccl_id id;
    struct CUctx_st *context;
    struct meet meet;
    bool is_blocking;
    bool is_aborted; /* its kernels end now */
    bool is_finalized;
    bool is_freed;
    bool must_connect;       /* something is used for the first time */
    struct ncclComm *parent; /* that was split; or NULL */
    bool is_shared;          /* what it is split into uses its resources */
    bool is_sharing;         /* it uses those of its parent */
    bool is_family_aborted;  /* of the first parent: one of the family was aborted */
    uint32_t n_splits;
    int n_channels;
    hvd_nccl_result_t result; /* success, in progress, or what failed */
    char error[256];
    uint64_t n_collectives; /* that were launched */
    uint64_t n_sent[MEET_MAX_RANKS];
    uint64_t n_received[MEET_MAX_RANKS];
    int n_in_flight;
    struct nccl_op ops[NCCL_MAX_OPS];
};

/* One call between group start and end. */
struct nccl_part {
    struct nccl_part *next;
    enum nccl_kind kind;
    struct ncclComm *comm;
    struct CUstream_st *stream;
    const void *input;
    void *output;
    size_t count;
    hvd_nccl_type_t type;
    hvd_nccl_op_t op; /* one of the five, or PreMulSum, which is NCCL_PRE_MUL_SUM */
    int root;         /* or the peer */
    struct nccl_op scale;
    uint64_t seq; /* of the communicator's collectives, or of messages to or from the peer */
    bool is_good; /* its memory may be accessed */
    bool is_complete;
    void *result;
    size_t result_bytes;
};

#define NCCL_PRE_MUL_SUM 5

/* Whether this is a message rather than a collective of all ranks. */
static inline bool nccl_is_message(enum nccl_kind kind)
{
    return kind >= NCCL_SEND;
}

/* --- comm.c ----------------------------------------------------------------------------------- */

/* Checks that a call may use the communicator, which must be ready. Reports one that has ended. */
hvd_nccl_result_t nccl_check(struct ncclComm *comm, enum fake_call call);
/* Sets the text of ncclGetLastError, and returns the result. */
hvd_nccl_result_t nccl_fail(struct ncclComm *comm, hvd_nccl_result_t result, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
/* The own slot. */
struct meet_slot *nccl_slot(const struct ncclComm *comm, int rank);
/* First part of an initialisation: comes to the meeting. */
hvd_nccl_result_t nccl_init_begin(struct ncclComm *comm);
/* Second part: waits for the others to come, and opens what they have. */
hvd_nccl_result_t nccl_init_open(struct ncclComm *comm);
/* Third part: waits until they have done the same. */
hvd_nccl_result_t nccl_init_end(struct ncclComm *comm);
/* The second and the third part, also if the ranks do not fit together: the others wait. */
hvd_nccl_result_t nccl_init_finish(struct ncclComm *comm);
/* Reads the options of a new communicator. */
hvd_nccl_result_t nccl_configure(struct ncclComm *comm, const struct hvd_nccl_config *config);
/* The first parent of those that share resources with this one. */
struct ncclComm *nccl_family(struct ncclComm *comm);
/* Waits as an abort does, and frees. */
void nccl_abort_end(struct ncclComm *comm);
/* A communicator of the current context, and in the list of all. */
struct ncclComm *nccl_comm_create(int n_ranks, const struct hvd_nccl_id *id, int rank);
/* All communicators, linked by next. */
struct ncclComm *nccl_comms(void);

/* --- group.c ---------------------------------------------------------------------------------- */

/* Whether the calling thread is inside of a group. */
bool nccl_is_grouped(void);
/* Takes one call into the group of the thread, or runs it at once. Copies *part. */
hvd_nccl_result_t nccl_group_put(const struct nccl_part *part);
/* The same for an initialisation and for the end of an abort. */
hvd_nccl_result_t nccl_group_init(struct ncclComm *comm, struct ncclComm **out);
hvd_nccl_result_t nccl_group_abort(struct ncclComm *comm);
/* Runs the function in a thread of its own, with the lock held, and sets the communicator's result
 * to what it returns. Until then the result is `in progress`. */
void nccl_run_aside(struct ncclComm *comm, hvd_nccl_result_t (*run)(struct ncclComm *, void *),
                    void *data);

/* --- collective.c ----------------------------------------------------------------------------- */

/* Puts the parts, all of one communicator, onto their streams as one kernel, which then owns
 * them. */
hvd_nccl_result_t nccl_launch(struct ncclComm *comm, struct nccl_part *parts);
/* The name of the function behind a kind. */
const char *nccl_name_of(uint32_t kind);
/* Frees parts. */
void nccl_parts_destroy(struct nccl_part *parts);

#endif
