/*
 * What tests ask of the world of world.h: its events, its job's status, all of it as one text, and
 * which writes there are.
 */
#include "tests/unit/support.h"

#include "tests/unit/operator/core/world_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"

const struct world_write world_writes[] = {
    {"Secret", HVD_REPAIR_EXISTENCE, false},
    {"Service", HVD_REPAIR_EXISTENCE, false},
    {"ConfigMap", HVD_REPAIR_EXISTENCE, false},
    {"StatefulSet", HVD_REPAIR_EXISTENCE, false},
    {"PodGroup", HVD_REPAIR_EXISTENCE, false},
    {"Pod", HVD_REPAIR_EXISTENCE, true},
    {"HorovodJob", HVD_REPAIR_EXISTENCE, true},
    {"Job", HVD_REPAIR_MASTER, false},
    {"Secret", HVD_REPAIR_LABELS, false},
    {"Service", HVD_REPAIR_LABELS, false},
    {"ConfigMap", HVD_REPAIR_LABELS, false},
    {"StatefulSet", HVD_REPAIR_LABELS, false},
    {"PodGroup", HVD_REPAIR_LABELS, false},
    {"Job", HVD_REPAIR_LABELS, false},
    {"Pod", HVD_REPAIR_LABELS, false},
    {"StatefulSet", HVD_REPAIR_OWNER, false},
    {"PodGroup", HVD_REPAIR_OWNER, false},
    {"Job", HVD_REPAIR_OWNER, false},
    {"Service", HVD_REPAIR_SELECTOR, false},
    {"Service", HVD_REPAIR_UNREADY, false},
    {"Service", HVD_REPAIR_TYPE, false},
    {"Service", HVD_REPAIR_ADDRESS, false},
    {"StatefulSet", HVD_REPAIR_REPLICAS, false},
    {"StatefulSet", HVD_REPAIR_STRATEGY, false},
    {"StatefulSet", HVD_REPAIR_ORDINALS, false},
    {"ConfigMap", HVD_REPAIR_HOSTS, false},
    {"ConfigMap", HVD_REPAIR_IMMUTABLE, false},
    {"ConfigMap", HVD_REPAIR_END, true},
    {"Pod", HVD_REPAIR_HOSTS_SEEN, false},
    {"Job", HVD_REPAIR_WORKERS, false},
    {"Job", HVD_REPAIR_SUSPEND, false},
    {"Job", HVD_REPAIR_TTL, false},
    {"Job", HVD_REPAIR_DEADLINE, false},
    {"Job", HVD_REPAIR_BACKOFF, false},
    {"PodGroup", HVD_REPAIR_GANG, false},
    {"HorovodJob", HVD_REPAIR_STATUS, false},
    {NULL, HVD_REPAIR_NONE, false},
};

int world_events(const struct world *w, const char *reason)
{
    const cJSON *item = NULL;
    int n = 0;

    cJSON_ArrayForEach(item, w->events)
    {
        n += world_is(item, "reason", reason);
    }
    return n;
}

const char *world_status(const struct world *w, const char *path)
{
    const char *text =
        hvd_json_str(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path);

    return text ? text : "";
}

const char *world_condition_text(const struct world *w, const char *type, const char *field)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item,
                       hvd_json_at(world_find(w, "HorovodJob", "digits"), "status.conditions"))
    {
        if (world_is(item, "type", type))
            return hvd_json_str(item, field);
    }
    return "";
}

const char *world_condition(const struct world *w, const char *type)
{
    return world_condition_text(w, type, "status");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *world_digest(const struct world *w)
{
    static const char *const types[] = {"WorkersReady", "Running", "Suspended", "Succeeded",
                                        "Failed"};
    const cJSON *item = NULL;
    char *lines[WORLD_MAX_OBJECTS];
    char text[512];
    char *out = calloc(1, 65536);
    size_t n = 0;

    cJSON_ArrayForEach(item, w->objects)
    {
        (void)snprintf(text, sizeof(text), "%s %s replicas=%d", hvd_json_str(item, "kind"),
                       hvd_json_str(item, "metadata.name"),
                       (int)hvd_json_int(item, "spec.replicas", -1));
        lines[n++] = strdup(text);
    }
    cJSON_ArrayForEach(item, w->events)
    {
        (void)snprintf(text, sizeof(text), "event %s %s", hvd_json_str(item, "reason"),
                       hvd_json_str(item, "message"));
        lines[n++] = strdup(text);
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        (void)snprintf(text, sizeof(text), "condition %s %s %s", types[i],
                       world_condition(w, types[i]), world_condition_text(w, types[i], "message"));
        lines[n++] = strdup(text);
    }
    (void)snprintf(text, sizeof(text), "state %s %s", world_status(w, "state"),
                   world_status(w, "ready"));
    lines[n++] = strdup(text);
    qsort(lines, n, sizeof(lines[0]), by_text);
    for (size_t i = 0; i < n; i++) {
        strncat(strncat(out, lines[i], 600), "\n", 2);
        free(lines[i]);
    }
    return out;
}

int64_t world_ended(const struct world *w)
{
    const cJSON *job = world_find(w, "HorovodJob", "digits");

    return hvd_json_int(job, "status.failures", 0) + hvd_json_int(job, "status.interruptions", 0);
}

void world_check_ends(const struct world *w, int64_t ended_before)
{
    const int64_t ended = world_ended(w);
    char path[64];

    (void)snprintf(path, sizeof(path), "attemptLogs.%d.reason", (int)ended);
    if (ended > ended_before && ended_before >= 0 && !*world_status(w, path))
        fail_msg("attempt %d has no entry in attemptLogs: %s", (int)ended,
                 world_condition_text(w, "Running", "message"));
}
