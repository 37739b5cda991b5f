#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/store.h"

/* What is held of specs and of what happened to children: bounded for each job, and for all. */

#define LARGE_SIZE ((size_t)480 * 1024) /* what an API server takes, with room for the rest */
#define N_LARGE 60                      /* more than the bound by far */

struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_entry *last;
    unsigned n_changes;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    struct bench *b = ctx;

    b->last = entry;
    b->n_changes++;
}

static int set_up(void **state)
{
    static struct bench bench;

    hvd_json_use_base_memory();
    bench = (struct bench){0};
    hvd_store_init(&bench.store, &bench.queue, on_changed, &bench);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

/* A job whose spec has so many bytes of environment, and these further members, and status. */
struct sample {
    const char *name;
    int version;
    int generation;
    size_t size;
    const char *spec;
    const char *status;
};

static cJSON *make(const struct sample *s)
{
    char *filling = hvd_calloc(s->size + 1, 1);
    cJSON *doc = cJSON_CreateObject(), *meta = cJSON_AddObjectToObject(doc, "metadata");
    cJSON *spec = cJSON_Parse(s->spec ? s->spec : "{}"), *item;
    char version[16];

    assert_non_null(filling);
    memset(filling, 'x', s->size);
    (void)snprintf(version, sizeof(version), "%d", s->version);
    (void)cJSON_AddStringToObject(meta, "namespace", "ns");
    (void)cJSON_AddStringToObject(meta, "name", s->name);
    (void)cJSON_AddStringToObject(meta, "uid", s->name);
    (void)cJSON_AddStringToObject(meta, "resourceVersion", version);
    (void)cJSON_AddNumberToObject(meta, "generation", s->generation ? s->generation : 1);
    cJSON_AddItemToObject(doc, "spec", spec);
    cJSON_AddItemToObject(spec, "command", cJSON_CreateStringArray((const char *[]){"c"}, 1));
    if (!cJSON_GetObjectItem(spec, "image"))
        (void)cJSON_AddStringToObject(spec, "image", "i");
    (void)cJSON_AddNumberToObject(cJSON_AddObjectToObject(spec, "worker"), "replicas", 1);
    item = cJSON_CreateObject();
    cJSON_AddItemToArray(cJSON_AddArrayToObject(spec, "env"), item);
    (void)cJSON_AddStringToObject(item, "name", "FILLING");
    (void)cJSON_AddStringToObject(item, "value", filling);
    if (s->status)
        cJSON_AddItemToObject(doc, "status", cJSON_Parse(s->status));
    hvd_free(filling);
    return doc;
}

static struct hvd_entry *put(struct bench *b, const struct sample *sample)
{
    cJSON *doc = make(sample);

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_HOROVODJOB, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
    return b->last;
}

static void read_again(struct bench *b, const struct sample *sample)
{
    cJSON *doc = make(sample);

    assert_int_equal(hvd_store_put_spec(&b->store, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

#define ENDED(type)                                                                                \
    "{\"state\":\"" type "\",\"conditions\":[{\"type\":\"" type                                    \
    "\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"m\",\"lastTransitionTime\":\"2026-01-"  \
    "01T00:00:00Z\"}]}"

static const struct {
    const char *name;
    const char *spec;
    const char *status;
} idle[] = {
    {"suspended", "{\"suspend\":true}", NULL},
    {"foreign", "{\"managedBy\":\"example.com/other\"}", NULL},
    {"invalid", "{\"image\":7}", NULL},
    {"succeeded", "{}", ENDED("Succeeded")},
    {"failed", "{}", ENDED("Failed")},
};
#define N_IDLE (sizeof(idle) / sizeof(idle[0]))

static void a_job_at_rest_holds_no_spec(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < N_IDLE; i++) {
        const struct sample sample = {idle[i].name, 1, 1, LARGE_SIZE, idle[i].spec, idle[i].status};
        struct hvd_entry *entry = put(b, &sample);

        assert_null(entry->job.spec.text);
        assert_int_equal(b->store.specs.bytes, 0);
        assert_true(entry->job_size < 1024);
        assert_int_equal(entry->job.spec.replicas, 1);
    }
}

static void a_spec_goes_when_its_job_comes_to_rest_and_is_back_when_it_goes_on(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 1, 1, LARGE_SIZE, NULL, NULL});

    assert_non_null(strstr(entry->job.spec.text, "FILLING"));
    assert_int_equal(b->store.specs.bytes, strlen(entry->job.spec.text) + 1);
    (void)put(b, &(struct sample){"j", 2, 2, LARGE_SIZE, "{\"suspend\":true}", NULL});
    assert_null(entry->job.spec.text);
    assert_int_equal(b->store.specs.bytes, 0);
    (void)put(b, &(struct sample){"j", 3, 3, LARGE_SIZE, NULL, NULL});
    assert_non_null(entry->job.spec.text);
    (void)put(b, &(struct sample){"j", 4, 3, LARGE_SIZE, NULL, ENDED("Failed")});
    assert_null(entry->job.spec.text);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "j");
    assert_int_equal(b->store.specs.bytes, 0);
}

