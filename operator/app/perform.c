/*
 * Executes the plans of reconcile. A run is one plan of one job: it sends the actions in order,
 * overlapping where allowed, and every answer enters the store before the run continues. An answer
 * that rules out a quick retry (a foreign object, a refused template) becomes a failure in the next
 * reconcile. A denied write is delayed, and waits alone (denial.h). A conflict means that the store
 * is behind, so the object is read again. A request without an answer fails the run, and the
 * queue's backoff applies. One thread; no request body is ever logged.
 *
 *    send actions ... until one that waits ---> all answered? ---> performed()
 *         ^                                         |
 *         +------- an answer came ------------------+
 */
#include "operator/app/perform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/shape.h"
#include "operator/app/answer.h"
#include "operator/app/clock.h"
#include "operator/app/reads.h"
#include "operator/app/sshkey.h"
#include "operator/app/stages.h"
#include "operator/core/children/children.h"
#include "operator/core/children/owner.h"
#include "operator/core/launch/launch.h"
#include "operator/core/obstacles/trace.h"
#include "operator/core/view/view.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/kept.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"

#define SUBSYSTEM "operator"
#define UID_SIZE 64

#define STRICT "?fieldManager=horovod-operator&fieldValidation=Strict"
#define LENIENT "?fieldManager=horovod-operator"

struct run {
    struct hvd_performer p;
    struct hvd_entry *entry;
    struct hvd_plan plan;
    size_t next; /* the first action not started */
    unsigned n_in_flight;
    bool is_broken; /* an action failed: the actions that wait are dropped */
    bool has_written;
    int64_t generation;  /* of the job, when the plan was made */
    int64_t event_us;    /* the event that caused this plan, 0: none */
    hvd_status_t status; /* the first failure that needs a backoff */
    int64_t at_least_ms;
    char message[HVD_ERR_MSG_MAX];
};

/* An answer that is final if the object turns out to be the intended one. */
struct doubt {
    struct hvd_kube_response response;
    struct hvd_err err;
};

/* One action under way. */
struct step {
    struct run *run;
    const struct hvd_action *action;
    char uid[UID_SIZE];  /* of the object as last known; "" for none */
    struct doubt *doubt; /* owned; NULL: none */
};

static void pump(struct run *run);

static struct hvd_stages_write stage_of(const struct run *run, const struct hvd_action *action)
{
    return (struct hvd_stages_write){
        run->entry->key, action->type == HVD_ACTION_EVENT ? HVD_KIND_EVENT : action->kind,
        action->type == HVD_ACTION_PATCH_STATUS};
}

/* ---- results ---- */

static void log_action(const struct run *run, enum hvd_log_level level, const char *text,
                       const struct hvd_action *action, const char *error)
{
    HVD_LOG_KV(run->p.log, level, SUBSYSTEM, text, {"job", run->entry->key},
               {"kind", hvd_kind_info(action->kind)->kind}, {"name", action->name},
               {"error", error});
}

/* Fails the run; keeps the first reason. */
static void fail_run(struct run *run, hvd_status_t st, const char *message, int64_t at_least_ms)
{
    run->is_broken = true;
    if (at_least_ms > run->at_least_ms)
        run->at_least_ms = at_least_ms;
    if (run->status != HVD_OK)
        return;
    run->status = st;
    (void)snprintf(run->message, sizeof(run->message), "%s", message);
}

static void fail_with(struct run *run, const struct hvd_kube_response *response)
{
    fail_run(run, response->status, hvd_answer_message(response), response->retry_after_ms);
}

/* The time by which reconcile decides: the API server's. */
static int64_t server_ms(const struct run *run)
{
    return hvd_server_clock_at(run->p.clock, hvd_clock_ms());
}

static const struct hvd_failure *find_failure(const struct hvd_entry *entry,
                                              const struct hvd_action *action)
{
    return hvd_notes_failure(entry, action->kind, action->name);
}

/* From which answer in a row a failure is reported; one that is reported stays so. */
static unsigned told_from(const struct hvd_entry *entry, const struct hvd_action *action,
                          enum hvd_failure_type type, const struct hvd_kube_response *response)
{
    const struct hvd_failure *known = find_failure(entry, action);

