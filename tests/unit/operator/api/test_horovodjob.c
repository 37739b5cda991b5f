#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/api/object.h"
#include "operator/api/shape.h"

#define FILE_MAX 65536

/* A job of that name and spec (taken over). */
static cJSON *job_object(const char *name, cJSON *spec)
{
    cJSON *root = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"uid\":\"u\","
                              "\"resourceVersion\":\"5\",\"generation\":3}}");

    cJSON_AddStringToObject(cJSON_GetObjectItem(root, "metadata"), "name", name);
    cJSON_AddItemToObject(root, "spec", spec);
    return root;
}

static cJSON *smallest(void)
{
    return cJSON_Parse(
        "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"unknown\":{\"k\":1}}");
}

static cJSON *read_table(const char *path)
{
    static char text[FILE_MAX];
    FILE *file = fopen(path, "r");
    cJSON *table;
    size_t len;

    assert_non_null(file);
    len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    table = cJSON_Parse(text);
    assert_non_null(table);
    return table;
}

static void check_groups(const cJSON *rows, const struct hvd_job_spec *spec)
{
    const cJSON *row = NULL;
    size_t i = 0;

    assert_int_equal(cJSON_GetArraySize(rows), (int)spec->n_groups);
    cJSON_ArrayForEach(row, rows)
    {
        const struct hvd_worker_group *group = &spec->groups[i++];

        assert_string_equal(group->name, hvd_json_str(row, "name"));
        assert_int_equal(group->replicas, hvd_json_int(row, "replicas", -1));
        assert_int_equal(group->n_enough, hvd_json_int(row, "enough", -1));
        assert_int_equal(group->slots, hvd_json_int(row, "slots", -1));
    }
}

