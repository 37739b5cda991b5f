#include "tests/unit/support.h"

#include "tests/unit/operator/app/bench.h"

#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/app/objects.h"

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    ((struct bench *)ctx)->entry = entry;
}

static void on_performed(void *ctx, struct hvd_entry *entry, const struct hvd_outcome *outcome)
{
    struct bench *b = ctx;

    assert_ptr_equal(entry, b->entry);
    b->n_performed++;
    b->status = outcome->status;
    b->at_least_ms = outcome->at_least_ms;
    b->wake_at_ms = outcome->wake_at_ms;
}

int bench_set_up(void **state)
{
    static struct bench b;
    cJSON *job;

    hvd_json_use_base_memory();
    memset(&b, 0, sizeof(b));
    hvd_store_init(&b.store, &b.queue, on_changed, &b);
    fake_api_init(&b.fake);
    b.performer = (struct hvd_performer){
        &b.fake.api, &b.store, &b.metrics, NULL, NULL, &b.clock, NULL, on_performed, &b,
    };
    job = cJSON_Parse(JOB("j", "u1", "1"));
    assert_int_equal(hvd_store_put(&b.store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    cJSON_Delete(job);
    *state = &b;
    return 0;
}

int bench_tear_down(void **state)
{
    struct bench *b = *state;

    hvd_plan_fini(&b->plan);
    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

static enum hvd_repair repair_of(enum hvd_action_type type)
{
    if (type == HVD_ACTION_PATCH_STATUS)
        return HVD_REPAIR_STATUS;
    if (type == HVD_ACTION_PATCH)
        return HVD_REPAIR_SELECTOR;
    return type == HVD_ACTION_CREATE || type == HVD_ACTION_CREATE_SECRET ||
                   type == HVD_ACTION_DELETE
               ? HVD_REPAIR_EXISTENCE
               : HVD_REPAIR_NONE;
}

bool bench_is_put_off(const struct bench *b)
{
    return b->status == HVD_OK && b->entry->repairs.denials;
}

void bench_plan(struct bench *b, enum hvd_action_type type, bool waits)
{
    struct hvd_action *grown =
        hvd_realloc(b->plan.actions, b->plan.n_actions + 1, sizeof(struct hvd_action));

    assert_non_null(grown);
    b->plan.actions = grown;
    grown[b->plan.n_actions++] = (struct hvd_action){
        .type = type,
        .kind = type == HVD_ACTION_PATCH_STATUS    ? HVD_KIND_HOROVODJOB
                : type == HVD_ACTION_EVENT         ? HVD_KIND_EVENT
                : type == HVD_ACTION_CREATE_SECRET ? HVD_KIND_SECRET
                                                   : HVD_KIND_SERVICE,
        .namespace = hvd_strdup("ns"),
        .name = hvd_strdup(type == HVD_ACTION_CREATE_SECRET ? "j-ssh" : "j"),
        .body = type == HVD_ACTION_CREATE_SECRET ? NULL : hvd_strdup("{}"),
        .repair = repair_of(type),
        .waits = waits,
    };
}

void bench_perform(struct bench *b)
{
    assert_int_equal(hvd_perform(&b->performer, b->entry, &b->plan, NULL), HVD_OK);
}
