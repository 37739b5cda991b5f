/*
 * The exported functions of process sets, with Horovod's names. Numbers and errors are plain
 * integers here, because callers through ctypes need them. Any thread.
 */
#include "base/mem.h"
#include "worker/api/api_internal.h"

static int convert(hvd_status_t st)
{
    switch (st) {
    case HVD_ERR_INVALID:
    case HVD_ERR_NOT_FOUND:
        return HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
    case HVD_ERR_DENIED:
        return HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET;
    case HVD_ERR_SHUTDOWN:
        return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
    case HVD_ERR_CONFLICT:
        return HOROVOD_PROCESS_SET_ERROR_EXISTING_SET;
    default:
        return HOROVOD_PROCESS_SET_ERROR_DYNAMIC;
    }
}

int horovod_add_process_set(const int *ranks, int n_ranks)
{
    struct hvd_engine *engine = hvd_api_enter(true);
    uint32_t id = 0;
    hvd_status_t st = HVD_ERR_STATE;

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    if (hvd_api_allows_set_changes())
        st = hvd_engine_add_set(engine, ranks, n_ranks, &id, NULL);
    hvd_api_exit();
    return st == HVD_OK ? (int)id : convert(st);
}

int horovod_remove_process_set(int id)
{
    struct hvd_engine *engine = hvd_api_enter(true);
    hvd_status_t st = HVD_ERR_STATE;

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    if (hvd_api_allows_set_changes())
        st = hvd_engine_remove_set(engine, id > 0 ? (uint32_t)id : 0, NULL);
    hvd_api_exit();
    return st == HVD_OK ? id : convert(st);
}

/* Stores this rank's place in the set in *self, or returns an error. */
static int find_self(int id, struct hvd_self *self)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    hvd_status_t st =
        id >= 0 ? hvd_engine_self(engine, (uint32_t)id, self, NULL) : HVD_ERR_NOT_FOUND;
    hvd_api_exit();
    return st == HVD_OK ? 0 : convert(st);
}

int horovod_process_set_rank(int id)
{
    struct hvd_self self = {0};
    int error = find_self(id, &self);

    return error < 0 ? error : self.rank;
}

int horovod_process_set_size(int id)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    const int n = id >= 0 ? hvd_engine_set_ranks(engine, (uint32_t)id, NULL, 0) : -1;
    hvd_api_exit();
    return n >= 0 ? n : HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
}

int horovod_process_set_included(int id)
{
    struct hvd_self self = {0};
    int error = find_self(id, &self);

    if (error == HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET)
        return 0;
    return error < 0 ? error : 1;
}

int horovod_number_of_process_sets(void)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    int n = hvd_engine_sets(engine, NULL, 0);
    hvd_api_exit();
    return n;
}

void horovod_process_set_ids(int *ids)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return;
    hvd_engine_sets(engine, (uint32_t *)(void *)ids, hvd_engine_sets(engine, NULL, 0));
    hvd_api_exit();
}

int horovod_process_set_ranks(int id, int *ranks)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return HOROVOD_PROCESS_SET_ERROR_INIT;
    int n = id >= 0 ? hvd_engine_set_ranks(engine, (uint32_t)id, NULL, 0) : -1;
    if (n >= 0)
        n = hvd_engine_set_ranks(engine, (uint32_t)id, ranks, n);
    hvd_api_exit();
    return n >= 0 ? 0 : HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
}

hvd_status_t hvd_api_add_sets(struct hvd_engine *engine, const struct hvd_static_sets *sets,
                              struct hvd_err *err)
{
    const int *ranks = sets->ranks;
    uint32_t id = 0;

    if (hvd_engine_topology(engine)->size == 1 && sets->n == 0)
        return HVD_OK;
    hvd_status_t st = hvd_engine_agree(engine, sets->n, NULL);
    if (st == HVD_ERR_MISMATCH)
        return HVD_FAIL(err, st, 0,
                        "Different ranks tried to set up mismatching numbers of process sets");
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "no agreement about process sets: %s", hvd_status_str(st));
    for (int i = 0; i < sets->n; i++) {
        struct hvd_err why = {0};
        st = hvd_engine_add_set(engine, ranks, sets->sizes[i], &id, &why);
        if (st != HVD_OK && st != HVD_ERR_CONFLICT) /* a set that exists already is used as it is */
            return HVD_FAIL(err, st, 0, "process set %d: %s", i + 1, why.msg);
        ranks += sets->sizes[i];
    }
    return HVD_OK;
}
