/* One job with very many objects, of which a webhook undoes every repair: what that costs. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/core/pass/pass.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/crowd.h"
#include "operator/core/writes/write.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS 1000
#define MINUTE_MS 60000
#define N_MAX 10000
#define OWN 192                         /* pods with a backoff of their own */
#define OWN_COST 12                     /* writes of each in its first 10 minutes */
#define SHARED_MAX (9 * HVD_CROWD_EACH) /* rounds of the others in their first 10 minutes */

/* Pods, and what somebody does to them. */
struct herd {
    struct hvd_repairs repairs;
    struct hvd_job job;
    bool is_wrong[N_MAX];
    unsigned n_pods;
    unsigned n_events; /* about a repair that is not kept */
    int64_t now_ms;
};

static void herd_init(struct herd *herd, unsigned n_pods)
{
    memset(herd, 0, sizeof(*herd));
    herd->job.namespace = (char *)"default";
    herd->job.name = (char *)"digits";
    herd->job.uid = (char *)"u";
    herd->now_ms = 1700000000000;
    herd->n_pods = n_pods;
    hvd_repairs_begin(&herd->repairs, &herd->job, herd->now_ms);
}

static void wrong_all(struct herd *herd)
{
    for (unsigned i = 0; i < herd->n_pods; i++)
        herd->is_wrong[i] = true;
}

static void plan_patches(struct herd *herd, struct hvd_pass *pass)
{
    char name[32];

    for (unsigned i = 0; i < herd->n_pods; i++) {
        const struct hvd_object pod = {.kind = HVD_KIND_POD,
                                       .meta = {.namespace = (char *)"default", .name = name}};
        struct hvd_patch patch = {.repair = HVD_REPAIR_LABELS};

        if (!herd->is_wrong[i])
            continue;
        (void)snprintf(name, sizeof(name), "w-%u", i);
        patch.body = hvd_strdup(name + 2); /* which one it is */
        hvd_write_patch(pass, &pod, &patch);
    }
}

/* Carries the plan out; a webhook undoes each write at once. Returns how many there were. */
static unsigned send_all(struct herd *herd, const struct hvd_plan *plan, bool is_undone)
{
    unsigned n = 0;

    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct hvd_action *action = &plan->actions[i];

        n++;
        if (action->type == HVD_ACTION_ATTRIBUTE) {
            assert_int_equal(hvd_repairs_attribute(&herd->repairs, action, NULL), HVD_OK);
        } else if (action->type == HVD_ACTION_EVENT) {
            herd->n_events++;
            hvd_repairs_announced(&herd->repairs, action);
        } else {
            herd->is_wrong[atoi(action->body)] = is_undone;
            hvd_repairs_note(&herd->repairs, action, herd->now_ms);
        }
    }
    return n;
}

/* Passes until the clock has moved on so far; returns the requests. */
static unsigned go_on(struct herd *herd, int64_t ms, bool is_undone)
{
    const int64_t end_ms = herd->now_ms + ms;
    unsigned n_sent = 0;

    while (herd->now_ms < end_ms) {
        const struct hvd_view view = {.job = &herd->job, .repairs = &herd->repairs};
        struct hvd_plan plan = {0};
        struct hvd_pass pass = {.view = &view,
                                .job = &herd->job,
                                .plan = &plan,
                                .now_ms = herd->now_ms,
                                .now_s = herd->now_ms / 1000};
        unsigned n;

        plan_patches(herd, &pass);
        hvd_contest_report(&pass);
        assert_int_equal(pass.st, HVD_OK);
        n = send_all(herd, &plan, is_undone);
        n_sent += n;
        if (n == 0)
            herd->now_ms = plan.wake_at_ms > herd->now_ms && plan.wake_at_ms < end_ms
                               ? plan.wake_at_ms
                               : end_ms;
        hvd_plan_fini(&plan);
        hvd_job_status_fini(&pass.next);
    }
    return n_sent;
}

static void a_fight_over_any_number_of_pods_costs_a_bounded_number_of_writes(void **state)
{
    static const unsigned sizes[] = {100, 257, 400, 1000, N_MAX};
    static struct herd herd;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const unsigned n = sizes[i], own = n < OWN ? n : OWN;
        unsigned n_sent;

        herd_init(&herd, n);
        wrong_all(&herd);
        n_sent = go_on(&herd, 10 * MINUTE_MS, true);
        print_message("%u pods: %u requests in 10 minutes", n, n_sent);
        assert_true(n_sent <= own * OWN_COST + (n - own) + SHARED_MAX + 16);
        for (int k = 0; k < 24; k++) {
            n_sent = go_on(&herd, 5 * MINUTE_MS, true);
            assert_true(n_sent <= own + HVD_CROWD_EACH + 16);
        }
        print_message(", %u in the last 5\n", n_sent);
        assert_true(herd.n_events <= 16);
        hvd_repairs_fini(&herd.repairs);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

/* Somebody relabels all of them, once: no object waits for a fight that there is not. */
static void what_is_repaired_once_takes_seconds(void **state)
{
    static struct herd herd;
    unsigned n_sent;

    (void)state;
    herd_init(&herd, N_MAX);
    wrong_all(&herd);
    n_sent = go_on(&herd, 5 * MINUTE_MS, false);
    assert_int_equal(n_sent, N_MAX);
    assert_false(hvd_crowd_is_fought(herd.repairs.crowd));
    assert_int_equal(herd.n_events, 0);
    for (unsigned i = 0; i < N_MAX; i++)
        assert_false(herd.is_wrong[i]);
    /* It is forgotten when nothing was needed for long. */
    herd.now_ms += 30 * MINUTE_MS;
    hvd_repairs_prune(&herd.repairs, herd.now_ms);
    assert_null(herd.repairs.crowd);
    assert_int_equal(herd.repairs.n, 0);
    hvd_repairs_fini(&herd.repairs);
}

/* Children of the job do not wait for its pods. */
static void a_fight_over_pods_leaves_room_for_the_jobs_children(void **state)
{
    const struct hvd_write write = {HVD_KIND_STATEFULSET, "digits-worker", HVD_REPAIR_REPLICAS, 7};
    static struct herd herd;
    struct hvd_plan plan = {0};
    const struct hvd_view view = {.job = &herd.job, .repairs = &herd.repairs};
    struct hvd_pass pass = {.view = &view, .job = &herd.job, .plan = &plan};

    (void)state;
    herd_init(&herd, 1000);
    wrong_all(&herd);
    (void)go_on(&herd, MINUTE_MS, true);
    pass.now_ms = herd.now_ms;
    assert_false(hvd_contest_is_shared(&pass, &write));
    assert_true(hvd_contest_admit(&pass, &write));
    hvd_repairs_fini(&herd.repairs);
}

static void labels_of_many_objects_are_one_event_beside_a_few(void **state)
{
    const cJSON *labels;
    struct world w;
    char name[64];

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":40}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "digits-worker-%d", i);
        world_label(&w, "Pod", name, HVD_LABEL_ROLE, "foo");
    }
    world_settle(&w);
    assert_int_equal(world_events(&w, "LabelsRestored"), 17);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "digits-worker-%d", i);
        labels = hvd_json_at(world_find(&w, "Pod", name), "metadata.labels");
        assert_string_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(labels, HVD_LABEL_ROLE)),
                            "worker");
    }
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fight_over_any_number_of_pods_costs_a_bounded_number_of_writes),
        cmocka_unit_test(what_is_repaired_once_takes_seconds),
        cmocka_unit_test(a_fight_over_pods_leaves_room_for_the_jobs_children),
        cmocka_unit_test(labels_of_many_objects_are_one_event_beside_a_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
