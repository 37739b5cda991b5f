#ifndef HVD_OPERATOR_API_PICKER_H
#define HVD_OPERATOR_API_PICKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* The members of an object that are wanted, up to one without a name. */
struct hvd_shape {
    const char *name;              /* HVD_SHAPE_ANY: each one that no row before names */
    const struct hvd_shape *parts; /* what is wanted of its object, or of those in its array; NULL:
                                      all of it, whatever it is */
};

#define HVD_SHAPE_ANY "*"

/* As parts: of a string its end, HVD_PICK_TAIL_MAX bytes of JSON at most; all of any other value.
 */
extern const struct hvd_shape hvd_shape_tail[];

#define HVD_PICK_LEVELS_MAX 16 /* that shapes nest, with their arrays */
#define HVD_PICK_KEY_MAX 64    /* bytes of a name that is wanted */
/* Of the 4096 bytes of a kubelet's message each may be an escape sequence of six. */
#define HVD_PICK_TAIL_MAX ((size_t)25 * 1024)
#define HVD_PICK_DEPTH_MAX 500 /* levels of an object; a parser recurses so deep */
#define HVD_PICK_VALUES_MAX                                                                        \
    100000 /* in a member of an object; each is a node of the parsed tree                          \
            */

/* The member by which a copied object tells what was left out of it, and why: "spec.worker: ...".
 * No shape names it, so that no object brings one of its own. */
#define HVD_PICK_UNREADABLE "unreadable"

/*
 * Takes a copy, which is followed by a zero byte and valid during the call: an item as soon as it
 * has come, or the whole text, once, from hvd_picker_end: of a text that something follows, nothing
 * is taken but items. What it returns when it is not HVD_OK ends the picking.
 */
typedef hvd_status_t (*hvd_pick_fn)(void *ctx, struct hvd_strview copy, bool is_item);

struct hvd_pick_options {
    const struct hvd_shape *shape;  /* of the whole text; NULL: all of it is wanted */
    const struct hvd_shape *object; /* the shape within it that is an API object's, to which the
                                       limits apply; NULL: the whole text is one */
    size_t max_bytes;               /* of the copy of each member of an object */
    size_t max_total;               /* of the copy of the text; 0: there is one object in it */
    const char *const *gates; /* where the copy of an object's metadata has a uid and holds none of
                                 these texts, what comes behind it is not wanted; NULL: it is;
                                 the last one is NULL */
    const char *trouble; /* what is wrong with every object of the text; NULL: nothing is known */
    bool has_items;      /* an array of objects is handed on one by one, and empty in the whole */
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
    bool has_units; /* its members are left out one by one; else all of it is */
    bool is_shut;   /* its other members are not wanted */
    bool is_empty;  /* so far */
};

/*
 * Copies of JSON texts that come in pieces what a shape names. Skipping costs far less than
 * parsing, and nothing is gathered but the copy. What is beyond a limit is left out of the copy,
 * member by member, and the object says so (HVD_PICK_UNREADABLE); the rest of it is there, and what
 * comes behind it too. The copy is JSON if the text is: what is skipped is not checked, what is
 * copied is checked by the parser. Names that are written with escapes are not found. Zeroed is
 * legal for fini. Pure.
 */
struct hvd_picker {
    struct hvd_pick_options _options;
    struct hvd_buf _out;
    struct hvd_pick_level _levels[HVD_PICK_LEVELS_MAX];
    size_t _n_levels;
    int _state;
    const struct hvd_shape *_parts; /* of the value that comes next */
    bool _is_copying;               /* it is wanted */
    size_t _depth;                  /* levels of the value that is taken as a whole */
    bool _is_tail;                  /* it is a string of which the end is wanted */
    bool _is_in_string;
    bool _is_odd; /* of the string: the last byte is a backslash that begins an escape */
    const char *_at, *_end, *_from; /* in the piece; from where it is to be copied */
    size_t _object_level;
    size_t _part_at, _n_values; /* of the object's member that is being copied */
    /* What is left out when the copy comes to a limit. */
    bool _has_unit;
    struct {
        size_t level, at, n_values;
        bool was_empty;
    } _unit;
    const char *_cause; /* why something was left out of the object; NULL: nothing was */
    char _path[2 * HVD_PICK_KEY_MAX + 2]; /* of it */
    size_t _deepest;
    bool _is_measuring; /* how deep it is */
    size_t _key_len;
    char _key[HVD_PICK_KEY_MAX];
};

/* Prepares a picker; options are copied, what they point to is borrowed. Allocates nothing. */
void hvd_picker_init(struct hvd_picker *picker, const struct hvd_pick_options *options);

/* Frees the copy. */
void hvd_picker_fini(struct hvd_picker *picker);

/* Forgets an unfinished text: another one begins. */
void hvd_picker_reset(struct hvd_picker *picker);

/*
 * Feeds a piece of a text. HVD_ERR_INVALID for what is no JSON as far as can be seen,
 * HVD_ERR_TOO_LARGE where what is beyond a limit is no member of an object, and beyond max_total,
 * HVD_ERR_NOMEM, and what
 * take returned. After a failure every call returns HVD_ERR_INVALID until reset.
 */
hvd_status_t hvd_picker_feed(struct hvd_picker *picker, struct hvd_strview piece);

/* The text is over and its copy is taken; the next one may begin. HVD_ERR_INVALID when it is cut
 * short; other failures as hvd_picker_feed. A text of nothing but white space is none, and no
 * failure. */
hvd_status_t hvd_picker_end(struct hvd_picker *picker);

#endif
