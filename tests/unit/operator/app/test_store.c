#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/store.h"
#include "tests/unit/operator/app/objects.h"

struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    unsigned n_changes;
    struct hvd_entry *last;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    struct bench *b = ctx;

    b->n_changes++;
    b->last = entry;
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

/* Puts a document and returns how many changes that made. */
static unsigned put(struct bench *b, enum hvd_kind kind, const char *text)
{
    unsigned before = b->n_changes;
    cJSON *doc = cJSON_Parse(text);

    assert_non_null(doc);
    assert_int_equal(hvd_store_put(&b->store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
    return b->n_changes - before;
}

static void put_answer(struct bench *b, enum hvd_kind kind, const char *text)
{
    cJSON *doc = cJSON_Parse(text);

    assert_int_equal(hvd_store_put_answer(&b->store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

static void only_newer_versions_change_anything(void **state)
{
    struct bench *b = *state;

    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10")), 1);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10")), 0);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "9")), 0);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "11")), 1);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "12", "j", "u1")), 1);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "12", "j", "u1")), 0);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "9", "j", "u1")), 0);
    assert_int_equal(b->last->n_objects, 1);
    assert_int_equal(b->store.n_by_state[HVD_JOB_NEW], 1);
}

/* The etcd of the server was restored from a backup. */
static void after_a_rewind_each_object_is_what_the_server_has_now(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10"));
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("k", "u2", "11"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "12", "j", "u1"));
    hvd_store_told(&b->store, HVD_KIND_SERVICE, "20");
    hvd_store_rewind(&b->store, HVD_KIND_HOROVODJOB);
    hvd_store_begin(&b->store, HVD_KIND_HOROVODJOB);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "3")), 1);
    assert_string_equal(b->last->job.resource_version, "3");
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "2")), 0);
    /* Of another kind nothing has changed. */
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "4", "j", "u1")), 0);
    hvd_store_end(&b->store, HVD_KIND_HOROVODJOB);
    assert_string_equal(b->last->key, "ns/k");
    assert_false(b->last->has_job);
    hvd_store_rewind(&b->store, HVD_KIND_SERVICE);
    hvd_store_begin(&b->store, HVD_KIND_SERVICE);
    hvd_store_end(&b->store, HVD_KIND_SERVICE); /* it is looked for, and found to be there */
    assert_true(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.is_doubtful);
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s1", "4", "j", "u1"));
    assert_false(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.is_doubtful);
    assert_string_equal(
        hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.resource_version, "4");
    hvd_store_remove(&b->store, HVD_KIND_SERVICE, "ns", "j", NULL);
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s2", "6", "j", "u1"));
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

/* The same version of another history is another object. */
static void after_a_rewind_an_equal_version_is_taken(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10"));
    hvd_store_rewind(&b->store, HVD_KIND_HOROVODJOB);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10")), 1);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "10")), 0);
}

static void children_wait_for_their_job(void **state)
{
    struct bench *b = *state;

    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "5", "j", "u1")), 1);
    assert_false(b->last->has_job);
    assert_false(hvd_store_collect(&b->store, b->last));
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "6")), 1);
    assert_true(b->last->has_job);
    assert_int_equal(b->last->n_objects, 1);
    assert_string_equal(b->last->key, "ns/j");
}

static void an_old_uid_removes_nothing_new(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "2", "j", "u1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s2", "3", "j", "u1"));
    hvd_store_remove(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1");
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    hvd_store_remove(&b->store, HVD_KIND_SERVICE, "ns", "j", "s2");
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "other");
    assert_true(b->last->has_job);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", NULL);
    assert_false(b->last->has_job);
    assert_true(hvd_store_collect(&b->store, b->last));
    assert_int_equal(hvd_index_count(&b->store.entries), 0);
}

static void a_list_doubts_what_it_does_not_hold(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("a", "u1", "1"));
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("b", "u2", "2"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("a", "s1", "3", "a", "u1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("b", "s2", "4", "b", "u2"));
    (void)put(b, HVD_KIND_CONFIGMAP, CHILD("a-hosts", "c1", "5", "a", "u1"));
    hvd_store_begin(&b->store, HVD_KIND_SERVICE);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("a", "s1", "3", "a", "u1")), 0);
    hvd_store_end(&b->store, HVD_KIND_SERVICE);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "a"));
    assert_true(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "b")->meta.is_doubtful);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_CONFIGMAP, "ns", "a-hosts"));
    hvd_store_begin(&b->store, HVD_KIND_HOROVODJOB);
    assert_int_equal(put(b, HVD_KIND_HOROVODJOB, JOB("b", "u2", "2")), 0);
    hvd_store_end(&b->store, HVD_KIND_HOROVODJOB);
    assert_string_equal(b->last->key, "ns/a");
    assert_false(b->last->has_job);
}

