/*
 * Describes the end of a pod. Up to four sources describe it, and each may be empty. The kubelet or
 * the container runtime writes a container's exit code and reason. The kubelet writes the pod's
 * reason and message when it ends the pod itself. The writer that evicts the pod sets the condition
 * DisruptionTarget. A text reports what is known and guesses nothing. Pure.
 */
#include "operator/core/attempt/ending.h"

#include <string.h>

#include "base/str.h"
#include "operator/core/view/text.h"

#define EXTRA_SIZE 640
#define LIMIT_SIZE 48

/* The cause of the pod's end if its own status has one; "" without any. */
static const char *reason_of_pod(const struct hvd_pod_view *pod, char out[EXTRA_SIZE])
{
    if (pod->disruption)
        hvd_text_format(out, EXTRA_SIZE, "%s", pod->disruption);
    else
        hvd_text_format(out, EXTRA_SIZE, "%s%s%.*s", pod->reason ? pod->reason : "",
                        pod->reason && pod->message ? ": " : "", 512,
                        pod->message ? pod->message : "");
    return out;
}

static bool has_never_run(const struct hvd_pod_view *pod)
{
    return hvd_str_equal(pod->container_reason, "StartError") ||
           hvd_str_equal(pod->container_reason, "ContainerCannotRun");
}

/* The cause of the container's end, unless its exit code is the whole cause. */
static const char *reason_of_container(const struct hvd_pod_view *pod)
{
    static const char *const silent[] = {"Error", "Completed", "OOMKilled"};

    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        if (hvd_str_equal(pod->container_reason, silent[i]))
            return "";
    }
    return pod->container_reason ? pod->container_reason : "";
}

/* The memory limit that the container met, as a part of a list; "" if it is unknown. */
static const char *limit_of_container(const struct hvd_pod_view *pod, char out[LIMIT_SIZE])
{
    out[0] = '\0';
    if (pod->memory_limit)
        hvd_text_format(out, LIMIT_SIZE, ", limit %.32s", pod->memory_limit);
    return out;
}

static void describe_container(const struct hvd_pod_view *pod, char *out, size_t size)
{
    char limit[LIMIT_SIZE];
    const char *init = pod->is_init ? "init " : "";
    const char *name = pod->container ? pod->container : "?";
    const char *reason = reason_of_container(pod);

    if (hvd_str_equal(pod->container_reason, "OOMKilled"))
        hvd_text_format(out, size,
                        "%scontainer %s was killed for memory (OOMKilled, exit code %d%s)", init,
                        name, pod->exit_code, limit_of_container(pod, limit));
    else if (has_never_run(pod))
        hvd_text_format(out, size, "%scontainer %s could not be started (%s, exit code %d)%s%s",
                        init, name, reason, pod->exit_code, pod->last_line ? ": " : "",
                        pod->last_line ? pod->last_line : "");
    else if (hvd_str_equal(pod->container_reason, "ContainerStatusUnknown"))
        hvd_text_format(out, size, "how %scontainer %s ended is unknown to its node (%s)", init,
                        name, reason);
    else
        hvd_text_format(out, size, "%scontainer %s exited with code %d%s%s", init, name,
                        pod->exit_code, *reason ? ", " : "", reason);
}

void hvd_ending_of_container(const struct hvd_pod_view *pod, char *out, size_t size)
{
    char text[EXTRA_SIZE], extra[EXTRA_SIZE];

    if (pod->exit_code == 0 && !pod->disruption && !pod->reason) {
        hvd_text_format(out, size,
                        "its program ended with exit code 0 while the job runs: a worker must keep "
                        "running until the master ends");
        return;
    }
    describe_container(pod, text, sizeof(text));
    (void)reason_of_pod(pod, extra);
    hvd_text_format(out, size, "%s%s%s%s", text, *extra ? " (" : "", extra, *extra ? ")" : "");
}

void hvd_ending_of_worker(const struct hvd_pod_view *pod, char *out, size_t size)
{
    char extra[EXTRA_SIZE];

    (void)reason_of_pod(pod, extra);
    if (pod->phase == HVD_POD_SUCCEEDED)
        hvd_text_format(
            out, size,
            "its program ended with exit code 0 while the job runs%s%s%s: a worker must "
            "keep running until the master ends",
            *extra ? " (" : "", extra, *extra ? ")" : "");
    else if (pod->has_failed && !pod->reason && !pod->disruption)
        hvd_ending_of_container(pod, out, size);
    else if (*extra)
        hvd_text_format(out, size, "its pod failed: %s", extra);
    else
        hvd_text_format(out, size,
                        "its pod failed, and its status names no cause: its node may be "
                        "lost, or another program has set its status");
}

void hvd_ending_of_master(const struct hvd_pod_view *pod, char *out, size_t size)
{
    char text[EXTRA_SIZE], extra[EXTRA_SIZE], limit[LIMIT_SIZE];

    (void)reason_of_pod(pod, extra);
    if (pod->has_failed) {
        if (hvd_str_equal(pod->container_reason, "OOMKilled"))
            hvd_text_format(text, sizeof(text),
                            "%scontainer %s exited with code %d, out of memory (OOMKilled%s)",
                            pod->is_init ? "init " : "", pod->container ? pod->container : "?",
                            pod->exit_code, limit_of_container(pod, limit));
        else
            describe_container(pod, text, sizeof(text));
        hvd_text_format(out, size, "%s%s%s%s", text, *extra ? " (" : "", extra, *extra ? ")" : "");
    } else {
        hvd_text_format(out, size, "failed%s%s", *extra ? ": " : ", and its status names no cause",
                        extra);
    }
}
