#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/children/children.h"
#include "operator/core/children/hosts.h"

#define SHORT                                                                                      \
    "{\"image\":\"img\",\"command\":[\"python\",\"train.py\"],\"args\":[\"--fast\"],"              \
    "\"slotsPerWorker\":2,\"env\":[{\"name\":\"A\",\"value\":\"x \\\"y\\\" \\\\z\"},{\"name\":"    \
    "\"B\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}}],\"resources\":{"       \
    "\"limits\":{\"memory\":\"64Mi\"}},\"worker\":{\"replicas\":3}}"
#define POD(more) "{\"spec\":{\"containers\":[{\"name\":\"side\",\"image\":\"s\"}," more "]}}"
#define WORKER "\"worker\":{\"replicas\":1,\"template\":" POD("{\"name\":\"worker\"}") "}"

/* A decoded job, its spec, and the child built from it, parsed again. */
struct made {
    struct hvd_job job;
    cJSON *spec;
    cJSON *child;
};

#define TEMPLATE_OF                                                                                \
    "{\"spec\":{\"tolerations\":[{\"tolerationSeconds\":%s}],\"containers\":[{\"resources\":{"     \
    "\"requests\":{\"memory\":%s}}}]}}"

static void make(struct made *m, const char *spec, enum hvd_kind kind)
{
    const struct hvd_worker workers[] = {{.ordinal = 0}, {.ordinal = 2}, {.ordinal = 10}};
    struct hvd_child_inputs in = {.attempt = 2, .hosts_seen = "seen"};
    struct hvd_jb jb = {0};
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":"
                                "\"u\",\"resourceVersion\":\"5\"}}");
    cJSON *data;
    char *text = NULL;

    *m = (struct made){.spec = cJSON_Parse(spec)};
    assert_non_null(m->spec);
    cJSON_AddItemToObject(object, "spec", cJSON_Duplicate(m->spec, true));
    assert_int_equal(hvd_job_decode(object, &m->job, NULL), HVD_OK);
    assert_null(m->job.invalid);
    data = hvd_hosts_data(&jb, &m->job, workers, 3);
    in.n_ranks = hvd_hosts_slots(&m->job, workers, 3);
    in.job = &m->job;
    in.spec = m->spec;
    in.hosts_data = data;
    assert_int_equal(hvd_children_encode(kind, &in, &text, NULL), HVD_OK);
    m->child = cJSON_Parse(text);
    hvd_free(text);
    cJSON_Delete(data);
    cJSON_Delete(object);
}

static void made_fini(struct made *m)
{
    hvd_job_fini(&m->job);
    cJSON_Delete(m->spec);
    cJSON_Delete(m->child);
}

static const cJSON *container(const struct made *m, int index)
{
    return cJSON_GetArrayItem(hvd_json_at(m->child, "spec.template.spec.containers"), index);
}

static void is_json(const cJSON *item, const char *expected)
{
    char *text = cJSON_PrintUnformatted(item);

    assert_string_equal(text ? text : "", expected);
    hvd_free(text);
}

static const char *variable(const cJSON *holder, const char *name)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_get(holder, "env"))
    {
        if (strcmp(hvd_json_str(item, "name"), name) == 0)
            return hvd_json_str(item, "value");
    }
    return "(not set)";
}

static void the_list_is_in_numeric_order_with_slots(void **state)
{
    struct made m;

    (void)state;
    make(&m, SHORT, HVD_KIND_CONFIGMAP);
    assert_string_equal(hvd_json_str(m.child, "data.hostfile"),
                        "digits-worker-0.digits slots=2\ndigits-worker-2.digits slots=2\n"
                        "digits-worker-10.digits slots=2\n");
    assert_string_equal(
        hvd_json_str(m.child, "data.hosts"),
        "digits-worker-0.digits:2,digits-worker-2.digits:2,digits-worker-10.digits:2");
    assert_non_null(strstr(hvd_json_str(m.child, "data.ssh_config"), "  Port 2222\n"));
    made_fini(&m);
}

