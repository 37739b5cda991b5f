#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/children/children.h"

/* The defaults that are added to a user's template, by tests/data/operator/security.json: the API
 * server accepts each result (tests/integration/operator/test_templates.py). */

static cJSON *read_table(void)
{
    FILE *file = fopen(HVD_TEST_DATA "/operator/security.json", "rb");
    static char text[65536];
    size_t n;
    cJSON *table;

    assert_non_null(file);
    n = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    assert_true(n > 0 && n < sizeof(text));
    table = cJSON_ParseWithLength(text, n);
    assert_non_null(table);
    return table;
}

/* The StatefulSet of a job whose workers have this PodSpec; each container gets an image. */
static cJSON *make_set(const cJSON *pod)
{
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":"
                                "\"u\",\"resourceVersion\":\"5\"},\"spec\":{\"master\":{"
                                "\"template\":{\"spec\":{\"containers\":[{\"name\":\"m\"}]}}},"
                                "\"worker\":{\"replicas\":1,\"template\":{}}}}");
    cJSON *template = (cJSON *)hvd_json_at(object, "spec.worker.template");
    struct hvd_child_inputs in = {.attempt = 1};
    struct hvd_job job;
    char *text = NULL;
    cJSON *set;

    cJSON_AddItemToObject(template, "spec", cJSON_Duplicate(pod, true));
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_null(job.invalid);
    in.job = &job;
    in.spec = hvd_json_get(object, "spec");
    assert_int_equal(hvd_children_encode(HVD_KIND_STATEFULSET, &in, &text, NULL), HVD_OK);
    set = cJSON_Parse(text);
    assert_non_null(set);
    hvd_free(text);
    hvd_job_fini(&job);
    cJSON_Delete(object);
    return set;
}

static void is_equal(const char *name, const cJSON *found, const cJSON *expected)
{
    char *text = found ? cJSON_PrintUnformatted(found) : NULL;

    if (cJSON_IsNull(expected) ? found != NULL : !cJSON_Compare(found, expected, true))
        fail_msg("%s: %s", name, text ? text : "nothing");
    hvd_free(text);
}

static void no_default_contradicts_the_template(void **state)
{
    cJSON *table = read_table();
    const cJSON *row = NULL;

    (void)state;
    cJSON_ArrayForEach(row, table)
    {
        const char *name = hvd_json_str(row, "name");
        cJSON *set = make_set(hvd_json_get(row, "pod"));
        const cJSON *containers = hvd_json_at(set, "spec.template.spec.containers");
        const cJSON *expected = hvd_json_get(row, "contexts");

        is_equal(name, hvd_json_at(set, "spec.template.spec.securityContext"),
                 hvd_json_get(row, "context"));
        assert_int_equal(cJSON_GetArraySize(containers), cJSON_GetArraySize(expected));
        for (int i = 0; i < cJSON_GetArraySize(expected); i++)
            is_equal(name, hvd_json_get(cJSON_GetArrayItem(containers, i), "securityContext"),
                     cJSON_GetArrayItem(expected, i));
        cJSON_Delete(set);
    }
    cJSON_Delete(table);
}

/* The lists of a Kubernetes container whose items have names of their own. */
static void nothing_that_is_added_has_a_name_twice(void **state)
{
    static const char *const lists[] = {"ports", "env", "volumeMounts"};
    cJSON *table = read_table();
    const cJSON *row = NULL;

    (void)state;
    cJSON_ArrayForEach(row, table)
    {
        cJSON *set = make_set(hvd_json_get(row, "pod"));
        const cJSON *worker =
            cJSON_GetArrayItem(hvd_json_at(set, "spec.template.spec.containers"), 0);

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            const cJSON *item = NULL, *other = NULL;

            cJSON_ArrayForEach(item, hvd_json_get(worker, lists[i]))
            {
                for (other = item->next; other; other = other->next)
                    assert_false(hvd_json_str(item, "name") && hvd_json_str(other, "name") &&
                                 strcmp(hvd_json_str(item, "name"), hvd_json_str(other, "name")) ==
                                     0);
            }
        }
        cJSON_Delete(set);
    }
    cJSON_Delete(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_default_contradicts_the_template),
        cmocka_unit_test(nothing_that_is_added_has_a_name_twice),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
