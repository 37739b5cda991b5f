/* Writers that undo what the operator writes: what such a fight costs, and what the job reports. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/pass/plan.h"
#include "operator/core/writes/denial.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS 1000
#define MINUTE_MS 60000
#define SHORT                                                                                      \
    12 /* requests that a fight may cost in its first 10 minutes, and in each later hour */

/* A fight is measured for 10 minutes, and for an hour afterwards. That takes minutes with
 * sanitizers, which find nothing in the hour that is not in the minutes. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define N_PERIODS 1
#else
#define N_PERIODS 2
#endif

/* Another writer: a merge patch of the object that it wants to hold, or NULL: the object shall not
 * be there; or an object that shall be there. */
struct stranger {
    enum hvd_repair repair;
    const char *kind;
    const char *name;
    const char *patch;
    const char *object;
    const char *more;  /* members of spec */
    int n_sent;        /* requests in 10 minutes; 0: SHORT */
    const char *text;  /* what the condition begins with */
    const char *label; /* the other writer changes this label, to "other" */
    bool has_cluster;  /* controllers must run meanwhile */
    bool is_early;     /* from the job's creation on */
    bool ends_job;     /* by what controllers do then */
};

#define MANAGED_BY(what)                                                                           \
    "{\"metadata\":{\"labels\":{\"app.kubernetes.io/managed-by\":\"" what "\"}}}"
#define LABELS(kind_, name_)                                                                       \
    {                                                                                              \
        .repair = HVD_REPAIR_LABELS, .kind = kind_, .name = name_, .patch = MANAGED_BY("argocd"),  \
        .text = kind_ " default/" name_ " field metadata.labels: changed again by "                \
    }
#define LABEL(kind_, name_, label_)                                                                \
    {                                                                                              \
        .repair = HVD_REPAIR_LABELS, .kind = kind_, .name = name_, .label = label_,                \
        .text = kind_ " default/" name_ " field metadata.labels: changed again by "                \
    }
#define GONE(which, kind_, name_)                                                                  \
    {                                                                                              \
        .repair = which, .kind = kind_, .name = name_,                                             \
        .text = kind_ " default/" name_ ": deleted by another program after each creation"         \
    }
#define CHANGED(which, kind_, name_, field, patch_)                                                \
    {                                                                                              \
        .repair = which, .kind = kind_, .name = name_, .patch = patch_,                            \
        .text = kind_ " default/" name_ " field " field ": changed again by "                      \
    }

/* The controller removes workers for it. */
#define FEWER(replicas)                                                                            \
    {                                                                                              \
        .repair = HVD_REPAIR_REPLICAS, .kind = "StatefulSet", .name = "digits-worker",             \
        .patch = "{\"spec\":{\"replicas\":" replicas "}}",                                         \
        .text = "StatefulSet default/digits-worker field spec.replicas: changed again by ",        \
        .ends_job = true, .n_sent = 24                                                             \
    }

