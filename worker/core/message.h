#ifndef HVD_WORKER_CORE_MESSAGE_H
#define HVD_WORKER_CORE_MESSAGE_H

#include <endian.h>
#include <string.h>

#include "base/buf.h"
#include "worker/core/tree.h"
#include "worker/core/types.h"

/*
 * What ranks say to each other, about the tensors of one process set. Little endian, no padding:
 *
 *     header    'h' 'v' version(1) type(1) count(4) set(4)
 *     REQUESTS  count times: op(1; + 0x80: a refusal) dtype(1) reduce(1) device(1) ndim(1)
 *               root(4) group(4) group_size(4) prescale(8) postscale(8) name_len(2) name
 *               shape(8 each) age_ms(4) ranges, and of an allgather rows(8 each) of each position
 *               in them; of a refusal text_len(2) text, which is not empty
 *     BITS      epoch(8), then count words(8): the cached tensors, by slot, that all of the
 *               sender's subtree requests
 *     PARTIAL   epoch(8), then count times: slot(4) age_ms(4) ranges
 *     LEAVE     count = 1: first(4) n(4) why(1) text_len(2) text
 *     PLAN      epoch(8) fusion(8) cycle(4) n_words(4), then count times: kind(1) dtype(1)
 *               reduce(1) device(1) prescale(8) postscale(8) count(8) slot(4) group(4)
 *               group_size(4) name_len(2) name n_rows(4) rows(8 each) text_len(2) text; then
 *               n_words words(8): the cached tensors that every rank has requested
 *     PING      kind(1) age_ms(4) name_len(2) name, then count times: position(4)
 *     PONG      the same
 *     ranges     n_ranges(4), then so often: first(4) n(4)
 *
 * A request with a refusal is of ranks that did not take what the program submitted: it fails for
 * all, with this text.
 *
 * The first four go up the tree of the set, a plan comes down; PING and PONG go between neighbours
 * in it: what the sender waits for and for how long, and the positions of which it knows that they
 * do not answer (heartbeat.h). Whoever gets a PING sends a PONG. Ranges are the positions in the
 * tree that request exactly this, in order, with gaps between them. A PARTIAL says who has
 * requested a cached tensor by bit when others of the subtree take long: nobody acts on it, a
 * report of stalls tells who is missing. age_ms is how long the sender has known of the tensor.
 * Whose range leaves has called shutdown, or failed, or ends the job for a tensor of a process set
 * that has stalled; these two are sent to the coordinator directly. A LEAVE behind the DOWN step
 * says that all is done in the sender's subtree: its parent may go.
 *
 * A plan is the agreed order: every rank performs first the cached tensors by slot, then the steps
 * as they stand. epoch numbers the plans of a set; what a rank says in BITS refers to the slots as
 * they were after the plan of that epoch. Decoding never allocates, never reads past the length
 * given and refuses what encoding would not produce, so a garbled message is an error and no more.
 */
enum hvd_message_type {
    HVD_MESSAGE_REQUESTS = 1,
    HVD_MESSAGE_LEAVE = 2,
    HVD_MESSAGE_PLAN = 3,
    HVD_MESSAGE_BITS = 4,
    HVD_MESSAGE_PARTIAL = 5,
    HVD_MESSAGE_PING = 6,
    HVD_MESSAGE_PONG = 7,
};

/* Why a LEAVE is sent. */
enum hvd_leave_why {
    HVD_LEAVE_CALLED = 0,  /* the ranks have called shutdown */
    HVD_LEAVE_FAILED = 1,  /* they cannot go on, so nothing can */
    HVD_LEAVE_STALLED = 2, /* the job is to end, in order; nobody has left by that */
};

/* What a rank waits for, in a PING or PONG. */
enum hvd_wait_kind {
    HVD_WAIT_NONE = 0,
    HVD_WAIT_PLAN = 1,  /* that a tensor is agreed */
    HVD_WAIT_DATA = 2,  /* that a tensor has moved */
    HVD_WAIT_LEAVE = 3, /* that all ranks leave */
    HVD_WAIT_SET = 4,   /* that all members of the process set make it */
    HVD_WAIT_KINDS = 5,
};

/* Silent positions in a PING or PONG at most. */
#define HVD_SILENT_MAX 8

/* Bytes of a message at most, on either side. */
#define HVD_MESSAGE_MAX ((size_t)64 << 20)

/* The slot of a tensor that is not cached. */
#define HVD_CACHE_NO_SLOT UINT32_MAX

