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
 *     wake_flag of each rank    doorbell to wake it, how it is
 *     cpu_location of each rank where it runs
 *     cells of each rank, two  flag "posted", the payload of a small collective right behind it
 *     rings, from x to          control messages
 *     stages of each rank, two  the payload of other collectives
 *
 * Collectives advance in rounds, numbered from 0 through the life of the segment; all ranks go
 * through the same rounds because they start the same collectives in the same order. In round k a
 * rank writes into its own area k % 2, posts k + 1 in its cell k % 2, waits for the others, reads
 * theirs. It writes only once all ranks have posted round k - 1: by then they are done reading
 * round k - 2, which lay in the same area. So no round ends with a barrier.
 */
#define HVD_SHM_LINE 128 /* adjacent lines are fetched together: flags are so far apart */
#define HVD_SHM_SMALL_MAX ((size_t)2048)
#define HVD_SHM_HEAD ((size_t)48) /* what the line of a flag holds beside it */
#define HVD_SHM_PAGE ((size_t)4096)
#define HVD_SHM_SCRATCH ((size_t)8192) /* a block of a reduction, small enough to stay in L1 */
#define HVD_SHM_STRETCH ((size_t)1024) /* shorter ones are put together first */

/* Each word has one writer but for the doorbell, which anybody rings. */
struct hvd_shm_wake_flag {
    _Alignas(HVD_SHM_LINE) _Atomic uint32_t doorbell; /* a futex */
    _Atomic uint32_t is_asleep;                       /* or about to sleep */
    _Alignas(HVD_SHM_LINE) _Atomic uint32_t has_left; /* destroyed its transport in agreement */
};

struct hvd_shm_cell {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t posted;
    uint32_t offset;  /* where in the stage an allreduce begins; see reduce.c */
    uint32_t is_past; /* an exchange went past the caches into the stage; see pace.h */
    /* aligned for every type; begins in the line of the flag, and fills it */
    unsigned char payload[HVD_SHM_HEAD + HVD_SHM_SMALL_MAX];
};

/* Bytes ever written and read; the difference is what is in the ring, which lies behind it. */
struct hvd_shm_ring {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t written;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t read;
    _Alignas(HVD_SHM_LINE) char bytes[];
};

/* --- shm.c ------------------------------------------------------------------------------------ */

struct hvd_shm;
struct hvd_shm_move;

/* Decides how to go about it, at the first collective: all ranks have attached by then. */
void hvd_shm_tune_once(struct hvd_shm *s);

/* How an operation goes through its rounds. */
struct hvd_shm_steps {
    /* Fills this rank's area of the round. */
    void (*write)(struct hvd_shm *s, struct hvd_shm_move *mv);
    /* Takes what the round brought; whether the collective is finished. */
    bool (*read)(struct hvd_shm *s, struct hvd_shm_move *mv);
};

#define HVD_SHM_PACES 3

/* A collective that was started; kept for the next one when it is finished. */
struct hvd_shm_move {
    struct hvd_shm_move *prev;
    struct hvd_shm_move *next; /* in start order; or among the spare */
    struct hvd_collective *c;
    const struct hvd_shm_steps *steps;
    struct hvd_payload payload; /* allreduce */
    int phase;                  /* slices: the round of the chunk */
    int64_t at;                 /* elements done, or of each part done */
    int64_t stride;             /* elements in a round, or of each part in a round */
    int64_t total;              /* elements to do, or of the longest part */
    int waits_for;              /* the only rank to wait for; -1: all of them */
    bool is_second;             /* of the two rounds of a chunk */
    bool is_posted;             /* written, not read yet */
    int64_t spent_ns;           /* exchange: writing the first chunk */
    bool is_done;
    bool streams;      /* outputs are written past the caches */
    const char *input; /* where to read; not always c->input, see below */
    void *input_copy;  /* owned; of an alltoall in place */
};

/* A message on its way out that does not fit its ring yet. */
struct hvd_shm_letter {
    struct hvd_shm_letter *next;
    size_t len;
    size_t n_sent;
    char data[];
};

/* A message on its way in. */
struct hvd_shm_arrival {
    char *data; /* owned; NULL: its head is not here yet */
    size_t len;
    size_t n_received;
};

/* Memory of a message. */
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
    unsigned n_spins; /* looks before saying HVD_INPROGRESS */
    bool is_tuned;    /* the locations of all ranks have been looked at */
    struct hvd_shm_tuning tuning;
    int *order;                               /* of the ranks, locality after locality; owned */
    struct hvd_shm_pace paces[HVD_SHM_PACES]; /* by size; rank 0's are for all */
    struct hvd_shm_counts counts;

    struct hvd_shm_wake_flag *wake_flags;
    struct hvd_cpu_location *cpu_locations;
    struct hvd_shm_wake_flag *
        *doorbells; /* for each rank, the wake flag with the doorbell that wakes it; owned */
    struct hvd_shm_cell *cells;
    char *rings;
    char *stages;

    uint64_t round;
    struct hvd_shm_move *first; /* not finished */
    struct hvd_shm_move *spare;
    bool is_broken;       /* a collective was given up: the ranks are out of step */
    char *scratch;        /* HVD_SHM_SCRATCH bytes; owned */
    const char **sources; /* for each rank, what of it is reduced; owned */

    struct hvd_shm_letter **letters;  /* to each rank, in order */
    struct hvd_shm_arrival *arrivals; /* from each rank */
    int n_letters;
    int next_sender;                        /* where receive begins to look */
    struct hvd_shm_room kept[HVD_SHM_KEPT]; /* of messages received, for the next ones */

    unsigned n_idle; /* calls without anything new since the last look at the clock */
    int64_t next_check_ns;
    bool *is_lost;
    bool *is_told; /* by receive */
    int *names;    /* of the ranks, for errors; owned */
    int lost;      /* some lost rank; -1: none */
};