static const struct stranger strangers[] = {
    GONE(HVD_REPAIR_EXISTENCE, "Service", "digits"),
    GONE(HVD_REPAIR_EXISTENCE, "Secret", "digits-ssh"),
    GONE(HVD_REPAIR_EXISTENCE, "ConfigMap", "digits-hosts"),
    GONE(HVD_REPAIR_EXISTENCE, "PodGroup", "digits"),
    {.repair = HVD_REPAIR_EXISTENCE,
     .kind = "StatefulSet",
     .name = "digits-worker-old",
     .object =
         "{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"metadata\":{\"name\":"
         "\"digits-worker-old\",\"namespace\":\"default\",\"labels\":{"
         "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":"
         "\"digits\",\"horovod.io/"
         "role\":\"worker\"},\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"digits\","
         "\"uid\":\"uid-1\",\"controller\":true}]},\"spec\":{\"replicas\":0}}",
     .text = "StatefulSet default/digits-worker-old: made again by "},
    {.repair = HVD_REPAIR_MASTER,
     .kind = "Job",
     .name = "digits-master",
     .has_cluster = true,
     .text = "Job default/digits-master: deleted by another program after each creation"},
    LABELS("Service", "digits"),
    LABELS("Secret", "digits-ssh"),
    LABELS("ConfigMap", "digits-hosts"),
    LABELS("StatefulSet", "digits-worker"),
    LABELS("Job", "digits-master"),
    LABELS("Pod", "digits-worker-0"),
    LABELS("Pod", "digits-master-abcde"),
    LABELS("PodGroup", "digits"),
    LABEL("Service", "digits", HVD_LABEL_JOB),
    LABEL("StatefulSet", "digits-worker", HVD_LABEL_JOB),
    LABEL("StatefulSet", "digits-worker", HVD_LABEL_ROLE),
    LABEL("Job", "digits-master", HVD_LABEL_JOB),
    LABEL("Job", "digits-master", HVD_LABEL_ROLE),
    LABEL("Pod", "digits-worker-0", HVD_LABEL_JOB),
    LABEL("Pod", "digits-worker-0", HVD_LABEL_ROLE),
    LABEL("Pod", "digits-worker-1", HVD_LABEL_MANAGED_BY),
    LABEL("Pod", "digits-master-abcde", HVD_LABEL_JOB),
    LABEL("Pod", "digits-master-abcde", HVD_LABEL_ROLE),
    CHANGED(HVD_REPAIR_OWNER, "StatefulSet", "digits-worker", "metadata.ownerReferences",
            "{\"metadata\":{\"ownerReferences\":null}}"),
    CHANGED(HVD_REPAIR_OWNER, "Job", "digits-master", "metadata.ownerReferences",
            "{\"metadata\":{\"ownerReferences\":null}}"),
    CHANGED(HVD_REPAIR_OWNER, "PodGroup", "digits", "metadata.ownerReferences",
            "{\"metadata\":{\"ownerReferences\":null}}"),
    CHANGED(HVD_REPAIR_SELECTOR, "Service", "digits", "spec.selector",
            "{\"spec\":{\"selector\":{\"tier\":\"web\"}}}"),
    CHANGED(HVD_REPAIR_SELECTOR, "Service", "digits", "spec.selector",
            "{\"spec\":{\"selector\":null}}"),
    CHANGED(HVD_REPAIR_UNREADY, "Service", "digits", "spec.publishNotReadyAddresses",
            "{\"spec\":{\"publishNotReadyAddresses\":false}}"),
    CHANGED(HVD_REPAIR_TYPE, "Service", "digits", "spec.type",
            "{\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"a.example\",\"clusterIP\":"
            "null}}"),
    CHANGED(HVD_REPAIR_ADDRESS, "Service", "digits", "spec.clusterIP",
            "{\"spec\":{\"type\":\"ClusterIP\",\"clusterIP\":\"10.0.0.7\"}}"),
    CHANGED(HVD_REPAIR_ADDRESS, "Service", "digits", "spec.clusterIP",
            "{\"spec\":{\"type\":\"NodePort\",\"clusterIP\":\"10.0.0.7\"}}"),
    CHANGED(HVD_REPAIR_ORDINALS, "StatefulSet", "digits-worker", "spec.ordinals",
            "{\"spec\":{\"ordinals\":{\"start\":3}}}"),
    CHANGED(HVD_REPAIR_TTL, "Job", "digits-master", "spec.ttlSecondsAfterFinished",
            "{\"spec\":{\"ttlSecondsAfterFinished\":0}}"),
    CHANGED(HVD_REPAIR_DEADLINE, "Job", "digits-master", "spec.activeDeadlineSeconds",
            "{\"spec\":{\"activeDeadlineSeconds\":100}}"),
    CHANGED(HVD_REPAIR_BACKOFF, "Job", "digits-master", "spec.backoffLimit",
            "{\"spec\":{\"backoffLimit\":6}}"),
    CHANGED(HVD_REPAIR_REPLICAS, "StatefulSet", "digits-worker", "spec.replicas",
            "{\"spec\":{\"replicas\":3}}"),
    FEWER("1"),
    FEWER("0"),
    CHANGED(HVD_REPAIR_STRATEGY, "StatefulSet", "digits-worker", "spec.updateStrategy",
            "{\"spec\":{\"updateStrategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{"
            "\"partition\":0}}}}"),
    CHANGED(HVD_REPAIR_HOSTS, "ConfigMap", "digits-hosts", "data",
            "{\"data\":{\"hostfile\":\"elsewhere slots=9\\n\"}}"),
    CHANGED(HVD_REPAIR_HOSTS, "ConfigMap", "digits-hosts", "data", "{\"data\":null}"),
    CHANGED(HVD_REPAIR_HOSTS, "ConfigMap", "digits-hosts", "data",
            "{\"data\":{\"hostfile\":null},\"binaryData\":{\"hostfile\":\"eA==\"}}"),
    {.repair = HVD_REPAIR_IMMUTABLE,
     .kind = "ConfigMap",
     .name = "digits-hosts",
     .patch = "{\"immutable\":true}",
     .more = ",\"network\":{\"hostNames\":\"IP\"}",
     .has_cluster = true,
     .is_early = true,
     .n_sent = 20, /* with what it takes to start the job */
     .text = "ConfigMap default/digits-hosts: made immutable by "},
    CHANGED(HVD_REPAIR_HOSTS_SEEN, "Pod", "digits-master-abcde",
            "metadata.annotations[horovod.io/hosts]",
            "{\"metadata\":{\"annotations\":{\"horovod.io/hosts\":null}}}"),
    CHANGED(HVD_REPAIR_WORKERS, "Job", "digits-master", "metadata.annotations[horovod.io/workers]",
            "{\"metadata\":{\"annotations\":{\"horovod.io/workers\":\"3\"}}}"),
    {.repair = HVD_REPAIR_SUSPEND,
     .kind = "Job",
     .name = "digits-master",
     .patch = "{\"spec\":{\"suspend\":true}}",
     .has_cluster = true,
     .is_early = true,
     .n_sent = 20, /* with what it takes to start the job */
     .text = "Job default/digits-master field spec.suspend or spec.parallelism: changed again by "},
    CHANGED(HVD_REPAIR_GANG, "PodGroup", "digits", "spec", "{\"spec\":{\"minMember\":9}}"),
    CHANGED(HVD_REPAIR_STATUS, "HorovodJob", "digits", "status",
            "{\"status\":{\"state\":\"Pending\",\"conditions\":null}}"),
};
#define N_STRANGERS (sizeof(strangers) / sizeof(strangers[0]))

