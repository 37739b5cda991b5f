#ifndef HVD_WORKER_CORE_MESSAGE_H
#define HVD_WORKER_CORE_MESSAGE_H

#include <endian.h>
#include <string.h>

#include "base/buf.h"
#include "worker/core/tree.h"
#include "worker/core/types.h"

/*
 * Control messages between ranks about the tensors of one process set. Little endian, no padding:
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
 *     PING      kind(1) age_ms(4) name_len(2) name n_known(4), unless that is 0 behind, then count
 *               times: position(4)
 *     PONG      the same
 *     behind     progress(8) n(4), then for the first HVD_BEHIND_MAX of them: position(4)
 *     ranges     n_ranges(4), then so often: first(4) n(4)
 *
 * A request with a refusal comes from ranks that rejected what the program submitted. The tensor
 * fails on all ranks, with this text.
 *
 * REQUESTS, BITS, PARTIAL and LEAVE go up the tree of the set, and a PLAN comes down. A PING goes
 * to a neighbour in the tree, which answers with a PONG. Both hold the sender's wait with its
 * duration, the positions that do not answer as far as the sender has found out, and those whose
 * devices have come least far (heartbeat.h).
 *
 * Ranges are the positions in the tree that make exactly this request, in order, with gaps between
 * them. age_ms is the time since the sender received the first request for the tensor.
 *
 * A PARTIAL reports the positions that have requested a cached tensor by bit while others of the
 * subtree take long. It triggers no action, but the stall report uses it to find the missing ranks.
 *
 * A LEAVE means that the ranks of its range have called shutdown, or that they have failed. It can
 * also end the job because a tensor of a process set has stalled. In the last two cases they send
 * it to the coordinator directly. A LEAVE after the DOWN step reports that the sender's subtree has
 * finished, so its parent may leave.
 *
 * A plan is the agreed order: every rank performs the cached tensors by slot, then the steps in
 * their order. epoch numbers the plans of a set; BITS refer to the slots as they were after the
 * plan of that epoch.
 *
 * The decoder never allocates and never reads beyond the given length. It rejects anything that the
 * encoder would not produce, so a garbled message only causes an error.
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

/* The reason for a LEAVE. */
enum hvd_leave_why {
    HVD_LEAVE_CALLED = 0,  /* the ranks have called shutdown */
    HVD_LEAVE_FAILED = 1,  /* they cannot continue, so the job cannot either */
    HVD_LEAVE_STALLED = 2, /* the job shall end in order; no rank has left yet */
};

/* What a rank waits for, in a PING or PONG. */
enum hvd_wait_kind {
    HVD_WAIT_NONE = 0,
    HVD_WAIT_PLAN = 1,  /* the plan with a tensor */
    HVD_WAIT_DATA = 2,  /* the movement of a tensor */
    HVD_WAIT_LEAVE = 3, /* the other ranks, to leave */
    HVD_WAIT_SET = 4,   /* the other members, to create the process set */
    HVD_WAIT_KINDS = 5,
};

/* Maximum number of silent positions in a PING or PONG. */
#define HVD_SILENT_MAX 8

/* Maximum number of positions in a struct hvd_behind. */
#define HVD_BEHIND_MAX 4

/* Maximum bytes of a message that a rank sends or accepts. */
#define HVD_MESSAGE_MAX ((size_t)64 << 20)

/* The slot of a tensor that is not cached. */
#define HVD_CACHE_NO_SLOT UINT32_MAX

/* Maximum number of slots; bounds what a message can make a rank allocate. */
#define HVD_CACHE_SLOTS_MAX ((uint32_t)1 << 24)

/* Steps of a plan that are not an hvd_op. */
enum hvd_step_kind {
    HVD_STEP_ERROR = 8,    /* the tensor ends with text */
    HVD_STEP_SHUTDOWN = 9, /* all pending tensors end with text */
    HVD_STEP_ABORT = 10,   /* likewise, but at once, and also tensors that are moving */
    HVD_STEP_DOWN = 11,    /* every rank has left; no plan follows */
    HVD_STEP_EVICT = 12,   /* the slot is free; ranks repeat requests for it by name */
    HVD_STEP_DROP = 13,    /* the tensor ends with text on the ranks that have requested it */
};

