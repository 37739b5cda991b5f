#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "operator/api/json.h"
#include "operator/core/children/hosts.h"

#define WORKERS                                                                                    \
    "\"image\":\"i\",\"command\":[\"t\"],\"slotsPerWorker\":2,\"worker\":{\"replicas\":3}"
#define LONGEST "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs" /* 45 characters */

static void decode(struct hvd_job *job, const char *name, const char *spec)
{
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"uid\":\"u\","
                                "\"resourceVersion\":\"5\"}}");

    cJSON_AddStringToObject(cJSON_GetObjectItem(object, "metadata"), "name", name);
    cJSON_AddItemToObject(object, "spec", cJSON_Parse(spec));
    assert_int_equal(hvd_job_decode(object, job, NULL), HVD_OK);
    assert_null(job->invalid);
    cJSON_Delete(object);
}

static cJSON *list(const struct hvd_job *job, const struct hvd_worker *workers, size_t n)
{
    struct hvd_jb jb = {0};
    cJSON *data = hvd_hosts_data(&jb, job, workers, n);

    assert_false(jb.failed);
    return data;
}

static const char *file(const cJSON *data, const char *name)
{
    return cJSON_GetStringValue((cJSON *)hvd_json_get(data, name));
}

static void groups_stand_behind_each_other_with_their_own_slots(void **state)
{
    const struct hvd_worker workers[] = {
        {.ordinal = 0}, {.ordinal = 2}, {.group = 1}, {.group = 2}};
    struct hvd_job job = {0};
    cJSON *data;

    (void)state;
    decode(&job, "train",
           "{" WORKERS ",\"workerGroups\":[{\"name\":\"big\",\"replicas\":1,\"slotsPerWorker\":8},"
           "{\"name\":\"x-1\",\"replicas\":1}]}");
    data = list(&job, workers, 4);
    assert_string_equal(file(data, "hostfile"),
                        "train-worker-0.train slots=2\ntrain-worker-2.train slots=2\n"
                        "train-worker-big-0.train slots=8\ntrain-worker-x-1-0.train slots=2\n");
    assert_string_equal(file(data, "hosts"),
                        "train-worker-0.train:2,train-worker-2.train:2,train-worker-big-0.train:8,"
                        "train-worker-x-1-0.train:2");
    assert_int_equal(hvd_hosts_slots(&job, workers, 4), 14);
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void a_master_that_runs_ranks_is_the_first_host(void **state)
{
    const struct hvd_worker workers[] = {{.ordinal = 1}};
    struct hvd_job job = {0};
    cJSON *data;

    (void)state;
    decode(&job, "train", "{" WORKERS ",\"runMasterAsWorker\":true}");
    data = list(&job, workers, 1);
    assert_string_equal(file(data, "hostfile"),
                        "train-master slots=2\ntrain-worker-1.train slots=2\n");
    assert_string_equal(file(data, "hosts"), "train-master:2,train-worker-1.train:2");
    assert_int_equal(hvd_hosts_slots(&job, workers, 1), 4);
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void on_the_nodes_network_the_master_has_no_name_of_its_own(void **state)
{
    struct hvd_job job = {0};
    cJSON *data;

    (void)state;
    decode(&job, "train",
           "{" WORKERS ",\"runMasterAsWorker\":true,\"network\":{\"hostNetwork\":true}}");
    data = list(&job, NULL, 0);
    assert_string_equal(file(data, "hostfile"), "localhost slots=2\n");
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void addresses_stand_for_names_where_they_are_asked_for(void **state)
{
    struct hvd_object pods[2] = {{.kind = HVD_KIND_POD}, {.kind = HVD_KIND_POD}};
    const struct hvd_worker workers[] = {{.ordinal = 0, .pod = &pods[0]},
                                         {.ordinal = 1, .pod = &pods[1]}};
    char v4[] = "10.1.2.3", v6[] = "fd00::7";
    struct hvd_job job = {0};
    struct hvd_jb jb = {0};
    cJSON *data;

    (void)state;
    pods[0].u.pod.ip = v4;
    pods[1].u.pod.ip = v6;
    decode(&job, "train", "{" WORKERS ",\"network\":{\"hostNames\":\"IP\"}}");
    data = list(&job, workers, 2);
    assert_string_equal(file(data, "hostfile"), "10.1.2.3 slots=2\nfd00::7 slots=2\n");
    assert_string_equal(file(data, "hosts"), "10.1.2.3:2,[fd00::7]:2");
    assert_non_null(strstr(file(data, "ssh_config"), "\n  HostKeyAlias workers.train\n"));
    cJSON_Delete(data);
    data = hvd_hosts_data_of_all(&jb, &job);
    assert_string_equal(file(data, "hostfile"), "");
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void the_first_list_holds_all_workers_that_are_wanted(void **state)
{
    struct hvd_job job = {0};
    struct hvd_jb jb = {0};
    cJSON *data;

    (void)state;
    decode(&job, "t", "{" WORKERS ",\"workerGroups\":[{\"name\":\"a\",\"replicas\":2}]}");
    data = hvd_hosts_data_of_all(&jb, &job);
    assert_string_equal(file(data, "hosts"),
                        "t-worker-0.t:2,t-worker-1.t:2,t-worker-2.t:2,t-worker-a-0.t:2,"
                        "t-worker-a-1.t:2");
    assert_null(strstr(file(data, "ssh_config"), "HostKeyAlias"));
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    FILE *out;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void take_away(const char *dir, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

static void the_script_prints_hosts_and_slots_in_order(void **state)
{
    const struct hvd_worker workers[] = {{.ordinal = 0}, {.ordinal = 2}, {.ordinal = 10}};
    char dir[] = "/tmp/hvd-hosts-XXXXXX";
    char command[128], text[512] = "";
    struct hvd_job job = {0};
    cJSON *data;
    FILE *pipe;

    (void)state;
    decode(&job, "t", "{" WORKERS "}");
    data = list(&job, workers, 3);
    assert_non_null(mkdtemp(dir));
    put(dir, "hostfile", file(data, "hostfile"));
    put(dir, "discover_hosts.sh", file(data, "discover_hosts.sh"));
    (void)snprintf(command, sizeof(command), "sh -eu %s/discover_hosts.sh", dir);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    (void)!fread(text, 1, sizeof(text) - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(text, "t-worker-0.t:2\nt-worker-2.t:2\nt-worker-10.t:2\n");
    take_away(dir, "hostfile");
    take_away(dir, "discover_hosts.sh");
    assert_int_equal(rmdir(dir), 0);
    cJSON_Delete(data);
    hvd_job_fini(&job);
}

static void ten_thousand_workers_fit_into_a_config_map(void **state)
{
    static const struct {
        const char *name;
        bool fits;
    } table[] = {{"digits", true},
                 {"abcdefghijklmnopqrstuvwxyzabcdefghijklm", true}, /* 39 */
                 {LONGEST, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct hvd_job job = {0};
        struct hvd_jb jb = {0};
        cJSON *data;

        decode(&job, table[i].name,
               "{\"image\":\"i\",\"command\":[\"t\"],\"slotsPerWorker\":8,\"worker\":"
               "{\"replicas\":10000}}");
        data = hvd_hosts_data_of_all(&jb, &job);
        assert_false(jb.failed);
        print_message("%s: %zu bytes\n", table[i].name, hvd_hosts_size(data));
        assert_int_equal(hvd_hosts_size(data) <= HVD_HOSTS_MAX_BYTES, table[i].fits);
        /* No command line takes that. */
        assert_string_equal(file(data, "hosts"), "");
        cJSON_Delete(data);
        hvd_job_fini(&job);
    }
}

static void every_allocation_may_fail(void **state)
{
    struct hvd_job job = {0};

    (void)state;
    decode(&job, "t", "{" WORKERS ",\"workerGroups\":[{\"name\":\"a\",\"replicas\":2}]}");
    HVD_MEM_TORTURE({
        struct hvd_jb jb = {0};
        cJSON *data = hvd_hosts_data_of_all(&jb, &job);

        assert_int_equal(jb.failed, hvd_mem_fired());
        cJSON_Delete(data);
    });
    hvd_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_stand_behind_each_other_with_their_own_slots),
        cmocka_unit_test(a_master_that_runs_ranks_is_the_first_host),
        cmocka_unit_test(on_the_nodes_network_the_master_has_no_name_of_its_own),
        cmocka_unit_test(addresses_stand_for_names_where_they_are_asked_for),
        cmocka_unit_test(the_first_list_holds_all_workers_that_are_wanted),
        cmocka_unit_test(the_script_prints_hosts_and_slots_in_order),
        cmocka_unit_test(ten_thousand_workers_fit_into_a_config_map),
        cmocka_unit_test(every_allocation_may_fail),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