static void check_row(const cJSON *row)
{
    const char *invalid = hvd_json_str(row, "invalid");
    cJSON *object = job_object("digits", cJSON_Duplicate(hvd_json_get(row, "spec"), true));
    struct hvd_job job = {0};

    print_message("%s\n", hvd_json_str(row, "what"));
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    if (invalid) {
        assert_non_null(job.invalid);
        assert_non_null(strstr(job.invalid, invalid));
    } else {
        assert_null(job.invalid);
        assert_int_equal(job.spec.replicas, hvd_json_int(row, "replicas", -1));
        assert_int_equal(job.spec.groups[0].slots, hvd_json_int(row, "slots", -1));
        assert_int_equal(job.spec.backoff_limit, hvd_json_int(row, "backoffLimit", -1));
        assert_int_equal(job.spec.launch_port, hvd_json_int(row, "port", -1));
        assert_int_equal(job.spec.is_short_form, hvd_json_true(row, "short"));
        if (hvd_json_get(row, "groups"))
            check_groups(hvd_json_get(row, "groups"), &job.spec);
        assert_int_equal(job.spec.is_master_worker, hvd_json_get(row, "masterSlots") != NULL);
        if (hvd_json_get(row, "masterSlots"))
            assert_int_equal(job.spec.master_slots, hvd_json_int(row, "masterSlots", -1));
        if (hvd_json_get(row, "keys"))
            assert_string_equal(job.spec.topology_keys, hvd_json_str(row, "keys"));
    }
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

static void specs_are_decoded_or_named_as_wrong(void **state)
{
    cJSON *table = read_table(HVD_TEST_DATA "/operator/specs.json");
    const cJSON *row = NULL;

    (void)state;
    assert_true(cJSON_GetArraySize(table) > 10);
    cJSON_ArrayForEach(row, table)
    {
        check_row(row);
    }
    cJSON_Delete(table);
}

static void names_are_labels_of_at_most_45_characters(void **state)
{
    static const struct {
        const char *name;
        bool ok;
    } table[] = {{"a", true},
                 {"digits-2", true},
                 {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs", true},
                 {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst", false},
                 {"2digits", false},
                 {"digits-", false},
                 {"Digits", false},
                 {"digits.x", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        cJSON *object = job_object(table[i].name, smallest());
        struct hvd_job job = {0};

        assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
        assert_int_equal(job.invalid == NULL, table[i].ok);
        hvd_job_fini(&job);
        cJSON_Delete(object);
    }
}

/* A job as the API server sends it, with this spec. */
static void decode_text(const char *spec, struct hvd_job *out)
{
    char text[2048];
    cJSON *object = NULL;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":\"u\","
                   "\"resourceVersion\":\"5\"},\"spec\":%s}",
                   spec);
    assert_int_equal(hvd_object_read(HVD_KIND_HOROVODJOB, hvd_strview_of(text), &object), HVD_OK);
    assert_int_equal(hvd_job_decode(object, out, NULL), HVD_OK);
    hvd_json_drop(object);
}

/* A job whose master nests so deep, and whose template for the workers has so many bytes. */
static void decode_large(size_t depth, size_t size, struct hvd_job *out)
{
    const size_t room = 2 * depth + size + 2048;
    char *text = malloc(room);
    cJSON *object = NULL;
    int len;

    assert_non_null(text);
    len = snprintf(text, room,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":\"u\","
                   "\"resourceVersion\":\"5\"},\"spec\":{\"managedBy\":\"a.b/c\",\"master\":");
    memset(text + len, '[', depth);
    memset(text + len + depth, ']', depth);
    len += 2 * (int)depth;
    (void)snprintf(text + len, room - (size_t)len,
                   ",\"suspend\":true,\"worker\":{\"replicas\":2,\"template\":\"%0*d\"}},"
                   "\"status\":{\"state\":\"Running\",\"conditions\":[{\"type\":\"Succeeded\","
                   "\"status\":\"True\"}]}}",
                   (int)size, 0);
    assert_int_equal(hvd_object_read(HVD_KIND_HOROVODJOB, hvd_strview_of(text), &object), HVD_OK);
    assert_int_equal(hvd_job_decode(object, out, NULL), HVD_OK);
    hvd_json_drop(object);
    free(text);
}

static void a_job_of_which_a_part_is_not_read_names_it_and_keeps_the_rest(void **state)
{
    static const struct {
        size_t depth, size;
        const char *invalid;
    } table[] = {
        {1000, 1, "spec.master: nests 1002 levels deep, at most 500 are read"},
        {1, 3 << 20,
         "spec.worker: makes its part of the object larger than the 524288 bytes that are read"},
        {1 << 20, 3 << 20, "spec.master: nests 1048578 levels deep, at most 500 are read"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct hvd_job job = {0};

        decode_large(table[i].depth, table[i].size, &job);
        assert_string_equal(job.invalid, table[i].invalid);
        assert_true(job.spec.is_foreign && job.spec.is_suspended);
        assert_int_equal(job.status.state, HVD_JOB_RUNNING);
        assert_true(hvd_job_is_finished(&job.status));
        assert_true(hvd_job_size(&job) < 1024);
        hvd_job_fini(&job);
    }
}

static void what_can_be_read_can_be_written_into_a_child(void **state)
{
    struct hvd_job job = {0};
    struct hvd_jb jb = {0};
    cJSON *spec, *child = hvd_jb_root(&jb);
    char *text;

    (void)state;
    decode_large(HVD_PICK_DEPTH_MAX - 2, HVD_KIND_JOB_MAX / 2, &job);
    assert_null(strstr(job.invalid ? job.invalid : "", "nests"));
    spec = cJSON_Parse(job.spec.text);
    assert_non_null(spec);
    hvd_jb_copy(&jb, hvd_jb_object(&jb, hvd_jb_object(&jb, child, "spec"), "template"), "spec",
                spec);
    text = hvd_jb_print(&jb, child);
    assert_non_null(text);
    hvd_free(text);
    cJSON_Delete(spec);
    cJSON_Delete(child);
    hvd_job_fini(&job);
}

static void the_character_nul_in_a_spec_is_named_and_refused(void **state)
{
    static const struct {
        const char *spec, *path;
    } table[] = {
        {"{\"image\":\"i\",\"command\":[\"t\",\"a\\u0000b\"],\"worker\":{\"replicas\":2}}",
         "spec.command[1]"},
        {"{\"image\":\"i\",\"command\":[\"t\"],\"env\":[{\"name\":\"A\\u0000\",\"value\":\"\"}],"
         "\"worker\":{\"replicas\":2}}",
         "spec.env[0].name"},
        {"{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"master\"}]}}},"
         "\"worker\":{"
         "\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{\"name\":\"worker\",\"args\":["
         "\"\","
         "\"\\u0000\"]}]}}}}",
         "spec.worker.template.spec.containers[0].args[1]"},
        {"{\"master\":{\"template\":{\"metadata\":{\"annotations\":{\"a.b/"
         "c\":\"\\u0000\"}},\"spec\":{"
         "\"containers\":[{\"name\":\"master\"}]}}},\"worker\":{\"replicas\":2,\"template\":{"
         "\"spec\":{"
         "\"containers\":[{\"name\":\"worker\"}]}}}}",
         "spec.master.template.metadata.annotations[a.b/c]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct hvd_job job = {0};
        char expected[256];

        (void)snprintf(expected, sizeof(expected),
                       "%s: contains the character NUL (\\u0000), which no program can receive: "
                       "remove it",
                       table[i].path);
        decode_text(table[i].spec, &job);
        assert_non_null(job.invalid);
        assert_string_equal(job.invalid, expected);
        hvd_job_fini(&job);
    }
}

static void unknown_fields_survive_in_the_text(void **state)
{
    cJSON *object = job_object("digits", smallest());
    struct hvd_job job = {0};

    (void)state;
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_non_null(strstr(job.spec.text, "\"unknown\":{\"k\":1}"));
    assert_int_equal(job.generation, 3);
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

static void an_object_without_metadata_is_no_job(void **state)
{
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"a\"}}");
    struct hvd_job job = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_job_decode(object, &job, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "HorovodJob without metadata.namespace");
    assert_null(job.name);
    assert_int_equal(hvd_job_decode(NULL, &job, NULL), HVD_ERR_INVALID);
    cJSON_Delete(object);
}

static void set(struct hvd_job_status *status, enum hvd_truth truth, const char *message,
                int64_t now_s)
{
    const struct hvd_condition_update update = {HVD_COND_RUNNING, truth, "Reason", message};

    assert_int_equal(hvd_job_condition_set(status, &update, now_s, NULL), HVD_OK);
}

static void a_condition_keeps_its_time_until_its_truth_changes(void **state)
{
    struct hvd_job_status status = {0};
    const struct hvd_condition *running = &status.conditions[HVD_COND_RUNNING];

    (void)state;
    set(&status, HVD_TRUE, "a", 100);
    set(&status, HVD_TRUE, "b", 200);
    assert_int_equal(running->since_s, 100);
    assert_string_equal(running->message, "b");
    set(&status, HVD_FALSE, "c", 300);
    assert_int_equal(running->since_s, 300);
    hvd_job_status_fini(&status);
}

static void a_long_message_is_cut_between_characters(void **state)
{
    struct hvd_job_status status = {0};
    char message[1100];

    (void)state;
    memset(message, 'x', sizeof(message));
    memcpy(message + 1023, "\xc3\xa4", 2);
    message[1099] = '\0';
    set(&status, HVD_TRUE, message, 1);
    assert_int_equal(strlen(status.conditions[HVD_COND_RUNNING].message), 1023);
    hvd_job_status_fini(&status);
}

static void fill(struct hvd_job_status *status)
{
    *status = (struct hvd_job_status){.state = HVD_JOB_RESTARTING,
                                      .workers_desired = 4,
                                      .workers_ready = 3,
                                      .hosts = 3,
                                      .attempts = 2,
                                      .failures = 1,
                                      .interruptions = 4,
                                      .cleaned = 1,
                                      .failures_in_row = 3,
                                      .retry_s = 1700000009,
                                      .start_s = 1700000000,
                                      .observed_generation = 7};
    set(status, HVD_FALSE, "line \"one\"\n", 1700000001);
    assert_int_equal(hvd_job_set_worker_failure(
                         status, &(struct hvd_worker_failure){(char *)"worker w-1 is gone", 5,
                                                              1700000002, true, 137, true}),
                     HVD_OK);
    assert_int_equal(hvd_job_set_failure_log(status, "one\ntwo"), HVD_OK);
    assert_int_equal(hvd_job_set_master_uid(status, "m1"), HVD_OK);
}

/* Encodes a status, decodes it again and compares; false when memory ran out on the way. */
static bool round_trip(const struct hvd_job_status *status)
{
    const struct hvd_job from = {
        .namespace = "ns", .name = "a", .uid = "u", .resource_version = "5"};
    struct hvd_job to = {0};
    cJSON *object = job_object("a", smallest());
    cJSON *patch = NULL;
    char *text = NULL;
    bool done = false;

    if (object && !hvd_job_status_encode(&from, status, NULL, &text, NULL))
        patch = cJSON_Parse(text);
    if (patch) {
        assert_string_equal(hvd_json_str(patch, "metadata.uid"), "u");
        assert_string_equal(hvd_json_str(patch, "metadata.resourceVersion"), "5");
        assert_string_equal(hvd_json_str(patch, "status.ready"), "3/4");
        assert_true(
            cJSON_AddItemReferenceToObject(object, "status", cJSON_GetObjectItem(patch, "status")));
        done = hvd_job_decode(object, &to, NULL) == HVD_OK;
    }
    if (done)
        assert_true(hvd_job_status_equal(&to.status, status));
    hvd_job_fini(&to);
    hvd_free(text);
    cJSON_Delete(object);
    cJSON_Delete(patch);
    return done;
}

/* A small job as the API server and the scanner hand it on: the caller's to hvd_job_fini. */
static void decode_with(const char *status, const char *unreadable, struct hvd_job *out)
{
    char text[512];
    cJSON *object;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"u\","
                   "\"resourceVersion\":\"1\"},\"spec\":{\"image\":\"i\",\"command\":[\"c\"],"
                   "\"worker\":{\"replicas\":1}},\"status\":%s%s%s%s}",
                   status, unreadable ? ",\"unreadable\":\"" : "", unreadable ? unreadable : "",
                   unreadable ? "\"" : "");
    object = cJSON_Parse(text);
    assert_int_equal(hvd_job_decode(object, out, NULL), HVD_OK);
    cJSON_Delete(object);
}

static void the_definitions_default_is_no_status(void **state)
{
    static const struct {
        const char *status;
        enum hvd_job_state expected;
    } cases[] = {{"{\"state\":\"Pending\"}", HVD_JOB_NEW},
                 {"{\"state\":\"Pending\",\"observedGeneration\":1}", HVD_JOB_PENDING},
                 {"{\"state\":\"Running\"}", HVD_JOB_RUNNING}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_job job = {0};

        decode_with(cases[i].status, NULL, &job);
        assert_int_equal(job.status.state, cases[i].expected);
        hvd_job_fini(&job);
    }
}

static void a_status_that_cannot_be_read_ends_no_job_and_starts_none_again(void **state)
{
    static const struct {
        const char *trouble, *status;
        bool is_invalid, is_finished;
    } cases[] = {{"spec.worker: too deep", "{\"state\":\"Running\"}", true, false},
                 {"status.conditions: too large", "{\"state\":\"Running\"}", false, false},
                 {"status.conditions: too large", "{\"state\":\"Succeeded\"}", false, true},
                 {"status.conditions: too large", "{\"state\":\"Failed\"}", false, true}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_job job = {0};

        decode_with(cases[i].status, cases[i].trouble, &job);
        assert_int_equal(job.invalid != NULL, cases[i].is_invalid);
        assert_int_equal(hvd_job_is_finished(&job.status), cases[i].is_finished);
        assert_true(job.invalid || job.status.is_inexact);
        hvd_job_fini(&job);
    }
}

static void a_status_survives_the_api_server(void **state)
{
    struct hvd_job_status status;

    (void)state;
    fill(&status);
    assert_true(round_trip(&status));
    assert_int_equal(hvd_job_ended(&status), 5);
    assert_int_equal(hvd_job_set_worker_failure(&status, &(struct hvd_worker_failure){0}), HVD_OK);
    assert_int_equal(hvd_job_set_failure_log(&status, NULL), HVD_OK);
    assert_true(round_trip(&status));
    hvd_job_status_fini(&status);
}

/* Both have the same spec and status, each in memory of its own. */
static void assert_same(const struct hvd_job *a, const struct hvd_job *b)
{
    assert_string_equal(a->namespace, b->namespace);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->uid, b->uid);
    assert_string_equal(a->resource_version, b->resource_version);
    assert_string_equal(a->spec.text, b->spec.text);
    assert_string_equal(a->spec.topology_keys, b->spec.topology_keys);
    assert_string_equal(a->spec.image, b->spec.image);
    assert_string_equal(a->invalid, b->invalid);
    assert_ptr_not_equal(a->invalid, b->invalid);
    assert_int_equal(a->spec.n_groups, b->spec.n_groups);
    for (size_t i = 0; i < a->spec.n_groups; i++) {
        assert_string_equal(a->spec.groups[i].name, b->spec.groups[i].name);
        assert_int_equal(a->spec.groups[i].replicas, b->spec.groups[i].replicas);
    }
    assert_true(hvd_job_status_equal(&a->status, &b->status));
}

static void a_job_that_moves_is_the_same_and_owns_nothing(void **state)
{
    cJSON *object = job_object(
        "a", cJSON_Parse("{\"image\":\"i\",\"worker\":{\"replicas\":2},"
                         "\"workerGroups\":[{\"name\":\"a\",\"replicas\":1},{\"name\":\"b\","
                         "\"replicas\":1}],\"topologyKeys\":[\"zone\",\"rack\"]}"));
    struct hvd_job job = {0}, like = {0}, moved;
    void *block;
    size_t size;

    (void)state;
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_int_equal(hvd_job_decode(object, &like, NULL), HVD_OK);
    fill(&job.status);
    fill(&like.status);
    size = hvd_job_size(&job);
    block = hvd_malloc(size, 1);
    assert_non_null(block);
    hvd_job_move(&job, block, &moved);
    assert_null(job.name);
    assert_int_equal(hvd_job_size(&moved), size);
    assert_same(&moved, &like);
    hvd_job_fini(&like);
    hvd_free(block);
    cJSON_Delete(object);
    assert_int_equal(hvd_mem_live(), 0);
}

/* An image of any length fits into the status, and is cut between characters. */
static void a_long_image_is_cut_between_characters(void **state)
{
    char image[1024] = "";
    cJSON *spec = smallest(), *object;
    struct hvd_job job;

    (void)state;
    for (size_t len = 0; len < 600; len += 2)
        memcpy(image + len + 1, "\xC3\xA9", 3);
    image[0] = 'i';
    cJSON_ReplaceItemInObject(spec, "image", cJSON_CreateString(image));
    object = job_object("a", spec);
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    assert_int_equal(strlen(job.spec.image), 511);
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

static const struct hvd_attempt_end ended = {.number = 7,
                                             .reason = "MasterFailed",
                                             .message = "rank 1 failed",
                                             .log = "one\ntwo",
                                             .has_exit_code = true,
                                             .exit_code = 3,
                                             .at_s = 1000000000};

/* The member of status.attemptLogs in the patch that ends that attempt. */
static cJSON *attempt_logs(const struct hvd_attempt_end *end)
{
    const struct hvd_job job = {
        .namespace = "ns", .name = "a", .uid = "u", .resource_version = "5"};
    const struct hvd_job_status status = {.state = HVD_JOB_RESTARTING};
    char *text = NULL;
    cJSON *patch, *logs;

    assert_int_equal(hvd_job_status_encode(&job, &status, end, &text, NULL), HVD_OK);
    patch = cJSON_Parse(text);
    logs = cJSON_DetachItemFromObject(cJSON_GetObjectItem(patch, "status"), "attemptLogs");
    hvd_free(text);
    cJSON_Delete(patch);
    return logs;
}

static void the_end_of_an_attempt_is_added_and_the_one_that_is_too_many_removed(void **state)
{
    struct hvd_attempt_end end = ended;
    char text[3000];
    cJSON *logs = attempt_logs(&end);

    (void)state;
    assert_int_equal(cJSON_GetArraySize(logs), 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(logs, "2")));
    assert_string_equal(hvd_json_str(logs, "7.reason"), "MasterFailed");
    assert_string_equal(hvd_json_str(logs, "7.message"), "rank 1 failed");
    assert_string_equal(hvd_json_str(logs, "7.log"), "one\ntwo");
    assert_string_equal(hvd_json_str(logs, "7.time"), "2001-09-09T01:46:40Z");
    assert_int_equal(hvd_json_int(logs, "7.exitCode", 0), 3);
    cJSON_Delete(logs);

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    end =
        (struct hvd_attempt_end){.number = 5, .reason = "Suspended", .message = text, .log = text};
    logs = attempt_logs(&end);
    assert_int_equal(cJSON_GetArraySize(logs), 1);
    assert_int_equal(strlen(hvd_json_str(logs, "5.message")), 512);
    assert_int_equal(strlen(hvd_json_str(logs, "5.log")), 1024);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(logs, "5"), "exitCode")));
    cJSON_Delete(logs);

    end = (struct hvd_attempt_end){.number = 0};
    assert_null(attempt_logs(&end));
    assert_null(attempt_logs(NULL));
}

