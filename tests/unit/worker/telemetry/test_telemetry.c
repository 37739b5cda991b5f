#include "tests/unit/support.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/worker/telemetry/support.h"
#include "worker/telemetry/telemetry.h"

static char dir[] = "/tmp/hvd-watch-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command) == 0 ? 0 : -1;
}

/* A path in the directory; of the last four calls. */
static const char *in_dir(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static struct hvd_request request(const char *name)
{
    return (struct hvd_request){.op = HVD_ALLREDUCE,
                                .dtype = HVD_FLOAT32,
                                .reduce = HVD_SUM,
                                .ndim = 1,
                                .shape = {10},
                                .name = hvd_strview_of(name)};
}

/* A tensor's whole life. */
static void live(struct hvd_telemetry *w, uint64_t id, const char *name)
{
    const struct hvd_request req = request(name);

    hvd_telemetry_submitted(w, id, &req, false);
    hvd_telemetry_ready(w, 1, &req, false);
    hvd_telemetry_plan(w);
    hvd_telemetry_agreed(w, id, &req, false);
    hvd_telemetry_started(w, id, &req, "MPI", false);
    hvd_telemetry_done(w, id, &req, 40, HVD_OK);
}

static int count_named(const cJSON *json, const char *name)
{
    const cJSON *item;
    int n = 0;

    cJSON_ArrayForEach(item, json)
    {
        const cJSON *found = cJSON_GetObjectItem(item, "name");
        n += found && strcmp(found->valuestring, name) == 0;
    }
    return n;
}

static void a_telemetry_that_is_not_there_is_fine(void **state)
{
    (void)state;
    live(NULL, 1, "t");
    hvd_telemetry_slept(NULL);
    hvd_telemetry_sent(NULL, 1);
    hvd_telemetry_received(NULL, 1);
    hvd_telemetry_lost(NULL, 1, "x");
    hvd_telemetry_stalled(NULL, 1, "x");
    hvd_telemetry_failed(NULL, "x");
    hvd_telemetry_destroy(NULL);
}

static void counters_count_what_the_hooks_saw(void **state)
{
    const struct hvd_telemetry_options options = {.rank = 0, .size = 2};
    const struct hvd_request req = request("bad");
    struct hvd_counts counts;
    struct hvd_telemetry *w = NULL;

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    live(w, 1, "a");
    live(w, 2, "b");
    hvd_telemetry_submitted(w, 3, &req, false);
    hvd_telemetry_done(w, 3, &req, 40, HVD_ERR_MISMATCH);
    hvd_telemetry_sent(w, 100);
    hvd_telemetry_received(w, 30);
    hvd_telemetry_received(w, 40);
    hvd_telemetry_slept(w);
    hvd_telemetry_stalled(w, 2, "x");
    hvd_telemetry_lost(w, 1, "x");
    hvd_telemetry_failed(w, "x");
    hvd_telemetry_counts(w, &counts);
    assert_int_equal(counts.submitted, 3);
    assert_int_equal(counts.completed, 2);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.tensors[HVD_ALLREDUCE], 2);
    assert_int_equal(counts.bytes[HVD_ALLREDUCE], 80);
    assert_int_equal(counts.plans, 2);
    assert_int_equal(counts.messages_sent, 1);
    assert_int_equal(counts.message_bytes_sent, 100);
    assert_int_equal(counts.messages_received, 2);
    assert_int_equal(counts.message_bytes_received, 70);
    assert_int_equal(counts.sleeps, 1);
    assert_int_equal(counts.stall_warnings, 1);
    assert_int_equal(counts.ranks_lost, 1);
    assert_int_equal(counts.job_failures, 1);
    hvd_telemetry_destroy(w);
}

static void a_timeline_holds_every_tensor_put_while_it_ran(void **state)
{
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 2, .timeline = in_dir("t.json"), .marks_cycles = true};
    struct hvd_telemetry *w = NULL;

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    for (uint64_t i = 1; i <= 2000; i++)
        live(w, i, i % 2 ? "odd \"tensor\"" : "even");
    hvd_telemetry_destroy(w);
    cJSON *json = parse_file(in_dir("t.json"));
    assert_non_null(json);
    assert_int_equal(count_named(json, "NEGOTIATE_ALLREDUCE"), 2000);
    assert_int_equal(count_named(json, "MPI_ALLREDUCE"), 2000);
    assert_int_equal(count_named(json, "CYCLE_START"), 2000);
    assert_int_equal(count_named(json, "process_name"), 3);
    cJSON_Delete(json);
}

