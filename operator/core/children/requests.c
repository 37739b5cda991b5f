/*
 * The resources that a pod needs, by the scheduler's own rule. Containers run together, so their
 * requests add up. Init containers run one after another, so the largest counts. Sidecars (init
 * containers that always restart) stay, so they count with all that start after them. Pure.
 */
#include "operator/core/children/requests.h"

#include <stdlib.h>
#include <string.h>

static struct hvd_quantity *find(struct hvd_requests *sum, const char *name)
{
    for (size_t i = 0; i < sum->n; i++) {
        if (strcmp(sum->items[i].name, name) == 0)
            return &sum->items[i].amount;
    }
    if (sum->n == HVD_REQUESTS_MAX)
        return NULL;
    sum->items[sum->n].name = name;
    sum->items[sum->n].amount = (struct hvd_quantity){0};
    return &sum->items[sum->n++].amount;
}

static void add(struct hvd_requests *sum, const char *name, const cJSON *item)
{
    struct hvd_quantity amount;
    struct hvd_quantity *at;

    if (!hvd_quantity_read(item, &amount))
        return;
    at = find(sum, name);
    if (at)
        *at = hvd_quantity_sum(*at, amount);
}

static void add_all(struct hvd_requests *sum, const struct hvd_requests *more)
{
    for (size_t i = 0; i < more->n; i++) {
        struct hvd_quantity *at = find(sum, more->items[i].name);

        if (at)
            *at = hvd_quantity_sum(*at, more->items[i].amount);
    }
}

static void raise_to(struct hvd_requests *top, const struct hvd_requests *other)
{
    for (size_t i = 0; i < other->n; i++) {
        struct hvd_quantity *at = find(top, other->items[i].name);

        if (at)
            *at = hvd_quantity_max(*at, other->items[i].amount);
    }
}

/* Adds the requests of a ResourceRequirements, or its limits where it has no requests. */
static void add_resources(struct hvd_requests *sum, const cJSON *resources)
{
    const cJSON *requests = hvd_json_get(resources, "requests");
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, requests)
    {
        add(sum, item->string, item);
    }
    cJSON_ArrayForEach(item, hvd_json_get(resources, "limits"))
    {
        if (!hvd_json_get(requests, item->string))
            add(sum, item->string, item);
    }
}

static bool is_sidecar(const cJSON *container)
{
    const char *policy = hvd_json_str(container, "restartPolicy");

    return policy && strcmp(policy, "Always") == 0;
}

/* Adds the sum over containers, or the peak of the initialization. */
static void add_containers(struct hvd_requests *sum, const cJSON *pod)
{
    struct hvd_requests sidecars = {0}, top = {0};
    const cJSON *container = NULL;

    cJSON_ArrayForEach(container, hvd_json_get(pod, "initContainers"))
    {
        struct hvd_requests moment = sidecars;

        add_resources(&moment, hvd_json_get(container, "resources"));
        raise_to(&top, &moment);
        if (is_sidecar(container))
            sidecars = moment;
    }
    cJSON_ArrayForEach(container, hvd_json_get(pod, "containers"))
    {
        add_resources(sum, hvd_json_get(container, "resources"));
    }
    add_all(sum, &sidecars);
    raise_to(sum, &top);
}

/* The requests of the pod as a whole replace the sum over its containers. */
static void replace(struct hvd_requests *sum, const cJSON *resources)
{
    struct hvd_requests own = {0};

    add_resources(&own, resources);
    for (size_t i = 0; i < own.n; i++) {
        struct hvd_quantity *at = find(sum, own.items[i].name);

        if (at)
            *at = own.items[i].amount;
    }
}

void hvd_requests_add_pod(struct hvd_requests *sum, const cJSON *pod, int64_t n)
{
    struct hvd_requests one = {0};
    const cJSON *item = NULL;

    add_containers(&one, pod);
    replace(&one, hvd_json_get(pod, "resources"));
    cJSON_ArrayForEach(item, hvd_json_get(pod, "overhead"))
    {
        add(&one, item->string, item);
    }
    for (size_t i = 0; i < one.n; i++)
        one.items[i].amount = hvd_quantity_times(one.items[i].amount, n);
    add_all(sum, &one);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void hvd_requests_encode(struct hvd_jb *jb, cJSON *parent, const char *key,
                         const struct hvd_requests *sum)
{
    struct hvd_requests sorted = *sum;
    char text[HVD_QUANTITY_SIZE];
    cJSON *object;

    if (sum->n == 0)
        return;
    object = hvd_jb_object(jb, parent, key);
    qsort(sorted.items, sorted.n, sizeof(sorted.items[0]), by_name);
    for (size_t i = 0; i < sorted.n; i++) {
        hvd_quantity_format(sorted.items[i].amount, text);
        hvd_jb_str(jb, object, sorted.items[i].name, text);
    }
}
