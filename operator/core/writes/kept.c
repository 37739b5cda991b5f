/*
 * Members and conditions of the status that an older definition in the cluster, or a webhook,
 * drops: see kept.h. Pure.
 */
#include "operator/core/writes/kept.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"

#define STATUS "status"
#define CONDITIONS "conditions"

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

/* Adds the values that found lacks; false: out of memory. */
static bool add_lost(cJSON *lost, const cJSON *values, const cJSON *found)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, values)
    {
        if (!cJSON_IsNull(item) && !hvd_str_equal(item->string, CONDITIONS) &&
            lacks(item, hvd_json_get(found, item->string)) && !add(lost, item))
            return false;
    }
    return true;
}

static bool is_own(const char *type)
{
    bool is = false;

    for (int i = 0; i < HVD_N_CONDITIONS; i++)
        is = is || strcmp(hvd_job_condition_str((enum hvd_condition_type)i), type) == 0;
    return is;
}

static bool has_condition(const cJSON *list, const char *type)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, list)
    {
        if (hvd_str_equal(hvd_json_str(item, "type"), type))
            return true;
    }
    return false;
}

/* Adds a copy of each missing condition to the parent's list, which it creates. Other writers keep
 * their own conditions. False: out of memory. */
static bool add_conditions(cJSON *parent, const cJSON *conditions, const cJSON *found)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(parent, CONDITIONS);
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, conditions)
    {
        const char *type = hvd_json_str(item, "type");
        cJSON *copy;

        if (!type || !is_own(type) || has_condition(found, type))
            continue;
        if (!cJSON_IsArray(list)) {
            cJSON_DeleteItemFromObjectCaseSensitive(parent, CONDITIONS);
            list = cJSON_AddArrayToObject(parent, CONDITIONS);
        }
        copy = list ? cJSON_Duplicate(item, true) : NULL;
        if (!copy || !cJSON_AddItemToArray(list, copy)) {
            cJSON_Delete(copy);
            return false;
        }
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
        if (!add_lost(now, *lost, found) || !add_lost(now, values, found) ||
            !add_conditions(now, hvd_json_get(values, CONDITIONS), hvd_json_get(found, CONDITIONS)))
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
        const cJSON *found = hvd_json_get(status, item->string);

        if (hvd_str_equal(item->string, CONDITIONS) ? !add_conditions(status, item, found)
                                                    : lacks(item, found) && !add(status, item))
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

bool hvd_kept_lacks_conditions(const cJSON *lost)
{
    return hvd_json_get(lost, CONDITIONS) != NULL;
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
