/*
 * Containers that outlive the master's own, as a service mesh injects them: the pod does not end,
 * and neither does its Job. The exit code of the master's container then is the end of the attempt.
 * Before that the sidecars get some time to end by themselves, measured from the time of the
 * condition Running. The operator waits for containers of the job's own template, because they may
 * have work to do. The kubelet ends sidecars among the init containers. Pure.
 */
#include "operator/core/outcome/sidecars.h"

#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/children/patch.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/write.h"

#define GRACE_S 30
#define GRACE_TEXT "30 s"
#define TEXT_SIZE 768
#define NAMES_SIZE 512

bool hvd_sidecars_hold(const struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;

    return pod && pod->u.pod.left && !pod->meta.is_deleting;
}

/* When they have had enough time; 0: no status records since when. */
static int64_t due_ms(const struct hvd_pass *p)
{
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];

    return running->truth == HVD_FALSE && hvd_str_equal(running->reason, HVD_REASON_MASTER_ENDED)
               ? (running->since_s + GRACE_S) * 1000
               : 0;
}

/* Whether the template of the master has a container of that name, or may have it. */
static bool is_of_template(const cJSON *containers, struct hvd_strview name)
{
    const cJSON *item = NULL;

    if (name.len == 3 && memcmp(name.data, "...", 3) == 0)
        return true;
    cJSON_ArrayForEach(item, containers)
    {
        const char *own = hvd_json_str(item, "name");

        if (own && strlen(own) == name.len && memcmp(own, name.data, name.len) == 0)
            return true;
    }
    return false;
}

/* Writes the containers of the template that still run, joined by ", ", and counts them. */
static int find_own(const struct hvd_pass *p, char out[NAMES_SIZE])
{
    const cJSON *containers = hvd_json_at(p->spec, "master.template.spec.containers");
    struct hvd_strview rest = hvd_strview_of(p->pods.master->u.pod.left);
    int n = 0;

    out[0] = '\0';
    while (rest.data) {
        struct hvd_strview name = hvd_strview_trim(hvd_strview_cut(&rest, ','));
        size_t len = strlen(out);

        if (!is_of_template(containers, name))
            continue;
        hvd_text_format(out + len, NAMES_SIZE - len, "%s%.*s", n ? ", " : "", (int)name.len,
                        name.data);
        n++;
    }
    return n;
}

bool hvd_sidecars_are_over(struct hvd_pass *p)
{
    const int64_t end_ms = due_ms(p);
    char names[NAMES_SIZE];

    const bool is_stopped = p->job->spec.is_suspended; /* the pod is removed anyway */

    if (!end_ms && !is_stopped)
        return false;
    if (p->now_ms < end_ms && !is_stopped) {
        hvd_plan_wake(p->plan, end_ms);
        return false;
    }
    return hvd_pass_spec(p) && find_own(p, names) == 0;
}

void hvd_sidecars_show(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    const int32_t code = pod->u.pod.has_failed ? pod->u.pod.exit_code : 0;
    const bool is_due = due_ms(p) && p->now_ms >= due_ms(p) && hvd_pass_spec(p);
    const bool is_one = !strchr(pod->u.pod.left, ',');
    char text[TEXT_SIZE], attempt[HVD_ATTEMPT_SIZE], own[NAMES_SIZE];
    const int n_own = is_due ? find_own(p, own) : 0;
    const struct hvd_condition_update update = {HVD_COND_RUNNING, HVD_FALSE,
                                                HVD_REASON_MASTER_ENDED, text};

    hvd_attempt_describe(p, attempt);
    if (n_own > 0) {
        hvd_text_format(
            text, sizeof(text),
            "pod %s container%s %s still run%s after the master exited with code %d (%s): "
            "the job waits for %s; one that never ends belongs into initContainers, with "
            "restartPolicy Always",
            pod->meta.name, n_own > 1 ? "s" : "", own, n_own > 1 ? "" : "s", (int)code, attempt,
            n_own > 1 ? "them" : "it");
        hvd_trouble_note(p, HVD_COND_RUNNING, text, sizeof(text));
    } else {
        hvd_text_format(
            text, sizeof(text),
            "pod %s master exited with code %d (%s) and container%s %s run%s on: unless "
            "spec.master.template has %s, the attempt ends after " GRACE_TEXT,
            pod->meta.name, (int)code, attempt, is_one ? "" : "s", pod->u.pod.left,
            is_one ? "s" : "", is_one ? "it" : "one of them");
    }
    hvd_pass_condition(p, &update);
    hvd_pass_state(p, HVD_JOB_RUNNING);
    p->next.retry_s = 0;
}

void hvd_sidecars_name(const struct hvd_pass *p, char *out, size_t size)
{
    const size_t len = strlen(out);
    const char *left = hvd_sidecars_hold(p) ? p->pods.master->u.pod.left : NULL;
    const bool is_one = left && !strchr(left, ',');

    if (!left)
        return;
    hvd_text_format(out + len, size - len,
                    "; container%s %s, which spec.master.template does not have, ran on and %s "
                    "stopped",
                    is_one ? "" : "s", left, is_one ? "is" : "are");
}

/* A deadline in the past ends a pod without deleting it, and cannot be undone. */
void hvd_sidecars_stop(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    struct hvd_patch patch = {.repair = HVD_REPAIR_EXISTENCE, .value = HVD_REPAIR_ABSENT};
    struct hvd_jb jb = {0};
    cJSON *root;

    if (p->st || !hvd_sidecars_hold(p) || pod->u.pod.deadline_s == 1)
        return;
    root = hvd_jb_root(&jb);
    hvd_patch_expect(&jb, hvd_jb_object(&jb, root, "metadata"), &pod->meta);
    hvd_jb_int(&jb, hvd_jb_object(&jb, root, "spec"), "activeDeadlineSeconds", 1);
    patch.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    hvd_write_patch(p, pod, &patch);
}