static void children_are_controlled_by_the_job(void **state)
{
    static const enum hvd_kind kinds[] = {HVD_KIND_SERVICE, HVD_KIND_STATEFULSET,
                                          HVD_KIND_CONFIGMAP, HVD_KIND_JOB};
    struct made m;

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        make(&m, SHORT, kinds[i]);
        is_json(
            hvd_json_at(m.child, "metadata.ownerReferences"),
            "[{\"apiVersion\":\"horovod.io/v1beta1\",\"kind\":\"HorovodJob\",\"name\":\"digits\","
            "\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}]");
        assert_string_equal(hvd_json_str(m.child, "apiVersion"),
                            hvd_kind_info(kinds[i])->api_version);
        made_fini(&m);
    }
}

static void the_short_form_runs_the_command_under_horovodrun(void **state)
{
    struct made m;

    (void)state;
    make(&m, SHORT, HVD_KIND_JOB);
    is_json(hvd_json_get(container(&m, 0), "command"),
            "[\"horovodrun\",\"-np\",\"6\",\"--hostfile\",\"/etc/horovod/hosts/hostfile\","
            "\"python\",\"train.py\",\"--fast\"]");
    assert_null(hvd_json_get(container(&m, 0), "resources"));
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.hostname"), "digits-master");
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.subdomain"), "digits");
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.restartPolicy"), "Never");
    assert_string_equal(variable(container(&m, 0), "HOROVOD_TERMINATION_LOG"),
                        "/dev/termination-log");
    assert_string_equal(hvd_json_str(container(&m, 0), "terminationMessagePolicy"),
                        "FallbackToLogsOnError");
    is_json(hvd_json_at(m.child, "metadata.annotations"),
            "{\"horovod.io/job-uid\":\"u\",\"horovod.io/attempt\":\"2\","
            "\"horovod.io/workers\":\"3\"}");
    assert_int_equal(hvd_json_int(m.child, "spec.backoffLimit", -1), 0);
    made_fini(&m);
}

static void workers_run_sshd_that_hands_on_the_environment(void **state)
{
    const cJSON *command;
    const char *last;
    struct made m;

    (void)state;
    make(&m, SHORT, HVD_KIND_STATEFULSET);
    command = hvd_json_get(container(&m, 0), "command");
    /* Values stay out of the command line: the start writes them down, each session reads them. */
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(command, 0)), "/bin/sh");
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetArrayItem(command, 2)),
        "unset PWD OLDPWD SHLVL; (umask 077 && export -p >/run/horovod/environment) && "
        "exec /usr/sbin/sshd \"$@\"");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(command, 3)), "sshd");
    last = cJSON_GetStringValue(cJSON_GetArrayItem(command, cJSON_GetArraySize(command) - 1));
    assert_non_null(strstr(last, "ForceCommand=exec /bin/sh -c '"));
    is_json(
        cJSON_GetArrayItem(hvd_json_at(m.child, "spec.template.spec.volumes"), 2),
        "{\"name\":\"horovod-run\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"4Mi\"}}");
    is_json(cJSON_GetArrayItem(hvd_json_get(container(&m, 0), "volumeMounts"), 2),
            "{\"name\":\"horovod-run\",\"mountPath\":\"/run/horovod\"}");
    is_json(hvd_json_get(container(&m, 0), "resources"), "{\"limits\":{\"memory\":\"64Mi\"}}");
    assert_int_equal(hvd_json_int(container(&m, 0), "startupProbe.periodSeconds", 0), 1);
    assert_int_equal(hvd_json_int(container(&m, 0), "readinessProbe.tcpSocket.port", 0), 2222);
    assert_string_equal(hvd_json_str(m.child, "spec.podManagementPolicy"), "Parallel");
    assert_string_equal(hvd_json_str(m.child, "spec.updateStrategy.type"), "OnDelete");
    assert_string_equal(variable(container(&m, 0), "OMPI_MCA_plm_rsh_args"),
                        "-F /etc/horovod/hosts/ssh_config");
    assert_string_equal(variable(container(&m, 0), "PRTE_MCA_plm_ssh_args"),
                        "-F /etc/horovod/hosts/ssh_config");
    assert_string_equal(variable(container(&m, 0), "NCCL_SOCKET_IFNAME"), "(not set)");
    made_fini(&m);
}