#define SERVICE_OF(version, labels)                                                                \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"s1\",\"resourceVersion\":"       \
    "\"" version "\",\"labels\":{" labels                                                          \
    "},\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\","                              \
    "\"uid\":\"u1\",\"controller\":true}]}}"
#define MANAGED "\"app.kubernetes.io/managed-by\":\"horovod-operator\""

static const struct hvd_meta *service(struct bench *b)
{
    const struct hvd_object *found = hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j");

    return found ? &found->meta : NULL;
}

static void a_deletion_without_a_timestamp_is_doubted_until_somebody_looks(void **state)
{
    struct bench *b = *state;
    cJSON *hidden = cJSON_Parse(SERVICE_OF("4", MANAGED));

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "another", false);
    assert_false(service(b)->is_doubtful);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", false);
    hvd_store_told(&b->store, HVD_KIND_SERVICE, "4");
    assert_true(service(b)->is_doubtful);
    assert_int_equal(b->last->n_gone, 0);
    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_SERVICE, hidden, NULL), HVD_OK);
    cJSON_Delete(hidden);
    assert_false(service(b)->is_doubtful);
    assert_false(service(b)->is_in_sight);
    assert_int_equal(service(b)->lost_labels, HVD_LOST_JOB);
    /* No list shows it, until its label is back. */
    hvd_store_begin(&b->store, HVD_KIND_SERVICE);
    hvd_store_end(&b->store, HVD_KIND_SERVICE);
    assert_true(service(b)->is_doubtful);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "5", "j", "u1")), 1);
    assert_false(service(b)->is_doubtful);
    assert_int_equal(service(b)->lost_labels, 0);
    /* The same version again. */
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", false);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "5", "j", "u1")), 1);
    assert_false(service(b)->is_doubtful);
}

static void an_end_that_was_announced_or_expected_is_believed(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", true);
    assert_null(service(b));
    assert_int_equal(b->last->n_gone, 1);
    assert_string_equal(b->last->gone[0].name, "j");
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s2", "4", "j", "u1"));
    assert_int_equal(b->last->n_gone, 0);
    /* Of a job that is no more. */
    hvd_store_miss(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "u1", false);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s2", false);
    assert_null(service(b));
    assert_true(hvd_store_collect(&b->store, b->last));
}

static void what_is_doubted_goes_with_its_job(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", false);
    hvd_store_looked(&b->store, b->last);
    assert_non_null(service(b));
    hvd_store_miss(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "u1", false);
    hvd_store_looked(&b->store, b->last);
    assert_null(service(b));
    assert_true(hvd_store_collect(&b->store, b->last));
}

#define SET(version, replicas)                                                                     \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-worker\",\"uid\":\"t1\","                    \
    "\"resourceVersion\":\"" version                                                               \
    "\",\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\",\"uid\":\"u1\","              \
    "\"controller\":true}]},\"spec\":{\"replicas\":" replicas "}}"
#define WORKER(n, uid)                                                                             \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-worker-" n "\",\"uid\":\"" uid               \
    "\",\"resourceVersion\":\"7\",\"labels\":{\"horovod.io/job-name\":\"other\"},"                 \
    "\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"name\":\"j-worker\",\"uid\":\"t1\","         \
    "\"controller\":true}]},\"spec\":{\"subdomain\":\"j\"}}"

static bool is_doubted(struct bench *b, const char *pod)
{
    const struct hvd_object *found = hvd_store_find(&b->store, HVD_KIND_POD, "ns", pod);

    return found && found->meta.is_doubtful;
}

static void pods_that_their_set_has_no_place_for_are_not_looked_for(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_STATEFULSET, SET("3", "1"));
    (void)put(b, HVD_KIND_POD, WORKER("0", "p0"));
    assert_string_equal(b->last->key, "ns/j"); /* whatever the label says */
    (void)put(b, HVD_KIND_POD, WORKER("1", "p1"));
    hvd_store_miss(&b->store, HVD_KIND_POD, "ns", "j-worker-1", "p1", false);
    assert_null(hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-worker-1"));
    hvd_store_miss(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p0", false);
    assert_true(is_doubted(b, "j-worker-0"));
    hvd_store_remove(&b->store, HVD_KIND_STATEFULSET, "ns", "j-worker", "t1");
    hvd_store_miss(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p0", false);
    assert_false(is_doubted(b, "j-worker-0"));
}

static void an_answer_that_comes_after_the_end_brings_nothing_back(void **state)
{
    struct bench *b = *state;
    cJSON *child = cJSON_Parse(CHILD("j", "s1", "2", "j", "u1"));
    cJSON *job = cJSON_Parse(JOB("j", "u1", "3"));
    const unsigned n_changes = b->n_changes;

    hvd_store_told(&b->store, HVD_KIND_SERVICE, "5");
    hvd_store_told(&b->store, HVD_KIND_HOROVODJOB, "3");
    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_SERVICE, child, NULL), HVD_OK);
    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    assert_int_equal(b->n_changes, n_changes);
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(hvd_index_count(&b->store.entries), 0);
    /* Newer ones are news, and so are answers about what is known. */
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "2"));
    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    assert_string_equal(b->last->job.resource_version, "3");
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(child, "metadata"), "resourceVersion",
                              cJSON_CreateString("6"));
    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_SERVICE, child, NULL), HVD_OK);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    cJSON_Delete(child);
    cJSON_Delete(job);
}

