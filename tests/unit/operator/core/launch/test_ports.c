#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/launch/ports.h"

#define MAX_JOBS 64

/* Jobs with their claims. */
struct table {
    struct hvd_job jobs[MAX_JOBS];
    char texts[MAX_JOBS][16]; /* uids */
    struct hvd_port_claim claims[MAX_JOBS];
    size_t n;
};

/* A job that holds the port (0: waits for one since that second). */
static void claim(struct table *t, const char *namespace, int32_t port, int64_t since_s)
{
    struct hvd_job *job = &t->jobs[t->n];

    assert_true(t->n < MAX_JOBS);
    (void)snprintf(t->texts[t->n], sizeof(t->texts[0]), "uid-%zu", t->n);
    *job = (struct hvd_job){.namespace = (char *)namespace, .uid = t->texts[t->n]};
    job->status.start_s = since_s;
    t->claims[t->n++] = (struct hvd_port_claim){.job = job, .port = port};
}

static void claim_by_hand(struct table *t, const char *namespace, int32_t port)
{
    claim(t, namespace, port, 0);
    t->claims[t->n - 1].is_by_hand = true;
}

static void assign(struct table *t, int32_t first, int32_t last, bool is_shared)
{
    const struct hvd_port_range range = {first, last};

    assert_int_equal(hvd_ports_assign(&range, is_shared, t->claims, t->n), HVD_OK);
}

/* The port of the i-th claim that was added: assigning changes their order. */
static int32_t port_of(const struct table *t, size_t i)
{
    for (size_t j = 0; j < t->n; j++) {
        if (t->claims[j].job == &t->jobs[i])
            return t->claims[j].port;
    }
    fail();
    return 0;
}

static void each_job_gets_a_port_of_its_own_while_there_is_one(void **state)
{
    struct table t = {.n = 0};
    bool is_used[10] = {false};

    (void)state;
    for (size_t i = 0; i < 12; i++)
        claim(&t, "n", 0, 100);
    assign(&t, 20000, 20009, false);
    for (size_t i = 0; i < 12; i++) {
        int32_t port = port_of(&t, i);

        if (port == 0)
            continue;
        assert_in_range(port, 20000, 20009);
        assert_false(is_used[port - 20000]);
        is_used[port - 20000] = true;
    }
    for (size_t i = 0; i < 10; i++)
        assert_true(is_used[i]);
}

static void the_choice_follows_from_the_uid_and_what_is_held(void **state)
{
    struct table first = {.n = 0}, second = {.n = 0};
    int32_t port;

    (void)state;
    claim(&first, "n", 0, 100);
    assign(&first, 20000, 29999, true);
    port = port_of(&first, 0);
    assert_in_range(port, 20000, 29999);
    claim(&second, "n", 0, 100);
    claim(&second, "n", port + 1, 0);
    claim(&second, "other", 25, 0);
    claim_by_hand(&second, "other", port);
    assign(&second, 20000, 29999, true);
    assert_int_equal(port_of(&second, 0), port + 2);
    assert_int_equal(port_of(&second, 1), port + 1);
}

static void ports_go_to_those_that_have_waited_longest(void **state)
{
    struct table t = {.n = 0};

    (void)state;
    claim(&t, "b", 0, 300);
    claim(&t, "a", 0, 0); /* has just come */
    claim(&t, "c", 0, 100);
    claim(&t, "a", 0, 200);
    t.jobs[3].created_s = 50;
    claim(&t, "d", 0, 200);
    t.jobs[4].created_s = 40;
    for (int32_t n_ports = 1; n_ports <= 5; n_ports++) {
        static const size_t order[] = {2, 4, 3, 0, 1};

        for (size_t i = 0; i < t.n; i++)
            t.claims[i].port = 0;
        assign(&t, 20000, 20000 + n_ports - 1, true);
        for (size_t i = 0; i < t.n; i++)
            assert_int_equal(port_of(&t, order[i]) != 0, (int32_t)i < n_ports);
    }
}

