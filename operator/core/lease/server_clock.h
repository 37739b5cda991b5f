#ifndef HVD_OPERATOR_CORE_LEASE_SERVER_CLOCK_H
#define HVD_OPERATOR_CORE_LEASE_SERVER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * An estimate of the API server's clock: our monotonic clock and an offset. Each answer's Date
 * bounds the offset: the server wrote it, in whole seconds, between the times at which we sent the
 * request and received the answer. Bounds of several answers are intersected, and widened by the
 * drift of a clock. Pure; all times in milliseconds.
 */
struct hvd_server_clock {
    int64_t _offset_ms; /* the server's Unix time less our monotonic time */
    int64_t _low_ms;    /* bounds of the offset, at the time _at_ms */
    int64_t _high_ms;
    int64_t _at_ms;
    int64_t _other_low_ms; /* bounds of the answers in a row that contradict */
    int64_t _other_high_ms;
    unsigned _n_other; /* so many */
    bool is_learned;   /* an answer was taken in; before, the offset is that of our own clock */
};

/* The Date of an answer, and when it was under way, by the monotonic clock. */
struct hvd_date_sample {
    int64_t date_s;
    int64_t sent_ms;
    int64_t received_ms;
};

/* Begins with our own clock: it shows unix_ms at the monotonic time now_ms. */
void hvd_server_clock_init(struct hvd_server_clock *clock, int64_t unix_ms, int64_t now_ms);

/*
 * Takes a Date in. What contradicts the answers before counts only when the third answer in a row
 * agrees with it, so that one wrong Date, or an API server among several, changes nothing. Returns
 * by how much the estimate has moved.
 */
int64_t hvd_server_clock_learn(struct hvd_server_clock *clock,
                               const struct hvd_date_sample *sample);

/* The API server's Unix time at the monotonic time now_ms. */
int64_t hvd_server_clock_at(const struct hvd_server_clock *clock, int64_t now_ms);

#endif
