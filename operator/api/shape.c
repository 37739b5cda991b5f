/*
 * What is read of the objects of each kind: by operator/core/observe.c, by the decoder of a
 * HorovodJob, and of an error that comes in an object's place. The rest of their texts, which is
 * most of it (specs of pods, managedFields), is not even parsed. Pure.
 */
#include <stddef.h>

#include "operator/api/kind.h"
#include "operator/api/pick.h"

/* clang-format off */
#define ALL NULL
#define END {NULL, NULL}
#define META(labels)                                                                               \
    {"name", ALL}, {"namespace", ALL}, {"uid", ALL}, {"resourceVersion", ALL},                     \
    {"creationTimestamp", ALL}, {"deletionTimestamp", ALL}, {"labels", labels},                    \
    {"ownerReferences", owner}, {"annotations", annotations_of_ours}, END
#define OBJECT(meta) {"kind", ALL}, {"code", ALL}, {"message", ALL}, {"metadata", meta}

static const struct hvd_shape
    owner[] = {{"kind", ALL}, {"name", ALL}, {"uid", ALL}, {"controller", ALL}, END},
    annotations_of_ours[] = {{HVD_ANNOTATION_SPEC_HASH, ALL}, {HVD_ANNOTATION_ATTEMPT, ALL},
                             {HVD_ANNOTATION_WORKERS, ALL}, {HVD_ANNOTATION_WORKERS_HASH, ALL},
                             {HVD_ANNOTATION_SCALED_DOWN, ALL},
                             {HVD_ANNOTATION_HOSTS, ALL}, {HVD_ANNOTATION_TOPOLOGY, ALL}, END},
    labels_of_ours[] = {{HVD_LABEL_MANAGED_BY, ALL}, {HVD_LABEL_JOB, ALL}, {HVD_LABEL_ROLE, ALL},
                        END},
    meta_of_job[] = {{"generation", ALL}, META(labels_of_ours)},
    meta_of_child[] = {META(labels_of_ours)},
    /* Any label of a pod or node may be a topology key. */
    meta_of_pod[] = {{"deletionGracePeriodSeconds", ALL}, META(ALL)},
    condition[] = {{"type", ALL}, {"status", ALL}, {"reason", ALL}, {"message", ALL},
                   {"lastTransitionTime", ALL}, END},
    pod_condition[] = {{"type", ALL}, {"status", ALL}, {"reason", ALL}, {"message", ALL}, END},
    conditions[] = {{"conditions", condition}, END},
    phase[] = {{"phase", ALL}, END},
    name_only[] = {{"name", ALL}, END},
    service_spec[] = {{"clusterIP", ALL}, {"publishNotReadyAddresses", ALL}, {"selector", ALL},
                      END},
    statefulset_spec[] = {{"replicas", ALL}, {"updateStrategy", ALL}, END},
    pod_spec[] = {{"nodeName", ALL}, {"subdomain", ALL}, {"containers", name_only}, END},
    container_status[] = {{"name", ALL}, {"image", ALL}, {"restartCount", ALL}, {"state", ALL},
                          {"lastState", ALL}, END},
    pod_status[] = {{"phase", ALL}, {"podIP", ALL}, {"reason", ALL}, {"message", ALL},
                    {"conditions", pod_condition}, {"containerStatuses", container_status},
                    {"initContainerStatuses", container_status}, END};

static const struct hvd_shape
    of_horovodjob[] = {OBJECT(meta_of_job), {"spec", ALL}, {"status", ALL}, END},
    of_secret[] = {OBJECT(meta_of_child), END},
    of_service[] = {OBJECT(meta_of_child), {"spec", service_spec}, END},
    of_statefulset[] = {OBJECT(meta_of_child), {"spec", statefulset_spec}, END},
    of_configmap[] = {OBJECT(meta_of_child), {"data", ALL}, {"immutable", ALL}, END},
    of_job[] = {OBJECT(meta_of_child), {"status", conditions}, END},
    of_pod[] = {OBJECT(meta_of_pod), {"spec", pod_spec}, {"status", pod_status}, END},
    of_event[] = {{"kind", ALL}, END},
    of_node[] = {{"metadata", meta_of_pod}, END},
    of_podgroup[] = {OBJECT(meta_of_child), {"spec", ALL}, {"status", phase}, END};
/* clang-format on */

const struct hvd_shape *hvd_kind_shape(enum hvd_kind kind)
{
    static const struct hvd_shape *const shapes[HVD_N_KINDS] = {
        [HVD_KIND_HOROVODJOB] = of_horovodjob,
        [HVD_KIND_SECRET] = of_secret,
        [HVD_KIND_SERVICE] = of_service,
        [HVD_KIND_STATEFULSET] = of_statefulset,
        [HVD_KIND_CONFIGMAP] = of_configmap,
        [HVD_KIND_JOB] = of_job,
        [HVD_KIND_POD] = of_pod,
        [HVD_KIND_EVENT] = of_event,
        [HVD_KIND_NODE] = of_node,
        [HVD_KIND_VOLCANO_PODGROUP] = of_podgroup,
        [HVD_KIND_PLUGINS_PODGROUP] = of_podgroup,
    };

    return shapes[kind];
}
