/* Labels of ours that somebody edits: whatever the watches show then, the job goes on. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/api/rfc3339.h"
#include "tests/unit/operator/core/world.h"

/* What somebody does to an object. */
struct edit {
    const char *kind;
    const char *name;
    const char *label;
    const char *value; /* NULL: removed */
};

#define EDITS_OF(kind, name)                                                                       \
    {kind, name, HVD_LABEL_MANAGED_BY, "argocd"}, {kind, name, HVD_LABEL_MANAGED_BY, NULL},        \
        {kind, name, HVD_LABEL_JOB, "another"},                                                    \
    {                                                                                              \
        kind, name, HVD_LABEL_JOB, NULL                                                            \
    }

static const struct edit of_children[] = {
    EDITS_OF("Secret", "digits-ssh"),
    EDITS_OF("Service", "digits"),
    EDITS_OF("ConfigMap", "digits-hosts"),
    EDITS_OF("StatefulSet", "digits-worker"),
    EDITS_OF("Job", "digits-master"),
    {"StatefulSet", "digits-worker", HVD_LABEL_ROLE, "other"},
    {"Job", "digits-master", HVD_LABEL_ROLE, NULL},
};
static const struct edit of_pods[] = {
    EDITS_OF("Pod", "digits-worker-1"),
    EDITS_OF("Pod", "digits-master-abcde"),
    {"Pod", "digits-worker-0", HVD_LABEL_ROLE, "master"},
    {"Pod", "digits-worker-0", HVD_LABEL_ROLE, NULL},
    {"Pod", "digits-master-abcde", HVD_LABEL_ROLE, "worker"},
};

#define N(edits) (sizeof(edits) / sizeof((edits)[0]))
#define WRITES_MAX 3 /* the labels, the event, and perhaps the status */

static const char *label(const struct world *w, const struct edit *edit)
{
    const cJSON *object = world_find(w, edit->kind, edit->name);

    return cJSON_GetStringValue(
        (cJSON *)hvd_json_get(hvd_json_at(object, "metadata.labels"), edit->label));
}

/* The object lives with the label it had, the workers are those of before, and the edit was told of
 * once. */
static void check_restored(const struct world *w, const struct edit *edit, const char *const was[2])
{
    const cJSON *object = world_find(w, edit->kind, edit->name);

    assert_non_null(object);
    assert_string_equal(hvd_json_str(object, "metadata.uid"), was[0]);
    assert_string_equal(label(w, edit), was[1]);
    assert_int_equal(world_events(w, "LabelsRestored"), 1);
    assert_int_equal(world_events(w, "Restarting"), 0);
    assert_non_null(world_find(w, "Pod", "digits-worker-0"));
    assert_non_null(world_find(w, "Pod", "digits-worker-1"));
}

static void try_edit(const struct edit *edit, bool is_away)
{
    struct world w;
    char uid[32], value[64];
    int n_writes;

    print_message("%s %s: %s=%s%s\n", edit->kind, edit->name, edit->label,
                  edit->value ? edit->value : "", is_away ? ", nobody looks" : "");
    world_start(&w, "");
    world_is_state(&w, "Running");
    (void)snprintf(uid, sizeof(uid), "%s",
                   hvd_json_str(world_find(&w, edit->kind, edit->name), "metadata.uid"));
    (void)snprintf(value, sizeof(value), "%s", label(&w, edit));
    n_writes = w.n_writes;
    world_label(&w, edit->kind, edit->name, edit->label, edit->value);
    if (is_away) {
        while (world_controllers(&w))
            continue;
        world_restart(&w);
    }
    world_settle(&w);
    world_is_state(&w, "Running");
    check_restored(&w, edit, (const char *const[2]){uid, value});
    assert_true(w.n_writes <= n_writes + WRITES_MAX);
    world_end_master(&w, 0, "");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_null(world_find(&w, "Pod", "digits-worker-1"));
    world_fini(&w);
}

static void every_child_gets_its_labels_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(of_children); i++)
        try_edit(&of_children[i], false);
}

static void every_child_gets_back_what_was_edited_while_nobody_looked(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(of_children); i++)
        try_edit(&of_children[i], true);
}

static void every_pod_gets_its_labels_back_and_its_set_adopts_it_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(of_pods); i++)
        try_edit(&of_pods[i], false);
}

