#include "tests/unit/support.h"

#include <string.h>

#include "operator/api/json.h"
#include "operator/core/writes/refusal.h"
#include "tests/unit/operator/app/bench.h"
#include "tests/unit/operator/app/objects.h"

/* What follows from each answer to a write: the table of docs/operator.md, "Refused writes". */

enum follows {
    FINAL, /* the job ends */
    TOLD,  /* tried again, and told of at once */
    LASTS, /* tried again, and told of when it lasts */
    LEFT,  /* nothing more is made: the namespace is being deleted */
    READ,  /* the object is read again: it is another one by now */
    DONE,  /* as wanted */
};

/* Whose writes they are. */
enum column { OF_TEMPLATE, OTHER_CREATE, TEMPLATE_PATCH, OTHER_PATCH, DELETION, N_COLUMNS };

#define STATUS(reason, message, causes)                                                            \
    "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"" message                        \
    "\",\"details\":{\"name\":\"j\",\"causes\":[" causes "]}}"
#define CAUSE(field) "{\"reason\":\"FieldValueInvalid\",\"message\":\"no\",\"field\":\"" field "\"}"
#define DECODING "StatefulSet in version \\\"v1\\\" cannot be handled as a StatefulSet: "
#define WEBHOOK "admission webhook \\\"a\\\" denied the request: no"
#define NAMESPACE "{\"reason\":\"NamespaceTerminating\",\"field\":\"metadata.namespace\"}"
#define EVERY(follows)                                                                             \
    {                                                                                              \
        follows, follows, follows, follows, follows                                                \
    }

static const struct {
    long code;
    const char *body;
    enum follows expected[N_COLUMNS];
} rows[] = {
    {400,
     STATUS("BadRequest",
            DECODING "strict decoding error: unknown field \\\"spec.template.spec.imag\\\"", ""),
     {FINAL, TOLD, FINAL, TOLD, TOLD}},
    {400,
     STATUS("BadRequest", DECODING "json: cannot unmarshal string into Go struct field", ""),
     {FINAL, TOLD, FINAL, TOLD, TOLD}},
    {400, STATUS("BadRequest", DECODING "strict decoding error: unknown field \\\"spec.a\\\"", ""),
     EVERY(TOLD)},
    {400, STATUS("BadRequest", "a proxy does not like it", ""), EVERY(TOLD)},
    {400, STATUS("BadRequest", WEBHOOK, ""), EVERY(TOLD)},
    {400, NULL, EVERY(TOLD)},
    {401, STATUS("Unauthorized", "Unauthorized", ""), EVERY(LASTS)},
    {403, STATUS("Forbidden", "exceeded quota", ""), EVERY(TOLD)},
    {403, STATUS("Forbidden", "because it is being terminated", NAMESPACE), EVERY(LEFT)},
    {403, STATUS("Forbidden", WEBHOOK, NAMESPACE), EVERY(TOLD)},
    {404, STATUS("NotFound", "not found", ""), {TOLD, TOLD, READ, READ, DONE}},
    {404, NULL, EVERY(LASTS)},
    {405, STATUS("MethodNotAllowed", "no", ""), EVERY(TOLD)},
    {408, NULL, EVERY(LASTS)},
    {409, STATUS("Conflict", "the quota has changed", ""), {LASTS, LASTS, READ, READ, READ}},
    {409, NULL, EVERY(LASTS)},
    {409, STATUS("Conflict", WEBHOOK, ""), EVERY(TOLD)},
    {410, STATUS("Gone", "no", ""), EVERY(TOLD)},
    {413, STATUS("RequestEntityTooLarge", "limit is 3145728", ""), EVERY(TOLD)},
    {415, STATUS("UnsupportedMediaType", "no", ""), EVERY(TOLD)},
    {422,
     STATUS("Invalid", "StatefulSet.apps \\\"j\\\" is invalid: no",
            CAUSE("spec.template.spec.containers[0].image")),
     {FINAL, TOLD, FINAL, TOLD, TOLD}},
    {422,
     STATUS("Invalid", "StatefulSet.apps \\\"j\\\" is invalid: no",
            CAUSE("metadata.labels") "," CAUSE("spec.template.labels")),
     {FINAL, TOLD, FINAL, TOLD, TOLD}},
    {422,
     STATUS("Invalid", "StatefulSet.apps \\\"j\\\" is invalid: no", CAUSE("metadata.annotations")),
     EVERY(TOLD)},
    {422,
     STATUS("Invalid", " \\\"\\\" is invalid: patch: Invalid value: no", CAUSE("patch")),
     {TOLD, TOLD, FINAL, TOLD, TOLD}},
    {422, STATUS("Invalid", "budget is used up", ""), EVERY(TOLD)},
    {422, STATUS("Invalid", WEBHOOK, CAUSE("spec.template.spec")), EVERY(TOLD)},
    {422,
     STATUS("Invalid",
            "statefulsets.apps \\\"j\\\" is forbidden: ValidatingAdmissionPolicy 'p' with binding "
            "'b' denied request: no",
            CAUSE("spec.template.spec")),
     EVERY(TOLD)},
    {422, STATUS("Budget", "no", CAUSE("spec.template.spec")), EVERY(TOLD)},
    {422, NULL, EVERY(TOLD)},
    {429, NULL, EVERY(LASTS)},
    {500, STATUS("InternalError", "etcdserver: request is too large", ""), EVERY(LASTS)},
    {500,
     STATUS("InternalError", "Internal error occurred: failed calling webhook \\\"a\\\": refused",
            ""),
     EVERY(TOLD)},
    {503, NULL, EVERY(LASTS)},
    {504, STATUS("Timeout", "no", ""), EVERY(LASTS)},
    {507, NULL, EVERY(LASTS)},
};

