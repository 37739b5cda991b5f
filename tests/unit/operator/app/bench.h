#ifndef HVD_TESTS_UNIT_OPERATOR_APP_BENCH_H
#define HVD_TESTS_UNIT_OPERATOR_APP_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/app/perform.h"
#include "tests/unit/operator/kube/fake_api.h"

#define GONE_OF(name)                                                                              \
    "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"not "                              \
    "found\",\"details\":{\"name\":\"" name "\"}}"
#define GONE GONE_OF("j")
#define CONFLICT "{\"kind\":\"Status\",\"reason\":\"Conflict\"}"
#define EXISTS "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"exists\"}"

/* A job in the store, a performer over the fake port, and how the last plan ended. */
struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_metrics metrics;
    struct fake_api fake;
    struct hvd_performer performer;
    struct hvd_server_clock clock;
    struct hvd_entry *entry;
    struct hvd_plan plan;
    unsigned n_performed;
    hvd_status_t status;
    int64_t at_least_ms;
    int64_t wake_at_ms;
};

/* Set-up and tear-down of a cmocka test, whose state becomes a bench with the job ns/j; the second
 * fails where memory is left. */
int bench_set_up(void **state);

/* The other one. */
int bench_tear_down(void **state);

/* Appends an action on the Service j, or on the job for a status patch. */
void bench_plan(struct bench *b, enum hvd_action_type type, bool waits);

/* Performs the plan; its answers are the test's to give. */
void bench_perform(struct bench *b);

/* Whether a write waits for its next try, and the job does not wait with it. */
bool bench_is_put_off(const struct bench *b);

#endif