/* Undoes what the operator did, if it did; true if so. */
static bool undo(struct world *w, const struct stranger *s)
{
    if (s->object && !world_find(w, s->kind, s->name)) {
        cJSON *made = world_put(w, s->object);
        cJSON *owner = cJSON_GetArrayItem(hvd_json_at(made, "metadata.ownerReferences"), 0);

        cJSON_ReplaceItemInObject(
            owner, "uid",
            cJSON_Duplicate(hvd_json_at(world_find(w, "HorovodJob", "digits"), "metadata.uid"), 1));
        return true;
    }
    if (s->label && world_find(w, s->kind, s->name)) {
        const cJSON *labels = hvd_json_at(world_find(w, s->kind, s->name), "metadata.labels");

        if (hvd_str_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(labels, s->label)),
                          "other"))
            return false;
        world_label(w, s->kind, s->name, s->label, "other");
        return true;
    }
    if (s->label)
        return false;
    if (s->patch)
        return world_patch(w, s->kind, s->name, s->patch);
    if (s->object || !world_find(w, s->kind, s->name))
        return false;
    world_remove(w, s->kind, s->name);
    return true;
}

/* A kubelet that gives its pods addresses. */
static bool give_addresses(struct world *w)
{
    static const char *const pods[] = {"digits-worker-0", "digits-worker-1"};
    bool is_changed = false;

    for (size_t i = 0; i < 2; i++)
        is_changed =
            world_patch(w, "Pod", pods[i], "{\"status\":{\"podIP\":\"10.0.0.1\"}}") || is_changed;
    return is_changed;
}

/* What goes on beside the fight, and when the other writers come. */
struct arena {
    bool has_controllers;
    bool is_kubelet_off;
    bool is_full; /* the scheduler finds no room for further pods */
    enum {
        AT_ONCE,
        AFTER_CONTROLLERS,
        AFTER_ALL, /* operator and controllers have nothing left to do */
    } pace;
};

static bool run_controllers(struct world *w)
{
    return world_controllers(w) || give_addresses(w);
}

/* One turn of each; false if nobody has anything to do now. */
static bool take_turns(struct world *w, const struct arena *arena, const struct stranger *s,
                       const struct stranger *other)
{
    bool is_busy = world_pass(w) > 0;

    if (arena->has_controllers && arena->pace == AFTER_CONTROLLERS)
        is_busy = run_controllers(w) || is_busy;
    if (!is_busy || arena->pace != AFTER_ALL) {
        is_busy = (s && undo(w, s)) || is_busy;
        is_busy = (other && undo(w, other)) || is_busy;
    }
    if (arena->has_controllers)
        is_busy = run_controllers(w) || is_busy;
    else if (!s)
        is_busy = world_controllers(w) || is_busy;
    return is_busy;
}

/* The operator and the other writers (NULL: nobody), until the clock has moved on. */
static void fight_in(struct world *w, const struct arena *arena, const struct stranger *s,
                     const struct stranger *other, int64_t ms)
{
    int64_t end_ms = w->now_ms + ms;
    int n_at_once = 0;

    w->is_kubelet_off = arena->is_kubelet_off;
    w->is_full = arena->is_full;
    while (w->now_ms < end_ms) {
        bool is_busy = take_turns(w, arena, s, other);

        n_at_once = is_busy ? n_at_once + 1 : 0;
        assert_true(n_at_once < 100); /* else it would go on without a pause */
        if (!is_busy)
            w->now_ms = w->wake_at_ms > w->now_ms && w->wake_at_ms < w->now_ms + MINUTE_MS / 2
                            ? w->wake_at_ms
                            : w->now_ms + MINUTE_MS / 2;
    }
}

/* The same with one other writer. */
static void fight(struct world *w, const struct stranger *s, int64_t ms)
{
    const struct arena arena = {.has_controllers = s && s->has_cluster};

    fight_in(w, &arena, s, NULL, ms);
}

