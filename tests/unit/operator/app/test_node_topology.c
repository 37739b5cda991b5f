#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/node_topology.h"

#define NODE                                                                                       \
    "{\"metadata\":{\"name\":\"n\",\"labels\":{\"zone\":\"a\",\"rack\":\"r1\",\"x\":\"y\"}}}"

static void put(struct hvd_node_topology *cache, const char *node, const char *text)
{
    cJSON *object = text ? cJSON_Parse(text) : NULL;

    assert_int_equal(hvd_node_topology_put(cache, node, "zone,rack", object), HVD_OK);
    cJSON_Delete(object);
}

static void a_place_is_known_for_a_time_and_for_its_keys(void **state)
{
    struct hvd_node_topology cache = {.now_ms = 5000};

    (void)state;
    assert_null(hvd_node_topology_find(&cache, "n", "zone,rack"));
    put(&cache, "n", NODE);
    assert_string_equal(hvd_node_topology_find(&cache, "n", "zone,rack"), "=a\n=r1\n");
    assert_null(hvd_node_topology_find(&cache, "n", "zone"));
    assert_null(hvd_node_topology_find(&cache, "m", "zone,rack"));
    cache.now_ms += 3600000;
    assert_null(hvd_node_topology_find(&cache, "n", "zone,rack"));
    put(&cache, "n", "{\"metadata\":{\"labels\":{\"zone\":\"b\"}}}");
    assert_string_equal(hvd_node_topology_find(&cache, "n", "zone,rack"), "=b\n\n");
    hvd_node_topology_fini(&cache);
}

static void a_node_that_cannot_be_read_is_asked_for_again_soon(void **state)
{
    struct hvd_node_topology cache = {0};

    (void)state;
    put(&cache, "n", NULL);
    assert_string_equal(hvd_node_topology_find(&cache, "n", "zone,rack"), "\n\n");
    cache.now_ms = 300000;
    assert_null(hvd_node_topology_find(&cache, "n", "zone,rack"));
    hvd_node_topology_fini(&cache);
}

/* A node with a label as long as all that keys of a job can name. */
static cJSON *large_node(void)
{
    char label[2500];
    cJSON *node = cJSON_CreateObject();

    memset(label, 'v', sizeof(label));
    label[sizeof(label) - 1] = '\0';
    assert_non_null(cJSON_AddStringToObject(
        cJSON_AddObjectToObject(cJSON_AddObjectToObject(node, "metadata"), "labels"), "zone",
        label));
    return node;
}

static void places_are_bounded_for_all_jobs_and_the_one_that_asks_keeps_its_own(void **state)
{
    enum { JOBS = 30, NODES = 500 }; /* twice of what is kept */
    struct hvd_node_topology cache = {0};
    cJSON *node = large_node();
    size_t n_sweeps = 0, before;
    char name[16], keys[2500];

    (void)state;
    memset(keys, 'k', sizeof(keys));
    keys[sizeof(keys) - 1] = '\0';
    put(&cache, "n", NODE);
    for (int job = 0; job < JOBS; job++) {
        keys[snprintf(keys, sizeof(keys), "zone,%d", job)] = ',';
        for (int i = 0; i < NODES; i++) {
            (void)snprintf(name, sizeof(name), "n%d", i);
            before = cache.bytes;
            assert_int_equal(hvd_node_topology_put(&cache, name, keys, node), HVD_OK);
            assert_true(cache.bytes <= HVD_NODE_TOPOLOGY_MAX);
            n_sweeps += cache.bytes < before;
        }
        for (int i = 0; i < NODES; i++) {
            (void)snprintf(name, sizeof(name), "n%d", i);
            assert_non_null(hvd_node_topology_find(&cache, name, keys));
        }
    }
    assert_true(n_sweeps >= 2);
    assert_null(hvd_node_topology_find(&cache, "n", "zone,rack"));
    hvd_node_topology_fini(&cache);
    assert_int_equal(cache.bytes, 0);
    cJSON_Delete(node);
}

static void nodes_that_nobody_asks_for_are_forgotten(void **state)
{
    struct hvd_node_topology cache = {0};
    char name[32];

    (void)state;
    for (int i = 0; i < 256; i++) {
        (void)snprintf(name, sizeof(name), "old-%d", i);
        put(&cache, name, NODE);
    }
    cache.now_ms = 3600000;
    for (int i = 0; i < 256; i++) {
        (void)snprintf(name, sizeof(name), "new-%d", i);
        put(&cache, name, NODE);
    }
    assert_int_equal(hvd_index_count(&cache.index), 256);
    assert_non_null(hvd_node_topology_find(&cache, "new-0", "zone,rack"));
    hvd_node_topology_fini(&cache);
}

static void every_allocation_may_fail(void **state)
{
    cJSON *object = cJSON_Parse(NODE);

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_node_topology cache = {0};
        hvd_status_t st = hvd_node_topology_put(&cache, "n", "zone", object);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        assert_int_equal(hvd_node_topology_find(&cache, "n", "zone") != NULL, st == HVD_OK);
        hvd_node_topology_fini(&cache);
    });
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_known_for_a_time_and_for_its_keys),
        cmocka_unit_test(a_node_that_cannot_be_read_is_asked_for_again_soon),
        cmocka_unit_test(places_are_bounded_for_all_jobs_and_the_one_that_asks_keeps_its_own),
        cmocka_unit_test(nodes_that_nobody_asks_for_are_forgotten),
        cmocka_unit_test(every_allocation_may_fail),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
