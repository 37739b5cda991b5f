#ifndef HVD_OPERATOR_CORE_WRITES_WRITE_H
#define HVD_OPERATOR_CORE_WRITES_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Changes and deletions of objects. */

/* The intention of a PATCH. */
struct hvd_patch {
    enum hvd_repair repair; /* the field */
    uint64_t value;         /* a hash of the new value, or a number that identifies it */
    char *body;
    bool is_json_patch;
    bool is_template; /* it holds the job's own template */
};

/* Adds a PATCH of an object, unless it has to wait because the same write was undone (contest.c).
 * Takes ownership of its body. */
void hvd_write_patch(struct hvd_pass *p, const struct hvd_object *object,
                     const struct hvd_patch *patch);

/* Adds the deletion of an object, likewise; hvd_write_delete_for deletes it because of one of its
 * fields. */
void hvd_write_delete(struct hvd_pass *p, const struct hvd_object *object);
void hvd_write_delete_for(struct hvd_pass *p, const struct hvd_object *object,
                          enum hvd_repair repair);

#endif
