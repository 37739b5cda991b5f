/* A master's Job that another writer suspends: no job hangs, and no attempt meets old workers. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

static const char *const fields[][2] = {{"suspend", "true"}, {"parallelism", "0"}};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static void hold(struct world *w, const char *const field[2])
{
    cJSON *spec = cJSON_GetObjectItem(world_find(w, "Job", "digits-master"), "spec");

    cJSON_DeleteItemFromObject(spec, field[0]);
    cJSON_AddItemToObject(spec, field[0], cJSON_Parse(field[1]));
}

static char *uid_of(const struct world *w, const char *kind, const char *name)
{
    const char *uid = hvd_json_str(world_find(w, kind, name), "metadata.uid");

    assert_non_null(uid);
    return strdup(uid);
}

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(world_find(w, "HorovodJob", "digits"), path, -1);
}

/* What is left of the ranks is on the workers: they go too. */
static void a_suspended_master_that_ran_starts_again_with_new_workers(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * N_FIELDS; i++) {
        struct world w;
        char *job, *worker, *other;

        world_start(&w, "");
        world_is_state(&w, "Running");
        job = uid_of(&w, "Job", "digits-master");
        worker = uid_of(&w, "Pod", "digits-worker-0");
        hold(&w, fields[i % N_FIELDS]);
        if (i >= N_FIELDS) /* its pod is gone before anybody looks */
            while (world_controllers(&w)) {
            }
        world_settle(&w);
        world_is_state(&w, "Running");
        other = uid_of(&w, "Job", "digits-master");
        assert_string_not_equal(job, other);
        free(other);
        other = uid_of(&w, "Pod", "digits-worker-0");
        assert_string_not_equal(worker, other);
        assert_int_equal(number(&w, "status.attempts"), 2);
        assert_int_equal(number(&w, "status.interruptions"), 1);
        assert_int_equal(number(&w, "status.failures"), 0);
        assert_string_equal(world_status(&w, "attemptLogs.1.reason"), "MasterSuspended");
        assert_non_null(strstr(world_status(&w, "attemptLogs.1.message"), "by another writer"));
        assert_int_equal(world_events(&w, "Restarting"), 1);
        world_end_master(&w, 0, NULL);
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        free(job);
        free(worker);
        free(other);
        world_fini(&w);
    }
}

/* The pod that is killed for it fails on its way: no failure of the program. */
static void a_master_that_is_killed_for_it_has_not_failed(void **state)
{
    struct world w;
    cJSON *meta;

    (void)state;
    world_start(&w, "");
    hold(&w, fields[0]);
    world_end_master(&w, 143, "terminated");
    meta = cJSON_GetObjectItem(world_find(&w, "Pod", "digits-master-abcde"), "metadata");
    cJSON_AddStringToObject(meta, "deletionTimestamp", "2023-11-14T22:14:20Z");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "status.failures"), 0);
    assert_int_equal(number(&w, "status.interruptions"), 1);
    world_fini(&w);
}

static void a_master_that_ended_before_keeps_its_end(void **state)
{
    static const struct {
        int code;
        const char *state;
    } table[] = {{0, "Succeeded"}, {3, "Failed"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, "");
        world_end_master(&w, table[i].code, NULL);
        hold(&w, fields[0]);
        world_settle(&w);
        world_is_state(&w, table[i].state);
        assert_int_equal(number(&w, "status.interruptions"), 0);
        world_fini(&w);
    }
}

/* Nothing has run yet: the Job is released, and the attempt goes on. */
static void a_master_that_is_suspended_before_it_runs_is_released(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FIELDS; i++) {
        struct world w;
        char *job, *same;

        world_init(&w, "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":2}}");
        while (!world_find(&w, "Job", "digits-master")) {
            world_pass(&w);
            if (!world_find(&w, "Job", "digits-master"))
                (void)world_controllers(&w);
            w.now_ms += 1000;
        }
        job = uid_of(&w, "Job", "digits-master");
        hold(&w, fields[i]);
        world_pass(&w);
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "MasterSuspended");
        world_settle(&w);
        world_is_state(&w, "Running");
        same = uid_of(&w, "Job", "digits-master");
        assert_string_equal(job, same);
        assert_int_equal(number(&w, "status.attempts"), 1);
        assert_int_equal(number(&w, "status.interruptions"), 0);
        assert_int_equal(world_events(&w, "MasterSuspended"), 1);
        free(job);
        free(same);
        world_fini(&w);
    }
}

/* Somebody who does it again and again gets a new attempt ever more seldom. */
static void attempts_that_are_suspended_again_wait_ever_longer(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    for (int minute = 0; minute < 30; minute++) {
        for (int second = 0; second < 60; second++) {
            if (strcmp(world_status(&w, "state"), "Running") == 0)
                hold(&w, fields[0]);
            (void)world_controllers(&w);
            world_pass(&w);
            (void)world_controllers(&w);
            w.now_ms += 1000;
        }
    }
    assert_in_range(number(&w, "status.interruptions"), 2, 12);
    assert_int_equal(number(&w, "status.failures"), 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspended_master_that_ran_starts_again_with_new_workers),
        cmocka_unit_test(a_master_that_is_killed_for_it_has_not_failed),
        cmocka_unit_test(a_master_that_ended_before_keeps_its_end),
        cmocka_unit_test(a_master_that_is_suspended_before_it_runs_is_released),
        cmocka_unit_test(attempts_that_are_suspended_again_wait_ever_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
