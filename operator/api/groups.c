/*
 * Decodes the members of the host list: spec.worker and spec.workerGroups with their sizes and
 * slots, the master if it runs ranks too, names or addresses, and the keys of the rank order. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"

#define KEYS_MAX 8
#define KEYS_TEXT_MAX 4096
#define BEFORE_SIZE 96

static int64_t gpus(const cJSON *resources)
{
    static const char *const names[] = {"nvidia.com/gpu", "amd.com/gpu"};
    const int64_t range[2] = {1, INT32_MAX};
    const cJSON *limits = hvd_json_get(resources, "limits");
    int64_t count = 1;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const cJSON *limit = hvd_json_get(limits, names[i]);

        if (cJSON_IsString(limit))
            (void)!hvd_str_parse_int64(hvd_strview_of(limit->valuestring), range, &count, NULL);
        else if (cJSON_IsNumber(limit) && limit->valuedouble >= 1 && limit->valuedouble < 1e6)
            count = (int64_t)limit->valuedouble;
    }
    return count;
}

/* The number under slotsPerWorker; 0 for auto or none. */
static int64_t given_slots(const cJSON *holder, const char *before, struct hvd_wrong *wrong)
{
    const cJSON *item = hvd_json_get(holder, "slotsPerWorker");
    int64_t value = hvd_json_int(holder, "slotsPerWorker", 0);

    if (!item || cJSON_IsNull(item) ||
        (cJSON_IsString(item) && strcmp(item->valuestring, "auto") == 0))
        return 0;
    if (value >= 1 && value <= 65536)
        return value;
    hvd_spec_complain(wrong, "spec.%sslotsPerWorker: must be an integer from 1 to 65536, or auto",
                      before);
    return 1;
}

/* The value of auto: the GPUs of the container in that template (NULL: of the short form). */
static int64_t automatic_slots(const cJSON *spec, const cJSON *template, const char *role)
{
    const cJSON *holder = template ? hvd_spec_role_container(template, role) : spec;

    return gpus(hvd_json_get(holder, "resources"));
}

static void decode_worker(const cJSON *spec, struct hvd_job_spec *out, struct hvd_wrong *wrong)
{
    static const struct hvd_spec_range replicas = {"worker.replicas", 1, HVD_JOB_WORKERS_MAX, 0};
    static const struct hvd_spec_range least = {"worker.minReplicas", 1, HVD_JOB_WORKERS_MAX, 0};
    static const struct hvd_spec_range most = {"worker.maxReplicas", 1, HVD_JOB_WORKERS_MAX,
                                               HVD_JOB_WORKERS_MAX};
    struct hvd_worker_group *group = &out->groups[0];
    int64_t min = hvd_spec_number(spec, "", &least, wrong);
    int64_t slots = given_slots(spec, "", wrong);

    group->replicas = (int32_t)hvd_spec_number(spec, "", &replicas, wrong);
    if (group->replicas == 0)
        hvd_spec_complain(wrong, "spec.worker.replicas: is required and must be at least 1");
    if (min > group->replicas)
        hvd_spec_complain(wrong, "spec.worker.minReplicas: must be at most spec.worker.replicas");
    if (hvd_spec_number(spec, "", &most, wrong) < group->replicas)
        hvd_spec_complain(wrong, "spec.worker.maxReplicas: must be at least spec.worker.replicas");
    group->n_enough = min ? (int32_t)min : group->replicas;
    out->is_elastic = min != 0;
    group->slots =
        (int32_t)(slots ? slots
                        : automatic_slots(spec, hvd_json_at(spec, "worker.template"), "worker"));
}

static bool is_label(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || text[0] == '-' || text[len - 1] == '-')
        return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static void check_group_name(const char *name, const char *job_name, const struct hvd_job_spec *out,
                             struct hvd_wrong *wrong)
{
    if (!is_label(name))
        hvd_spec_complain(wrong,
                          "spec.workerGroups: the name \"%.64s\" does not consist of a-z, 0-9 and "
                          "'-', starting and ending with a letter or digit",
                          name);
    if (strlen(job_name) + strlen(name) > HVD_JOB_GROUP_NAME_MAX)
        hvd_spec_complain(wrong,
                          "spec.workerGroups: the names of the job and of the group %.64s have "
                          "more than %d characters together",
                          name, HVD_JOB_GROUP_NAME_MAX);
    for (size_t i = 1; i < out->n_groups; i++) {
        if (hvd_str_equal(out->groups[i].name, name))
            hvd_spec_complain(wrong, "spec.workerGroups: two groups are called %.64s", name);
    }
}

/* Adds spec.workerGroups[i]. The array has room for it. */
static bool decode_group(const cJSON *spec, const cJSON *item, const char *job_name,
                         struct hvd_job_spec *out, struct hvd_wrong *wrong)
{
    static const struct hvd_spec_range replicas = {"replicas", 1, HVD_JOB_WORKERS_MAX, 0};
    const char *name = hvd_json_str(item, "name") ? hvd_json_str(item, "name") : "";
    const cJSON *template = hvd_json_get(item, "template");
    struct hvd_worker_group *group;
    char before[BEFORE_SIZE];
    int64_t slots;

