#ifndef HVD_OPERATOR_CORE_OBSERVE_OBSERVE_ALTERED_H
#define HVD_OPERATOR_CORE_OBSERVE_OBSERVE_ALTERED_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "operator/api/kind.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Fields of a Job or StatefulSet that others set when it was made. */

enum hvd_altered_effect {
    HVD_ALTERED_ENDS,           /* the job, whatever its spec says */
    HVD_ALTERED_ENDS_BY_NAME,   /* it, if the workers are known by their names */
    HVD_ALTERED_ENDS_BY_MASTER, /* it, if ranks run beside the master, which is known by its name */
    HVD_ALTERED_REPORTED,
};

struct hvd_alteration {
    enum hvd_kind kind;
    const char *path;
    const char *wanted; /* its text; "JOB": the job's name; NULL: not there */
    enum hvd_altered_effect effect;
    const char *follows;
};

/* Finds the first field of a Job or StatefulSet that was altered when it was made; false: out of
 * memory. */
bool hvd_observe_altered(const cJSON *object, struct hvd_object *out);

/* What is altered of a Job or StatefulSet; field 0: nothing. Borrowed from the object. */
const struct hvd_altered *hvd_observe_altered_of(const struct hvd_object *object);

/* Its row; NULL: nothing is altered. Constant. */
const struct hvd_alteration *hvd_observe_alteration(const struct hvd_object *object);

#endif
