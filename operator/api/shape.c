/*
 * The fields of each kind that the operator reads: for operator/core/observe/observe.c, for the
 * decoder of a HorovodJob, and of an error in the place of an object. The rest of the objects,
 * which is most of their text (specs of pods, managedFields), is not even parsed. Pure.
 */
#include "operator/api/shape.h"

#include <stddef.h>

#include "operator/api/kind.h"

/* clang-format off */
#define ALL NULL
#define TAIL hvd_shape_tail /* for texts that another writer may make as long as the object */
#define END {NULL, NULL}
#define META(labels)                                                                               \
    {"name", ALL}, {"namespace", ALL}, {"uid", ALL}, {"resourceVersion", ALL},                     \
    {"creationTimestamp", ALL}, {"deletionTimestamp", ALL}, {"finalizers", ALL},                   \
    {"labels", labels},                                                                            \
    {"ownerReferences", owner}, {"annotations", annotations_of_ours}, END
#define OBJECT(meta) {"kind", ALL}, {"code", ALL}, {"message", ALL}, {"metadata", meta}

static const struct hvd_shape
    owner[] = {{"kind", ALL}, {"name", ALL}, {"uid", ALL}, {"controller", ALL}, END},
    annotations_of_ours[] = {{HVD_ANNOTATION_JOB_UID, ALL}, {HVD_ANNOTATION_SPEC_HASH, ALL},
                             {HVD_ANNOTATION_GENERATION, ALL}, {HVD_ANNOTATION_ATTEMPT, ALL},
                             {HVD_ANNOTATION_WORKERS, ALL}, {HVD_ANNOTATION_WORKERS_HASH, ALL},
                             {HVD_ANNOTATION_SCALED_DOWN, ALL}, {HVD_ANNOTATION_END, ALL},
                             {HVD_ANNOTATION_CONTAINER, ALL},
                             {HVD_ANNOTATION_HOSTS, ALL}, {HVD_ANNOTATION_TOPOLOGY, ALL}, END},
    labels_of_ours[] = {{HVD_LABEL_MANAGED_BY, ALL}, {HVD_LABEL_JOB, ALL}, {HVD_LABEL_ROLE, ALL},
                        END},
    meta_of_job[] = {{"generation", ALL}, META(labels_of_ours)},
    meta_of_child[] = {META(labels_of_ours)},
    meta_of_set[] = {{"generation", ALL}, META(labels_of_ours)},
    /* Any label of a pod or node may be a topology key. */
    meta_of_pod[] = {{"deletionGracePeriodSeconds", ALL}, META(ALL)},
    condition[] = {{"type", ALL}, {"status", ALL}, {"reason", TAIL}, {"message", TAIL},
                   {"lastTransitionTime", ALL}, END},
    pod_condition[] = {{"type", ALL}, {"status", ALL}, {"reason", TAIL}, {"message", TAIL},
                       {"lastTransitionTime", ALL}, END},
    phase[] = {{"phase", ALL}, END},
    each[] = {{HVD_SHAPE_ANY, ALL}, END},
    uid_only[] = {{"uid", ALL}, END},
    event_series[] = {{"lastObservedTime", ALL}, END},
    event_meta[] = {{"creationTimestamp", ALL}, END},
    event_source[] = {{"component", ALL}, END},
    service_spec[] = {{"type", ALL}, {"clusterIP", ALL}, {"publishNotReadyAddresses", ALL},
                      {"selector", ALL}, END},
    set_status[] = {{"updateRevision", ALL}, {"observedGeneration", ALL}, END},
    job_status[] = {{"conditions", condition}, {"startTime", ALL}, END},
    template_pod[] = {{"restartPolicy", TAIL}, END},
    template_mark[] = {{HVD_ANNOTATION_JOB_UID, ALL}, END},
    template_meta[] = {{"annotations", template_mark}, END},
    template_spec[] = {{"metadata", template_meta}, {"spec", template_pod}, END},
    template_of_set[] = {{"metadata", template_meta}, END},
    statefulset_spec[] = {{"replicas", ALL}, {"ordinals", ALL}, {"updateStrategy", ALL},
                          {"serviceName", TAIL}, {"podManagementPolicy", TAIL},
                          {"volumeClaimTemplates", uid_only}, {"selector", uid_only},
                          {"template", template_of_set}, END},
    job_spec[] = {{"suspend", ALL}, {"parallelism", ALL}, {"ttlSecondsAfterFinished", ALL},
                  {"activeDeadlineSeconds", ALL}, {"backoffLimit", ALL}, {"managedBy", TAIL},
                  {"completions", ALL}, {"completionMode", TAIL}, {"backoffLimitPerIndex", ALL},
                  {"podFailurePolicy", uid_only}, {"manualSelector", ALL},
                  {"template", template_spec}, END},
    /* The operator needs to know only whether the files of the list are there. */
    files_of_ours[] = {{"hostfile", TAIL}, {"hosts", TAIL}, {"discover_hosts.sh", TAIL},
                       {"ssh_config", TAIL}, END},
    memory_only[] = {{"memory", ALL}, END},
    limits_only[] = {{"limits", memory_only}, END},
    container[] = {{"name", ALL}, {"resources", limits_only}, END},
    init_container[] = {{"name", ALL}, {"restartPolicy", ALL}, {"resources", limits_only}, END},
    pod_spec[] = {{"nodeName", ALL}, {"schedulerName", ALL}, {"subdomain", ALL},
                  {"activeDeadlineSeconds", ALL},
                  {"containers", container},
                  {"initContainers", init_container}, END},
    texts[] = {{HVD_SHAPE_ANY, TAIL}, END},
    state[] = {{HVD_SHAPE_ANY, texts}, END},
    container_status[] = {{"name", ALL}, {"image", TAIL}, {"restartCount", ALL}, {"ready", ALL},
                          {"started", ALL}, {"state", state},
                          {"lastState", state}, END},
    pod_status[] = {{"phase", ALL}, {"podIP", ALL}, {"reason", TAIL}, {"message", TAIL},
                    {"conditions", pod_condition}, {"containerStatuses", container_status},
                    {"initContainerStatuses", container_status}, END};

