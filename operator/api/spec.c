/*
 * Decodes and checks spec. The CRD's schema and rules refuse all of these mistakes at kubectl
 * apply; they are checked again because a cluster may run an older CRD, and because templates are
 * opaque to it. The first mistake found wins; its text says what is allowed. Pure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"

#define WRONG_MAX 512

/* What is wrong, the first mistake only. */
struct wrong {
    char text[WRONG_MAX];
};

static void complain(struct wrong *wrong, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void complain(struct wrong *wrong, const char *fmt, ...)
{
    va_list args;

    if (wrong->text[0] != '\0')
        return;
    va_start(args, fmt);
    (void)vsnprintf(wrong->text, sizeof(wrong->text), fmt, args);
    va_end(args);
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static void check_name(const char *name, struct wrong *wrong)
{
    size_t len = strlen(name);
    bool ok = is_lower(name[0]) && len <= HVD_JOB_NAME_MAX && name[len - 1] != '-';

    for (size_t i = 0; ok && i < len; i++)
        ok = is_lower(name[i]) || (name[i] >= '0' && name[i] <= '9') || name[i] == '-';
    if (!ok)
        complain(wrong,
                 "metadata.name: \"%.64s\" is not at most %d characters of a-z, 0-9 and '-' that "
                 "start with a letter and end with a letter or digit",
                 name, HVD_JOB_NAME_MAX);
}

struct range {
    const char *path;
    int64_t min;
    int64_t max;
    int64_t fallback;
};

/* The integer at the path, or the fallback when it is absent; complains about anything else. */
static int64_t number(const cJSON *spec, const struct range *range, struct wrong *wrong)
{
    const cJSON *item = hvd_json_at(spec, range->path);
    int64_t value = hvd_json_int(spec, range->path, range->min - 1);

    if (!item || cJSON_IsNull(item))
        return range->fallback;
    if (value < range->min || value > range->max) {
        complain(wrong, "spec.%s: must be an integer from %lld to %lld", range->path,
                 (long long)range->min, (long long)range->max);
        return range->fallback;
    }
    return value;
}

/* The container that holds the role: the one of that name, else the first; NULL without any. */
static const cJSON *role_container(const cJSON *template, const char *role)
{
    const cJSON *containers = hvd_json_at(template, "spec.containers");
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, containers)
    {
        const char *name = hvd_json_str(item, "name");

        if (name && strcmp(name, role) == 0)
            return item;
    }
    return cJSON_IsArray(containers) ? containers->child : NULL;
}

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

static int64_t slots(const cJSON *spec, bool is_short_form, struct wrong *wrong)
{
    const cJSON *item = hvd_json_get(spec, "slotsPerWorker");
    int64_t value = hvd_json_int(spec, "slotsPerWorker", 0);

    if (!item || cJSON_IsNull(item) ||
        (cJSON_IsString(item) && strcmp(item->valuestring, "auto") == 0)) {
        const cJSON *holder = spec;

        if (!is_short_form)
            holder = role_container(hvd_json_at(spec, "worker.template"), "worker");
        return gpus(hvd_json_get(holder, "resources"));
    }
    if (value < 1 || value > 65536) {
        complain(wrong, "spec.slotsPerWorker: must be an integer from 1 to 65536, or auto");
        return 1;
    }
    return value;
}

static enum hvd_clean_pod_policy clean_policy(const cJSON *spec, struct wrong *wrong)
{
    static const char *const names[] = {
        [HVD_CLEAN_NONE] = "None", [HVD_CLEAN_RUNNING] = "Running", [HVD_CLEAN_ALL] = "All"};
    const char *text = hvd_json_str(spec, "cleanPodPolicy");

    if (!text)
        return HVD_CLEAN_RUNNING;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0)
            return (enum hvd_clean_pod_policy)i;
    }
    complain(wrong, "spec.cleanPodPolicy: must be None, Running or All");
    return HVD_CLEAN_RUNNING;
}

static void check_short_form(const cJSON *spec, struct wrong *wrong)
{
    const char *image = hvd_json_str(spec, "image");
    const cJSON *command = hvd_json_get(spec, "command");

    if (!image || *image == '\0')
        complain(wrong, "spec.image: is required, unless spec.master.template and "
                        "spec.worker.template are given");
    if (!cJSON_IsArray(command) || !command->child)
        complain(wrong, "spec.command: is required with spec.image and must name a program");
    if (hvd_json_at(spec, "master.template") || hvd_json_at(spec, "worker.template"))
        complain(wrong, "spec: give either image and command, or master.template and "
                        "worker.template, not both");
}

