#ifndef HVD_OPERATOR_CORE_OBSERVE_OBSERVE_ALTERED_H
#define HVD_OPERATOR_CORE_OBSERVE_OBSERVE_ALTERED_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "operator/api/kind.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Fields of a Job or StatefulSet that another writer set at its
 * creation. */

enum hvd_altered_effect {
    HVD_ALTERED_ENDS,           /* ends the job, whatever its spec is */
    HVD_ALTERED_ENDS_BY_NAME,   /* ends it if the workers are known by their names */
    HVD_ALTERED_ENDS_BY_MASTER, /* ends it if ranks run beside the master, which is known by its
                                   name */
    HVD_ALTERED_REPORTED,
};

struct hvd_alteration {
    enum hvd_kind kind;
    const char *path;
    const char *wanted; /* the value as text; "JOB": the job's name; NULL: absent */
    enum hvd_altered_effect effect;
    const char *follows;
};

/* Finds the first field of a Job or StatefulSet that was altered at its creation; false: out of
 * memory. */
bool hvd_observe_altered(const cJSON *object, struct hvd_object *out);

/* The altered field of a Job or StatefulSet; field 0: none. Borrowed from the object. */
const struct hvd_altered *hvd_observe_altered_of(const struct hvd_object *object);

/* The row of that field; NULL: none. Constant. */
const struct hvd_alteration *hvd_observe_alteration(const struct hvd_object *object);

#endif
