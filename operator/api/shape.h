#ifndef HVD_OPERATOR_API_SHAPE_H
#define HVD_OPERATOR_API_SHAPE_H

#include <stdbool.h>

#include "operator/api/kind.h"
#include "operator/api/picker.h"

/* The most that is read of one object; less for a HorovodJob, because its spec stays in memory. */
#define HVD_KIND_JOB_MAX ((size_t)512 * 1024)
#define HVD_KIND_OBJECT_MAX ((size_t)2 * 1024 * 1024)

/* The fields that are read of an object of the kind. Never NULL for a legal kind. */
const struct hvd_shape *hvd_shape_of_kind(enum hvd_kind kind);

/* Options for picking such an object from a text that is that object; the caller changes what
 * differs, and sets take. Of children without a HorovodJob among their owners only the metadata is
 * wanted. */
struct hvd_pick_options hvd_shape_pick(enum hvd_kind kind);

/* The fields that are read of an object whose copy could not be parsed: its identity and its
 * status. */
const struct hvd_shape *hvd_shape_reduced(bool has_status);

#endif
