#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/app/stages.h"

struct heard {
    unsigned n;
    char last[512]; /* "msg key=value ..." */
};

static void hear(void *ctx, const struct hvd_log_record *record)
{
    struct heard *heard = ctx;
    int at = snprintf(heard->last, sizeof(heard->last), "%s", record->msg);

    heard->n++;
    for (size_t i = 0; i < record->n_fields; i++)
        if (record->fields[i].value)
            at += snprintf(heard->last + at, sizeof(heard->last) - (size_t)at, " %s=%s",
                           record->fields[i].key, record->fields[i].value);
}

static int64_t field(const struct heard *heard, const char *key)
{
    const char *at = strstr(heard->last, key);

    assert_non_null(at);
    return strtoll(at + strlen(key), NULL, 10);
}

static const struct hvd_stages_write status = {"default/a", HVD_KIND_HOROVODJOB, true};

static void go_through(struct hvd_stages *stages, const cJSON *pod)
{
    hvd_stages_look(stages);
    hvd_stages_woke(stages);
    hvd_stages_look(stages);
    hvd_stages_put(stages, HVD_KIND_POD, pod);
}

static void an_object_comes_after_the_look_that_brought_it(void **state)
{
    struct heard heard = {0};
    const struct hvd_log log = {HVD_LOG_DEBUG, hear, &heard};
    struct hvd_stages stages = {.log = &log};
    cJSON *pod = cJSON_Parse("{\"metadata\":{\"name\":\"a-worker-0\",\"resourceVersion\":\"7\"}}");

    (void)state;
    go_through(&stages, pod);
    assert_int_equal(heard.n, 1);
    assert_non_null(
        strstr(heard.last, "object came resource=pods name=a-worker-0 version=7 look=2"));
    assert_true(field(&heard, "before_us=") > 0);
    assert_true(field(&heard, "before_us=") <= field(&heard, "woken_us="));
    assert_true(field(&heard, "woken_us=") <= field(&heard, "looked_us="));
    assert_true(field(&heard, "looked_us=") <= field(&heard, " at_us="));
    cJSON_Delete(pod);
}

static void a_write_is_named_with_the_look_before_it(void **state)
{
    struct heard heard = {0};
    const struct hvd_log log = {HVD_LOG_DEBUG, hear, &heard};
    struct hvd_stages stages = {.log = &log};

    (void)state;
    hvd_stages_look(&stages);
    hvd_stages_asked(&stages, &status);
    assert_non_null(strstr(heard.last, "request made job=default/a resource=horovodjobs "
                                       "subresource=status look=1 at_us="));
    hvd_stages_sent(&stages);
    assert_non_null(strstr(heard.last, "requests left at_us="));
    hvd_stages_answered(&stages, &status);
    assert_non_null(strstr(heard.last, "answer came job=default/a"));
    hvd_stages_asked(NULL, &status);
    assert_int_equal(heard.n, 3);
}

static void nothing_is_measured_below_the_level_debug(void **state)
{
    struct heard heard = {0};
    const struct hvd_log log = {HVD_LOG_INFO, hear, &heard};
    struct hvd_stages stages = {.log = &log};

    (void)state;
    go_through(&stages, NULL);
    hvd_stages_sent(&stages);
    hvd_stages_asked(&stages, &status);
    hvd_stages_answered(&stages, &status);
    assert_int_equal(heard.n, 0);
    assert_int_equal(stages._n_looks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_comes_after_the_look_that_brought_it),
        cmocka_unit_test(a_write_is_named_with_the_look_before_it),
        cmocka_unit_test(nothing_is_measured_below_the_level_debug),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
