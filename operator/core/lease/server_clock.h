#ifndef HVD_OPERATOR_CORE_LEASE_SERVER_CLOCK_H
#define HVD_OPERATOR_CORE_LEASE_SERVER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * An estimate of the API server's clock: our monotonic clock plus an offset. Each answer's Date
 * bounds the offset: the server wrote it, in whole seconds, between the sending of the request and
 * the arrival of the answer. Bounds of several answers are intersected, and widened by the drift of
 * a clock. Pure; all times in milliseconds.
 */
struct hvd_server_clock {
    int64_t _offset_ms; /* the server's Unix time minus our monotonic time */
    int64_t _low_ms;    /* bounds of the offset, at the time _at_ms */
    int64_t _high_ms;
    int64_t _at_ms;
    int64_t _other_low_ms; /* bounds from consecutive answers that contradict */
    int64_t _other_high_ms;
    unsigned _n_other; /* the number of those answers */
    bool is_learned;   /* an answer was used; before, the offset is that of our own clock */
};

/* The Date of an answer, and when its request was under way, by the monotonic clock. */
struct hvd_date_sample {
    int64_t date_s;
    int64_t sent_ms;
    int64_t received_ms;
};

/* Begins with our own clock: it shows unix_ms at the monotonic time now_ms. */
void hvd_server_clock_init(struct hvd_server_clock *clock, int64_t unix_ms, int64_t now_ms);

/*
 * Learns a Date. One that contradicts the earlier answers counts only when the third answer in a
 * row agrees with it. So one wrong Date, or one differing API server among several, changes
 * nothing. Returns how far the estimate moved.
 */
int64_t hvd_server_clock_learn(struct hvd_server_clock *clock,
                               const struct hvd_date_sample *sample);

/* The API server's Unix time at the monotonic time now_ms. */
int64_t hvd_server_clock_at(const struct hvd_server_clock *clock, int64_t now_ms);

#endif
