/*
 * The operator's part of `script/bench nodes --stages`: debug lines with times of the monotonic
 * clock, which the benchmark combines with the API server's audit log. They cost nothing below the
 * level debug, and decide nothing.
 */
#include "operator/app/stages.h"

#include <inttypes.h>
#include <stdio.h>

#include "operator/app/clock.h"
#include "operator/app/process.h"
#include "operator/kube/api.h"

#define SUBSYSTEM "stages"

static bool is_on(const struct hvd_log *log)
{
    return log && log->sink && log->level == HVD_LOG_DEBUG;
}

#define NUMBER_SIZE 24

static void print(char out[NUMBER_SIZE], int64_t value)
{
    (void)snprintf(out, NUMBER_SIZE, "%" PRId64, value);
}

void hvd_stages_woke(struct hvd_stages *stages)
{
    if (is_on(stages->log))
        stages->_woken_us = hvd_clock_us();
}

void hvd_stages_look(struct hvd_stages *stages)
{
    if (!is_on(stages->log))
        return;
    stages->_before_us = stages->_looked_us;
    stages->_looked_us = hvd_clock_us();
    stages->_n_looks++;
}

void hvd_stages_put(const struct hvd_stages *stages, enum hvd_kind kind, const cJSON *object)
{
    char before[NUMBER_SIZE], woken[NUMBER_SIZE], looked[NUMBER_SIZE], at[NUMBER_SIZE];
    char waited[NUMBER_SIZE], look[NUMBER_SIZE];
    const cJSON *meta;

    if (!is_on(stages->log))
        return;
    meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    print(look, stages->_n_looks);
    print(before, stages->_before_us);
    print(woken, stages->_woken_us);
    print(looked, stages->_looked_us);
    print(at, hvd_clock_us());
    print(waited, hvd_process_waited_us());
    HVD_LOG_KV(stages->log, HVD_LOG_DEBUG, SUBSYSTEM, "object came",
               {"resource", hvd_kind_info(kind)->resource},
               {"name", hvd_kube_api_text(meta, "name")},
               {"version", hvd_kube_api_text(meta, "resourceVersion")}, {"look", look},
               {"before_us", before}, {"woken_us", woken}, {"looked_us", looked}, {"at_us", at},
               {"waited_us", waited});
}

void hvd_stages_sent(const struct hvd_stages *stages)
{
    char at[NUMBER_SIZE], waited[NUMBER_SIZE];

    if (!is_on(stages->log))
        return;
    print(at, hvd_clock_us());
    print(waited, hvd_process_waited_us());
    HVD_LOG_KV(stages->log, HVD_LOG_DEBUG, SUBSYSTEM, "requests left", {"at_us", at},
               {"waited_us", waited});
}

static void log_write(const struct hvd_stages *stages, const char *text,
                      const struct hvd_stages_write *write)
{
    char at[NUMBER_SIZE], look[NUMBER_SIZE];

    if (!stages || !is_on(stages->log))
        return;
    print(at, hvd_clock_us());
    print(look, stages->_n_looks);
    HVD_LOG_KV(stages->log, HVD_LOG_DEBUG, SUBSYSTEM, text, {"job", write->job},
               {"resource", hvd_kind_info(write->kind)->resource},
               {"subresource", write->is_status ? "status" : NULL}, {"look", look}, {"at_us", at});
}

void hvd_stages_asked(const struct hvd_stages *stages, const struct hvd_stages_write *write)
{
    log_write(stages, "request made", write);
}

void hvd_stages_answered(const struct hvd_stages *stages, const struct hvd_stages_write *write)
{
    log_write(stages, "answer came", write);
}
