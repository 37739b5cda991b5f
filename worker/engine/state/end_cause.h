#ifndef HVD_WORKER_ENGINE_STATE_END_CAUSE_H
#define HVD_WORKER_ENGINE_STATE_END_CAUSE_H

#include "worker/engine/state/state.h"

/* Records for horovodrun the text with which the program learns of the job's end. */
void hvd_end_cause_note(const char *text);

/* Writes the first cause of the job's end; empty if it is unknown. */
void hvd_end_cause_first(struct hvd_engine *e, char text[HVD_TEXT_MAX + 1]);

#endif
