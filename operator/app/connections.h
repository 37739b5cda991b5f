#ifndef HVD_OPERATOR_APP_CONNECTIONS_H
#define HVD_OPERATOR_APP_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

/* From accept, or the end of the last answer, to the end of a request's headers. */
#define HVD_CONNECTION_REQUEST_MS 5000
/* From the end of the headers to the end of the answer. */
#define HVD_CONNECTION_ANSWER_MS 10000

enum hvd_connection_phase {
    HVD_CONNECTION_REQUEST, /* no complete request: silent, idle, slow, in a TLS handshake */
    HVD_CONNECTION_ANSWER,  /* the answer is on its way */
    HVD_CONNECTION_CLOSING, /* shut down here, not yet closed by its owner */
};
#define HVD_N_CONNECTION_PHASES 3

/* A client's connection. Private but for connections.c. */
struct hvd_connection {
    struct hvd_connection *_prev;
    struct hvd_connection *_next;
    int64_t _due_ms;
    enum hvd_connection_phase _phase;
    int _fd;
};

/*
 * The connections of a server. Each has an absolute deadline for its phase, regardless of traffic.
 * This module shuts a connection down; its owner sees the end of the stream, closes the descriptor
 * and calls hvd_connections_remove. One thread.
 */
struct hvd_connections {
    struct hvd_connection _heads[HVD_N_CONNECTION_PHASES]; /* rings, earliest deadline first */
    size_t _n[HVD_N_CONNECTION_PHASES];
    size_t _max;
    uint64_t n_overdue; /* shut down at their deadline */
    uint64_t n_evicted; /* shut down to make room */
};

/* An empty set of at most max open connections. The set must not move afterwards. */
void hvd_connections_init(struct hvd_connections *set, size_t max);

/* Adds a connection that waits for a request. fd stays the caller's. NULL: out of memory. */
struct hvd_connection *hvd_connections_add(struct hvd_connections *set, int fd, int64_t now_ms);

/* Begins a phase, REQUEST or ANSWER, with its deadline. No effect on one that is shut down. */
void hvd_connections_enter(struct hvd_connections *set, struct hvd_connection *connection,
                           enum hvd_connection_phase phase, int64_t now_ms);

/* Forgets and frees a connection whose descriptor is closed. NULL is legal. */
void hvd_connections_remove(struct hvd_connections *set, struct hvd_connection *connection);

/* Shuts down overdue connections. Returns the next deadline, INT64_MAX: there is none. */
int64_t hvd_connections_expire(struct hvd_connections *set, int64_t now_ms);

/*
 * Shuts down connections until n more fit: those without a complete request first, and of them the
 * oldest. Returns how many.
 */
size_t hvd_connections_make_room(struct hvd_connections *set, size_t n);

/* Connections that are not shut down. */
size_t hvd_connections_count(const struct hvd_connections *set);

#endif
