#ifndef HVD_OPERATOR_APP_STAGES_H
#define HVD_OPERATOR_APP_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "operator/api/kind.h"

/*
 * Debug lines from which the time that the operator adds can be broken down: when an object came
 * in, when a request was made for a job, when requests left, and when an answer was taken in. Times
 * are microseconds of hvd_clock_us. Without the level debug nothing is read and nothing logged. One
 * thread. Starts as zeros and the log.
 */
struct hvd_stages {
    const struct hvd_log *log; /* borrowed */
    int64_t _looked_us;        /* the last look at the network, and the one before */
    int64_t _before_us;
    int64_t _woken_us; /* when the wait before the last look ended */
    unsigned _n_looks;
};

/* The wait for the network has ended. */
void hvd_stages_woke(struct hvd_stages *stages);

/* The network is read now. */
void hvd_stages_look(struct hvd_stages *stages);

/*
 * Logs that a watch or list brought the object. What the line names: `look` is the number of the
 * look and `looked_us` its time, `before_us` the time of the one before, `woken_us` the end of the
 * wait, `at_us` now, and `waited_us` for how long the process has waited for a processor, ever.
 */
void hvd_stages_put(const struct hvd_stages *stages, enum hvd_kind kind, const cJSON *object);

/* Logs that requests have left. */
void hvd_stages_sent(const struct hvd_stages *stages);

/* A write for a job: its key, "namespace/name", and what is written. */
struct hvd_stages_write {
    const char *job;
    enum hvd_kind kind;
    bool is_status;
};

/* Logs that the write was decided (its request leaves next), or that its answer was taken in. With
 * NULL for the stages nothing is logged. */
void hvd_stages_asked(const struct hvd_stages *stages, const struct hvd_stages_write *write);
void hvd_stages_answered(const struct hvd_stages *stages, const struct hvd_stages_write *write);

#endif