/* The API server answers so to a deletion that another client finished meanwhile. */
static void an_answer_without_a_version_is_not_taken_in(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s1", "", "j", "u1"));
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s1", "", "j", "u1"));
    assert_string_equal(service(b)->resource_version, "3");
}

/* A read of what a job of that name left was answered before the collector took it, and arrives
 * after the watch told of that: the new job must not wait for what is gone. */
static void an_answer_from_before_the_end_settles_no_doubt(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "u1");
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u2", "4"));
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", false);
    hvd_store_told(&b->store, HVD_KIND_SERVICE, "5");
    assert_true(service(b)->is_doubtful);
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s1", "3", "j", "u1"));
    assert_true(service(b)->is_doubtful);
    /* One that nobody told of yet says that it is there. */
    put_answer(b, HVD_KIND_SERVICE, CHILD("j", "s1", "6", "j", "u1"));
    assert_false(service(b)->is_doubtful);
}

static void a_child_that_changes_its_job_moves(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_SERVICE, CHILD("s", "s1", "3", "a", "u1"));
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("s", "s1", "4", "b", "u2")), 2);
    assert_string_equal(b->last->key, "ns/b");
    assert_int_equal(b->last->n_objects, 1);
}

#define POD(uid, version, status)                                                                  \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-worker-0\",\"uid\":\"" uid                   \
    "\",\"resourceVersion\":\"" version                                                            \
    "\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{"                               \
    "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":\"j\","         \
    "\"horovod.io/role\":\"worker\"}},\"status\":{" status "}}"
#define EVICTED "\"phase\":\"Failed\",\"reason\":\"Evicted\""
#define RUNNING "\"phase\":\"Running\""

#define READY "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"

static void a_job_may_start_when_enough_of_its_pods_are_ready(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "2", "j", "u1"));
    assert_false(hvd_store_entry_may_start(b->last));
    (void)put(b, HVD_KIND_POD, POD("p1", "3", RUNNING));
    assert_false(hvd_store_entry_may_start(b->last));
    (void)put(b, HVD_KIND_POD, POD("p1", "4", READY));
    assert_true(hvd_store_entry_may_start(b->last));
}

static unsigned count_evicted(const struct hvd_entry *entry)
{
    const struct hvd_object **objects = hvd_store_entry_objects(entry);
    unsigned n = 0;

    assert_non_null(objects);
    for (size_t i = 0; i < entry->n_objects; i++)
        n += objects[i]->kind == HVD_KIND_POD && objects[i]->u.pod.phase == HVD_POD_FAILED;
    hvd_free((void *)objects);
    return n;
}

static void how_a_worker_ended_stays_until_it_was_looked_at(void **state)
{
    struct bench *b = *state;
    unsigned before;

    b->store.keeps_ends = true;
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_POD, POD("p1", "2", RUNNING));
    (void)put(b, HVD_KIND_POD, POD("p1", "3", EVICTED));
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p1");
    assert_null(hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-worker-0"));
    (void)put(b, HVD_KIND_POD, POD("p2", "5", EVICTED));
    (void)put(b, HVD_KIND_POD, POD("p3", "7", RUNNING)); /* the end of p2 was not told */
    assert_int_equal(b->last->n_objects, 3);
    assert_int_equal(count_evicted(b->last), 2);
    before = b->n_changes;
    hvd_store_looked(&b->store, b->last);
    assert_int_equal(b->n_changes, before + 1);
    assert_int_equal(b->last->n_objects, 1);
    assert_string_equal(hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-worker-0")->meta.uid,
                        "p3");
    hvd_store_looked(&b->store, b->last);
    assert_int_equal(b->n_changes, before + 1);
}

#define DELETED(uid, version)                                                                      \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-worker-0\",\"uid\":\"" uid                   \
    "\",\"resourceVersion\":\"" version                                                            \
    "\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"deletionTimestamp\":"                     \
    "\"2026-01-01T00:10:00Z\",\"deletionGracePeriodSeconds\":600,\"labels\":{"                     \
    "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":\"j\","         \
    "\"horovod.io/role\":\"worker\"}}}"

static int64_t going_ms(struct bench *b)
{
    return hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-worker-0")->u.pod.going_ms;
}

