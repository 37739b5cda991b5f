#ifndef HVD_WORKER_ENGINE_STATE_END_CAUSE_H
#define HVD_WORKER_ENGINE_STATE_END_CAUSE_H

#include "worker/engine/state/state.h"

/* The program is told that the job has ended, with the text: horovodrun is to know as well. */
void hvd_end_cause_note(const char *text);

/* Why the job has ended, as the first word of it was; empty where that is not known. */
void hvd_end_cause_first(struct hvd_engine *e, char text[HVD_TEXT_MAX + 1]);

#endif
