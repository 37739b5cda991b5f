/* What the store knows of an object beside what it tells itself. */
#include "tests/unit/support.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/app/store.h"
#include "operator/core/children/owner.h"
#include "tests/unit/operator/app/objects.h"

static struct hvd_queue queue;
static struct hvd_store store;

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    *(struct hvd_entry **)ctx = entry;
}

static struct hvd_entry *last;

static int set_up(void **state)
{
    (void)state;
    hvd_json_use_base_memory();
    hvd_store_init(&store, &queue, on_changed, &last);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hvd_store_fini(&store);
    hvd_queue_fini(&queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

static void put(enum hvd_kind kind, const char *text)
{
    cJSON *doc = cJSON_Parse(text);

    assert_non_null(doc);
    assert_int_equal(hvd_store_put(&store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

static void put_answer(enum hvd_kind kind, const char *text)
{
    cJSON *doc = cJSON_Parse(text);

    assert_int_equal(hvd_store_put_answer(&store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

static void put_made(enum hvd_kind kind, const char *text)
{
    cJSON *doc = cJSON_Parse(text);

    assert_int_equal(hvd_store_put_made(&store, last, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

#define JOB_OF_TESTS JOB("j", "u1", "1")
#define BARE(name, uid, version)                                                                   \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version "\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"}}"
#define LABELLED(name, uid, version)                                                               \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version "\",\"labels\":{\"horovod.io/job-name\":\"j\"}}}"

static bool is_lost(enum hvd_kind kind, const char *name)
{
    const struct hvd_object *found = hvd_store_find(&store, kind, "ns", name);

    return found && hvd_owner_is_lost(&last->job, found) && hvd_str_equal(found->meta.job, "j");
}

/* Of all metadata nothing is left but what cannot be edited; the watch says DELETED, and a GET has
 * it. */
static void a_child_that_was_seen_with_its_owner_stays_its_own(void **state)
{
    (void)state;
    put(HVD_KIND_HOROVODJOB, JOB_OF_TESTS);
    put(HVD_KIND_SECRET, CHILD("j-ssh", "s1", "2", "j", "u1"));
    put(HVD_KIND_SECRET, LABELLED("j-ssh", "s1", "3"));
    assert_true(is_lost(HVD_KIND_SECRET, "j-ssh"));
    hvd_store_miss(&store, HVD_KIND_SECRET, "ns", "j-ssh", "s1", false);
    put_answer(HVD_KIND_SECRET, BARE("j-ssh", "s1", "9"));
    assert_true(is_lost(HVD_KIND_SECRET, "j-ssh"));
    /* another one of its name, and of another HorovodJob of that name */
    put(HVD_KIND_SECRET, LABELLED("j-ssh", "s2", "10"));
    assert_non_null(hvd_store_find(&store, HVD_KIND_SECRET, "ns", "j-ssh"));
    assert_false(is_lost(HVD_KIND_SECRET, "j-ssh"));
    put(HVD_KIND_CONFIGMAP, CHILD("j-hosts", "c1", "11", "j", "u0"));
    put(HVD_KIND_CONFIGMAP, LABELLED("j-hosts", "c1", "12"));
    assert_false(is_lost(HVD_KIND_CONFIGMAP, "j-hosts"));
    /* what nobody has seen with an owner */
    put(HVD_KIND_SERVICE, LABELLED("j", "v1", "13"));
    assert_false(is_lost(HVD_KIND_SERVICE, "j"));
}

/* The watch may have shown it first, and does not tell who made it. */
static void what_the_operator_has_made_is_its_jobs_however_it_came(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        const struct hvd_object *found;

        put(HVD_KIND_HOROVODJOB, JOB_OF_TESTS);
        if (is_late)
            put(HVD_KIND_SERVICE, LABELLED("j", "v1", "2"));
        put_made(HVD_KIND_SERVICE, LABELLED("j", "v1", "2"));
        found = hvd_store_find(&store, HVD_KIND_SERVICE, "ns", "j");
        assert_non_null(found);
        assert_int_equal(found->meta.noted, HVD_NOTED_MADE);
        assert_true(is_lost(HVD_KIND_SERVICE, "j"));
        put_made(HVD_KIND_CONFIGMAP, BARE("j-hosts", "c1", "3")); /* without a label, too */
        assert_true(is_lost(HVD_KIND_CONFIGMAP, "j-hosts"));
        put(HVD_KIND_SERVICE, LABELLED("j", "v1", "4"));
        assert_true(is_lost(HVD_KIND_SERVICE, "j"));
        put(HVD_KIND_SERVICE, CHILD("j", "v1", "5", "j", "u1"));
        assert_false(is_lost(HVD_KIND_SERVICE, "j"));
        put_made(HVD_KIND_SECRET, CHILD("j-ssh", "s1", "6", "j", "u1"));
        assert_int_equal(hvd_store_find(&store, HVD_KIND_SECRET, "ns", "j-ssh")->meta.noted,
                         HVD_NOTED_NOT);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

/* Nothing is told of the end of a master that runs: the labels may be gone, and not the pod. */
static void a_running_master_without_its_job_is_looked_for(void **state)
{
    static const char *const phases[] = {"Running", "Succeeded"};

    for (size_t i = 0; i < 2; i++) {
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-master-x\",\"uid\":\"p\","
                       "\"resourceVersion\":\"3\",\"ownerReferences\":[{\"kind\":\"Job\",\"name\":"
                       "\"j-master\",\"uid\":\"m1\",\"controller\":true}],\"labels\":{"
                       "\"horovod.io/job-name\":\"j\"}},\"spec\":{\"subdomain\":\"j\"},"
                       "\"status\":{\"phase\":\"%s\"}}",
                       phases[i]);
        put(HVD_KIND_HOROVODJOB, JOB_OF_TESTS);
        put(HVD_KIND_POD, text);
        hvd_store_miss(&store, HVD_KIND_POD, "ns", "j-master-x", "p", false);
        assert_true((hvd_store_find(&store, HVD_KIND_POD, "ns", "j-master-x") != NULL) == (i == 0));
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_child_that_was_seen_with_its_owner_stays_its_own, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_the_operator_has_made_is_its_jobs_however_it_came,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_running_master_without_its_job_is_looked_for, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
