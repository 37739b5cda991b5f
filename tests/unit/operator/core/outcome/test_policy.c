#include "tests/unit/support.h"

#include "operator/api/json.h"
#include "operator/core/outcome/policy.h"

#define RULES(text) "{\"rules\":[" text "]}"

static const struct hvd_policy_case master_3 = {HVD_ROLE_MASTER, true, 3, false};
static const struct hvd_policy_case evicted_worker = {HVD_ROLE_WORKER, false, 0, true};

static enum hvd_policy_action decide(const char *policy, const struct hvd_policy_case *failure,
                                     int *rule)
{
    cJSON *json = cJSON_Parse(policy);
    enum hvd_policy_action action = hvd_policy_decide(json, failure, 1, rule);

    cJSON_Delete(json);
    return action;
}

static void without_a_rule_that_fits_the_attempt_is_repeated(void **state)
{
    int rule = 7;

    (void)state;
    assert_int_equal(hvd_policy_decide(NULL, &master_3, 1, &rule), HVD_POLICY_RESTART);
    assert_int_equal(rule, 0);
    assert_int_equal(decide(RULES("{\"action\":\"Fail\",\"role\":\"Worker\"}"), &master_3, &rule),
                     HVD_POLICY_RESTART);
    assert_int_equal(rule, 0);
}

static void the_first_rule_that_fits_wins(void **state)
{
    static const char policy[] =
        RULES("{\"action\":\"Ignore\",\"onDisruption\":true},"
              "{\"action\":\"Fail\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[2,3]}},"
              "{\"action\":\"Ignore\",\"role\":\"Master\"}");
    int rule = 0;

    (void)state;
    assert_int_equal(decide(policy, &master_3, &rule), HVD_POLICY_FAIL);
    assert_int_equal(rule, 2);
    assert_int_equal(decide(policy, &evicted_worker, &rule), HVD_POLICY_IGNORE);
    assert_int_equal(rule, 1);
}

static void exit_codes_are_listed_or_not(void **state)
{
    static const char in[] =
        RULES("{\"action\":\"Fail\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[4]}}");
    static const char not_in[] =
        RULES("{\"action\":\"Fail\",\"onExitCodes\":{\"operator\":\"NotIn\",\"values\":[4]}}");
    int rule;

    (void)state;
    assert_int_equal(decide(in, &master_3, &rule), HVD_POLICY_RESTART);
    assert_int_equal(decide(not_in, &master_3, &rule), HVD_POLICY_FAIL);
    /* A pod that was evicted before it ended has no exit code at all. */
    assert_int_equal(decide(not_in, &evicted_worker, &rule), HVD_POLICY_RESTART);
}

static void a_rule_may_be_about_any_failure_of_the_attempt(void **state)
{
    const struct hvd_policy_case both[] = {evicted_worker, master_3};
    cJSON *json = cJSON_Parse(RULES("{\"action\":\"Fail\",\"role\":\"Worker\",\"onExitCodes\":{"
                                    "\"operator\":\"In\",\"values\":[3]}},{\"action\":\"Ignore\","
                                    "\"role\":\"Worker\",\"onDisruption\":true}"));
    int rule;

    (void)state;
    assert_int_equal(hvd_policy_decide(json, both, 2, &rule), HVD_POLICY_IGNORE);
    assert_int_equal(rule, 2);
    cJSON_Delete(json);
}

static void what_is_no_rule_fits_nothing(void **state)
{
    static const char *const policies[] = {
        "[]",
        "{\"rules\":7}",
        RULES("7,null,\"x\""),
        RULES("{}"),
        RULES("{\"action\":\"Explode\"}"),
        RULES("{\"action\":\"Fail\",\"role\":3}"),
        RULES("{\"action\":\"Fail\",\"onDisruption\":false}"),
        RULES("{\"action\":\"Fail\",\"onExitCodes\":{}}"),
        RULES("{\"action\":\"Fail\",\"onExitCodes\":{\"operator\":\"Near\",\"values\":[3]}}"),
        RULES("{\"action\":\"Fail\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[\"3\"]}}")};
    int rule;

    (void)state;
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
        assert_int_equal(decide(policies[i], &master_3, &rule), HVD_POLICY_RESTART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_rule_that_fits_the_attempt_is_repeated),
        cmocka_unit_test(the_first_rule_that_fits_wins),
        cmocka_unit_test(exit_codes_are_listed_or_not),
        cmocka_unit_test(a_rule_may_be_about_any_failure_of_the_attempt),
        cmocka_unit_test(what_is_no_rule_fits_nothing),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
