#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/children.h"
#include "operator/core/ports.h"

static void a_free_port_is_found_while_there_is_one(void **state)
{
    const struct hvd_port_range range = {20000, 20009};
    int32_t taken[10];

    (void)state;
    for (size_t n = 0; n < 10; n++) {
        int32_t port = hvd_ports_choose(&range, taken, n, "uid");

        assert_in_range(port, 20000, 20009);
        for (size_t i = 0; i < n; i++)
            assert_int_not_equal(port, taken[i]);
        taken[n] = port;
    }
    assert_int_equal(hvd_ports_choose(&range, taken, 10, "uid"), 0);
}

static void the_choice_follows_from_the_uid_and_what_is_taken(void **state)
{
    const struct hvd_port_range range = {20000, 29999};
    int32_t none = 0;
    int32_t port = hvd_ports_choose(&range, &none, 0, "a");
    int32_t taken[3] = {port + 1, 25, port};

    (void)state;
    assert_int_equal(hvd_ports_choose(&range, &none, 0, "a"), port);
    assert_int_not_equal(hvd_ports_choose(&range, &none, 0, "b"), port);
    assert_int_equal(hvd_ports_choose(&range, taken, 3, "a"), port + 2);
}

static void a_range_of_one_port_serves_one_job(void **state)
{
    const struct hvd_port_range range = {65535, 65535};
    int32_t taken[1] = {0};

    (void)state;
    assert_int_equal(hvd_ports_choose(&range, taken, 0, "a"), 65535);
    taken[0] = 65535;
    assert_int_equal(hvd_ports_choose(&range, taken, 1, "a"), 0);
}

#define SHORT "\"image\":\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":1}"
#define NET ",\"network\":{\"hostNetwork\":true}"

/* What is wanted and held by a job of this spec and status. */
static void job_is(const char *spec, const char *status, bool is_wanted, int held_with_pods,
                   int held_without)
{
    struct hvd_job job = {0};
    char text[1024];
    cJSON *object;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j\",\"uid\":\"u\","
                   "\"resourceVersion\":\"1\"},\"spec\":{%s},\"status\":{%s}}",
                   spec, status);
    object = cJSON_Parse(text);
    assert_non_null(object);
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_null(job.invalid);
    assert_int_equal(hvd_ports_is_wanted(&job), is_wanted);
    assert_int_equal(hvd_ports_held(&job, 1), held_with_pods);
    assert_int_equal(hvd_ports_held(&job, 0), held_without);
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

static void only_jobs_on_the_nodes_network_want_and_hold_ports(void **state)
{
    static const char finished[] =
        "\"sshPort\":20001,\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\","
        "\"reason\":\"r\",\"message\":\"\",\"lastTransitionTime\":\"2025-01-01T00:00:00Z\"}]";

    (void)state;
    job_is(SHORT, "", false, 0, 0);
    job_is(SHORT NET, "", true, 0, 0);
    job_is(SHORT NET, "\"sshPort\":20001", false, 20001, 20001);
    job_is(SHORT NET, finished, false, 20001, 0);
    job_is(SHORT NET ",\"suspend\":true", "", false, 0, 0);
    job_is(SHORT NET ",\"suspend\":true", "\"sshPort\":20001", false, 20001, 20001);
    job_is(SHORT NET ",\"ssh\":{\"port\":20005}", "\"sshPort\":20001", false, 20005, 20005);
    job_is(SHORT NET ",\"managedBy\":\"a.b/c\"", "", false, 0, 0);
    job_is("\"worker\":{\"replicas\":1,\"template\":{\"spec\":{\"hostNetwork\":true,"
           "\"containers\":[{}]}}},\"master\":{\"template\":{\"spec\":{\"containers\":[{}]}}}",
           "", true, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_port_is_found_while_there_is_one),
        cmocka_unit_test(the_choice_follows_from_the_uid_and_what_is_taken),
        cmocka_unit_test(a_range_of_one_port_serves_one_job),
        cmocka_unit_test(only_jobs_on_the_nodes_network_want_and_hold_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
