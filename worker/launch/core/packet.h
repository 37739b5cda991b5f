#ifndef HVD_WORKER_LAUNCH_CORE_PACKET_H
#define HVD_WORKER_LAUNCH_CORE_PACKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/*
 * A rank's standard output within its standard error. Open MPI 4 reads standard output from a
 * terminal, in pieces that may end within a line before another rank's piece. Standard error is a
 * pipe that keeps each write apart. A packet is one such write:
 *
 *     \035 NONCE : LENGTH(4 hexadecimal digits) ; so many bytes
 */
#define HVD_PACKET_NONCE_LEN 32
#define HVD_PACKET_HEAD_LEN ((size_t)HVD_PACKET_NONCE_LEN + 7)

/* Separates packets from the other bytes. */
struct hvd_packet_reader {
    const char *_nonce; /* borrowed */
    char _head[HVD_PACKET_HEAD_LEN];
    size_t _n_head;
    size_t _n_left; /* bytes of the packet to come */
};

/* Makes a reader of packets with that nonce, which is borrowed and has HVD_PACKET_NONCE_LEN
 * bytes. */
void hvd_packet_init(struct hvd_packet_reader *reader, const char *nonce);

/* Writes the head, HVD_PACKET_HEAD_LEN bytes, of a packet of `len` bytes, at most 65535. */
void hvd_packet_head(const char *nonce, size_t len, char *out);

/* Takes at least one byte off *data, and only bytes of one kind: appends those of a packet to out,
 * others to rest. *data must not be empty. Fails as hvd_buf_add. */
hvd_status_t hvd_packet_step(struct hvd_packet_reader *reader, struct hvd_strview *data,
                             struct hvd_buf *out, struct hvd_buf *rest);

/* Takes all bytes of data in such steps. Fails as hvd_buf_add. */
hvd_status_t hvd_packet_feed(struct hvd_packet_reader *reader, struct hvd_strview data,
                             struct hvd_buf *out, struct hvd_buf *rest);

/* Whether it holds bytes back that may begin a packet. */
bool hvd_packet_is_holding(const struct hvd_packet_reader *reader);

/* Called after a silence: appends such bytes to rest. Fails as hvd_buf_add. */
hvd_status_t hvd_packet_idle(struct hvd_packet_reader *reader, struct hvd_buf *rest);

/* The number of bytes for one piece of at most max bytes: whole lines where one fits, else as many
 * as fit. */
size_t hvd_packet_cut(struct hvd_strview data, size_t max);

#endif
