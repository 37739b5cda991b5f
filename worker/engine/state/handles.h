#ifndef HVD_WORKER_ENGINE_STATE_HANDLES_H
#define HVD_WORKER_ENGINE_STATE_HANDLES_H

#include <stdatomic.h>

#include "worker/engine/state/entry.h"

/*
 * Handles of tensors. Caller holds mu where nothing else is said.
 */

#define HVD_HANDLE_CHUNKS 26

/* Handles to entries; a handle holds a generation, so that an old one is not taken for a new one.
 * The records lie in chunks that stay where they are, each twice as large as the one before. */
struct hvd_handles {
    struct hvd_handle_record *_Atomic chunks[HVD_HANDLE_CHUNKS]; /* owned */
    uint32_t n_records;
    uint32_t first_free; /* index + 1; 0: none */
};

/* Gives the entry a handle (entry->handle) and a claim, transient. HVD_ERR_NOMEM. */
hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry);

/* Gives an idle slot entry its next handle. */
void hvd_handles_renew(struct hvd_entry *entry);

/* The entry of a handle; NULL when it is not one of ours or its wait has ended. Any thread, without
 * mu: the entry may have ended before the caller looks at it. */
struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of a slot entry that has ended simply; whether it was that, and nobody else did so
 * before. Any thread, without mu. */
bool hvd_handles_end_simply(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of an entry that has ended; false when somebody else has done so. *is_transient:
 * whether the entry has to go to the pool. */
bool hvd_handles_end(struct hvd_entry *entry, int64_t handle, bool *is_transient);

/* Forgets the entry; its handle is unknown from then on. */
void hvd_handles_remove(struct hvd_handles *h, struct hvd_entry *entry);

/* Frees the table, not the entries. */
void hvd_handles_fini(struct hvd_handles *h);

#endif
