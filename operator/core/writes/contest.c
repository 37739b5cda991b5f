/*
 * Writes of the operator that another writer undoes. Every write of a plan passes
 * hvd_contest_admit. A write that repeats the last one waits longer each time, so two writers that
 * disagree cost a bounded number of requests. When the same write is needed for the third time, the
 * operator looks up the other writer. The condition Contested and one event then name it. Pure.
 */
#include "operator/core/writes/contest.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/crowd.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/kept.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"
#include "operator/core/writes/repair_internal.h"

#define MESSAGE_SIZE 1024
#define ADVICE_SIZE 128 /* of the message */

#define MINUTE_MS 60000
#define ADVICE ": the next repairs are up to %d minutes apart; stop the other writer"

static bool is_being_attributed(const struct hvd_pass *p, const struct hvd_write *write)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        const struct hvd_action *action = &p->plan->actions[i];

        if (action->type == HVD_ACTION_ATTRIBUTE && action->kind == write->kind &&
            action->repair == write->repair && hvd_str_equal(action->name, write->name))
            return true;
    }
    return false;
}

/* Adds the keys of the labels that differ, in the form of managedFields. */
static void add_labels(const struct hvd_pass *p, const struct hvd_write *write, struct hvd_jb *jb,
                       cJSON *keys)
{
    static const struct {
        enum hvd_label bit;
        const char *key;
    } labels[] = {{HVD_LOST_MANAGER, "f:" HVD_LABEL_MANAGED_BY},
                  {HVD_LOST_JOB, "f:" HVD_LABEL_JOB},
                  {HVD_LOST_ROLE, "f:" HVD_LABEL_ROLE},
                  {HVD_LOST_GROUP, "f:" HVD_LABEL_GROUP}};

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind != write->kind || !hvd_str_equal(object->meta.name, write->name))
            continue;
        for (size_t n = 0; n < sizeof(labels) / sizeof(labels[0]); n++) {
            if (object->meta.lost_labels & (int32_t)labels[n].bit)
                hvd_jb_str(jb, keys, NULL, labels[n].key);
        }
    }
}

/* The keys that identify the other writer in managedFields, where its fields are beside those of
 * others: a JSON array. NULL: out of memory. */
static char *print_keys(const struct hvd_pass *p, const struct hvd_write *write)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *keys = hvd_jb_array(&jb, root, "keys");
    char *text;

    if (write->repair == HVD_REPAIR_LABELS)
        add_labels(p, write, &jb, keys);
    else
        hvd_jb_fmt(&jb, keys, NULL, "k:{\"uid\":\"%s\"}", p->job->uid);
    text = hvd_jb_print(&jb, keys);
    cJSON_Delete(root);
    return text;
}

/* Looks up the writer that undid the write, and sends nothing before the answer. */
static void attribute(struct hvd_pass *p, const struct hvd_write *write)
{
    struct hvd_action action = {.type = HVD_ACTION_ATTRIBUTE,
                                .kind = write->kind,
                                .repair = write->repair,
                                .value = write->value};
    const bool is_keyed = write->repair == HVD_REPAIR_LABELS || write->repair == HVD_REPAIR_OWNER;

    if (p->st || is_being_attributed(p, write))
        return;
    if (is_keyed)
        action.body = print_keys(p, write);
    p->st = is_keyed && !action.body
                ? HVD_ERR_NOMEM
                : hvd_plan_add(p->plan, &action, p->job->namespace, write->name);
}

static bool is_of_existence(const struct hvd_write *write)
{
    return write->repair == hvd_repair_of_existence(write->kind);
}

static bool is_creation(const struct hvd_write *write)
{
    return is_of_existence(write) && write->value == HVD_REPAIR_PRESENT;
}

/* A change or deletion that waits after a denial stays in the job's report; a creation is reported
 * at its decision. */
static void keep_denial(struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_failure *known = hvd_pass_failure(p, write->kind, write->name);

    if (!known || known->type != HVD_FAILURE_DENIED || !hvd_refusal_is_told(known) ||
        write->repair == HVD_REPAIR_STATUS || is_creation(write))
        return;
    hvd_refusal_add(p, known,
                    is_of_existence(write) || write->repair == HVD_REPAIR_ADDRESS ||
                        write->repair == HVD_REPAIR_IMMUTABLE);
}

/* Whether a former operator has reported that others undo the write. */
static bool is_carried(const struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_action action = {.kind = write->kind,
                                      .namespace = p->job->namespace,
                                      .name = (char *)write->name,
                                      .repair = write->repair};

    return hvd_repairs_has_carried(p->view->repairs, &action, p->now_ms);
}

/* Whether a costly repair waits because of that report: operators may restart again and again. */
static bool waits_for_calm(struct hvd_pass *p, const struct hvd_write *write)
{
    if (!hvd_repair_is_costly(write->repair) || !is_carried(p, write))
        return false;
    hvd_plan_wake(p->plan, p->view->repairs->since_ms + HVD_REPAIR_CALM_MS);
    return true;
}