/* One step of a plan; all pointers are borrowed from the message. */
struct hvd_step {
    int kind; /* enum hvd_op or enum hvd_step_kind */
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    enum hvd_device device; /* the tensor's memory, on ranks that have the tensor */
    double prescale;
    double postscale;
    int64_t count;  /* elements of the input, for joined ranks; JOIN: the rank that joined last */
    uint32_t slot;  /* assigned to the tensor by this step; or HVD_CACHE_NO_SLOT */
    uint32_t group; /* of the cached tensor: 0 for no group, else the group's number */
    uint32_t group_size; /* how many cached tensors complete together */
    struct hvd_strview name;
    struct hvd_strview text;
    uint32_t n_rows;   /* allgather: the number of ranks */
    const char *_rows; /* unaligned; read it with hvd_message_step_row */
};

/* Positions that make the same request: ranges in order, with gaps between them. Read them with
 * hvd_message_ranges_at. */
struct hvd_pos_ranges {
    uint32_t n;
    struct hvd_pos_range one; /* the only range, if _bytes is NULL */
    const char *_bytes;       /* in a message; NULL: there is just `one` */
};

/* A request and the positions that make it; all pointers are borrowed. */
struct hvd_merged_request {
    struct hvd_request request; /* for an allgather: with the rows of the first position */
    struct hvd_pos_ranges by;
    uint32_t age_ms;
    struct hvd_strview refusal; /* why these ranks refused the tensor; empty: they did not */
    const char *_rows;          /* NULL: all have the rows of the request */
};

/* The positions that have requested a cached tensor. */
struct hvd_partial {
    uint32_t slot;
    uint32_t age_ms;
    struct hvd_pos_ranges by;
};

/* Which ranks of some have come least far, by their progress (heartbeat.h). */
struct hvd_behind {
    uint32_t n_known;  /* how many ranks it is about; 0: nothing is known, not even the rest */
    uint32_t n;        /* those that have come least far; at least 1 */
    uint64_t progress; /* of each of them */
    int positions[HVD_BEHIND_MAX]; /* the first of them, in order */
};

/* A PING or PONG; all pointers are borrowed. */
struct hvd_beat {
    enum hvd_wait_kind kind;
    uint32_t age_ms;
    struct hvd_strview name; /* of the tensor; may be empty */
    struct hvd_behind behind;
    uint32_t n_silent; /* at most HVD_SILENT_MAX; read with hvd_message_beat_silent */
    const char *_silent;
};

/* Reads a message from start to end. */
struct hvd_reader {
    enum hvd_message_type type;
    uint32_t left;  /* unread items */
    uint32_t set;   /* the process set of the message */
    uint64_t epoch; /* BITS, PARTIAL, PLAN */
    int64_t fusion; /* PLAN: maximum bytes of a fused operation, from the coordinator's options */
    uint32_t cycle_us; /* PLAN: how long ranks may hold back submitted tensors, likewise */
    uint32_t n_words;  /* BITS, PLAN: words to read with hvd_message_word */
    const char *_words;
    struct hvd_strview _rest;
};

/* Starts a message without items in an empty buffer. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_begin(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set);

/* Writes a whole BITS message into an empty buffer. With words NULL, hvd_message_add_word adds
 * them one by one. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_bits(struct hvd_buf *buf, uint32_t set, uint64_t epoch,
                              const uint64_t *words, uint32_t n_words);

/* Appends a word to a BITS message that was written without words. Fails as hvd_message_bits
 * does. */
hvd_status_t hvd_message_add_word(struct hvd_buf *buf, uint64_t word);

/* Starts a PARTIAL message in an empty buffer. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_begin_partial(struct hvd_buf *buf, uint32_t set, uint64_t epoch);

/* Writes a whole PING or PONG into an empty buffer, with beat->n_silent positions in any order.
 * Cuts a name longer than HVD_NAME_MAX. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_beat(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set,
                              const struct hvd_beat *beat, const int *silent);

/* The fields of a plan besides its steps. */
struct hvd_plan_head {
    uint64_t epoch;
    int64_t fusion;
    uint32_t cycle_us;
    const uint64_t *words; /* borrowed */
    uint32_t n_words;
};

/* Ends a plan, to which no step may be added afterwards. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_end_plan(struct hvd_buf *buf, const struct hvd_plan_head *head);

/* The positions of an item; all pointers are borrowed. */
struct hvd_by {
    const struct hvd_pos_range *ranges; /* in order, with gaps between them */
    uint32_t n_ranges;
    uint32_t age_ms;
    const int64_t *rows; /* allgather: position p has rows[p - rows_first]; NULL: the item is from
                            one position, with the rows of the request */
    int rows_first;
    struct hvd_strview refusal; /* of a request: why the ranks refused it; empty: they did not */
};

