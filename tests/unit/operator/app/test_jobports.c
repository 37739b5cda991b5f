#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/jobports.h"

/* A store as the event loop drives it: what frees a port assigns it, and each job that gets one is
 * counted. */
struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_port_range range;
    unsigned n_wakes; /* of jobs that got a port by the change of another */
    bool is_port_free;
    bool is_assigning;
    unsigned version;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    struct bench *b = ctx;

    b->n_wakes += b->is_assigning;
    b->is_port_free |= hvd_jobports_note(entry);
}

static int set_up(void **state)
{
    static struct bench bench;

    hvd_json_use_base_memory();
    bench = (struct bench){.range = {20000, 20001}};
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

static void put(struct bench *b, enum hvd_kind kind, const char *text)
{
    cJSON *doc = NULL;

    assert_int_equal(hvd_json_parse(text, &doc), HVD_OK);
    assert_int_equal(hvd_store_put(&b->store, kind, doc, NULL), HVD_OK);
    cJSON_Delete(doc);
}

/* A job on the nodes' network with more in its spec, and that status. */
static void put_job(struct bench *b, const char *name, const char *spec, const char *status)
{
    char text[1024];

    b->version++;
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"%s\","
                   "\"resourceVersion\":\"%u\",\"generation\":%u},\"spec\":{\"image\":\"i\","
                   "\"command\":[\"c\"],\"worker\":{\"replicas\":1},\"network\":{\"hostNetwork\":"
                   "true}%s},\"status\":{%s}}",
                   name, name, b->version, b->version, spec, status);
    put(b, HVD_KIND_HOROVODJOB, text);
}

static void put_worker(struct bench *b, const char *job)
{
    char text[1024];

    b->version++;
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s-worker-0\",\"uid\":\"%s-0\","
                   "\"resourceVersion\":\"%u\",\"labels\":{\"app.kubernetes.io/managed-by\":"
                   "\"horovod-operator\",\"horovod.io/job-name\":\"%s\",\"horovod.io/role\":"
                   "\"worker\"}},\"spec\":{\"subdomain\":\"%s\"},\"status\":{\"phase\":\"Running\"}"
                   "}",
                   job, job, b->version, job, job);
    put(b, HVD_KIND_POD, text);
}

static struct hvd_entry *entry_of(struct bench *b, const char *name)
{
    struct hvd_entry *entry;

    for (entry = hvd_store_next(&b->store, NULL); entry; entry = hvd_store_next(&b->store, entry)) {
        if (entry->has_job && strcmp(entry->job.name, name) == 0)
            return entry;
    }
    fail_msg("no job %s", name);
    return NULL;
}

static void assign(struct bench *b, const struct hvd_entry *asking)
{
    b->is_assigning = true;
    assert_int_equal(hvd_jobports_assign(&b->store, &b->range, true, asking), HVD_OK);
    b->is_assigning = false;
    b->is_port_free = false;
}

/* What the loop does on a reconcile: the port that is kept for the job. */
static int32_t ask(struct bench *b, const char *name)
{
    struct hvd_entry *entry = entry_of(b, name);

    if (entry->free_port == 0)
        assign(b, entry);
    return entry->free_port;
}

/* Two jobs hold the two ports, two wait: first `old`, then `young`. */
static void fill(struct bench *b)
{
    put_job(b, "a", "", "\"sshPort\":20000");
    put_job(b, "b", "", "\"sshPort\":20001");
    put_job(b, "young", "", "\"startTime\":\"2026-01-01T00:00:09Z\"");
    put_job(b, "old", "", "\"startTime\":\"2026-01-01T00:00:05Z\"");
    assert_int_equal(ask(b, "young"), 0);
    assert_int_equal(ask(b, "old"), 0);
    b->is_port_free = false;
    b->n_wakes = 0;
}

/* One port has become free: the job that has waited longest gets it and is woken, and no other. */
static void is_passed_on(struct bench *b, int32_t port)
{
    assert_true(b->is_port_free);
    assign(b, NULL);
    assert_int_equal(b->n_wakes, 1);
    assert_int_equal(entry_of(b, "old")->free_port, port);
    assert_int_equal(entry_of(b, "young")->free_port, 0);
    assign(b, NULL);
    assert_int_equal(b->n_wakes, 1);
}

#define CONDITION(type)                                                                            \
    ",\"conditions\":[{\"type\":\"" type                                                           \
    "\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"\",\"lastTransitionTime\":"             \
    "\"2025-01-01T00:00:00Z\"}]"

static void the_port_of_a_deleted_job_wakes_the_one_that_waited_longest(void **state)
{
    struct bench *b = *state;

    fill(b);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "a", "a");
    is_passed_on(b, 20000);
}

static void the_port_of_a_finished_job_is_free_once_its_workers_are_gone(void **state)
{
    struct bench *b = *state;

    put_worker(b, "a");
    fill(b);
    put_job(b, "a", "", "\"sshPort\":20000" CONDITION("Succeeded"));
    assert_false(b->is_port_free);
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "a-worker-0", "a-0");
    is_passed_on(b, 20000);
}

