#ifndef HVD_OPERATOR_CORE_PASS_PLAN_H
#define HVD_OPERATOR_CORE_PASS_PLAN_H

#include <cjson/cJSON.h>

#include "operator/core/observe/observe.h"
#include "operator/core/reconcile.h"
#include "operator/core/writes/repair.h"

/* Within operator/core only. Adding actions to a plan. All: HVD_ERR_NOMEM leaves the plan as it
 * was. */

/* Adds an action; body is taken over in every case and may be NULL after a failure of its maker. */
hvd_status_t hvd_plan_add(struct hvd_plan *plan, const struct hvd_action *action,
                          const char *namespace, const char *name);

/* Removes the action of that number; those behind it move up. */
void hvd_plan_remove(struct hvd_plan *plan, size_t at);

/* Puts the events, but for those about repairs, behind all other actions, which they wait for. */
void hvd_plan_defer_events(struct hvd_plan *plan);

/* Wakes at that time, or earlier if something else asks for it. */
void hvd_plan_wake(struct hvd_plan *plan, int64_t at_ms);

/* A write: the object, and what of it is set to what (repair.h). */
struct hvd_write {
    enum hvd_kind kind;
    const char *name;
    enum hvd_repair repair;
    uint64_t value;
};

/* Adds the deletion of an object, by uid; its dependents go in the background. */
hvd_status_t hvd_plan_delete(struct hvd_plan *plan, const struct hvd_write *write,
                             const char *namespace, const char *uid);

/* Adds the deletion of a pod without any grace period: its node does not answer. */
hvd_status_t hvd_plan_kill(struct hvd_plan *plan, const struct hvd_write *write,
                           const struct hvd_object *pod);

/* An event about the job. */
struct hvd_event {
    const char *reason;
    const char *message;
    bool is_warning;
    const char *key; /* what it tells of, once per attempt, however it is worded; NULL: the message
                        at this point of the job's life */
};

/*
 * Adds an event about the job at now_s. Its name is derived from what the job's persisted status
 * holds, so until the status that comes with the event is written, the same occurrence has the same
 * name.
 */
hvd_status_t hvd_plan_event(struct hvd_plan *plan, const struct hvd_job *job,
                            const struct hvd_event *event, int64_t now_s);

#endif
