#ifndef HVD_WORKER_TRANSPORT_PAYLOAD_H
#define HVD_WORKER_TRANSPORT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/core/collective.h"

/* For fewer bytes a fence costs more than the stores past the caches save. */
#define HVD_PAYLOAD_STREAM_MIN ((size_t)4096)

/* The payload of a collective as one run of elements. It remembers the piece used last, so a pass
 * in order costs one step per piece. */
struct hvd_payload {
    const struct hvd_piece *pieces; /* borrowed; NULL: `whole` is the only one */
    struct hvd_piece whole;
    int n_pieces;
    int at;         /* the piece last used */
    int64_t before; /* elements before it */
    size_t width;   /* bytes of an element */
};

/* Initialises p with the payload of a collective. Copies no elements. */
void hvd_payload_init(struct hvd_payload *p, const struct hvd_collective *c);

/* The stretch that begins with element `from` and lies in one piece, at most count elements. Writes
 * its place in the input and in the output to *found, and returns its number of elements. */
int64_t hvd_payload_stretch(struct hvd_payload *p, int64_t from, int64_t count,
                            struct hvd_piece *found);

/* Copies elements of the input to `to`. */
void hvd_payload_gather(struct hvd_payload *p, int64_t from, int64_t count, void *to);

/* Copies elements to the output; streams: past the caches. */
void hvd_payload_scatter(struct hvd_payload *p, int64_t from, int64_t count, const void *data,
                         bool streams);

/* memcpy that is equally fast for all addresses; payload.c gives the reason. */
void hvd_payload_copy(void *to, const void *from, size_t len);

#endif