static const struct hvd_shape
    of_horovodjob[] = {OBJECT(meta_of_job), {"spec", each}, {"status", each}, END},
    of_secret[] = {OBJECT(meta_of_child), END},
    of_service[] = {OBJECT(meta_of_child), {"spec", service_spec}, END},
    of_statefulset[] = {OBJECT(meta_of_set), {"spec", statefulset_spec},
                        {"status", set_status}, END},
    of_configmap[] = {OBJECT(meta_of_child), {"data", ALL}, {"binaryData", files_of_ours},
                      {"immutable", ALL}, END},
    of_job[] = {OBJECT(meta_of_child), {"spec", job_spec}, {"status", job_status}, END},
    of_pod[] = {OBJECT(meta_of_pod), {"spec", pod_spec}, {"status", pod_status}, END},
    of_event[] = {{"kind", ALL}, {"metadata", event_meta}, {"reason", ALL}, {"message", ALL},
                  {"involvedObject", uid_only}, {"series", event_series}, {"lastTimestamp", ALL},
                  {"eventTime", ALL}, {"source", event_source}, {"reportingComponent", ALL}, END},
    of_lease[] = {OBJECT(meta_of_child), {"spec", each}, END},
    names_and_status[] = {OBJECT(meta_of_job), {"status", each}, END},
    names[] = {OBJECT(meta_of_job), END},
    of_node[] = {{"metadata", meta_of_pod}, END},
    of_podgroup[] = {OBJECT(meta_of_child), {"spec", ALL}, {"status", phase}, END};
/* clang-format on */

const struct hvd_shape *hvd_shape_of_kind(enum hvd_kind kind)
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
        [HVD_KIND_LEASE] = of_lease,
        [HVD_KIND_NODE] = of_node,
        [HVD_KIND_VOLCANO_PODGROUP] = of_podgroup,
        [HVD_KIND_PLUGINS_PODGROUP] = of_podgroup,
    };

    return shapes[kind];
}

const struct hvd_shape *hvd_shape_reduced(bool has_status)
{
    return has_status ? names_and_status : names;
}

struct hvd_pick_options hvd_shape_pick(enum hvd_kind kind)
{
    /* One of these marks a job's child, even without its owner reference: of all metadata only the
     * name cannot be edited. */
    static const char *const gates[] = {"\"HorovodJob\"",
                                        "\"" HVD_ANNOTATION_JOB_UID "\"",
                                        "\"" HVD_ANNOTATION_SPEC_HASH "\"",
                                        "\"" HVD_ANNOTATION_ATTEMPT "\"",
                                        "-worker",
                                        "-master\"",
                                        "-hosts\"",
                                        NULL};
    const bool is_child = kind == HVD_KIND_SECRET || kind == HVD_KIND_SERVICE ||
                          kind == HVD_KIND_STATEFULSET || kind == HVD_KIND_CONFIGMAP ||
                          kind == HVD_KIND_JOB || kind == HVD_KIND_VOLCANO_PODGROUP ||
                          kind == HVD_KIND_PLUGINS_PODGROUP;

    return (struct hvd_pick_options){
        .shape = hvd_shape_of_kind(kind),
        .object = hvd_shape_of_kind(kind),
        .max_bytes = kind == HVD_KIND_HOROVODJOB ? HVD_KIND_JOB_MAX : HVD_KIND_OBJECT_MAX,
        .gates = is_child ? gates : NULL,
    };
}
