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
 * The whole decision about one job: its input is the job with its observed children, its output a
 * plan of actions. It keeps no state between calls, so a restart continues from the API server's.
 *
 * Rules for the shell (operator/app):
 * - Reconcile a job only after the caches of HorovodJobs and of all six child kinds are filled.
 * - Reconcile again after any change of the job or of an object filed under it, at wake_at_ms, and
 *   after a plan with actions was carried out.
 * - Put the answer to a create, a patch or a status patch into the cache at once (hvd_observe,
 *   hvd_job_decode), so that the next pass sees it; a watch event about an older uid of the same
 *   name never removes a newer object.
 */

/*
 * Decides what to do next for a job at time now_ms (the API server's). Fills *out, which must be
 * zeroed or come from an earlier call after hvd_plan_fini; the caller frees it with hvd_plan_fini.
 * An empty plan means that the job needs nothing. If an action fails, the shell drops the actions
 * that wait for it and reconciles the job anew. A pass that needs the text of the spec, which the
 * view lacks, plans only HVD_ACTION_READ_SPEC. HVD_ERR_NOMEM, or HVD_ERR_INVALID for an invalid
 * view; *out is empty then.
 */
hvd_status_t hvd_reconcile(const struct hvd_view *view, int64_t now_ms, struct hvd_plan *out,
                           struct hvd_err *err);

#endif
