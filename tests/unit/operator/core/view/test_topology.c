#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/view/topology.h"
#include "tests/unit/operator/core/world.h"

static void labels_become_a_line_for_each_key(void **state)
{
    cJSON *labels = cJSON_Parse("{\"topology.kubernetes.io/zone\":\"a\",\"rack\":\"\",\"n\":7}");
    char *text = NULL;

    (void)state;
    assert_int_equal(hvd_topology_text(labels, "topology.kubernetes.io/zone,rack,n,none", &text),
                     HVD_OK);
    assert_string_equal(text, "=a\n=\n\n\n");
    hvd_free(text);
    assert_int_equal(hvd_topology_text(NULL, "zone", &text), HVD_OK);
    assert_string_equal(text, "\n");
    hvd_free(text);
    HVD_MEM_TORTURE({
        hvd_status_t st = hvd_topology_text(labels, "rack,n", &text);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        if (st == HVD_OK)
            hvd_free(text);
    });
    cJSON_Delete(labels);
}

static void places_compare_key_by_key(void **state)
{
    static const struct {
        struct hvd_topology_pair a, b;
        int order;
    } table[] = {
        {{"=a\n=1\n", NULL}, {"=a\n=1\n", NULL}, 0},
        {{"=a\n=2\n", NULL}, {"=b\n=1\n", NULL}, -1},
        {{"=a\n=1\n", NULL}, {"=a\n=2\n", NULL}, -1},
        {{"=a\n=1\n", NULL}, {"=ab\n=0\n", NULL}, -1},
        {{"\n=1\n", NULL}, {"=z\n=1\n", NULL}, 1},        /* without a value: last */
        {{"\n=1\n", "=a\n=9\n"}, {"=b\n=1\n", NULL}, -1}, /* the pod's where the node has none */
        {{"=c\n", "=a\n"}, {"=b\n", "=b\n"}, 1},          /* the node has the word */
        {{NULL, NULL}, {NULL, NULL}, 0},
        {{NULL, "=a\n"}, {NULL, NULL}, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int order = hvd_topology_compare(&table[i].a, &table[i].b);
        int back = hvd_topology_compare(&table[i].b, &table[i].a);

        assert_int_equal((order > 0) - (order < 0), table[i].order);
        assert_int_equal((back > 0) - (back < 0), -table[i].order);
    }
}

static const char *hostfile(const struct world *w)
{
    return hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");
}

static void put_node(struct world *w, const char *name, const char *labels)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"\",\"labels\":"
                   "{%s}}}",
                   name, labels);
    world_put(w, text);
}

static void place(struct world *w, const char *pod, const char *node)
{
    cJSON *spec = cJSON_GetObjectItem(world_find(w, "Pod", pod), "spec");

    assert_non_null(spec);
    cJSON_AddStringToObject(spec, "nodeName", node);
}

#define JOB                                                                                        \
    "{\"image\":\"i\",\"command\":[\"t\"],\"topologyKeys\":[\"zone\",\"rack\"],"                   \
    "\"worker\":{\"replicas\":5}}"

static void hosts_of_one_place_stand_together(void **state)
{
    static const char *const nodes[] = {"n2", "n1", "n3", "n1", "gone"};
    struct world w;
    char pod[32];

    (void)state;
    world_init(&w, JOB);
    put_node(&w, "n1", "\"zone\":\"b\",\"rack\":\"r1\"");
    put_node(&w, "n2", "\"zone\":\"b\",\"rack\":\"r2\"");
    put_node(&w, "n3", "\"zone\":\"a\",\"rack\":\"r9\"");
    w.is_kubelet_off = true;
    world_settle(&w);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(pod, sizeof(pod), "digits-worker-%d", i);
        place(&w, pod, nodes[i]);
    }
    w.is_kubelet_off = false;
    world_settle(&w);
    assert_string_equal(hostfile(&w),
                        "digits-worker-2.digits slots=1\ndigits-worker-1.digits slots=1\n"
                        "digits-worker-3.digits slots=1\ndigits-worker-0.digits slots=1\n"
                        "digits-worker-4.digits slots=1\n");
    assert_int_equal(w.n_located, 4);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_int_equal(world_pass(&w), 0);
    world_fini(&w);
}

static void the_pods_own_labels_do_where_nodes_cannot_be_read(void **state)
{
    cJSON *labels;
    struct world w;

    (void)state;
    world_init(&w, JOB);
    w.is_kubelet_off = true;
    world_settle(&w);
    labels = (cJSON *)hvd_json_at(world_find(&w, "Pod", "digits-worker-3"), "metadata.labels");
    cJSON_AddStringToObject(labels, "zone", "a");
    w.is_kubelet_off = false;
    world_settle(&w);
    assert_int_equal(strncmp(hostfile(&w), "digits-worker-3.digits slots=1\ndigits-worker-0.", 47),
                     0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_become_a_line_for_each_key),
        cmocka_unit_test(places_compare_key_by_key),
        cmocka_unit_test(hosts_of_one_place_stand_together),
        cmocka_unit_test(the_pods_own_labels_do_where_nodes_cannot_be_read),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
