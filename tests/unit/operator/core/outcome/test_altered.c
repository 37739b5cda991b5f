#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* What a webhook sets while a Job or a StatefulSet is made, and nobody can change any more. */

#define BY " as an admission webhook or another program set it when it was made: "
#define ADVICE "; except objects with the label horovod.io/job-name from that rule"

static const struct row {
    const char *kind;
    const char *patch;
    const char *more; /* members of spec */
    const char *text;
    bool is_end; /* of the job */
} rows[] = {
    {"Job", "{\"spec\":{\"completions\":2,\"parallelism\":2}}", "",
     "Job digits-master field spec.completions is 2, not 1," BY "another number of masters would "
     "run",
     true},
    {"Job", "{\"spec\":{\"completions\":0}}", "",
     "Job digits-master field spec.completions is 0, not 1," BY "another number of masters would "
     "run",
     true},
    {"Job", "{\"spec\":{\"completions\":null,\"parallelism\":2}}", "",
     "Job digits-master field spec.completions is absent, not 1," BY "another number of masters "
     "would run",
     true},
    {"Job", "{\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":\"OnFailure\"}}}}", "",
     "Job digits-master field spec.template.spec.restartPolicy is OnFailure, not Never," BY
     "a master that failed would be started again beside what is left of its ranks",
     true},
    {"Job", "{\"spec\":{\"completionMode\":\"Indexed\",\"backoffLimitPerIndex\":3}}", "",
     "Job digits-master field spec.backoffLimitPerIndex is 3, not absent," BY
     "the Job would start further masters by itself",
     true},
    {"Job", "{\"spec\":{\"completionMode\":\"Indexed\"}}", ",\"runMasterAsWorker\":true",
     "Job digits-master field spec.completionMode is Indexed, not NonIndexed," BY
     "the master's pod gets another host name",
     true},
    {"Job", "{\"spec\":{\"completionMode\":\"Indexed\"}}", "",
     "Job digits-master field spec.completionMode is Indexed, not NonIndexed," BY
     "the master's pod gets another host name",
     false},
    {"Job", "{\"spec\":{\"podFailurePolicy\":{\"rules\":[{\"action\":\"Ignore\"}]}}}", "",
     "Job digits-master field spec.podFailurePolicy is set, not absent," BY
     "a rule of it with the action Ignore lets the Job start a further master",
     false},
    {"Job", "{\"spec\":{\"managedBy\":\"example.com/queue\"}}", "",
     "Job digits-master field spec.managedBy is example.com/queue, not absent," BY
     "another controller has to make its pod",
     false},
    {"Job", "{\"spec\":{\"manualSelector\":true}}", "",
     "Job digits-master field spec.manualSelector is true, not absent," BY
     "it counts pods of others that have these labels",
     false},
    {"StatefulSet", "{\"spec\":{\"serviceName\":\"other\"}}", "",
     "StatefulSet digits-worker field spec.serviceName is other, not digits," BY
     "the names of the workers would lead nowhere",
     true},
    {"StatefulSet", "{\"spec\":{\"serviceName\":null}}", "",
     "StatefulSet digits-worker field spec.serviceName is absent, not digits," BY
     "the names of the workers would lead nowhere",
     true},
    {"StatefulSet", "{\"spec\":{\"podManagementPolicy\":\"OrderedReady\"}}", "",
     "StatefulSet digits-worker field spec.podManagementPolicy is OrderedReady, not Parallel," BY
     "workers start one after the other, each when the one before is Ready",
     false},
    {"StatefulSet", "{\"spec\":{\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"v\"}}]}}", "",
     "StatefulSet digits-worker field spec.volumeClaimTemplates is set, not absent," BY
     "their claims are not removed with the job",
     false},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void begin(struct world *w, const struct row *row)
{
    char spec[512];

    (void)snprintf(spec, sizeof(spec),
                   "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}%s}",
                   row->more);
    world_init(w, spec);
    w->alter_kind = row->kind;
    w->alter_patch = row->patch;
    world_settle(w);
}

static void what_makes_another_job_of_it_ends_it_and_the_rest_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *row = &rows[i];
        const bool is_job = strcmp(row->kind, "Job") == 0;
        struct world w;
        char text[1024];
        int n_writes;

        begin(&w, row);
        if (row->is_end) {
            (void)snprintf(text, sizeof(text), "%s" ADVICE, row->text);
            world_is_state(&w, "Failed");
            assert_string_equal(world_condition_text(&w, "Failed", "reason"), "ChildAltered");
            assert_string_equal(world_condition_text(&w, "Failed", "message"), text);
            assert_int_equal(world_events(&w, "Failed"), 1);
            assert_null(world_find(&w, "Job", "digits-master"));
            assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        } else {
            world_is_state(&w, "Running");
            (void)snprintf(text, sizeof(text), "%s; %s",
                           is_job ? "pod digits-master-abcde is running (attempt 1 of 1)"
                                  : "2 of 2 workers are ready",
                           row->text);
            assert_string_equal(
                world_condition_text(&w, is_job ? "Running" : "WorkersReady", "message"), text);
            assert_int_equal(world_events(&w, "FieldAltered"), 1);
        }
        n_writes = w.n_writes;
        w.now_ms += 3600000;
        world_settle(&w);
        assert_int_equal(w.n_writes, n_writes);
        world_fini(&w);
    }
}

/* Workers are known by their addresses then, and nothing depends on the Service. */
static void a_service_name_is_of_no_concern_to_workers_that_are_known_by_address(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"network\":{"
                   "\"hostNames\":\"IP\"}}");
    w.alter_kind = "StatefulSet";
    w.alter_patch = "{\"spec\":{\"serviceName\":\"other\"}}";
    world_settle(&w);
    world_is_state(&w, "Pending");
    assert_int_equal(world_events(&w, "FieldAltered"), 1);
    world_fini(&w);
}

/* The first of two masters had succeeded before the operator looked: the other one would run on. */
static void a_master_that_succeeded_beside_another_one_leaves_none(void **state)
{
    struct world w;

    (void)state;
    begin(&w, &rows[6]);
    world_end_master(&w, 0, "");
    assert_true(world_patch(&w, "Job", "digits-master", "{\"spec\":{\"completions\":2}}"));
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_null(world_find(&w, "Job", "digits-master"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_another_job_of_it_ends_it_and_the_rest_is_reported),
        cmocka_unit_test(a_service_name_is_of_no_concern_to_workers_that_are_known_by_address),
        cmocka_unit_test(a_master_that_succeeded_beside_another_one_leaves_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