    if ((type != HVD_FAILURE_DENIED && type != HVD_FAILURE_STATUS && type != HVD_FAILURE_UNREAD &&
         type != HVD_FAILURE_UNTRACED) ||
        hvd_refusal_judge(action, response->status, response->code, response->body) !=
            HVD_REFUSAL_UNSERVED)
        return 1;
    return known && known->type == type && hvd_refusal_is_told(known) ? known->told_from
                                                                      : HVD_REFUSAL_LASTS;
}

/* Records the failure for the next reconcile. */
static void note_failure(struct run *run, const struct hvd_action *action,
                         enum hvd_failure_type type, const struct hvd_kube_response *response)
{
    /* A 2xx answer that counts as a failure, for example with another object, has no error text. */
    const char *text = response->code < 300 ? "" : hvd_refusal_words(response->body);
    const struct hvd_failure failure = {
        .type = type,
        .kind = action->kind,
        .name = action->name,
        .message = type == HVD_FAILURE_FOREIGN ? NULL
                   : *text                     ? text
                                               : hvd_answer_message(response),
        .at_ms = server_ms(run) + (type == HVD_FAILURE_UNREAD || type == HVD_FAILURE_UNTRACED
                                       ? response->retry_after_ms
                                       : 0),
        .value = action->value,
        .told_from = told_from(run->entry, action, type, response),
    };

