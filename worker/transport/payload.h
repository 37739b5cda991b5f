#ifndef HVD_WORKER_TRANSPORT_PAYLOAD_H
#define HVD_WORKER_TRANSPORT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/core/collective.h"

/* Below it a fence costs more than passing the caches by saves. */
#define HVD_PAYLOAD_STREAM_MIN ((size_t)4096)

/* The payload of a collective as one run of elements. The place last used is remembered, so going
 * through it in order costs a step for each piece. */
struct hvd_payload {
    const struct hvd_piece *pieces; /* borrowed; NULL: `whole` is the only one */
    struct hvd_piece whole;
    int n_pieces;
    int at;         /* the piece last used */
    int64_t before; /* elements in front of it */
    size_t width;   /* bytes of an element */
};

/* The payload of a collective, which stays where it is. */
void hvd_payload_init(struct hvd_payload *p, const struct hvd_collective *c);

/* What begins with element `from` and lies in one piece, at most count elements: where it lies in
 * the input and in the output, and how many they are, which is returned. */
int64_t hvd_payload_stretch(struct hvd_payload *p, int64_t from, int64_t count,
                            struct hvd_piece *found);

/* Copies elements of the input to `to`. */
void hvd_payload_gather(struct hvd_payload *p, int64_t from, int64_t count, void *to);

/* Copies elements to the output; streams: past the caches. */
void hvd_payload_scatter(struct hvd_payload *p, int64_t from, int64_t count, const void *data,
                         bool streams);

/* memcpy, as fast wherever the two lie; see there. */
void hvd_payload_copy(void *to, const void *from, size_t len);

#endif