static void every_pod_gets_back_what_was_edited_while_nobody_looked(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(of_pods); i++)
        try_edit(&of_pods[i], true);
}

/* Seconds in which the operator and the controllers act. */
static void pass_time(struct world *w, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        (void)world_pass(w);
        while (world_controllers(w))
            (void)world_pass(w);
        w->now_ms += 1000;
    }
}

/* A job of which no status was written yet, with a worker or a master that waits for its kubelet.
 */
static void begin(struct world *w, bool is_master)
{
    world_init(w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w->is_kubelet_off = !is_master;
    while (!world_find(w, "Pod", is_master ? "digits-master-abcde" : "digits-worker-1")) {
        (void)world_pass(w);
        (void)world_controllers(w);
    }
    w->is_kubelet_off = true;
    assert_string_equal(world_status(w, "state"), "");
}

/* Those of ours, or all, also the Job controller's, which lets go the pod then. */
static void lose_labels(struct world *w, const char *pod, bool is_all, const char *kind)
{
    static const char *const ours[] = {HVD_LABEL_GROUP, HVD_LABEL_ROLE, HVD_LABEL_MANAGED_BY,
                                       HVD_LABEL_JOB};

    if (is_all)
        (void)world_patch(w, "Pod", pod,
                          "{\"metadata\":{\"labels\":{\"batch.kubernetes.io/controller-uid\":null,"
                          "\"controller-uid\":null,\"batch.kubernetes.io/job-name\":null,"
                          "\"job-name\":null}}}");
    for (size_t i = 0; i < N(ours); i++)
        world_label(w, kind, pod, ours[i], NULL);
}

/* Whoever sees it, or not: the job goes on with the pod that it has. */
static void a_pod_that_loses_all_labels_before_the_first_status_gets_them_back(void **state)
{
    static const char *const pods[] = {"digits-worker-1", "digits-master-abcde"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *pod = pods[i % 2];
        struct world w;
        char uid[32];

        print_message("%s%s\n", pod, i / 2 ? ", nobody looks" : "");
        begin(&w, i % 2);
        (void)snprintf(uid, sizeof(uid), "%s",
                       hvd_json_str(world_find(&w, "Pod", pod), "metadata.uid"));
        lose_labels(&w, pod, false, "Pod");
        if (i / 2) {
            while (world_controllers(&w))
                continue;
            world_restart(&w);
        }
        pass_time(&w, 60);
        w.is_kubelet_off = false;
        pass_time(&w, 60);
        world_is_state(&w, "Running");
        assert_string_equal(hvd_json_str(world_find(&w, "Pod", pod), "metadata.uid"), uid);
        assert_int_equal(world_events(&w, "LabelsRestored"), 1);
        assert_string_equal(world_status(&w, "ready"), "2/2");
        world_end_master(&w, 0, "");
        pass_time(&w, 60);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static int n_masters(const struct world *w)
{
    const cJSON *object = NULL;
    int n = 0;

    cJSON_ArrayForEach(object, w->objects)
    {
        n += hvd_str_equal(hvd_json_str(object, "kind"), "Pod") &&
             hvd_str_has_prefix(hvd_json_str(object, "metadata.name"), "digits-master-");
    }
    return n;
}

/* Its Job lets it go and makes another one. It does not run on beside that: the attempt has ended,
 * whether it had run or not. */
static void a_master_that_loses_every_label_before_the_first_status_ends_its_attempt(void **state)
{
    static const char pod[] = "digits-master-abcde";

    (void)state;
    for (int has_run = 0; has_run < 2; has_run++) {
        struct world w;

        begin(&w, true);
        w.is_kubelet_off = !has_run;
        while (world_controllers(&w))
            continue;
        assert_int_equal(n_masters(&w), 1);
        lose_labels(&w, pod, true, "Pod");
        while (world_controllers(&w))
            continue;
        assert_int_equal(n_masters(&w), 2);
        w.is_kubelet_off = false;
        pass_time(&w, 60);
        world_is_state(&w, "Failed");
        assert_non_null(strstr(world_condition_text(&w, "Failed", "message"),
                               "pod digits-master-abcde was let go by Job digits-master"));
        assert_int_equal(n_masters(&w), 0);
        world_fini(&w);
    }
}

/* Nobody knows whether the pod is there: nothing is decided, and that is told, with a wait between
 * two tries that grows. */
static void what_may_not_be_read_holds_its_job_up_and_is_told(void **state)
{
    static const struct {
        const char *unread, *kind, *name;
    } cases[] = {{"Pod", "Pod", "digits-worker-0"},
                 {"Pod", "Pod", "digits-master-abcde"},
                 {"StatefulSet", "StatefulSet", "digits-worker"},
                 {"Job", "Job", "digits-master"}};

    (void)state;
    for (size_t i = 0; i < 2 * N(cases); i++) {
        const char *kind = cases[i / 2].kind, *name = cases[i / 2].name;
        char expected[128];
        struct world w;
        int n_sent;

        print_message("%s%s\n", name, i % 2 ? " before the first status" : "");
        if (i % 2)
            begin(&w, true);
        else
            world_start(&w, "");
        w.is_kubelet_off = false;
        w.unread_kind = cases[i / 2].unread;
        lose_labels(&w, name, false, kind);
        pass_time(&w, 600);
        (void)snprintf(expected, sizeof(expected),
                       "%s %s cannot be read, will be tried again, and the job waits", kind, name);
        assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"), expected));
        assert_int_equal(world_events(&w, "Denied"), 1);
        assert_string_equal(world_status(&w, "state"), i % 2 ? "Pending" : "Running");
        assert_in_range(w.n_looked, 20, 60);
        n_sent = w.n_sent;
        pass_time(&w, 600);
        assert_int_equal(w.n_sent, n_sent);
        w.unread_kind = NULL;
        pass_time(&w, 120);
        world_is_state(&w, "Running");
        assert_null(strstr(world_condition_text(&w, "WorkersReady", "message"), "cannot be read"));
        assert_int_equal(world_events(&w, "LabelsRestored"), 1);
        world_end_master(&w, 0, "");
        pass_time(&w, 60);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

/* A job that is made, suspended and resumed, restarted and done, in good order. */
static void an_ordinary_life_needs_no_look(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_master(&w, 1, "");
    world_settle(&w);
    world_is_state(&w, "Running");
    world_edit(&w, "{\"worker\":{\"replicas\":1}}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    world_end_master(&w, 0, "");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_int_equal(w.n_looked, 0);
    world_restart(&w);
    world_settle(&w);
    assert_int_equal(w.n_looked, 0);
    world_fini(&w);
}

/* While a job is suspended its Job's and its set's labels are edited, and nobody looks. */
static void what_is_hidden_is_taken_down_with_the_rest(void **state)
{
    static const struct edit edits[] = {{"Job", "digits-master", HVD_LABEL_JOB, NULL},
                                        {"StatefulSet", "digits-worker", HVD_LABEL_JOB, NULL},
                                        {"Pod", "digits-worker-1", HVD_LABEL_JOB, NULL},
                                        {"Pod", "digits-worker-1", HVD_LABEL_MANAGED_BY, "x"}};

    (void)state;
    for (size_t i = 0; i < 2 * N(edits); i++) {
        const struct edit *edit = &edits[i / 2];
        struct world w;

        print_message("%s %s\n", edit->kind, i % 2 ? "suspended" : "restarting");
        world_start(&w, ",\"backoffLimit\":1");
        if (i % 2)
            world_edit(&w, "{\"suspend\":true}");
        else
            world_end_master(&w, 1, "");
        (void)world_pass(&w);
        world_label(&w, edit->kind, edit->name, edit->label, edit->value);
        world_restart(&w);
        if (i % 2) {
            world_settle(&w);
            world_is_state(&w, "Suspended");
            assert_null(world_find(&w, "Job", "digits-master"));
            assert_null(world_find(&w, "Pod", "digits-worker-0"));
            assert_null(world_find(&w, "Pod", "digits-worker-1"));
            world_edit(&w, "{\"suspend\":false}");
        }
        world_settle(&w);
        world_is_state(&w, "Running");
        world_end_master(&w, 0, "");
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static void a_set_that_is_hidden_does_not_outlive_its_job(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.deny_kind = "StatefulSet";
    world_end_master(&w, 0, "");
    for (int i = 0; i < 4; i++)
        (void)world_pass(&w);
    world_label(&w, "StatefulSet", "digits-worker", HVD_LABEL_JOB, NULL);
    world_restart(&w);
    w.deny_kind = NULL;
    world_settle(&w);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_null(world_find(&w, "Pod", "digits-worker-0"));
    world_fini(&w);
}

/* A set that lets a pod go, and is deleted before anybody has seen that. */
static void a_pod_without_its_set_goes_with_the_job(void **state)
{
    struct world w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        world_start(&w, "");
        if (i)
            world_end_master(&w, 0, "");
        else
            world_edit(&w, "{\"suspend\":true}");
        (void)world_pass(&w);
        world_label(&w, "Pod", "digits-worker-1", HVD_LABEL_MANAGED_BY, NULL);
        while (world_controllers(&w))
            continue;
        world_remove(&w, "StatefulSet", "digits-worker");
        world_settle(&w);
        world_is_state(&w, i ? "Succeeded" : "Suspended");
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_null(world_find(&w, "Pod", "digits-worker-1"));
        world_fini(&w);
    }
}

static void a_worker_of_a_group_gets_its_groups_label_back(void **state)
{
    const struct edit edit = {"Pod", "digits-worker-big-0", HVD_LABEL_GROUP, "small"};
    struct world w;

    (void)state;
    world_start(&w, ",\"workerGroups\":[{\"name\":\"big\",\"replicas\":1}]");
    world_is_state(&w, "Running");
    world_label(&w, edit.kind, edit.name, edit.label, edit.value);
    while (world_controllers(&w))
        continue;
    assert_null(hvd_json_at(world_find(&w, edit.kind, edit.name), "metadata.ownerReferences"));
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(label(&w, &edit), "big");
    assert_non_null(hvd_json_at(world_find(&w, edit.kind, edit.name), "metadata.ownerReferences"));
    assert_int_equal(world_events(&w, "LabelsRestored"), 1);
    world_fini(&w);
}

static void labels_are_put_back_while_a_job_waits_for_its_workers(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    world_is_state(&w, "Pending");
    for (size_t i = 0; i < N(of_children) - 6; i++) /* there is no master yet */
        world_label(&w, of_children[i].kind, of_children[i].name, of_children[i].label,
                    of_children[i].value);
    world_label(&w, "Pod", "digits-worker-0", HVD_LABEL_JOB, NULL);
    w.is_kubelet_off = false;
    world_settle(&w);
    world_is_state(&w, "Running");
    for (size_t i = 0; i < N(of_children) - 6; i++)
        assert_non_null(label(&w, &of_children[i]));
    assert_int_equal(world_events(&w, "Restarting"), 0);
    world_fini(&w);
}

/* The first owner is the Secret that is there. */
static void stamp_owner(const struct world *w, cJSON *meta)
{
    cJSON *owner = cJSON_GetArrayItem(hvd_json_get(meta, "ownerReferences"), 0);

    if (owner)
        cJSON_AddStringToObject(
            owner, "uid", hvd_json_str(world_find(w, "Secret", "digits-ssh"), "metadata.uid"));
}

/* Whoever edits its owner reference away does not take it from the job: its pods go on to count. */
static void a_set_and_a_job_get_their_owner_back(void **state)
{
    static const char *const table[][2] = {{"StatefulSet", "digits-worker"},
                                           {"Job", "digits-master"}};

    (void)state;
    for (size_t i = 0; i < 2 * N(table); i++) {
        const char *kind = table[i / 2][0], *name = table[i / 2][1];
        struct world w;
        cJSON *meta;
        int n_writes;

        print_message("%s %s%s\n", kind, name, i % 2 ? " beside another owner" : "");
        world_start(&w, "");
        meta = (cJSON *)hvd_json_get(world_find(&w, kind, name), "metadata");
        cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
        if (i % 2)
            cJSON_AddItemToObject(meta, "ownerReferences",
                                  cJSON_Parse("[{\"kind\":\"Secret\",\"name\":\"digits-ssh\"}]"));
        stamp_owner(&w, meta);
        n_writes = w.n_writes;
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(world_events(&w, "OwnerRestored"), 1);
        assert_int_equal(world_events(&w, "Conflict"), 0);
        meta = (cJSON *)hvd_json_get(world_find(&w, kind, name), "metadata");
        assert_int_equal(cJSON_GetArraySize(hvd_json_get(meta, "ownerReferences")), i % 2 ? 2 : 1);
        assert_string_equal(world_status(&w, "ready"), "2/2");
        assert_int_equal(w.n_writes, n_writes + 2);
        world_end_master(&w, 0, "");
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        world_fini(&w);
    }
}

/* Of the owner reference the uid counts: an operator of another version of the API made the child.
 */
static void children_whose_owner_has_another_api_version_stay_as_they_are(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, "");
    n_sent = w.n_sent;
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        const cJSON *child = world_find(&w, world_children[i][0], world_children[i][1]);
        cJSON *owner = cJSON_GetArrayItem(hvd_json_at(child, "metadata.ownerReferences"), 0);

        assert_string_equal(hvd_json_str(owner, "apiVersion"), "horovod.io/v1beta1");
        assert_true(cJSON_ReplaceItemInObjectCaseSensitive(owner, "apiVersion",
                                                           cJSON_CreateString("horovod.io/v1")));
    }
    world_restart(&w);
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(w.n_sent, n_sent);
    world_end_master(&w, 0, "");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    world_fini(&w);
}

/* Whether the annotations that the operator reads are there again. */
static void check_marks(const struct world *w, const char *kind, const char *name)
{
    const cJSON *annotations =
        hvd_json_get(hvd_json_get(world_find(w, kind, name), "metadata"), "annotations");
    const bool is_set = strcmp(kind, "StatefulSet") == 0;

    assert_non_null(hvd_json_get(annotations, "horovod.io/job-uid"));
    assert_true(!is_set == !!hvd_json_get(annotations, "horovod.io/attempt"));
    assert_true(!is_set == !!hvd_json_get(annotations, "horovod.io/workers"));
    assert_true(is_set == !!hvd_json_get(annotations, "horovod.io/spec-hash"));
}

static void strip(struct world *w, const char *const child[2], int how)
{
    static const char *const members[] = {"ownerReferences", "annotations", "labels"};
    cJSON *meta = (cJSON *)hvd_json_get(world_find(w, child[0], child[1]), "metadata");

    for (int i = 0; i < (how & 1 ? 3 : 2); i++)
        cJSON_DeleteItemFromObjectCaseSensitive(meta, members[i]);
    if (how & 1) /* no watch shows it any more */
        world_restart(w);
}

/* kubectl replace with a bare manifest: of all metadata nothing but the name is left, and what the
 * job is doing goes on, to whatever end. */
static void a_set_and_a_job_that_lose_all_metadata_stay_the_jobs(void **state)
{
    static const char *const table[][2] = {{"StatefulSet", "digits-worker"},
                                           {"Job", "digits-master"}};

    (void)state;
    for (int i = 0; i < 2 * 2 * 4; i++) {
        const char *const *child = table[i / 8];
        const int end = i % 4; /* success, failure, suspension, suspension at once */
        struct world w;

        print_message("%s, %d\n", child[0], i % 8);
        world_start(&w, "");
        strip(&w, child, i / 4 % 2);
        if (end == 3)
            world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        assert_int_equal(world_events(&w, "Conflict"), 0);
        if (end < 3) {
            assert_int_equal(world_events(&w, "OwnerRestored"), 1);
            check_marks(&w, child[0], child[1]);
            world_is_state(&w, "Running");
        }
        if (end < 2)
            world_end_master(&w, end, "");
        else
            world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        world_is_state(&w, end == 0 ? "Succeeded" : end == 1 ? "Failed" : "Suspended");
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        if (end < 2) {
            assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        } else {
            assert_string_equal(world_condition(&w, "Suspended"), "True");
            assert_null(world_find(&w, "Job", "digits-master"));
            assert_null(world_find(&w, "Pod", "digits-master-abcde"));
        }
        world_fini(&w);
    }
}

/* The status has noted its uid, whoever claims it; another Job of that name is not the job's. */
static void a_job_whose_uid_is_noted_is_the_jobs_whoever_claims_it(void **state)
{
    (void)state;
    for (int is_noted = 0; is_noted < 2; is_noted++) {
        struct world w;
        cJSON *meta, *owner;

        world_start(&w, "");
        meta = (cJSON *)hvd_json_get(world_find(&w, "Job", "digits-master"), "metadata");
        owner = cJSON_GetArrayItem(hvd_json_get(meta, "ownerReferences"), 0);
        cJSON_ReplaceItemInObjectCaseSensitive(owner, "kind", cJSON_CreateString("Secret"));
        stamp_owner(&w, meta);
        cJSON_ReplaceItemInObjectCaseSensitive(
            owner, "uid",
            cJSON_CreateString(
                hvd_json_str(world_find(&w, "Secret", "digits-ssh"), "metadata.uid")));
        if (!is_noted)
            cJSON_ReplaceItemInObjectCaseSensitive(meta, "uid", cJSON_CreateString("another"));
        world_settle(&w);
        assert_int_equal(world_events(&w, "OwnerRestored"), is_noted);
        assert_int_equal(world_events(&w, "Conflict"), !is_noted);
        world_fini(&w);
    }
}

/* A worker that lost every label before the master was started, and that its set has let go. */
static void a_worker_without_any_label_is_found_when_its_job_is_suspended(void **state)
{
    struct world w;

    (void)state;
    begin(&w, true);
    assert_true(world_patch(&w, "Pod", "digits-worker-1",
                            "{\"metadata\":{\"labels\":null,\"ownerReferences\":null}}"));
    world_restart(&w);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    assert_null(world_find(&w, "Pod", "digits-worker-1"));
    world_fini(&w);
}

/* One write, or two in either order, takes labels and owner at once: the annotation is left. */
static void try_release(const char *const child[2], const char *const edit[2], bool is_away)
{
    const char *kind = child[0], *name = child[1];
    struct world w;
    char uid[32];
    cJSON *meta;

    print_message("%s %s=%s%s\n", name, edit[0], edit[1] ? edit[1] : "",
                  is_away ? ", nobody looks" : "");
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    if (strcmp(kind, "PodGroup") == 0)
        w.settings.gang = HVD_GANG_PLUGINS;
    world_settle(&w);
    world_is_state(&w, "Running");
    meta = (cJSON *)hvd_json_get(world_find(&w, kind, name), "metadata");
    (void)snprintf(uid, sizeof(uid), "%s", hvd_json_str(meta, "uid"));
    cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
    world_label(&w, kind, name, edit[0], edit[1]);
    if (is_away)
        world_restart(&w);
    world_settle(&w);
    world_is_state(&w, "Running");
    meta = (cJSON *)hvd_json_get(world_find(&w, kind, name), "metadata");
    assert_string_equal(hvd_json_str(meta, "uid"), uid);
    assert_string_equal(
        cJSON_GetStringValue((cJSON *)hvd_json_get(hvd_json_get(meta, "labels"), HVD_LABEL_JOB)),
        "digits");
    assert_int_equal(cJSON_GetArraySize(hvd_json_get(meta, "ownerReferences")), 1);
    assert_int_equal(world_events(&w, "OwnerRestored"), 1);
    assert_int_equal(world_events(&w, "LabelsRestored"), 1);
    assert_int_equal(world_events(&w, "Restarting") + world_events(&w, "Conflict"), 0);
    assert_string_equal(world_status(&w, "ready"), "2/2");
    world_end_master(&w, 0, "");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    world_fini(&w);
}

static void a_child_without_owner_and_label_gets_both_back(void **state)
{
    static const char *const children[][2] = {
        {"StatefulSet", "digits-worker"}, {"Job", "digits-master"}, {"PodGroup", "digits"}};
    static const char *const edits[][2] = {
        {HVD_LABEL_JOB, NULL}, {HVD_LABEL_JOB, "another"}, {HVD_LABEL_MANAGED_BY, "argocd"}};

    (void)state;
    for (size_t i = 0; i < N(children) * N(edits); i++) {
        try_release(children[i / N(edits)], edits[i % N(edits)], false);
        if (i / N(edits) < 2 || edits[i % N(edits)][1]) /* no PodGroup is looked for by its name */
            try_release(children[i / N(edits)], edits[i % N(edits)], true);
    }
}

/* What an earlier job of this name left, which was deleted without its children, is not taken,
 * however short the time between the two. An older operator does not write whose an object is. */
static void what_an_earlier_job_has_left_is_somebody_elses(void **state)
{
    static const char *const names[][2] = {
        {"StatefulSet", "digits-worker"}, {"Job", "digits-master"}, {"PodGroup", "digits"}};
    static const struct {
        const char *made_for; /* NULL: it does not tell */
        int later_s;          /* than the job */
        bool is_taken;
    } cases[] = {
        {"another uid", -1, false}, {"another uid", 0, false}, {"another uid", 9, false},
        {NULL, -1, false},          {NULL, 0, false},          {NULL, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < N(names) * N(cases); i++) {
        const char *kind = names[i / N(cases)][0], *name = names[i / N(cases)][1];
        const char *made_for = cases[i % N(cases)].made_for;
        const int64_t at_s = cases[i % N(cases)].later_s;
        char time[HVD_RFC3339_SIZE];
        cJSON *meta, *annotations, *of_template;
        struct world w;

        print_message("%s, %zu\n", kind, i % N(cases));
        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        if (i / N(cases) == 2)
            w.settings.gang = HVD_GANG_PLUGINS;
        world_settle(&w);
        meta = (cJSON *)hvd_json_get(world_find(&w, kind, name), "metadata");
        annotations = (cJSON *)hvd_json_get(meta, "annotations");
        assert_string_equal(hvd_json_get(annotations, "horovod.io/job-uid")->valuestring,
                            hvd_json_str(world_find(&w, "HorovodJob", "digits"), "metadata.uid"));
        hvd_rfc3339_format(hvd_rfc3339_parse(hvd_json_str(world_find(&w, "HorovodJob", "digits"),
                                                          "metadata.creationTimestamp")) +
                               at_s,
                           time);
        cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
        cJSON_ReplaceItemInObjectCaseSensitive(meta, "creationTimestamp", cJSON_CreateString(time));
        of_template =
            (cJSON *)hvd_json_at(world_find(&w, kind, name), "spec.template.metadata.annotations");
        cJSON_DeleteItemFromObjectCaseSensitive(annotations, "horovod.io/job-uid");
        cJSON_DeleteItemFromObjectCaseSensitive(of_template, "horovod.io/job-uid");
        if (i / N(cases) == 1 && !cases[i % N(cases)].is_taken) /* the status notes the job's own */
            cJSON_ReplaceItemInObjectCaseSensitive(meta, "uid", cJSON_CreateString("earlier"));
        if (made_for)
            cJSON_AddStringToObject(annotations, "horovod.io/job-uid", made_for);
        if (made_for && of_template)
            cJSON_AddStringToObject(of_template, "horovod.io/job-uid", made_for);
        world_settle(&w);
        assert_int_equal(world_events(&w, "OwnerRestored"), cases[i % N(cases)].is_taken);
        assert_int_equal(world_events(&w, "Conflict"), !cases[i % N(cases)].is_taken);
        world_fini(&w);
    }
}

static void what_is_gone_is_looked_for_once(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_remove(&w, "Job", "digits-master");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Restarting"), 1);
    assert_int_equal(w.n_looked, 1);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_gets_its_labels_back),
        cmocka_unit_test(every_child_gets_back_what_was_edited_while_nobody_looked),
        cmocka_unit_test(every_pod_gets_its_labels_back_and_its_set_adopts_it_again),
        cmocka_unit_test(every_pod_gets_back_what_was_edited_while_nobody_looked),
        cmocka_unit_test(a_pod_that_loses_all_labels_before_the_first_status_gets_them_back),
        cmocka_unit_test(a_master_that_loses_every_label_before_the_first_status_ends_its_attempt),
        cmocka_unit_test(what_may_not_be_read_holds_its_job_up_and_is_told),
        cmocka_unit_test(an_ordinary_life_needs_no_look),
        cmocka_unit_test(what_is_hidden_is_taken_down_with_the_rest),
        cmocka_unit_test(a_set_that_is_hidden_does_not_outlive_its_job),
        cmocka_unit_test(a_pod_without_its_set_goes_with_the_job),
        cmocka_unit_test(a_worker_of_a_group_gets_its_groups_label_back),
        cmocka_unit_test(labels_are_put_back_while_a_job_waits_for_its_workers),
        cmocka_unit_test(a_set_and_a_job_get_their_owner_back),
        cmocka_unit_test(children_whose_owner_has_another_api_version_stay_as_they_are),
        cmocka_unit_test(a_set_and_a_job_that_lose_all_metadata_stay_the_jobs),
        cmocka_unit_test(a_job_whose_uid_is_noted_is_the_jobs_whoever_claims_it),
        cmocka_unit_test(a_worker_without_any_label_is_found_when_its_job_is_suspended),
        cmocka_unit_test(a_child_without_owner_and_label_gets_both_back),
        cmocka_unit_test(what_an_earlier_job_has_left_is_somebody_elses),
        cmocka_unit_test(what_is_gone_is_looked_for_once),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