    (void)snprintf(before, sizeof(before), "workerGroups[%zu].", out->n_groups - 1);
    check_group_name(name, job_name, out, wrong);
    group = &out->groups[out->n_groups++];
    group->name = hvd_strdup(name);
    group->replicas = (int32_t)hvd_spec_number(item, before, &replicas, wrong);
    if (group->replicas == 0)
        hvd_spec_complain(wrong, "spec.%sreplicas: is required and must be at least 1", before);
    group->n_enough = group->replicas;
    slots = given_slots(item, before, wrong);
    if (!hvd_json_get(item, "slotsPerWorker"))
        slots = given_slots(spec, "", wrong);
    if (template && !hvd_spec_role_container(template, "worker"))
        hvd_spec_complain(
            wrong, "spec.%stemplate.spec.containers: must hold at least one container", before);
    if (!template)
        template = hvd_json_at(spec, "worker.template");
    group->slots = (int32_t)(slots ? slots : automatic_slots(spec, template, "worker"));
    return group->name != NULL;
}

static hvd_status_t decode_groups(const cJSON *spec, const char *job_name, struct hvd_job_spec *out,
                                  struct hvd_wrong *wrong)
{
    const cJSON *groups = hvd_json_get(spec, "workerGroups");
    const cJSON *item = NULL;
    int64_t total = 0;

    cJSON_ArrayForEach(item, groups)
    {
        if (out->n_groups == HVD_JOB_GROUPS_MAX) {
            hvd_spec_complain(wrong, "spec.workerGroups: must hold at most %d groups",
                              HVD_JOB_GROUPS_MAX - 1);
            break;
        }
        if (!decode_group(spec, item, job_name, out, wrong))
            return HVD_ERR_NOMEM;
    }
    for (size_t i = 0; i < out->n_groups; i++)
        total += out->groups[i].replicas;
    if (total > HVD_JOB_WORKERS_MAX)
        hvd_spec_complain(wrong,
                          "spec.workerGroups: all groups together must have at most %d "
                          "workers, spec.worker included",
                          HVD_JOB_WORKERS_MAX);
    out->replicas = (int32_t)total;
    return HVD_OK;
}

static hvd_status_t decode_keys(const cJSON *spec, struct hvd_job_spec *out,
                                struct hvd_wrong *wrong)
{
    const cJSON *keys = hvd_json_get(spec, "topologyKeys");
    const cJSON *item = NULL;
    struct hvd_buf text;
    hvd_status_t st = HVD_OK;

    hvd_buf_init(&text, KEYS_TEXT_MAX);
    if (cJSON_GetArraySize(keys) > KEYS_MAX)
        hvd_spec_complain(wrong, "spec.topologyKeys: must hold at most %d labels", KEYS_MAX);
    cJSON_ArrayForEach(item, keys)
    {
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0' ||
            strlen(item->valuestring) > 317 || strchr(item->valuestring, ','))
            hvd_spec_complain(wrong, "spec.topologyKeys: must hold names of node labels");
        else if (st == HVD_OK && text.len + strlen(item->valuestring) + 2 < KEYS_TEXT_MAX)
            st = hvd_buf_printf(&text, "%s%s", text.len ? "," : "", item->valuestring);
    }
    if (st == HVD_OK && text.len > 0)
        out->topology_keys = hvd_strdup(text.data);
    if (st == HVD_OK && text.len > 0 && !out->topology_keys)
        st = HVD_ERR_NOMEM;
    hvd_buf_fini(&text);
    return st;
}

static void decode_names(const cJSON *spec, struct hvd_job_spec *out, struct hvd_wrong *wrong)
{
    const char *names = hvd_json_str(spec, "network.hostNames");

    out->has_ip_names = names && strcmp(names, "IP") == 0;
    if (names && !out->has_ip_names && strcmp(names, "DNS") != 0)
        hvd_spec_complain(wrong, "spec.network.hostNames: must be DNS or IP");
}

hvd_status_t hvd_groups_decode(const cJSON *spec, const char *job_name, struct hvd_job_spec *out,
                               struct hvd_wrong *wrong)
{
    size_t n = (size_t)cJSON_GetArraySize(hvd_json_get(spec, "workerGroups")) + 1;
    int64_t slots = given_slots(spec, "", wrong);

    out->groups = hvd_calloc(n < HVD_JOB_GROUPS_MAX ? n : HVD_JOB_GROUPS_MAX, sizeof(*out->groups));
    if (!out->groups)
        return HVD_ERR_NOMEM;
    out->n_groups = 1;
    out->groups[0].name = hvd_strdup("");
    if (!out->groups[0].name)
        return HVD_ERR_NOMEM;
    decode_worker(spec, out, wrong);
    out->is_master_worker = hvd_json_true(spec, "runMasterAsWorker");
    if (!slots)
        slots = automatic_slots(spec, hvd_json_at(spec, "master.template"), "master");
    out->master_slots = (int32_t)slots;
    decode_names(spec, out, wrong);
    return decode_groups(spec, job_name, out, wrong) || decode_keys(spec, out, wrong)
               ? HVD_ERR_NOMEM
               : HVD_OK;
}