static void a_deletion_keeps_the_time_at_which_it_was_seen(void **state)
{
    struct bench *b = *state;
    int64_t begin_ms = hvd_clock_ms();
    int64_t seen_ms;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_POD, POD("p1", "2", RUNNING));
    assert_int_equal(going_ms(b), 0);
    (void)put(b, HVD_KIND_POD, DELETED("p1", "3"));
    seen_ms = going_ms(b);
    assert_true(seen_ms >= begin_ms && seen_ms <= hvd_clock_ms());
    while (hvd_clock_ms() == seen_ms) {
    }
    (void)put(b, HVD_KIND_POD, DELETED("p1", "4"));
    assert_true(going_ms(b) == seen_ms);
    (void)put(b, HVD_KIND_POD, DELETED("p2", "5")); /* it was deleted before it was seen */
    begin_ms = hvd_clock_ms() - 600000;
    assert_true(going_ms(b) <= (begin_ms > 1 ? begin_ms : 1) && going_ms(b) > 0);
}

#define OF_JOB                                                                                     \
    ",\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"j-master\",\"uid\":\"m1\",\"controller\":" \
    "true}],\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","                    \
    "\"horovod.io/job-name\":\"j\",\"horovod.io/role\":\"master\"}"
#define MASTER(uid, version, more)                                                                 \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-master-abcde\",\"uid\":\"" uid               \
    "\",\"resourceVersion\":\"" version "\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"" more   \
    "},\"spec\":{\"subdomain\":\"j\"}}"

/* What it looks like afterwards tells nothing: no label and no owner is left. */
static void a_master_that_was_seen_with_its_job_stays_one_without_any_label(void **state)
{
    static const char *const uids[] = {MASTER("p1", "9", ""), MASTER("p2", "9", "")};

    for (size_t i = 0; i < 2; i++) {
        const struct hvd_object *pod;
        struct bench *b;
        cJSON *answer;

        if (i > 0) {
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
        }
        b = *state;
        answer = cJSON_Parse(uids[i]);
        (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
        (void)put(b, HVD_KIND_JOB, CHILD("j-master", "m1", "2", "j", "u1"));
        (void)put(b, HVD_KIND_POD, MASTER("p1", "3", OF_JOB));
        hvd_store_miss(&b->store, HVD_KIND_POD, "ns", "j-master-abcde", "p1", false);
        pod = hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-master-abcde");
        assert_true(pod->meta.is_doubtful && !pod->u.pod.is_orphan);
        assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_POD, answer, NULL), HVD_OK);
        pod = hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-master-abcde");
        assert_false(pod->meta.is_doubtful);
        assert_int_equal(pod->u.pod.is_orphan, i == 0);
        cJSON_Delete(answer);
        answer = cJSON_Parse(MASTER("p1", "10", ""));
        assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_POD, answer, NULL), HVD_OK);
        pod = hvd_store_find(&b->store, HVD_KIND_POD, "ns", "j-master-abcde");
        assert_int_equal(pod->u.pod.is_orphan, i == 0);
        cJSON_Delete(answer);
    }
}

#define LOOSE(name, role)                                                                          \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" name                    \
    "\",\"resourceVersion\":\"3\",\"labels\":{\"app.kubernetes.io/managed-by\":"                   \
    "\"horovod-operator\",\"horovod.io/job-name\":\"j\",\"horovod.io/role\":\"" role "\"}}}"

/* Nobody would tell of it again when its job comes: others of no owner are found by their name. */
static void a_pod_that_a_set_would_take_is_kept_until_its_job_comes(void **state)
{
    static const struct {
        const char *name, *text;
        bool is_kept;
    } cases[] = {
        {"j-worker-0", LOOSE("j-worker-0", "worker"), true},
        {"j-worker-00", LOOSE("j-worker-00", "worker"), true},
        {"j-worker-big-007", LOOSE("j-worker-big-007", "worker"), true},
        {"j-worker-4294967297", LOOSE("j-worker-4294967297", "worker"), true},
        {"j-worker-0", LOOSE("j-worker-0", "master"), false},
        {"j-worker-1x", LOOSE("j-worker-1x", "worker"), false},
        {"j-worker", LOOSE("j-worker", "worker"), false},
        {"other-worker-0", LOOSE("other-worker-0", "worker"), false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench *b = *state;

        print_message("%s\n", cases[i].text);
        (void)put(b, HVD_KIND_POD, cases[i].text);
        assert_int_equal(hvd_store_find(&b->store, HVD_KIND_POD, "ns", cases[i].name) != NULL,
                         cases[i].is_kept);
        hvd_store_remove(&b->store, HVD_KIND_POD, "ns", cases[i].name, NULL);
    }
}

static void an_end_that_was_seen_or_nobody_looks_for_is_forgotten(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_POD, POD("p1", "3", EVICTED));
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p1");
    assert_int_equal(b->last->n_objects, 0);
    b->store.keeps_ends = true;
    (void)put(b, HVD_KIND_POD, POD("p2", "4", EVICTED));
    hvd_store_looked(&b->store, b->last);
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p2");
    assert_int_equal(b->last->n_objects, 0);
    (void)put(b, HVD_KIND_POD, POD("p3", "5", RUNNING));
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p3");
    assert_int_equal(b->last->n_objects, 0);
    (void)put(b, HVD_KIND_POD, POD("p4", "6", EVICTED)); /* and the store ends while one stays */
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "j-worker-0", "p4");
    assert_int_equal(b->last->n_objects, 1);
}