static void what_is_held_of_all_specs_is_bounded_and_the_largest_go_first(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *small = put(b, &(struct sample){"small", 1, 1, 500, NULL, NULL});
    struct hvd_entry *first = put(b, &(struct sample){"first", 1, 1, LARGE_SIZE, NULL, NULL});
    struct hvd_entry *last = NULL;
    char name[16];

    for (int i = 0; i < N_LARGE; i++) {
        (void)snprintf(name, sizeof(name), "l%d", i);
        last = put(b, &(struct sample){name, 1, 1, LARGE_SIZE, NULL, NULL});
        assert_true(b->store.specs.bytes <= HVD_SPECS_MAX);
    }
    assert_true(b->store.specs.bytes > HVD_SPECS_MAX - 2 * LARGE_SIZE);
    assert_non_null(small->job.spec.text);
    assert_null(first->job.spec.text);
    assert_non_null(last->job.spec.text);
    /* A new version brings its text with it. */
    (void)put(b, &(struct sample){"first", 2, 1, LARGE_SIZE, NULL, NULL});
    assert_non_null(first->job.spec.text);
    assert_true(b->store.specs.bytes <= HVD_SPECS_MAX);
}

static void many_small_specs_are_bounded_too(void **state)
{
    struct bench *b = *state;
    size_t n_held = 0;
    char name[16];

    for (int i = 0; i < 6000; i++) {
        (void)snprintf(name, sizeof(name), "s%d", i);
        (void)put(b, &(struct sample){name, 1, 1, 4000, NULL, NULL});
    }
    for (struct hvd_entry *e = hvd_store_next(&b->store, NULL); e; e = hvd_store_next(&b->store, e))
        n_held += e->job.spec.text != NULL;
    assert_true(b->store.specs.bytes <= HVD_SPECS_MAX);
    assert_in_range(n_held, 3000, 5000);
}

static void a_spec_that_was_read_stays_for_one_plan(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < N_IDLE; i++) {
        const struct sample sample = {idle[i].name, 1, 1, LARGE_SIZE, idle[i].spec, idle[i].status};
        struct hvd_entry *entry = put(b, &sample);
        unsigned n_changes = b->n_changes;

        read_again(b, &sample);
        assert_non_null(entry->job.spec.text);
        read_again(b, &sample);
        assert_int_equal(b->n_changes, n_changes);
        hvd_specs_planned(&b->store, entry);
        assert_null(entry->job.spec.text);
        assert_int_equal(b->store.specs.bytes, 0);
        hvd_specs_planned(&b->store, entry);
    }
}

static void what_was_read_is_not_given_up_before_its_plan_for_anything(void **state)
{
    struct bench *b = *state;
    const struct sample sample = {"first", 1, 1, LARGE_SIZE, NULL, NULL};
    struct hvd_entry *first = put(b, &sample);
    char name[16];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N_LARGE; i++) {
            (void)snprintf(name, sizeof(name), "l%d", i);
            (void)put(b, &(struct sample){name, round + 1, 1, LARGE_SIZE, NULL, NULL});
        }
        if (round == 1)
            break;
        assert_null(first->job.spec.text);
        read_again(b, &sample);
    }
    assert_non_null(first->job.spec.text);
    hvd_specs_planned(&b->store, first);
    assert_non_null(first->job.spec.text); /* the youngest of those that may go */
    assert_true(b->store.specs.bytes <= HVD_SPECS_MAX);
}

static void specs_that_wait_for_their_plan_are_bounded_too(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = NULL;
    char name[16];

    for (int i = 0; i < 2 * N_LARGE; i++) {
        const struct sample sample = {name, 1, 1, LARGE_SIZE, "{\"suspend\":true}", NULL};

        (void)snprintf(name, sizeof(name), "l%d", i);
        entry = put(b, &sample);
        read_again(b, &sample);
        assert_non_null(entry->job.spec.text);
        assert_true(b->store.specs.bytes <= HVD_SPECS_PINNED_MAX);
    }
    assert_true(b->store.specs.bytes > HVD_SPECS_PINNED_MAX - 2 * LARGE_SIZE);
    for (entry = hvd_store_next(&b->store, NULL); entry; entry = hvd_store_next(&b->store, entry))
        hvd_specs_planned(&b->store, entry);
    assert_int_equal(b->store.specs.bytes, 0);
}