static void the_short_form_is_restricted(void **state)
{
    struct made m;

    (void)state;
    make(&m, SHORT, HVD_KIND_JOB);
    is_json(hvd_json_get(container(&m, 0), "securityContext"),
            "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}");
    is_json(hvd_json_at(m.child, "spec.template.spec.securityContext"),
            "{\"runAsNonRoot\":true,\"seccompProfile\":{\"type\":\"RuntimeDefault\"},"
            "\"fsGroup\":1000}");
    made_fini(&m);
}

static void a_template_that_chooses_root_keeps_what_it_says(void **state)
{
    static const char spec[] = "{\"master\":{\"template\":" POD(
        "{\"name\":\"m\"}") "},\"worker\":{\"replicas\":1,"
                            "\"template\":{\"spec\":{\"securityContext\":{\"runAsUser\":0,"
                            "\"fsGroup\":7},"
                            "\"containers\":[{\"name\":\"w\"}]}}}}";
    struct made m;

    (void)state;
    make(&m, spec, HVD_KIND_STATEFULSET);
    is_json(hvd_json_at(m.child, "spec.template.spec.securityContext"),
            "{\"runAsUser\":0,\"fsGroup\":7,\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}");
    assert_null(hvd_json_get(container(&m, 0), "securityContext"));
    assert_int_equal(
        hvd_json_int(cJSON_GetArrayItem(hvd_json_at(m.child, "spec.template.spec.volumes"), 1),
                     "secret.defaultMode", 0),
        0400);
    made_fini(&m);
}

static void the_last_lines_of_init_containers_are_kept_unless_the_user_chose(void **state)
{
    static const char spec[] =
        "{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"master\"}]}}},\"worker\":"
        "{"
        "\"replicas\":1,\"template\":{\"spec\":{\"containers\":[{\"name\":\"worker\"}],"
        "\"initContainers\":[{\"name\":\"a\"},{\"name\":\"b\",\"terminationMessagePolicy\":"
        "\"File\"}]}}}}";
    static const char *const policies[] = {"FallbackToLogsOnError", "File"};
    struct made m;

    (void)state;
    make(&m, spec, HVD_KIND_STATEFULSET);
    for (int i = 0; i < 2; i++) {
        const cJSON *init =
            cJSON_GetArrayItem(hvd_json_at(m.child, "spec.template.spec.initContainers"), i);

        assert_string_equal(hvd_json_str(init, "terminationMessagePolicy"), policies[i]);
    }
    made_fini(&m);
}

static void the_long_form_keeps_what_the_user_wrote(void **state)
{
    static const char spec[] =
        "{\"network\":{\"interfaces\":[\"10.0.0.0/8\",\"eth1\",\"eth2\"]},\"ssh\":{\"port\":3333},"
        "\"master\":{\"template\":" POD(
            "{\"name\":\"master\",\"command\":[\"mine\"],\"terminationMessagePolicy\":\"File\","
            "\"terminationMessagePath\":\"/tmp/words\","
            "\"env\":[{\"name\":\"OMPI_MCA_plm_rsh_agent\",\"value\":\"rsh\"}],"
            "\"securityContext\":{\"readOnlyRootFilesystem\":true},\"odd\":[1]}") "}," WORKER "}";
    struct made m;

    (void)state;
    make(&m, spec, HVD_KIND_JOB);
    is_json(hvd_json_get(container(&m, 1), "command"), "[\"mine\"]");
    is_json(hvd_json_get(container(&m, 1), "odd"), "[1]");
    assert_string_equal(hvd_json_str(container(&m, 1), "terminationMessagePolicy"), "File");
    assert_string_equal(variable(container(&m, 1), "HOROVOD_TERMINATION_LOG"), "/tmp/words");
    assert_string_equal(variable(container(&m, 1), "OMPI_MCA_plm_rsh_agent"), "rsh");
    assert_string_equal(variable(container(&m, 1), "OMPI_MCA_btl_tcp_if_include"),
                        "10.0.0.0/8,eth1,eth2");
    assert_string_equal(variable(container(&m, 1), "NCCL_SOCKET_IFNAME"), "=eth1,eth2");
    assert_int_equal(cJSON_GetArraySize(hvd_json_get(container(&m, 1), "volumeMounts")), 3);
    assert_null(hvd_json_get(container(&m, 0), "volumeMounts"));
    made_fini(&m);
}

