/* The other ranks take no part in what the bootstrap exchanges: they are as rank 0 is. */
#include "tests/unit/worker/api/sim_bootstrap.h"

#include "base/mem.h"
#include "worker/api/providers.h"

static struct hvd_sim *world;
static bool is_refusing;
static int n_live;

void sim_bootstrap_set(struct hvd_sim *sim)
{
    world = sim;
}

void sim_bootstrap_refuse(bool refuses)
{
    is_refusing = refuses;
}

int sim_bootstrap_live(void)
{
    return n_live;
}

static hvd_status_t sim_join(struct hvd_bootstrap *b, struct hvd_err *err)
{
    return hvd_sim_join(world, 0, &b->transport, err);
}

static hvd_status_t sim_attend(struct hvd_bootstrap *b, hvd_aside_fn fn, void *ctx,
                               struct hvd_err *err)
{
    (void)b;
    if (is_refusing)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "nobody is there");
    return fn(ctx, err);
}

static hvd_status_t sim_min(struct hvd_bootstrap *b, int64_t *values, int n, struct hvd_err *err)
{
    (void)b;
    (void)values;
    (void)n;
    (void)err;
    return HVD_OK;
}

static hvd_status_t sim_broadcast(struct hvd_bootstrap *b, void *data, size_t len, int root,
                                  struct hvd_err *err)
{
    (void)b;
    (void)data;
    (void)len;
    (void)root;
    (void)err;
    return HVD_OK;
}

static void sim_set_times(struct hvd_bootstrap *b, int64_t warning_ns, int64_t shutdown_ns)
{
    (void)b;
    (void)warning_ns;
    (void)shutdown_ns;
}

static hvd_status_t sim_finish(struct hvd_bootstrap *b, struct hvd_err *err)
{
    (void)b;
    (void)err;
    return HVD_OK;
}

static void sim_keep(struct hvd_bootstrap *b)
{
    (void)b;
}

static void sim_destroy(struct hvd_bootstrap *b)
{
    n_live--;
    hvd_free(b);
}

static const struct hvd_bootstrap_ops sim_ops = {.join = sim_join,
                                                 .attend = sim_attend,
                                                 .min = sim_min,
                                                 .broadcast = sim_broadcast,
                                                 .set_times = sim_set_times,
                                                 .finish = sim_finish,
                                                 .keep = sim_keep,
                                                 .destroy = sim_destroy};

static hvd_status_t sim_create(const struct hvd_bootstrap_options *options,
                               struct hvd_bootstrap **out, struct hvd_err *err)
{
    struct hvd_bootstrap *b = hvd_calloc(1, sizeof(*b));

    (void)options;
    if (!b)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a job");
    b->ops = &sim_ops;
    n_live++;
    *out = b;
    return HVD_OK;
}

static const struct hvd_bootstrap_provider provider = {.name = "sim", .create = sim_create};

const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void)
{
    return &provider;
}

const struct hvd_provider *hvd_providers_find(const char *name)
{
    (void)name;
    return NULL;
}

int hvd_providers_built(const char *name)
{
    (void)name;
    return 0;
}

const char *hvd_providers_of(const char *variable, size_t i)
{
    (void)variable;
    return i == 0 ? "mpi" : NULL; /* what programs may name, as in the library */
}

bool hvd_providers_enabled(const char *name)
{
    (void)name;
    return false;
}
