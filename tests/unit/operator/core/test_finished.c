#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* What a finished job shows stays as it was at the end, whatever happens to it afterwards. */

static void suspend(struct world *w)
{
    world_edit(w, "{\"suspend\":true}");
}

static void suspend_and_resume(struct world *w)
{
    world_edit(w, "{\"suspend\":true}");
    world_pass_on(w, 3);
    world_edit(w, "{\"suspend\":false}");
}

static void scale(struct world *w)
{
    world_edit(w, "{\"worker\":{\"replicas\":5}}");
}

static void edit_policies(struct world *w)
{
    world_edit(w, "{\"backoffLimit\":9,\"activeDeadlineSeconds\":1}");
}

static void edit_image(struct world *w)
{
    world_edit(w, "{\"suspend\":true,\"image\":\"new\"}");
}

static void relabel(struct world *w)
{
    static const char *const names[][2] = {{"Pod", "digits-master-abcde"},
                                           {"Pod", "digits-worker-0"},
                                           {"StatefulSet", "digits-worker"},
                                           {"Job", "digits-master"},
                                           {"ConfigMap", "digits-hosts"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!world_find(w, names[i][0], names[i][1]))
            continue;
        world_label(w, names[i][0], names[i][1], "horovod.io/role", NULL);
        world_label(w, names[i][0], names[i][1], "horovod.io/job-name", "other");
    }
}

static void remove_children(struct world *w)
{
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        if (world_find(w, world_children[i][0], world_children[i][1]))
            world_remove(w, world_children[i][0], world_children[i][1]);
    }
}

static void restart(struct world *w)
{
    world_restart(w);
}

static void deny_removal_at_ttl(struct world *w)
{
    w->deny_kind = "HorovodJob";
    world_edit(w, "{\"ttlSecondsAfterFinished\":0}");
}

static void deny_and_restart(struct world *w)
{
    deny_removal_at_ttl(w);
    world_pass_on(w, 3);
    world_restart(w);
}

static void deny_and_allow(struct world *w)
{
    deny_removal_at_ttl(w);
    world_pass_on(w, 3);
    world_edit(w, "{\"ttlSecondsAfterFinished\":1000000}");
    w->deny_kind = NULL;
}

static void deny_every_removal(struct world *w)
{
    w->deny_kind = "";
    world_edit(w, world_find(w, "StatefulSet", "digits-worker") ? "{\"ttlSecondsAfterFinished\":0}"
                                                                : "{\"cleanPodPolicy\":\"All\"}");
}

static const struct {
    const char *name;
    void (*happens)(struct world *w);
} perturbations[] = {
    {"suspend", suspend},
    {"suspend and resume", suspend_and_resume},
    {"scale", scale},
    {"edit policies", edit_policies},
    {"edit image", edit_image},
    {"relabel", relabel},
    {"remove children", remove_children},
    {"restart", restart},
    {"deny removal at TTL", deny_removal_at_ttl},
    {"deny and restart", deny_and_restart},
    {"deny and allow", deny_and_allow},
    {"deny every removal", deny_every_removal},
};

/* All that a finished job shows but why something of it cannot be removed; to be freed. */
static char *digest(const struct world *w)
{
    static const char *const fields[] = {"state", "ready",          "message",
                                         "image", "completionTime", "startTime"};
    static const char *const counts[] = {"attempts",      "failures",        "interruptions",
                                         "workers.ready", "workers.desired", "hosts",
                                         "cleaned",       "replicas"};
    static const char *const types[] = {"Succeeded", "Failed", "Running", "Suspended", "Contested"};
    const cJSON *status = hvd_json_get(world_find(w, "HorovodJob", "digits"), "status");
    char *out = calloc(1, 8192);
    size_t len = 0;

    assert_non_null(out);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        len += (size_t)snprintf(out + len, 8192 - len, "%s=%s\n", fields[i],
                                world_status(w, fields[i]));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        len += (size_t)snprintf(out + len, 8192 - len, "%s=%d\n", counts[i],
                                (int)hvd_json_int(status, counts[i], -1));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        len += (size_t)snprintf(out + len, 8192 - len, "%s=%s %s %s %s\n", types[i],
                                world_condition(w, types[i]),
                                world_condition_text(w, types[i], "reason"),
                                world_condition_text(w, types[i], "message"),
                                world_condition_text(w, types[i], "lastTransitionTime"));
    (void)snprintf(out + len, 8192 - len, "WorkersReady=%s\n", world_condition(w, "WorkersReady"));
    return out;
}

