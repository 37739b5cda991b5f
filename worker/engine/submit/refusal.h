#ifndef HVD_WORKER_ENGINE_SUBMIT_REFUSAL_H
#define HVD_WORKER_ENGINE_SUBMIT_REFUSAL_H

#include "worker/engine/state/state.h"

/* Returns the refusal that must be answered before the name is requested: that of the name, or
 * of its group's head. NULL when there is none. mu. */
struct hvd_entry *hvd_refusal_find(const struct hvd_set *set, struct hvd_strview name);

/* Lines an entry up behind a refusal from hvd_refusal_find. False when an entry of that name
 * waits there already. mu. */
bool hvd_refusal_follow(struct hvd_entry *refused, struct hvd_entry *entry);

/* Removes an entry that has lined up behind a refusal. mu. */
void hvd_refusal_unfollow(struct hvd_entry *entry);

/* Writes the text for the other ranks: rank, tensor and reason. Only the progress owner calls
 * this. */
struct hvd_strview hvd_refusal_text(const struct hvd_engine *e, const struct hvd_entry *entry,
                                    char *text, size_t size);

/* Handles a refusal after all ranks have requested or refused the name, which has failed on all.
 * Queues the next refusal of the name, or the submission behind it. The caller has taken the entry
 * off the table under the same lock of mu, since the program could otherwise use its name
 * meanwhile. HVD_ERR_NOMEM. Holds mu. */
hvd_status_t hvd_refusal_answered(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_entry *entry, struct hvd_err *err);

/* Drops a refusal because the set has ended. The submissions behind it end with the text. mu. */
void hvd_refusal_drop(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                      const char *text);

#endif
