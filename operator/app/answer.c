/*
 * The meaning of answers as far as it depends only on the action and the answer. For perform.c.
 * Pure.
 */
#include "operator/app/answer.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"

const char *hvd_answer_message(const struct hvd_kube_response *response)
{
    return response->err ? response->err->msg : hvd_status_str(response->status);
}

bool hvd_answer_is_worth_another(const struct hvd_kube_response *response)
{
    return response->status != HVD_OK && response->status != HVD_ERR_EXISTS &&
           response->status != HVD_ERR_DENIED &&
           (response->code < 400 || response->status == HVD_ERR_UNAVAILABLE);
}

bool hvd_answer_has_missed(const struct hvd_action *action,
                           const struct hvd_kube_response *response)
{
    static const char text[] = "the server rejected our request due to an error in our request";

    return action->type == HVD_ACTION_PATCH && action->is_json_patch &&
           strncmp(hvd_kube_api_text(response->body, "message"), text, strlen(text)) == 0;
}

static bool names(const char *body, const char *text)
{
    char quoted[80]; /* a uid or a version */

    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", text);
    return *text && body && strstr(body, quoted);
}

bool hvd_answer_is_about(const struct hvd_action *action, const struct hvd_kube_response *response,
                         const cJSON *object, const char *uid)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const char *body = action->body;

    return strcmp(hvd_kube_api_text(meta, "uid"), uid) == 0 && names(body, uid) &&
           (response->code == 404 || !strstr(body, "\"resourceVersion\"") ||
            names(body, hvd_kube_api_text(meta, "resourceVersion")));
}

bool hvd_answer_is_of_write(const struct hvd_action *action)
{
    return action->type != HVD_ACTION_LOCATE && action->type != HVD_ACTION_EXPLAIN &&
           action->type != HVD_ACTION_LOOK && action->type != HVD_ACTION_READ_SPEC &&
           action->type != HVD_ACTION_TRACE && action->type != HVD_ACTION_ATTRIBUTE;
}
