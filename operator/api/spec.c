/*
 * Decodes and checks spec. The CRD's schema and rules reject all of these mistakes at kubectl
 * apply. The operator checks them again, because a cluster may run an older CRD, and because
 * templates are opaque to it. The first mistake wins; its text names what is allowed. Pure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"

#define IMAGE_MAX 512
#define MANAGER_MAX 128

void hvd_spec_complain(struct hvd_wrong *wrong, const char *fmt, ...)
{
    va_list args;

    if (wrong->text[0] != '\0')
        return;
    va_start(args, fmt);
    (void)vsnprintf(wrong->text, sizeof(wrong->text), fmt, args);
    va_end(args);
    hvd_str_disarm(wrong->text);
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static void check_name(const char *name, struct hvd_wrong *wrong)
{
    size_t len = strlen(name);
    bool ok = is_lower(name[0]) && len <= HVD_JOB_NAME_MAX && name[len - 1] != '-';

    for (size_t i = 0; ok && i < len; i++)
        ok = is_lower(name[i]) || (name[i] >= '0' && name[i] <= '9') || name[i] == '-';
    if (!ok)
        hvd_spec_complain(
            wrong,
            "metadata.name: \"%.64s\" is not at most %d characters of a-z, 0-9 and '-' that "
            "start with a letter and end with a letter or digit",
            name, HVD_JOB_NAME_MAX);
}

int64_t hvd_spec_number(const cJSON *holder, const char *before, const struct hvd_spec_range *range,
                        struct hvd_wrong *wrong)
{
    const cJSON *item = hvd_json_at(holder, range->path);
    int64_t value = hvd_json_int(holder, range->path, range->min - 1);

    if (!item || cJSON_IsNull(item))
        return range->fallback;
    if (value < range->min || value > range->max) {
        hvd_spec_complain(wrong, "spec.%s%s: must be an integer from %lld to %lld", before,
                          range->path, (long long)range->min, (long long)range->max);
        return range->fallback;
    }
    return value;
}

static int64_t number(const cJSON *spec, const struct hvd_spec_range *range,
                      struct hvd_wrong *wrong)
{
    return hvd_spec_number(spec, "", range, wrong);
}

const cJSON *hvd_spec_role_container(const cJSON *template, const char *role)
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

static enum hvd_clean_pod_policy clean_policy(const cJSON *spec, struct hvd_wrong *wrong)
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
    hvd_spec_complain(wrong, "spec.cleanPodPolicy: must be None, Running or All");
    return HVD_CLEAN_RUNNING;
}

static void check_short_form(const cJSON *spec, struct hvd_wrong *wrong)
{
    const char *image = hvd_json_str(spec, "image");
    const cJSON *command = hvd_json_get(spec, "command");

    if (!image || *image == '\0')
        hvd_spec_complain(wrong, "spec.image: is required, unless spec.master.template and "
                                 "spec.worker.template are given");
    if (!cJSON_IsArray(command) || !command->child)
        hvd_spec_complain(wrong,
                          "spec.command: is required with spec.image and must name a program");
    if (hvd_json_at(spec, "master.template") || hvd_json_at(spec, "worker.template"))
        hvd_spec_complain(wrong, "spec: give either image and command, or master.template and "
                                 "worker.template, not both");
}

void hvd_spec_check_template(const cJSON *spec, const char *path, const char *role,
                             struct hvd_wrong *wrong)
{
    const cJSON *template = hvd_json_at(spec, path);
    const char *restart = hvd_json_str(template, "spec.restartPolicy");

    if (!cJSON_IsObject(template)) {
        hvd_spec_complain(
            wrong, "spec.%s: is required, unless spec.image and spec.command are given", path);
        return;
    }
    if (!hvd_spec_role_container(template, role))
        hvd_spec_complain(wrong, "spec.%s.spec.containers: must hold at least one container", path);
    if (strcmp(role, "master") == 0 && restart && strcmp(restart, "Never") != 0)
        hvd_spec_complain(wrong,
                          "spec.%s.spec.restartPolicy: must be Never (spec.backoffLimit sets how "
                          "often a failed master is started again)",
                          path);
    if (strcmp(role, "worker") == 0 && restart && strcmp(restart, "Always") != 0)
        hvd_spec_complain(wrong, "spec.%s.spec.restartPolicy: must be Always", path);
}

static bool is_foreign(const cJSON *spec)
{
    const char *manager = hvd_json_str(spec, "managedBy");

    return manager && *manager != '\0' && strcmp(manager, HVD_JOB_CONTROLLER) != 0;
}

/* Whether the workers' pods, in any group, use their nodes' network. */
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

static void decode_scheduling(const cJSON *spec, struct hvd_job_spec *out, struct hvd_wrong *wrong)
{
    static const struct hvd_spec_range port = {"ssh.port", 1024, 65535, HVD_JOB_SSH_PORT};
    static const struct hvd_spec_range members = {"scheduling.minAvailable", 1, 1000000, 0};
    static const struct hvd_spec_range timeout = {"scheduling.scheduleTimeoutSeconds", 1, INT32_MAX,
                                                  -1};

    out->is_host_network = is_host_network(spec);
    out->has_launch_port = cJSON_IsNumber(hvd_json_at(spec, "ssh.port"));
    out->launch_port = (int32_t)number(spec, &port, wrong);
    out->min_available = (int32_t)number(spec, &members, wrong);
    out->schedule_timeout_s = number(spec, &timeout, wrong);
}