static void begin(struct world *w, const struct stranger *s)
{
    const char *more = s->more ? s->more : "";
    char spec[256];

    if (strcmp(s->kind, "PodGroup") == 0) {
        world_init(w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        w->settings.gang = HVD_GANG_VOLCANO;
        world_settle(w);
    } else if (s->is_early) {
        (void)snprintf(spec, sizeof(spec),
                       "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}%s}", more);
        world_init(w, spec);
    } else {
        world_start(w, more);
    }
    w->n_sent = 0;
}

static void check_report(const struct world *w, const struct stranger *s)
{
    const int minutes = s->repair == HVD_REPAIR_IMMUTABLE                                   ? 60
                        : s->repair == HVD_REPAIR_ADDRESS || s->repair == HVD_REPAIR_MASTER ? 10
                                                                                            : 5;
    char advice[96];
    const char *message = world_condition_text(w, "Contested", "message");

    (void)snprintf(advice, sizeof(advice),
                   ": the next repairs are up to %d minutes apart; stop the other writer", minutes);
    if (s->repair == HVD_REPAIR_STATUS) /* which is undone with the rest */
        return;
    assert_string_equal(world_condition(w, "Contested"), "True");
    if (strncmp(message, s->text, strlen(s->text)) != 0 || !strstr(message, advice))
        fail_msg("%s", message);
}

/* The world in which a fight was fought for 70 minutes costs no more than allowed. */
static void count_requests(const struct stranger *s, const struct arena *arena)
{
    const int most = s->n_sent ? s->n_sent : SHORT;
    const bool is_over = s->ends_job && arena->has_controllers;
    struct world w;

    begin(&w, s);
    for (int hour = 0; hour < N_PERIODS; hour++) {
        w.n_sent = 0;
        fight_in(&w, arena, s, NULL, (hour ? 60 : 10) * MINUTE_MS);
        if (w.n_sent > (hour ? SHORT : most))
            fail_msg("%s%s: %d requests in %s (controllers %d, pace %d, kubelet %d, full %d)",
                     s->text, s->patch ? s->patch : "", w.n_sent, hour ? "an hour" : "10 minutes",
                     arena->has_controllers, (int)arena->pace, !arena->is_kubelet_off,
                     arena->is_full);
        if (is_over)
            continue;
        assert_int_equal(world_events(&w, "RepairNotKept"), 1);
        check_report(&w, s);
    }
    world_fini(&w);
}

static bool has_row(const struct world_write *write)
{
    for (size_t i = 0; i < N_STRANGERS; i++) {
        if (strangers[i].repair == write->repair && strcmp(strangers[i].kind, write->kind) == 0)
            return true;
    }
    return false;
}

static void a_fight_over_anything_costs_twelve_requests_and_then_one_in_five_minutes(void **state)
{
    static const struct arena arenas[] = {
        {.has_controllers = false},
        {.has_controllers = true, .pace = AT_ONCE},
        {.has_controllers = true, .pace = AFTER_CONTROLLERS},
        {.has_controllers = true, .pace = AFTER_ALL},
        {.has_controllers = true, .pace = AFTER_ALL, .is_full = true},
        {.has_controllers = true, .pace = AFTER_ALL, .is_kubelet_off = true},
    };

    (void)state;
    for (size_t i = 0; i < N_STRANGERS; i++) {
        for (size_t n = 0; n < sizeof(arenas) / sizeof(arenas[0]); n++) {
            const struct arena *arena = &arenas[n];

            /* Some repairs are only needed while new attempts start. */
            if (!strangers[i].has_cluster ||
                (arena->has_controllers && !arena->is_full && !arena->is_kubelet_off))
                count_requests(&strangers[i], arena);
        }
    }
    for (const struct world_write *write = world_writes; write->kind; write++) {
        if (!write->is_once && !has_row(write))
            fail_msg("no fight over repair %d of a %s", (int)write->repair, write->kind);
    }
}

static const struct stranger *stranger_of(enum hvd_repair repair)
{
    for (size_t i = 0; i < N_STRANGERS; i++) {
        if (strangers[i].repair == repair)
            return &strangers[i];
    }
    fail_msg("no row of repair %d", (int)repair);
    return NULL;
}

/* Each fight that begins makes the report another one: nobody else writes that status. */
static void fights_that_begin_one_after_the_other_are_no_fight_over_the_status(void **state)
{
    static const enum hvd_repair others[] = {HVD_REPAIR_STRATEGY, HVD_REPAIR_TTL, HVD_REPAIR_HOSTS,
                                             HVD_REPAIR_WORKERS};
    static const struct arena arena = {0};
    const struct stranger *first = stranger_of(HVD_REPAIR_SELECTOR);
    struct world w;

    (void)state;
    for (int64_t later_ms = 0; later_ms < 20 * SECOND_MS; later_ms += 4 * SECOND_MS) {
        begin(&w, first);
        fight(&w, first, later_ms);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            const struct stranger *other = stranger_of(others[i]);

            fight_in(&w, &arena, first, other, 20 * SECOND_MS);
            check_report(&w, first);
            if (!strstr(world_condition_text(&w, "Contested", "message"), other->text) ||
                strstr(world_condition_text(&w, "Contested", "message"), "field status"))
                fail_msg("%s", world_condition_text(&w, "Contested", "message"));
        }
        assert_int_equal(world_events(&w, "RepairNotKept"), 1 + sizeof(others) / sizeof(others[0]));
        world_fini(&w);
    }
}

/* Undoes the job's status, under another name each time; true if it did. */
static bool undo_by_another(struct world *w, int n)
{
    static const char empty[] = "{\"status\":{\"state\":\"Pending\",\"conditions\":null}}";
    char patch[128];

    if (!world_patch(w, "HorovodJob", "digits", empty))
        return false;
    (void)snprintf(patch, sizeof(patch),
                   "{\"metadata\":{\"managedFields\":[{\"manager\":\"m%d\",\"fieldsV1\":{"
                   "\"f:status\":{}}}]}}",
                   n);
    return world_patch(w, "HorovodJob", "digits", patch);
}

/* Whoever undoes the status beside other fields makes it no other write each time. */
static void a_fight_over_the_status_costs_as_little_beside_others_under_any_names(void **state)
{
    const struct stranger *first = stranger_of(HVD_REPAIR_SELECTOR);
    struct world w;

    (void)state;
    begin(&w, first);
    for (int hour = 0; hour < N_PERIODS; hour++) {
        int64_t end_ms = w.now_ms + (hour ? 60 : 10) * MINUTE_MS;

        w.n_sent = 0;
        for (int n = 0; w.now_ms < end_ms; n++) {
            while (world_pass(&w) > 0 || undo(&w, first))
                (void)undo_by_another(&w, n);
            (void)undo_by_another(&w, n);
            w.now_ms += SECOND_MS;
        }
        if (w.n_sent > 3 * SHORT) /* each write of the status is one more of the other fight */
            fail_msg("%d requests", w.n_sent);
    }
    world_fini(&w);
}

