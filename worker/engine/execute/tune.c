/*
 * Autotuning: what landed is counted on the coordinator of all ranks, and the settings that come of
 * it go out with its next plan, so every rank takes them at the same one. The progress owner's.
 */
#include "worker/engine/execute/tune.h"

#include "worker/autotune/autotune.h"
#include "worker/engine/state/clock.h"

void hvd_tune_landed(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f)
{
    const int64_t width = (int64_t)hvd_dtype_size((int)f->request.dtype);
    bool is_full = false;

    if (set->id != 0 || f->request.op != HVD_ALLREDUCE || !set->own.negotiator)
        return;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_member *m = &f->members[i];
        if (m->entry &&
            hvd_autotune_count(e->options.autotune, m->entry->request.name, m->count * width))
            is_full = true;
    }
    if (!is_full)
        return;
    const struct hvd_tuning tuning = hvd_autotune_next(e->options.autotune, hvd_engine_now_ns());
    hvd_negotiator_tune(set->own.negotiator, tuning.fusion_bytes, (uint32_t)tuning.cycle_us);
}
