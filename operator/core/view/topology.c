/*
 * The rank order: hosts that agree in the first topology key are adjacent, within them those that
 * agree in the second, and so on. Values are only compared, never interpreted. Pure.
 */
#include "operator/core/view/topology.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"

#define KEY_SIZE 320
#define TEXT_MAX 4096

static hvd_status_t put_value(struct hvd_buf *text, const cJSON *labels, struct hvd_strview key)
{
    char name[KEY_SIZE] = "";
    const cJSON *label;
    hvd_status_t st = HVD_OK;

    if (key.len < sizeof(name))
        memcpy(name, key.data, key.len);
    label = hvd_json_get(labels, name);
    if (cJSON_IsString(label) && !strchr(label->valuestring, '\n'))
        st = hvd_buf_printf(text, "=%s", label->valuestring);
    return st == HVD_OK ? hvd_buf_puts(text, "\n") : st;
}

hvd_status_t hvd_topology_text(const cJSON *labels, const char *keys, char **out)
{
    struct hvd_strview rest = hvd_strview_of(keys);
    struct hvd_buf text;
    hvd_status_t st = HVD_OK;
    char *made = NULL;

    hvd_buf_init(&text, TEXT_MAX);
    while (st == HVD_OK && rest.data)
        st = put_value(&text, labels, hvd_strview_cut(&rest, ','));
    if (st == HVD_OK)
        made = hvd_strdup(text.data ? text.data : "");
    hvd_buf_fini(&text);
    if (!made)
        return HVD_ERR_NOMEM;
    *out = made;
    return HVD_OK;
}

/* The next line of the node, or of the pod if the node has no value there. */
static struct hvd_strview next_value(struct hvd_strview *node, struct hvd_strview *pod)
{
    struct hvd_strview of_node = hvd_strview_cut(node, '\n');
    struct hvd_strview of_pod = hvd_strview_cut(pod, '\n');

    return of_node.len > 0 ? of_node : of_pod;
}

static struct hvd_strview view_of(const char *text)
{
    return hvd_strview_of(text ? text : "");
}

static int compare_values(struct hvd_strview a, struct hvd_strview b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared > 0 ? memcmp(a.data, b.data, shared) : 0;

    if ((a.len == 0) != (b.len == 0))
        return a.len == 0 ? 1 : -1;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int hvd_topology_compare(const struct hvd_topology_pair *a, const struct hvd_topology_pair *b)
{
    struct hvd_strview a_node = view_of(a->node), a_pod = view_of(a->pod);
    struct hvd_strview b_node = view_of(b->node), b_pod = view_of(b->pod);
    int order = 0;

    while (order == 0 && (a_node.data || a_pod.data || b_node.data || b_pod.data))
        order = compare_values(next_value(&a_node, &a_pod), next_value(&b_node, &b_pod));
    return order;
}