/* Whoever takes the owner reference of a pod away fights with the controller that made the pod. */
static void what_controllers_put_back_costs_nothing(void **state)
{
    static const char *const pods[] = {"digits-master-abcde", "digits-worker-0"};
    struct world w;
    int n_sent;

    (void)state;
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        world_start(&w, "");
        n_sent = w.n_sent;
        for (int64_t end_ms = w.now_ms + 70 * MINUTE_MS; w.now_ms < end_ms;
             w.now_ms += 3 * SECOND_MS) {
            assert_true(
                world_patch(&w, "Pod", pods[i], "{\"metadata\":{\"ownerReferences\":null}}"));
            (void)world_pass(&w);
            assert_true(world_controllers(&w));
            assert_non_null(
                hvd_json_at(world_find(&w, "Pod", pods[i]), "metadata.ownerReferences"));
            (void)world_pass(&w);
        }
        if (w.n_sent != n_sent)
            fail_msg("%s: %d requests", pods[i], w.n_sent - n_sent);
        world_is_state(&w, "Running");
        world_end_master(&w, 0, "done");
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static void a_fight_that_ends_is_repaired_and_reported_no_more(void **state)
{
    static const struct stranger nobody = {.kind = "HorovodJob", .name = "digits", .patch = "{}"};
    struct world w;
    int n_sent;

    (void)state;
    for (size_t i = 0; i < N_STRANGERS; i++) {
        const struct stranger *s = &strangers[i];

        if (s->has_cluster || s->object)
            continue;
        begin(&w, s);
        fight(&w, s, 30 * MINUTE_MS);
        fight(&w, &nobody, 5 * MINUTE_MS + SECOND_MS);
        assert_true(s->patch ? undo(&w, s) : world_find(&w, s->kind, s->name) != NULL);
        /* The notices of a list come in two stages, each of which waits. */
        fight(&w, &nobody, 26 * MINUTE_MS);
        if (s->repair != HVD_REPAIR_STATUS)
            assert_string_equal(world_condition(&w, "Contested"), "False");
        world_is_state(&w, "Running");
        n_sent = w.n_sent;
        fight(&w, &nobody, 60 * MINUTE_MS);
        assert_int_equal(w.n_sent, n_sent);
        world_fini(&w);
    }
}

/* Suspended and resumed, or scaled, five times within a minute. */
static void what_the_user_changes_back_and_forth_is_no_fight(void **state)
{
    static const char *const edits[][2] = {
        {"{\"suspend\":true}", "{\"suspend\":false}"},
        {"{\"worker\":{\"replicas\":4,\"minReplicas\":1}}", "{\"worker\":{\"replicas\":3}}"}};
    struct world w;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        world_start(&w, ",\"minReplicas\":1");
        for (int n = 0; n < 10; n++) {
            int64_t start_ms = w.now_ms;

            world_edit(&w, edits[i][n % 2]);
            for (int quiet = 0; quiet < 2; quiet++) {
                while (world_pass(&w) > 0 || world_controllers(&w))
                    ;
                w.now_ms += 1200; /* a status of counts, and the second notice of the master */
            }
            while (world_pass(&w) > 0 || world_controllers(&w))
                ;
            assert_true(w.now_ms - start_ms < 3000);
            if (i == 0)
                assert_string_equal(world_condition(&w, "Suspended"), n % 2 ? "False" : "True");
            assert_int_equal(
                hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", -1),
                i == 0 ? (n % 2 ? 2 : 0) : (n % 2 ? 3 : 4));
        }
        assert_string_equal(world_condition(&w, "Contested"), "");
        world_fini(&w);
    }
}

/* An operator that starts again and again writes once each time, and no more than one in five
 * minutes otherwise. */
static void a_restarted_operator_takes_a_fight_up_where_it_was(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 0; i < N_STRANGERS; i++) {
        const struct stranger *s = &strangers[i];

        if (s->repair == HVD_REPAIR_STATUS) /* the report is undone with it */
            continue;
        begin(&w, s);
        fight(&w, s, 10 * MINUTE_MS);
        for (int n = 0; n < 5; n++) {
            w.n_sent = 0;
            hvd_repairs_fini(&w.repairs);
            fight(&w, s, 4 * MINUTE_MS);
            if (w.n_sent > 2) /* one that restores labels has an event, too */
                fail_msg("%s: %d requests after a restart", s->text, w.n_sent);
            check_report(&w, s);
        }
        assert_int_equal(world_events(&w, "RepairNotKept"), 1);
        world_fini(&w);
    }
}

/* What the other writer has set is in the way of each repair, and not of what was repaired. */
static void a_repair_that_the_api_server_refuses_is_reported_as_that(void **state)
{
    struct hvd_repairs repairs = {0};
    const struct hvd_action repair = {.type = HVD_ACTION_PATCH,
                                      .kind = HVD_KIND_CONFIGMAP,
                                      .namespace = (char *)"default",
                                      .name = (char *)"digits-hosts",
                                      .repair = HVD_REPAIR_HOSTS,
                                      .value = 1};

    (void)state;
    hvd_repairs_note_refused(&repairs, &repair, 1000);
    hvd_repairs_note_refused(&repairs, &repair, 2000);
    assert_int_equal(hvd_repairs_attribute(&repairs, &repair, NULL), HVD_OK);
    assert_string_equal(repairs.records[0].text,
                        "ConfigMap default/digits-hosts field data: the API server refuses each "
                        "repair, for what an admission webhook or another program has set beside "
                        "it");
    hvd_repairs_note(&repairs, &repair, 3000);
    assert_null(repairs.records[0].text);
    assert_int_equal(repairs.records[0].n, 3);
    hvd_repairs_fini(&repairs);
}

