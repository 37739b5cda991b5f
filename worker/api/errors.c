/*
 * Converts internal statuses and messages to those of the public header. Any thread, no state.
 */
#include <stdio.h>

#include "worker/api/api_internal.h"

static horovod_status_t convert(hvd_status_t st)
{
    switch (st) {
    case HVD_OK:
        return HOROVOD_OK;
    case HVD_INPROGRESS:
        return HOROVOD_IN_PROGRESS;
    case HVD_ERR_INVALID:
    case HVD_ERR_EXISTS:
    case HVD_ERR_NOT_FOUND:
    case HVD_ERR_TOO_LARGE:
        return HOROVOD_INVALID_ARGUMENT;
    case HVD_ERR_NOMEM:
        return HOROVOD_OUT_OF_MEMORY;
    case HVD_ERR_MISMATCH:
    case HVD_ERR_STATE:
        return HOROVOD_PRECONDITION_ERROR;
    case HVD_ERR_SHUTDOWN:
    case HVD_ERR_CANCELED:
    case HVD_ERR_GONE:
    case HVD_ERR_UNAVAILABLE:
        return HOROVOD_ABORTED;
    default:
        return HOROVOD_UNKNOWN_ERROR;
    }
}

horovod_status_t hvd_api_status(hvd_status_t st, const struct hvd_err *from, horovod_error_t *err)
{
    const horovod_status_t status = convert(st);

    if (st >= HVD_OK || !err)
        return status;
    err->status = status;
    snprintf(err->message, sizeof(err->message), "%s",
             from->msg[0] ? from->msg : hvd_status_str(st));
    return status;
}

horovod_status_t hvd_api_not_initialized(horovod_error_t *err)
{
    struct hvd_err why = {0};

    if (hvd_api_is_forked())
        hvd_api_explain_fork(&why);
    else
        hvd_err_set(
            &why, HVD_ERR_STATE, 0,
            "Horovod has not been initialized; use horovod_init() (in Python: hvd.init()).");
    return hvd_api_status(HVD_ERR_STATE, &why, err);
}

const char *horovod_status_name(horovod_status_t status)
{
    switch (status) {
    case HOROVOD_OK:
        return "HOROVOD_OK";
    case HOROVOD_UNKNOWN_ERROR:
        return "HOROVOD_UNKNOWN_ERROR";
    case HOROVOD_PRECONDITION_ERROR:
        return "HOROVOD_PRECONDITION_ERROR";
    case HOROVOD_ABORTED:
        return "HOROVOD_ABORTED";
    case HOROVOD_INVALID_ARGUMENT:
        return "HOROVOD_INVALID_ARGUMENT";
    case HOROVOD_IN_PROGRESS:
        return "HOROVOD_IN_PROGRESS";
    case HOROVOD_OUT_OF_MEMORY:
        return "HOROVOD_OUT_OF_MEMORY";
    }
    return "unknown status";
}
