#ifndef HVD_OPERATOR_CORE_REFUSAL_H
#define HVD_OPERATOR_CORE_REFUSAL_H

#include <stdbool.h>

/* Within what the API server answers to a creation in a namespace that is being deleted. */
#define HVD_REFUSAL_NAMESPACE "because it is being terminated"

/*
 * Whether a refused create or patch (400 or 422) may pass later, because a policy of the cluster
 * refused it and not the API server's own rules: what a webhook or an admission policy denies today
 * may be allowed tomorrow, with the same object. message is the API server's text; NULL is none.
 */
bool hvd_refusal_may_pass(const char *message);

#endif