static void decode_fields(const cJSON *spec, struct hvd_job_spec *out, struct hvd_wrong *wrong)
{
    static const struct hvd_spec_range backoff = {"backoffLimit", 0, 1000000, 0};
    static const struct hvd_spec_range deadline = {"activeDeadlineSeconds", 1, INT32_MAX, -1};
    static const struct hvd_spec_range ttl = {"ttlSecondsAfterFinished", 0, INT32_MAX, -1};

    out->is_short_form = hvd_json_get(spec, "image") || hvd_json_get(spec, "command") ||
                         !hvd_json_get(spec, "master");
    if (out->is_short_form) {
        check_short_form(spec, wrong);
    } else {
        hvd_spec_check_template(spec, "master.template", "master", wrong);
        hvd_spec_check_template(spec, "worker.template", "worker", wrong);
    }
    out->is_suspended = hvd_json_true(spec, "suspend");
    out->is_foreign = is_foreign(spec);
    out->backoff_limit = (int32_t)number(spec, &backoff, wrong);
    out->active_deadline_s = number(spec, &deadline, wrong);
    out->ttl_s = number(spec, &ttl, wrong);
    decode_scheduling(spec, out, wrong);
    out->clean_pod_policy = clean_policy(spec, wrong);
}

/* Rejects NUL: environment, arguments and files of a container are C strings. */
static void check_nul(const cJSON *spec, struct hvd_wrong *wrong)
{
    char path[HVD_WRONG_MAX - 128] = "spec";

    if (hvd_json_find_nul(spec, path, sizeof(path)))
        hvd_spec_complain(wrong,
                          "%s: contains the character NUL (\\u0000), which no program can receive: "
                          "remove it",
                          path);
}

/* Rejects labels that the Job controller writes itself, except with the value that it would write.
 * Without this check the Job controller would reject them only when the workers are up. */
static void check_master_labels(const cJSON *spec, const char *name, struct hvd_wrong *wrong)
{
    static const char *const keys[] = {"controller-uid", "batch.kubernetes.io/controller-uid",
                                       "job-name", "batch.kubernetes.io/job-name"};
    const cJSON *labels = hvd_json_at(spec, "master.template.metadata.labels");
    char own[HVD_JOB_NAME_MAX + sizeof("-master")];

    (void)snprintf(own, sizeof(own), "%.*s-master", HVD_JOB_NAME_MAX, name);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const cJSON *label = hvd_json_get(labels, keys[i]);
        const bool is_name = i >= 2;

        if (!label || cJSON_IsNull(label) ||
            (is_name && hvd_str_equal(cJSON_GetStringValue((cJSON *)label), own)))
            continue;
        hvd_spec_complain(wrong,
                          "spec.master.template.metadata.labels: %s is a label that the Job "
                          "controller sets: remove it",
                          keys[i]);
    }
}

/* The image of the workers, for messages; other code checks the templates. */
static hvd_status_t decode_image(const cJSON *spec, struct hvd_job_spec *out)
{
    const cJSON *worker = hvd_spec_role_container(hvd_json_at(spec, "worker.template"), "worker");
    const char *image =
        out->is_short_form ? hvd_json_str(spec, "image") : hvd_json_str(worker, "image");

    if (!image || *image == '\0')
        return HVD_OK;
    out->image = hvd_strndup(image, hvd_status_cut(image, IMAGE_MAX));
    return out->image ? HVD_OK : HVD_ERR_NOMEM;
}

/* The manager of the job, unless it is this operator. */
static hvd_status_t decode_manager(const cJSON *spec, struct hvd_job_spec *out)
{
    const char *manager = hvd_json_str(spec, "managedBy");

    if (!out->is_foreign)
        return HVD_OK;
    out->manager = hvd_strndup(manager, hvd_status_cut(manager, MANAGER_MAX));
    return out->manager ? HVD_OK : HVD_ERR_NOMEM;
}

hvd_status_t hvd_spec_decode(const cJSON *spec, struct hvd_job *job, struct hvd_err *err)
{
    struct hvd_wrong wrong = {{0}};

    check_name(job->name, &wrong);
    check_nul(spec, &wrong);
    hvd_types_check_spec(spec, &wrong);
    if (hvd_groups_decode(spec, job->name, &job->spec, &wrong))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    decode_fields(spec, &job->spec, &wrong);
    check_master_labels(spec, job->name, &wrong);
    if (decode_image(spec, &job->spec) || decode_manager(spec, &job->spec))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    job->spec.text = spec ? hvd_print_json(spec) : hvd_strdup("{}");
    if (!job->spec.text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    if (wrong.text[0] == '\0')
        return HVD_OK;
    job->invalid = hvd_strdup(wrong.text);
    if (!job->invalid)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s: spec", job->name);
    return HVD_OK;
}
