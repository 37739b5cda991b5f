#ifndef HVD_OPERATOR_CORE_OUTCOME_POLICY_H
#define HVD_OPERATOR_CORE_OUTCOME_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/view/projection.h"

/* Within operator/core only. The action of spec.failurePolicy for a failed attempt. */

enum hvd_policy_action {
    HVD_POLICY_RESTART, /* another attempt, if backoffLimit has one left */
    HVD_POLICY_FAIL,    /* no further attempt */
    HVD_POLICY_IGNORE,  /* another attempt, which does not count */
};

/* One of the causes of an attempt's failure. */
struct hvd_policy_case {
    enum hvd_role role;
    bool has_exit_code;
    int32_t exit_code;
    bool is_disruption;
};

/*
 * Decides what follows these failures: the action of the first rule that matches one of them,
 * restart without any. *rule gets the rule's number, from 1, or 0. failure_policy is
 * spec.failurePolicy and may be NULL; a malformed rule matches nothing.
 */
enum hvd_policy_action hvd_policy_decide(const cJSON *failure_policy,
                                         const struct hvd_policy_case *cases, size_t n_cases,
                                         int *rule);

#endif
