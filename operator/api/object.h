#ifndef HVD_OPERATOR_API_OBJECT_H
#define HVD_OPERATOR_API_OBJECT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"
#include "operator/api/kind.h"

/*
 * Parses the copy of an API object that a picker has made; with is_event the object is the member
 * "object" of the copy, beside "type". If the copy cannot be parsed as a whole, the document holds
 * what identifies the object, its status if that can be parsed, and HVD_PICK_UNREADABLE. The caller
 * frees *out with hvd_json_drop. HVD_ERR_INVALID when nothing can be parsed, HVD_ERR_NOMEM; *out is
 * untouched then.
 */
hvd_status_t hvd_object_parse(struct hvd_strview copy, bool is_event, cJSON **out);

/* Picks and parses an object whose whole text is in memory, whatever its owner. Results as
 * hvd_object_parse; HVD_ERR_INVALID also if the picker finds no JSON. */
hvd_status_t hvd_object_read(enum hvd_kind kind, struct hvd_strview text, cJSON **out);

/* Which part of the object could not be read, and why; NULL: all was read. Borrowed. */
const char *hvd_object_trouble(const cJSON *object);

#endif
