#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/children/children.h"
#include "operator/core/children/gang.h"
#include "operator/core/observe/observe.h"

static const struct hvd_settings volcano = {.gang = HVD_GANG_VOLCANO};
static const struct hvd_settings plugins = {.gang = HVD_GANG_PLUGINS};

/* A decoded job and a child made of it, parsed again. */
struct made {
    struct hvd_job job;
    cJSON *spec;
    cJSON *child;
};

static void make(struct made *m, const char *spec, enum hvd_kind kind,
                 const struct hvd_settings *settings)
{
    struct hvd_child_inputs in = {.attempt = 1, .hosts_seen = "", .settings = settings};
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":"
                                "\"u\",\"resourceVersion\":\"5\"}}");
    char *text = NULL;

    *m = (struct made){.spec = cJSON_Parse(spec)};
    assert_non_null(m->spec);
    cJSON_AddItemToObject(object, "spec", cJSON_Duplicate(m->spec, true));
    assert_int_equal(hvd_job_decode(object, &m->job, NULL), HVD_OK);
    assert_null(m->job.invalid);
    in.job = &m->job;
    in.spec = m->spec;
    assert_int_equal(hvd_children_encode(kind, &in, &text, NULL), HVD_OK);
    m->child = cJSON_Parse(text);
    hvd_free(text);
    cJSON_Delete(object);
}

static void made_fini(struct made *m)
{
    hvd_job_fini(&m->job);
    cJSON_Delete(m->spec);
    cJSON_Delete(m->child);
}

#define SHORT "\"image\":\"i\",\"command\":[\"c\"]"
#define CPU(n) "\"resources\":{\"requests\":{\"cpu\":\"" n "\"}}"
#define POD(n, more)                                                                               \
    "\"template\":{\"spec\":{" more                                                                \
    "\"containers\":[{\"name\":\"worker\",\"image\":\"i\"," CPU(n) "}]}}"
#define MASTER "\"master\":{" POD("64", "\"priorityClassName\":\"low\",") "}"

/* The spec of the PodGroup of a job of this spec. */
static void group_is(const struct hvd_settings *settings, const char *spec, const char *expected)
{
    struct made m;
    char *text;

    make(&m, spec, hvd_gang_kind(settings), settings);
    text = cJSON_PrintUnformatted(hvd_json_get(m.child, "spec"));
    assert_string_equal(text, expected);
    hvd_free(text);
    made_fini(&m);
}

static void a_group_counts_the_workers_that_the_job_needs_and_their_requests(void **state)
{
    (void)state;
    group_is(&volcano, "{" SHORT ",\"worker\":{\"replicas\":3}}", "{\"minMember\":3}");
    group_is(&volcano, "{" SHORT "," CPU("500m") ",\"worker\":{\"replicas\":3}}",
             "{\"minMember\":3,\"minResources\":{\"cpu\":\"1500m\"}}");
    /* The master is no member, whatever it asks for and whoever has the higher priority. */
    group_is(&volcano, "{" MASTER ",\"worker\":{\"replicas\":2," POD("1", "") "}}",
             "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\"}}");
    group_is(&volcano,
             "{" MASTER
             ",\"worker\":{\"replicas\":2," POD("1", "\"priorityClassName\":\"high\",") "}}",
             "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\"},\"priorityClassName\":\"high\"}");
    /* An elastic job starts with fewer. */
    group_is(&volcano, "{" SHORT "," CPU("1") ",\"worker\":{\"replicas\":5,\"minReplicas\":2}}",
             "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\"}}");
}

static void a_smaller_minimum_takes_members_in_the_order_of_the_list(void **state)
{
    static const char groups[] = "{" MASTER ",\"worker\":{\"replicas\":2," POD(
        "1", "") "},\"workerGroups\":[{\"name\":"
                 "\"big\",\"replicas\":2," POD("10", "") "},{\"name\":\"same\",\"replicas\":3}]%s}";
    static const struct {
        const char *more;
        const char *expected;
    } rows[] = {
        {"", "{\"minMember\":7,\"minResources\":{\"cpu\":\"25\"}}"},
        {",\"scheduling\":{\"minAvailable\":1}",
         "{\"minMember\":1,\"minResources\":{\"cpu\":\"1\"}}"},
        {",\"scheduling\":{\"minAvailable\":3}",
         "{\"minMember\":3,\"minResources\":{\"cpu\":\"12\"}}"},
        {",\"scheduling\":{\"minAvailable\":6}",
         "{\"minMember\":6,\"minResources\":{\"cpu\":\"24\"}}"},
        {",\"scheduling\":{\"minAvailable\":1000}",
         "{\"minMember\":7,\"minResources\":{\"cpu\":\"25\"}}"},
    };
    char spec[2048];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(spec, sizeof(spec), groups, rows[i].more);
        group_is(&plugins, spec, rows[i].expected);
    }
}

