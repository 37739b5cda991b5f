#ifndef HVD_OPERATOR_APP_ANSWER_H
#define HVD_OPERATOR_APP_ANSWER_H

#include <stdbool.h>

#include "operator/core/pass/plan.h"
#include "operator/kube/api.h"

/* The meaning of answers to actions, beside hvd_refusal_judge (refusal.h). Pure. */

/* Why a request failed; borrowed from the response. */
const char *hvd_answer_message(const struct hvd_kube_response *response);

/* Whether another try of an event may help, because the server did not process it. The status does
 * not wait for a refused event. */
bool hvd_answer_is_worth_another(const struct hvd_kube_response *response);

/* Whether a JSON patch does not fit its target, because the object has changed. The API server has
 * one text for that, which names no field. */
bool hvd_answer_has_missed(const struct hvd_action *action,
                           const struct hvd_kube_response *response);

/* Whether the object has that uid, and the body of the write names it, with its version if it names
 * one. After a 404 any version is right. */
bool hvd_answer_is_about(const struct hvd_action *action, const struct hvd_kube_response *response,
                         const cJSON *object, const char *uid);

/* Whether the action is a write, not a read or a question. */
bool hvd_answer_is_of_write(const struct hvd_action *action);

#endif
