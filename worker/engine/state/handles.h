#ifndef HVD_WORKER_ENGINE_STATE_HANDLES_H
#define HVD_WORKER_ENGINE_STATE_HANDLES_H

#include <stdatomic.h>

#include "worker/engine/state/entry.h"

/*
 * Handles of tensors. The caller holds mu, unless the comment states otherwise.
 */

#define HVD_HANDLE_CHUNKS 26

/* Handles to entries. A handle contains a generation, so that an old handle is not taken for a
 * new one. The records are in chunks that never move; each is twice as large as the one before. */
struct hvd_handles {
    struct hvd_handle_record *_Atomic chunks[HVD_HANDLE_CHUNKS]; /* owned */
    uint32_t n_records;
    uint32_t first_free; /* index + 1; 0: none */
};

/* Gives the entry a handle (entry->handle) and a transient claim. HVD_ERR_NOMEM. */
hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry);

/* Gives an idle slot entry its next handle. */
void hvd_handles_renew(struct hvd_entry *entry);

/* Returns the entry of a handle; NULL when the handle is unknown or its wait has ended. Any
 * thread, without mu: the entry's wait may end before the caller reads the entry. */
struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of a slot entry that has ended simply. False when it has not, or when another
 * thread has ended the wait. Any thread, without mu. */
bool hvd_handles_end_simply(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of an entry that has ended; false when another thread has done so. *is_transient
 * becomes whether the entry must return to the pool. */
bool hvd_handles_end(struct hvd_entry *entry, int64_t handle, bool *is_transient);

/* Forgets the entry; its handle is unknown afterwards. */
void hvd_handles_remove(struct hvd_handles *h, struct hvd_entry *entry);

/* Frees the table, not the entries. */
void hvd_handles_fini(struct hvd_handles *h);

#endif