static const struct {
    enum hvd_kind kind;
    enum hvd_action_type type;
    bool is_template;
    enum column column;
} writes[] = {
    {HVD_KIND_STATEFULSET, HVD_ACTION_CREATE, false, OF_TEMPLATE},
    {HVD_KIND_JOB, HVD_ACTION_CREATE, false, OF_TEMPLATE},
    {HVD_KIND_SECRET, HVD_ACTION_CREATE_SECRET, false, OTHER_CREATE},
    {HVD_KIND_SERVICE, HVD_ACTION_CREATE, false, OTHER_CREATE},
    {HVD_KIND_CONFIGMAP, HVD_ACTION_CREATE, false, OTHER_CREATE},
    {HVD_KIND_VOLCANO_PODGROUP, HVD_ACTION_CREATE, false, OTHER_CREATE},
    {HVD_KIND_PLUGINS_PODGROUP, HVD_ACTION_CREATE, false, OTHER_CREATE},
    {HVD_KIND_STATEFULSET, HVD_ACTION_PATCH, true, TEMPLATE_PATCH},
    {HVD_KIND_STATEFULSET, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_JOB, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_SERVICE, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_CONFIGMAP, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_POD, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_VOLCANO_PODGROUP, HVD_ACTION_PATCH, false, OTHER_PATCH},
    {HVD_KIND_STATEFULSET, HVD_ACTION_DELETE, false, DELETION},
    {HVD_KIND_JOB, HVD_ACTION_DELETE, false, DELETION},
    {HVD_KIND_POD, HVD_ACTION_DELETE, false, DELETION},
    {HVD_KIND_HOROVODJOB, HVD_ACTION_DELETE, false, DELETION},
};

/* One action that is answered so. */
static void answer(struct bench *b, const struct hvd_action *action, long code, const char *body)
{
    struct hvd_plan plan = {0};

    plan.actions = hvd_calloc(1, sizeof(struct hvd_action));
    assert_non_null(plan.actions);
    plan.n_actions = 1;
    plan.actions[0] = *action;
    plan.actions[0].namespace = hvd_strdup("ns");
    plan.actions[0].name = hvd_strdup("j");
    plan.actions[0].body =
        action->type == HVD_ACTION_CREATE_SECRET ? NULL : hvd_strdup("{\"a\":1}");
    b->fake.n_calls = 0;
    b->n_performed = 0;
    assert_int_equal(hvd_perform(&b->performer, b->entry, &plan, NULL), HVD_OK);
    fake_api_answer(fake_api_last(&b->fake), code, body);
}

static const struct hvd_failure *failure_of(const struct bench *b)
{
    assert_int_equal(b->entry->n_failures, 1);
    return &b->entry->failures[0];
}

static void check(const struct bench *b, enum follows expected)
{
    switch (expected) {
    case READ:
        assert_int_equal(b->n_performed, 0);
        assert_int_equal(fake_api_last((struct fake_api *)&b->fake)->request.verb, HVD_VERB_GET);
        return;
    case DONE:
        assert_int_equal(b->status, HVD_OK);
        assert_int_equal(b->entry->n_failures, 0);
        return;
    case FINAL:
    case LEFT:
        assert_int_equal(b->status, HVD_OK); /* decided anew at once */
        assert_int_equal(failure_of(b)->type,
                         expected == FINAL ? HVD_FAILURE_INVALID : HVD_FAILURE_LEAVING);
        return;
    case TOLD:
    case LASTS:
        assert_int_equal(b->status, HVD_OK); /* the write alone waits */
        assert_non_null(b->entry->repairs.denials);
        assert_int_equal(failure_of(b)->type, HVD_FAILURE_DENIED);
        assert_int_equal(hvd_refusal_is_told(failure_of(b)), expected == TOLD);
        return;
    }
}

