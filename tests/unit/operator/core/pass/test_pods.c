/* Which pods are a job's: those of its own set and Job, whatever labels others carry. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define HOSTS "digits-worker-0.digits slots=1\ndigits-worker-1.digits slots=1\n"
#define FORGED "forged words"

/* A pod with our labels that somebody else made. */
struct stranger {
    const char *name, *role;
    const char *owner; /* its ownerReferences; %s: the uid of the object that from names */
    const char *from_kind, *from_name;
    const char *more; /* of its metadata */
};

static void put(struct world *w, const struct stranger *stranger)
{
    const cJSON *from =
        stranger->from_kind ? world_find(w, stranger->from_kind, stranger->from_name) : NULL;
    char owner[256] = "", text[1024];

    (void)snprintf(owner, sizeof(owner), "%s", stranger->owner ? stranger->owner : "");
    if (from)
        (void)snprintf(owner, sizeof(owner), "{\"kind\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\"%s}",
                       stranger->from_kind, stranger->from_name, hvd_json_str(from, "metadata.uid"),
                       stranger->owner);
    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\"%s,"
                   "\"ownerReferences\":[%s],"
                   "\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","
                   "\"horovod.io/job-name\":\"digits\",\"horovod.io/role\":\"%s\"}},\"status\":{"
                   "\"phase\":\"%s\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
                   "\"containerStatuses\":[{\"name\":\"%s\",\"state\":{\"terminated\":{"
                   "\"exitCode\":9,\"message\":\"" FORGED "\"}}}]}}",
                   stranger->name, stranger->more ? stranger->more : "", owner, stranger->role,
                   strcmp(stranger->role, "master") == 0 ? "Failed" : "Running", stranger->role);
    world_put(w, text);
}

#define DELETED ",\"deletionTimestamp\":\"2023-11-14T20:00:00Z\",\"deletionGracePeriodSeconds\":30"

static const struct stranger strangers[] = {
    {.name = "stray", .role = "worker"},
    {"digits-worker-00", "worker", ",\"controller\":true", "StatefulSet", "other-worker", NULL},
    {.name = "digits-worker-77", .role = "worker", .more = DELETED},
    {.name = "digits-master-zzzzz", .role = "master"},
    {.name = "digits-master-yyyyy", .role = "master", .more = DELETED},
    {"other-worker-0", "worker", ",\"controller\":true", "StatefulSet", "other-worker", NULL},
    {"digits-worker-20", "worker", ",\"controller\":true", "StatefulSet", "other-worker", NULL},
    {"other-master-abcde", "master", ",\"controller\":true", "Job", "other-master", NULL},
    {"digits-master-xxxxx", "master", ",\"controller\":true", "StatefulSet", "other-worker", NULL},
};
#define N_STRANGERS (sizeof(strangers) / sizeof(strangers[0]))

static void put_strangers(struct world *w)
{
    world_put(w, "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"other-worker\","
                 "\"namespace\":\"default\"}}");
    world_put(w, "{\"kind\":\"Job\",\"metadata\":{\"name\":\"other-master\","
                 "\"namespace\":\"default\"},\"status\":{\"started\":true}}");
    for (size_t i = 0; i < N_STRANGERS; i++)
        put(w, &strangers[i]);
}

static const char *hostfile(const struct world *w)
{
    return hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");
}