static void each_gang_scheduler_gets_the_fields_that_it_knows(void **state)
{
    static const char spec[] =
        "{" SHORT ",\"worker\":{\"replicas\":1},\"scheduling\":{\"queue\":\"q\","
        "\"priorityClassName\":\"p\",\"scheduleTimeoutSeconds\":30}}";

    (void)state;
    group_is(&volcano, spec, "{\"minMember\":1,\"queue\":\"q\",\"priorityClassName\":\"p\"}");
    group_is(&plugins, spec, "{\"minMember\":1,\"scheduleTimeoutSeconds\":30}");
}

static void a_group_is_a_child_like_the_others(void **state)
{
    struct made m;

    (void)state;
    make(&m, "{" SHORT ",\"worker\":{\"replicas\":1}}", HVD_KIND_VOLCANO_PODGROUP, &volcano);
    assert_string_equal(hvd_json_str(m.child, "kind"), "PodGroup");
    assert_string_equal(hvd_json_str(m.child, "apiVersion"), "scheduling.volcano.sh/v1beta1");
    assert_string_equal(hvd_json_str(m.child, "metadata.name"), "digits");
    assert_string_equal(
        hvd_json_str(cJSON_GetArrayItem(hvd_json_at(m.child, "metadata.ownerReferences"), 0),
                     "uid"),
        "u");
    made_fini(&m);
    make(&m, "{" SHORT ",\"worker\":{\"replicas\":1}}", HVD_KIND_PLUGINS_PODGROUP, &plugins);
    assert_string_equal(hvd_json_str(m.child, "apiVersion"), "scheduling.x-k8s.io/v1alpha1");
    made_fini(&m);
}

static const char *member(const cJSON *template, const char *map, const char *key)
{
    const char *text = cJSON_GetStringValue(hvd_json_get(hvd_json_at(template, map), key));

    return text ? text : "";
}

static void workers_join_the_group_and_the_master_does_not(void **state)
{
    static const char spec[] = "{" SHORT ",\"worker\":{\"replicas\":1}}";
    struct made worker, master;
    const cJSON *template;

    (void)state;
    make(&worker, spec, HVD_KIND_STATEFULSET, &volcano);
    template = hvd_json_at(worker.child, "spec.template");
    assert_string_equal(member(template, "spec", "schedulerName"), "volcano");
    assert_string_equal(member(template, "metadata.annotations", "scheduling.k8s.io/group-name"),
                        "digits");
    made_fini(&worker);

    make(&worker, spec, HVD_KIND_STATEFULSET, &plugins);
    make(&master, spec, HVD_KIND_JOB, &plugins);
    template = hvd_json_at(worker.child, "spec.template");
    assert_string_equal(member(template, "spec", "schedulerName"), "scheduler-plugins-scheduler");
    assert_string_equal(member(template, "metadata.labels", "scheduling.x-k8s.io/pod-group"),
                        "digits");
    template = hvd_json_at(master.child, "spec.template");
    assert_string_equal(member(template, "spec", "schedulerName"), "");
    assert_string_equal(member(template, "metadata.labels", "scheduling.x-k8s.io/pod-group"), "");
    made_fini(&worker);
    made_fini(&master);
}

static void a_scheduler_of_the_templates_or_the_operators_choice_is_kept(void **state)
{
    const struct hvd_settings named = {.gang = HVD_GANG_PLUGINS, .gang_scheduler = "mine"};
    struct made m;

    (void)state;
    make(&m, "{" SHORT ",\"worker\":{\"replicas\":1}}", HVD_KIND_STATEFULSET, &named);
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.schedulerName"), "mine");
    made_fini(&m);
    make(&m, "{" MASTER ",\"worker\":{\"replicas\":1," POD("1", "\"schedulerName\":\"own\",") "}}",
         HVD_KIND_STATEFULSET, &named);
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.schedulerName"), "own");
    made_fini(&m);
}

