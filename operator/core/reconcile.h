#ifndef HVD_OPERATOR_CORE_RECONCILE_H
#define HVD_OPERATOR_CORE_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/api/kind.h"
#include "operator/core/pass/plan.h"
#include "operator/core/view/view.h"

/*
 * The whole decision: one job and what is observed of its children, in; a plan of actions, out. No
 * state is kept between calls, so a restart continues from what the API server holds.
 *
 * How the shell (operator/app) drives it
 * - Reconcile a job only after the caches of HorovodJobs and of all six child kinds are filled.
 * - Reconcile again after any change of the job or of an object filed under it, at wake_at_ms, and
 *   after a plan with actions was carried out.
 * - What a create, a patch or a status patch returns goes into the cache at once (hvd_observe,
 *   hvd_job_decode), so that the next pass sees it; a watch event about an older uid of the same
 *   name never removes a newer object.
 */

/*
 * Decides what to do next for a job at time now_ms (the API server's). Fills *out, which must be
 * zeroed or come from an earlier call after hvd_plan_fini; the caller frees it with hvd_plan_fini.
 * An empty plan means that all is as it should be. If an action fails, the actions that wait behind
 * it are dropped and the job is reconciled anew. A pass that needs the text of the spec where the
 * view has none plans HVD_ACTION_READ_SPEC alone. HVD_ERR_NOMEM, or HVD_ERR_INVALID for a view that
 * is no view; *out is empty then.
 */
hvd_status_t hvd_reconcile(const struct hvd_view *view, int64_t now_ms, struct hvd_plan *out,
                           struct hvd_err *err);

#endif
