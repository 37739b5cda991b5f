/*
 * Members of the status that an older definition in the cluster drops: see kept.h. Pure.
 */
#include "operator/core/kept.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"

#define STATUS "status"

/* Whether found lacks the value, or a member of it. */
static bool lacks(const cJSON *value, const cJSON *found)
{
    const cJSON *item = NULL;

    if (!found)
        return true;
    if (!cJSON_IsObject(value))
        return false;
    cJSON_ArrayForEach(item, value)
    {
        if (!cJSON_IsNull(item) && !hvd_json_get(found, item->string))
            return true;
    }
    return false;
}

static bool add(cJSON *parent, const cJSON *item)
{
    cJSON *copy = cJSON_Duplicate(item, true);

    cJSON_DeleteItemFromObjectCaseSensitive(parent, item->string);
    if (copy && cJSON_AddItemToObject(parent, item->string, copy))
        return true;
    cJSON_Delete(copy);
    return false;
}

/* Adds what found lacks of those values; false: out of memory. */
static bool add_lost(cJSON *lost, const cJSON *values, const cJSON *found)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, values)
    {
        if (!cJSON_IsNull(item) && !hvd_str_equal(item->string, "conditions") &&
            lacks(item, hvd_json_get(found, item->string)) && !add(lost, item))
            return false;
    }
    return true;
}

hvd_status_t hvd_kept_compare(const char *sent, const cJSON *answer, cJSON **lost)
{
    const cJSON *found = hvd_json_get(answer, STATUS), *values;
    cJSON *body = NULL, *now = cJSON_CreateObject();
    hvd_status_t st = HVD_OK;

    if (!now || hvd_json_parse(sent, &body) != HVD_OK)
        st = HVD_ERR_NOMEM;
    values = hvd_json_get(body, STATUS);
    if (st == HVD_OK && hvd_json_str(values, "state") &&
        hvd_str_equal(hvd_json_str(found, "state"), hvd_json_str(values, "state"))) {
        if (!add_lost(now, *lost, found) || !add_lost(now, values, found))
            st = HVD_ERR_NOMEM;
        if (st == HVD_OK) {
            cJSON_Delete(*lost);
            *lost = now->child ? now : NULL;
            now = *lost ? NULL : now;
        }
    }
    cJSON_Delete(now);
    cJSON_Delete(body);
    return st;
}

static hvd_status_t restore(cJSON *object, const cJSON *lost)
{
    cJSON *status = cJSON_GetObjectItemCaseSensitive(object, STATUS);
    const cJSON *item = NULL;

    if (!cJSON_IsObject(status))
        return HVD_OK;
    cJSON_ArrayForEach(item, lost)
    {
        if (lacks(item, hvd_json_get(status, item->string)) && !add(status, item))
            return HVD_ERR_NOMEM;
    }
    return HVD_OK;
}

hvd_status_t hvd_kept_decode(const cJSON *object, const cJSON *lost, struct hvd_job *out,
                             struct hvd_err *err)
{
    cJSON *copy = cJSON_Duplicate(object, true);
    hvd_status_t st = copy ? restore(copy, lost) : HVD_ERR_NOMEM;

    if (st == HVD_OK) {
        hvd_job_fini(out);
        *out = (struct hvd_job){0};
        st = hvd_job_decode(copy, out, err);
    } else {
        hvd_err_set(err, st, 0, "a HorovodJob: out of memory");
    }
    cJSON_Delete(copy);
    return st;
}

void hvd_kept_names(const cJSON *lost, char *out, size_t size)
{
    const cJSON *item = NULL;
    size_t len = 0;

    out[0] = '\0';
    cJSON_ArrayForEach(item, lost)
    {
        if (len + strlen(item->string) + sizeof(", status.") >= size)
            return;
        (void)snprintf(out + len, size - len, "%sstatus.%s", len ? ", " : "", item->string);
        len = strlen(out);
    }
}
