/*
 * The cause of the job's end, for the program and horovodrun.
 */

#include "worker/engine/state/end_cause.h"

#include <stdio.h>
#include <string.h>

#include "base/rank_state.h"
#include "base/str.h"

#define SHUT_DOWN "Horovod has been shut down. "

void hvd_end_cause_note(const char *text)
{
    if (hvd_str_has_prefix(text, SHUT_DOWN))
        hvd_rank_state_set_cause(text);
}

void hvd_end_cause_first(struct hvd_engine *e, char text[HVD_TEXT_MAX + 1])
{
    const char *cause = NULL;

    pthread_mutex_lock(&e->mu);
    if (e->locked.cause && hvd_str_has_prefix(e->locked.cause, SHUT_DOWN))
        cause = e->locked.cause + strlen(SHUT_DOWN);
    snprintf(text, HVD_TEXT_MAX + 1, "%s", cause ? cause : "");
    pthread_mutex_unlock(&e->mu);
}
