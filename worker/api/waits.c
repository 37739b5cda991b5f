/*
 * Waits for submitted tensors, and access to the outputs of allgather and alltoall. Any thread.
 */
#include "worker/api/api_internal.h"

int64_t hvd_api_timeout_ns(int64_t timeout_ms)
{
    const int64_t most_ms = INT64_MAX / 2000000;

    return (timeout_ms < 0 ? 0 : timeout_ms > most_ms ? most_ms : timeout_ms) * 1000000;
}

/* Waits until the result is there. */
static horovod_status_t wait_handle(horovod_handle_t handle, int64_t timeout_ns,
                                    struct hvd_outcome *outcome, horovod_error_t *err)
{
    struct hvd_err why;
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_err_clear(&why);
    hvd_status_t st = hvd_engine_wait_result(engine, handle, timeout_ns, outcome, &why);
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

/* wait_handle() for a handle that may have an output. */
static horovod_status_t wait_output(horovod_handle_t handle, int64_t timeout_ns,
                                    struct horovod_output **output, horovod_error_t *err)
{
    struct hvd_outcome outcome = {0};
    const horovod_status_t status = wait_handle(handle, timeout_ns, output ? &outcome : NULL, err);

    if (status == HOROVOD_OK && output)
        *output = outcome.output;
    return status;
}

int horovod_poll(horovod_handle_t handle)
{
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return -1;
    int result = hvd_engine_poll(engine, handle);
    hvd_api_exit();
    return result;
}

horovod_status_t horovod_wait(horovod_handle_t handle, horovod_error_t *err)
{
    return wait_handle(handle, -1, NULL, err);
}

horovod_status_t horovod_wait_output(horovod_handle_t handle, horovod_output_t **output,
                                     horovod_error_t *err)
{
    return wait_output(handle, -1, output, err);
}

horovod_status_t horovod_wait_for(horovod_handle_t handle, int64_t timeout_ms,
                                  horovod_output_t **output, horovod_error_t *err)
{
    return wait_output(handle, hvd_api_timeout_ns(timeout_ms), output, err);
}

horovod_status_t horovod_wait_join(horovod_handle_t handle, int64_t timeout_ms, int *last_rank,
                                   horovod_error_t *err)
{
    struct hvd_outcome outcome = {0};
    const horovod_status_t status =
        wait_handle(handle, hvd_api_timeout_ns(timeout_ms), &outcome, err);

    if (status == HOROVOD_OK && last_rank)
        *last_rank = (int)outcome.number;
    return status;
}

/* Makes the stream wait for the result of a launched operation. */
static hvd_status_t order(struct hvd_engine *engine, struct hvd_outcome *outcome, void *stream,
                          struct hvd_err *err)
{
    const hvd_status_t st = hvd_engine_order(engine, outcome->event, stream, err);

    if (st == HVD_ERR_INVALID) /* the program may free the tensor now */
        (void)hvd_engine_await(engine, outcome->event, NULL);
    hvd_device_event_release(outcome->event);
    outcome->event = NULL;
    if (outcome->output) {
        outcome->output->has_stream = outcome->output->device != NULL;
        outcome->output->stream = stream;
    }
    return st;
}

horovod_status_t horovod_wait_stream(horovod_handle_t handle, void *stream, int64_t timeout_ms,
                                     horovod_output_t **output, horovod_error_t *err)
{
    const int64_t timeout_ns = timeout_ms < 0 ? -1 : hvd_api_timeout_ns(timeout_ms);
    struct hvd_outcome outcome = {0};
    struct hvd_err why;
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_err_clear(&why);
    hvd_status_t st = hvd_api_waits_on_host()
                          ? hvd_engine_wait_result(engine, handle, timeout_ns, &outcome, &why)
                          : hvd_engine_wait_for(engine, handle, timeout_ns, &outcome, &why);
    if (st == HVD_OK)
        st = order(engine, &outcome, stream, &why);
    if (st != HVD_OK || !output)
        hvd_output_destroy(outcome.output);
    else
        *output = outcome.output;
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

horovod_status_t horovod_check_job(horovod_error_t *err)
{
    struct hvd_err why;
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_err_clear(&why);
    const hvd_status_t st = hvd_engine_check(engine, &why);
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

const void *horovod_output_data(const horovod_output_t *output)
{
    return output->data;
}

int64_t horovod_output_rows(const horovod_output_t *output)
{
    return output->n_rows;
}

int64_t horovod_output_rows_of(const horovod_output_t *output, int rank)
{
    return rank >= 0 && rank < output->n_ranks ? output->rows[rank] : -1;
}

size_t horovod_output_bytes(const horovod_output_t *output)
{
    return output->bytes;
}
