#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/core/attempt/ending.h"

/* How a pod ended, in words: true for every combination of what its status may hold. */

#define KEEP "a worker must keep running until the master ends"
#define EVICTED "Evicted: The node was low on memory"
#define NO_CAUSE                                                                                   \
    "its pod failed, and its status names no cause: its node may be lost, or another program has " \
    "set its status"

struct row {
    struct hvd_pod_view pod;
    const char *worker;
    const char *master; /* NULL: the pod has not failed */
};

#define POD(p, ...)                                                                                \
    {                                                                                              \
        .phase = HVD_POD_##p, __VA_ARGS__                                                          \
    }
#define CONTAINER(code, why)                                                                       \
    .has_failed = true, .exit_code = (code), .container = (char *)"main",                          \
    .container_reason = (char *)(why)
#define REASON(why, text) .reason = (char *)(why), .message = (char *)(text)

static const struct row rows[] = {
    {{.phase = HVD_POD_SUCCEEDED},
     "its program ended with exit code 0 while the job runs: " KEEP,
     NULL},
    {POD(SUCCEEDED, CONTAINER(0, "Completed")),
     "its program ended with exit code 0 while the job runs: " KEEP, NULL},
    {POD(SUCCEEDED, REASON("NodeShutdown", "Node is shutting down")),
     "its program ended with exit code 0 while the job runs (NodeShutdown: Node is shutting "
     "down): " KEEP,
     NULL},
    {{.phase = HVD_POD_FAILED}, NO_CAUSE, "failed, and its status names no cause"},
    {POD(FAILED, REASON("Evicted", "The node was low on memory")), "its pod failed: " EVICTED,
     "failed: " EVICTED},
    {POD(FAILED, REASON("DeadlineExceeded", NULL)), "its pod failed: DeadlineExceeded",
     "failed: DeadlineExceeded"},
    {POD(FAILED, REASON(NULL, "Pod was terminated")), "its pod failed: Pod was terminated",
     "failed: Pod was terminated"},
    {POD(FAILED, .disruption = (char *)"PreemptionByScheduler: for x"),
     "its pod failed: PreemptionByScheduler: for x", "failed: PreemptionByScheduler: for x"},
    {POD(FAILED, CONTAINER(3, "Error")), "container main exited with code 3",
     "container main exited with code 3"},
    {POD(FAILED, CONTAINER(3, NULL)), "container main exited with code 3",
     "container main exited with code 3"},
    {POD(FAILED, CONTAINER(3, "Error"), .is_init = true), "init container main exited with code 3",
     "init container main exited with code 3"},
    {POD(FAILED, CONTAINER(137, "Error"), REASON("Evicted", "The node was low on memory")),
     "its pod failed: " EVICTED, "container main exited with code 137 (" EVICTED ")"},
    {POD(FAILED, CONTAINER(137, "OOMKilled")),
     "container main was killed for memory (OOMKilled, exit code 137)",
     "container main exited with code 137, out of memory (OOMKilled)"},
    {POD(FAILED, CONTAINER(137, "OOMKilled"), .memory_limit = (char *)"16Mi"),
     "container main was killed for memory (OOMKilled, exit code 137, limit 16Mi)",
     "container main exited with code 137, out of memory (OOMKilled, limit 16Mi)"},
    {POD(FAILED, CONTAINER(137, "ContainerStatusUnknown")),
     "how container main ended is unknown to its node (ContainerStatusUnknown)",
     "how container main ended is unknown to its node (ContainerStatusUnknown)"},
    {POD(FAILED, CONTAINER(128, "StartError"), .last_line = (char *)"exec: \"x\": not found"),
     "container main could not be started (StartError, exit code 128): exec: \"x\": not found",
     "container main could not be started (StartError, exit code 128): exec: \"x\": not found"},
    {POD(FAILED, CONTAINER(127, "ContainerCannotRun")),
     "container main could not be started (ContainerCannotRun, exit code 127)",
     "container main could not be started (ContainerCannotRun, exit code 127)"},
    {POD(FAILED, CONTAINER(143, "DeadlineExceeded")),
     "container main exited with code 143, DeadlineExceeded",
     "container main exited with code 143, DeadlineExceeded"},
};

static void each_end_has_its_text(void **state)
{
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hvd_ending_of_worker(&rows[i].pod, text, sizeof(text));
        assert_string_equal(text, rows[i].worker);
        if (!rows[i].master)
            continue;
        hvd_ending_of_master(&rows[i].pod, text, sizeof(text));
        assert_string_equal(text, rows[i].master);
    }
}