/* Slots at most; bounds what a message can make a rank allocate. */
#define HVD_CACHE_SLOTS_MAX ((uint32_t)1 << 24)

/* The steps of a plan: an hvd_op to perform, or one of these. */
enum hvd_step_kind {
    HVD_STEP_ERROR = 8,    /* the tensor ends with text */
    HVD_STEP_SHUTDOWN = 9, /* all pending tensors end with text */
    HVD_STEP_ABORT = 10,   /* the same, at once: also what is moving already */
    HVD_STEP_DOWN = 11,    /* every rank has left: nothing follows */
    HVD_STEP_EVICT = 12,   /* the slot is free again; who requested it by bit asks by name */
    HVD_STEP_DROP = 13,    /* the tensor ends with text, on ranks that have requested it */
};

/* One step as it stands in a plan; everything is borrowed from the message. */
struct hvd_step {
    int kind; /* enum hvd_op or enum hvd_step_kind */
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    enum hvd_device device; /* where the tensor is on the ranks that have it */
    double prescale;
    double postscale;
    int64_t count;       /* elements of the input, for ranks that joined; JOIN: the last rank */
    uint32_t slot;       /* the tensor is cached there from now on; or HVD_CACHE_NO_SLOT */
    uint32_t group;      /* of the cached tensor: 0 alone, else the group's number */
    uint32_t group_size; /* how many cached tensors complete together */
    struct hvd_strview name;
    struct hvd_strview text;
    uint32_t n_rows;   /* allgather: the number of ranks */
    const char *_rows; /* unaligned, read with hvd_message_step_row */
};

/* Positions that do the same: ranges in order, with gaps between them; read with
 * hvd_message_ranges_at.
 */
struct hvd_pos_ranges {
    uint32_t n;
    struct hvd_pos_range one; /* when there are no bytes */
    const char *_bytes;       /* of a message; NULL: just one */
};

/* A request, and who makes it; everything is borrowed. */
struct hvd_merged_request {
    struct hvd_request request; /* of an allgather: with the rows of the first position */
    struct hvd_pos_ranges by;
    uint32_t age_ms;
    struct hvd_strview refusal; /* why it was refused there; empty: it was not */
    const char *_rows;          /* NULL: those of the request */
};

/* Who has requested a cached tensor. */
struct hvd_partial {
    uint32_t slot;
    uint32_t age_ms;
    struct hvd_pos_ranges by;
};

/* A PING or PONG; everything is borrowed. */
struct hvd_beat {
    enum hvd_wait_kind kind;
    uint32_t age_ms;
    struct hvd_strview name; /* of the tensor; may be empty */
    uint32_t n_silent;       /* at most HVD_SILENT_MAX; read with hvd_message_beat_silent */
    const char *_silent;
};

/* Reads a message from front to back. */
struct hvd_reader {
    enum hvd_message_type type;
    uint32_t left;     /* items not read yet */
    uint32_t set;      /* the process set it is about */
    uint64_t epoch;    /* BITS, PARTIAL, PLAN */
    int64_t fusion;    /* PLAN: bytes that may be fused, as the coordinator was told */
    uint32_t cycle_us; /* PLAN: how long what is submitted may be held back, likewise */
    uint32_t n_words;  /* BITS, PLAN: read with hvd_message_word */
    const char *_words;
    struct hvd_strview _rest;
};

/* Starts a message without items in an empty buffer. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_begin(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set);

/* A whole BITS message in an empty buffer; words NULL: they are added one by one. Failures as
 * above.
 */
hvd_status_t hvd_message_bits(struct hvd_buf *buf, uint32_t set, uint64_t epoch,
                              const uint64_t *words, uint32_t n_words);

/* The next word of a BITS message that was begun without. Failures as above. */
hvd_status_t hvd_message_add_word(struct hvd_buf *buf, uint64_t word);

/* Starts a PARTIAL message in an empty buffer. Failures as above. */
hvd_status_t hvd_message_begin_partial(struct hvd_buf *buf, uint32_t set, uint64_t epoch);

/* A whole PING or PONG in an empty buffer; beat->n_silent positions, in any order. A name longer
 * than HVD_NAME_MAX is cut. Failures as above. */
hvd_status_t hvd_message_beat(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set,
                              const struct hvd_beat *beat, const int *silent);

/* What a plan says besides its steps. */
struct hvd_plan_head {
    uint64_t epoch;
    int64_t fusion;
    uint32_t cycle_us;
    const uint64_t *words; /* borrowed */
    uint32_t n_words;
};