static void a_spec_of_another_generation_is_not_taken_for_this_one(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 5, 2, 10, "{\"suspend\":true}", NULL});

    read_again(b, &(struct sample){"j", 4, 1, 10, NULL, NULL});
    assert_null(entry->job.spec.text);
    read_again(b, &(struct sample){"j", 6, 3, 10, NULL, NULL});
    assert_non_null(entry->job.spec.text);
    assert_string_equal(entry->job.resource_version, "6");
}

/* ---- what is remembered of children ---- */

static void failures_are_bounded_in_number_and_in_length(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 1, 1, 10, NULL, NULL});
    char *message = hvd_calloc(256 * 1024 + 1, 1);
    char name[16];
    long before;

    assert_non_null(message);
    /* Characters of two bytes, after one of one byte: the bound is within one. */
    message[0] = 'x';
    for (size_t i = 1; i + 1 < 256 * 1024; i += 2)
        memcpy(message + i, "\xC3\xA4", 2);
    before = hvd_mem_live();
    for (int i = 0; i < 500; i++) {
        const struct hvd_failure failure = {.type = HVD_FAILURE_DENIED,
                                            .kind = HVD_KIND_POD,
                                            .name = name,
                                            .message = message,
                                            .at_ms = i + 1};

        (void)snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(hvd_notes_set_failure(entry, &failure), HVD_OK);
    }
    assert_true(hvd_mem_live() - before <= 2 * HVD_ENTRY_FAILURES_MAX + 1);
    assert_int_equal(entry->n_failures, HVD_ENTRY_FAILURES_MAX);
    for (size_t i = 0; i < entry->n_failures; i++) {
        assert_int_equal(strlen(entry->failures[i].message), HVD_ENTRY_MESSAGE_MAX - 1);
        assert_true(entry->failures[i].at_ms > 500 - HVD_ENTRY_FAILURES_MAX);
    }
    hvd_free(message);
}

static void what_is_gone_is_bounded_and_the_newest_stays(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 1, 1, 10, NULL, NULL});
    char name[16];

    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(hvd_notes_note_gone(entry, HVD_KIND_POD, name), HVD_OK);
    }
    assert_int_equal(entry->n_gone, HVD_ENTRY_GONE_MAX);
    assert_string_equal(entry->gone[entry->n_gone - 1].name, "p4999");
    assert_int_equal(hvd_notes_note_gone(entry, HVD_KIND_POD, "p4999"), HVD_OK);
    assert_int_equal(entry->n_gone, HVD_ENTRY_GONE_MAX);
    hvd_notes_unnote_gone(entry, HVD_KIND_POD, "p4999");
    assert_int_equal(entry->n_gone, HVD_ENTRY_GONE_MAX - 1);
}

#define FORGED(name, deleted)                                                                      \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"u\",\"resourceVersion\":" \
    "\"7\"" deleted ",\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","          \
    "\"horovod.io/job-name\":\"j\"},\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\"," \
    "\"uid\":\"j\",\"controller\":true}]}}"

static void objects_that_are_no_children_leave_nothing_behind(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 1, 1, 10, NULL, NULL});
    cJSON *forged =
        cJSON_Parse(FORGED("anything", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""));
    cJSON *child = cJSON_Parse(FORGED("j-hosts", ""));

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_CONFIGMAP, forged, NULL), HVD_OK);
    hvd_store_miss(&b->store, HVD_KIND_CONFIGMAP, "ns", "anything", "u", true);
    assert_int_equal(entry->n_objects, 0);
    assert_int_equal(entry->n_gone, 0);
    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_CONFIGMAP, child, NULL), HVD_OK);
    hvd_store_miss(&b->store, HVD_KIND_CONFIGMAP, "ns", "j-hosts", "u", true);
    assert_int_equal(entry->n_gone, 1);
    cJSON_Delete(forged);
    cJSON_Delete(child);
}