static void priority_goes_to_both_roles_where_the_template_is_silent(void **state)
{
    static const char spec[] = "{" MASTER ",\"worker\":{\"replicas\":1," POD(
        "1", "") "},\"scheduling\":{\"priorityClassName\":\"p\"}}";
    struct made m;

    (void)state;
    make(&m, spec, HVD_KIND_STATEFULSET, NULL);
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.priorityClassName"), "p");
    made_fini(&m);
    make(&m, spec, HVD_KIND_JOB, NULL);
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.priorityClassName"), "low");
    made_fini(&m);
}

static const char *variable(const struct made *m, const char *name)
{
    const cJSON *containers = hvd_json_at(m->child, "spec.template.spec.containers");
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_get(cJSON_GetArrayItem(containers, 0), "env"))
    {
        if (strcmp(hvd_json_str(item, "name"), name) == 0)
            return hvd_json_str(item, "value");
    }
    return NULL;
}

static void pods_on_the_nodes_network_resolve_the_clusters_names(void **state)
{
    struct made m;

    (void)state;
    for (int i = 0; i < 2; i++) {
        make(&m,
             "{" SHORT ",\"worker\":{\"replicas\":1},\"network\":{\"hostNetwork\":true},"
             "\"ssh\":{\"port\":20007}}",
             i ? HVD_KIND_JOB : HVD_KIND_STATEFULSET, NULL);
        assert_true(hvd_json_true(m.child, "spec.template.spec.hostNetwork"));
        assert_string_equal(hvd_json_str(m.child, "spec.template.spec.dnsPolicy"),
                            "ClusterFirstWithHostNet");
        assert_string_equal(variable(&m, "HOROVOD_SSH_PORT"), "20007");
        made_fini(&m);
    }
    make(&m,
         "{" MASTER ",\"worker\":{\"replicas\":1," POD(
             "1", "\"hostNetwork\":true,\"dnsPolicy\":\"Default\",") "}}",
         HVD_KIND_STATEFULSET, NULL);
    assert_string_equal(hvd_json_str(m.child, "spec.template.spec.dnsPolicy"), "Default");
    made_fini(&m);
    make(&m, "{" SHORT ",\"worker\":{\"replicas\":1}}", HVD_KIND_STATEFULSET, NULL);
    assert_null(hvd_json_at(m.child, "spec.template.spec.hostNetwork"));
    assert_null(hvd_json_at(m.child, "spec.template.spec.dnsPolicy"));
    assert_null(variable(&m, "HOROVOD_SSH_PORT"));
    made_fini(&m);
}

/* The patch for a PodGroup of this spec and annotations, for a job that wants two workers; NULL if
 * none is needed. The caller frees it. */
static char *patch_for(const char *spec, const char *meta, const char *group)
{
    struct hvd_child_inputs in = {.settings = &volcano};
    struct hvd_object object = {0};
    struct made m;
    char text[1024], *out = NULL;
    cJSON *item;

    make(&m, spec, HVD_KIND_VOLCANO_PODGROUP, &volcano);
    if (!meta) {
        const cJSON *annotations = hvd_json_at(m.child, "metadata.annotations");

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":\"g\","
                       "\"annotations\":{\"horovod.io/spec-hash\":\"%s\"}},\"spec\":%s}",
                       hvd_json_get(annotations, "horovod.io/spec-hash")->valuestring, group);
    } else {
        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":\"g\"%s},"
                       "\"spec\":%s}",
                       meta, group);
    }
    item = cJSON_Parse(text);
    assert_non_null(item);
    assert_int_equal(hvd_observe(HVD_KIND_VOLCANO_PODGROUP, item, &object, NULL), HVD_OK);
    in.job = &m.job;
    in.spec = m.spec;
    assert_int_equal(hvd_gang_patch(&in, &object, &out, NULL), HVD_OK);
    hvd_observe_object_fini(&object);
    cJSON_Delete(item);
    made_fini(&m);
    return out;
}

#define TWO "{" SHORT "," CPU("1") ",\"worker\":{\"replicas\":2}}"