static void every_answer_to_every_write_is_final_or_tried_again(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t n = 0; n < sizeof(writes) / sizeof(writes[0]); n++) {
            const struct hvd_action action = {.type = writes[n].type,
                                              .kind = writes[n].kind,
                                              .repair = HVD_REPAIR_EXISTENCE,
                                              .is_template = writes[n].is_template};
            struct bench *b;

            assert_int_equal(bench_set_up(state), 0);
            b = *state;
            print_message("%ld of write %zu: %s\n", rows[i].code, n,
                          rows[i].body ? rows[i].body : "no document");
            answer(b, &action, rows[i].code, rows[i].body);
            check(b, rows[i].expected[writes[n].column]);
            if (b->n_performed == 0) /* the object that was read again */
                fake_api_answer(fake_api_last(&b->fake), 404, NULL);
            assert_int_equal(b->n_performed, 1);
            assert_int_equal(bench_tear_down(state), 0);
        }
    }
}

static const struct hvd_action create = {
    .type = HVD_ACTION_CREATE, .kind = HVD_KIND_SERVICE, .repair = HVD_REPAIR_EXISTENCE};

static void a_server_in_trouble_is_told_of_when_it_lasts_and_again_at_once(void **state)
{
    struct bench *b;

    assert_int_equal(bench_set_up(state), 0);
    b = *state;
    for (unsigned n = 1; n <= HVD_REFUSAL_LASTS + 1; n++) {
        answer(b, &create, n % 2 ? 503 : 429, NULL);
        assert_int_equal(hvd_refusal_is_told(failure_of(b)), n >= HVD_REFUSAL_LASTS);
    }
    /* Other words for what is told of already do not take it back. */
    answer(b, &create, 403, STATUS("Forbidden", "no right", ""));
    assert_string_equal(failure_of(b)->message, "no right");
    answer(b, &create, 503, NULL);
    assert_true(hvd_refusal_is_told(failure_of(b)));
    answer(b, &create, 201, CHILD("j", "s1", "5", "j", "u1"));
    assert_int_equal(b->entry->n_failures, 0);
    assert_int_equal(bench_tear_down(state), 0);
}

/* The row that counts begins with the first answer that is told of. */
static void a_denial_after_a_few_troubles_is_the_first_of_its_row(void **state)
{
    struct bench *b;

    assert_int_equal(bench_set_up(state), 0);
    b = *state;
    answer(b, &create, 503, NULL);
    answer(b, &create, 503, NULL);
    answer(b, &create, 403, STATUS("Forbidden", "no right", ""));
    assert_int_equal(failure_of(b)->n, 1);
    assert_true(hvd_refusal_is_told(failure_of(b)));
    assert_int_equal(bench_tear_down(state), 0);
}

static void a_request_without_an_answer_is_no_refusal(void **state)
{
    struct hvd_plan plan = {0};
    struct bench *b;

    assert_int_equal(bench_set_up(state), 0);
    b = *state;
    plan.actions = hvd_calloc(1, sizeof(struct hvd_action));
    plan.n_actions = 1;
    plan.actions[0] = create;
    plan.actions[0].namespace = hvd_strdup("ns");
    plan.actions[0].name = hvd_strdup("j");
    plan.actions[0].body = hvd_strdup("{}");
    assert_int_equal(hvd_perform(&b->performer, b->entry, &plan, NULL), HVD_OK);
    fake_api_break(fake_api_last(&b->fake), HVD_ERR_TIMEOUT);
    assert_int_equal(b->status, HVD_ERR_TIMEOUT);
    assert_int_equal(b->entry->n_failures, 0);
    assert_int_equal(bench_tear_down(state), 0);
}

