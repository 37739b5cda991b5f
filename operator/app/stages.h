#ifndef HVD_OPERATOR_APP_STAGES_H
#define HVD_OPERATOR_APP_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "operator/api/kind.h"

/*
 * Debug lines for a breakdown of the operator's own delay: when an object arrived, when a request
 * was made for a job, when requests left, and when an answer was processed. Times are microseconds
 * of hvd_clock_us. Without the level debug nothing is read and nothing logged. One thread. Starts
 * as zeros and the log.
 */
struct hvd_stages {
    const struct hvd_log *log; /* borrowed */
    int64_t _looked_us;        /* the last read of the network, and the one before */
    int64_t _before_us;
    int64_t _woken_us; /* the end of the wait before the last read */
    unsigned _n_looks;
};

/* Records the end of the wait for the network. */
void hvd_stages_woke(struct hvd_stages *stages);

/* Records a read of the network. */
void hvd_stages_look(struct hvd_stages *stages);

/*
 * Logs that a watch or list brought the object. Fields: `look` is the number of the read and
 * `looked_us` its time, `before_us` the time of the one before, `woken_us` the end of the wait,
 * `at_us` now. `waited_us` is the total time that the process has waited for a processor.
 */
void hvd_stages_put(const struct hvd_stages *stages, enum hvd_kind kind, const cJSON *object);

/* Logs that requests have left. */
void hvd_stages_sent(const struct hvd_stages *stages);

/* A write for a job: its key, "namespace/name", and the target. */
struct hvd_stages_write {
    const char *job;
    enum hvd_kind kind;
    bool is_status;
};

/* Logs that the write was decided (its request leaves next), or that its answer was processed. With
 * NULL for the stages logs nothing. */
void hvd_stages_asked(const struct hvd_stages *stages, const struct hvd_stages_write *write);
void hvd_stages_answered(const struct hvd_stages *stages, const struct hvd_stages_write *write);

#endif