static void failures_end_with_our_object_or_a_new_generation(void **state)
{
    struct bench *b = *state;
    const struct hvd_failure failure = {.type = HVD_FAILURE_FOREIGN,
                                        .kind = HVD_KIND_SERVICE,
                                        .name = "j",
                                        .message = "theirs",
                                        .at_ms = 1};

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    assert_int_equal(hvd_notes_set_failure(b->last, &failure), HVD_OK);
    assert_int_equal(hvd_notes_set_failure(b->last, &failure), HVD_OK);
    assert_int_equal(b->last->n_failures, 1);
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s1", "2", "j", "somebody"));
    assert_int_equal(b->last->n_failures, 1);
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s2", "3", "j", "u1"));
    assert_int_equal(b->last->n_failures, 0);
    assert_int_equal(hvd_notes_set_failure(b->last, &failure), HVD_OK);
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u2", "4"));
    assert_int_equal(b->last->n_failures, 0);
}

static void blocked_jobs_go_on_as_soon_as_the_object_of_another_is_removed(void **state)
{
    struct bench *b = *state;
    const struct hvd_failure set = {
        .type = HVD_FAILURE_FOREIGN, .kind = HVD_KIND_STATEFULSET, .name = "x-worker-worker"};
    const struct hvd_failure service = {
        .type = HVD_FAILURE_FOREIGN, .kind = HVD_KIND_SERVICE, .name = "x-worker-worker"};
    struct hvd_entry *loser, *other;
    unsigned before;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("x", "u1", "1"));
    loser = b->last;
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("y", "u2", "2"));
    other = b->last;
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("x-worker", "u3", "3"));
    (void)put(b, HVD_KIND_STATEFULSET, CHILD("x-worker-worker", "s1", "4", "x-worker", "u3"));
    assert_int_equal(hvd_waiters_set_failure(&b->store, loser, &set), HVD_OK);
    assert_int_equal(hvd_waiters_set_failure(&b->store, loser, &service), HVD_OK);
    assert_int_equal(hvd_waiters_set_failure(&b->store, other, &service), HVD_OK);
    (void)put(b, HVD_KIND_STATEFULSET, CHILD("x-worker-worker", "s1", "5", "x-worker", "u3"));
    assert_int_equal(loser->n_failures, 2); /* a change is no removal */

    before = b->n_changes;
    hvd_store_remove(&b->store, HVD_KIND_STATEFULSET, "ns", "x-worker-worker", "s1");
    assert_int_equal(b->n_changes - before, 2); /* of the owner and of the one that waits */
    assert_int_equal(loser->n_failures, 1);
    assert_int_equal(loser->failures[0].kind, HVD_KIND_SERVICE);
    assert_int_equal(other->n_failures, 1);
}

static void the_removal_of_an_object_without_a_record_ends_a_conflict_too(void **state)
{
    struct bench *b = *state;
    const struct hvd_failure failure = {
        .type = HVD_FAILURE_FOREIGN, .kind = HVD_KIND_SERVICE, .name = "j"};
    const struct hvd_failure denied = {
        .type = HVD_FAILURE_DENIED, .kind = HVD_KIND_SERVICE, .name = "j", .message = "no"};
    unsigned before;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    assert_int_equal(hvd_waiters_set_failure(&b->store, b->last, &failure), HVD_OK);
    before = b->n_changes;
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "elsewhere", "j", "s1", true);
    hvd_store_miss(&b->store, HVD_KIND_CONFIGMAP, "ns", "j", "s1", true);
    assert_int_equal(b->n_changes, before);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", true);
    assert_int_equal(b->n_changes, before + 1);
    assert_int_equal(b->last->n_failures, 0);
    assert_int_equal(hvd_waiters_set_failure(&b->store, b->last, &denied), HVD_OK);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", true);
    assert_int_equal(b->n_changes, before + 1);
    assert_int_equal(b->last->n_failures, 1);
    assert_null(b->store.waiters); /* nobody waits: nothing is searched from now on */
}

static void jobs_that_go_wait_for_nothing(void **state)
{
    struct bench *b = *state;
    const struct hvd_failure failure = {
        .type = HVD_FAILURE_FOREIGN, .kind = HVD_KIND_SERVICE, .name = "other"};
    const char *const names[] = {"a", "b", "c"};
    struct hvd_entry *entries[3];

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("a", "u1", "1"));
    entries[0] = b->last;
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("b", "u2", "2"));
    entries[1] = b->last;
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("c", "u3", "3"));
    entries[2] = b->last;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(hvd_waiters_set_failure(&b->store, entries[i], &failure), HVD_OK);
    for (size_t i = 0; i < 2; i++) {
        const size_t k = i == 0 ? 1 : 2; /* in the middle of the list, then at its beginning */

        hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", names[k], NULL);
        assert_true(hvd_store_collect(&b->store, entries[k]));
    }
    assert_ptr_equal(b->store.waiters, entries[0]);
    hvd_waiters_wake(&b->store, HVD_KIND_SERVICE, "ns", "other");
    assert_int_equal(entries[0]->n_failures, 0);
}

