/* A definition in the cluster that is older than the operator, or a webhook: fields of the status
 * are dropped. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/app/store.h"
#include "operator/core/writes/kept.h"

#define HEAD(version)                                                                              \
    "{\"apiVersion\":\"horovod.io/v1beta1\",\"kind\":\"HorovodJob\",\"metadata\":{\"namespace\":"  \
    "\"ns\",\"name\":\"j\",\"uid\":\"u1\",\"resourceVersion\":\"" version                          \
    "\",\"generation\":1,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{\"image\":"     \
    "\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":1}},\"status\":"
#define SENT                                                                                       \
    "{\"status\":{\"state\":\"Restarting\",\"attempts\":1,\"failures\":1,\"cleaned\":1,"           \
    "\"sshPort\":null,\"conditions\":[]}}"
#define PRUNED "{\"state\":\"Restarting\",\"attempts\":1}}"

struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_entry *entry;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    ((struct bench *)ctx)->entry = entry;
}

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    hvd_store_init(&b->store, &b->queue, on_changed, b);
}

static void tear_down(struct bench *b)
{
    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    assert_int_equal(hvd_mem_live(), 0);
}

static void watch(struct bench *b, const char *text)
{
    cJSON *object = cJSON_Parse(text);

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_HOROVODJOB, object, NULL), HVD_OK);
    cJSON_Delete(object);
}

static void answer(struct bench *b, const char *text)
{
    cJSON *object = cJSON_Parse(text);

    assert_int_equal(hvd_notes_put_status(&b->store, b->entry, SENT, object, NULL), HVD_OK);
    cJSON_Delete(object);
}

/* Whether the watch or the answer comes first. */
static void a_field_that_is_not_kept_counts_all_the_same(void **state)
{
    struct bench b;
    char names[64];

    (void)state;
    for (int is_watch_first = 0; is_watch_first < 2; is_watch_first++) {
        set_up(&b);
        watch(&b, HEAD("1") "{}}");
        if (is_watch_first)
            watch(&b, HEAD("2") PRUNED);
        answer(&b, HEAD("2") PRUNED);
        if (!is_watch_first)
            watch(&b, HEAD("2") PRUNED);
        assert_int_equal(b.entry->job.status.cleaned, 1);
        assert_int_equal(b.entry->job.status.failures, 1);
        hvd_kept_names(b.entry->lost, names, sizeof(names));
        assert_string_equal(names, "status.failures, status.cleaned");
        /* Somebody changes the job otherwise. */
        watch(&b, HEAD("3") PRUNED);
        assert_int_equal(b.entry->job.status.cleaned, 1);
        /* The definition is applied: the next status is kept. */
        answer(&b, HEAD("4") "{\"state\":\"Restarting\",\"attempts\":1,\"failures\":1,"
                             "\"cleaned\":1,\"conditions\":[]}}");
        assert_null(b.entry->lost);
        assert_int_equal(b.entry->job.status.cleaned, 1);
        tear_down(&b);
    }
}

#define CONDITION(type) "{\"type\":\"" type "\",\"status\":\"True\",\"reason\":\"R\"}"
#define ENDED(conditions) "{\"state\":\"Failed\",\"conditions\":" conditions "}}"

static void answer_to(struct bench *b, const char *sent, const char *text)
{
    cJSON *object = cJSON_Parse(text);

    assert_int_equal(hvd_notes_put_status(&b->store, b->entry, sent, object, NULL), HVD_OK);
    cJSON_Delete(object);
}

static bool has_failed(const struct bench *b)
{
    return b->entry->job.status.conditions[HVD_COND_FAILED].truth == HVD_TRUE;
}

/* All of them, or the one that counts. */
static void a_condition_that_is_not_kept_counts_all_the_same(void **state)
{
    static const char *const kept[] = {HEAD("2") "{\"state\":\"Failed\"}}", HEAD("2") ENDED("[]"),
                                       HEAD("2") ENDED("[" CONDITION("Running") "]")};
    static const char sent[] =
        "{\"status\":" ENDED("[" CONDITION("Running") "," CONDITION("Failed") "]");
    struct bench b;
    char names[64];

    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        set_up(&b);
        watch(&b, HEAD("1") "{}}");
        answer_to(&b, sent, kept[i]);
        watch(&b, kept[i]);
        assert_true(has_failed(&b));
        hvd_kept_names(b.entry->lost, names, sizeof(names));
        assert_string_equal(names, "status.conditions");
        assert_true(hvd_kept_lacks_conditions(b.entry->lost));
        watch(&b, HEAD("3") ENDED("[" CONDITION("Policy") "]"));
        assert_true(has_failed(&b));
        answer_to(&b, sent, HEAD("4") ENDED("[" CONDITION("Failed") "," CONDITION("Running") "]"));
        assert_null(b.entry->lost);
        assert_true(has_failed(&b));
        tear_down(&b);
    }
}

/* Whatever their order, and what the API server or others make of their members. */
static void conditions_that_others_add_change_or_remove_are_no_loss(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    watch(&b, HEAD("1") "{}}");
    answer_to(&b, "{\"status\":" ENDED("[" CONDITION("Policy") "," CONDITION("Failed") "]"),
              HEAD("2")
                  ENDED("[" CONDITION("Audit") ",{\"type\":\"Failed\",\"status\":\"True\","
                                               "\"message\":\"other\",\"observedGeneration\":1}]"));
    assert_null(b.entry->lost);
    watch(&b, HEAD("3") ENDED("[]"));
    assert_false(has_failed(&b));
    tear_down(&b);
}

static void what_others_write_to_the_status_is_no_loss(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    watch(&b, HEAD("1") "{}}");
    answer(&b, HEAD("2") "{\"state\":\"Pending\"}}");
    assert_null(b.entry->lost);
    answer(&b, HEAD("3") "{}}");
    assert_null(b.entry->lost);
    tear_down(&b);
}

static void another_job_of_the_name_gets_nothing_of_it(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    watch(&b, HEAD("1") "{}}");
    answer(&b, HEAD("2") PRUNED);
    assert_non_null(b.entry->lost);
    hvd_store_miss(&b.store, HVD_KIND_HOROVODJOB, "ns", "j", "u1", true);
    watch(&b, HEAD("9") PRUNED);
    assert_null(b.entry->lost);
    assert_int_equal(b.entry->job.status.cleaned, 0);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_that_is_not_kept_counts_all_the_same),
        cmocka_unit_test(a_condition_that_is_not_kept_counts_all_the_same),
        cmocka_unit_test(conditions_that_others_add_change_or_remove_are_no_loss),
        cmocka_unit_test(what_others_write_to_the_status_is_no_loss),
        cmocka_unit_test(another_job_of_the_name_gets_nothing_of_it),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
