/*
 * Foreign pods with a worker's name: a StatefulSet cannot make a pod of that name. It also adopts a
 * pod without an owner that its selector matches, whatever the pod's number, and later removes it
 * with its own pods. The condition Running names such pods, and a set without pods waits until they
 * are gone. Pods that no watch shows are read by name (look.c). Pure.
 */
#include "operator/core/obstacles/occupied.h"

#include <string.h>

#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"

#define MESSAGE_SIZE 1024
#define NAMED_MAX 3 /* the others are counted */

/* The foreign pods, lowest numbers first. */
struct occupied {
    const char *names[NAMED_MAX];
    int32_t ordinals[NAMED_MAX];
    size_t n;
};

static void add(struct occupied *found, const char *name, int32_t ordinal)
{
    size_t at = found->n < NAMED_MAX ? found->n : NAMED_MAX;

    found->n++;
    for (; at > 0 && found->ordinals[at - 1] > ordinal; at--) {
        if (at == NAMED_MAX)
            continue;
        found->names[at] = found->names[at - 1];
        found->ordinals[at] = found->ordinals[at - 1];
    }
    if (at == NAMED_MAX)
        return;
    found->names[at] = name;
    found->ordinals[at] = ordinal;
}

/* Whether the set would make a pod of this name, or adopt this pod. */
static bool is_in_the_way(const struct hvd_pass *p, size_t group, const char *set,
                          const struct hvd_object *pod)
{
    const int32_t ordinal = hvd_pods_ordinal_in(set, pod->meta.name);
    const bool is_made = ordinal >= 0 && ordinal < p->job->spec.groups[group].replicas;
    const bool is_taken =
        hvd_look_is_adoptable(pod) && hvd_pods_number_in(set, pod->meta.name) >= 0;

    return (is_made || is_taken) && !hvd_pods_is_ours(p->view, pod, &p->owners);
}

static const struct hvd_object *find_pod(const struct hvd_pass *p, const char *name)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        if (p->view->objects[i]->kind == HVD_KIND_POD &&
            hvd_str_equal(p->view->objects[i]->meta.name, name))
            return p->view->objects[i];
    }
    return NULL;
}

static void find(const struct hvd_pass *p, size_t group, const char *set, struct occupied *out)
{
    int32_t ordinal;

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        if (pod->kind == HVD_KIND_POD && is_in_the_way(p, group, set, pod))
            add(out, pod->meta.name, hvd_pods_number_in(set, pod->meta.name));
    }
    for (size_t i = 0; i < p->view->n_failures; i++) {
        const struct hvd_failure *failure = &p->view->failures[i];

        if (failure->kind != HVD_KIND_POD || failure->type != HVD_FAILURE_FOREIGN)
            continue;
        ordinal = hvd_pods_ordinal_in(set, failure->name);
        if (ordinal >= 0 && ordinal < p->job->spec.groups[group].replicas &&
            !find_pod(p, failure->name))
            add(out, failure->name, ordinal);
    }
}

/* "default/digits-worker-0, digits-worker-1 and 3 more" */
static void list(const struct hvd_pass *p, const struct occupied *found, char *out, size_t size)
{
    hvd_text_format(out, size, "%s/%s", p->job->namespace, found->names[0]);
    for (size_t i = 1; i < found->n && i < NAMED_MAX; i++)
        hvd_text_format(out + strlen(out), size - strlen(out), ", %s", found->names[i]);
    if (found->n > NAMED_MAX)
        hvd_text_format(out + strlen(out), size - strlen(out), " and %zu more",
                        found->n - NAMED_MAX);
}

bool hvd_occupied_report(struct hvd_pass *p, size_t group)
{
    char set[HVD_CHILD_NAME_MAX], names[NAMED_MAX * 80 + 64];
    char message[MESSAGE_SIZE], key[HVD_CHILD_NAME_MAX + 64];
    struct occupied found = {.n = 0};
    bool is_one;

    hvd_children_group_name(p->job, group, set);
    /* Pods of a foreign set, or of an earlier job's set, end together with it. */
    if (hvd_pass_set(p, group) == HVD_CHILD_ALIEN || hvd_pass_set(p, group) == HVD_CHILD_WAIT)
        return false;
    find(p, group, set, &found);
    if (found.n == 0)
        return false;
    p->is_occupied = true;
    is_one = found.n == 1;
    list(p, &found, names, sizeof(names));
    hvd_text_format(key, sizeof(key), "not made by StatefulSet %s of this HorovodJob", set);
    hvd_text_format(
        message, sizeof(message),
        "Pod%s %s %s of %s and %s %s: %s left alone; remove %s, or give the job another "
        "name",
        is_one ? "" : "s", names, is_one ? "has the name" : "have names",
        is_one ? "a worker" : "workers", is_one ? "was" : "were", key,
        is_one ? "it is" : "they are", is_one ? "it" : "them");
    hvd_trouble_report_once(p, "Conflict", message, key);
    return true;
}
