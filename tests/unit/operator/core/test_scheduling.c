#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/*
 * Every combination of a gang scheduler, suspensions, restarts of job and operator, and scaling,
 * in a world whose gang scheduler holds pods until their group is complete: whatever the order, the
 * job comes to run, never has workers without their group, and ends with nothing left behind.
 */

enum suspension {
    NEVER,
    AT_CREATION,
    WHILE_RUNNING,
    TWICE,
    WHILE_STARTING, /* the gang scheduler holds the workers */
    N_SUSPENSIONS,
};

enum restart {
    NO_RESTART,
    OF_THE_JOB, /* the first attempt fails */
    N_RESTARTS,
};

enum scaling {
    NOT_SCALED,
    UP,
    DOWN,
    UP_WHILE_SUSPENDED, /* or before the first pass */
    N_SCALINGS,
};

struct combination {
    enum hvd_gang gang;
    enum suspension suspension;
    enum restart restart;
    enum scaling scaling;
    bool is_on_host_network;
};

#define N_GANGS 3

static const char *describe(const struct combination *c)
{
    static char text[96];

    (void)snprintf(text, sizeof(text), "gang %d, suspension %d, restart %d, scaling %d, host %d",
                   (int)c->gang, (int)c->suspension, (int)c->restart, (int)c->scaling,
                   (int)c->is_on_host_network);
    return text;
}

static int n_pods(const struct world *w, const char *role)
{
    const cJSON *item = NULL;
    int n = 0;

    cJSON_ArrayForEach(item, w->objects)
    {
        const char *kind = hvd_json_str(item, "kind");
        const cJSON *labels = hvd_json_at(item, "metadata.labels");
        const cJSON *found = hvd_json_get(labels, "horovod.io/role");

        n += strcmp(kind, "Pod") == 0 && found && strcmp(found->valuestring, role) == 0;
    }
    return n;
}

/* What must hold at every moment. */
static void check(const struct world *w, const struct combination *c)
{
    const cJSON *group = world_find(w, "PodGroup", "digits");
    const cJSON *set = world_find(w, "StatefulSet", "digits-worker");

    if (c->gang == HVD_GANG_NONE && group)
        fail_msg("%s: a PodGroup that nobody wants", describe(c));
    if (c->is_on_host_network && hvd_json_int(set, "spec.replicas", 0) > 0 &&
        hvd_json_int(world_find(w, "HorovodJob", "digits"), "status.sshPort", 0) != 20042)
        fail_msg("%s: workers before the port was written", describe(c));
}

/* Passes, controllers, checks, until nothing happens; a dead operator is followed by another. */
static void settle(struct world *w, const struct combination *c)
{
    for (int round = 0; round < 400; round++) {
        bool made_workers = n_pods(w, "worker") > 0;
        size_t n = world_pass(w);

        if (w->is_dead) {
            w->is_dead = false;
            w->actions_left = -1;
            w->status_written_ms = 0;
            n = 1;
        }
        check(w, c);
        w->now_ms += 2000;
        if (!world_controllers(w) && n == 0)
            return;
        if (c->gang != HVD_GANG_NONE && !made_workers && n_pods(w, "worker") > 0 &&
            !world_find(w, "PodGroup", "digits"))
            fail_msg("%s: workers before their group", describe(c));
    }
    fail_msg("%s: it does not settle", describe(c));
}

static void edit(struct world *w, const struct combination *c, const char *patch)
{
    world_edit(w, patch);
    settle(w, c);
}

static void is_suspended(struct world *w, const struct combination *c)
{
    if (n_pods(w, "worker") + n_pods(w, "master") > 0 || world_find(w, "PodGroup", "digits"))
        fail_msg("%s: suspended, it has pods or a PodGroup", describe(c));
    assert_string_equal(world_status(w, "state"), "Suspended");
}

static void suspend_and_resume(struct world *w, const struct combination *c)
{
    edit(w, c, "{\"suspend\":true}");
    is_suspended(w, c);
    if (c->scaling == UP_WHILE_SUSPENDED)
        edit(w, c, "{\"worker\":{\"replicas\":3}}");
    is_suspended(w, c);
    edit(w, c, "{\"suspend\":false}");
}

