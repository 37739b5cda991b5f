#ifndef HVD_OPERATOR_APP_ANSWER_H
#define HVD_OPERATOR_APP_ANSWER_H

#include <stdbool.h>

#include "operator/core/pass/plan.h"
#include "operator/kube/api.h"

/* What answers to actions mean, beside hvd_refusal_judge (refusal.h). Pure. */

/* Why a request has failed; borrowed from the response. */
const char *hvd_answer_message(const struct hvd_kube_response *response);

/* Whether another try of an event may help: the server did not get to it. The status does not wait
 * for one that is refused. */
bool hvd_answer_is_worth_another(const struct hvd_kube_response *response);

/* Whether a JSON patch does not fit what it is applied to: the object is another one by now. The
 * API server has one text for that, which names no field. */
bool hvd_answer_has_missed(const struct hvd_action *action,
                           const struct hvd_kube_response *response);

/* Whether the object has that uid, and the body of the write names it, in its version if it names
 * one. After a 404 any version will do. */
bool hvd_answer_is_about(const struct hvd_action *action, const struct hvd_kube_response *response,
                         const cJSON *object, const char *uid);

/* Whether the action is a write, and no read or question. */
bool hvd_answer_is_of_write(const struct hvd_action *action);

#endif
