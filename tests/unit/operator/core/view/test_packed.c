#include "tests/unit/support.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/core/view/packed.h"

/* Packs into exactly the bytes that it takes, and unpacks: the bytes, the caller's to free. */
static char *pack(const struct hvd_object *object, struct hvd_object *out)
{
    const struct hvd_packed_key place = {object->kind, object->meta.namespace, object->meta.job};
    size_t n = hvd_packed_pack(object, NULL, 0);
    char *packed = malloc(n);

    assert_non_null(packed);
    assert_int_equal(hvd_packed_pack(object, packed, n), n);
    hvd_packed_unpack(packed, &place, out);
    return packed;
}

static struct hvd_object object_of(enum hvd_kind kind)
{
    return (struct hvd_object){.kind = kind,
                               .meta = {.namespace = (char *)"ns",
                                        .name = (char *)"j-worker-0",
                                        .uid = (char *)"u-1",
                                        .resource_version = (char *)"17",
                                        .job = (char *)"j",
                                        .owner_kind = (char *)"StatefulSet",
                                        .owner_name = (char *)"j",
                                        .owner_uid = (char *)"u-1",
                                        .role = HVD_ROLE_WORKER,
                                        .created_s = 1763769600,
                                        .is_deleting = true,
                                        .deletion_s = 1763769700,
                                        .finalizers = (char *)"example.com/a, orphan",
                                        .has_owners = true,
                                        .is_in_sight = true,
                                        .lost_labels = HVD_LOST_ROLE}};
}

static void assert_same_meta(const struct hvd_meta *a, const struct hvd_meta *b)
{
    assert_string_equal(a->namespace, b->namespace);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->uid, b->uid);
    assert_true(hvd_str_equal(a->job, b->job));
    assert_true(hvd_str_equal(a->resource_version, b->resource_version));
    assert_true(hvd_str_equal(a->owner_kind, b->owner_kind));
    assert_true(hvd_str_equal(a->owner_name, b->owner_name));
    assert_true(hvd_str_equal(a->owner_uid, b->owner_uid));
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->created_s, b->created_s);
    assert_int_equal(a->is_deleting, b->is_deleting);
    assert_int_equal(a->deletion_s, b->deletion_s);
    assert_true(hvd_str_equal(a->finalizers, b->finalizers));
    assert_int_equal(a->has_owners, b->has_owners);
    assert_int_equal(a->is_in_sight, b->is_in_sight);
    assert_int_equal(a->lost_labels, b->lost_labels);
}

static void all_of_a_pod_comes_back(void **state)
{
    struct hvd_object pod = object_of(HVD_KIND_POD), out;
    char **before[HVD_OBJECT_TEXTS_MAX], **after[HVD_OBJECT_TEXTS_MAX];
    char numbers[HVD_OBJECT_TEXTS_MAX][24];
    size_t n = hvd_packed_texts(&pod, before);
    char *packed;

    (void)state;
    for (size_t i = 8; i < n; i++) {
        *before[i] = numbers[i];
        (void)snprintf(numbers[i], sizeof(numbers[i]), "%zu", i);
    }
    pod.u.pod.phase = HVD_POD_FAILED;
    pod.u.pod.is_ready = pod.u.pod.is_killed = pod.u.pod.has_failed = true;
    pod.u.pod.started_s = INT64_MAX;
    pod.u.pod.deleted_s = INT64_MIN;
    pod.u.pod.grace_s = 30;
    pod.u.pod.going_ms = 1700000000001;
    pod.u.pod.ended_s = -1;
    pod.u.pod.exit_code = INT32_MIN;
    pod.u.pod.exit_signal = INT32_MAX;
    pod.u.pod.restarts = 128;
    pod.u.pod.is_init = true;
    pod.u.pod.stage = HVD_STAGE_READY;
    pod.u.pod.stage_s = 1700000000;
    pod.u.pod.deadline_s = INT32_MAX;
    packed = pack(&pod, &out);
    assert_same_meta(&out.meta, &pod.meta);
    assert_int_equal(hvd_packed_texts(&out, after), n);
    for (size_t i = 8; i < n; i++)
        assert_string_equal(*after[i], numbers[i]);
    assert_int_equal(out.u.pod.phase, HVD_POD_FAILED);
    assert_true(out.u.pod.is_ready && out.u.pod.is_killed && out.u.pod.has_failed);
    assert_true(out.u.pod.started_s == INT64_MAX && out.u.pod.deleted_s == INT64_MIN);
    assert_int_equal(out.u.pod.grace_s, 30);
    assert_true(out.u.pod.going_ms == 1700000000001);
    assert_int_equal(out.u.pod.ended_s, -1);
    assert_int_equal(out.u.pod.exit_code, INT32_MIN);
    assert_int_equal(out.u.pod.exit_signal, INT32_MAX);
    assert_int_equal(out.u.pod.restarts, 128);
    assert_true(out.u.pod.is_init && out.u.pod.stage == HVD_STAGE_READY);
    assert_int_equal(out.u.pod.stage_s, 1700000000);
    assert_true(out.u.pod.deadline_s == INT32_MAX);
    free(packed);
}

