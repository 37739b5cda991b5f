/*
 * Tensors that wait for too long: named in the log, with the ranks they wait for, and the end of
 * the job where that was asked for. The driver's.
 */
#include <stdio.h>
#include <string.h>

#include "worker/engine/engine_internal.h"

#define STALL_CHECK_NS 1000000000
#define STALL_REPORT_MAX 2048
#define STALLED_RANKS_NAMED 4

/* Appends " rank 1 on host a, rank 3 on host b and 2 more". What does not fit is left out. */
static void add_ranks(const struct hvd_engine *e, const int *ranks, int n_ranks, char *text,
                      size_t size)
{
    for (int i = 0; i < n_ranks && i < STALLED_RANKS_NAMED; i++) {
        const char *host = e->transport->ops->host(e->transport, ranks[i]);
        const size_t len = strlen(text);
        snprintf(text + len, size - len, "%s rank %d%s%.64s", i ? "," : "", ranks[i],
                 host ? " on host " : "", host ? host : "");
    }
    if (n_ranks > STALLED_RANKS_NAMED) {
        const size_t len = strlen(text);
        snprintf(text + len, size - len, " and %d more", n_ranks - STALLED_RANKS_NAMED);
    }
}

/* Ends the job when a tensor has waited for too long: every rank hears which, and for whom. */
static hvd_status_t end_stalled(struct hvd_engine *e, const struct hvd_set *set, int64_t now_ns,
                                struct hvd_err *err)
{
    int ranks[STALLED_RANKS_NAMED];
    int n_ranks = STALLED_RANKS_NAMED;
    char text[HVD_TEXT_MAX];
    const int64_t limit_ns = e->options.stall_shutdown_ns;
    const char *name =
        limit_ns > 0 ? hvd_negotiator_overdue(set->negotiator, now_ns - limit_ns, ranks, &n_ranks)
                     : NULL;

    if (!name)
        return HVD_OK;
    snprintf(text, sizeof(text),
             "Tensor %.300s is stalled for longer than %.3g seconds "
             "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for",
             name, (double)limit_ns / 1e9);
    add_ranks(e, ranks, n_ranks, text, sizeof(text));
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s. Will shutdown.", text);
    /* Of another set: rank 0 hears of it as of any failure here. */
    return set->id == 0
               ? hvd_negotiator_leave(set->negotiator, (struct hvd_span){.n = 1}, true, text, err)
               : HVD_FAIL(err, HVD_ERR_TIMEOUT, 0, "%s", text);
}

hvd_status_t hvd_check_stalls(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                              struct hvd_err *err)
{
    struct hvd_buf report;

    if (set->relay) /* in time for the coordinator to name who is missing */
        return hvd_relay_stalled(set->relay, now_ns, e->options.stall_warning_ns / 2, err);
    if (!set->negotiator)
        return HVD_OK;
    hvd_buf_init(&report, STALL_REPORT_MAX);
    hvd_status_t st =
        hvd_negotiator_stalled(set->negotiator, now_ns, e->options.stall_warning_ns, &report);
    if (report.len > 0) { /* a report that was cut is still one */
        hvd_log(e->options.log, HVD_LOG_WARN, "engine", "%s", report.data);
        hvd_watch_stalled(e->options.watch, (int)hvd_negotiator_waiting(set->negotiator),
                          report.data);
    }
    hvd_buf_fini(&report);
    if (st == HVD_ERR_NOMEM)
        return HVD_FAIL(err, st, 0, "out of memory for a stall report");
    return end_stalled(e, set, now_ns, err);
}

bool hvd_is_stall_check_due(struct hvd_engine *e, int64_t now_ns)
{
    const int64_t limit_ns = e->options.stall_warning_ns;

    if (limit_ns == 0 || now_ns < e->next_stall_check_ns)
        return false;
    e->next_stall_check_ns =
        now_ns + (limit_ns / 8 < STALL_CHECK_NS ? limit_ns / 8 + 1 : STALL_CHECK_NS);
    return true;
}
