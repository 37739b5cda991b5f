/*
 * Estimates the API server's clock from its answers. The estimate moves only as far as an answer's
 * bounds require. While our own clock is right it stays the reference, to the millisecond, and time
 * never goes back more than necessary. Pure: the shell passes Dates and monotonic times.
 */
#include "operator/core/lease/server_clock.h"

#define SECOND_MS 1000
#define DRIFT 2000            /* the speed of clocks differs by at most one part in so many */
#define EARLIEST_S 1577836800 /* 2020: no server of this API is older */
#define LATEST_S 4102444800   /* 2100 */
#define N_TO_BELIEVE 3        /* consecutive answers that contradict the earlier ones */

struct bounds {
    int64_t low_ms;
    int64_t high_ms;
};

static bool has_overlap(struct bounds a, struct bounds b)
{
    return a.low_ms <= b.high_ms && b.low_ms <= a.high_ms;
}

static struct bounds both(struct bounds a, struct bounds b)
{
    return (struct bounds){a.low_ms > b.low_ms ? a.low_ms : b.low_ms,
                           a.high_ms < b.high_ms ? a.high_ms : b.high_ms};
}

/* Moves the estimate into the bounds; returns by how much. */
static int64_t take(struct hvd_server_clock *clock, struct bounds bounds, int64_t at_ms)
{
    int64_t was_ms = clock->_offset_ms;

    clock->_low_ms = bounds.low_ms;
    clock->_high_ms = bounds.high_ms;
    clock->_at_ms = at_ms;
    clock->_n_other = 0;
    clock->is_learned = true;
    if (clock->_offset_ms < bounds.low_ms)
        clock->_offset_ms = bounds.low_ms;
    if (clock->_offset_ms > bounds.high_ms)
        clock->_offset_ms = bounds.high_ms;
    return clock->_offset_ms - was_ms;
}

/* The bounds of earlier answers at now_ms: a clock that drifts widens them with time. */
static struct bounds bounds_at(const struct hvd_server_clock *clock, int64_t now_ms)
{
    int64_t passed_ms = now_ms > clock->_at_ms ? now_ms - clock->_at_ms : 0;

    return (struct bounds){clock->_low_ms - passed_ms / DRIFT, clock->_high_ms + passed_ms / DRIFT};
}

void hvd_server_clock_init(struct hvd_server_clock *clock, int64_t unix_ms, int64_t now_ms)
{
    *clock = (struct hvd_server_clock){._offset_ms = unix_ms - now_ms};
}

int64_t hvd_server_clock_learn(struct hvd_server_clock *clock, const struct hvd_date_sample *sample)
{
    struct bounds known = bounds_at(clock, sample->received_ms);
    struct bounds other = {clock->_other_low_ms, clock->_other_high_ms};
    struct bounds seen;

    if (sample->date_s < EARLIEST_S || sample->date_s > LATEST_S ||
        sample->received_ms < sample->sent_ms)
        return 0;
    seen.low_ms = sample->date_s * SECOND_MS - sample->received_ms;
    seen.high_ms = sample->date_s * SECOND_MS + (SECOND_MS - 1) - sample->sent_ms;
    if (!clock->is_learned)
        return take(clock, seen, sample->received_ms);
    if (has_overlap(known, seen))
        return take(clock, both(known, seen), sample->received_ms);
    if (clock->_n_other && has_overlap(other, seen)) {
        other = both(other, seen);
        clock->_n_other++;
    } else {
        other = seen;
        clock->_n_other = 1;
    }
    if (clock->_n_other >= N_TO_BELIEVE)
        return take(clock, other, sample->received_ms);
    clock->_other_low_ms = other.low_ms;
    clock->_other_high_ms = other.high_ms;
    return 0;
}

int64_t hvd_server_clock_at(const struct hvd_server_clock *clock, int64_t now_ms)
{
    return clock->_offset_ms + now_ms;
}