static void what_is_absent_stays_absent(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < HVD_N_KINDS; kind++) {
        struct hvd_object object = {
            .kind = (enum hvd_kind)kind,
            .meta = {.namespace = (char *)"", .name = (char *)"n", .uid = (char *)""}};
        char **texts[HVD_OBJECT_TEXTS_MAX];
        struct hvd_object out;
        char *packed = pack(&object, &out);
        size_t n = hvd_packed_texts(&out, texts);

        assert_same_meta(&out.meta, &object.meta);
        for (size_t i = 2, n_found = 0; i < n; i++) {
            n_found += *texts[i] != NULL;
            assert_true(n_found <= 1); /* the uid */
        }
        free(packed);
    }
}

static void all_of_the_children_comes_back(void **state)
{
    struct hvd_object job = object_of(HVD_KIND_JOB), set = object_of(HVD_KIND_STATEFULSET);
    struct hvd_object group = object_of(HVD_KIND_VOLCANO_PODGROUP), out;
    struct hvd_object service = object_of(HVD_KIND_SERVICE), map = object_of(HVD_KIND_CONFIGMAP);
    char *packed;

    (void)state;
    job.u.job.attempt = 3;
    job.u.job.workers = job.u.job.message = (char *)"4,2";
    job.u.job.scaled_down = (char *)"5 worker w";
    job.u.job.workers_hash = UINT64_MAX;
    job.u.job.is_failed = true;
    job.u.job.failed_s = 5;
    packed = pack(&job, &out);
    assert_true(out.u.job.attempt == 3 && out.u.job.is_failed && !out.u.job.is_complete);
    assert_string_equal(out.u.job.workers, "4,2");
    assert_string_equal(out.u.job.scaled_down, "5 worker w");
    assert_true(out.u.job.workers_hash == UINT64_MAX);
    assert_string_equal(out.u.job.message, "4,2");
    assert_int_equal(out.u.job.failed_s, 5);
    free(packed);
    set.u.statefulset.replicas = 10000;
    packed = pack(&set, &out);
    assert_int_equal(out.u.statefulset.replicas, 10000);
    free(packed);
    for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
        group.u.podgroup.fields[i] = UINT64_MAX - i;
    group.u.podgroup.is_pending = true;
    packed = pack(&group, &out);
    for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
        assert_true(out.u.podgroup.fields[i] == UINT64_MAX - i);
    assert_true(out.u.podgroup.is_pending);
    free(packed);
    service.u.service.publishes_not_ready = true;
    packed = pack(&service, &out);
    assert_true(out.u.service.publishes_not_ready && !out.u.service.is_headless);
    free(packed);
    map.u.configmap.data_hash = 1;
    packed = pack(&map, &out);
    assert_true(out.u.configmap.data_hash == 1);
    free(packed);
}

static void a_room_that_is_too_small_is_not_left(void **state)
{
    const struct hvd_object pod = object_of(HVD_KIND_POD);
    const size_t n = hvd_packed_pack(&pod, NULL, 0);

    (void)state;
    for (size_t room = 0; room < n; room++) {
        char *packed = malloc(room + 1);

        assert_non_null(packed);
        packed[room] = '#';
        assert_int_equal(hvd_packed_pack(&pod, packed, room), n);
        assert_int_equal(packed[room], '#');
        free(packed);
    }
}

static void a_string_is_kept_once(void **state)
{
    struct hvd_object pod = object_of(HVD_KIND_POD);
    size_t n;

    (void)state;
    pod.meta.deletion_s = 0;
    pod.meta.finalizers = NULL;
    n = hvd_packed_pack(&pod, NULL, 0);
    assert_true(n < 60);
    pod.u.pod.reason = (char *)"a reason of many words";
    n = hvd_packed_pack(&pod, NULL, 0);
    pod.u.pod.message = (char *)"a reason of many words";
    assert_int_equal(hvd_packed_pack(&pod, NULL, 0), n + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_pod_comes_back),
        cmocka_unit_test(what_is_absent_stays_absent),
        cmocka_unit_test(all_of_the_children_comes_back),
        cmocka_unit_test(a_room_that_is_too_small_is_not_left),
        cmocka_unit_test(a_string_is_kept_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