/* What managedFields say of the Service's selector, and whom the condition names. */
static void the_other_writer_is_named_by_its_manager(void **state)
{
    static const struct {
        const char *fields;
        const char *by;
    } cases[] = {
        {"[{\"manager\":\"kubectl-edit\",\"time\":\"2026-01-02T00:00:00Z\",\"fieldsV1\":{"
         "\"f:spec\":{\"f:selector\":{\"f:tier\":{}}}}}]",
         "manager \"kubectl-edit\""},
        /* the latest of two */
        {"[{\"manager\":\"new\",\"time\":\"2026-01-02T00:00:00Z\",\"fieldsV1\":{\"f:spec\":{"
         "\"f:selector\":{}}}},{\"manager\":\"old\",\"time\":\"2026-01-01T00:00:00Z\",\"fieldsV1\":"
         "{"
         "\"f:spec\":{\"f:selector\":{}}}}]",
         "manager \"new\""},
        /* of another field, and this operator's own */
        {"[{\"manager\":\"kubectl-edit\",\"fieldsV1\":{\"f:spec\":{\"f:ports\":{}}}},{\"manager\":"
         "\"horovod-operator\",\"fieldsV1\":{\"f:spec\":{\"f:selector\":{}}}}]",
         "an admission webhook or another program"},
        {"[{\"manager\":7},{\"fieldsV1\":null},5]", "an admission webhook or another program"},
        {"{}", "an admission webhook or another program"},
    };
    struct world w;
    char patch[512], text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct stranger s = {
            .repair = HVD_REPAIR_SELECTOR, .kind = "Service", .name = "digits", .patch = patch};

        (void)snprintf(
            patch, sizeof(patch),
            "{\"metadata\":{\"managedFields\":%s},\"spec\":{\"selector\":{\"tier\":\"a\"}}}",
            cases[i].fields);
        world_start(&w, "");
        fight(&w, &s, MINUTE_MS);
        (void)snprintf(text, sizeof(text),
                       "Service default/digits field spec.selector: changed again by %s after each "
                       "repair: the next repairs are up to 5 minutes apart; stop the other writer",
                       cases[i].by);
        assert_string_equal(world_condition_text(&w, "Contested", "message"), text);
        world_fini(&w);
    }
}

/* The definition of PodGroups was removed, and all of them with it, as the shell has noticed. */
static void groups_that_go_with_their_definition_are_no_fight(void **state)
{
    struct hvd_write creation = {HVD_KIND_VOLCANO_PODGROUP, "digits", HVD_REPAIR_EXISTENCE,
                                 HVD_REPAIR_PRESENT};
    struct world w;

    (void)state;
    begin(&w, &strangers[3]);
    assert_string_equal(strangers[3].kind, "PodGroup");
    for (int i = 0; i < 6; i++) {
        const struct hvd_attempted_write denied =
            hvd_denials_write(creation.kind, creation.name, creation.repair, creation.value, 1);

        assert_non_null(world_find(&w, "PodGroup", "digits"));
        world_remove(&w, "PodGroup", "digits");
        for (int n = 0; n < 9; n++)
            assert_int_equal(hvd_denials_note(&w.repairs.denials, &denied, w.now_ms, 0), HVD_OK);
        hvd_repairs_forget(&w.repairs, creation.kind, creation.name);
        w.now_ms += SECOND_MS;
        (void)world_pass(&w);
    }
    world_settle(&w);
    assert_non_null(world_find(&w, "PodGroup", "digits"));
    assert_string_not_equal(world_condition(&w, "Contested"), "True");
    world_fini(&w);
}

/* A stream that ends early says little: a fight that is known goes on, and costs no more than
 * others. */
static void a_fight_that_is_known_outlasts_streams_that_end_early(void **state)
{
    struct world w;

    (void)state;
    begin(&w, &strangers[3]);
    for (int i = 0; i < 60; i++) {
        if (world_find(&w, "PodGroup", "digits"))
            world_remove(&w, "PodGroup", "digits");
        for (int n = 0; n < 20; n++) { /* a minute, at whose end the load balancer ends it */
            (void)world_pass(&w);
            if (world_find(&w, "PodGroup", "digits"))
                world_remove(&w, "PodGroup", "digits");
            w.now_ms += 3 * SECOND_MS;
        }
        hvd_repairs_excuse(&w.repairs, HVD_KIND_VOLCANO_PODGROUP, "digits");
        (void)world_pass(&w);
        assert_string_equal(world_condition(&w, "Contested"), "True");
    }
    assert_int_equal(world_events(&w, "RepairNotKept"), 1);
    assert_in_range(w.n_sent, 10, 40);
    world_fini(&w);
}

