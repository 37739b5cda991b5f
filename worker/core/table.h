#ifndef HVD_WORKER_CORE_TABLE_H
#define HVD_WORKER_CORE_TABLE_H

#include "worker/core/types.h"

/* The tensors that this rank has submitted and that are not done: name -> owner. Heads of groups of
 * one name are one name, whatever their number of tensors (group_name.h). */
struct hvd_table;

/* An empty table. HVD_ERR_NOMEM. */
hvd_status_t hvd_table_create(struct hvd_table **out, struct hvd_err *err);

/* Frees the table, not the owners. NULL is fine. */
void hvd_table_destroy(struct hvd_table *t);

/*
 * Adds a tensor; the name is copied, the owner borrowed. HVD_ERR_EXISTS when a tensor of that name
 * is pending, HVD_ERR_NOMEM; the table is unchanged then.
 */
hvd_status_t hvd_table_add(struct hvd_table *t, struct hvd_strview name, void *owner,
                           struct hvd_err *err);

/* The owner of the name; NULL when there is none. */
void *hvd_table_find(const struct hvd_table *t, struct hvd_strview name);

/* Removes the name and returns its owner; NULL when there is none. */
void *hvd_table_take(struct hvd_table *t, struct hvd_strview name);

/* Removes the tensor that was added first and returns its owner; NULL when the table is empty. */
void *hvd_table_take_first(struct hvd_table *t);

/* The owner of the tensor that was added first; NULL when the table is empty. */
void *hvd_table_first(const struct hvd_table *t);

/* How many are pending. */
size_t hvd_table_count(const struct hvd_table *t);

#endif
