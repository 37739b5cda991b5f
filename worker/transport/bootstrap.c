/*
 * Agreement of the ranks before there is an engine, whichever adapter connected them.
 */
#include "worker/transport/bootstrap.h"

#include <stdio.h>

#include "base/mem.h"

/* The outcome of one rank, which it broadcasts to the others. */
struct verdict {
    int32_t status;
    char text[HVD_ERR_MSG_MAX];
};

hvd_status_t hvd_bootstrap_agree(struct hvd_bootstrap *b, hvd_status_t st, struct hvd_err *err)
{
    const struct hvd_transport *t = b->transport;
    const struct hvd_topology *self = &t->topology;
    const char *host = t->ops->host(t, self->rank);
    struct verdict verdict = {.status = (int32_t)st};
    int64_t first = st == HVD_OK ? self->size : self->rank;
    struct hvd_err why = {0};
    hvd_status_t met = b->ops->min(b, &first, 1, &why);

    if (met == HVD_OK && first == self->size)
        return HVD_OK;
    if (first == self->rank)
        (void)snprintf(verdict.text, sizeof(verdict.text), "Rank %d%s%.64s: %.800s", self->rank,
                       host ? " on host " : "", host ? host : "",
                       err ? err->msg : hvd_status_str(st));
    if (met == HVD_OK)
        met = b->ops->broadcast(b, &verdict, sizeof(verdict), (int)first, &why);
    if (st != HVD_OK)
        return st;
    if (met != HVD_OK)
        return HVD_FAIL(err, met, why.sys, "how the other ranks began: %s", why.msg);
    verdict.text[sizeof(verdict.text) - 1] = '\0';
    return HVD_FAIL(err, (hvd_status_t)verdict.status, 0, "%s", verdict.text);
}

hvd_status_t hvd_bootstrap_same(struct hvd_bootstrap *b, uint64_t value, bool *out,
                                struct hvd_err *err)
{
    int64_t least[2] = {(int64_t)value, (int64_t)~value};
    const hvd_status_t st = b->ops->min(b, least, 2, err);

    *out = (uint64_t)least[0] == ~(uint64_t)least[1];
    return st == HVD_OK ? st : HVD_WRAP(err, st, "whether the ranks have the same settings");
}

void hvd_bootstrap_sets_fini(struct hvd_bootstrap_sets *sets)
{
    hvd_free(sets->ranks);
    hvd_free(sets->sizes);
    *sets = (struct hvd_bootstrap_sets){0};
}

void hvd_bootstrap_destroy(struct hvd_bootstrap *b)
{
    if (b)
        b->ops->destroy(b);
}
