/*
 * A job that was suspended begins with no worker of its last start, whatever the status says: ranks
 * of a master that is gone may live on in them. Where no status records the suspension, the
 * StatefulSets do.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS INT64_C(1000)
#define SPEC                                                                                       \
    "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"workerGroups\":["          \
    "{\"name\":\"big\",\"replicas\":1}]}"
#define N(array) (sizeof(array) / sizeof((array)[0]))
#define UID_SIZE 64

static const char *const workers[] = {"digits-worker-0", "digits-worker-1", "digits-worker-big-0"};

static void pass_time(struct world *w, int64_t ms)
{
    for (int64_t end_ms = w->now_ms + ms; w->now_ms < end_ms; w->now_ms += SECOND_MS) {
        (void)world_pass(w);
        (void)world_controllers(w);
        hvd_repairs_prune(&w->repairs, w->now_ms); /* as the shell does */
    }
}

static const char *uid_of(const struct world *w, const char *pod)
{
    const char *uid = hvd_json_str(world_find(w, "Pod", pod), "metadata.uid");

    return uid ? uid : "";
}

static void note(const struct world *w, char uids[N(workers)][UID_SIZE])
{
    for (size_t i = 0; i < N(workers); i++)
        (void)snprintf(uids[i], UID_SIZE, "%s", uid_of(w, workers[i]));
}

/* Another process, which knows what the API server knows. */
static void restart(struct world *w)
{
    world_restart(w);
    hvd_repairs_fini(&w->repairs);
}

static int64_t replicas(const struct world *w, const char *set)
{
    return hvd_json_int(world_find(w, "StatefulSet", set), "spec.replicas", -1);
}

/* A job that runs, and of which no status was written, or the last one before its master was made.
 */
static void begin(struct world *w, bool is_pending, char uids[N(workers)][UID_SIZE])
{
    world_init(w, SPEC);
    w->is_kubelet_off = true;
    w->is_status_denied = !is_pending;
    pass_time(w, 60 * SECOND_MS);
    w->is_status_denied = true;
    w->is_kubelet_off = false;
    pass_time(w, 60 * SECOND_MS);
    assert_non_null(world_find(w, "Pod", "digits-master-abcde"));
    assert_string_equal(world_status(w, "state"), is_pending ? "Pending" : "");
    note(w, uids);
}

/* None of the old ones is left, and a master runs with the others. */
static void is_new_start(struct world *w, char uids[N(workers)][UID_SIZE])
{
    pass_time(w, 120 * SECOND_MS);
    for (size_t i = 0; i < N(workers); i++) {
        assert_string_not_equal(uid_of(w, workers[i]), "");
        assert_string_not_equal(uid_of(w, workers[i]), uids[i]);
    }
    assert_non_null(world_find(w, "Pod", "digits-master-abcde"));
    w->is_status_denied = false;
    pass_time(w, 120 * SECOND_MS);
    world_is_state(w, "Running");
}

/* The controllers have removed nothing yet when it is resumed. */
static void a_job_that_is_resumed_at_once_keeps_no_worker(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool is_restarted = i % 2;
        char uids[N(workers)][UID_SIZE];
        struct world w;

        begin(&w, i / 2, uids);
        world_edit(&w, "{\"suspend\":true}");
        (void)world_pass(&w);
        assert_int_equal(replicas(&w, "digits-worker"), 0);
        world_edit(&w, "{\"suspend\":false}");
        if (is_restarted)
            restart(&w);
        for (int pass = 0; pass < 3; pass++)
            (void)world_pass(&w);
        assert_int_equal(replicas(&w, "digits-worker"), 0);
        assert_null(world_find(&w, "Job", "digits-master"));
        is_new_start(&w, uids);
        world_fini(&w);
    }
}

/* An operator ends while it takes the workers down, wherever, and the next one finds a job that is
 * to run. */
static void what_an_operator_left_half_done_is_brought_to_its_end(void **state)
{
    (void)state;
    for (int i = 1; i < 7; i++) {
        const int n_done = (i - 1) % 3 + 1;
        char uids[N(workers)][UID_SIZE];
        struct world w;

        print_message("after %d writes\n", n_done);
        begin(&w, i > 3, uids);
        world_edit(&w, "{\"suspend\":true}");
        w.actions_left = n_done;
        (void)world_pass(&w);
        w.actions_left = -1;
        w.is_dead = false;
        while (world_controllers(&w))
            continue;
        assert_null(world_find(&w, "Job", "digits-master"));
        world_edit(&w, "{\"suspend\":false}");
        restart(&w);
        w.trace = n_done == 1 ? HVD_FAILURE_BEGUN : HVD_FAILURE_NO_TRACE;
        is_new_start(&w, uids);
        world_fini(&w);
    }
}