/* Ends a plan: nothing is added to it any more. Failures as above. */
hvd_status_t hvd_message_end_plan(struct hvd_buf *buf, const struct hvd_plan_head *head);

/* Who an item is about; all borrowed. */
struct hvd_by {
    const struct hvd_pos_range *ranges; /* in order, with gaps between them */
    uint32_t n_ranges;
    uint32_t age_ms;
    const int64_t *rows; /* allgather: that of position p is rows[p - rows_first]; NULL: those of
                            the request, which is one position's */
    int rows_first;
    struct hvd_strview refusal; /* of a request: why it was refused; empty: it was not */
};

/*
 * Appends an item and counts it in the header. On failure (HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE) the
 * message is as it was before.
 */
hvd_status_t hvd_message_add_request(struct hvd_buf *buf, const struct hvd_request *req,
                                     const struct hvd_by *by);

/* As above. */
hvd_status_t hvd_message_add_partial(struct hvd_buf *buf, uint32_t slot, const struct hvd_by *by);

/* As above; text longer than HVD_TEXT_MAX is cut. */
hvd_status_t hvd_message_add_leave(struct hvd_buf *buf, struct hvd_pos_range who,
                                   enum hvd_leave_why why, const char *text);

/* As above; rows (n_rows of them) may be NULL when there are none, name and text may be empty. */
hvd_status_t hvd_message_add_step(struct hvd_buf *buf, const struct hvd_step *step,
                                  const int64_t *rows);

/* Opens a message, which must outlive the reader. HVD_ERR_INVALID when it is not one. */
hvd_status_t hvd_message_open(struct hvd_reader *r, const void *data, size_t len,
                              struct hvd_err *err);

/*
 * The next item of a message of that type; HVD_ERR_INVALID when it is malformed, when there is none
 * left, or when bytes follow the last one. The request is decoded, not checked against the job:
 * see hvd_request_check.
 */
hvd_status_t hvd_message_read_request(struct hvd_reader *r, struct hvd_merged_request *merged,
                                      struct hvd_err *err);

/* As above. */
hvd_status_t hvd_message_read_partial(struct hvd_reader *r, struct hvd_partial *partial,
                                      struct hvd_err *err);

/* As above. *text is borrowed from the message. */
hvd_status_t hvd_message_read_leave(struct hvd_reader *r, struct hvd_pos_range *who,
                                    enum hvd_leave_why *why, struct hvd_strview *text,
                                    struct hvd_err *err);

/* All of a PING or PONG. Failures as above. */
hvd_status_t hvd_message_read_beat(struct hvd_reader *r, struct hvd_beat *beat,
                                   struct hvd_err *err);

/* The positions, i < beat->n_silent. Never negative. */
int hvd_message_beat_silent(const struct hvd_beat *beat, uint32_t i);

/* As above. */
hvd_status_t hvd_message_read_step(struct hvd_reader *r, struct hvd_step *step,
                                   struct hvd_err *err);

/* A reader of bits that were not sent: as one of a BITS message, but that set is 0. The words are
 * borrowed, and changed into those of a message. */
struct hvd_reader hvd_message_of_bits(uint64_t *words, uint32_t n_words, uint64_t epoch);

/* A word of bits, i < r->n_words. */
static inline uint64_t hvd_message_word(const struct hvd_reader *r, uint32_t i)
{
    uint64_t word;

    memcpy(&word, r->_words + (size_t)i * sizeof(word), sizeof(word));
    return le64toh(word);
}

/* The rows of a rank, rank < step->n_rows. Never negative. */
int64_t hvd_message_step_row(const struct hvd_step *step, uint32_t rank);

/* What one position requests. */
struct hvd_merged_request hvd_message_request_of(const struct hvd_request *req, int position);

/* The ranges, i < ranges->n. */
struct hvd_pos_range hvd_message_ranges_at(const struct hvd_pos_ranges *ranges, uint32_t i);

/* Whether all of them are within the range. */
bool hvd_message_ranges_within(const struct hvd_pos_ranges *ranges, struct hvd_pos_range range);

/* Whether requests of this kind bring the rows of every position. */
bool hvd_message_has_rows(const struct hvd_request *req);

/* The rows of the i-th position of the ranges. Never negative. */
int64_t hvd_message_request_row(const struct hvd_merged_request *merged, uint32_t i);

#endif
