#ifndef HVD_WORKER_TRANSPORT_SHM_SHM_INTERNAL_H
#define HVD_WORKER_TRANSPORT_SHM_SHM_INTERNAL_H

#include <stdatomic.h>

#include "worker/transport/payload.h"
#include "worker/transport/shm/pace.h"
#include "worker/transport/shm/shm.h"
#include "worker/transport/shm/tuning.h"

/*
 * The segment, areas in this order:
 *
 *     wake_flag of each rank    the doorbell that wakes it, and its state
 *     cpu_location of each rank where it runs
 *     cells of each rank, two   flag "posted", the payload of a small collective right behind it
 *     rings, from x to          control messages
 *     stages of each rank, two  the payload of other collectives
 *
 * Collectives advance in rounds, numbered from 0 through the life of the segment. All ranks pass
 * the same rounds, because they start the same collectives in the same order. In round k a rank
 * writes into its own area k % 2 and posts k + 1 in its cell k % 2. Then it waits for the others
 * and reads theirs. It writes only once all ranks have posted round k - 1: by then they have read
 * round k - 2, which lay in the same area. So no round ends with a barrier.
 */
#define HVD_SHM_LINE 128 /* distance of flags: processors fetch adjacent lines together */
#define HVD_SHM_SMALL_MAX ((size_t)2048)
#define HVD_SHM_HEAD ((size_t)48) /* bytes of payload in the line of a flag */
#define HVD_SHM_PAGE ((size_t)4096)
#define HVD_SHM_SCRATCH ((size_t)8192) /* a block of a reduction, small enough to stay in L1 */
#define HVD_SHM_STRETCH ((size_t)1024) /* shorter stretches are collected first */

/* Each word has one writer, except for the doorbell, which any rank rings. */
struct hvd_shm_wake_flag {
    _Alignas(HVD_SHM_LINE) _Atomic uint32_t doorbell; /* a futex */
    _Atomic uint32_t is_asleep;                       /* or is about to sleep */
    _Alignas(HVD_SHM_LINE) _Atomic uint32_t has_left; /* has destroyed its transport in agreement */
};

struct hvd_shm_cell {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t posted;
    uint16_t offset;           /* where an allreduce begins in the stage; see reduce.c */
    bool is_past;              /* an exchange wrote past the caches into the stage; see pace.h */
    _Atomic int32_t processor; /* where the rank posted; -1: unknown */
    /* aligned for every type; begins in the flag's line, and fills it */
    unsigned char payload[HVD_SHM_HEAD + HVD_SHM_SMALL_MAX];
};

/* Counts of all bytes ever written and read. The difference is in the ring, whose bytes follow. */
struct hvd_shm_ring {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t written;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t read;
    _Alignas(HVD_SHM_LINE) char bytes[];
};

/* --- shm.c ------------------------------------------------------------------------------------ */

struct hvd_shm;
struct hvd_shm_move;

/* Chooses the tuning at the first collective: all ranks have attached by then. */
void hvd_shm_tune_once(struct hvd_shm *s);

/* The functions of an operation, called in every round. */
struct hvd_shm_steps {
    /* Writes this rank's area of the round. */
    void (*write)(struct hvd_shm *s, struct hvd_shm_move *mv);
    /* Reads the areas of the round; whether the collective is finished. */
    bool (*read)(struct hvd_shm *s, struct hvd_shm_move *mv);
};

#define HVD_SHM_PACES 3

/* A collective under way. Finished ones are reused. */
struct hvd_shm_move {
    struct hvd_shm_move *prev;
    struct hvd_shm_move *next; /* in start order; or in the spare list */
    struct hvd_collective *c;
    const struct hvd_shm_steps *steps;
    struct hvd_payload payload; /* for an allreduce */
    int phase;                  /* slices: the round of the chunk */
    int64_t at;                 /* elements done, or of each part done */
    int64_t stride;             /* elements in a round, or of each part in a round */
    int64_t total;              /* elements to do, or of the longest part */
    int waits_for;              /* the only rank to wait for; -1: all ranks */
    bool is_second;             /* of the two rounds of a chunk */
    bool is_posted;             /* written, not read yet */
    int64_t spent_ns;           /* exchange: on writing the first chunk */
    bool is_done;
    bool streams;      /* outputs are written past the caches */
    const char *input; /* the input to read; not always c->input, see input_copy */
    void *input_copy;  /* owned; for an alltoall in place */
};

