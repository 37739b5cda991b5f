/*
 * spec.failurePolicy: rules that determine what follows a failed attempt. The rules are tried in
 * order, each against every failure of the attempt. A lost worker and the master that ended for it
 * are two failures of one attempt, and a rule may be about either. Pure.
 */
#include "operator/core/outcome/policy.h"

#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"

static bool fits_role(const cJSON *rule, const struct hvd_policy_case *failure)
{
    const char *role = hvd_json_str(rule, "role");

    if (!role)
        return !hvd_json_get(rule, "role");
    return strcmp(role, failure->role == HVD_ROLE_MASTER ? "Master" : "Worker") == 0;
}

static bool fits_exit_code(const cJSON *codes, const struct hvd_policy_case *failure)
{
    const char *how = hvd_json_str(codes, "operator");
    const cJSON *values = hvd_json_get(codes, "values");
    const cJSON *value = NULL;
    bool is_listed = false;

    if (!codes)
        return true;
    if (!failure->has_exit_code || !how || !cJSON_IsArray(values))
        return false;
    cJSON_ArrayForEach(value, values)
    {
        is_listed = is_listed || (cJSON_IsNumber(value) && value->valueint == failure->exit_code);
    }
    return strcmp(how, "In") == 0 ? is_listed : strcmp(how, "NotIn") == 0 && !is_listed;
}

static bool fits(const cJSON *rule, const struct hvd_policy_case *failure)
{
    const cJSON *disruption = hvd_json_get(rule, "onDisruption");

    return fits_role(rule, failure) && fits_exit_code(hvd_json_get(rule, "onExitCodes"), failure) &&
           (!disruption || (cJSON_IsTrue(disruption) && failure->is_disruption));
}

/* False if the rule names no action. */
static bool action_of(const cJSON *rule, enum hvd_policy_action *out)
{
    static const char *const names[] = {[HVD_POLICY_RESTART] = "Restart",
                                        [HVD_POLICY_FAIL] = "Fail",
                                        [HVD_POLICY_IGNORE] = "Ignore"};
    const char *name = hvd_json_str(rule, "action");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (hvd_str_equal(name, names[i])) {
            *out = (enum hvd_policy_action)i;
            return true;
        }
    }
    return false;
}

enum hvd_policy_action hvd_policy_decide(const cJSON *failure_policy,
                                         const struct hvd_policy_case *cases, size_t n_cases,
                                         int *rule)
{
    enum hvd_policy_action action = HVD_POLICY_RESTART;
    const cJSON *item = NULL;
    int number = 0;

    *rule = 0;
    cJSON_ArrayForEach(item, hvd_json_get(failure_policy, "rules"))
    {
        number++;
        for (size_t i = 0; i < n_cases; i++) {
            if (fits(item, &cases[i]) && action_of(item, &action)) {
                *rule = number;
                return action;
            }
        }
    }
    return HVD_POLICY_RESTART;
}
