#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/children/quantity.h"
#include "operator/core/children/requests.h"

/* Reads a quantity from JSON and writes it; "" if it is none. */
static const char *through(const char *json, char out[HVD_QUANTITY_SIZE])
{
    cJSON *item = NULL;
    struct hvd_quantity amount;

    assert_int_equal(hvd_json_parse(json, &item), HVD_OK);
    out[0] = '\0';
    if (hvd_quantity_read(item, &amount))
        hvd_quantity_format(amount, out);
    cJSON_Delete(item);
    return out;
}

static void texts_are_read_as_kubernetes_reads_them(void **state)
{
    static const char *const rows[][2] = {
        {"\"1\"", "1"},
        {"\"0\"", "0"},
        {"\"500m\"", "500m"},
        {"\"1500m\"", "1500m"},
        {"\"0.5\"", "500m"},
        {"\".5\"", "500m"},
        {"\"2.\"", "2"},
        {"\"+3\"", "3"},
        {"\"1.0005\"", "1001m"},
        {"\"1n\"", "1m"},
        {"\"999999999n\"", "1"},
        {"\"1000u\"", "1m"},
        {"\"1Ki\"", "1024"},
        {"\"1.5Gi\"", "1610612736"},
        {"\"0.0000001Gi\"", "107375m"},
        {"\"8Ei\"", "9223372036854775807"},
        {"\"7Ei\"", "8070450532247928832"},
        {"\"1k\"", "1000"},
        {"\"128M\"", "128000000"},
        {"\"1E\"", "1000000000000000000"},
        {"\"1E3\"", "1000"},
        {"\"1e3\"", "1000"},
        {"\"5e-1\"", "500m"},
        {"\"5E+1\"", "50"},
        {"\"1e99\"", "9223372036854775807"},
        {"\"1e-99\"", "1m"},
        {"\"0e99\"", "0"},
        {"\"0.000000000000000000000001\"", "1m"},
        {"\"123456789012345678901\"", "9223372036854775807"},
        {"\"0.12345678901234567890123\"", "124m"},
        {"\"00000000000000000000000007\"", "7"},
        {"2", "2"},
        {"0.25", "250m"},
        {"1000000000000000", "1000000000000000"},
        {"9007199254740993", "9007199254740993"},
        {"9223372036854775806", "9223372036854775806"},
        {"99999999999999999999", "9223372036854775807"},
        {"1e15", "1000000000000000"},
        {"1E3", "1000"},
        {"1.0", "1"},
        {"0.0000000001", "1m"},
        {"5e-1", "500m"},
        {"1e400", "9223372036854775807"},
        {"-1.5", ""},
        {"\"\"", ""},
        {"\"-1\"", ""},
        {"-1", ""},
        {"\"1 Gi\"", ""},
        {"\"Gi\"", ""},
        {"\".\"", ""},
        {"\"1.2.3\"", ""},
        {"\"1e\"", ""},
        {"\"1e3x\"", ""},
        {"\"1KI\"", ""},
        {"true", ""},
        {"null", ""},
    };
    char out[HVD_QUANTITY_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(through(rows[i][0], out), rows[i][1]) != 0)
            fail_msg("%s became \"%s\", not \"%s\"", rows[i][0], out, rows[i][1]);
    }
}

static struct hvd_quantity of(const char *json)
{
    cJSON *item = cJSON_Parse(json);
    struct hvd_quantity amount = {0};

    assert_true(hvd_quantity_read(item, &amount));
    cJSON_Delete(item);
    return amount;
}

static void sums_and_multiples_are_exact_and_stop_at_the_largest(void **state)
{
    char out[HVD_QUANTITY_SIZE];

    (void)state;
    hvd_quantity_format(hvd_quantity_sum(of("\"100m\""), of("\"900m\"")), out);
    assert_string_equal(out, "1");
    hvd_quantity_format(hvd_quantity_times(of("\"100m\""), 10001), out);
    assert_string_equal(out, "1000100m");
    hvd_quantity_format(hvd_quantity_times(of("\"1Ti\""), 10000), out);
    assert_string_equal(out, "10995116277760000");
    hvd_quantity_format(hvd_quantity_times(of("\"7Ei\""), 2), out);
    assert_string_equal(out, "9223372036854775807");
    hvd_quantity_format(hvd_quantity_sum(of("\"7Ei\""), of("\"7Ei\"")), out);
    assert_string_equal(out, "9223372036854775807");
    hvd_quantity_format(hvd_quantity_times(of("\"1\""), 0), out);
    assert_string_equal(out, "0");
    hvd_quantity_format(hvd_quantity_max(of("\"1\""), of("\"1001m\"")), out);
    assert_string_equal(out, "1001m");
    hvd_quantity_format(hvd_quantity_max(of("\"2\""), of("\"1001m\"")), out);
    assert_string_equal(out, "2");
    hvd_quantity_format(hvd_quantity_sum(of("\"1e18\""), of("\"1m\"")), out);
    assert_string_equal(out, "1000000000000000001");
}

