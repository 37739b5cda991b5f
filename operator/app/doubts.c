/*
 * Answers that report a job as gone, until the watch agrees: see doubts.h. Pure. A list of all jobs
 * is expensive. So one list settles all doubts of ten seconds, and none is sent if the watch was
 * only a moment late.
 */
#include "operator/app/doubts.h"

#include "operator/core/view/hash.h"

void hvd_doubts_add(struct hvd_doubts *doubts, const char *uid, int64_t now_ms)
{
    if (doubts->_n == 0)
        doubts->_due_ms = now_ms + HVD_DOUBT_MS;
    if (doubts->_n == HVD_DOUBTS_MAX)
        doubts->_is_full = true;
    else
        doubts->_uids[doubts->_n++] = hvd_hash_text(HVD_HASH_START, uid);
}

void hvd_doubts_settle(struct hvd_doubts *doubts, const char *uid)
{
    const uint64_t hash = hvd_hash_text(HVD_HASH_START, uid);

    for (size_t i = 0; i < doubts->_n && !doubts->_is_full; i++) {
        if (doubts->_uids[i] == hash) {
            doubts->_uids[i] = doubts->_uids[--doubts->_n];
            return;
        }
    }
}

void hvd_doubts_clear(struct hvd_doubts *doubts)
{
    *doubts = (struct hvd_doubts){0};
}

int64_t hvd_doubts_due_ms(const struct hvd_doubts *doubts)
{
    return doubts->_n ? doubts->_due_ms : INT64_MAX;
}