static void check_template(const cJSON *spec, const char *role, struct wrong *wrong)
{
    char path[32];
    const cJSON *template;
    const char *restart;

    (void)snprintf(path, sizeof(path), "%s.template", role);
    template = hvd_json_at(spec, path);
    if (!cJSON_IsObject(template)) {
        complain(wrong, "spec.%s: is required, unless spec.image and spec.command are given", path);
        return;
    }
    if (!role_container(template, role))
        complain(wrong, "spec.%s.spec.containers: must hold at least one container", path);
    restart = hvd_json_str(template, "spec.restartPolicy");
    if (strcmp(role, "master") == 0 && restart && strcmp(restart, "Never") != 0)
        complain(wrong,
                 "spec.%s.spec.restartPolicy: must be Never (spec.backoffLimit says how often "
                 "a failed master is started again)",
                 path);
    if (strcmp(role, "worker") == 0 && restart && strcmp(restart, "Always") != 0)
        complain(wrong, "spec.%s.spec.restartPolicy: must be Always", path);
}

static bool is_foreign(const cJSON *spec)
{
    const char *manager = hvd_json_str(spec, "managedBy");

    return manager && *manager != '\0' && strcmp(manager, HVD_JOB_CONTROLLER) != 0;
}

/* Whether the workers' pods, of any group, are on their nodes' network. */
static bool is_host_network(const cJSON *spec)
{
    const cJSON *group = NULL;

    cJSON_ArrayForEach(group, hvd_json_get(spec, "workerGroups"))
    {
        if (hvd_json_true(group, "template.spec.hostNetwork"))
            return true;
    }
    return hvd_json_true(spec, "network.hostNetwork") ||
           hvd_json_true(spec, "worker.template.spec.hostNetwork");
}

static void decode_scheduling(const cJSON *spec, struct hvd_job_spec *out, struct wrong *wrong)
{
    static const struct range port = {"ssh.port", 1024, 65535, HVD_JOB_SSH_PORT};
    static const struct range members = {"scheduling.minAvailable", 1, 1000000, 0};
    static const struct range timeout = {"scheduling.scheduleTimeoutSeconds", 1, INT32_MAX, -1};

    out->is_host_network = is_host_network(spec);
    out->has_ssh_port = cJSON_IsNumber(hvd_json_at(spec, "ssh.port"));
    out->ssh_port = (int32_t)number(spec, &port, wrong);
    out->min_available = (int32_t)number(spec, &members, wrong);
    out->schedule_timeout_s = number(spec, &timeout, wrong);
}

static void decode_fields(const cJSON *spec, struct hvd_job_spec *out, struct wrong *wrong)
{
    static const struct range replicas = {"worker.replicas", 1, 10000, 0};
    static const struct range backoff = {"backoffLimit", 0, 1000000, 0};
    static const struct range deadline = {"activeDeadlineSeconds", 1, INT32_MAX, -1};
    static const struct range ttl = {"ttlSecondsAfterFinished", 0, INT32_MAX, -1};

    out->is_short_form = hvd_json_get(spec, "image") || hvd_json_get(spec, "command") ||
                         !hvd_json_get(spec, "master");
    out->replicas = (int32_t)number(spec, &replicas, wrong);
    if (out->replicas == 0)
        complain(wrong, "spec.worker.replicas: is required and must be at least 1");
    if (out->is_short_form) {
        check_short_form(spec, wrong);
    } else {
        check_template(spec, "master", wrong);
        check_template(spec, "worker", wrong);
    }
    out->slots = (int32_t)slots(spec, out->is_short_form, wrong);
    out->is_suspended = hvd_json_true(spec, "suspend");
    out->is_foreign = is_foreign(spec);
    out->backoff_limit = (int32_t)number(spec, &backoff, wrong);
    out->active_deadline_s = number(spec, &deadline, wrong);
    out->ttl_s = number(spec, &ttl, wrong);
    decode_scheduling(spec, out, wrong);
    out->clean_pod_policy = clean_policy(spec, wrong);
}

hvd_status_t hvd_spec_decode(const cJSON *spec, struct hvd_job *job, struct hvd_err *err)
{
    struct wrong wrong = {{0}};

    check_name(job->name, &wrong);
    decode_fields(spec, &job->spec, &wrong);
    job->spec.text = spec ? cJSON_PrintUnformatted(spec) : hvd_strdup("{}");
    if (!job->spec.text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    if (wrong.text[0] == '\0')
        return HVD_OK;
    job->invalid = hvd_strdup(wrong.text);
    if (!job->invalid)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    return HVD_OK;
}