static void a_worker_with_its_own_command_gets_time_to_start(void **state)
{
    static const char spec[] = "{\"master\":{\"template\":" POD(
        "{\"name\":\"master\"}") "},\"worker\":{\"replicas\":1,"
                                 "\"template\":" POD(
                                     "{\"name\":\"worker\",\"command\":[\"own\"]}") "}}";
    struct made m;

    (void)state;
    make(&m, spec, HVD_KIND_STATEFULSET);
    is_json(hvd_json_get(container(&m, 1), "command"), "[\"own\"]");
    assert_int_equal(hvd_json_int(container(&m, 1), "startupProbe.failureThreshold", 0), 3600);
    assert_null(hvd_json_get(container(&m, 0), "startupProbe"));
    made_fini(&m);
}

static void the_spec_hash_ignores_what_may_change_while_running(void **state)
{
    static const char *const specs[] = {
        "{\"image\":\"a\",\"worker\":{\"replicas\":2}}",
        "{\"suspend\":false,\"worker\":{\"replicas\":9},\"image\":\"a\",\"backoffLimit\":4}",
        "{\"image\":\"b\",\"worker\":{\"replicas\":2}}"};
    char hashes[3][HVD_HASH_SIZE];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        cJSON *spec = cJSON_Parse(specs[i]);

        assert_int_equal(hvd_children_spec_hash(spec, hashes[i], NULL), HVD_OK);
        cJSON_Delete(spec);
    }
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_not_equal(hashes[0], hashes[2]);
}

static void hash_of(const char *text, char hash[HVD_HASH_SIZE])
{
    cJSON *spec = cJSON_Parse(text);

    assert_non_null(spec);
    assert_int_equal(hvd_children_spec_hash(spec, hash, NULL), HVD_OK);
    cJSON_Delete(spec);
}

#define DEFAULTS                                                                                   \
    ",\"suspend\":false,\"backoffLimit\":0,\"slotsPerWorker\":\"auto\","                           \
    "\"cleanPodPolicy\":\"Running\",\"runMasterAsWorker\":false"
#define NETWORK "\"hostNames\":\"DNS\",\"hostNetwork\":false"

/* The API server adds them when it reads a job that was stored without: such a job keeps the hash
 * that an operator made of it before there were defaults. */
static void the_spec_hash_ignores_defaults_of_the_definition(void **state)
{
    static const char *const specs[][3] = {
        {"97e27eaae052bd68", "{\"image\":\"a\"}",
         "{\"image\":\"a\"" DEFAULTS ",\"network\":{" NETWORK "}}"},
        {"ec360d444a1fc463", "{\"image\":\"a\",\"network\":{\"interfaces\":[\"e\"]}}",
         "{\"image\":\"a\"" DEFAULTS ",\"network\":{" NETWORK ",\"interfaces\":[\"e\"]}}"},
        {"e6388d2d814209d9", "{\"image\":\"a\",\"ssh\":{\"port\":3333}}",
         "{\"image\":\"a\"" DEFAULTS ",\"ssh\":{\"port\":3333},\"network\":{" NETWORK "}}"}};
    static const char *const others[] = {"{\"image\":\"a\",\"slotsPerWorker\":2}",
                                         "{\"image\":\"a\",\"runMasterAsWorker\":true}",
                                         "{\"image\":\"a\",\"network\":{\"hostNames\":\"IP\"}}",
                                         "{\"image\":\"a\",\"network\":{\"hostNetwork\":true}}"};
    char hash[HVD_HASH_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        hash_of(specs[i][1], hash);
        assert_string_equal(hash, specs[i][0]);
        hash_of(specs[i][2], hash);
        assert_string_equal(hash, specs[i][0]);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        hash_of(others[i], hash);
        assert_string_not_equal(hash, specs[0][0]);
    }
}