/* What n pods of this PodSpec need. */
static void needs(const char *pod, int n, const char *expected)
{
    struct hvd_requests sum = {0};
    struct hvd_jb jb = {0};
    cJSON *spec = cJSON_Parse(pod);
    cJSON *root = hvd_jb_root(&jb);
    char *text;

    assert_non_null(spec);
    hvd_requests_add_pod(&sum, spec, n);
    hvd_requests_encode(&jb, root, "r", &sum);
    text = hvd_jb_print(&jb, root);
    assert_string_equal(text, expected);
    hvd_free(text);
    cJSON_Delete(root);
    cJSON_Delete(spec);
}

#define R(cpu) "{\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}"

static void a_pod_needs_what_the_scheduler_counts(void **state)
{
    (void)state;
    needs("{}", 3, "{}");
    needs("{\"containers\":[" R("1") "}," R("500m") "}]}", 2, "{\"r\":{\"cpu\":\"3\"}}");
    /* A limit stands for a request that is not made; names come in order. */
    needs("{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":4,\"cpu\":\"2\"},"
          "\"requests\":{\"cpu\":\"1\"}}}]}",
          2, "{\"r\":{\"cpu\":\"2\",\"nvidia.com/gpu\":\"8\"}}");
    /* Init containers run one after another, before the containers. */
    needs("{\"initContainers\":[" R("3") "}," R("2") "}],\"containers\":[" R("1") "}]}", 1,
          "{\"r\":{\"cpu\":\"3\"}}");
    /* A sidecar stays, beside later init containers and the containers. */
    needs("{\"initContainers\":[" R("1") ",\"restartPolicy\":\"Always\"}," R(
              "3") "}],\"containers\":[" R("2") "}]}",
          1, "{\"r\":{\"cpu\":\"4\"}}");
    needs("{\"initContainers\":[" R("3") "}," R(
              "1") ",\"restartPolicy\":\"Always\"}],\"containers\":[" R("2") "}]}",
          1, "{\"r\":{\"cpu\":\"3\"}}");
    needs("{\"overhead\":{\"cpu\":\"250m\"},\"containers\":[" R("1") "}]}", 4,
          "{\"r\":{\"cpu\":\"5\"}}");
    /* What the pod requests as a whole counts instead. */
    needs("{\"resources\":{\"requests\":{\"cpu\":\"1\"}},\"containers\":[" R("500m") "}]}", 1,
          "{\"r\":{\"cpu\":\"1\"}}");
    /* What is no quantity is left to the API server. */
    needs("{\"containers\":[" R("lots") "}]}", 1, "{}");
}

static void more_resources_than_there_is_room_for_are_left_out(void **state)
{
    struct hvd_requests sum = {0};
    cJSON *pod = cJSON_Parse("{\"containers\":[{\"resources\":{\"requests\":{}}}]}");
    cJSON *requests = (cJSON *)hvd_json_at(cJSON_GetArrayItem(hvd_json_get(pod, "containers"), 0),
                                           "resources.requests");
    char name[16];

    (void)state;
    for (int i = 0; i < HVD_REQUESTS_MAX + 9; i++) {
        (void)snprintf(name, sizeof(name), "r%d", i);
        cJSON_AddStringToObject(requests, name, "1");
    }
    hvd_requests_add_pod(&sum, pod, 1);
    assert_int_equal(sum.n, HVD_REQUESTS_MAX);
    cJSON_Delete(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_as_kubernetes_reads_them),
        cmocka_unit_test(sums_and_multiples_are_exact_and_stop_at_the_largest),
        cmocka_unit_test(a_pod_needs_what_the_scheduler_counts),
        cmocka_unit_test(more_resources_than_there_is_room_for_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
