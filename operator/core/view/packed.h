#ifndef HVD_OPERATOR_CORE_VIEW_PACKED_H
#define HVD_OPERATOR_CORE_VIEW_PACKED_H

#include <stddef.h>

#include "operator/core/view/projection.h"

/*
 * Projections in the form of the cache: a name and then the values of the kind's fields, numbers in
 * as few bytes as possible, each string once. The cache itself stores the key of an object (its
 * namespace and its job).
 */

/* The key under which a packed object is filed. */
struct hvd_packed_key {
    enum hvd_kind kind;
    const char *namespace;
    const char *job; /* NULL: of none */
};

/* Writes the object, which must have name, namespace and uid, into the room. Returns its size in
 * bytes; if that exceeds room, the output is unusable. */
size_t hvd_packed_pack(const struct hvd_object *object, char *out, size_t room);

/* Unpacks an object. It owns nothing: its strings are in packed and in the key. */
void hvd_packed_unpack(const char *packed, const struct hvd_packed_key *key,
                       struct hvd_object *out);

/* The most strings in an object. */
#define HVD_OBJECT_TEXTS_MAX 64

/* Collects the places of the object's strings; returns their number. */
size_t hvd_packed_texts(struct hvd_object *object, char **out[HVD_OBJECT_TEXTS_MAX]);

#endif
