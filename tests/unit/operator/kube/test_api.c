#include "tests/unit/support.h"

#include <string.h>

#include "operator/kube/api.h"

#define STATUS(more) "{\"kind\":\"Status\"" more "}"

static const struct hvd_kube_request request = {
    .verb = HVD_VERB_CREATE,
    .path = {.kind = HVD_KIND_STATEFULSET, .ns = "default", .name = "digits-worker"},
};

static hvd_status_t judge_of(hvd_verb_t verb, long code, const char *body, struct hvd_err *err)
{
    struct hvd_kube_request of_verb = request;
    cJSON *doc = body ? cJSON_Parse(body) : NULL;
    hvd_status_t st;

    of_verb.verb = verb;
    *err = (struct hvd_err){0};
    st = hvd_kube_api_judge(&of_verb, code, doc, err);
    cJSON_Delete(doc);
    return st;
}

static hvd_status_t judge(long code, const char *body, struct hvd_err *err)
{
    return judge_of(HVD_VERB_CREATE, code, body, err);
}

static void http_codes_become_what_the_caller_can_do(void **state)
{
    static const struct {
        long code;
        const char *body;
        hvd_status_t expected;
    } rows[] = {
        {200, "{}", HVD_OK},
        {201, "{}", HVD_OK},
        {400, STATUS(""), HVD_ERR_INVALID},
        {401, NULL, HVD_ERR_DENIED},
        {403, STATUS(""), HVD_ERR_DENIED},
        {404, STATUS(",\"reason\":\"NotFound\""), HVD_ERR_NOT_FOUND},
        {405, "{}", HVD_ERR_SYSTEM},
        {409, STATUS(",\"reason\":\"AlreadyExists\""), HVD_ERR_EXISTS},
        {409, STATUS(",\"reason\":\"Conflict\""), HVD_ERR_CONFLICT},
        {409, STATUS(""), HVD_ERR_CONFLICT},
        {410, STATUS(""), HVD_ERR_GONE},
        {413, NULL, HVD_ERR_TOO_LARGE},
        {422, STATUS(""), HVD_ERR_INVALID},
        {429, NULL, HVD_ERR_UNAVAILABLE},
        {500, "{\"message\":7}", HVD_ERR_UNAVAILABLE},
        {503, "[]", HVD_ERR_UNAVAILABLE},
        {301, NULL, HVD_ERR_SYSTEM},
    };
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(judge(rows[i].code, rows[i].body, &err), rows[i].expected);
}

/* A load balancer's "default backend - 404" made the operator forget a job for ever. */
static void what_is_not_the_servers_is_no_fact(void **state)
{
    static const long codes[] = {400, 403, 404, 409, 410, 422};
    static const char *const bodies[] = {NULL,
                                         "{}",
                                         "[]",
                                         "7",
                                         "\"default backend - 404\"",
                                         "{\"error\":\"not found\"}",
                                         "{\"kind\":\"Error\",\"reason\":\"NotFound\"}"};
    static const hvd_verb_t verbs[] = {HVD_VERB_GET, HVD_VERB_CREATE, HVD_VERB_PATCH,
                                       HVD_VERB_DELETE};
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        for (size_t j = 0; j < sizeof(bodies) / sizeof(bodies[0]); j++)
            for (size_t k = 0; k < sizeof(verbs) / sizeof(verbs[0]); k++)
                assert_int_equal(judge_of(verbs[k], codes[i], bodies[j], &err),
                                 HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "which is not the API server's answer about it"));
}

static void a_404_is_believed_about_the_object_that_it_names(void **state)
{
#define ABOUT(reason, details) STATUS(",\"reason\":\"" reason "\",\"details\":{" details "}")
    static const struct {
        hvd_verb_t verb;
        const char *body;
        hvd_status_t expected;
    } rows[] = {
        {HVD_VERB_GET, ABOUT("NotFound", "\"name\":\"digits-worker\",\"kind\":\"statefulsets\""),
         HVD_ERR_NOT_FOUND},
        {HVD_VERB_PATCH, ABOUT("NotFound", "\"name\":\"digits-worker\""), HVD_ERR_NOT_FOUND},
        {HVD_VERB_DELETE, ABOUT("NotFound", "\"name\":\"digits-worker\",\"kind\":\"pods\""),
         HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, ABOUT("NotFound", "\"name\":\"cluster-1\""), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, STATUS(",\"reason\":\"NotFound\""), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_PATCH, ABOUT("x", "\"name\":\"digits-worker\""), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_CREATE, ABOUT("NotFound", "\"name\":\"ns\",\"kind\":\"namespaces\""),
         HVD_ERR_NOT_FOUND},
        /* A resource that the server does not have: "404 page not found". */
        {HVD_VERB_LIST, NULL, HVD_ERR_NOT_FOUND},
        {HVD_VERB_WATCH, NULL, HVD_ERR_NOT_FOUND},
    };
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(judge_of(rows[i].verb, 404, rows[i].body, &err), rows[i].expected);
}

