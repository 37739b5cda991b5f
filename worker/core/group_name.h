#ifndef HVD_WORKER_CORE_GROUP_NAME_H
#define HVD_WORKER_CORE_GROUP_NAME_H

#include "base/str.h"

/*
 * Names of a group's tensors, as bindings and the library make them: "grouped_NAME_2of3" is the
 * second of three. The first of them is the group's head, by which ranks that have other numbers of
 * tensors in a group of that name find each other: the heads "grouped_NAME_1of3" and
 * "grouped_NAME_1of2" are one tensor to every table of names, and so is "grouped_NAME_1of0", by
 * which a rank refuses a group without tensors. A rank requests the head last: who knows a rank's
 * head knows all its tensors of the group. Pure.
 */
struct hvd_group_name {
    struct hvd_strview base; /* "grouped_NAME" */
    uint32_t i;              /* from 1 on */
    uint32_t n;              /* 0: of a group without tensors, and i is 1 */
};

/* Takes the name of a group's tensor apart; base is borrowed. False when it is no such name. */
bool hvd_group_name_parse(struct hvd_strview name, struct hvd_group_name *out);

/* What a tensor is known by in tables: the name, but of a head what heads have in common, which is
 * the beginning of the name. Borrowed from it. */
struct hvd_strview hvd_group_name_key(struct hvd_strview name);

/* Whether the name is a head's. */
bool hvd_group_name_is_head(struct hvd_strview name);

/* Writes the name of another tensor of the group: number i of n. Empty when it does not fit; else
 * it lies in text. */
struct hvd_strview hvd_group_name_of(const struct hvd_group_name *group, uint32_t i, uint32_t n,
                                     char *text, size_t size);

#endif
