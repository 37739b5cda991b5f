/*
 * The table of kinds: one row each, in the order of the enum. Constants only.
 */
#include "operator/api/kind.h"

#include <string.h>

/* clang-format off */
static const struct hvd_kind_info kinds[HVD_N_KINDS] = {
    [HVD_KIND_HOROVODJOB] = {"HorovodJob", "horovod.io/v1beta1", "/apis/horovod.io/v1beta1",
                             "horovodjobs", "get list watch delete"},
    [HVD_KIND_SECRET] = {"Secret", "v1", "/api/v1", "secrets", "get list watch create patch"},
    [HVD_KIND_SERVICE] = {"Service", "v1", "/api/v1", "services",
                          "get list watch create patch delete"},
    [HVD_KIND_STATEFULSET] = {"StatefulSet", "apps/v1", "/apis/apps/v1", "statefulsets",
                              "get list watch create patch delete"},
    [HVD_KIND_CONFIGMAP] = {"ConfigMap", "v1", "/api/v1", "configmaps",
                            "get list watch create patch delete"},
    [HVD_KIND_JOB] = {"Job", "batch/v1", "/apis/batch/v1", "jobs",
                      "get list watch create patch delete"},
    [HVD_KIND_POD] = {"Pod", "v1", "/api/v1", "pods", "get list watch patch delete"},
    [HVD_KIND_EVENT] = {"Event", "v1", "/api/v1", "events", "list create"},
    [HVD_KIND_LEASE] = {"Lease", "coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1",
                        "leases", "get list watch create patch"},
    [HVD_KIND_NODE] = {"Node", "v1", "/api/v1", "nodes", "get"},
    [HVD_KIND_VOLCANO_PODGROUP] = {"PodGroup", "scheduling.volcano.sh/v1beta1",
                                   "/apis/scheduling.volcano.sh/v1beta1", "podgroups",
                                   "get list watch create patch delete"},
    [HVD_KIND_PLUGINS_PODGROUP] = {"PodGroup", "scheduling.x-k8s.io/v1alpha1",
                                   "/apis/scheduling.x-k8s.io/v1alpha1", "podgroups",
                                   "get list watch create patch delete"},
};
/* clang-format on */

const struct hvd_kind_info *hvd_kind_info(enum hvd_kind kind)
{
    return &kinds[kind];
}

bool hvd_kind_allows(enum hvd_kind kind, const char *verb)
{
    const char *rest = kinds[kind].verbs;
    const size_t len = strlen(verb);

    while (*rest) {
        const size_t n = strcspn(rest, " ");

        if (n == len && strncmp(rest, verb, n) == 0)
            return true;
        rest += n + strspn(rest + n, " ");
    }
    return false;
}