static void a_success_is_believed_about_the_object_that_was_asked_for(void **state)
{
#define OBJECT(kind, ns, name)                                                                     \
    "{\"kind\":\"" kind "\",\"metadata\":{\"namespace\":\"" ns "\",\"name\":\"" name "\"}}"
    static const struct {
        hvd_verb_t verb;
        const char *body;
        hvd_status_t expected;
    } rows[] = {
        {HVD_VERB_GET, OBJECT("StatefulSet", "default", "digits-worker"), HVD_OK},
        {HVD_VERB_GET, OBJECT("PartialObjectMetadata", "default", "digits-worker"), HVD_OK},
        {HVD_VERB_GET, "{\"metadata\":{\"name\":\"digits-worker\"}}", HVD_OK},
        {HVD_VERB_GET, OBJECT("StatefulSet", "default", "other"), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, OBJECT("StatefulSet", "other", "digits-worker"), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, OBJECT("Service", "default", "digits-worker"), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, "{}", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, "[]", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_GET, STATUS(",\"status\":\"Success\""), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_PATCH, OBJECT("StatefulSet", "default", "digits-worker"), HVD_OK},
        {HVD_VERB_PATCH, OBJECT("StatefulSet", "default", "other"), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_PATCH, "{}", HVD_ERR_UNAVAILABLE},
        /* Most kinds are deleted without a word about what they were. */
        {HVD_VERB_DELETE, STATUS(",\"status\":\"Success\""), HVD_OK},
        {HVD_VERB_DELETE, OBJECT("StatefulSet", "default", "digits-worker"), HVD_OK},
        {HVD_VERB_DELETE, OBJECT("StatefulSet", "default", "other"), HVD_ERR_UNAVAILABLE},
        /* Of some kinds nothing but kind, code and message of it is read. */
        {HVD_VERB_DELETE, STATUS(""), HVD_OK},
        {HVD_VERB_DELETE, STATUS(",\"code\":200"), HVD_OK},
        {HVD_VERB_DELETE, STATUS(",\"status\":\"Failure\""), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_DELETE, STATUS(",\"code\":404"), HVD_ERR_UNAVAILABLE},
        {HVD_VERB_DELETE, "{}", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_DELETE, "[]", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_DELETE, "\"ok\"", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_DELETE, "{\"kind\":\"StatefulSet\"}", HVD_ERR_UNAVAILABLE},
        {HVD_VERB_LIST, "{\"items\":[]}", HVD_OK},
        {HVD_VERB_WATCH, NULL, HVD_OK},
    };
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(judge_of(rows[i].verb, 200, rows[i].body, &err), rows[i].expected);
    assert_int_equal(judge_of(HVD_VERB_GET, 200, OBJECT("Service", "n", "o"), &err),
                     HVD_ERR_UNAVAILABLE);
    assert_string_equal(err.msg, "get statefulsets default/digits-worker: HTTP 200 with another "
                                 "object, Service n/o: check proxies and webhooks before the API "
                                 "server");
}

/* Its definition may be removed under a job that is running. */
static void a_podgroup_without_its_definition_is_gone(void **state)
{
    static const hvd_verb_t verbs[] = {HVD_VERB_GET, HVD_VERB_DELETE};
    static const enum hvd_kind kinds[] = {HVD_KIND_VOLCANO_PODGROUP, HVD_KIND_PLUGINS_PODGROUP};
    struct hvd_kube_request of_group = request;
    struct hvd_err err = {0};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        of_group.verb = verbs[i % 2];
        of_group.path.kind = kinds[i / 2];
        assert_int_equal(hvd_kube_api_judge(&of_group, 404, NULL, &err), HVD_ERR_NOT_FOUND);
        assert_int_equal(hvd_kube_api_judge(&of_group, 403, NULL, &err), HVD_ERR_UNAVAILABLE);
    }
}

