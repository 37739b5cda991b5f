#ifndef HVD_WORKER_CORE_GROUP_NAME_H
#define HVD_WORKER_CORE_GROUP_NAME_H

#include "base/str.h"

/*
 * Names of a group's tensors, as bindings and the library make them: "grouped_NAME_2of3" is the
 * second of three. Pure.
 *
 * The first of them is the group's head. It makes ranks meet whose groups of that name have
 * different sizes: "grouped_NAME_1of3" and "grouped_NAME_1of2" are one tensor to every table of
 * names. So is "grouped_NAME_1of0", by which a rank refuses a group without tensors.
 *
 * A rank requests the head last. So a node that has a rank's request for the head has its requests
 * for all tensors of the group.
 */
struct hvd_group_name {
    struct hvd_strview base; /* "grouped_NAME" */
    uint32_t i;              /* from 1 on */
    uint32_t n;              /* 0: a group without tensors; i is 1 */
};

/* Parses the name of a group's tensor; `base` is borrowed from it. False when it is no such
 * name. */
bool hvd_group_name_parse(struct hvd_strview name, struct hvd_group_name *out);

/* Returns the key of a name in tables. It is the name itself, except for a head: there it is the
 * part that all heads of the group share. Borrowed from the name. */
struct hvd_strview hvd_group_name_key(struct hvd_strview name);

/* Whether the name is that of a group's head. */
bool hvd_group_name_is_head(struct hvd_strview name);

/* Writes the name of tensor i of n in the group, and returns a view of `text`. The view is empty
 * when the name does not fit. */
struct hvd_strview hvd_group_name_of(const struct hvd_group_name *group, uint32_t i, uint32_t n,
                                     char *text, size_t size);

#endif