static void the_port_of_a_suspended_job_is_free_once_its_workers_are_gone(void **state)
{
    struct bench *b = *state;

    put_worker(b, "a");
    fill(b);
    put_job(b, "a", ",\"suspend\":true", "\"sshPort\":20000");
    put_job(b, "a", ",\"suspend\":true", "\"sshPort\":20000" CONDITION("Suspended"));
    assert_false(b->is_port_free);
    hvd_store_remove(&b->store, HVD_KIND_POD, "ns", "a-worker-0", "a-0");
    is_passed_on(b, 20000);
}

static void the_port_of_a_job_that_gets_another_one_is_free(void **state)
{
    struct bench *b = *state;

    fill(b);
    put_job(b, "b", ",\"ssh\":{\"port\":3000}", "\"sshPort\":20001");
    is_passed_on(b, 20001);
}

static void a_port_that_was_kept_for_a_job_that_ends_goes_to_the_next(void **state)
{
    struct bench *b = *state;

    fill(b);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "a", "a");
    is_passed_on(b, 20000);
    put_job(b, "old", ",\"suspend\":true", "\"startTime\":\"2026-01-01T00:00:05Z\"");
    assert_true(b->is_port_free);
    assign(b, NULL);
    assert_int_equal(entry_of(b, "old")->free_port, 0);
    assert_int_equal(entry_of(b, "young")->free_port, 20000);
    assert_int_equal(b->n_wakes, 2);
}

static void a_job_that_comes_does_not_pass_one_that_waits(void **state)
{
    struct bench *b = *state;

    fill(b);
    hvd_store_remove(&b->store, HVD_KIND_HOROVODJOB, "ns", "a", "a");
    put_job(b, "new", "", "");
    assert_int_equal(ask(b, "new"), 0);
    assert_int_equal(entry_of(b, "old")->free_port, 20000);
    assert_int_equal(b->n_wakes, 1);
}

static void a_port_is_kept_until_the_status_shows_it_and_frees_none_then(void **state)
{
    struct bench *b = *state;

    put_job(b, "a", "", "");
    put_job(b, "b", "", "");
    assert_in_range(ask(b, "a"), 20000, 20001);
    assert_in_range(ask(b, "b"), 20000, 20001);
    assert_int_not_equal(ask(b, "a"), ask(b, "b"));
    put_job(b, "a", "", ask(b, "a") == 20000 ? "\"sshPort\":20000" : "\"sshPort\":20001");
    assert_int_equal(entry_of(b, "a")->free_port, 0);
    assert_false(b->is_port_free);
    put_job(b, "c", "", "");
    assert_int_equal(ask(b, "c"), 0);
}

/* The order in which objects are listed, and the answers to what was asked before, play no part. */
static void after_a_restart_no_port_is_given_twice_and_the_order_is_the_same(void **state)
{
    struct bench *b = *state;

    put_job(b, "young", "", "\"startTime\":\"2026-01-01T00:00:09Z\"");
    put_job(b, "old", "", "\"startTime\":\"2026-01-01T00:00:05Z\"");
    put_job(b, "a", "", "\"sshPort\":20001");
    assert_int_equal(ask(b, "young"), 0);
    assert_int_equal(entry_of(b, "old")->free_port, 20000);
    hvd_jobports_forget(&b->store);
    assert_int_equal(entry_of(b, "old")->free_port, 0);
    put_job(b, "b", "", "\"sshPort\":20000"); /* what another operator did meanwhile */
    assert_int_equal(ask(b, "old"), 0);
    assert_int_equal(ask(b, "young"), 0);
}

static void hand_set_ports_of_jobs_without_pods_are_free(void **state)
{
    struct bench *b = *state;

    put_job(b, "s1", ",\"suspend\":true,\"ssh\":{\"port\":20000}", "");
    put_job(b, "s2", ",\"managedBy\":\"a.b/c\",\"ssh\":{\"port\":20001}", "");
    put_job(b, "a", "", "");
    put_job(b, "b", "", "");
    put_job(b, "c", "", "");
    assert_int_not_equal(ask(b, "a"), 0);
    assert_int_not_equal(ask(b, "b"), 0);
    assert_int_equal(ask(b, "c"), 0);
}

static struct bench *tortured;

static void try_assign(void)
{
    hvd_status_t st = hvd_jobports_assign(&tortured->store, &tortured->range, true, NULL);
    struct hvd_entry *entry = entry_of(tortured, "j");

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    assert_int_equal(entry->free_port != 0, st == HVD_OK);
    hvd_jobports_forget(&tortured->store);
}

static void without_memory_no_port_is_kept(void **state)
{
    tortured = *state;
    assert_int_equal(hvd_jobports_assign(&tortured->store, &tortured->range, true, NULL), HVD_OK);
    put_job(tortured, "j", "", "");
    HVD_MEM_TORTURE(try_assign());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_port_of_a_deleted_job_wakes_the_one_that_waited_longest),
        TEST(the_port_of_a_finished_job_is_free_once_its_workers_are_gone),
        TEST(the_port_of_a_suspended_job_is_free_once_its_workers_are_gone),
        TEST(the_port_of_a_job_that_gets_another_one_is_free),
        TEST(a_port_that_was_kept_for_a_job_that_ends_goes_to_the_next),
        TEST(a_job_that_comes_does_not_pass_one_that_waits),
        TEST(a_port_is_kept_until_the_status_shows_it_and_frees_none_then),
        TEST(after_a_restart_no_port_is_given_twice_and_the_order_is_the_same),
        TEST(hand_set_ports_of_jobs_without_pods_are_free),
        TEST(without_memory_no_port_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