static void objects_without_our_label_are_not_kept(void **state)
{
    struct bench *b = *state;

    assert_int_equal(put(b, HVD_KIND_SERVICE,
                         "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"u\","
                         "\"resourceVersion\":\"1\"}}"),
                     0);
    assert_int_equal(hvd_index_count(&b->store.entries), 0);
    assert_int_equal(hvd_index_count(&b->store.records), 0);
}

#define FOREIGN(name, uid, version, job)                                                           \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version                                                            \
    "\",\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","                        \
    "\"horovod.io/job-name\":\"" job "\"}}}"

static void foreign_objects_with_our_labels_cost_nothing(void **state)
{
    static const enum hvd_kind kinds[] = {HVD_KIND_SECRET,      HVD_KIND_SERVICE,
                                          HVD_KIND_STATEFULSET, HVD_KIND_CONFIGMAP,
                                          HVD_KIND_JOB,         HVD_KIND_POD};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(put(b, kinds[i], FOREIGN("j-hosts", "x", "1", "j")), 0);
        assert_int_equal(put(b, kinds[i], FOREIGN("x", "x", "2", "other")), 0);
    }
    assert_int_equal(hvd_index_count(&b->store.entries), 0);
    assert_int_equal(hvd_index_count(&b->store.records), 0);
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "3"));
    assert_int_equal(put(b, HVD_KIND_CONFIGMAP, FOREIGN("x", "x", "4", "j")), 0);
    assert_int_equal(put(b, HVD_KIND_STATEFULSET, FOREIGN("j-worker-x", "x", "5", "j")), 0);
    assert_int_equal(hvd_index_count(&b->store.records), 0);
}

#define RELEASED(role)                                                                             \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j-" role                                       \
    "\",\"uid\":\"r\",\"resourceVersion\":\"5\",\"labels\":{\"horovod.io/job-name\":\"j\"}},"      \
    "\"spec\":{\"serviceName\":\"j\",\"template\":{\"metadata\":{\"annotations\":{"                \
    "\"horovod.io/job-uid\":\"u1\"}}}}}"

/* A stripped Job has the labels of its template: the API server gives them to it. Where it is
 * listed before its HorovodJob, the answer to a look by name would count as older than that list.
 */
static void what_lost_its_owner_is_kept_until_its_job_comes(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_JOB, RELEASED("master"));
    (void)put(b, HVD_KIND_STATEFULSET, RELEASED("worker"));
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "6"));
    assert_int_equal(b->last->n_objects, 2);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_JOB, "ns", "j-master"));
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_STATEFULSET, "ns", "j-worker"));
}

static void what_stands_in_the_way_of_a_job_is_known_until_the_job_goes(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    assert_int_equal(put(b, HVD_KIND_CONFIGMAP, FOREIGN("j-hosts", "c", "2", "j")), 1);
    assert_int_equal(put(b, HVD_KIND_STATEFULSET, FOREIGN("j-worker", "w", "3", "j")), 1);
    assert_int_equal(put(b, HVD_KIND_SERVICE, CHILD("j", "s", "4", "j", "u1")), 1);
    assert_int_equal(b->last->n_objects, 3);
    /* One of ours that lost its owner, and one that found it. */
    assert_int_equal(put(b, HVD_KIND_SERVICE, FOREIGN("j", "s", "5", "j")), 1);
    assert_int_equal(put(b, HVD_KIND_CONFIGMAP, CHILD("j-hosts", "c", "6", "j", "u1")), 1);
    assert_int_equal(b->last->n_objects, 3);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "j", "u1");
    assert_int_equal(b->last->n_objects, 1);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_CONFIGMAP, "ns", "j-hosts"));
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_null(hvd_store_find(&b->store, HVD_KIND_STATEFULSET, "ns", "j-worker"));
}

