#ifndef HVD_WORKER_CORE_MESSAGE_H
#define HVD_WORKER_CORE_MESSAGE_H

#include "base/buf.h"
#include "worker/core/types.h"

/*
 * What ranks say to each other. Little endian, no padding:
 *
 *     header    'h' 'v' version(1) type(1) count(4)
 *     REQUESTS  count times: op(1) dtype(1) reduce(1) ndim(1) root(4) name_len(2) name shape(8
 * each) LEAVE     count = 1:   failed(1) text_len(2) text                      (rank to
 * coordinator) PLAN      count times: kind(1) name_len(2) name n_rows(4) rows(8 each) text_len(2)
 * text
 *
 * A plan is the agreed order: every rank performs its steps one after the other as they stand.
 * Decoding never allocates, never reads past the length given and refuses what encoding would not
 * produce, so a garbled message is an error and no more.
 */
enum hvd_message_type {
    HVD_MESSAGE_REQUESTS = 1,
    HVD_MESSAGE_LEAVE = 2,
    HVD_MESSAGE_PLAN = 3,
};

/* Bytes of a message at most, on either side. */
#define HVD_MESSAGE_MAX ((size_t)64 << 20)

/* The steps of a plan: an hvd_op to perform, or one of these. */
enum hvd_step_kind {
    HVD_STEP_ERROR = 8,    /* the tensor ends with text */
    HVD_STEP_SHUTDOWN = 9, /* all pending tensors end with text */
    HVD_STEP_ABORT = 10,   /* the same, at once: also what is moving already */
    HVD_STEP_DOWN = 11,    /* every rank has left: nothing follows */
};

/* One step as it stands in a plan; everything is borrowed from the message. */
struct hvd_step {
    int kind; /* enum hvd_op or enum hvd_step_kind */
    struct hvd_strview name;
    struct hvd_strview text;
    uint32_t n_rows;   /* allgather: the number of ranks */
    const char *_rows; /* unaligned, read with hvd_step_row */
};

/* Reads a message from front to back. */
struct hvd_reader {
    enum hvd_message_type type;
    uint32_t left; /* items not read yet */
    struct hvd_strview _rest;
};

/* Starts a message in an empty buffer. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_message_begin(struct hvd_buf *buf, enum hvd_message_type type);

/*
 * Appends an item and counts it in the header. On failure (HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE) the
 * message is as it was before.
 */
hvd_status_t hvd_message_add_request(struct hvd_buf *buf, const struct hvd_request *req);

/* As above; text longer than HVD_TEXT_MAX is cut. */
hvd_status_t hvd_message_add_leave(struct hvd_buf *buf, bool failed, const char *text);

/* As above; rows may be NULL when n_rows is 0, name and text may be empty. */
hvd_status_t hvd_message_add_step(struct hvd_buf *buf, int kind, struct hvd_strview name,
                                  const int64_t *rows, uint32_t n_rows, const char *text);

/* Opens a message, which must outlive the reader. HVD_ERR_INVALID when it is not one. */
hvd_status_t hvd_reader_init(struct hvd_reader *r, const void *data, size_t len,
                             struct hvd_err *err);

/*
 * The next item of a message of that type; HVD_ERR_INVALID when it is malformed, when there is none
 * left, or when bytes follow the last one. The request is decoded, not checked against the job:
 * see hvd_request_check.
 */
hvd_status_t hvd_reader_request(struct hvd_reader *r, struct hvd_request *req, struct hvd_err *err);

/* As above. *text is borrowed from the message. */
hvd_status_t hvd_reader_leave(struct hvd_reader *r, bool *failed, struct hvd_strview *text,
                              struct hvd_err *err);

/* As above. */
hvd_status_t hvd_reader_step(struct hvd_reader *r, struct hvd_step *step, struct hvd_err *err);

/* The rows of a rank, rank < step->n_rows. Never negative. */
int64_t hvd_step_row(const struct hvd_step *step, uint32_t rank);

#endif