static void encode_and_decode(const cJSON *object, const struct hvd_job_status *status)
{
    struct hvd_job job = {0};
    struct hvd_job_status copy = {0};
    char *text = NULL;

    if (hvd_job_decode(object, &job, NULL) == HVD_OK) {
        hvd_status_t st = hvd_job_status_encode(&job, status, &ended, &text, NULL);

        if (st == HVD_OK)
            st = hvd_job_status_copy(status, &copy);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    } else {
        assert_true(hvd_mem_fired());
        assert_null(job.name);
    }
    hvd_free(text);
    hvd_job_status_fini(&copy);
    hvd_job_fini(&job);
}

static void every_allocation_may_fail(void **state)
{
    cJSON *object = job_object(
        "a", cJSON_Parse("{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},"
                         "\"workerGroups\":[{\"name\":\"a\",\"replicas\":1},{\"name\":\"b\","
                         "\"replicas\":1}],\"topologyKeys\":[\"zone\",\"rack\"]}"));
    struct hvd_job_status status;

    (void)state;
    cJSON_AddItemToObject(
        object, "status",
        cJSON_Parse("{\"state\":\"Running\",\"conditions\":[{\"type\":\"Running\","
                    "\"status\":\"True\",\"reason\":\"R\",\"message\":\"m\"}]}"));
    fill(&status);
    HVD_MEM_TORTURE(encode_and_decode(object, &status));
    hvd_job_status_fini(&status);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_are_decoded_or_named_as_wrong),
        cmocka_unit_test(names_are_labels_of_at_most_45_characters),
        cmocka_unit_test(a_job_of_which_a_part_is_not_read_names_it_and_keeps_the_rest),
        cmocka_unit_test(what_can_be_read_can_be_written_into_a_child),
        cmocka_unit_test(the_character_nul_in_a_spec_is_named_and_refused),
        cmocka_unit_test(unknown_fields_survive_in_the_text),
        cmocka_unit_test(an_object_without_metadata_is_no_job),
        cmocka_unit_test(a_condition_keeps_its_time_until_its_truth_changes),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(the_definitions_default_is_no_status),
        cmocka_unit_test(a_status_that_cannot_be_read_ends_no_job_and_starts_none_again),
        cmocka_unit_test(a_status_survives_the_api_server),
        cmocka_unit_test(a_long_image_is_cut_between_characters),
        cmocka_unit_test(a_job_that_moves_is_the_same_and_owns_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_end_of_an_attempt_is_added_and_the_one_that_is_too_many_removed),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