static void is_observed(const struct world *w)
{
    const cJSON *job = world_find(w, "HorovodJob", "digits");

    assert_int_equal(hvd_json_int(job, "status.observedGeneration", 0),
                     hvd_json_int(job, "metadata.generation", -1));
}

static const char *const policies[] = {"Running", "All", "None"};

static void finish(struct world *w, int exit_code, const char *policy)
{
    char more[64];

    (void)snprintf(more, sizeof(more), ",\"cleanPodPolicy\":\"%s\"", policy);
    world_start(w, more);
    world_end_master(w, exit_code, NULL);
    world_pass_on(w, 4);
    world_is_state(w, exit_code ? "Failed" : "Succeeded");
    assert_string_equal(world_status(w, "ready"), strcmp(policy, "None") == 0 ? "2/2" : "-");
}

static void what_a_finished_job_shows_stays(int exit_code, size_t policy, size_t n)
{
    char *before, *after;
    struct world w;

    finish(&w, exit_code, policies[policy]);
    before = digest(&w);
    print_message("exit code %d, %s: %s\n", exit_code, policies[policy], perturbations[n].name);
    perturbations[n].happens(&w);
    world_pass_on(&w, 6);
    after = digest(&w);
    assert_string_equal(before, after);
    is_observed(&w);
    free(before);
    free(after);
    world_fini(&w);
}

static void a_finished_job_shows_the_same_whatever_happens_to_it(void **state)
{
    (void)state;
    for (int exit_code = 0; exit_code < 2; exit_code++) {
        for (size_t policy = 0; policy < sizeof(policies) / sizeof(policies[0]); policy++) {
            for (size_t n = 0; n < sizeof(perturbations) / sizeof(perturbations[0]); n++)
                what_a_finished_job_shows_stays(exit_code, policy, n);
        }
    }
}

/* Its workers were kept, and go when its policy is edited. */
static void workers_that_go_later_are_ready_no_more(void **state)
{
    static const bool is_all_ready[] = {true, false};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, ",\"cleanPodPolicy\":\"None\",\"activeDeadlineSeconds\":600");
        if (!is_all_ready[i]) {
            assert_true(
                world_patch(&w, "Pod", "digits-worker-1", "{\"status\":{\"conditions\":[]}}"));
            w.is_kubelet_off = true;
        }
        world_pass_on(&w, 70);
        world_is_state(&w, "Failed");
        assert_string_equal(world_status(&w, "ready"), is_all_ready[i] ? "2/2" : "1/2");
        world_edit(&w, "{\"cleanPodPolicy\":\"Running\"}");
        world_pass_on(&w, 3);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_string_equal(world_status(&w, "ready"), "-");
        assert_string_equal(world_condition(&w, "WorkersReady"), "False");
        assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "JobFinished");
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                            "the workers are removed: the job has finished");
        is_observed(&w);
        world_fini(&w);
    }
}

/* A set that may not be removed has workers, which count. */
static void workers_that_may_not_be_removed_are_counted_until_they_go(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.deny_kind = "StatefulSet";
    world_end_master(&w, 0, NULL);
    world_pass_on(&w, 4);
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "RemovalDenied");
    w.deny_kind = NULL;
    world_pass_on(&w, 4);
    assert_string_equal(world_status(&w, "ready"), "-");
    world_fini(&w);
}

/* The job itself may not be removed: what it leaves is, and holds no nodes. */
static void workers_go_though_the_job_may_not(void **state)
{
    struct world w;

    (void)state;
    for (int code = 0; code < 2; code++) {
        world_start(&w, ",\"ttlSecondsAfterFinished\":0");
        w.deny_kind = "HorovodJob";
        world_end_master(&w, code, NULL);
        world_pass_on(&w, 4);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_non_null(world_find(&w, "Job", "digits-master"));
        assert_string_equal(world_status(&w, "ready"), "-");
        assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "RemovalDenied");
        is_observed(&w);
        w.deny_kind = NULL;
        world_pass_on(&w, 2);
        assert_null(world_find(&w, "HorovodJob", "digits"));
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_job_shows_the_same_whatever_happens_to_it),
        cmocka_unit_test(workers_that_go_later_are_ready_no_more),
        cmocka_unit_test(workers_go_though_the_job_may_not),
        cmocka_unit_test(workers_that_may_not_be_removed_are_counted_until_they_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
