/*
 * Begins a job over MPI: the transport's own start (mpi.c), watched (arrival.c), and the exchanges
 * of the ranks before there is an engine.
 */
#include "worker/transport/mpi/bootstrap.h"

#include <limits.h>
#include <mpi.h>

#include "base/mem.h"
#include "worker/transport/mpi/comms.h"

struct mpi_bootstrap {
    struct hvd_bootstrap base; /* first: callers see only this part */
    struct hvd_bootstrap_options options;
    struct hvd_mpi_arrival *arrival; /* owned */
    bool is_left;                    /* a call may still use the whole struct */
};

static struct mpi_bootstrap *self(struct hvd_bootstrap *b)
{
    return (struct mpi_bootstrap *)b;
}

static MPI_Comm comm_of(const struct hvd_bootstrap *b)
{
    return *(const MPI_Comm *)hvd_mpi_comm(b->transport);
}

static hvd_status_t check(int rc, struct hvd_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    if (rc == MPI_SUCCESS)
        return HVD_OK;
    MPI_Error_string(rc, text, &len);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "%.*s", len, text);
}

/* Notes when a call was left behind; returns st. */
static hvd_status_t note(struct mpi_bootstrap *b, hvd_status_t st)
{
    b->is_left = b->is_left || st == HVD_ERR_GONE;
    return st;
}

static hvd_status_t mpi_join(struct hvd_bootstrap *b, struct hvd_err *err)
{
    const struct hvd_bootstrap_options *from = &self(b)->options;
    const struct hvd_mpi_options options = {.allow_single_thread = from->allow_single_thread,
                                            .algorithm = from->algorithm,
                                            .table = from->table,
                                            .is_deterministic = from->is_deterministic,
                                            .comm = from->n_groups > 0 ? from->groups : NULL,
                                            .ranks = from->ranks,
                                            .n_ranks = from->n_ranks,
                                            .arrival = self(b)->arrival};

    return note(self(b), hvd_mpi_create(&options, &b->transport, err));
}

static hvd_status_t mpi_attend(struct hvd_bootstrap *b, hvd_aside_fn fn, void *ctx,
                               struct hvd_err *err)
{
    return note(self(b), hvd_mpi_arrival_attend(self(b)->arrival, fn, ctx, err));
}

static hvd_status_t mpi_min(struct hvd_bootstrap *b, int64_t *values, int n, struct hvd_err *err)
{
    return check(MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_INT64_T, MPI_MIN, comm_of(b)), err);
}

static hvd_status_t mpi_broadcast(struct hvd_bootstrap *b, void *data, size_t len, int root,
                                  struct hvd_err *err)
{
    if (len > INT_MAX)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%zu bytes are too many", len);
    return check(MPI_Bcast(data, (int)len, MPI_BYTE, root, comm_of(b)), err);
}

static hvd_status_t mpi_read_sets(struct hvd_bootstrap *b, struct hvd_bootstrap_sets *out,
                                  struct hvd_err *err)
{
    const struct hvd_bootstrap_options *from = &self(b)->options;

    return from->n_groups > 1
               ? hvd_mpi_comms_sets_read(b->transport, from->groups, from->n_groups, out, err)
               : HVD_OK;
}

static void mpi_set_times(struct hvd_bootstrap *b, int64_t warning_ns, int64_t shutdown_ns)
{
    hvd_mpi_arrival_set_times(self(b)->arrival, warning_ns, shutdown_ns);
}

static hvd_status_t mpi_finish(struct hvd_bootstrap *b, struct hvd_err *err)
{
    return note(self(b), hvd_mpi_arrival_finish(self(b)->arrival, err));
}

static void mpi_keep(struct hvd_bootstrap *b)
{
    hvd_mpi_keep(b->transport);
}

static void mpi_destroy(struct hvd_bootstrap *b)
{
    hvd_mpi_arrival_destroy(self(b)->arrival);
    self(b)->arrival = NULL;
    if (!self(b)->is_left)
        hvd_free(b);
}

static const struct hvd_bootstrap_ops mpi_ops = {
    .join = mpi_join,
    .attend = mpi_attend,
    .min = mpi_min,
    .broadcast = mpi_broadcast,
    .read_sets = mpi_read_sets,
    .set_times = mpi_set_times,
    .finish = mpi_finish,
    .keep = mpi_keep,
    .destroy = mpi_destroy,
};

static hvd_status_t mpi_create(const struct hvd_bootstrap_options *options,
                               struct hvd_bootstrap **out, struct hvd_err *err)
{
    struct mpi_bootstrap *b = hvd_calloc(1, sizeof(*b));
    hvd_status_t st;

    if (!b)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a job");
    b->base.ops = &mpi_ops;
    b->options = *options;
    st = hvd_mpi_arrival_create(options->warning_ns, options->shutdown_ns, options->log,
                                &b->arrival, err);
    if (st == HVD_OK)
        *out = &b->base;
    else
        hvd_free(b);
    return st;
}

const struct hvd_bootstrap_provider hvd_mpi_bootstrap = {
    .name = "mpi", .create = mpi_create, .leave = hvd_mpi_leave};

bool hvd_mpi_bootstrap_is(const struct hvd_bootstrap *b)
{
    return b->ops == &mpi_ops;
}