static void a_version_that_is_known_is_told_from_another(void **state)
{
    static const struct {
        enum hvd_kind kind;
        const char *text;
        bool is_known;
    } rows[] = {
        {HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"), true},
        {HVD_KIND_HOROVODJOB, JOB("j", "u1", "2"), false},
        {HVD_KIND_HOROVODJOB, JOB("k", "u1", "1"), false},
        {HVD_KIND_SERVICE, CHILD("j", "s", "4", "j", "u1"), true},
        {HVD_KIND_SERVICE, CHILD("j", "s", "5", "j", "u1"), false},
        {HVD_KIND_SECRET, CHILD("j", "s", "4", "j", "u1"), false},
        {HVD_KIND_SERVICE, "{}", false},
        {HVD_KIND_SERVICE, "null", false},
    };
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_SERVICE, CHILD("j", "s", "4", "j", "u1"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cJSON *object = cJSON_Parse(rows[i].text);

        assert_int_equal(hvd_store_knows(&b->store, rows[i].kind, object), rows[i].is_known);
        cJSON_Delete(object);
    }
}

#define N_PODS 200

static void put_pod(struct bench *b, int i, int version)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p%d\",\"uid\":\"u%d\","
                   "\"resourceVersion\":\"%d\",\"labels\":{\"app.kubernetes.io/managed-by\":"
                   "\"horovod-operator\",\"horovod.io/job-name\":\"j\"},"
                   "\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"uid\":\"w\","
                   "\"controller\":true}]}}",
                   i, i, version);
    (void)put(b, HVD_KIND_POD, text);
}

static bool is_last_pod(const struct hvd_object *object)
{
    return strcmp(object->meta.name, "p199") == 0;
}

static bool is_no_pod(const struct hvd_object *object)
{
    return object->kind != HVD_KIND_POD;
}

static void records_that_are_tidied_need_less_memory_and_are_the_same(void **state)
{
    struct bench *b = *state;
    char name[16];
    long before;

    for (int i = 0; i < N_PODS; i++)
        put_pod(b, i, 100 + i);
    for (int i = 0; i < N_PODS; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        if (i % 5)
            hvd_store_remove(&b->store, HVD_KIND_POD, "ns", name, NULL);
    }
    before = hvd_mem_live();
    hvd_store_tidy(&b->store, 0);
    assert_true(hvd_mem_live() < before);
    for (int i = 0; i < N_PODS; i++) {
        const struct hvd_object *pod;

        (void)snprintf(name, sizeof(name), "p%d", i);
        pod = hvd_store_find(&b->store, HVD_KIND_POD, "ns", name);
        assert_int_equal(pod == NULL, i % 5 != 0);
        assert_true(!pod || strcmp(pod->meta.name, name) == 0);
        put_pod(b, i, 1000);
    }
    assert_int_equal(b->last->n_objects, N_PODS);
    assert_true(hvd_store_entry_any(b->last, is_last_pod));
    assert_false(hvd_store_entry_any(b->last, is_no_pod));
    assert_true(hvd_store_entry_has(b->last, HVD_KIND_POD));
    assert_false(hvd_store_entry_has(b->last, HVD_KIND_JOB));
    before = hvd_mem_live();
    hvd_store_tidy(&b->store, 0);
    hvd_store_tidy(&b->store, 0);
    assert_true(hvd_mem_live() <= before);
}

static void a_job_that_changes_is_the_new_one(void **state)
{
    struct bench *b = *state;

    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
    (void)put(b, HVD_KIND_HOROVODJOB, JOB("j", "u2", "2"));
    assert_string_equal(b->last->job.uid, "u2");
    assert_string_equal(b->last->job.resource_version, "2");
    assert_string_equal(b->last->job.spec.groups[0].name, "");
    assert_non_null(b->last->job.spec.text);
    assert_int_equal(b->store.n_by_state[HVD_JOB_NEW], 1);
}

/* As many as have begun and do not run; a job that another controller manages is none of ours. */
static void the_jobs_that_start_are_counted(void **state)
{
    static const struct {
        const char *managed_by, *status;
        size_t n;
    } cases[] = {
        {"", "", 1},          {"", "Pending", 1},    {"", "Starting", 1},
        {"", "Running", 0},   {"", "Restarting", 1}, {"", "Suspended", 0},
        {"", "Succeeded", 0}, {"a.b/c", "", 0},      {"a.b/c", "Pending", 0},
        {"", "Pending", 1},
    };
    struct bench *b = *state;
    char text[512];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"name\":\"j\",\"namespace\":\"n\",\"uid\":\"u\","
                       "\"resourceVersion\":\"%zu\"},\"spec\":{\"worker\":{\"replicas\":2},"
                       "\"image\":\"i\",\"managedBy\":\"%s\"},\"status\":{\"state\":\"%s\"}}",
                       i + 1, cases[i].managed_by[0] ? cases[i].managed_by : HVD_JOB_CONTROLLER,
                       cases[i].status);
        (void)put(b, HVD_KIND_HOROVODJOB, text);
        assert_int_equal(b->store.n_starting, cases[i].n);
    }
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "n", "j", "u");
    assert_int_equal(b->store.n_starting, 0);
}