static void is_running(struct world *w, const struct combination *c, int workers)
{
    const cJSON *group = world_find(w, "PodGroup", "digits");

    if (strcmp(world_status(w, "state"), "Running") != 0)
        fail_msg("%s: it is %s: %s", describe(c), world_status(w, "state"),
                 world_status(w, "message"));
    if (n_pods(w, "worker") != workers || n_pods(w, "master") != 1)
        fail_msg("%s: %d workers, not %d", describe(c), n_pods(w, "worker"), workers);
    if (!group != (c->gang == HVD_GANG_NONE))
        fail_msg("%s: the PodGroup is %s", describe(c), group ? "there" : "missing");
    if (group && hvd_json_int(group, "spec.minMember", 0) != workers)
        fail_msg("%s: minMember is not %d", describe(c), workers);
    assert_string_equal(world_condition(w, "Running"), "True");
    if (world_pass(w) != 0)
        fail_msg("%s: at rest, it wants to write", describe(c));
}

static void begin(struct world *w, const struct combination *c, int actions)
{
    char spec[512];

    (void)snprintf(
        spec, sizeof(spec),
        "{\"image\":\"i\",\"command\":[\"t\"],\"backoffLimit\":1,\"resources\":{"
        "\"requests\":{\"cpu\":\"500m\"}},\"worker\":{\"replicas\":%d},\"suspend\":%s%s}",
        c->scaling == UP_WHILE_SUSPENDED && c->suspension == NEVER ? 3 : 2,
        c->suspension == AT_CREATION ? "true" : "false",
        c->is_on_host_network ? ",\"network\":{\"hostNetwork\":true}" : "");
    world_init(w, spec);
    w->settings.gang = c->gang;
    w->free_port = 20042;
    w->actions_left = actions;
    w->is_kubelet_off = c->suspension == WHILE_STARTING;
    settle(w, c);
}

/* Plays a job's life with a death of the operator after so many actions (-1: none). True if it
 * died. */
static bool play(const struct combination *c, int actions, char **digest)
{
    int workers = c->scaling == UP_WHILE_SUSPENDED ? 3 : 2;
    struct world w;
    bool died;

    begin(&w, c, actions);
    if (c->suspension == AT_CREATION) {
        is_suspended(&w, c);
        if (c->scaling == UP_WHILE_SUSPENDED)
            edit(&w, c, "{\"worker\":{\"replicas\":3}}");
        edit(&w, c, "{\"suspend\":false}");
    } else if (c->suspension != NEVER) {
        w.is_kubelet_off = false;
        suspend_and_resume(&w, c);
    }
    is_running(&w, c, workers);
    if (c->scaling == UP || c->scaling == DOWN) {
        edit(&w, c,
             c->scaling == UP ? "{\"worker\":{\"replicas\":4}}" : "{\"worker\":{\"replicas\":1}}");
        is_running(&w, c, workers); /* its size is fixed, for this attempt */
        if (c->suspension == TWICE || c->restart == OF_THE_JOB)
            workers = c->scaling == UP ? 4 : 1;
    }
    if (c->suspension == TWICE)
        suspend_and_resume(&w, c);
    if (c->restart == OF_THE_JOB) {
        world_end_master(&w, 3, "first");
        settle(&w, c);
    }
    is_running(&w, c, workers);
    world_end_master(&w, 0, NULL);
    settle(&w, c);
    assert_string_equal(world_status(&w, "state"), "Succeeded");
    assert_null(world_find(&w, "PodGroup", "digits"));
    assert_int_equal(n_pods(&w, "worker"), 0);
    assert_int_equal(w.n_conflicts, 0);
    died = w.actions_left == -1 && actions >= 0;
    *digest = world_digest(&w);
    world_fini(&w);
    return died;
}

static struct combination combination(int number)
{
    struct combination c = {0};

    c.gang = (enum hvd_gang)(number % N_GANGS);
    number /= N_GANGS;
    c.suspension = (enum suspension)(number % N_SUSPENSIONS);
    number /= N_SUSPENSIONS;
    c.restart = (enum restart)(number % N_RESTARTS);
    number /= N_RESTARTS;
    c.scaling = (enum scaling)(number % N_SCALINGS);
    number /= N_SCALINGS;
    c.is_on_host_network = number % 2 == 1;
    return c;
}