static void the_secret_holds_the_key_and_names_every_host(void **state)
{
    const struct hvd_launch_key key = {"PEM\n", "ecdsa-sha2-nistp256 AAAA"};
    char *text = NULL;
    struct made m;
    cJSON *secret;

    (void)state;
    make(&m, SHORT, HVD_KIND_SERVICE);
    assert_int_equal(hvd_children_secret_encode(&m.job, &key, &text, NULL), HVD_OK);
    secret = cJSON_Parse(text);
    is_json(hvd_json_get(secret, "stringData"),
            "{\"id\":\"PEM\\n\",\"id.pub\":\"ecdsa-sha2-nistp256 AAAA\\n\",\"known_hosts\":"
            "\"*.digits,digits-master.digits ecdsa-sha2-nistp256 AAAA\\n\"}");
    assert_true(hvd_json_true(secret, "immutable"));
    cJSON_Delete(secret);
    hvd_free(text);
    made_fini(&m);
}

/* Through all that the numbers of a template pass: the API server's answer, the spec that is kept,
 * the body of a child. */
static char *encode_with(const char *number, enum hvd_kind kind)
{
    struct hvd_child_inputs in = {.attempt = 1, .n_ranks = 1};
    struct hvd_job job = {0};
    struct hvd_jb jb = {0};
    char object[1024], *text = NULL;
    cJSON *doc = NULL, *spec = NULL;

    (void)snprintf(
        object, sizeof(object),
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\"},\"spec\":{\"worker\":{\"replicas\":1,\"template\":" TEMPLATE_OF
        "},\"master\":{\"template\":" TEMPLATE_OF "}}}",
        number, number, number, number);
    assert_int_equal(hvd_json_read(hvd_strview_of(object), &doc), HVD_OK);
    assert_int_equal(hvd_job_decode(doc, &job, NULL), HVD_OK);
    assert_null(job.invalid);
    hvd_json_drop(doc);
    assert_int_equal(hvd_json_parse(job.spec.text, &spec), HVD_OK);
    in.job = &job;
    in.spec = spec;
    in.hosts_data = hvd_jb_root(&jb);
    assert_int_equal(hvd_children_encode(kind, &in, &text, NULL), HVD_OK);
    cJSON_Delete((cJSON *)in.hosts_data);
    cJSON_Delete(spec);
    hvd_job_fini(&job);
    return text;
}

static void numbers_of_a_template_reach_the_child_as_they_came(void **state)
{
    static const char *const numbers[] = {"1",
                                          "1000000000000000",
                                          "9007199254740993",
                                          "-0",
                                          "9223372036854775807",
                                          "1e3",
                                          "1e15",
                                          "1.0",
                                          "0.10",
                                          "-1e-7",
                                          "1e400",
                                          "18446744073709551616",
                                          "1234567890123456"};
    static const enum hvd_kind kinds[] = {HVD_KIND_STATEFULSET, HVD_KIND_JOB};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            char *text = encode_with(numbers[i], kinds[j]);
            char part[128];

            (void)snprintf(part, sizeof(part), "\"tolerationSeconds\":%s}", numbers[i]);
            assert_non_null(strstr(text, part));
            (void)snprintf(part, sizeof(part), "\"memory\":%s}", numbers[i]);
            assert_non_null(strstr(text, part));
            hvd_free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_in_numeric_order_with_slots),
        cmocka_unit_test(children_are_controlled_by_the_job),
        cmocka_unit_test(the_short_form_runs_the_command_under_horovodrun),
        cmocka_unit_test(workers_run_sshd_that_hands_on_the_environment),
        cmocka_unit_test(the_short_form_is_restricted),
        cmocka_unit_test(a_template_that_chooses_root_keeps_what_it_says),
        cmocka_unit_test(the_last_lines_of_init_containers_are_kept_unless_the_user_chose),
        cmocka_unit_test(the_long_form_keeps_what_the_user_wrote),
        cmocka_unit_test(a_worker_with_its_own_command_gets_time_to_start),
        cmocka_unit_test(the_spec_hash_ignores_what_may_change_while_running),
        cmocka_unit_test(the_spec_hash_ignores_defaults_of_the_definition),
        cmocka_unit_test(the_secret_holds_the_key_and_names_every_host),
        cmocka_unit_test(numbers_of_a_template_reach_the_child_as_they_came),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
