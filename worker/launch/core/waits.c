/*
 * Decides when the wrapper around a rank sends a notice. There are notices that the rank waits in
 * horovod_init or in MPI_Finalize, that it is stopped, and that neither is so any more. Each look
 * adds a bounded step to the times. So a wrapper that was stopped, together with its rank and the
 * others, does not count that time.
 */
#include "worker/launch/core/waits.h"

/* The notice that is due now; HVD_NOTICE_END: none. */
static enum hvd_report_notice judge(const struct hvd_waits *waits,
                                    const struct hvd_waits_view *view)
{
    if (waits->stopped_ms >= HVD_WAITS_FIRST_MS)
        return HVD_NOTICE_STOPPED;
    if (waits->waited_ms < HVD_WAITS_FIRST_MS)
        return HVD_NOTICE_END;
    if (view->is_final)
        return HVD_NOTICE_WAITS_FINAL;
    return view->joins_all ? HVD_NOTICE_WAITS : HVD_NOTICE_WAITS_SOME;
}

bool hvd_waits_look(struct hvd_waits *waits, const struct hvd_waits_view *view, int64_t now_ms,
                    enum hvd_report_notice *notice)
{
    const int64_t passed_ms = waits->last_ms > 0 ? now_ms - waits->last_ms : 0;
    const int64_t step_ms = passed_ms < HVD_WAITS_LOOK_MS ? passed_ms : HVD_WAITS_LOOK_MS;
    const bool waits_now = view->is_final || hvd_rank_state_is_init(view->phase);
    const bool goes_on =
        waits_now && view->is_final == waits->is_final && view->n_joins == waits->n_joins;

    waits->last_ms = now_ms;
    waits->n_joins = view->n_joins;
    waits->is_final = view->is_final;
    waits->waited_ms = goes_on ? waits->waited_ms + step_ms : 0;
    waits->stopped_ms = view->is_stopped ? waits->stopped_ms + step_ms : 0;
    waits->since_ms += step_ms;

    const enum hvd_report_notice due = judge(waits, view);
    const bool is_over = due == HVD_NOTICE_END && waits->sent != HVD_NOTICE_END;
    const bool is_due =
        due != HVD_NOTICE_END && (due != waits->sent || waits->since_ms >= HVD_WAITS_AGAIN_MS);

    if (!is_over && !is_due)
        return false;
    waits->sent = due;
    waits->since_ms = 0;
    *notice = is_over ? HVD_NOTICE_GOES_ON : due;
    return true;
}