static void is_undisturbed(const struct world *w, const char *state)
{
    char *status;

    world_is_state(w, state);
    status = cJSON_PrintUnformatted(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"));
    assert_null(strstr(status, FORGED));
    hvd_free(status);
    for (size_t i = 0; i < N_STRANGERS; i++)
        assert_non_null(world_find(w, "Pod", strangers[i].name));
}

/* From its beginning, through a failure and a suspension, to its end. */
static void pods_with_our_labels_and_another_owner_change_nothing(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":2},"
                   "\"backoffLimit\":1}");
    put_strangers(&w);
    w.now_ms += 60000;
    world_settle(&w);
    is_undisturbed(&w, "Running");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_string_equal(hostfile(&w), HOSTS);
    world_end_master(&w, 3, "own words");
    world_settle(&w);
    is_undisturbed(&w, "Running");
    assert_string_equal(world_status(&w, "failureLog"), "own words");
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    is_undisturbed(&w, "Suspended");
    assert_string_equal(world_status(&w, "ready"), "0/2");
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    is_undisturbed(&w, "Running");
    assert_string_equal(hostfile(&w), HOSTS);
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    is_undisturbed(&w, "Succeeded");
    world_fini(&w);
}

/* Whether the StatefulSet controller reads a number there: an int32. */
static bool has_number(const char *name)
{
    char *end = NULL;
    const char *tail = strrchr(name, '-') + 1;
    const unsigned long long number = strtoull(tail, &end, 10);

    return *tail >= '0' && *tail <= '9' && *end == '\0' && number <= INT32_MAX;
}