/* A key that is removed has no owner: whoever owns what stands beside it is not accused. */
static void who_owns_other_keys_of_a_field_is_not_accused(void **state)
{
    static const struct {
        enum hvd_repair repair;
        const char *kind, *name, *edit, *fields, *by;
    } cases[] = {
#define OTHERS "an admission webhook or another program"
#define LABELS_OF(edit_, fields_, by_)                                                             \
    {HVD_REPAIR_LABELS,                                                                            \
     "Pod",                                                                                        \
     "digits-worker-0",                                                                            \
     ",\"labels\":{\"horovod.io/role\":" edit_ "}}",                                               \
     "\"f:metadata\":{\"f:labels\":" fields_ "}",                                                  \
     by_}
        LABELS_OF("null", "{\".\":{},\"f:horovod.io/job-name\":{},\"f:a\":{}}", OTHERS),
        LABELS_OF("\"x\"", "{\".\":{},\"f:horovod.io/role\":{}}", "manager \"m\""),
        {HVD_REPAIR_HOSTS, "ConfigMap", "digits-hosts", "},\"data\":{\"hostfile\":null}",
         "\"f:data\":{\"f:extra\":{}}", OTHERS},
        {HVD_REPAIR_HOSTS, "ConfigMap", "digits-hosts", "},\"data\":{\"hostfile\":\"x\"}",
         "\"f:data\":{\"f:hostfile\":{}}", "manager \"m\""},
        {HVD_REPAIR_OWNER, "StatefulSet", "digits-worker", ",\"ownerReferences\":null}",
         "\"f:metadata\":{\"f:ownerReferences\":{\".\":{},\"k:{\\\"uid\\\":\\\"other\\\"}\":{}}}",
         OTHERS},
        {HVD_REPAIR_OWNER, "StatefulSet", "digits-worker", ",\"ownerReferences\":null}",
         "\"f:metadata\":{\"f:ownerReferences\":{\"k:{\\\"uid\\\":\\\"uid-1\\\"}\":{}}}",
         "manager \"m\""},
        {HVD_REPAIR_GANG, "PodGroup", "digits", "},\"spec\":{\"minMember\":null}",
         "\"f:spec\":{\"f:minTaskMember\":{}}", OTHERS},
    };
    struct world w;
    char patch[768], text[160];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct stranger s = {.repair = cases[i].repair,
                                   .kind = cases[i].kind,
                                   .name = cases[i].name,
                                   .patch = patch};

        (void)snprintf(
            patch, sizeof(patch),
            "{\"metadata\":{\"managedFields\":[{\"manager\":\"m\",\"fieldsV1\":{%s}}]%s}",
            cases[i].fields, cases[i].edit);
        print_message("%s\n", patch);
        begin(&w, &s);
        fight(&w, &s, MINUTE_MS);
        (void)snprintf(text, sizeof(text), ": changed again by %s after each repair", cases[i].by);
        assert_non_null(strstr(world_condition_text(&w, "Contested", "message"), text));
        world_fini(&w);
    }
}

static void a_restarted_operator_ends_the_report_only_when_it_was_calm_for_long(void **state)
{
    const struct stranger *s = &strangers[0];
    struct world w;

    (void)state;
    begin(&w, s);
    fight(&w, s, 10 * MINUTE_MS);
    hvd_repairs_fini(&w.repairs);
    fight(&w, NULL, 9 * MINUTE_MS);
    assert_string_equal(world_condition(&w, "Contested"), "True");
    fight(&w, NULL, 2 * MINUTE_MS);
    assert_string_equal(world_condition(&w, "Contested"), "False");
    world_fini(&w);
}

/* The master that runs keeps its list; the next attempt gets a new one. */
static void a_list_made_immutable_ends_no_job(void **state)
{
    static const char immutable[] = "{\"immutable\":true}";
    struct world w;
    const char *message;

    (void)state;
    world_start(&w, ",\"minReplicas\":1,\"backoffLimit\":1");
    assert_true(world_patch(&w, "ConfigMap", "digits-hosts", immutable));
    world_edit(&w, "{\"worker\":{\"replicas\":3,\"minReplicas\":1}}");
    world_settle(&w);
    fight(&w, NULL, MINUTE_MS);
    world_is_state(&w, "Running");
    message = world_condition_text(&w, "WorkersReady", "message");
    if (!strstr(message, "3 of 3 workers are ready; ") ||
        !strstr(message, "; ConfigMap digits-hosts was made immutable"))
        fail_msg("%s", message);
    world_end_master(&w, 1, "no");
    world_settle(&w);
    fight(&w, NULL, MINUTE_MS);
    world_is_state(&w, "Running");
    assert_false(hvd_json_true(world_find(&w, "ConfigMap", "digits-hosts"), "immutable"));
    assert_non_null(strstr(hvd_json_str(world_find(&w, "ConfigMap", "digits-hosts"), "data.hosts"),
                           "digits-worker-2"));
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "3 of 3 workers are ready");
    world_fini(&w);
}

static const char *image_of(const struct world *w)
{
    const cJSON *set = world_find(w, "StatefulSet", "digits-worker");

    return hvd_json_str(cJSON_GetArrayItem(hvd_json_at(set, "spec.template.spec.containers"), 0),
                        "image");
}

/* The set's template has that revision, its workers are made from "old". */
static void set_revisions(struct world *w, const char *revision)
{
    static const char of_pod[] =
        "{\"metadata\":{\"labels\":{\"controller-revision-hash\":\"old\"}}}";
    char patch[64];

    (void)snprintf(patch, sizeof(patch), "{\"status\":{\"updateRevision\":\"%s\"}}", revision);
    (void)world_patch(w, "StatefulSet", "digits-worker", patch);
    (void)world_patch(w, "Pod", "digits-worker-0", of_pod);
    (void)world_patch(w, "Pod", "digits-worker-1", of_pod);
}