    run->is_broken = true;
    if (hvd_waiters_set_failure(run->p.store, run->entry, &failure) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

/* Delays the next try of this write only; all other work of the job goes on. */
static void put_off(struct run *run, const struct hvd_action *action,
                    const struct hvd_kube_response *response)
{
    const struct hvd_attempted_write write = hvd_denials_write(
        action->kind, action->name, action->repair, action->value, run->generation);

    run->is_broken = true;
    if (!run->entry->has_job || action->repair == HVD_REPAIR_NONE) {
        fail_with(run, response);
        return;
    }
    run->p.metrics->n_retries++;
    if (hvd_denials_note(&run->entry->repairs.denials, &write, server_ms(run),
                         response->retry_after_ms) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

/* Delays the write and records the cause for the next reconcile; without an answer the run fails.
 * Keeps a known cause of missing pods, which is worth more than a failure that may never recur. */
static void fail_told(struct run *run, const struct hvd_action *action,
                      const struct hvd_kube_response *response)
{
    const struct hvd_failure *known = find_failure(run->entry, action);
    const bool is_status = action->repair == HVD_REPAIR_STATUS;
    const enum hvd_failure_type type = is_status ? HVD_FAILURE_STATUS : HVD_FAILURE_DENIED;

    if (response->code == 0) {
        fail_with(run, response);
        return;
    }
    if (!(known && known->type == HVD_FAILURE_NO_PODS &&
          told_from(run->entry, action, type, response) > 1))
        note_failure(run, action, type, response);
    log_action(run, HVD_LOG_WARN, "write not done, retrying", action, hvd_answer_message(response));
    put_off(run, action, response);
}

static void keep(struct run *run, enum hvd_kind kind, const cJSON *object)
{
    struct hvd_err err = {0};
    hvd_status_t st = hvd_store_put_answer(run->p.store, kind, object, &err);

    if (st != HVD_OK)
        fail_run(run, st, err.msg, 0);
}

static void keep_written(struct run *run, const struct hvd_action *action, const cJSON *object)
{
    struct hvd_err err = {0};

    if (action->type == HVD_ACTION_PATCH)
        keep(run, action->kind, object);
    else if (hvd_store_put_made(run->p.store, run->entry, action->kind, object, &err) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, err.msg, 0);
}

/* Forgets the step's object, which is gone; a new one of its name may be known already. */
static void forget(const struct step *step)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;

    if (action->kind == HVD_KIND_HOROVODJOB && run->entry->has_job &&
        hvd_str_equal(run->entry->job.uid, step->uid))
        hvd_doubts_add(&run->p.store->doubts, step->uid, hvd_clock_ms());
    hvd_store_remove(run->p.store, action->kind, action->namespace, action->name, step->uid);
    if (action->kind != HVD_KIND_HOROVODJOB && run->entry->has_job &&
        !hvd_store_find(run->p.store, action->kind, action->namespace, action->name) &&
        hvd_notes_note_gone(run->entry, action->kind, action->name) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

static void free_doubt(struct step *step)
{
    if (step->doubt)
        cJSON_Delete((cJSON *)step->doubt->response.body);
    hvd_free(step->doubt);
    step->doubt = NULL;
}

static void finish_step(struct step *step)
{
    struct run *run = step->run;

    free_doubt(step);
    hvd_free(step);
    run->n_in_flight--;
    pump(run);
}

/* ---- reading an object again, after 409 or 404 ---- */

static void send_get(struct step *step, hvd_kube_done_fn on_done)
{
    struct run *run = step->run;
    struct hvd_err err = {0};
    hvd_status_t st =
        hvd_reads_get(step->run->p.api, step->action, &(struct hvd_asker){on_done, step}, &err);

    if (st != HVD_OK) {
        fail_run(run, st, err.msg, 0);
        finish_step(step);
    }
}

/* Files the object even if it is foreign, because the job waits for the end of a labelled one. */
static void take_existing(const struct step *step, const struct hvd_kube_response *response)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const struct hvd_object *found;

    if (find_failure(run->entry, action))
        keep(run, action->kind, response->body);
    found = hvd_store_find(run->p.store, action->kind, action->namespace, action->name);
    if (found && run->entry->has_job && hvd_owner_is_job(&run->entry->job, found)) {
        hvd_notes_drop_failure(run->entry, action->kind, action->name);
        log_action(run, HVD_LOG_INFO, "adopted", action, NULL);
    } else if (!find_failure(run->entry, action)) {
        run->is_broken = true; /* it was removed since it was read */
    } else {
        log_action(run, HVD_LOG_WARN, "an object of this name belongs to somebody else", action,
                   NULL);
        note_failure(run, action, HVD_FAILURE_FOREIGN, response);
    }
}

/*
 * After a create that found an object of this name. The failure was recorded at that time. So the
 * removal of the object, which the watch may report before this answer, ends it.
 */
static void on_existing(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    struct run *run = step->run;

    if (response->status == HVD_ERR_NOT_FOUND) {
        hvd_notes_drop_failure(run->entry, step->action->kind, step->action->name);
        run->is_broken = true; /* gone meanwhile: the next reconcile creates it */
    } else if (response->status != HVD_OK) {
        hvd_notes_drop_failure(run->entry, step->action->kind, step->action->name);
        fail_told(run, step->action, response);
    } else {
        take_existing(step, response);
    }
    finish_step(step);
}

static void read_existing(struct step *step)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const struct hvd_failure failure = {.type = HVD_FAILURE_FOREIGN,
                                        .kind = action->kind,
                                        .name = action->name,
                                        .at_ms = server_ms(run)};
    struct hvd_err err = {0};
    hvd_status_t st = hvd_waiters_set_failure(run->p.store, run->entry, &failure);

    if (st == HVD_OK)
        st = hvd_reads_get(step->run->p.api, step->action, &(struct hvd_asker){on_existing, step},
                           &err);
    if (st == HVD_OK)
        return;
    hvd_notes_drop_failure(run->entry, action->kind, action->name);
    fail_run(run, st, st == HVD_ERR_NOMEM ? "out of memory" : err.msg, 0);
    finish_step(step);
}

static void on_refused(struct step *step, const struct hvd_kube_response *response);

/* Whether the object that was read again is the intended one: then the answer is a refusal. */
static bool is_as_meant(const struct step *step, const cJSON *object)
{
    return step->doubt &&
           hvd_answer_is_about(step->action, &step->doubt->response, object, step->uid);
}

/* Keeps the answer until the object is read again. False: out of memory. */
static bool doubt(struct step *step, const struct hvd_kube_response *response)
{
    struct doubt *kept = hvd_calloc(1, sizeof(*kept));
    cJSON *body = kept && response->body ? cJSON_Duplicate(response->body, true) : NULL;

    if (!kept || (response->body && !body)) {
        hvd_free(kept);
        return false;
    }
    kept->response = *response;
    kept->response.body = body;
    if (response->err)
        kept->err = *response->err;
    kept->response.err = response->err ? &kept->err : NULL;
    step->doubt = kept;
    return true;
}

/* After a patch or delete that found another version than the known one. */
static void on_reread(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    const struct hvd_action *action = step->action;
    struct run *run = step->run;

    run->is_broken = true;
    if (response->status == HVD_OK)
        keep(run, action->kind, response->body);
    else if (response->status == HVD_ERR_NOT_FOUND)
        forget(step);
    else
        fail_told(run, action, response);
    if (response->status == HVD_OK && is_as_meant(step, response->body))
        on_refused(step, &step->doubt->response);
    finish_step(step);
}

/* After an answer that may only mean that the object has changed. */
static void reread(struct step *step, const struct hvd_kube_response *response)
{
    if (doubt(step, response)) {
        send_get(step, on_reread);
        return;
    }
    fail_run(step->run, HVD_ERR_NOMEM, "out of memory", 0);
    finish_step(step);
}

/* ---- reads that are refused ---- */

/* The object is unknown. An answer is reported; the work that needs the object waits for the next
 * try. */
static void fail_read(const struct step *step, const struct hvd_kube_response *response,
                      enum hvd_failure_type type)
{
    struct run *run = step->run;

    if (response->code == 0) {
        fail_with(run, response);
        return;
    }
    log_action(run, HVD_LOG_WARN, "cannot read an object or its events, retrying", step->action,
               hvd_answer_message(response));
    note_failure(run, step->action, type, response);
}

/* Whether the account has no right to read it. An unknown account (401) may be known in a
 * moment. */
static bool is_forbidden(const struct hvd_kube_response *response)
{
    return response->status == HVD_ERR_DENIED && response->code == 403;
}

/* ---- reading the spec that a pass needs, and that is not held ---- */

static void on_spec(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    struct run *run = step->run;
    struct hvd_err err = {0};
    const struct hvd_failure *known = find_failure(run->entry, step->action);
    const bool is_unread = known && known->type == HVD_FAILURE_UNREAD;
    hvd_status_t st;

    if (response->status == HVD_OK) {
        st = hvd_store_put_spec(run->p.store, response->body, &err);
        if (st != HVD_OK)
            fail_run(run, st, err.msg, 0);
        else if (is_unread)
            hvd_notes_drop_failure(run->entry, step->action->kind, step->action->name);
    } else if (response->status == HVD_ERR_NOT_FOUND) {
        forget(step);
    } else if (known && !is_unread) { /* the failure of a write to the job is worth more */
        fail_with(run, response);
    } else {
        fail_read(step, response, HVD_FAILURE_UNREAD);
    }
    finish_step(step);
}

/* ---- looking for an object that the watch does not show ---- */

/* An object of that name exists and is not the job's: the job's own counts as gone. A pod keeps a
 * worker of its name from being made. */
static void note_alien(struct run *run, const struct hvd_action *action)
{
    const struct hvd_failure failure = {.type = HVD_FAILURE_FOREIGN,
                                        .kind = action->kind,
                                        .name = action->name,
                                        .at_ms = server_ms(run)};
    hvd_status_t st = hvd_notes_note_gone(run->entry, action->kind, action->name);

    if (st == HVD_OK && action->kind == HVD_KIND_POD)
        st = hvd_waiters_set_failure(run->p.store, run->entry, &failure);
    if (st != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

static void on_looked(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const struct hvd_failure *known = find_failure(run->entry, action);
    const bool is_over =
        known && (known->type == HVD_FAILURE_FOREIGN || known->type == HVD_FAILURE_UNREAD);
    const struct hvd_object *found;

    if (response->status != HVD_OK && response->status != HVD_ERR_NOT_FOUND) {
        fail_read(step, response, HVD_FAILURE_UNREAD);
        finish_step(step);
        return;
    }
    if (response->status == HVD_OK)
        keep(run, action->kind, response->body);
    else
        forget(step);
    /* A foreign object is filed elsewhere, or nowhere. */
    found = hvd_store_find(run->p.store, action->kind, action->namespace, action->name);
    if (is_over)
        hvd_notes_drop_failure(run->entry, action->kind, action->name);
    if (response->status == HVD_OK &&
        (!found || !run->entry->has_job || !hvd_str_equal(found->meta.job, run->entry->job.name)))
        note_alien(run, action);
    finish_step(step);
}

/* Files the pods of the list that are the job's. */
static void on_searched(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    struct run *run = step->run;
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(response->body, "items"), *item;

    if (response->status != HVD_OK) {
        fail_read(step, response, HVD_FAILURE_UNREAD);
        finish_step(step);
        return;
    }
    hvd_notes_drop_failure(run->entry, step->action->kind, step->action->name);
    cJSON_ArrayForEach(item, items) keep(run, step->action->kind, item);
    if (hvd_notes_note_gone(run->entry, step->action->kind, step->action->name) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
    finish_step(step);
}

/* ---- reading a node ---- */

/* A node that is gone, or may not be read, has no labels: the pods' own labels replace them. */
static void on_located(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    struct run *run = step->run;
    const cJSON *object = response->status == HVD_OK ? response->body : NULL;

    if (response->status != HVD_OK && response->status != HVD_ERR_NOT_FOUND &&
        !is_forbidden(response)) {
        fail_read(step, response, HVD_FAILURE_UNREAD);
        finish_step(step);
        return;
    }
    hvd_notes_drop_failure(run->entry, step->action->kind, step->action->name);
    if (hvd_node_topology_put(&run->p.store->topology, step->action->name, step->action->body,
                              object) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
    if (is_forbidden(response))
        log_action(run, HVD_LOG_WARN, "cannot read a node, the pods' own labels have to do",
                   step->action, hvd_answer_message(response));
    finish_step(step);
}

/* ---- finding other writers of an object ---- */

/* The writer is known: the write waits for its next repair, and no longer for a read. */
static void end_denial(struct run *run, const struct hvd_action *action)
{
    const struct hvd_failure *known = find_failure(run->entry, action);
    const struct hvd_attempted_write write = hvd_denials_write(
        action->kind, action->name, action->repair, action->value, run->generation);

    if (known && known->value == action->value &&
        (known->type == HVD_FAILURE_DENIED || known->type == HVD_FAILURE_STATUS))
        hvd_notes_drop_failure(run->entry, action->kind, action->name);
    hvd_denials_drop(&run->entry->repairs.denials, &write);
}

/* An object that is gone, or may not be read, has an unknown writer. Any other refusal counts like
 * one of the write, which waits for the answer. */
static void on_attributed(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    struct run *run = step->run;
    const bool is_known = response->status == HVD_OK || response->status == HVD_ERR_NOT_FOUND ||
                          is_forbidden(response);

    if (!is_known) {
        fail_told(run, step->action, response);
        finish_step(step);
        return;
    }
    end_denial(run, step->action);
    if (hvd_repairs_attribute(&run->entry->repairs, step->action,
                              response->status == HVD_OK ? response->body : NULL) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
    finish_step(step);
}

/* ---- finding how a Job that is gone ended ---- */

/* An account that may not list events gets no answer. Any other failure is reported, and the job
 * waits for the next try. */
static void on_traced(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    struct hvd_trace_bounds bounds;
    char text[HVD_TRACE_SIZE] = "";
    struct hvd_failure failure = {.type = HVD_FAILURE_NO_TRACE,
                                  .kind = action->kind,
                                  .name = action->name,
                                  .message = text,
                                  .at_ms = server_ms(run)};

    hvd_trace_decode(action->body, &bounds);
    /* Another HorovodJob of that name has other bounds. */
    if (!run->entry->has_job || !hvd_str_equal(run->entry->job.uid, bounds.job_uid)) {
        run->is_broken = true;
        finish_step(step);
        return;
    }
    if (response->status != HVD_OK && !is_forbidden(response)) {
        fail_read(step, response, HVD_FAILURE_UNTRACED);
        finish_step(step);
        return;
    }
    if (response->status == HVD_OK)
        failure.type = hvd_trace_find(response->body, &bounds, text);
    else
        log_action(run, HVD_LOG_WARN, "cannot read the events about a Job that is gone", action,
                   hvd_answer_message(response));
    if (hvd_waiters_set_failure(run->p.store, run->entry, &failure) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
    finish_step(step);
}

/* ---- answers, by request ---- */

/* If an event is refused because its namespace is being deleted, nothing else can be made: records
 * that for the next reconcile. */
static void note_namespace(struct run *run, const struct hvd_action *action,
                           const struct hvd_kube_response *response)
{
    const struct hvd_failure failure = {.type = HVD_FAILURE_LEAVING,
                                        .kind = HVD_KIND_EVENT,
                                        .name = "",
                                        .message = hvd_refusal_words(response->body),
                                        .at_ms = server_ms(run)};

    if (hvd_refusal_judge(action, response->status, response->code, response->body) ==
            HVD_REFUSAL_LEAVING &&
        run->entry->has_job &&
        hvd_waiters_set_failure(run->p.store, run->entry, &failure) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

static void on_event_done(struct step *step, const struct hvd_kube_response *response)
{
    if (hvd_answer_is_worth_another(response)) {
        fail_with(step->run, response);
        finish_step(step);
        return;
    }
    if (response->status != HVD_OK && response->status != HVD_ERR_EXISTS) {
        log_action(step->run, HVD_LOG_WARN, "cannot write an event", step->action,
                   hvd_answer_message(response));
        note_namespace(step->run, step->action, response);
    }
    hvd_repairs_announced(&step->run->entry->repairs, step->action);
    finish_step(step);
}

/* Records an answer to a write that failed, which reconcile turns into conditions. */
static void on_refused(struct step *step, const struct hvd_kube_response *response)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const enum hvd_refusal refusal =
        hvd_refusal_judge(action, response->status, response->code, response->body);

    if (response->code == 0 || refusal == HVD_REFUSAL_UNSERVED) {
        fail_told(run, action, response);
        return;
    }
    log_action(run, HVD_LOG_WARN,
               action->type == HVD_ACTION_PATCH_STATUS ? "the API server refused a status"
                                                       : "the API server refused a write",
               action, hvd_answer_message(response));
    if (refusal == HVD_REFUSAL_RULE)
        hvd_repairs_note_refused(&run->entry->repairs, action, server_ms(run));
    if (refusal == HVD_REFUSAL_FINAL || refusal == HVD_REFUSAL_LEAVING) {
        note_failure(run, action,
                     refusal == HVD_REFUSAL_FINAL ? HVD_FAILURE_INVALID : HVD_FAILURE_LEAVING,
                     response);
        return;
    }
    note_failure(run, action,
                 action->type == HVD_ACTION_PATCH_STATUS ? HVD_FAILURE_STATUS : HVD_FAILURE_DENIED,
                 response);
    put_off(run, action, response);
}

static void on_delete_ok(struct step *step, const struct hvd_kube_response *response)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(response->body, "metadata");
    /* The answer is a Status, or the object, with a deletion time if it still exists. If another
     * client ended it meanwhile, for example a controller that removed the last finalizer, the
     * answer has that time and no version. */
    const bool is_gone = response->status == HVD_ERR_NOT_FOUND ||
                         *hvd_kube_api_text(meta, "deletionTimestamp") == '\0' ||
                         *hvd_kube_api_text(meta, "resourceVersion") == '\0';

    hvd_notes_drop_failure(run->entry, action->kind, action->name);
    if (response->status == HVD_OK) {
        hvd_repairs_note(&run->entry->repairs, action, server_ms(run));
        log_action(run, HVD_LOG_INFO, "deleted", action, NULL);
    }
    if (is_gone)
        forget(step);
    else
        keep(run, action->kind, response->body);
}

static void log_state(const struct run *run)
{
    const struct hvd_job *job = &run->entry->job;
    char ready[32];

    if (!run->entry->has_job)
        return;
    (void)snprintf(ready, sizeof(ready), "%d/%d", (int)job->status.workers_ready,
                   (int)job->status.workers_desired);
    HVD_LOG_KV(run->p.log, HVD_LOG_INFO, SUBSYSTEM, "status", {"job", run->entry->key},
               {"state", hvd_job_state_str(job->status.state)}, {"ready", ready});
}

/* Reconcile reports the fields that the API server dropped; they are logged once here. */
static void keep_status(struct run *run, const struct hvd_action *action, const cJSON *object)
{
    const bool had_lost = run->entry->lost != NULL;
    struct hvd_err err = {0};
    hvd_status_t st = hvd_notes_put_status(run->p.store, run->entry, action->body, object, &err);
    char names[256];

    if (st != HVD_OK)
        fail_run(run, st, err.msg, 0);
    if (had_lost || !run->entry->lost)
        return;
    hvd_kept_names(run->entry->lost, names, sizeof(names));
    log_action(run, HVD_LOG_ERROR,
               "the API server does not keep all of the status: an older definition, or a webhook",
               action, names);
}

static void on_write_ok(struct step *step, const struct hvd_kube_response *response)
{
    const struct hvd_action *action = step->action;
    struct run *run = step->run;
    const struct hvd_failure *known = find_failure(run->entry, action);

    /* The deletion of the job itself may have been denied. */
    if (action->type != HVD_ACTION_PATCH_STATUS || (known && known->type == HVD_FAILURE_STATUS))
        hvd_notes_drop_failure(run->entry, action->kind, action->name);
    hvd_repairs_note(&run->entry->repairs, action, server_ms(run));
    if (action->type == HVD_ACTION_PATCH_STATUS)
        keep_status(run, action, response->body);
    else
        keep_written(run, action, response->body);
    if (action->type == HVD_ACTION_PATCH_STATUS) {
        run->entry->status_written_ms = server_ms(run);
        log_state(run);
        return;
    }
    log_action(run, HVD_LOG_INFO, action->type == HVD_ACTION_PATCH ? "patched" : "created", action,
               NULL);
}

static void on_write_done(void *ctx, const struct hvd_kube_response *response)
{
    struct step *step = ctx;
    const struct hvd_action *action = step->action;
    bool is_create = action->type == HVD_ACTION_CREATE || action->type == HVD_ACTION_CREATE_SECRET;
    const struct hvd_stages_write write = stage_of(step->run, action);

    hvd_stages_answered(step->run->p.stages, &write);
    if (action->type == HVD_ACTION_EVENT) {
        on_event_done(step, response);
        return;
    }
    if (action->type == HVD_ACTION_DELETE &&
        (response->status == HVD_OK || response->status == HVD_ERR_NOT_FOUND)) {
        on_delete_ok(step, response);
        finish_step(step);
        return;
    }
    switch (response->status) {
    case HVD_OK:
        on_write_ok(step, response);
        break;
    case HVD_ERR_EXISTS:
        read_existing(step);
        return;
    case HVD_ERR_CONFLICT:
    case HVD_ERR_NOT_FOUND:
        if (!is_create) {
            reread(step, response);
            return;
        }
        /* Its namespace is missing, or a kind that must be installed. */
        on_refused(step, response);
        break;
    case HVD_ERR_INVALID:
        if (hvd_answer_has_missed(action, response)) {
            hvd_repairs_note(&step->run->entry->repairs, action, server_ms(step->run));
            reread(step, response);
            return;
        }
        on_refused(step, response);
        break;
    default:
        on_refused(step, response);
        break;
    }
    finish_step(step);
}

/* ---- sending ---- */

static hvd_status_t send_write(struct step *step, const char *body, struct hvd_err *err)
{
    const struct hvd_action *a = step->action;
    const struct hvd_performer *p = &step->run->p;
    bool is_patch = a->type == HVD_ACTION_PATCH || a->type == HVD_ACTION_PATCH_STATUS;
    bool is_create = a->type == HVD_ACTION_CREATE || a->type == HVD_ACTION_CREATE_SECRET ||
                     a->type == HVD_ACTION_EVENT;
    struct hvd_kube_request request = {
        .verb = is_create  ? HVD_VERB_CREATE
                : is_patch ? HVD_VERB_PATCH
                           : HVD_VERB_DELETE,
        .path = {.kind = a->type == HVD_ACTION_EVENT ? HVD_KIND_EVENT : a->kind,
                 .ns = a->namespace,
                 .name = is_create ? NULL : a->name,
                 .subresource = a->type == HVD_ACTION_PATCH_STATUS ? "status" : NULL},
        .query = a->type == HVD_ACTION_CREATE || a->type == HVD_ACTION_CREATE_SECRET ||
                         a->type == HVD_ACTION_PATCH
                     ? STRICT
                 : a->type == HVD_ACTION_DELETE ? NULL
                                                : LENIENT,
        .body = body,
        .content_type = !is_patch          ? "application/json"
                        : a->is_json_patch ? "application/json-patch+json"
                                           : "application/merge-patch+json",
        .accept = a->kind == HVD_KIND_SECRET ? HVD_READS_METADATA : NULL,
        .shape = hvd_shape_of_kind(a->type == HVD_ACTION_EVENT ? HVD_KIND_EVENT : a->kind),
        .on_done = on_write_done,
        .ctx = step,
    };

    const struct hvd_stages_write write = stage_of(step->run, a);

    hvd_stages_asked(p->stages, &write);
    return p->api->send(p->api->self, &request, NULL, err);
}

static hvd_status_t send_secret(struct step *step, struct hvd_err *err)
{
    struct hvd_sshkey pair = {0};
    char *body = NULL;
    hvd_status_t st;

    if (!step->run->entry->has_job)
        return HVD_FAIL(err, HVD_ERR_STATE, 0, "the job is gone");
    st = hvd_sshkey_generate(&pair, err);
    if (st == HVD_OK) {
        const struct hvd_launch_key key = {pair.private_pem, pair.public_line};
        st = hvd_children_secret_encode(&step->run->entry->job, &key, &body, err);
    }
    if (st == HVD_OK)
        st = send_write(step, body, err);
    if (body)
        explicit_bzero(body, strlen(body));
    hvd_free(body);
    hvd_sshkey_fini(&pair);
    return st;
}

/* The handler of the answer to a read; NULL: the action is no read. */
static hvd_kube_done_fn reader_of(const struct hvd_action *action)
{
    switch (action->type) {
    case HVD_ACTION_LOCATE:
        return on_located;
    case HVD_ACTION_LOOK:
        return action->body ? on_searched : on_looked;
    case HVD_ACTION_READ_SPEC:
        return on_spec;
    case HVD_ACTION_TRACE:
        return on_traced;
    case HVD_ACTION_ATTRIBUTE:
        return on_attributed;
    default:
        return NULL;
    }
}

static hvd_status_t send_action(struct step *step, struct hvd_err *err)
{
    const struct hvd_asker asker = {reader_of(step->action), step};

    if (asker.on_done)
        return hvd_reads_send(step->run->p.api, step->action, &asker, err);
    if (step->action->type == HVD_ACTION_CREATE_SECRET)
        return send_secret(step, err);
    return send_write(step, step->action->body, err);
}

static void observe_first_write(struct run *run)
{
    if (!run->has_written && run->event_us)
        hvd_metrics_observe(&run->p.metrics->event_to_write, hvd_clock_us() - run->event_us);
    run->has_written = true;
}

static void note_uid(struct step *step)
{
    const struct hvd_action *action = step->action;
    const struct hvd_entry *entry = step->run->entry;
    const struct hvd_object *object;
    const char *uid = "";

    if (action->kind == HVD_KIND_HOROVODJOB) {
        uid = entry->has_job ? entry->job.uid : "";
    } else {
        object = hvd_store_find(step->run->p.store, action->kind, action->namespace, action->name);
        uid = object ? object->meta.uid : "";
    }
    (void)snprintf(step->uid, sizeof(step->uid), "%s", uid);
}

static void start_step(struct run *run, const struct hvd_action *action)
{
    struct step *step = hvd_calloc(1, sizeof(*step));
    struct hvd_err err = {0};
    hvd_status_t st;

    if (!step) {
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
        return;
    }
    *step = (struct step){.run = run, .action = action};
    note_uid(step);
    if (hvd_answer_is_of_write(action))
        observe_first_write(run);
    st = send_action(step, &err);
    if (st == HVD_OK) {
        run->n_in_flight++;
        return;
    }
    fail_run(run, st, err.msg, 0);
    hvd_free(step);
}

/* Answered later, together with the questions of other jobs. */
static void ask(struct run *run, const struct hvd_action *action)
{
    if (hvd_explainer_ask(run->p.explainer, run->entry, action) != HVD_OK)
        fail_run(run, HVD_ERR_NOMEM, "out of memory", 0);
}

static void finish_run(struct run *run)
{
    const struct hvd_outcome outcome = {run->status, run->at_least_ms, run->message,
                                        run->plan.wake_at_ms};
    struct hvd_performer p = run->p;
    struct hvd_entry *entry = run->entry;

    p.performed(p.ctx, entry, &outcome);
    hvd_plan_fini(&run->plan);
    hvd_free(run);
}

/* Starts all actions that may start now; ends the run when none is left and none is under way. */
static void pump(struct run *run)
{
    while (run->next < run->plan.n_actions) {
        const struct hvd_action *action = &run->plan.actions[run->next];
        if (action->waits && run->n_in_flight)
            return;
        run->next++;
        if (action->type == HVD_ACTION_EXPLAIN)
            ask(run, action);
        else if (!action->waits || !run->is_broken)
            start_step(run, action);
    }
    if (!run->n_in_flight)
        finish_run(run);
}

hvd_status_t hvd_perform(const struct hvd_performer *performer, struct hvd_entry *entry,
                         struct hvd_plan *plan, struct hvd_err *err)
{
    struct run *run = hvd_calloc(1, sizeof(*run));

    if (!run)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", entry->key);
    run->p = *performer;
    run->entry = entry;
    run->plan = *plan;
    run->generation = entry->has_job ? entry->job.generation : 0;
    run->event_us = entry->event_us;
    entry->event_us = 0;
    *plan = (struct hvd_plan){0};
    pump(run);
    return HVD_OK;
}