static void what_a_webhook_does_is_a_denial_whatever_its_code(void **state)
{
    static const char denied[] = "{\"reason\":\"AlreadyExists\",\"message\":\"admission webhook "
                                 "\\\"a\\\" denied the request\"}";
    static const char silent[] =
        "{\"message\":\"Internal error occurred: failed calling webhook \\\"a\\\": failed to call "
        "webhook: Post \\\"https://a.b.svc/\\\": connection refused\"}";
    static const char quoted[] = "{\"kind\":\"Status\",\"message\":\"Job \\\"a\\\" is invalid: "
                                 "admission webhook \\\"a\\\"\"}";
    static const long codes[] = {400, 403, 404, 409, 410, 413, 418, 422, 429, 500, 503};
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        assert_int_equal(judge(codes[i], denied, &err), HVD_ERR_DENIED);
    assert_int_equal(judge(500, silent, &err), HVD_ERR_DENIED);
    assert_int_equal(judge(422, quoted, &err), HVD_ERR_INVALID);
    assert_int_equal(judge(201, denied, &err), HVD_OK);
}

static void a_patch_of_an_object_that_was_replaced_is_a_conflict(void **state)
{
    static const char of_uid[] =
        "{\"kind\":\"Status\",\"details\":{\"causes\":[{\"field\":\"data\"},"
        "{\"field\":\"metadata.uid\"}]}}";
    static const char of_test[] = "{\"kind\":\"Status\",\"message\":\"the server rejected our "
                                  "request due to an error in our request\"}";
    static const char of_data[] =
        "{\"kind\":\"Status\",\"message\":\"m\",\"details\":{\"causes\":[{\"field\":\"data\"}]}}";
    struct hvd_err err;

    (void)state;
    assert_int_equal(judge(422, of_uid, &err), HVD_ERR_CONFLICT);
    assert_int_equal(judge(422, of_test, &err), HVD_ERR_CONFLICT);
    assert_int_equal(judge(422, of_data, &err), HVD_ERR_INVALID);
    assert_int_equal(judge(422, "{\"kind\":\"Status\",\"details\":{\"causes\":7}}", &err),
                     HVD_ERR_INVALID);
    assert_int_equal(judge(422, "{\"kind\":\"Status\",\"details\":{\"causes\":[7]}}", &err),
                     HVD_ERR_INVALID);
}

static void messages_name_verb_object_and_the_servers_text(void **state)
{
    struct hvd_err err;

    (void)state;
    assert_int_equal(judge(403, "{\"kind\":\"Status\",\"message\":\"x cannot create\"}", &err),
                     HVD_ERR_DENIED);
    assert_string_equal(err.msg, "create statefulsets default/digits-worker: HTTP 403: x cannot "
                                 "create");
    assert_int_equal(judge(503, NULL, &err), HVD_ERR_UNAVAILABLE);
    assert_string_equal(err.msg, "create statefulsets default/digits-worker: HTTP 503");
    assert_int_equal(judge(401, "{}", &err), HVD_ERR_DENIED);
    assert_non_null(strstr(err.msg, "token"));
}

static void collections_and_subresources_are_described(void **state)
{
    const struct hvd_kube_request list = {.verb = HVD_VERB_LIST, .path = {.kind = HVD_KIND_POD}};
    const struct hvd_kube_request patch = {
        .verb = HVD_VERB_PATCH,
        .path = {.kind = HVD_KIND_HOROVODJOB, .ns = "a", .name = "b", .subresource = "status"}};
    char out[128];

    (void)state;
    assert_string_equal(hvd_kube_api_describe(&list, out, sizeof(out)), "list pods");
    assert_string_equal(hvd_kube_api_describe(&patch, out, sizeof(out)),
                        "patch horovodjobs/status a/b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_codes_become_what_the_caller_can_do),
        cmocka_unit_test(what_is_not_the_servers_is_no_fact),
        cmocka_unit_test(a_404_is_believed_about_the_object_that_it_names),
        cmocka_unit_test(a_success_is_believed_about_the_object_that_was_asked_for),
        cmocka_unit_test(a_podgroup_without_its_definition_is_gone),
        cmocka_unit_test(what_a_webhook_does_is_a_denial_whatever_its_code),
        cmocka_unit_test(a_patch_of_an_object_that_was_replaced_is_a_conflict),
        cmocka_unit_test(messages_name_verb_object_and_the_servers_text),
        cmocka_unit_test(collections_and_subresources_are_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