static hvd_status_t fill(struct hvd_store *store, const cJSON *job, const cJSON *child)
{
    hvd_status_t st = hvd_store_put(store, HVD_KIND_HOROVODJOB, job, NULL);

    return st == HVD_OK ? hvd_store_put(store, HVD_KIND_SERVICE, child, NULL) : st;
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    cJSON *job = cJSON_Parse(JOB("j", "u1", "1"));
    cJSON *child = cJSON_Parse(CHILD("j", "s1", "2", "j", "u1"));

    (void)state;
    HVD_MEM_TORTURE({
        struct bench b = {0};
        hvd_status_t st;
        hvd_store_init(&b.store, &b.queue, on_changed, &b);
        st = fill(&b.store, job, child);
        assert_int_equal(st == HVD_OK, !hvd_mem_fired());
        hvd_store_fini(&b.store);
        hvd_queue_fini(&b.queue);
    });
    cJSON_Delete(job);
    cJSON_Delete(child);
}

struct replacement {
    struct bench bench; /* first: the store passes it to on_changed too */
    unsigned n;
    enum hvd_job_state before, after;
};

static void on_replaced(void *ctx, const struct hvd_job *before, const struct hvd_job *after)
{
    struct replacement *r = ctx;

    r->n++;
    r->before = before->status.state;
    r->after = after->status.state;
}

static void put_state(struct bench *b, const char *uid, int version, const char *state)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"name\":\"j\",\"namespace\":\"n\",\"uid\":\"%s\","
                   "\"resourceVersion\":\"%d\"},\"spec\":{\"worker\":{\"replicas\":2},"
                   "\"image\":\"i\"},\"status\":{\"state\":\"%s\"}}",
                   uid, version, state);
    (void)put(b, HVD_KIND_HOROVODJOB, text);
}

/* What became of a job from one version to the next is told once; of what was not seen, nothing. */
static void a_version_of_a_job_that_replaces_another_is_told_of(void **state)
{
    static struct replacement r;
    struct bench *b = &r.bench;

    (void)state;
    r = (struct replacement){0};
    hvd_store_init(&b->store, &b->queue, on_changed, &r);
    b->store.replaced = on_replaced;
    put_state(b, "u", 1, "Running");
    assert_int_equal(r.n, 0);
    put_state(b, "u", 2, "Succeeded");
    assert_int_equal(r.n, 1);
    assert_int_equal(r.before, HVD_JOB_RUNNING);
    assert_int_equal(r.after, HVD_JOB_SUCCEEDED);
    put_state(b, "u", 2, "Succeeded");
    put_state(b, "u", 1, "Running");
    assert_int_equal(r.n, 1);
    put_state(b, "another", 3, "Running");
    hvd_store_rewind(&b->store, HVD_KIND_HOROVODJOB);
    put_state(b, "another", 1, "Pending");
    assert_int_equal(r.n, 1);
    put_state(b, "another", 2, "Failed");
    assert_int_equal(r.n, 2);
    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    assert_int_equal(hvd_mem_live(), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_of_a_job_that_replaces_another_is_told_of),
        TEST(only_newer_versions_change_anything),
        TEST(after_a_rewind_each_object_is_what_the_server_has_now),
        TEST(after_a_rewind_an_equal_version_is_taken),
        TEST(children_wait_for_their_job),
        TEST(what_lost_its_owner_is_kept_until_its_job_comes),
        TEST(foreign_objects_with_our_labels_cost_nothing),
        TEST(what_stands_in_the_way_of_a_job_is_known_until_the_job_goes),
        TEST(a_version_that_is_known_is_told_from_another),
        TEST(a_job_may_start_when_enough_of_its_pods_are_ready),
        TEST(an_old_uid_removes_nothing_new),
        TEST(a_list_doubts_what_it_does_not_hold),
        TEST(a_deletion_without_a_timestamp_is_doubted_until_somebody_looks),
        TEST(an_end_that_was_announced_or_expected_is_believed),
        TEST(what_is_doubted_goes_with_its_job),
        TEST(pods_that_their_set_has_no_place_for_are_not_looked_for),
        TEST(an_answer_that_comes_after_the_end_brings_nothing_back),
        TEST(an_answer_without_a_version_is_not_taken_in),
        TEST(an_answer_from_before_the_end_settles_no_doubt),
        TEST(a_child_that_changes_its_job_moves),
        TEST(how_a_worker_ended_stays_until_it_was_looked_at),
        TEST(a_deletion_keeps_the_time_at_which_it_was_seen),
        TEST(a_master_that_was_seen_with_its_job_stays_one_without_any_label),
        TEST(a_pod_that_a_set_would_take_is_kept_until_its_job_comes),
        TEST(an_end_that_was_seen_or_nobody_looks_for_is_forgotten),
        TEST(failures_end_with_our_object_or_a_new_generation),
        TEST(blocked_jobs_go_on_as_soon_as_the_object_of_another_is_removed),
        TEST(the_removal_of_an_object_without_a_record_ends_a_conflict_too),
        TEST(jobs_that_go_wait_for_nothing),
        TEST(objects_without_our_label_are_not_kept),
        TEST(records_that_are_tidied_need_less_memory_and_are_the_same),
        TEST(a_job_that_changes_is_the_new_one),
        TEST(the_jobs_that_start_are_counted),
        TEST(every_failed_allocation_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