/* A container that has ended and was started again, in a pod that runs. */
static void a_container_that_ended_is_told_though_its_pod_runs(void **state)
{
    static const struct {
        struct hvd_pod_view pod;
        const char *text;
    } ends[] = {
        {POD(RUNNING, CONTAINER(0, "Completed")),
         "its program ended with exit code 0 while the job runs: " KEEP},
        {POD(RUNNING, CONTAINER(0, "Completed"), .disruption = (char *)"DeletionByTaintManager"),
         "container main exited with code 0 (DeletionByTaintManager)"},
        {POD(RUNNING, CONTAINER(1, "Error")), "container main exited with code 1"},
        {POD(RUNNING, CONTAINER(137, "OOMKilled")),
         "container main was killed for memory (OOMKilled, exit code 137)"},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        hvd_ending_of_container(&ends[i].pod, text, sizeof(text));
        assert_string_equal(text, ends[i].text);
    }
}

static void is_true_of(const struct hvd_pod_view *pod, const char *text)
{
    char code[16];

    (void)snprintf(code, sizeof(code), "code %d", pod->exit_code);
    assert_true(text[0] != '\0');
    assert_null(strstr(text, "(null)"));
    assert_null(strstr(text, "no reason"));
    if (pod->phase == HVD_POD_SUCCEEDED)
        assert_null(strstr(text, "failed"));
    if (pod->phase == HVD_POD_FAILED && !(pod->has_failed && pod->exit_code == 0))
        assert_null(strstr(text, "exit code 0"));
    if (pod->disruption)
        assert_non_null(strstr(text, pod->disruption));
    else if (pod->reason)
        assert_non_null(strstr(text, pod->reason));
    else if (pod->has_failed && pod->phase == HVD_POD_FAILED &&
             !strstr(text, "ContainerStatusUnknown"))
        assert_non_null(strstr(text, code));
}

static void no_combination_has_a_wrong_text(void **state)
{
    static const char *const pod_reasons[] = {NULL,
                                              "Evicted",
                                              "NodeShutdown",
                                              "Terminated",
                                              "Preempting",
                                              "OutOfcpu",
                                              "OutOfnvidia.com/gpu",
                                              "NodeAffinity",
                                              "NodeLost",
                                              "Shutdown",
                                              "UnexpectedAdmissionError",
                                              "DeadlineExceeded"};
    static const char *const reasons[] = {NULL,
                                          "Error",
                                          "Completed",
                                          "OOMKilled",
                                          "StartError",
                                          "ContainerCannotRun",
                                          "DeadlineExceeded",
                                          "ContainerStatusUnknown"};
    static const int codes[] = {-1, 0, 1, 126, 127, 128, 137, 139, 143, 255}; /* -1: none */
    static const char *const texts[] = {NULL, "words"};
    static const char *const disruptions[] = {NULL, "EvictionByEvictionAPI: drained"};
    char text[1024];
    size_t n = 0;

#define EACH(i, list) for (size_t i = 0; i < sizeof(list) / sizeof((list)[0]); i++)
    (void)state;
    EACH(i, pod_reasons)
    EACH(j, reasons)
    EACH(k, codes) EACH(l, texts) EACH(m, disruptions)
    {
        struct hvd_pod_view pod = {.phase = codes[k] == 0 ? HVD_POD_SUCCEEDED : HVD_POD_FAILED,
                                   .reason = (char *)pod_reasons[i],
                                   .message = (char *)texts[l],
                                   .disruption = (char *)disruptions[m]};

        if (codes[k] >= 0) {
            pod.has_failed = true;
            pod.exit_code = codes[k];
            pod.container = (char *)"main";
            pod.container_reason = (char *)reasons[j];
            pod.last_line = (char *)texts[l];
        }
        hvd_ending_of_worker(&pod, text, sizeof(text));
        is_true_of(&pod, text);
        if (pod.phase == HVD_POD_FAILED) {
            hvd_ending_of_master(&pod, text, sizeof(text));
            is_true_of(&pod, text);
        }
        n++;
    }
    assert_int_equal(n, 12 * 8 * 10 * 2 * 2);
#undef EACH
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_end_has_its_text),
        cmocka_unit_test(a_container_that_ended_is_told_though_its_pod_runs),
        cmocka_unit_test(no_combination_has_a_wrong_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
