/*
 * Compares a status that was read with the one that the operator would write from it, and keeps the
 * conditions of other writers. The comparison finds what decoding ignores: a forged message, a
 * number out of range, a malformed time. Pure.
 */
#include <string.h>

#include "base/mem.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"

#define OTHERS_MAX 32
#define OTHERS_BYTES_MAX 16384

static bool is_other(const cJSON *item)
{
    const char *type = hvd_json_str(item, "type");

    return type && !hvd_status_is_own_condition(type);
}

/* The array of the first n conditions of other writers, or of fewer. */
static cJSON *collect_others(struct hvd_jb *jb, const cJSON *status, int n)
{
    cJSON *root = hvd_jb_root(jb);
    cJSON *list = hvd_jb_array(jb, root, "others");
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_get(status, "conditions"))
    {
        if (n == 0)
            break;
        if (!is_other(item))
            continue;
        hvd_jb_copy(jb, list, NULL, item);
        n--;
    }
    return root;
}

hvd_status_t hvd_exact_keep_others(const cJSON *status, char **out)
{
    const cJSON *item = NULL;
    bool has_any = false;
    char *text = NULL;

    cJSON_ArrayForEach(item, hvd_json_get(status, "conditions"))
    {
        has_any = has_any || is_other(item);
    }
    for (int n = OTHERS_MAX; has_any && n > 0; n /= 2) {
        struct hvd_jb jb = {0};
        cJSON *root = collect_others(&jb, status, n);

        text = hvd_jb_print(&jb, hvd_json_get(root, "others"));
        cJSON_Delete(root);
        if (!text)
            return HVD_ERR_NOMEM;
        if (strlen(text) <= OTHERS_BYTES_MAX)
            break;
        hvd_free(text);
        text = NULL;
    }
    *out = text;
    return HVD_OK;
}

/* Whether the value found equals the value that would be written, or is absent. */
static bool is_same(const cJSON *found, const cJSON *written)
{
    const cJSON *member = NULL;

    if (!found || cJSON_IsNull(found))
        return true;
    if (!cJSON_IsObject(written))
        return cJSON_Compare(found, written, true);
    cJSON_ArrayForEach(member, written)
    {
        if (!is_same(hvd_json_get(found, member->string), member))
            return false;
    }
    return cJSON_IsObject(found);
}

/* The last condition of that type, and how many there are. */
static const cJSON *find_condition(const cJSON *list, const char *type, int *n)
{
    const cJSON *item = NULL, *found = NULL;

    *n = 0;
    cJSON_ArrayForEach(item, list)
    {
        const char *name = hvd_json_str(item, "type");

        if (!name || strcmp(name, type) != 0)
            continue;
        found = item;
        ++*n;
    }
    return found;
}

/* Whether each of the operator's conditions occurs once, as the operator would write it. */
static bool are_conditions_same(const cJSON *found, const cJSON *written)
{
    const cJSON *item = NULL;
    int n;

    if (!found || cJSON_IsNull(found))
        return true;
    cJSON_ArrayForEach(item, found)
    {
        const char *type = hvd_json_str(item, "type");
        const cJSON *own;

        if (!type)
            return false;
        if (!hvd_status_is_own_condition(type))
            continue;
        own = find_condition(written, type, &n);
        if (!own || !is_same(item, own) || !find_condition(found, type, &n) || n > 1)
            return false;
    }
    return cJSON_IsArray(found);
}

hvd_status_t hvd_exact_check(const cJSON *status, const struct hvd_job *job, bool *is_exact)
{
    struct hvd_jb jb = {0};
    const cJSON *member = NULL;
    bool is_all_same = true;
    cJSON *written;

    if (!status || cJSON_IsNull(status))
        return HVD_OK;
    written = hvd_jb_root(&jb);
    hvd_status_put(&jb, written, job, &job->status);
    cJSON_ArrayForEach(member, written)
    {
        const cJSON *found = hvd_json_get(status, member->string);
        const bool is_list = strcmp(member->string, "conditions") == 0;

        is_all_same =
            is_all_same && (is_list ? are_conditions_same(found, member) : is_same(found, member));
    }
    cJSON_Delete(written);
    if (jb.failed)
        return HVD_ERR_NOMEM;
    *is_exact = is_all_same;
    return HVD_OK;
}
