#ifndef HVD_OPERATOR_CORE_VIEW_PACKED_H
#define HVD_OPERATOR_CORE_VIEW_PACKED_H

#include <stddef.h>

#include "operator/core/view/projection.h"

/*
 * Projections as they are kept: a name and then the values of the kind's fields, numbers in as many
 * bytes as they need, each string once. What a cache files an object under (its namespace and its
 * job) is the cache's to remember, and not among them.
 */

/* The key under which a packed object is filed. */
struct hvd_packed_key {
    enum hvd_kind kind;
    const char *namespace;
    const char *job; /* NULL: of none */
};

/* Writes the object, whose name, namespace and uid are there, into the room that there is. Returns
 * how many bytes it takes: what was written is of no use if they are more than the room. */
size_t hvd_packed_pack(const struct hvd_object *object, char *out, size_t room);

/* The object that was packed. It owns nothing: its strings are in packed and in the key. */
void hvd_packed_unpack(const char *packed, const struct hvd_packed_key *key,
                       struct hvd_object *out);

/* At most so many strings are in an object. */
#define HVD_OBJECT_TEXTS_MAX 24

/* Where the strings of an object stand; how many they are. */
size_t hvd_packed_texts(struct hvd_object *object, char **out[HVD_OBJECT_TEXTS_MAX]);

#endif
