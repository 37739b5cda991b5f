/*
 * Watches all kinds: all jobs, and children and pods by our label, so that memory grows with the
 * jobs and not with the cluster. Of Secrets only the metadata is watched, so keys never reach this
 * process again. The server may lack one kind: the gang scheduler's group.
 */
#include "operator/app/follow.h"

#include <string.h>

#define GRACE_MS 10000 /* a stream that stays closed for longer is a problem */

static const enum hvd_kind kinds[] = {
    HVD_KIND_HOROVODJOB, HVD_KIND_SECRET, HVD_KIND_SERVICE, HVD_KIND_STATEFULSET,
    HVD_KIND_CONFIGMAP,  HVD_KIND_JOB,    HVD_KIND_POD,
};

static hvd_status_t add(struct hvd_follow *follow, const struct hvd_follow_options *options,
                        enum hvd_kind kind, struct hvd_err *err)
{
    const struct hvd_watch_options watch = {
        .api = options->api,
        .kind = kind,
        .ns = options->ns,
        .label_selector = kind == HVD_KIND_HOROVODJOB ? NULL : HVD_SELECTOR_MANAGED,
        .is_metadata_only = kind == HVD_KIND_SECRET,
        .seed = options->seed + (uint32_t)follow->_n * 2654435761u,
        .handler = options->handler,
        .log = options->log,
    };
    hvd_status_t st = hvd_watch_create(&watch, &follow->_watches[follow->_n], err);

    if (st != HVD_OK)
        return st;
    follow->_kinds[follow->_n] = kind;
    follow->_is_optional[follow->_n] = kind == options->gang_kind;
    follow->_n++;
    return HVD_OK;
}

hvd_status_t hvd_follow_init(struct hvd_follow *follow, const struct hvd_follow_options *options,
                             struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    *follow = (struct hvd_follow){0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && st == HVD_OK; i++)
        st = add(follow, options, kinds[i], err);
    if (st == HVD_OK && options->gang_kind != HVD_N_KINDS)
        st = add(follow, options, options->gang_kind, err);
    return st;
}

void hvd_follow_fini(struct hvd_follow *follow)
{
    for (size_t i = 0; i < follow->_n; i++)
        hvd_watch_destroy(follow->_watches[i]);
    *follow = (struct hvd_follow){0};
}

/* On a quiet kind the last version may be lower than the server's even after a rewind: one watch
 * notices it for all. */
static void rewind_all(struct hvd_follow *follow)
{
    bool is_noticed = false;

    for (size_t i = 0; i < follow->_n; i++)
        is_noticed |= hvd_watch_take_gone_back(follow->_watches[i]);
    for (size_t i = 0; i < follow->_n && is_noticed; i++)
        hvd_watch_rewind(follow->_watches[i]);
}

int64_t hvd_follow_step(struct hvd_follow *follow, int64_t now_ms)
{
    int64_t due_ms = INT64_MAX;

    rewind_all(follow);
    for (size_t i = 0; i < follow->_n; i++) {
        int64_t watch_ms = hvd_watch_step(follow->_watches[i], now_ms);
        due_ms = watch_ms < due_ms ? watch_ms : due_ms;
    }
    return due_ms;
}

bool hvd_follow_is_synced(const struct hvd_follow *follow)
{
    for (size_t i = 0; i < follow->_n; i++) {
        struct hvd_watch_health health = hvd_watch_health(follow->_watches[i]);
        if (!health.is_synced && !(follow->_is_optional[i] && health.is_missing))
            return false;
    }
    return true;
}

void hvd_follow_relist(struct hvd_follow *follow, enum hvd_kind kind)
{
    for (size_t i = 0; i < follow->_n; i++)
        if (follow->_kinds[i] == kind)
            hvd_watch_relist(follow->_watches[i]);
}

size_t hvd_follow_count_synced(const struct hvd_follow *follow)
{
    size_t n = 0;

    for (size_t i = 0; i < follow->_n; i++)
        n += hvd_watch_is_synced(follow->_watches[i]) ? 1 : 0;
    return n;
}

bool hvd_follow_is_missing(const struct hvd_follow *follow, enum hvd_kind kind)
{
    for (size_t i = 0; i < follow->_n; i++)
        if (follow->_kinds[i] == kind)
            return hvd_watch_health(follow->_watches[i]).is_missing;
    return false;
}

unsigned hvd_follow_count_cuts(const struct hvd_follow *follow, enum hvd_kind kind)
{
    for (size_t i = 0; i < follow->_n; i++)
        if (follow->_kinds[i] == kind)
            return hvd_watch_health(follow->_watches[i]).n_cuts;
    return 0;
}

bool hvd_follow_explain(enum hvd_kind kind, const struct hvd_watch_health *health, int64_t now_ms,
                        struct hvd_buf *out)
{
    const char *resource = hvd_kind_info(kind)->resource;
    const char *separator = *health->problem ? ": " : "";
    double down_s = (double)(now_ms - health->changed_ms) / 1000;

    if (!health->is_synced)
        (void)hvd_buf_printf(out, "watch of %s: not listed yet%s%s\n", resource, separator,
                             health->problem);
    else if (!health->is_open && now_ms - health->changed_ms > GRACE_MS)
        (void)hvd_buf_printf(out, "watch of %s: down for %.0f s%s%s\n", resource, down_s, separator,
                             health->problem);
    else
        return true;
    return false;
}

bool hvd_follow_explain_all(const struct hvd_follow *follow, int64_t now_ms, struct hvd_buf *out)
{
    bool is_well = true;

    for (size_t i = 0; i < follow->_n; i++) {
        struct hvd_watch_health health = hvd_watch_health(follow->_watches[i]);
        if (follow->_is_optional[i] && health.is_missing)
            continue;
        is_well &= hvd_follow_explain(follow->_kinds[i], &health, now_ms, out);
    }
    return is_well;
}

void hvd_follow_sample(const struct hvd_follow *follow, int64_t now_ms, struct hvd_metrics *metrics)
{
    for (size_t i = 0; i < follow->_n; i++) {
        struct hvd_watch_health health = hvd_watch_health(follow->_watches[i]);
        hvd_metrics_add_watch(metrics, follow->_kinds[i], &health, now_ms);
    }
}
