#ifndef HVD_OPERATOR_API_PICKER_H
#define HVD_OPERATOR_API_PICKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* The wanted members of an object; a row without a name ends the array. */
struct hvd_shape {
    const char *name;              /* HVD_SHAPE_ANY: every member that no earlier row names */
    const struct hvd_shape *parts; /* wanted members of its object, or of the objects in its
                                      array; NULL: the whole value, whatever its type */
};

#define HVD_SHAPE_ANY "*"

/* As parts: of a string the end, at most HVD_PICK_TAIL_MAX bytes of JSON; any other value whole. */
extern const struct hvd_shape hvd_shape_tail[];

#define HVD_PICK_LEVELS_MAX 16 /* by which shapes nest, with their arrays */
#define HVD_PICK_KEY_MAX 64    /* of the name of a wanted member */
/* A kubelet's message has 4096 bytes, and each may be an escape sequence of six. */
#define HVD_PICK_TAIL_MAX ((size_t)25 * 1024)
#define HVD_PICK_DEPTH_MAX 500 /* levels of an object; the parser recurses as deep */
#define HVD_PICK_VALUES_MAX                                                                        \
    100000 /* in a member of an object; each is a node of the parsed tree                          \
            */

/* The member in which a copied object names what was left out, and why: "spec.worker: ...". No
 * shape names it, so an object cannot bring its own. */
#define HVD_PICK_UNREADABLE "unreadable"

/*
 * Takes a copy, which is followed by a zero byte and valid during the call. Called for each item as
 * it arrives, and from hvd_picker_end once for the whole text. If more bytes follow the text, only
 * the items were passed. A result other than HVD_OK ends the picking.
 */
typedef hvd_status_t (*hvd_pick_fn)(void *ctx, struct hvd_strview copy, bool is_item);

struct hvd_pick_options {
    const struct hvd_shape *shape;  /* of the whole text; NULL: all of it is wanted */
    const struct hvd_shape *object; /* the part of the shape that describes an API object, to
                                       which the limits apply; NULL: the whole text is one */
    size_t max_bytes;               /* of the copy of each member of an object */
    size_t max_total;               /* of the copy of the text; 0: the text is a single object */
    const char *const *gates; /* If the copy of an object's metadata has a uid and none of these
                                 texts, the rest of the object is not wanted. The last text is
                                 NULL. NULL: the rest is always wanted. */
    const char *trouble;      /* a fault of every object in the text; NULL: none is known */
    bool has_items;           /* an array of objects is handed on one by one, and is empty in the
                                 whole text */
    hvd_pick_fn take;
    void *ctx;
};

/* One value that is being copied in parts. */
struct hvd_pick_level {
    const struct hvd_shape *shape;
    const struct hvd_shape *row; /* of the member that is being copied */
    size_t at;                   /* where its copy begins */
    size_t member_at;            /* where that of its member's value does */
    bool is_array;
    bool has_units; /* its members are left out one by one; else it is left out whole */
    bool is_shut;   /* its other members are not wanted */
    bool is_empty;  /* so far */
};

/*
 * Copies from JSON texts, which arrive in pieces, the members that a shape names. Skipping costs
 * far less than parsing, and only the copy is kept in memory. What exceeds a limit is left out of
 * the copy, member by member, and the object names it (HVD_PICK_UNREADABLE); the rest of the object
 * stays. The copy is JSON if the text is: the picker does not check what it skips, and the parser
 * checks the copy. Names written with escapes are not found. Zeroed is legal for fini. Pure.
 */
struct hvd_picker {
    struct hvd_pick_options _options;
    struct hvd_buf _out;
    struct hvd_pick_level _levels[HVD_PICK_LEVELS_MAX];
    size_t _n_levels;
    int _state;
    const struct hvd_shape *_parts; /* of the next value */
    bool _is_copying;               /* the next value is wanted */
    size_t _depth;                  /* open levels of a value that is taken as a whole */
    bool _is_tail;                  /* it is a string, and only its end is wanted */
    bool _is_in_string;
    bool _is_odd; /* the last byte of the string is a backslash that begins an escape */
    const char *_at, *_end, *_from; /* in the piece; _from is where the bytes to copy begin */
    size_t _object_level;
    size_t _part_at, _n_values; /* of the object's member that is being copied */
    /* The unit that is left out when the copy reaches a limit. */
    bool _has_unit;
    struct {
        size_t level, at, n_values;
        bool was_empty;
    } _unit;
    const char *_cause; /* why a part of the object was left out; NULL: nothing was */
    char _path[2 * HVD_PICK_KEY_MAX + 2]; /* of the part that was left out */
    size_t _deepest;
    bool _is_measuring; /* the depth of that part is being measured */
    size_t _key_len;
    char _key[HVD_PICK_KEY_MAX];
};

/* Prepares a picker; copies options, borrows what they point to. Allocates nothing. */
void hvd_picker_init(struct hvd_picker *picker, const struct hvd_pick_options *options);

/* Frees the copy. */
void hvd_picker_fini(struct hvd_picker *picker);

/* Drops an unfinished text, so that another one can begin. */
void hvd_picker_reset(struct hvd_picker *picker);

/*
 * Feeds a piece of a text. Returns HVD_ERR_INVALID when it detects that the text is no JSON,
 * HVD_ERR_NOMEM, or what take returned. Returns HVD_ERR_TOO_LARGE beyond max_total, and when a
 * limit is exceeded outside the members of an object. After a failure every call returns
 * HVD_ERR_INVALID until reset.
 */
hvd_status_t hvd_picker_feed(struct hvd_picker *picker, struct hvd_strview piece);

/* Ends the text and hands over its copy; the next text may begin. HVD_ERR_INVALID when the text is
 * cut short; other failures as hvd_picker_feed. A text of white space only is ignored. */
hvd_status_t hvd_picker_end(struct hvd_picker *picker);

#endif