static void ports_set_by_hand_keep_no_job_waiting(void **state)
{
    struct table t = {.n = 0};

    (void)state;
    for (int32_t port = 20000; port < 20004; port++) {
        claim_by_hand(&t, "other", port);
        claim_by_hand(&t, "other", port);
    }
    claim(&t, "other", 20001, 0);
    claim(&t, "n", 0, 100);
    claim(&t, "n", 0, 200);
    assign(&t, 20000, 20004, true);
    assert_int_equal(port_of(&t, 9), 20004); /* the one that nobody has set */
    assert_in_range(port_of(&t, 10), 20000, 20003);
    assert_int_not_equal(port_of(&t, 10), 20001); /* that a job was given */
}

static void no_namespace_uses_up_a_range_that_others_share(void **state)
{
    struct table t = {.n = 0};
    size_t n_got[2] = {0, 0};

    (void)state;
    for (size_t i = 0; i < 30; i++)
        claim(&t, "greedy", 0, 100);
    assign(&t, 20000, 20026, true);
    for (size_t i = 0; i < 30; i++)
        n_got[0] += port_of(&t, i) != 0;
    assert_int_equal(n_got[0], 24); /* 8 of 9 of 27 */
    for (size_t i = 0; i < 5; i++)
        claim(&t, "late", 0, 200);
    assign(&t, 20000, 20026, true);
    for (size_t i = 0; i < t.n; i++)
        n_got[1] += port_of(&t, i) != 0;
    assert_int_equal(n_got[1], 27);
    for (size_t i = 30; i < 33; i++)
        assert_int_not_equal(port_of(&t, i), 0);
}

static void an_operator_of_one_namespace_gives_it_all_ports(void **state)
{
    struct table t = {.n = 0};

    (void)state;
    for (size_t i = 0; i < 30; i++)
        claim(&t, "n", 0, 100);
    assign(&t, 20000, 20029, false);
    for (size_t i = 0; i < 30; i++)
        assert_int_not_equal(port_of(&t, i), 0);
}

/* A namespace that holds nothing gets a port as long as one is left, and small ranges are used up.
 */
static void a_range_of_few_ports_serves_as_many_jobs(void **state)
{
    (void)state;
    for (int32_t n_ports = 1; n_ports <= HVD_PORTS_SHARE; n_ports++) {
        struct table t = {.n = 0};
        int32_t n_got = 0;

        for (size_t i = 0; i < 10; i++)
            claim(&t, "n", 0, 100);
        assign(&t, 65535 - n_ports + 1, 65535, true);
        for (size_t i = 0; i < 10; i++)
            n_got += port_of(&t, i) != 0;
        assert_int_equal(n_got, n_ports);
    }
}

static void try_assign(void)
{
    const struct hvd_port_range range = {20000, 20009};
    struct table t = {.n = 0};
    hvd_status_t st;

    claim(&t, "n", 0, 100);
    st = hvd_ports_assign(&range, true, t.claims, t.n);
    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    assert_int_equal(port_of(&t, 0) != 0, st == HVD_OK);
}

static void without_memory_no_port_is_given(void **state)
{
    const struct hvd_port_range range = {20000, 20009};

    (void)state;
    HVD_MEM_TORTURE(try_assign());
    assert_int_equal(hvd_ports_assign(&range, true, NULL, 0), HVD_OK);
}

#define SHORT "\"image\":\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":1}"
#define NET ",\"network\":{\"hostNetwork\":true}"
#define BY_HAND ",\"ssh\":{\"port\":20005}"
#define CONDITION(type)                                                                            \
    "\"conditions\":[{\"type\":\"" type                                                            \
    "\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"\",\"lastTransitionTime\":"             \
    "\"2025-01-01T00:00:00Z\"}]"

/* What is wanted and held by a job of this spec and status. */
struct row {
    const char *spec;
    const char *status;
    bool is_deleting;
    bool is_wanted;
    int held_with_workers;
    int held_without;
};

static void check(const struct row *row)
{
    struct hvd_job job = {0};
    char text[1024];
    cJSON *object = NULL;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j\",\"uid\":\"u\","
                   "\"resourceVersion\":\"1\"%s},\"spec\":{%s},\"status\":{%s}}",
                   row->is_deleting ? ",\"deletionTimestamp\":\"2025-01-01T00:00:00Z\"" : "",
                   row->spec, row->status);
    assert_int_equal(hvd_json_parse(text, &object), HVD_OK);
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_null(job.invalid);
    if (hvd_ports_is_wanted(&job) != row->is_wanted ||
        hvd_ports_held(&job, true) != row->held_with_workers ||
        hvd_ports_held(&job, false) != row->held_without)
        fail_msg("%s %s: %d %d %d", row->spec, row->status, hvd_ports_is_wanted(&job),
                 hvd_ports_held(&job, true), hvd_ports_held(&job, false));
    assert_true(row->held_with_workers == row->held_without || hvd_ports_may_be_idle(&job));
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