bool hvd_contest_is_shared(const struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_repairs *repairs = p->view->repairs;

    return !hvd_repairs_has_room(repairs, write->kind, p->n_recorded) &&
           !hvd_repairs_find(repairs, hvd_repair_key(write->kind, write->name, write->repair));
}

/* Whether a write without a record, and without room for one, was sent before. */
static bool was_shared(const struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_crowd *crowd = hvd_repairs_crowd(p->view->repairs, p->now_ms);
    const uint64_t key = hvd_repair_key(write->kind, write->name, write->repair);

    return crowd && hvd_crowd_has(crowd, key, write->value);
}

/* Admits a write that shares a backoff with others: they wait for each other. */
static bool admit_shared(struct hvd_pass *p, const struct hvd_write *write)
{
    static const struct hvd_crowd none;
    const struct hvd_crowd *crowd = hvd_repairs_crowd(p->view->repairs, p->now_ms);
    const bool is_repeated = was_shared(p, write);
    const int64_t due_ms =
        hvd_crowd_due_ms(crowd ? crowd : &none, is_repeated, p->n_shared[is_repeated], p->now_ms);

    if (due_ms > p->now_ms) {
        hvd_plan_wake(p->plan, due_ms);
        return false;
    }
    p->n_shared[is_repeated]++;
    return true;
}

/* Admits a write that has no record yet. */
static bool admit_first(struct hvd_pass *p, const struct hvd_write *write)
{
    if (waits_for_calm(p, write))
        return false;
    if (hvd_contest_is_shared(p, write))
        return admit_shared(p, write);
    p->n_recorded++;
    return true;
}

/* Whether the write was denied and waits for its next try. Objects that depend on a missing child
 * wait with it. Until the denial is reported, the status waits too. */
static bool waits_for_try(struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_attempted_write tried = hvd_denials_write(
        write->kind, write->name, write->repair, write->value, p->job->generation);
    const struct hvd_failure *known = hvd_pass_failure(p, write->kind, write->name);
    const int64_t due_ms =
        p->view->repairs ? hvd_denials_due_ms(p->view->repairs->denials, &tried, p->now_ms) : 0;

    if (due_ms <= p->now_ms)
        return false;
    hvd_plan_wake(p->plan, due_ms);
    keep_denial(p, write);
    if (is_creation(write))
        p->is_child_held = true;
    if (write->repair != HVD_REPAIR_STATUS && known && known->type == HVD_FAILURE_DENIED &&
        !hvd_refusal_is_told(known))
        p->is_held_untold = true;
    return true;
}

bool hvd_contest_admit(struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_repair_record *record =
        hvd_repairs_find(p->view->repairs, hvd_repair_key(write->kind, write->name, write->repair));

    if (waits_for_try(p, write))
        return false;
    if (!record)
        return admit_first(p, write);
    if (!hvd_repair_is_again(record, write->value, p->now_ms))
        return true;
    if (hvd_repair_is_fight(record) && !record->text) {
        attribute(p, write);
        return false;
    }
    if (p->now_ms >= hvd_repair_due_ms(record))
        return true;
    hvd_plan_wake(p->plan, hvd_repair_due_ms(record));
    keep_denial(p, write);
    return false;
}

bool hvd_contest_is_repeated(const struct hvd_pass *p, const struct hvd_write *write)
{
    const struct hvd_repair_record *record =
        hvd_repairs_find(p->view->repairs, hvd_repair_key(write->kind, write->name, write->repair));

    return record ? hvd_repair_is_again(record, write->value, p->now_ms)
                  : is_carried(p, write) || was_shared(p, write);
}

/* Adds the event about one record. */
static void announce(struct hvd_pass *p, const struct hvd_repair_record *record)
{
    char message[MESSAGE_SIZE];

    hvd_text_format(message, sizeof(message), "%s" ADVICE, record->text,
                    (int)(hvd_repair_longest_ms(record) / MINUTE_MS));
    hvd_pass_event(p, "RepairNotKept", message, true);
    if (p->st)
        return;
    p->plan->actions[p->plan->n_actions - 1].repair = (enum hvd_repair)record->repair;
    p->plan->actions[p->plan->n_actions - 1].value = record->key;
}

/* Describes the writes that share one backoff, once they are undone, and reports them. */
static bool gather_shared(struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    static const char text[] =
        "many further objects: changed again by an admission webhook or another program after "
        "each repair, all of them are repaired in turn";
    const struct hvd_crowd *crowd = hvd_repairs_crowd(p->view->repairs, p->now_ms);
    const struct hvd_repair_record record = {
        .key = HVD_CROWD_KEY, .repair = HVD_REPAIR_LABELS, .text = (char *)text};

    if (!crowd || !hvd_crowd_is_fought(crowd))
        return false;
    hvd_text_format(out, MESSAGE_SIZE, "%s", text);
    hvd_plan_wake(p->plan, hvd_crowd_calm_ms(crowd));
    if (!crowd->is_announced)
        announce(p, &record);
    return true;
}