#define N_COMBINATIONS (N_GANGS * N_SUSPENSIONS * N_RESTARTS * N_SCALINGS * 2)

static void every_combination_runs_and_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < N_COMBINATIONS; i++) {
        struct combination c = combination(i);
        char *digest = NULL;

        (void)play(&c, -1, &digest);
        free(digest);
    }
}

/* The operator dies after an action of a combination's life. Of the combinations every 11th, which
 * has every value of everything, and of each every 7th action, which are others in the next one. */
#define EVERY_COMBINATION 11
#define EVERY_ACTION 7
static void a_death_of_the_operator_at_any_action_changes_nothing(void **state)
{
    int n_deaths = 0;

    (void)state;
    for (int i = 0; i < N_COMBINATIONS; i += EVERY_COMBINATION) {
        struct combination c = combination(i);
        char *undisturbed = NULL;
        bool died = true;

        (void)play(&c, -1, &undisturbed);
        for (int actions = 1 + i % EVERY_ACTION; died; actions += EVERY_ACTION) {
            char *digest = NULL;

            died = play(&c, actions, &digest);
            if (strcmp(digest, undisturbed) != 0)
                fail_msg("%s, death after %d actions:\n%s\nnot\n%s", describe(&c), actions, digest,
                         undisturbed);
            free(digest);
            n_deaths += died;
        }
        free(undisturbed);
    }
    assert_true(n_deaths > 100);
}

/* The gang scheduler of this world really holds pods: one too many members and nothing starts. */
static void a_group_that_counted_the_master_would_never_start(void **state)
{
    const struct combination c = {.gang = HVD_GANG_VOLCANO};
    struct world w;
    cJSON *spec;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.settings.gang = c.gang;
    w.is_kubelet_off = true;
    settle(&w, &c);
    w.now_ms = w.wake_at_ms; /* of the first status */
    settle(&w, &c);
    w.is_kubelet_off = false;
    spec = cJSON_GetObjectItem(world_find(&w, "PodGroup", "digits"), "spec");
    cJSON_ReplaceItemInObject(spec, "minMember", cJSON_CreateNumber(3));
    assert_false(world_controllers(&w));
    assert_string_equal(world_status(&w, "state"), "Pending");
    settle(&w, &c);
    assert_string_equal(world_status(&w, "state"), "Running");
    world_fini(&w);
}

static void a_missing_gang_scheduler_holds_up_what_is_new_only(void **state)
{
    const struct combination c = {.gang = HVD_GANG_PLUGINS};
    struct world w;
    int writes;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.settings.gang = c.gang;
    w.settings.is_gang_missing = true;
    settle(&w, &c);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "GangSchedulerMissing");
    assert_int_equal(world_events(&w, "GangSchedulerMissing"), 1);
    w.settings.is_gang_missing = false;
    settle(&w, &c);
    is_running(&w, &c, 2);
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "MasterStarted");
    writes = w.n_sent;
    w.settings.is_gang_missing = true;
    settle(&w, &c);
    assert_int_equal(w.n_sent, writes);
    /* The group goes with its definition: none is made that the server does not know. */
    world_remove(&w, "PodGroup", "digits");
    settle(&w, &c);
    assert_int_equal(w.n_sent, writes);
    world_is_state(&w, "Running");
    w.settings.is_gang_missing = false;
    settle(&w, &c);
    assert_non_null(world_find(&w, "PodGroup", "digits"));
    world_fini(&w);
}

#define ON_THE_NODES_NETWORK                                                                       \
    "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":1},\"network\":{"               \
    "\"hostNetwork\":true}}"

/* The shell reconciles it again when a port is left: nothing is polled. */
static void no_free_port_is_told_and_costs_nothing_until_there_is_one(void **state)
{
    const struct combination c = {0};
    struct world w;
    int writes;

    (void)state;
    world_init(&w, ON_THE_NODES_NETWORK);
    settle(&w, &c);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_null(world_find(&w, "ConfigMap", "digits-hosts"));
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "NoFreePort");
    assert_int_equal(w.wake_at_ms, 0);
    writes = w.n_writes;
    for (int i = 0; i < 10; i++) {
        w.now_ms += 60000;
        assert_int_equal(world_pass(&w), 0);
    }
    assert_int_equal(w.n_writes, writes);
    w.free_port = 20042;
    settle(&w, &c);
    is_running(&w, &c, 1);
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.sshPort", 0),
                     20042);
    world_fini(&w);
}