/* A message being sent that does not fit its ring yet. */
struct hvd_shm_letter {
    struct hvd_shm_letter *next;
    size_t len;
    size_t n_sent;
    char data[];
};

/* A message being received. */
struct hvd_shm_arrival {
    char *data; /* owned; NULL: the length is not here yet */
    size_t len;
    size_t n_received;
};

/* Spare memory for a message. */
struct hvd_shm_room {
    char *data; /* owned; NULL: none */
    size_t bytes;
};

#define HVD_SHM_KEPT 4

struct hvd_shm {
    struct hvd_transport base; /* first */
    struct hvd_shm_shape shape;
    void *segment;
    bool owns_mapping;
    int fd;
    unsigned n_spins; /* polls before HVD_INPROGRESS is returned */
    bool is_tuned;    /* the tuning has used the locations of all ranks */
    struct hvd_shm_tuning tuning;
    int *order;                               /* of the ranks, locality after locality; owned */
    struct hvd_shm_pace paces[HVD_SHM_PACES]; /* by size; rank 0 decides for both ranks */
    struct hvd_shm_counts counts;

    struct hvd_shm_wake_flag *wake_flags;
    struct hvd_cpu_location *cpu_locations;
    struct hvd_shm_wake_flag *
        *doorbells; /* for each rank, the wake flag whose doorbell wakes it; owned */
    struct hvd_shm_cell *cells;
    char *rings;
    char *stages;

    uint64_t round;
    struct hvd_shm_move *first; /* not finished */
    struct hvd_shm_move *spare;
    bool is_broken;       /* a collective was abandoned: the ranks are out of step */
    char *scratch;        /* HVD_SHM_SCRATCH bytes; owned */
    const char **sources; /* for each rank, its operand of a reduction; owned */

    struct hvd_shm_letter **letters;  /* to each rank, in order; owned */
    struct hvd_shm_arrival *arrivals; /* from each rank */
    int n_letters;
    int next_sender;                        /* where receive begins */
    struct hvd_shm_room kept[HVD_SHM_KEPT]; /* of received messages, for reuse */

    unsigned n_idle; /* calls without progress since the last look at the clock */
    int64_t next_check_ns;
    bool *is_lost;
    bool *is_told; /* receive has reported the loss of the rank */
    int *names;    /* of the ranks, for errors; owned */
    int lost;      /* some lost rank; -1: none */
};

/* Adds to the counts: so many bytes of payload, read and written this many times. */
static inline void hvd_shm_count(struct hvd_shm *s, size_t bytes, unsigned n_reads,
                                 unsigned n_writes)
{
    s->counts.bytes_read += bytes * n_reads;
    s->counts.bytes_written += bytes * n_writes;
}

/* The cell of a rank in a round. */
static inline struct hvd_shm_cell *hvd_shm_cell(const struct hvd_shm *s, int rank, uint64_t round)
{
    return &s->cells[(size_t)rank * 2 + round % 2];
}

/* The staging area of a rank in a round. A page longer than the shape's stage_bytes, for the
 * offset. */
static inline char *hvd_shm_stage(const struct hvd_shm *s, int rank, uint64_t round)
{
    return s->stages + ((size_t)rank * 2 + round % 2) * (s->shape.stage_bytes + HVD_SHM_PAGE);
}

/* The address of a rank's chunk of an allreduce, posted in a round. */
static inline const char *hvd_shm_chunk(const struct hvd_shm *s, int rank, uint64_t round)
{
    return hvd_shm_stage(s, rank, round) + hvd_shm_cell(s, rank, round)->offset;
}

/* The ring from one rank to another. */
static inline struct hvd_shm_ring *hvd_shm_ring(const struct hvd_shm *s, int from, int to)
{
    const size_t stride = sizeof(struct hvd_shm_ring) + s->shape.ring_bytes;

    return (struct hvd_shm_ring *)(void *)(s->rings +
                                           stride * ((size_t)from * (size_t)s->shape.n_ranks +
                                                     (size_t)to));
}

/* --- rounds.c: collectives in their order ----------------------------------------------------- */

/* Ops of the port; see transport.h. */
hvd_status_t hvd_shm_start(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);
hvd_status_t hvd_shm_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);
void hvd_shm_abandon(struct hvd_transport *t, struct hvd_collective *c);
int hvd_shm_awaits(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room);
uint64_t hvd_shm_moved(struct hvd_transport *t, const struct hvd_collective *c);

