/*
 * The types of a spec's members, as the CRD declares them: a cluster may run an older CRD, or have
 * stored an object under one. A member of another type is an error and never counts as absent: a
 * job with suspend: "true" must not start. Members that only pods receive are left to the API
 * server's checks of the pods.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"

#define PATH_MAX 160
#define VALUES_MAX 3

struct member {
    const char *path; /* below spec; [] stands for each item of an array */
    const char *what; /* for messages */
    bool (*is_right)(const cJSON *item);
    const char *values[VALUES_MAX]; /* of a text; none: any */
};

static bool is_object(const cJSON *item)
{
    return cJSON_IsObject(item);
}

static bool is_array(const cJSON *item)
{
    return cJSON_IsArray(item);
}

static bool is_text(const cJSON *item)
{
    return cJSON_IsString(item);
}

static bool is_bool(const cJSON *item)
{
    return cJSON_IsBool(item);
}

static bool is_true(const cJSON *item)
{
    return cJSON_IsTrue(item);
}

static bool is_exit_code(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= 255 &&
           item->valuedouble == item->valueint;
}

#define OBJECT                                                                                     \
    "must be an object", is_object,                                                                \
    {                                                                                              \
        NULL                                                                                       \
    }
#define ARRAY                                                                                      \
    "must be a list", is_array,                                                                    \
    {                                                                                              \
        NULL                                                                                       \
    }
#define TEXT                                                                                       \
    "must be a text", is_text,                                                                     \
    {                                                                                              \
        NULL                                                                                       \
    }
#define BOOL                                                                                       \
    "must be true or false", is_bool,                                                              \
    {                                                                                              \
        NULL                                                                                       \
    }

/* clang-format off */
static const struct member members[] = {
    {"image", TEXT},
    {"command", ARRAY},
    {"command[]", TEXT},
    {"args", ARRAY},
    {"args[]", TEXT},
    {"env", ARRAY},
    {"env[]", OBJECT},
    {"env[].name", TEXT},
    {"env[].value", TEXT},
    {"env[].valueFrom", OBJECT},
    {"resources", OBJECT},
    {"resources.limits", OBJECT},
    {"resources.requests", OBJECT},
    {"resources.claims", ARRAY},
    {"resources.claims[]", OBJECT},
    {"resources.claims[].name", TEXT},
    {"resources.claims[].request", TEXT},
    {"master", OBJECT},
    {"master.template", OBJECT},
    {"master.template.metadata", OBJECT},
    {"master.template.spec", OBJECT},
    {"master.template.spec.containers", ARRAY},
    {"master.template.spec.containers[]", OBJECT},
    {"worker", OBJECT},
    {"worker.template", OBJECT},
    {"worker.template.metadata", OBJECT},
    {"worker.template.spec", OBJECT},
    {"worker.template.spec.containers", ARRAY},
    {"worker.template.spec.containers[]", OBJECT},
    {"workerGroups", ARRAY},
    {"workerGroups[]", OBJECT},
    {"workerGroups[].name", TEXT},
    {"workerGroups[].template", OBJECT},
    {"workerGroups[].template.metadata", OBJECT},
    {"workerGroups[].template.spec", OBJECT},
    {"workerGroups[].template.spec.containers", ARRAY},
    {"workerGroups[].template.spec.containers[]", OBJECT},
    {"runMasterAsWorker", BOOL},
    {"topologyKeys", ARRAY},
    {"topologyKeys[]", TEXT},
    {"suspend", BOOL},
    {"managedBy", TEXT},
    {"failurePolicy", OBJECT},
    {"failurePolicy.rules", ARRAY},
    {"failurePolicy.rules[]", OBJECT},
    {"failurePolicy.rules[].action", "must be Fail, Restart or Ignore", is_text,
     {"Fail", "Restart", "Ignore"}},
    {"failurePolicy.rules[].role", "must be Master or Worker", is_text, {"Master", "Worker"}},
    {"failurePolicy.rules[].onExitCodes", OBJECT},
    {"failurePolicy.rules[].onExitCodes.operator", "must be In or NotIn", is_text, {"In", "NotIn"}},
    {"failurePolicy.rules[].onExitCodes.values", ARRAY},
    {"failurePolicy.rules[].onExitCodes.values[]", "must be an integer from 1 to 255", is_exit_code,
     {NULL}},
    {"failurePolicy.rules[].onDisruption", "must be true", is_true, {NULL}},
    {"cleanPodPolicy", "must be None, Running or All", is_text, {"None", "Running", "All"}},
    {"network", OBJECT},
    {"network.interfaces", ARRAY},
    {"network.interfaces[]", TEXT},
    {"network.hostNames", "must be DNS or IP", is_text, {"DNS", "IP"}},
    {"network.hostNetwork", BOOL},
    {"scheduling", OBJECT},
    {"scheduling.queue", TEXT},
    {"scheduling.priorityClassName", TEXT},
    {"ssh", OBJECT},
};
/* clang-format on */