/* Adds to the hash of contested repairs. It is a sum, because records come in any order. It omits
 * the other writer's name, and the status itself: undoing the status would otherwise change the
 * hash each time. */
static void add_contested(struct hvd_pass *p, uint64_t key, enum hvd_repair repair)
{
    if (repair != HVD_REPAIR_STATUS)
        p->contested += hvd_hash_number(HVD_HASH_START, (int64_t)key);
}

/* Whether the record belongs to a contest that is reported, or was reported and is looked up
 * again. */
static bool is_reported(const struct hvd_pass *p, const struct hvd_repair_record *record)
{
    return (record->text || record->is_announced) &&
           hvd_repair_is_again(record, record->value, p->now_ms);
}

/* Collects the contested repairs, as many as fit; false if there are none. */
static bool gather(struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    const struct hvd_repairs *repairs = p->view->repairs;
    int64_t longest_ms = 5 * MINUTE_MS;
    size_t len = 0;

    if (gather_shared(p, out)) {
        len = strlen(out);
        add_contested(p, HVD_CROWD_KEY, HVD_REPAIR_LABELS);
    }
    for (size_t i = 0; repairs && i < repairs->n; i++) {
        const struct hvd_repair_record *record = &repairs->records[i];

        if (!is_reported(p, record))
            continue;
        add_contested(p, record->key, (enum hvd_repair)record->repair);
        if (!record->text || len + strlen(record->text) + ADVICE_SIZE >= MESSAGE_SIZE)
            continue;
        hvd_text_format(out + len, MESSAGE_SIZE - len, "%s%s", len ? "; " : "", record->text);
        len = strlen(out);
        if (hvd_repair_longest_ms(record) > longest_ms)
            longest_ms = hvd_repair_longest_ms(record);
        hvd_plan_wake(p->plan, hvd_repair_calm_ms(record));
        if (!record->is_announced)
            announce(p, record);
    }
    if (len)
        hvd_text_format(out + len, MESSAGE_SIZE - len, ADVICE, (int)(longest_ms / MINUTE_MS));
    return len > 0;
}

/* Whether the log, which begins with the operator, is too young to call the job calm. */
static bool is_young(struct hvd_pass *p)
{
    int64_t since_ms = p->view->repairs ? p->view->repairs->since_ms : 0;

    if (p->now_ms < since_ms || p->now_ms >= since_ms + HVD_REPAIR_CALM_MS)
        return false;
    hvd_plan_wake(p->plan, since_ms + HVD_REPAIR_CALM_MS);
    return true;
}

/* Reports lost fields: a definition older than this operator drops fields silently, and a webhook
 * may drop any. */
static bool report_lost(struct hvd_pass *p)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_CONTESTED];
    struct hvd_condition_update update = {HVD_COND_CONTESTED, HVD_TRUE, "StatusNotKept", NULL};
    char message[MESSAGE_SIZE], names[MESSAGE_SIZE / 2];

    if (!p->view->lost)
        return false;
    hvd_kept_names(p->view->lost, names, sizeof(names));
    if (hvd_kept_lacks_conditions(p->view->lost))
        hvd_text_format(message, sizeof(message),
                        "%s of this HorovodJob are written and not kept, as a mutating admission "
                        "webhook drops them: exempt horovodjobs/status from it; the operator knows "
                        "them only as long as it runs",
                        names);
    else
        hvd_text_format(
            message, sizeof(message),
            "the HorovodJob definition in the cluster does not keep %s: apply the definition "
            "of this version (kubectl apply --server-side --force-conflicts -f "
            "charts/horovod/crds/)",
            names);
    if (!hvd_str_equal(was->reason, update.reason))
        hvd_pass_event(p, "StatusNotKept", message, true);
    update.message = message;
    hvd_pass_condition(p, &update);
    return true;
}

void hvd_contest_report(struct hvd_pass *p)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_CONTESTED];
    struct hvd_condition_update update = {
        HVD_COND_CONTESTED, HVD_FALSE, "RepairsKept",
        "no write of the operator to the job's objects was undone for 10 minutes"};
    char message[MESSAGE_SIZE];

    if (hvd_kept_lacks_conditions(p->view->lost) && report_lost(p))
        return;
    if (hvd_job_is_finished(&p->next)) {
        update.reason = "JobFinished";
        update.message = "the job has finished";
        if (was->truth == HVD_TRUE)
            hvd_pass_condition(p, &update);
        return;
    }
    if (report_lost(p))
        return;
    if (gather(p, message)) {
        update =
            (struct hvd_condition_update){HVD_COND_CONTESTED, HVD_TRUE, "RepairNotKept", message};
        hvd_pass_condition(p, &update);
    } else if (was->truth == HVD_TRUE && !is_young(p)) {
        hvd_pass_condition(p, &update);
    }
}
