/*
 * The table of kinds: one row each, in the order of the enum. Constants only.
 */
#include "operator/api/kind.h"

static const struct hvd_kind_info kinds[HVD_N_KINDS] = {
    [HVD_KIND_HOROVODJOB] = {"HorovodJob", "horovod.io/v1", "/apis/horovod.io/v1", "horovodjobs"},
    [HVD_KIND_SECRET] = {"Secret", "v1", "/api/v1", "secrets"},
    [HVD_KIND_SERVICE] = {"Service", "v1", "/api/v1", "services"},
    [HVD_KIND_STATEFULSET] = {"StatefulSet", "apps/v1", "/apis/apps/v1", "statefulsets"},
    [HVD_KIND_CONFIGMAP] = {"ConfigMap", "v1", "/api/v1", "configmaps"},
    [HVD_KIND_JOB] = {"Job", "batch/v1", "/apis/batch/v1", "jobs"},
    [HVD_KIND_POD] = {"Pod", "v1", "/api/v1", "pods"},
    [HVD_KIND_EVENT] = {"Event", "v1", "/api/v1", "events"},
    [HVD_KIND_LEASE] = {"Lease", "coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1",
                        "leases"},
    [HVD_KIND_NODE] = {"Node", "v1", "/api/v1", "nodes"},
    [HVD_KIND_VOLCANO_PODGROUP] = {"PodGroup", "scheduling.volcano.sh/v1beta1",
                                   "/apis/scheduling.volcano.sh/v1beta1", "podgroups"},
    [HVD_KIND_PLUGINS_PODGROUP] = {"PodGroup", "scheduling.x-k8s.io/v1alpha1",
                                   "/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"},
};

const struct hvd_kind_info *hvd_kind_info(enum hvd_kind kind)
{
    return &kinds[kind];
}