/* A status that is refused has an event, which needs the same patience. */
static void a_refused_status_is_told_of_likewise(void **state)
{
    static const struct {
        long code;
        unsigned told_from;
    } codes[] = {{403, 1}, {405, 1}, {413, 1}, {422, 1}, {429, 8}, {500, 8}, {503, 8}, {507, 8}};
    const struct hvd_action patch = {
        .type = HVD_ACTION_PATCH_STATUS, .kind = HVD_KIND_HOROVODJOB, .repair = HVD_REPAIR_STATUS};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct bench *b;

        assert_int_equal(bench_set_up(state), 0);
        b = *state;
        answer(b, &patch, codes[i].code, STATUS("a", "no", ""));
        assert_int_equal(b->status, HVD_OK);
        assert_non_null(b->entry->repairs.denials);
        assert_int_equal(failure_of(b)->type, HVD_FAILURE_STATUS);
        assert_int_equal(failure_of(b)->told_from, codes[i].told_from);
        assert_int_equal(bench_tear_down(state), 0);
    }
}

/* The object that stands in the way, or has changed, cannot be read: that is told of, too. */
static void a_read_that_is_denied_is_told_of(void **state)
{
    const struct hvd_action patch = {
        .type = HVD_ACTION_PATCH, .kind = HVD_KIND_SERVICE, .repair = HVD_REPAIR_SELECTOR};
    struct bench *b;

    for (int is_patch = 0; is_patch < 2; is_patch++) {
        assert_int_equal(bench_set_up(state), 0);
        b = *state;
        answer(b, is_patch ? &patch : &create, 409,
               is_patch ? STATUS("Conflict", "no", "") : STATUS("AlreadyExists", "no", ""));
        assert_int_equal(b->n_performed, 0);
        fake_api_answer(fake_api_last(&b->fake), 403, STATUS("Forbidden", "no right to read", ""));
        check(b, TOLD);
        assert_string_equal(failure_of(b)->message, "no right to read");
        assert_int_equal(bench_tear_down(state), 0);
    }
}

/* What the events tell of its pods is kept: the answer may never come again. */
static void a_trouble_does_not_replace_what_is_known_of_pods(void **state)
{
    const struct hvd_action patch = {
        .type = HVD_ACTION_PATCH, .kind = HVD_KIND_STATEFULSET, .repair = HVD_REPAIR_REPLICAS};
    const struct hvd_failure known = {.type = HVD_FAILURE_NO_PODS,
                                      .kind = HVD_KIND_STATEFULSET,
                                      .name = "j",
                                      .message = "exceeded quota"};
    struct bench *b;

    assert_int_equal(bench_set_up(state), 0);
    b = *state;
    assert_int_equal(hvd_notes_set_failure(b->entry, &known), HVD_OK);
    answer(b, &patch, 503, NULL);
    assert_int_equal(failure_of(b)->type, HVD_FAILURE_NO_PODS);
    answer(b, &patch, 403, STATUS("Forbidden", "no", ""));
    assert_int_equal(failure_of(b)->type, HVD_FAILURE_DENIED);
    assert_int_equal(bench_tear_down(state), 0);
}

/* A JSON patch that cannot be decoded is answered with the whole object, which hides the field. */
static void the_words_behind_a_whole_object_are_found(void **state)
{
    static const struct {
        const char *body, *words;
    } texts[] = {
        {STATUS("Invalid",
                " \\\"\\\" is invalid: patch: Invalid value: \\\"{\\\\\\\"a\\\\\\\":{}}\\\": "
                "strict decoding error: unknown field \\\"spec.template.spec.imag\\\"",
                CAUSE("patch")),
         "strict decoding error: unknown field \"spec.template.spec.imag\""},
        {STATUS("Invalid", "Service \\\"a\\\" is invalid: \\\"{}\\\": no", ""),
         "Service \"a\" is invalid: \"{}\": no"},
        {STATUS("Invalid", " \\\"\\\" is invalid: patch: Invalid value: \\\"{", ""),
         " \"\" is invalid: patch: Invalid value: \"{"},
        {"{}", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cJSON *body = cJSON_Parse(texts[i].body);

        assert_non_null(body);
        assert_string_equal(hvd_refusal_words(body), texts[i].words);
        cJSON_Delete(body);
    }
    assert_string_equal(hvd_refusal_words(NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_to_every_write_is_final_or_tried_again),
        cmocka_unit_test(a_server_in_trouble_is_told_of_when_it_lasts_and_again_at_once),
        cmocka_unit_test(a_denial_after_a_few_troubles_is_the_first_of_its_row),
        cmocka_unit_test(a_request_without_an_answer_is_no_refusal),
        cmocka_unit_test(a_refused_status_is_told_of_likewise),
        cmocka_unit_test(a_read_that_is_denied_is_told_of),
        cmocka_unit_test(a_trouble_does_not_replace_what_is_known_of_pods),
        cmocka_unit_test(the_words_behind_a_whole_object_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
