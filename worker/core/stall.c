/*
 * Who waits for whom: tensors that some ranks have asked for by name and others have not, for too
 * long. Pure: the time comes in, text goes out.
 */
#include <inttypes.h>

#include "worker/core/negotiate_internal.h"

#define NAMES_PER_RANK_MAX 6
#define RANKS_REPORTED_MAX 32

static struct hvd_waiting *first_waiting(const struct hvd_negotiator *n)
{
    return (struct hvd_waiting *)n->waiting.first;
}

static struct hvd_waiting *next_waiting(const struct hvd_waiting *w)
{
    return (struct hvd_waiting *)hvd_names_next(&w->named);
}

static bool is_missing(const struct hvd_negotiator *n, const struct hvd_waiting *w, int rank)
{
    return !hvd_rank_bit(w->seen, rank) && !hvd_ready_has_joined(n->ready, rank);
}

static hvd_status_t report_name(struct hvd_buf *report, int rank, int number, const char *name)
{
    if (number == 1)
        return hvd_buf_printf(report, "\n%d: [%s", rank, name);
    return number <= NAMES_PER_RANK_MAX ? hvd_buf_printf(report, ", %s", name) : HVD_OK;
}

/* Adds "\nrank: [a, b, ...]" when the rank is missing from a newly stalled tensor. */
static hvd_status_t report_rank(const struct hvd_negotiator *n, int rank, int64_t before_ns,
                                struct hvd_buf *report)
{
    struct hvd_ready_stall stall = {0};
    hvd_status_t st = HVD_OK;
    int n_names = 0;

    for (const struct hvd_waiting *w = first_waiting(n); w && st == HVD_OK; w = next_waiting(w))
        if (!w->is_reported && w->since_ns <= before_ns && is_missing(n, w, rank))
            st = report_name(report, n->options.ranks[rank], ++n_names, w->name);
    for (uint32_t from = 0; st == HVD_OK && hvd_ready_next_stall(n->ready, from, &stall);
         from = stall.slot + 1)
        if (!*stall.is_reported && stall.since_ns <= before_ns &&
            hvd_ready_is_missing(n->ready, stall.slot, rank))
            st = report_name(report, n->options.ranks[rank], ++n_names, stall.name);
    if (st == HVD_OK && n_names > 0)
        st = hvd_buf_puts(report, n_names > NAMES_PER_RANK_MAX ? " ...]" : "]");
    return st;
}

static hvd_status_t write_report(const struct hvd_negotiator *n, int64_t before_ns,
                                 int64_t limit_ns, struct hvd_buf *report)
{
    hvd_status_t st = hvd_buf_printf(
        report,
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of "
        "ranks and are waiting for remainder of ranks for more than %" PRId64
        " seconds. This may indicate that different ranks are trying to submit different tensors "
        "or that only subset of ranks is submitting tensors, which will cause deadlock. \nMissing "
        "ranks:",
        limit_ns / 1000000000);
    int n_ranks = 0;

    for (int rank = 0; rank < n->options.size && st == HVD_OK && n_ranks < RANKS_REPORTED_MAX;
         rank++) {
        size_t len = report->len;
        st = report_rank(n, rank, before_ns, report);
        n_ranks += report->len > len;
    }
    return st;
}

/* Whether a tensor has stalled that was not reported; with `mark`, it counts as reported now. */
static bool any_stalled(const struct hvd_negotiator *n, int64_t before_ns, bool mark)
{
    struct hvd_ready_stall stall = {0};
    bool any = false;

    for (struct hvd_waiting *w = first_waiting(n); w; w = next_waiting(w)) {
        const bool is_new = !w->is_reported && w->since_ns <= before_ns;
        any = any || is_new;
        w->is_reported = w->is_reported || (is_new && mark);
    }
    for (uint32_t from = 0; hvd_ready_next_stall(n->ready, from, &stall); from = stall.slot + 1) {
        const bool is_new = !*stall.is_reported && stall.since_ns <= before_ns;
        any = any || is_new;
        *stall.is_reported = *stall.is_reported || (is_new && mark);
    }
    return any;
}

hvd_status_t hvd_negotiator_stalled(struct hvd_negotiator *n, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_buf *report)
{
    const int64_t before_ns = now_ns - limit_ns;

    if (!any_stalled(n, before_ns, false))
        return HVD_OK;
    hvd_status_t st = write_report(n, before_ns, limit_ns, report);
    (void)any_stalled(n, before_ns, true);
    return st;
}

const char *hvd_negotiator_overdue(const struct hvd_negotiator *n, int64_t before_ns, int *missing,
                                   int *n_missing)
{
    const struct hvd_waiting *oldest = NULL;
    struct hvd_ready_stall stall = {0};
    struct hvd_ready_stall oldest_slot = {.since_ns = before_ns};
    const int room = *n_missing;
    int found = 0;

    for (const struct hvd_waiting *w = first_waiting(n); w; w = next_waiting(w))
        if (w->since_ns <= before_ns && (!oldest || w->since_ns < oldest->since_ns))
            oldest = w;
    for (uint32_t from = 0; hvd_ready_next_stall(n->ready, from, &stall); from = stall.slot + 1)
        if (stall.since_ns <= oldest_slot.since_ns)
            oldest_slot = stall;
    if (!oldest && !oldest_slot.name)
        return NULL;
    const bool is_slot = !oldest || (oldest_slot.name && oldest_slot.since_ns < oldest->since_ns);
    for (int rank = 0; rank < n->options.size; rank++) {
        if (is_slot ? !hvd_ready_is_missing(n->ready, oldest_slot.slot, rank)
                    : !is_missing(n, oldest, rank))
            continue;
        if (found < room)
            missing[found] = n->options.ranks[rank];
        found++;
    }
    *n_missing = found;
    return is_slot ? oldest_slot.name : oldest->name;
}
