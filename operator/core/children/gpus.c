/*
 * Containers that get GPUs. GPUs are limits of the names below. A resource claim does not reveal
 * whether it is for a GPU: its class is in another object. Pure.
 */
#include "operator/core/children/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "operator/core/children/template.h"
#include "operator/core/launch/volumes.h"
#include "operator/core/view/text.h"

#define VOLUME "horovod-shm"
#define PATH "/dev/shm"

/* Whole GPUs: slotsPerWorker counts them (operator/api/groups.c). */
static const char *const whole[] = {"nvidia.com/gpu", "amd.com/gpu"};
static const char *const parts[] = {"nvidia.com/gpu.shared"};
static const char mig[] = "nvidia.com/mig-";

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    bool is = false;

    for (size_t i = 0; i < n; i++)
        is = is || strcmp(name, names[i]) == 0;
    return is;
}

static bool is_whole(const char *name)
{
    return is_one_of(name, whole, sizeof(whole) / sizeof(whole[0]));
}

static bool is_part(const char *name)
{
    return strncmp(name, mig, strlen(mig)) == 0 ||
           is_one_of(name, parts, sizeof(parts) / sizeof(parts[0]));
}

/* The API server accepts whole numbers alone for such resources. */
static double count(const cJSON *limit)
{
    if (cJSON_IsNumber(limit))
        return limit->valuedouble;
    return cJSON_IsString(limit) ? strtod(limit->valuestring, NULL) : 0;
}

/* The first limit above 0 of a name for which is_wanted holds. */
static const cJSON *find_limit(const cJSON *container, bool (*is_wanted)(const char *name))
{
    const cJSON *limit = NULL;

    cJSON_ArrayForEach(limit, hvd_json_at(container, "resources.limits"))
    {
        if (limit->string && is_wanted(limit->string) && count(limit) > 0)
            return limit;
    }
    return NULL;
}

void hvd_gpus_add_memory(struct hvd_jb *jb, cJSON *pod, cJSON *container)
{
    cJSON *source;

    if ((!find_limit(container, is_whole) && !find_limit(container, is_part)) ||
        hvd_json_true(pod, "hostIPC") || hvd_volumes_has(container, PATH))
        return;
    /* Without a limit of its own, the volume ends where the memory of the pod does. */
    source = hvd_jb_object(jb, hvd_volumes_add(jb, pod, VOLUME), "emptyDir");
    hvd_jb_str(jb, source, "medium", "Memory");
    hvd_volumes_mount(jb, container, VOLUME, PATH, false);
}

static bool is_auto(const cJSON *holder)
{
    const cJSON *item = hvd_json_get(holder, "slotsPerWorker");

    return !item || cJSON_IsNull(item) || cJSON_IsString(item);
}

/* Whether the group has no number of slots, neither its own nor the job's. */
static bool has_automatic_slots(const struct hvd_child_inputs *in)
{
    const cJSON *groups = hvd_json_get(in->spec, "workerGroups");
    const cJSON *group = in->group > 0 ? cJSON_GetArrayItem(groups, (int)in->group - 1) : NULL;

    if (hvd_json_get(group, "slotsPerWorker"))
        return is_auto(group);
    return is_auto(in->spec);
}

bool hvd_gpus_are_uncounted(const struct hvd_child_inputs *in, char *out, size_t size)
{
    const cJSON *container = hvd_template_own_container(in, HVD_ROLE_WORKER);
    const cJSON *part = find_limit(container, is_part);
    const cJSON *claims = hvd_json_at(container, "resources.claims");
    char set[HVD_CHILD_NAME_MAX];

    if (!has_automatic_slots(in) || find_limit(container, is_whole))
        return false;
    hvd_children_group_name(in->job, in->group, set);
    if (part && count(part) > 1)
        hvd_text_format(out, size,
                        "spec.slotsPerWorker is auto, which counts no parts of GPUs: each worker "
                        "of StatefulSet %s has 1 rank and %.0f of %.128s; set slotsPerWorker to "
                        "the number of ranks",
                        set, count(part), part->string);
    else if (!part && cJSON_IsArray(claims) && claims->child)
        hvd_text_format(out, size,
                        "spec.slotsPerWorker is auto, which counts no resource claims: each worker "
                        "of StatefulSet %s has 1 rank; if its claims are GPUs, set slotsPerWorker "
                        "to their number",
                        set);
    else
        return false;
    return true;
}