static void a_worker_has_one_name_and_one_controller(void **state)
{
    static const struct stranger pods[] = {
        {"digits-worker-00", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-01", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-+1", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker--1", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker- 1", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-1 ", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-0x1", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""},
        {"digits-worker-4294967297", "worker", ",\"controller\":true", "StatefulSet",
         "digits-worker", ""},
        {"digits-worker-18446744073709551617", "worker", ",\"controller\":true", "StatefulSet",
         "digits-worker", ""},
        {"digits-worker-20", "worker", ",\"controller\":false", "StatefulSet", "digits-worker", ""},
        {"digits-worker-21", "worker", "", "StatefulSet", "digits-worker", ""},
        {"digits-worker-22", "worker", ",\"controller\":true", "Job", "digits-master", ""},
        {"digits-master-zzzzz", "master", ",\"controller\":true", "StatefulSet", "digits-worker",
         ""},
        {"digits-master-yyyyy", "master", ",\"controller\":false", "Job", "digits-master", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        struct world w;

        world_start(&w, "");
        put(&w, &pods[i]);
        world_edit(&w, "{\"worker\":{\"replicas\":50}}"); /* no ordinal is too large */
        world_pass(&w);
        world_pass(&w);
        if (strcmp(hostfile(&w), HOSTS) != 0)
            fail_msg("%s is listed: %s", pods[i].name, hostfile(&w));
        assert_string_equal(world_status(&w, "state"), "Running");
        assert_string_equal(world_condition(&w, "Failed"), "");
        if (strcmp(pods[i].role, "worker") == 0 && strcmp(pods[i].from_kind, "StatefulSet") == 0 &&
            strcmp(pods[i].owner, ",\"controller\":true") == 0) {
            char expected[128];

            w.now_ms += 60000;
            world_pass(&w);
            (void)snprintf(expected, sizeof(expected),
                           has_number(pods[i].name)
                               ? "pod %s takes the place of a worker in StatefulSet digits-worker"
                               : "pod %s belongs to StatefulSet digits-worker and is no worker",
                           pods[i].name);
            assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"), expected));
        }
        world_fini(&w);
    }
}

/* The set takes it for its own while its workers are there, makes none in its place, and removes it
 * with them, but for one whose number it cannot read: that one is named. */
static void a_pod_that_a_set_takes_for_a_worker_is_no_second_one(void **state)
{
    static const char *const names[] = {"digits-worker-00", "digits-worker-007",
                                        "digits-worker-4294967297"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct stranger pod = {.name = names[i], .role = "worker"};
        char expected[128], uid[32];
        struct world w;

        print_message("%s\n", names[i]);
        world_init(&w, "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":2}}");
        w.is_kubelet_off = true;
        world_settle(&w);
        put(&w, &pod);
        /* Older than the keys, as one that somebody has given the labels later. */
        cJSON_ReplaceItemInObject(
            (cJSON *)hvd_json_get(world_find(&w, "Pod", names[i]), "metadata"), "creationTimestamp",
            cJSON_CreateString("2001-01-01T00:00:00Z"));
        (void)snprintf(uid, sizeof(uid), "%s",
                       hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"));
        if (i == 0)
            while (world_controllers(&w))
                continue;
        w.is_kubelet_off = false;
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_string_equal(hostfile(&w), HOSTS);
        assert_string_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
        world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        w.now_ms += 900000;
        world_settle(&w);
        if (!world_find(&w, "Pod", names[i])) {
            assert_string_equal(world_condition(&w, "Suspended"), "True");
        } else {
            assert_string_equal(world_condition(&w, "Suspended"), "False");
            (void)snprintf(expected, sizeof(expected), "%s is to go, and StatefulSet digits-worker",
                           names[i]);
            assert_non_null(
                strstr(world_condition_text(&w, "DeletionBlocked", "message"), expected));
            world_remove(&w, "Pod", names[i]);
        }
        world_edit(&w, "{\"suspend\":false}");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_string_equal(hostfile(&w), HOSTS);
        world_fini(&w);
    }
}

/* Of a set that was deleted the pods are there for a while, also those of a group that is gone. */
static void pods_of_a_set_that_is_gone_are_waited_for(void **state)
{
    static const char *const sets[] = {"digits-worker", "digits-worker-old"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct stranger left = {.name = "digits-worker-99", .role = "worker"};
        char owner[128];
        struct world w;

        (void)snprintf(owner, sizeof(owner),
                       "{\"kind\":\"StatefulSet\",\"name\":\"%s\",\"uid\":\"gone\","
                       "\"controller\":true}",
                       sets[i]);
        left.owner = owner;
        world_start(&w, "");
        world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        put(&w, &left);
        world_edit(&w, "{\"suspend\":false}");
        world_pass(&w);
        world_is_state(&w, "Suspended");
        world_settle(&w); /* the garbage collector takes it */
        world_is_state(&w, "Running");
        world_fini(&w);
    }
}

/* A set and a Job of our names and with our labels that are not the job's, and pods of theirs. */
static void pods_of_foreign_children_are_nobody(void **state)
{
    static const struct stranger worker = {
        "digits-worker-0", "worker", ",\"controller\":true", "StatefulSet", "digits-worker", ""};
    static const struct stranger master = {
        "digits-master-abcde", "master", ",\"controller\":true", "Job", "digits-master", ""};
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":1}}");
    world_put(&w, "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"digits-worker\","
                  "\"namespace\":\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"}}}");
    world_put(&w, "{\"kind\":\"Job\",\"metadata\":{\"name\":\"digits-master\",\"namespace\":"
                  "\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"}},\"status\":{"
                  "\"started\":true,\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\","
                  "\"message\":\"" FORGED "\"}]}}");
    put(&w, &worker);
    put(&w, &master);
    for (int i = 0; i < 5; i++) {
        world_pass(&w);
        w.now_ms += 5000;
    }
    assert_string_equal(world_status(&w, "ready"), "0/1");
    world_is_state(&w, "Pending");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
    assert_null(strstr(world_status(&w, "message"), FORGED));
    world_edit(&w, "{\"suspend\":true}");
    for (int i = 0; i < 5; i++) {
        world_pass(&w);
        w.now_ms += 5000;
    }
    world_is_state(&w, "Suspended");
    assert_non_null(world_find(&w, "Pod", "digits-master-abcde"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_with_our_labels_and_another_owner_change_nothing),
        cmocka_unit_test(a_worker_has_one_name_and_one_controller),
        cmocka_unit_test(a_pod_that_a_set_takes_for_a_worker_is_no_second_one),
        cmocka_unit_test(pods_of_a_set_that_is_gone_are_waited_for),
        cmocka_unit_test(pods_of_foreign_children_are_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