static bool is_right(const cJSON *item, const struct member *member)
{
    if (!member->is_right(item))
        return false;
    for (size_t i = 0; i < VALUES_MAX && member->values[i]; i++) {
        if (strcmp(item->valuestring, member->values[i]) == 0)
            return true;
    }
    return member->values[0] == NULL;
}

/* A level of a path: the member of that name in the level above, or its item of that index. */
struct field {
    const struct field *above; /* NULL: spec itself */
    const cJSON *item;
    const char *rest; /* of the member's path, below this level */
    const char *name; /* NULL: an item */
    int len;          /* of the name */
    int number;
};

/* Writes the path so far, for messages. Built only after a mistake, so correct specs pay
 * nothing. */
static void describe(const struct field *field, char out[PATH_MAX])
{
    size_t len;

    if (!field->above) {
        (void)snprintf(out, PATH_MAX, "spec");
        return;
    }
    describe(field->above, out);
    len = strlen(out);
    if (field->name)
        (void)snprintf(out + len, PATH_MAX - len, ".%.*s", field->len, field->name);
    else
        (void)snprintf(out + len, PATH_MAX - len, "[%d]", field->number);
}

static void check(const struct field *field, const struct member *member, struct hvd_wrong *wrong);

static void check_items(const struct field *field, const struct member *member,
                        struct hvd_wrong *wrong)
{
    const char *rest = field->rest + strlen("[]");
    const cJSON *item = NULL;
    int n = 0;

    if (!cJSON_IsArray(field->item))
        return; /* another row reports that */
    cJSON_ArrayForEach(item, field->item)
    {
        const struct field next = {
            .above = field, .item = item, .rest = *rest == '.' ? rest + 1 : rest, .number = n++};

        check(&next, member, wrong);
    }
}

/* Follows the path. An absent value, or null, is legal. */
static void check(const struct field *field, const struct member *member, struct hvd_wrong *wrong)
{
    const size_t len = strcspn(field->rest, ".[");
    struct field next = {
        .above = field, .rest = field->rest + len, .name = field->rest, .len = (int)len};
    char text[PATH_MAX];

    if (strncmp(field->rest, "[]", 2) == 0) {
        check_items(field, member, wrong);
        return;
    }
    if (*field->rest == '\0') {
        if (is_right(field->item, member))
            return;
        describe(field, text);
        hvd_spec_complain(wrong, "%s: %s", text, member->what);
        return;
    }
    memcpy(text, field->rest, len); /* from the table above, whose names are short */
    text[len] = '\0';
    next.item = hvd_json_get(field->item, text);
    if (!next.item || cJSON_IsNull(next.item))
        return;
    if (*next.rest == '.')
        next.rest++;
    check(&next, member, wrong);
}

void hvd_types_check_spec(const cJSON *spec, struct hvd_wrong *wrong)
{
    if (!spec)
        return;
    if (!cJSON_IsObject(spec))
        hvd_spec_complain(wrong, "spec: must be an object");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct field start = {.item = spec, .rest = members[i].path};

        check(&start, &members[i], wrong);
    }
}