static void a_timeline_starts_and_stops_while_the_job_runs(void **state)
{
    const struct hvd_telemetry_options options = {.rank = 0, .size = 1, .timeline = "DYNAMIC"};
    struct hvd_telemetry *w = NULL;

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    live(w, 1, "before");
    assert_int_equal(hvd_telemetry_stop_timeline(w, NULL), HVD_OK);
    for (int i = 0; i < 3; i++) {
        const char *path = in_dir(i == 1 ? "second.json" : "first.json");
        assert_int_equal(hvd_telemetry_start_timeline(w, path, false, NULL), HVD_OK);
        assert_int_equal(hvd_telemetry_start_timeline(w, path, false, NULL), HVD_OK);
        live(w, 2, "during");
        assert_int_equal(hvd_telemetry_stop_timeline(w, NULL), HVD_OK);
        live(w, 3, "between");
        cJSON *json = parse_file(path);
        assert_int_equal(count_named(json, "ALLREDUCE"), 1);
        cJSON_Delete(json);
    }
    assert_int_equal(hvd_telemetry_start_timeline(w, in_dir("third.json"), true, NULL), HVD_OK);
    live(w, 4, "t");
    assert_int_equal(hvd_telemetry_start_timeline(w, in_dir("fourth.json"), true, NULL), HVD_OK);
    hvd_telemetry_destroy(w);
    cJSON *json = parse_file(in_dir("third.json"));
    assert_int_equal(count_named(json, "CYCLE_START"), 1);
    cJSON_Delete(json);
    json = parse_file(in_dir("fourth.json"));
    assert_int_equal(cJSON_GetArraySize(json), 2);
    cJSON_Delete(json);
}

static void a_timeline_must_be_enabled_and_belongs_to_rank_0(void **state)
{
    struct hvd_telemetry_options options = {.rank = 1, .size = 2};
    struct hvd_telemetry *w = NULL;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    assert_int_equal(hvd_telemetry_start_timeline(w, in_dir("x"), false, &err), HVD_ERR_STATE);
    assert_int_equal(hvd_telemetry_stop_timeline(w, NULL), HVD_ERR_STATE);
    hvd_telemetry_destroy(w);

    options.timeline = in_dir("of1.json");
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    hvd_telemetry_destroy(w);
    assert_int_not_equal(access(in_dir("of1.json"), F_OK), 0);
    assert_int_not_equal(access(in_dir("of1.1.json"), F_OK), 0);

    options.all_ranks = true;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    hvd_telemetry_destroy(w);
    assert_int_equal(access(in_dir("of1.1.json"), F_OK), 0);

    options.all_ranks = false;
    options.timeline = in_dir("rank%d.json");
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    hvd_telemetry_destroy(w);
    assert_int_equal(access(in_dir("rank1.json"), F_OK), 0);
}

static void keep_line(void *ctx, const struct hvd_log_record *record)
{
    snprintf(ctx, 256, "%s", record->msg);
}

static void a_timeline_that_cannot_be_written_is_an_error_that_names_it(void **state)
{
    char logged[256] = "";
    const struct hvd_log log = {.sink = keep_line, .ctx = logged};
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 1, .timeline = "/nowhere/t.json", .log = &log};
    struct hvd_telemetry *w = NULL;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    assert_non_null(strstr(logged, "/nowhere/t.json: No such file"));
    live(w, 1, "t");
    assert_int_equal(hvd_telemetry_start_timeline(w, "/nowhere/u.json", false, &err),
                     HVD_ERR_SYSTEM);
    assert_non_null(strstr(err.msg, "/nowhere/u.json"));
    assert_int_equal(hvd_telemetry_start_timeline(w, in_dir("late.json"), false, NULL), HVD_OK);
    hvd_telemetry_destroy(w);
    assert_int_equal(access(in_dir("late.json"), F_OK), 0);
}