static void the_template_of_running_workers_stays_and_is_repaired_at_the_next_start(void **state)
{
    struct world w;
    cJSON *container;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    container = cJSON_GetArrayItem(hvd_json_at(world_find(&w, "StatefulSet", "digits-worker"),
                                               "spec.template.spec.containers"),
                                   0);
    cJSON_ReplaceItemInObject(container, "image", cJSON_CreateString("elsewhere"));
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(image_of(&w), "elsewhere");
    fight(&w, NULL, MINUTE_MS);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "2 of 2 workers are ready");
    /* What the controller of StatefulSets writes. */
    set_revisions(&w, "new");
    fight(&w, NULL, MINUTE_MS);
    assert_string_equal(
        world_condition_text(&w, "WorkersReady", "message"),
        "2 of 2 workers are ready; the template of StatefulSet digits-worker was changed: workers "
        "that run keep theirs, one that is made again gets the other; suspend and resume the job "
        "to repair it");
    assert_string_equal(world_condition(&w, "WorkersReady"), "True");
    set_revisions(&w, "old");
    fight(&w, NULL, MINUTE_MS);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "2 of 2 workers are ready");
    world_end_master(&w, 1, "no");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(image_of(&w), "img");
    world_fini(&w);
}

/* No other writer is blamed for what an old definition does. */
static void a_definition_that_drops_fields_is_named_with_the_remedy(void **state)
{
    cJSON *lost = cJSON_Parse("{\"failures\":1,\"cleaned\":1}");
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, "");
    w.lost = lost;
    fight(&w, NULL, MINUTE_MS);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition_text(&w, "Contested", "reason"), "StatusNotKept");
    assert_string_equal(world_condition_text(&w, "Contested", "message"),
                        "the HorovodJob definition in the cluster does not keep status.failures, "
                        "status.cleaned: apply the definition of this version (kubectl apply "
                        "--server-side --force-conflicts -f charts/horovod/crds/)");
    assert_int_equal(world_events(&w, "StatusNotKept"), 1);
    n_sent = w.n_sent;
    fight(&w, NULL, 60 * MINUTE_MS);
    assert_int_equal(w.n_sent, n_sent);
    w.lost = NULL;
    fight(&w, NULL, 11 * MINUTE_MS);
    assert_string_equal(world_condition(&w, "Contested"), "False");
    world_fini(&w);
    cJSON_Delete(lost);
}

/* Also when the job has ended, which only the condition tells. */
static void conditions_that_are_not_kept_are_named_and_written_now_and_then(void **state)
{
    cJSON *lost = cJSON_Parse("{\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]}");
    struct world w;
    int n_sent;

    (void)state;
    for (int has_ended = 0; has_ended < 2; has_ended++) {
        world_start(&w, "");
        if (has_ended) {
            world_end_master(&w, 1, "no");
            world_settle(&w);
            world_is_state(&w, "Failed");
        }
        w.lost = lost;
        fight(&w, NULL, MINUTE_MS);
        assert_string_equal(world_condition_text(&w, "Contested", "reason"), "StatusNotKept");
        assert_non_null(strstr(world_condition_text(&w, "Contested", "message"), "webhook"));
        assert_int_equal(world_events(&w, "StatusNotKept"), 1);
        n_sent = w.n_sent;
        fight(&w, NULL, 60 * MINUTE_MS);
        assert_in_range(w.n_sent - n_sent, 6, 14);
        w.lost = NULL;
        fight(&w, NULL, 30 * MINUTE_MS);
        assert_string_equal(world_condition(&w, "Contested"), "False");
        world_fini(&w);
    }
    cJSON_Delete(lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fight_over_anything_costs_twelve_requests_and_then_one_in_five_minutes),
        cmocka_unit_test(fights_that_begin_one_after_the_other_are_no_fight_over_the_status),
        cmocka_unit_test(a_fight_over_the_status_costs_as_little_beside_others_under_any_names),
        cmocka_unit_test(what_controllers_put_back_costs_nothing),
        cmocka_unit_test(a_fight_that_ends_is_repaired_and_reported_no_more),
        cmocka_unit_test(what_the_user_changes_back_and_forth_is_no_fight),
        cmocka_unit_test(a_restarted_operator_takes_a_fight_up_where_it_was),
        cmocka_unit_test(a_repair_that_the_api_server_refuses_is_reported_as_that),
        cmocka_unit_test(the_other_writer_is_named_by_its_manager),
        cmocka_unit_test(who_owns_other_keys_of_a_field_is_not_accused),
        cmocka_unit_test(groups_that_go_with_their_definition_are_no_fight),
        cmocka_unit_test(a_fight_that_is_known_outlasts_streams_that_end_early),
        cmocka_unit_test(a_restarted_operator_ends_the_report_only_when_it_was_calm_for_long),
        cmocka_unit_test(a_list_made_immutable_ends_no_job),
        cmocka_unit_test(the_template_of_running_workers_stays_and_is_repaired_at_the_next_start),
        cmocka_unit_test(a_definition_that_drops_fields_is_named_with_the_remedy),
        cmocka_unit_test(conditions_that_are_not_kept_are_named_and_written_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
