/* Memory of work that may not be done; see recent.h. Pure. */
#include "worker/device/cuda/recent.h"

#include <stddef.h>

/* Whether work of that number may not be done. */
static bool is_open(uint32_t number, uint32_t done)
{
    return (int32_t)(number - done) > 0;
}

/* Returns the use of that memory; else a free one, with at NULL; else the oldest one. */
static struct hvd_recent_use *find(struct hvd_recent *r, const void *at, uint32_t done)
{
    const uint64_t hash = (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15);
    struct hvd_recent_use *uses = r->uses[(hash >> 32) % HVD_RECENT_SETS];
    struct hvd_recent_use *best = &uses[0];

    for (int i = 0; i < HVD_RECENT_WAYS; i++) {
        if (uses[i].at && !is_open(uses[i].number, done))
            uses[i].at = NULL;
        if (uses[i].at == at)
            return &uses[i];
        if (best->at && (!uses[i].at || is_open(best->number, uses[i].number)))
            best = &uses[i];
    }
    return best;
}

bool hvd_recent_add(struct hvd_recent *r, const void *at, bool writes, uint32_t number,
                    uint32_t done)
{
    if (!at)
        return false;
    struct hvd_recent_use *use = find(r, at, done);

    r->has_lost = r->has_lost && is_open(r->lost, done);
    if (use->at && use->at != at) {
        r->lost = use->number;
        r->has_lost = true;
    }
    if (use->at != at)
        *use = (struct hvd_recent_use){.at = at, .number = number};
    if (use->number != number) {
        use->before = use->number;
        use->has_before = true;
        use->wrote = use->writes;
        use->number = number;
    }
    use->writes = use->writes || writes;
    return r->has_lost || (use->has_before && is_open(use->before, done) && (writes || use->wrote));
}