static void a_file_that_grows_too_large_is_set_aside(void **state)
{
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 1, .timeline = in_dir("big.json"), .timeline_bytes = 20000};
    struct hvd_telemetry *w = NULL;
    const char *aside = in_dir("big.json.1");

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    for (uint64_t i = 1; i < 1000000 && access(aside, F_OK) != 0; i++) {
        live(w, i, "t");
        usleep(100);
    }
    live(w, 1, "behind");
    hvd_telemetry_destroy(w);
    cJSON *json = parse_file(aside);
    assert_non_null(json);
    assert_true(count_named(json, "ALLREDUCE") > 10);
    cJSON_Delete(json);
    json = parse_file(in_dir("big.json"));
    assert_true(count_named(json, "process_name") >= 1);
    cJSON_Delete(json);
}

static bool file_has(const char *path, const char *words)
{
    char *text = read_file(path);
    const bool found = text && strstr(text, words);

    free(text);
    return found;
}

static void a_file_of_metrics_that_can_be_none_is_refused(void **state)
{
    static const char *const paths[][2] = {{"/", "/ is a folder"},
                                           {"/tmp/", "/tmp/ is a folder"},
                                           {"/dev/full", "/dev/full is a device"}};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const struct hvd_telemetry_options options = {
            .rank = 0, .size = 1, .metrics_file = paths[i][0]};
        struct hvd_telemetry *w = NULL;
        struct hvd_err err = {0};

        assert_int_equal(hvd_telemetry_create(&options, &w, &err), HVD_ERR_INVALID);
        assert_non_null(strstr(err.msg, paths[i][1]));
        assert_non_null(strstr(err.msg, "HOROVOD_METRICS_FILE"));
    }
}

/* A device is written, and never set aside: it is not ours to rename. */
static void a_timeline_may_be_a_device(void **state)
{
    const char *link = in_dir("device.json");
    const char *aside = in_dir("device.json.1");
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 1, .timeline = link, .timeline_bytes = 100};
    struct hvd_telemetry *w = NULL;

    (void)state;
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    for (uint64_t i = 1; i < 200; i++)
        live(w, i, "t");
    hvd_telemetry_destroy(w);
    assert_int_equal(access(link, F_OK), 0);
    assert_int_not_equal(access(aside, F_OK), 0);
    unlink(link);
}

static void metrics_are_written_while_something_happens_and_at_the_end(void **state)
{
    const struct hvd_telemetry_options options = {
        .rank = 2, .size = 4, .metrics_file = in_dir("m.prom")};
    struct hvd_telemetry *w = NULL;
    const char *path = in_dir("m.2.prom");

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    live(w, 1, "t");
    static const char bytes[] = "horovod_tensor_bytes_total{rank=\"2\",op=\"allreduce\"} 40\n";
    for (int i = 0; i < 1000 && !file_has(path, bytes); i++)
        usleep(10000);
    assert_true(file_has(path, bytes));
    live(w, 2, "t");
    live(w, 3, "t");
    hvd_telemetry_end(w);
    assert_true(file_has(path, "horovod_submitted_tensors_total{rank=\"2\"} 3\n"));
    live(w, 4, "t");
    hvd_telemetry_destroy(w);
    assert_true(file_has(path, "horovod_submitted_tensors_total{rank=\"2\"} 3\n"));
}