static void a_job_that_runs_nothing_holds_nothing(void **state)
{
    static const char port[] = "\"sshPort\":20001";
    static const char failed[] = "\"sshPort\":20001," CONDITION("Failed");
    static const char suspended[] = "\"sshPort\":20001," CONDITION("Suspended");
    static const char template[] =
        "\"worker\":{\"replicas\":1,\"template\":{\"spec\":{\"hostNetwork\":true,"
        "\"containers\":[{}]}}},\"master\":{\"template\":{\"spec\":{\"containers\":[{}]}}}";
    static const struct row rows[] = {
        {SHORT, "", false, false, 0, 0},
        {SHORT, port, false, false, 0, 0},
        {SHORT NET, "", false, true, 0, 0},
        {template, "", false, true, 0, 0},
        {SHORT NET, port, false, false, 20001, 20001},
        {SHORT NET, failed, false, false, 20001, 0},
        {SHORT NET, port, true, false, 20001, 0},
        {SHORT NET, "", true, false, 0, 0},
        {SHORT NET ",\"suspend\":true", "", false, false, 0, 0},
        /* Until it counts as suspended it may go on as it is. */
        {SHORT NET ",\"suspend\":true", port, false, false, 20001, 20001},
        {SHORT NET ",\"suspend\":true", suspended, false, false, 20001, 0},
        {SHORT NET, suspended, false, false, 20001, 0},
        {SHORT NET ",\"managedBy\":\"a.b/c\"", "", false, false, 0, 0},
        {SHORT NET ",\"managedBy\":\"a.b/c\"", port, false, false, 20001, 0},
        {SHORT NET BY_HAND, port, false, false, 20005, 20005},
        {SHORT NET BY_HAND, failed, false, false, 20005, 0},
        {SHORT NET BY_HAND, "", true, false, 20005, 0},
        {SHORT NET BY_HAND ",\"suspend\":true", "", false, false, 20005, 0},
        {SHORT NET BY_HAND ",\"managedBy\":\"a.b/c\"", "", false, false, 20005, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

static void only_what_may_listen_on_the_port_is_a_worker(void **state)
{
    struct hvd_object pod = {.kind = HVD_KIND_POD, .meta.role = HVD_ROLE_WORKER};
    struct hvd_object set = {.kind = HVD_KIND_STATEFULSET, .u.statefulset.replicas = 1};
    struct hvd_object service = {.kind = HVD_KIND_SERVICE};

    (void)state;
    for (enum hvd_pod_phase phase = HVD_POD_PENDING; phase <= HVD_POD_FAILED; phase++) {
        pod.u.pod.phase = phase;
        assert_int_equal(hvd_ports_is_worker(&pod), phase <= HVD_POD_RUNNING);
    }
    pod.u.pod.phase = HVD_POD_RUNNING;
    pod.meta.role = HVD_ROLE_MASTER;
    assert_false(hvd_ports_is_worker(&pod));
    assert_true(hvd_ports_is_worker(&set));
    set.u.statefulset.replicas = 0;
    assert_false(hvd_ports_is_worker(&set));
    assert_false(hvd_ports_is_worker(&service));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_job_gets_a_port_of_its_own_while_there_is_one),
        cmocka_unit_test(the_choice_follows_from_the_uid_and_what_is_held),
        cmocka_unit_test(ports_go_to_those_that_have_waited_longest),
        cmocka_unit_test(ports_set_by_hand_keep_no_job_waiting),
        cmocka_unit_test(no_namespace_uses_up_a_range_that_others_share),
        cmocka_unit_test(an_operator_of_one_namespace_gives_it_all_ports),
        cmocka_unit_test(a_range_of_few_ports_serves_as_many_jobs),
        cmocka_unit_test(without_memory_no_port_is_given),
        cmocka_unit_test(a_job_that_runs_nothing_holds_nothing),
        cmocka_unit_test(only_what_may_listen_on_the_port_is_a_worker),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