/* An object of that kind that claims to be of a job; uid is the job's. */
static void claim(struct bench *b, enum hvd_kind kind, const char *name, const char *job)
{
    char text[1024];
    cJSON *doc;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"u-%s\","
                   "\"resourceVersion\":\"7\",\"labels\":{\"app.kubernetes.io/managed-by\":"
                   "\"horovod-operator\",\"horovod.io/job-name\":\"%.63s\"},\"ownerReferences\":"
                   "[{\"kind\":\"HorovodJob\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":"
                   "true}]}}",
                   name, name, job, job, job);
    doc = cJSON_Parse(text);
    assert_non_null(doc);
    assert_int_equal(hvd_store_put(&b->store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

static void claim_all(struct bench *b)
{
    claim(b, HVD_KIND_CONFIGMAP, "j-hosts", "j");
    claim(b, HVD_KIND_CONFIGMAP, "anything", "j");
    claim(b, HVD_KIND_SERVICE, "j", "j");
    claim(b, HVD_KIND_SERVICE, "j-2", "j");
    claim(b, HVD_KIND_STATEFULSET, "j-worker", "j");
    claim(b, HVD_KIND_STATEFULSET, "j-of-a-group-that-was", "j");
    claim(b, HVD_KIND_JOB, "j-master-2", "j");
    claim(b, HVD_KIND_SECRET, "j-ssh-2", "j");
}

static void of_what_claims_to_be_a_jobs_only_its_children_are_filed(void **state)
{
    const struct sample sample = {"j", 1, 1, 10, NULL, NULL};
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &sample);

    claim_all(b);
    assert_int_equal(entry->n_objects, 4);
    assert_int_equal(b->store.n_stray, 0);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "j");
    assert_int_equal(b->store.n_stray, 4);
    /* What comes before its job is believed until that comes. */
    claim_all(b);
    assert_int_equal(entry->n_objects, 8);
    assert_int_equal(b->store.n_stray, 8);
    (void)put(b, &sample);
    assert_int_equal(entry->n_objects, 4);
    assert_int_equal(b->store.n_stray, 0);
}

static void what_claims_to_be_of_jobs_that_are_not_there_is_bounded(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = put(b, &(struct sample){"j", 1, 1, 10, NULL, NULL});
    long before;
    char job[300];

    claim(b, HVD_KIND_SERVICE, "j", "j");
    before = hvd_mem_live();
    memset(job, 'n', sizeof(job));
    job[299] = '\0';
    claim(b, HVD_KIND_SERVICE, "s", job);
    assert_int_equal(strlen(b->last->key),
                     strlen("ns/") + 256); /* no name of an object is so long */
    for (int i = 0; i <= HVD_STORE_STRAYS_MAX; i++) {
        (void)snprintf(job, sizeof(job), "n%d", i);
        claim(b, HVD_KIND_SERVICE, job, job);
    }
    assert_true(b->store.n_stray > HVD_STORE_STRAYS_MAX);
    hvd_store_sweep(&b->store, true);
    assert_int_equal(b->store.n_stray, 0);
    assert_int_equal(hvd_index_count(&b->store.entries), 1);
    assert_int_equal(entry->n_objects, 1);
    assert_true(hvd_mem_live() <= before + 1);
}

static void jobs_that_are_gone_leave_nothing_also_while_another_operator_leads(void **state)
{
    struct bench *b = *state;
    char name[16];

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "j%d", i);
        (void)put(b, &(struct sample){name, 1, 1, 10, NULL, NULL});
        claim(b, HVD_KIND_SERVICE, name, name);
        hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", name, NULL);
        hvd_store_remove(&b->store, HVD_KIND_SERVICE, "ns", name, NULL);
    }
    assert_int_equal(hvd_index_count(&b->store.entries), 1000);
    hvd_store_sweep(&b->store, false);
    assert_int_equal(hvd_index_count(&b->store.entries), 1000);
    hvd_store_sweep(&b->store, true);
    assert_int_equal(hvd_index_count(&b->store.entries), 0);
    assert_true(hvd_mem_live() <= HVD_N_QUEUE_RANKS); /* the room of the queue */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_at_rest_holds_no_spec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_spec_goes_when_its_job_comes_to_rest_and_is_back_when_it_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_is_held_of_all_specs_is_bounded_and_the_largest_go_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_small_specs_are_bounded_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spec_that_was_read_stays_for_one_plan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_read_is_not_given_up_before_its_plan_for_anything,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(specs_that_wait_for_their_plan_are_bounded_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_spec_of_another_generation_is_not_taken_for_this_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_bounded_in_number_and_in_length, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_gone_is_bounded_and_the_newest_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(objects_that_are_no_children_leave_nothing_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(of_what_claims_to_be_a_jobs_only_its_children_are_filed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_claims_to_be_of_jobs_that_are_not_there_is_bounded,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            jobs_that_are_gone_leave_nothing_also_while_another_operator_leads, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