/* Adds to the counts: so many bytes of payload were read and written so many times. */
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

/* The staging area of a rank in a round. A page longer than the shape says. */
static inline char *hvd_shm_stage(const struct hvd_shm *s, int rank, uint64_t round)
{
    return s->stages + ((size_t)rank * 2 + round % 2) * (s->shape.stage_bytes + HVD_SHM_PAGE);
}

/* Where a rank's chunk of an allreduce lies that was posted in a round. */
static inline const char *hvd_shm_chunk(const struct hvd_shm *s, int rank, uint64_t round)
{
    return hvd_shm_stage(s, rank, round) + hvd_shm_cell(s, rank, round)->offset;
}

/* The ring from a rank to a rank. */
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

/* Whether the collective that is next can go on. */
bool hvd_shm_can_move(const struct hvd_shm *s);

/* Frees the collectives. */
void hvd_shm_moves_fini(struct hvd_shm *s);

/* --- Reductions: reduce.c, slices.c, exchange.c; copy.c --------------------------------------- */

/* Prepare a move of the operation: mv->c is set. */
void hvd_shm_prepare_allreduce(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_reducescatter(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_broadcast(struct hvd_shm *s, struct hvd_shm_move *mv);
void hvd_shm_prepare_allgather(struct hvd_shm *s, struct hvd_shm_move *mv);

/* The same; HVD_ERR_NOMEM when the input has to be copied and cannot. */
hvd_status_t hvd_shm_prepare_alltoall(struct hvd_shm *s, struct hvd_shm_move *mv,
                                      struct hvd_err *err);

/*
 * Where an allreduce's chunk that begins with element `at` is to lie in this rank's stage of a
 * round, which is told to the others: at the same place of a page as in the output. A load from
 * memory that lies a little behind a recent store, seen modulo a page, waits for that store; with
 * all addresses of an element equal modulo a page, none does. Measured: a factor of 3 for tensors
 * from malloc, which begin 16 bytes into a page.
 */
char *hvd_shm_choose_offset(struct hvd_shm *s, struct hvd_payload *p, uint64_t round, int64_t at);

/* How a reduction is made of the first so many s->sources, in their order. */
struct hvd_shm_fold {
    int n_sources;  /* more than two are at most HVD_SHM_SCRATCH bytes */
    bool prescales; /* each of them */
    bool finishes;
    void *out;    /* may be a source */
    void *second; /* gets the same; NULL: none */
    int64_t count;
    bool streams; /* out is written past the caches */
};

/* Reduces them, with the scaling of the collective. */
void hvd_shm_fold(const struct hvd_shm *s, const struct hvd_collective *c,
                  const struct hvd_shm_fold *f);

/* Allreduces of more than two ranks, of two, and of one. */
extern const struct hvd_shm_steps hvd_shm_slice_steps;
extern const struct hvd_shm_steps hvd_shm_exchange_steps;
extern const struct hvd_shm_steps hvd_shm_alone_steps;

/* Elements in the part of a stage that belongs to one of the ranks, whole lines of cache. */
int64_t hvd_shm_part(const struct hvd_shm *s, size_t width);

/* --- ring.c: control messages ----------------------------------------------------------------- */

/* Ops of the port; see transport.h. */
hvd_status_t hvd_shm_send(struct hvd_transport *t, int to, const void *data, size_t len,
                          struct hvd_err *err);
hvd_status_t hvd_shm_receive(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err);

/* Op of the port: keeps the memory of a short message for the next one. */
void hvd_shm_recycle(struct hvd_transport *t, struct hvd_inbound *in);

/* Moves on what did not fit the rings. */
void hvd_shm_flush(struct hvd_shm *s);

/* Whether something came in that was not received yet. */
bool hvd_shm_has_mail(const struct hvd_shm *s);

/* Frees what is on its way. */
void hvd_shm_letters_fini(struct hvd_shm *s);

/* --- sleep.c: sleeping, waking, who is alive -------------------------------------------------- */

/* Ops of the port; see transport.h. */
uint32_t hvd_shm_listen(struct hvd_transport *t);
void hvd_shm_sleep(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns);
void hvd_shm_wake(struct hvd_transport *t);

/* Everything stored before is seen by others before anything loaded after is read. */
static inline void hvd_shm_fence(void)
{
#ifdef __SANITIZE_THREAD__ /* which does not know fences: an operation that is one on a processor  \
                            */
    _Atomic int nothing = 0;
    atomic_fetch_add(&nothing, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Wakes a rank that sleeps, after something was written for it. */
void hvd_shm_ring_doorbell(struct hvd_shm *s, int rank);

/* Wakes every other rank that sleeps. */
void hvd_shm_ring_doorbells(struct hvd_shm *s);

/* Called when nothing is new: looks from time to time whether the others are alive. */
void hvd_shm_check_alive(struct hvd_shm *s);

/* Takes the lock that shows that this rank is alive. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_lock(const struct hvd_shm *s, struct hvd_err *err);

#endif
