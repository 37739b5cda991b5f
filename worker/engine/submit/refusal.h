#ifndef HVD_WORKER_ENGINE_SUBMIT_REFUSAL_H
#define HVD_WORKER_ENGINE_SUBMIT_REFUSAL_H

#include "worker/engine/state/state.h"

/* The refusal that has to be answered before the name is requested: that of the name, or of the
 * head of its group. NULL when there is none. mu. */
struct hvd_entry *hvd_refusal_find(const struct hvd_set *set, struct hvd_strview name);

/* Lines an entry up behind a refusal that hvd_refusal_find has given. False when one of that name
 * waits there already. mu. */
bool hvd_refusal_follow(struct hvd_entry *refused, struct hvd_entry *entry);

/* Takes an entry back that has lined up behind a refusal. mu. */
void hvd_refusal_unfollow(struct hvd_entry *entry);

/* What the others are told: rank, tensor and reason, into text. Caller is the progress owner. */
struct hvd_strview hvd_refusal_text(const struct hvd_engine *e, const struct hvd_entry *entry,
                                    char *text, size_t size);

/* All ranks have requested the name, or refused it, and it has failed for all: the next refusal of
 * the name goes out, or what was submitted behind. The entry is off the table since mu was taken:
 * in between the program could use its name. HVD_ERR_NOMEM. Holds mu. */
hvd_status_t hvd_refusal_answered(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_entry *entry, struct hvd_err *err);

/* The set has ended: nobody asks any more. What was submitted behind ends with the text. mu. */
void hvd_refusal_drop(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                      const char *text);

#endif