/* Another job may have got the port meanwhile. */
static void a_job_that_is_resumed_gets_its_port_anew(void **state)
{
    const struct combination c = {0};
    struct world w;
    char *set;

    (void)state;
    world_init(&w, ON_THE_NODES_NETWORK);
    w.free_port = 20042;
    settle(&w, &c);
    is_running(&w, &c, 1);
    edit(&w, &c, "{\"suspend\":true}");
    is_suspended(&w, &c);
    w.free_port = 0;
    edit(&w, &c, "{\"suspend\":false}");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "NoFreePort");
    assert_int_equal(n_pods(&w, "worker"), 0);
    w.free_port = 20043;
    settle(&w, &c);
    is_running(&w, &c, 1);
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.sshPort", 0),
                     20043);
    assert_non_null(
        strstr(hvd_json_str(world_find(&w, "ConfigMap", "digits-hosts"), "data.ssh_config"),
               "Port 20043"));
    set = cJSON_PrintUnformatted(world_find(&w, "StatefulSet", "digits-worker"));
    assert_non_null(strstr(set, "20043"));
    assert_null(strstr(set, "20042"));
    hvd_free(set);
    world_fini(&w);
}

/* It is no reason why the job should not run, and the message tells of it. */
static void a_foreign_child_beside_a_running_master_is_let_be(void **state)
{
    const struct combination c = {0};
    struct world w;
    int writes;

    (void)state;
    begin(&w, &c, -1);
    is_running(&w, &c, 2);
    world_remove(&w, "Service", "digits");
    (void)world_put(&w, "{\"kind\":\"Service\",\"metadata\":{\"name\":\"digits\",\"namespace\":"
                        "\"default\",\"labels\":{\"app.kubernetes.io/managed-by\":"
                        "\"horovod-operator\",\"horovod.io/job-name\":\"digits\"}},\"spec\":{}}");
    settle(&w, &c);
    writes = w.n_writes;
    w.now_ms += 3600000;
    settle(&w, &c);
    assert_int_equal(w.n_writes, writes);
    assert_string_equal(world_condition(&w, "Running"), "True");
    world_fini(&w);
}

/* A new operator with another choice meets jobs of the old one. */
static void a_change_of_the_gang_scheduler_disturbs_no_running_job(void **state)
{
    (void)state;
    for (int from = 0; from < N_GANGS; from++) {
        for (int to = 0; to < N_GANGS; to++) {
            struct combination c = {.gang = (enum hvd_gang)from};
            cJSON *set;
            struct world w;
            char *before, *after;

            begin(&w, &c, -1);
            set = cJSON_GetObjectItem(world_find(&w, "StatefulSet", "digits-worker"), "spec");
            before = cJSON_PrintUnformatted(set);
            if (from != to && from != HVD_GANG_NONE) {
                world_fini(&w);
                hvd_free(before);
                continue;
            }
            c.gang = (enum hvd_gang)to;
            w.settings.gang = c.gang;
            settle(&w, &c);
            set = cJSON_GetObjectItem(world_find(&w, "StatefulSet", "digits-worker"), "spec");
            after = cJSON_PrintUnformatted(set);
            assert_string_equal(before, after);
            is_running(&w, &c, 2);
            hvd_free(before);
            hvd_free(after);
            world_fini(&w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_runs_and_leaves_nothing),
        cmocka_unit_test(a_death_of_the_operator_at_any_action_changes_nothing),
        cmocka_unit_test(a_group_that_counted_the_master_would_never_start),
        cmocka_unit_test(a_missing_gang_scheduler_holds_up_what_is_new_only),
        cmocka_unit_test(no_free_port_is_told_and_costs_nothing_until_there_is_one),
        cmocka_unit_test(a_job_that_is_resumed_gets_its_port_anew),
        cmocka_unit_test(a_foreign_child_beside_a_running_master_is_let_be),
        cmocka_unit_test(a_change_of_the_gang_scheduler_disturbs_no_running_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