static void a_group_that_is_right_is_not_written(void **state)
{
    (void)state;
    assert_null(patch_for(TWO, NULL, "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\"}}"));
    /* What others have added stays, in whatever order it comes. */
    assert_null(patch_for(TWO, NULL,
                          "{\"queue\":\"default\",\"minTaskMember\":{},\"minResources\":{\"cpu\":"
                          "\"2\"},\"minMember\":2}"));
}

static void a_group_that_differs_is_repaired_field_by_field(void **state)
{
    char *text;

    (void)state;
    text = patch_for(TWO, NULL, "{\"minMember\":1,\"minResources\":{\"cpu\":\"2\"}}");
    assert_non_null(text);
    assert_non_null(strstr(text, "{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"g\"}"));
    assert_non_null(strstr(text, "{\"op\":\"add\",\"path\":\"/spec/minMember\",\"value\":2}"));
    assert_null(strstr(text, "remove"));
    hvd_free(text);
    /* A resource too many goes, as the whole of minResources is replaced. */
    text = patch_for(TWO, NULL,
                     "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\",\"memory\":\"1Gi\"}}");
    assert_non_null(strstr(text, "\"path\":\"/spec/minResources\",\"value\":{\"cpu\":\"2\"}"));
    hvd_free(text);
    /* A queue that we had set and no more set is removed: the hash tells. */
    text = patch_for(TWO, ",\"annotations\":{\"horovod.io/spec-hash\":\"0\"}",
                     "{\"minMember\":2,\"minResources\":{\"cpu\":\"2\"},\"queue\":\"old\"}");
    assert_non_null(strstr(text, "{\"op\":\"remove\",\"path\":\"/spec/queue\"}"));
    assert_non_null(strstr(text, "\"path\":\"/metadata/annotations/horovod.io~1spec-hash\""));
    hvd_free(text);
    /* Nothing of ours is left. */
    text = patch_for(TWO, "", "{}");
    assert_non_null(strstr(text, "\"path\":\"/metadata/annotations\",\"value\":{"));
    assert_non_null(strstr(text, "\"path\":\"/spec\",\"value\":{\"minMember\":2"));
    hvd_free(text);
}

static void every_allocation_may_fail(void **state)
{
    static const char group[] = "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":"
                                "\"g\"},\"spec\":{\"minMember\":9}}";
    struct hvd_child_inputs in = {.settings = &volcano};
    struct hvd_object object = {0};
    cJSON *item = cJSON_Parse(group);
    struct made m;

    (void)state;
    make(&m, TWO, HVD_KIND_VOLCANO_PODGROUP, &volcano);
    assert_int_equal(hvd_observe(HVD_KIND_VOLCANO_PODGROUP, item, &object, NULL), HVD_OK);
    in.job = &m.job;
    in.spec = m.spec;
    HVD_MEM_TORTURE({
        char *body = NULL;
        char *patch = NULL;
        hvd_status_t st = hvd_children_encode(HVD_KIND_VOLCANO_PODGROUP, &in, &body, NULL);

        if (st == HVD_OK)
            st = hvd_gang_patch(&in, &object, &patch, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_free(body);
        hvd_free(patch);
    });
    hvd_observe_object_fini(&object);
    cJSON_Delete(item);
    made_fini(&m);
}

static int use_base_memory(void **state)
{
    (void)state;
    hvd_json_use_base_memory();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_counts_the_workers_that_the_job_needs_and_their_requests),
        cmocka_unit_test(a_smaller_minimum_takes_members_in_the_order_of_the_list),
        cmocka_unit_test(each_gang_scheduler_gets_the_fields_that_it_knows),
        cmocka_unit_test(a_group_is_a_child_like_the_others),
        cmocka_unit_test(workers_join_the_group_and_the_master_does_not),
        cmocka_unit_test(a_scheduler_of_the_templates_or_the_operators_choice_is_kept),
        cmocka_unit_test(priority_goes_to_both_roles_where_the_template_is_silent),
        cmocka_unit_test(pods_on_the_nodes_network_resolve_the_clusters_names),
        cmocka_unit_test(a_group_that_is_right_is_not_written),
        cmocka_unit_test(a_group_that_differs_is_repaired_field_by_field),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, use_base_memory, NULL);
}