/* How often the writer's thread has gone to sleep; -1 when there is none. */
static long sleeps(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    long n = -1;

    while (tasks && (task = readdir(tasks))) {
        char path[300];
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        char *text = read_file(path);
        const char *line = text ? strstr(text, "\nvoluntary_ctxt_switches:") : NULL;
        if (line && strncmp(text, "Name:\thvd-watch\n", 16) == 0)
            n = strtol(line + 25, NULL, 10);
        free(text);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

static void an_idle_telemetry_does_not_wake_up_and_notices_the_next_tensor(void **state)
{
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 1, .timeline = in_dir("idle.json"), .metrics_file = in_dir("idle.prom")};
    struct hvd_telemetry *w = NULL;

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    live(w, 1, "t");
    /* It is asleep once a while passes, ten of its rounds, without a wake-up. */
    const struct timespec pause = {.tv_nsec = 200000000};
    bool is_quiet = false;
    for (int i = 0; i < 100 && !is_quiet; i++) {
        const long before = sleeps();
        nanosleep(&pause, NULL);
        is_quiet = before >= 0 && sleeps() == before;
    }
    assert_true(is_quiet);
    live(w, 2, "u");
    for (int i = 0; i < 1000 && !file_has(in_dir("idle.json"), "\"u\""); i++)
        usleep(10000);
    assert_true(file_has(in_dir("idle.json"), "\"u\""));
    hvd_telemetry_destroy(w);
}

static const char *host_of(const void *ctx, int rank)
{
    return ((const char *const *)ctx)[rank];
}

static void a_timeline_names_the_program_and_the_hosts_of_all_ranks(void **state)
{
    static const char *const hosts[] = {"a", "b", "a", NULL};
    struct hvd_telemetry_options options = {
        .size = 4, .host = host_of, .ctx = hosts, .timeline = in_dir("places.%d.json")};
    struct hvd_telemetry *w = NULL;

    (void)state;
    for (; options.rank < 2; options.rank++) {
        assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
        hvd_telemetry_destroy(w);
    }
    const char *path = in_dir("places.0.json");
    assert_true(file_has(
        path, "\"size\":4,\"host\":\"a\",\"program\":\"test_worker_telemetry_telemetry\"}"));
    assert_true(file_has(path, "\"host\":\"a\",\"ranks\":\"0, 2\"}"));
    assert_true(file_has(path, "\"host\":\"b\",\"ranks\":\"1\"}"));
    path = in_dir("places.1.json");
    assert_true(file_has(
        path, "\"size\":4,\"host\":\"b\",\"program\":\"test_worker_telemetry_telemetry\"}"));
    assert_false(file_has(path, "\"ranks\"")); /* rank 0's has them */
}

static void a_failure_dumps_the_last_events(void **state)
{
    const struct hvd_telemetry_options options = {
        .rank = 1, .size = 2, .flight_recorder = in_dir("flight.txt")};
    struct hvd_telemetry *w = NULL;
    const char *path = in_dir("flight.1.txt");

    (void)state;
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    live(w, 1, "grad.0");
    hvd_telemetry_lost(w, 0, "it was killed");
    assert_int_not_equal(access(path, F_OK), 0);
    hvd_telemetry_failed(w, "Rank 0 is lost");
    assert_true(file_has(path, "flight recorder of rank 1 of 2"));
    assert_true(file_has(path, "SUBMITTED ALLREDUCE float32 grad.0\n"));
    assert_true(file_has(path, "DONE      ALLREDUCE (ok) grad.0\n"));
    assert_true(file_has(path, "rank 0: it was killed\n"));
    assert_true(file_has(path, "FAILED     Rank 0 is lost\n"));
    hvd_telemetry_destroy(w);
}

static void running_out_of_memory_is_reported(void **state)
{
    static const char *const hosts[] = {"a"};
    const struct hvd_telemetry_options options = {.rank = 0,
                                                  .size = 1,
                                                  .host = host_of,
                                                  .ctx = hosts,
                                                  .timeline = in_dir("m.json"),
                                                  .flight_recorder = in_dir("m.txt"),
                                                  .metrics_file = in_dir("mm.prom")};

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_telemetry *w = NULL;
        hvd_status_t st = hvd_telemetry_create(&options, &w, NULL);
        if (st == HVD_OK)
            live(w, 1, "t"); /* what the thread fails to allocate is only missing */
        else
            assert_true(st == HVD_ERR_NOMEM && !w);
        hvd_telemetry_destroy(w);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_telemetry_that_is_not_there_is_fine),
        cmocka_unit_test(counters_count_what_the_hooks_saw),
        cmocka_unit_test(a_timeline_holds_every_tensor_put_while_it_ran),
        cmocka_unit_test(a_timeline_starts_and_stops_while_the_job_runs),
        cmocka_unit_test(a_timeline_must_be_enabled_and_belongs_to_rank_0),
        cmocka_unit_test(a_timeline_that_cannot_be_written_is_an_error_that_names_it),
        cmocka_unit_test(a_file_that_grows_too_large_is_set_aside),
        cmocka_unit_test(metrics_are_written_while_something_happens_and_at_the_end),
        cmocka_unit_test(a_file_of_metrics_that_can_be_none_is_refused),
        cmocka_unit_test(a_timeline_may_be_a_device),
        cmocka_unit_test(an_idle_telemetry_does_not_wake_up_and_notices_the_next_tensor),
        cmocka_unit_test(a_timeline_names_the_program_and_the_hosts_of_all_ranks),
        cmocka_unit_test(a_failure_dumps_the_last_events),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
