#ifndef HVD_WORKER_CORE_TABLE_H
#define HVD_WORKER_CORE_TABLE_H

#include "worker/core/types.h"

/* The unfinished tensors that this rank has submitted, as a map from name to owner. Heads of
 * groups of one name have the same key, whatever their number of tensors (group_name.h). */
struct hvd_table;

/* Creates an empty table; the caller destroys it. HVD_ERR_NOMEM. */
hvd_status_t hvd_table_create(struct hvd_table **out, struct hvd_err *err);

/* Frees the table, not the owners. NULL is allowed. */
void hvd_table_destroy(struct hvd_table *t);

/*
 * Adds a tensor; copies the name and borrows the owner. HVD_ERR_EXISTS when a tensor of that name
 * is pending; HVD_ERR_NOMEM. The table is unchanged on failure.
 */
hvd_status_t hvd_table_add(struct hvd_table *t, struct hvd_strview name, void *owner,
                           struct hvd_err *err);

/* Returns the owner of the name; NULL when there is none. */
void *hvd_table_find(const struct hvd_table *t, struct hvd_strview name);

/* Removes the name and returns its owner; NULL when there is none. */
void *hvd_table_take(struct hvd_table *t, struct hvd_strview name);

/* Removes the tensor that was added first and returns its owner; NULL when the table is empty. */
void *hvd_table_take_first(struct hvd_table *t);

/* Returns the owner of the tensor that was added first; NULL when the table is empty. */
void *hvd_table_first(const struct hvd_table *t);

/* Returns how many tensors are pending. */
size_t hvd_table_count(const struct hvd_table *t);

#endif
