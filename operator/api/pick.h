#ifndef HVD_OPERATOR_API_PICK_H
#define HVD_OPERATOR_API_PICK_H

#include <stddef.h>

#include "base/str.h"

/* The members of an object that are wanted, up to one without a name. */
struct hvd_shape {
    const char *name;
    const struct hvd_shape *parts; /* what is wanted of its object, or of those in its array; NULL:
                                      all of it, whatever it is */
};

/*
 * Copies of a JSON text what a shape names: skipping costs far less than parsing. out has room for
 * text.len bytes, and may be text.data itself. Returns the length of the copy, which is JSON if the
 * text is; 0 when the text is none, as far as can be seen: the parser will tell. Keys that are
 * written with escapes are not found. Pure.
 */
size_t hvd_json_pick(struct hvd_strview text, const struct hvd_shape *shape, char *out);

#endif