/*
 * Appends a request and counts it in the header. On failure (HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE) the
 * message is unchanged.
 */
hvd_status_t hvd_message_add_request(struct hvd_buf *buf, const struct hvd_request *req,
                                     const struct hvd_by *by);

/* Appends a slot; fails as hvd_message_add_request does. */
hvd_status_t hvd_message_add_partial(struct hvd_buf *buf, uint32_t slot, const struct hvd_by *by);

/* Appends a range that leaves, and cuts text longer than HVD_TEXT_MAX. Fails as
 * hvd_message_add_request does. */
hvd_status_t hvd_message_add_leave(struct hvd_buf *buf, struct hvd_pos_range who,
                                   enum hvd_leave_why why, const char *text);

/* Appends a step with n_rows rows; NULL when there are none. Name and text may be empty. Fails
 * as hvd_message_add_request does. */
hvd_status_t hvd_message_add_step(struct hvd_buf *buf, const struct hvd_step *step,
                                  const int64_t *rows);

/* Opens a message, which must outlive the reader. HVD_ERR_INVALID when the bytes are no valid
 * message. */
hvd_status_t hvd_message_open(struct hvd_reader *r, const void *data, size_t len,
                              struct hvd_err *err);

/*
 * Reads the next item. HVD_ERR_INVALID when the message is of another type, the item is malformed,
 * none is left, or bytes follow the last one. Decodes the request, but does not check it against
 * the job: see hvd_request_check.
 */
hvd_status_t hvd_message_read_request(struct hvd_reader *r, struct hvd_merged_request *merged,
                                      struct hvd_err *err);

/* Reads the next slot; fails as hvd_message_read_request does. */
hvd_status_t hvd_message_read_partial(struct hvd_reader *r, struct hvd_partial *partial,
                                      struct hvd_err *err);

/* Reads the next range that leaves; *text is borrowed from the message. Fails as
 * hvd_message_read_request does. */
hvd_status_t hvd_message_read_leave(struct hvd_reader *r, struct hvd_pos_range *who,
                                    enum hvd_leave_why *why, struct hvd_strview *text,
                                    struct hvd_err *err);

/* Reads a whole PING or PONG; fails as hvd_message_read_request does. */
hvd_status_t hvd_message_read_beat(struct hvd_reader *r, struct hvd_beat *beat,
                                   struct hvd_err *err);

/* Returns how many positions it has. */
static inline uint32_t hvd_message_behind_named(const struct hvd_behind *behind)
{
    return behind->n < HVD_BEHIND_MAX ? behind->n : HVD_BEHIND_MAX;
}

/* Returns the i-th silent position, i < beat->n_silent. Never negative. */
int hvd_message_beat_silent(const struct hvd_beat *beat, uint32_t i);

/* Reads the next step; fails as hvd_message_read_request does. */
hvd_status_t hvd_message_read_step(struct hvd_reader *r, struct hvd_step *step,
                                   struct hvd_err *err);

/* Makes a reader of bits that did not come in a message. It is like the reader of a BITS
 * message, but its set is 0. Borrows the words, and converts them to the byte order of a
 * message. */
struct hvd_reader hvd_message_of_bits(uint64_t *words, uint32_t n_words, uint64_t epoch);

/* Returns a word of bits, i < r->n_words. */
static inline uint64_t hvd_message_word(const struct hvd_reader *r, uint32_t i)
{
    uint64_t word;

    memcpy(&word, r->_words + (size_t)i * sizeof(word), sizeof(word));
    return le64toh(word);
}

/* Returns the rows of a rank, rank < step->n_rows. Never negative. */
int64_t hvd_message_step_row(const struct hvd_step *step, uint32_t rank);

/* Makes the request of one position. */
struct hvd_merged_request hvd_message_request_of(const struct hvd_request *req, int position);

/* Returns the i-th range, i < ranges->n. */
struct hvd_pos_range hvd_message_ranges_at(const struct hvd_pos_ranges *ranges, uint32_t i);

/* Whether all ranges are within `range`. */
bool hvd_message_ranges_within(const struct hvd_pos_ranges *ranges, struct hvd_pos_range range);

/* Whether requests of this kind contain the rows of every position. */
bool hvd_message_has_rows(const struct hvd_request *req);

/* Returns the rows of the i-th position in the ranges. Never negative. */
int64_t hvd_message_request_row(const struct hvd_merged_request *merged, uint32_t i);

#endif
