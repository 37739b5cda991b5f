/*
 * Nodes from the API server: the keys of a job in the first line, then a list of two Nodes. The
 * place of each has a line for each key and no other, reads the same from the parts of the text
 * that are parsed, is what the cache remembers, and is compared without contradiction.
 */
#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/api/object.h"
#include "operator/app/node_topology.h"
#include "operator/core/view/topology.h"
#include "tests/fuzz/fuzz.h"

#define KEYS_MAX 512

static size_t count(const char *text, char what)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == what;
    return n;
}

/* The place by all of the Node; NULL when there is more of it than of any Node. */
static char *place_of(const cJSON *node, const char *keys)
{
    char *text = NULL;

    if (hvd_topology_text(hvd_json_at(node, "metadata.labels"), keys, &text) != HVD_OK)
        return NULL;
    MUST(count(text, '\n') == count(keys, ',') + 1);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        MUST(*line == '=' || *line == '\n');
    return text;
}

/* What the shell does with an answer. */
static void check_cached(const cJSON *node, const char *keys, const char *place)
{
    struct hvd_node_topology cache = {.now_ms = 1000};
    char *body = cJSON_PrintUnformatted(node);

    MUST(body);
    cJSON *parts = NULL;
    (void)!hvd_object_read(HVD_KIND_NODE, hvd_strview_of(body), &parts);
    /* Keys that are written with escapes are not looked for. */
    if (parts && !strchr(body, '\\')) {
        MUST(hvd_node_topology_put(&cache, "n", keys, parts) == HVD_OK);
        const char *found = hvd_node_topology_find(&cache, "n", keys);
        MUST(found && strcmp(found, place) == 0);
        MUST(!hvd_node_topology_find(&cache, "m", keys));
    }
    hvd_node_topology_fini(&cache);
    hvd_json_drop(parts);
    cJSON_free(body);
}

static void check_order(const char *a, const char *b)
{
    const struct hvd_topology_pair as_node = {a, NULL}, as_pod = {NULL, a}, other = {b, NULL};
    const struct hvd_topology_pair nowhere = {0};
    const int order = hvd_topology_compare(&as_node, &other);

    MUST(hvd_topology_compare(&as_node, &as_node) == 0);
    MUST(hvd_topology_compare(&as_node, &as_pod) == 0);
    MUST((order > 0) == (hvd_topology_compare(&other, &as_node) < 0));
    MUST((order == 0) == (hvd_topology_compare(&other, &as_node) == 0));
    MUST((order == 0) == (strcmp(a, b) == 0));
    MUST(hvd_topology_compare(&as_node, &nowhere) <= 0);
}

static void check(const cJSON *nodes, const char *keys)
{
    const cJSON *first = cJSON_GetArrayItem(nodes, 0);
    char *a = place_of(first, keys);
    char *b = place_of(cJSON_GetArrayItem(nodes, 1), keys);

    if (first && a)
        check_cached(first, keys, a);
    if (a && b)
        check_order(a, b);
    hvd_free(a);
    hvd_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *end = memchr(text, '\n', size);
    cJSON *nodes = NULL;

    hvd_json_use_base_memory();
    if (end && end - text < KEYS_MAX) {
        *end = '\0';
        nodes = cJSON_ParseWithLength(end + 1, size - (size_t)(end + 1 - text));
    }
    if (nodes)
        check(nodes, text);
    cJSON_Delete(nodes);
    free(text);
    return 0;
}