/* A master's Job that somebody deleted while no operator ran: no edit tells of it. */
static void workers_of_a_master_that_events_tell_of_go(void **state)
{
    char uids[N(workers)][UID_SIZE];
    struct world w;

    (void)state;
    begin(&w, true, uids);
    world_remove(&w, "Job", "digits-master");
    while (world_controllers(&w))
        continue;
    restart(&w);
    w.trace = HVD_FAILURE_BEGUN;
    is_new_start(&w, uids);
    assert_int_equal(w.n_traced, 1);
    world_fini(&w);

    /* Those that come then stay, however long they take. */
    begin(&w, true, uids);
    world_remove(&w, "Job", "digits-master");
    while (world_controllers(&w))
        continue;
    restart(&w);
    w.trace = HVD_FAILURE_BEGUN;
    w.is_kubelet_off = true;
    pass_time(&w, 60 * SECOND_MS);
    assert_string_not_equal(uid_of(&w, workers[0]), uids[0]);
    note(&w, uids);
    pass_time(&w, 3600 * SECOND_MS);
    assert_string_equal(uid_of(&w, workers[0]), uids[0]);
    world_fini(&w);
}

/* Whoever scales a job whose workers start loses none of them. */
static void workers_of_a_start_that_goes_on_stay(void **state)
{
    (void)state;
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        char uids[N(workers)][UID_SIZE];
        struct world w;

        world_init(&w, SPEC);
        w.is_kubelet_off = true;
        pass_time(&w, 30 * SECOND_MS);
        world_is_state(&w, "Pending");
        note(&w, uids);
        if (is_restarted)
            restart(&w);
        world_edit(&w, "{\"worker\":{\"replicas\":3}}");
        pass_time(&w, 30 * SECOND_MS);
        w.is_kubelet_off = false;
        pass_time(&w, 30 * SECOND_MS);
        world_is_state(&w, "Running");
        for (size_t i = 0; i < N(workers); i++)
            assert_string_equal(uid_of(&w, workers[i]), uids[i]);
        world_fini(&w);
    }
}

/* The generation is not told by what an older operator made: its workers stay. */
static void sets_of_an_older_operator_go_on(void **state)
{
    char uids[N(workers)][UID_SIZE];
    struct world w;

    (void)state;
    world_init(&w, SPEC);
    w.is_kubelet_off = true;
    pass_time(&w, 2 * SECOND_MS);
    note(&w, uids);
    assert_string_equal(world_status(&w, "state"), "");
    for (int i = 0; i < 2; i++)
        assert_true(
            world_patch(&w, "StatefulSet", i ? "digits-worker" : "digits-worker-big",
                        "{\"metadata\":{\"annotations\":{\"horovod.io/generation\":null}}}"));
    world_edit(&w, "{\"worker\":{\"replicas\":3}}");
    restart(&w);
    w.is_kubelet_off = false;
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Running");
    for (size_t i = 0; i < N(workers); i++)
        assert_string_equal(uid_of(&w, workers[i]), uids[i]);
    world_fini(&w);
}

/* A master that has succeeded before anybody saw it is not run again for an edit of the spec. */
static void an_end_that_events_tell_of_comes_first(void **state)
{
    char uids[N(workers)][UID_SIZE];
    struct world w;

    (void)state;
    begin(&w, false, uids);
    world_remove(&w, "Job", "digits-master");
    while (world_controllers(&w))
        continue;
    world_edit(&w, "{\"ttlSecondsAfterFinished\":100000}");
    restart(&w);
    w.trace = HVD_FAILURE_SUCCEEDED;
    w.is_status_denied = false;
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Succeeded");
    assert_null(world_find(&w, "Job", "digits-master"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_is_resumed_at_once_keeps_no_worker),
        cmocka_unit_test(what_an_operator_left_half_done_is_brought_to_its_end),
        cmocka_unit_test(workers_of_a_master_that_events_tell_of_go),
        cmocka_unit_test(workers_of_a_start_that_goes_on_stay),
        cmocka_unit_test(sets_of_an_older_operator_go_on),
        cmocka_unit_test(an_end_that_events_tell_of_comes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