/* Whether the next collective can go on. */
bool hvd_shm_can_move(const struct hvd_shm *s);

/* Op of the port; see transport.h. */
bool hvd_shm_blocks_peer(const struct hvd_transport *t);

/* Frees the collectives. */
void hvd_shm_moves_fini(struct hvd_shm *s);

/* --- Reductions: reduce.c, slices.c, exchange.c; copy.c --------------------------------------- */

/* Prepare a move of the operation: mv->c is set. */
void hvd_shm_prepare_allreduce(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_reducescatter(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_broadcast(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_allgather(struct hvd_shm *s, struct hvd_shm_move *mv);

/* As above; HVD_ERR_NOMEM when the input has to be copied and memory is out. */
hvd_status_t hvd_shm_prepare_alltoall(struct hvd_shm *s, struct hvd_shm_move *mv,
                                      struct hvd_err *err);

/*
 * Chooses where an allreduce's chunk that begins with element `at` lies in this rank's stage of a
 * round, and publishes it: at the same offset in a page as in the output. A load from memory that
 * lies a little behind a recent store, modulo a page, waits for that store. With all addresses of
 * an element equal modulo a page, no load waits. Measured: a factor of 3 for tensors from malloc,
 * which begin 16 bytes into a page.
 */
char *hvd_shm_choose_offset(struct hvd_shm *s, struct hvd_payload *p, uint64_t round, int64_t at);

/* A reduction of the first n_sources s->sources, in their order. */
struct hvd_shm_fold {
    int n_sources;  /* more than two: at most HVD_SHM_SCRATCH bytes each */
    bool prescales; /* each source is multiplied by the prescale */
    bool finishes;
    void *out;    /* may be a source */
    void *second; /* receives the same result; NULL: none */
    int64_t count;
    bool streams; /* out is written past the caches */
};

/* Reduces the sources, with the scaling of the collective. */
void hvd_shm_fold(const struct hvd_shm *s, const struct hvd_collective *c,
                  const struct hvd_shm_fold *f);

/* The allreduces of more than two ranks, of two, and of one. */
extern const struct hvd_shm_steps hvd_shm_slice_steps;
extern const struct hvd_shm_steps hvd_shm_exchange_steps;
extern const struct hvd_shm_steps hvd_shm_alone_steps;

/* Elements in the part of a stage that belongs to one of the ranks, in whole lines of cache. */
int64_t hvd_shm_part(const struct hvd_shm *s, size_t width);

/* --- ring.c: control messages ----------------------------------------------------------------- */

/* Ops of the port; see transport.h. */
hvd_status_t hvd_shm_send(struct hvd_transport *t, int to, const void *data, size_t len,
                          struct hvd_err *err);
hvd_status_t hvd_shm_receive(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err);

/* Op of the port: keeps the memory of a short message for the next one. */
void hvd_shm_recycle(struct hvd_transport *t, struct hvd_inbound *in);

/* Moves waiting messages into the rings, as far as they fit. */
void hvd_shm_flush(struct hvd_shm *s);

/* Whether a message waits to be received. */
bool hvd_shm_has_mail(const struct hvd_shm *s);

/* Frees all messages that are under way. */
void hvd_shm_letters_fini(struct hvd_shm *s);

/* --- sleep.c: sleep, wake-ups and liveness ---------------------------------------------------- */

/* Ops of the port; see transport.h. */
uint32_t hvd_shm_listen(struct hvd_transport *t);
void hvd_shm_sleep(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns);
void hvd_shm_wake(struct hvd_transport *t);

/* Orders all earlier stores before all later loads, as other ranks see them. */
static inline void hvd_shm_fence(void)
{
#ifdef __SANITIZE_THREAD__ /* it has no fences: a read-modify-write is one on a processor */
    _Atomic int nothing = 0;
    atomic_fetch_add(&nothing, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Wakes a rank if it sleeps, after a write for it. */
void hvd_shm_ring_doorbell(struct hvd_shm *s, int rank);

/* Wakes every other rank that sleeps. */
void hvd_shm_ring_doorbells(struct hvd_shm *s);

/* Called when nothing is new: checks from time to time whether the others are alive. */
void hvd_shm_check_alive(struct hvd_shm *s);

/* Takes the lock that shows that this rank is alive. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_lock(const struct hvd_shm *s, struct hvd_err *err);

#endif
