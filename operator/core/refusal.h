#ifndef HVD_OPERATOR_CORE_REFUSAL_H
#define HVD_OPERATOR_CORE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define HVD_REFUSAL_SIZE 512

/*
 * Whether a refused create or patch (400 or 422) may pass later, because a policy of the cluster
 * refused it and not the API server's own rules: what a webhook or an admission policy denies today
 * may be allowed tomorrow, with the same object. message is the API server's text; NULL is none.
 */
bool hvd_refusal_may_pass(const char *message);

/*
 * Why the pods of an object cannot be made: what its controller wrote last as an event FailedCreate
 * about that uid, not before since_s. events is a list of Events as the API sent it. The text names
 * no pod, whose names may be others each time. False, and out empty, if there is none.
 */
bool hvd_refusal_find(const cJSON *events, const char *uid, int64_t since_s,
                      char out[HVD_REFUSAL_SIZE]);

#endif
