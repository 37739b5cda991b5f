/*
 * Tables of lists of tensors, kept on the device. A training loop packs the same lists at the same
 * addresses in each step, and then nothing is uploaded. Runs in the launcher, which never waits for
 * the device here: a table that is in use is left alone, and another one takes its place.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"

#define TABLES_MAX 64 /* more only while so many are in use */
#define ALIKE_MAX 4   /* of the same sizes */

/* Returns where the addresses of inputs or outputs begin. */
static size_t addresses_at(const struct hvd_pack_shape *shape, bool is_unpack)
{
    const size_t bytes = (shape->table_bytes + 7) / 8 * 8;

    return bytes + (is_unpack ? (size_t)shape->n_pieces * sizeof(uint64_t) : 0);
}

static size_t bytes_of(const struct hvd_pack_shape *shape)
{
    return addresses_at(shape, true) + (size_t)shape->n_pieces * sizeof(uint64_t);
}

static bool is_in_use(const struct hvd_cuda_set *set, const struct hvd_cuda_table *t)
{
    return !hvd_cuda_is_done(set->pack.done, t->last[0]) ||
           !hvd_cuda_is_done(set->move.done, t->last[1]);
}

/* Writes the addresses of the list to the set's scratch. */
static hvd_status_t take_addresses(struct hvd_cuda_set *set, const struct hvd_cuda_packing *p,
                                   uint32_t n, struct hvd_err *err)
{
    if (set->scratch_room < n) {
        uint64_t *grown = hvd_realloc(set->scratch, n, sizeof(*grown));
        if (!grown)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for %u addresses", n);
        set->scratch = grown;
        set->scratch_room = n;
    }
    (void)hvd_pack_table_addresses(&p->list, p->is_unpack, set->scratch);
    return HVD_OK;
}

/* Whether the table has the addresses that are in the scratch. */
static bool has_addresses(const struct hvd_cuda_set *set, const struct hvd_cuda_table *t,
                          bool is_unpack)
{
    return t->is_uploaded[is_unpack] &&
           memcmp(t->host + addresses_at(&t->shape, is_unpack), set->scratch,
                  (size_t)t->shape.n_pieces * sizeof(uint64_t)) == 0;
}

static bool is_same(const struct hvd_pack_shape *a, const struct hvd_pack_shape *b)
{
    return a->buffer_bytes == b->buffer_bytes && a->table_bytes == b->table_bytes &&
           a->n_pieces == b->n_pieces && a->n_tiles == b->n_tiles;
}

/* Returns the place in the list of a table for that packing; NULL: another one is needed. One with
 * these addresses is best, then one that has none yet in this direction. A few lists of the same
 * sizes may take turns, so only then the oldest one gets other addresses. */
static struct hvd_cuda_table **find_table(struct hvd_cuda_set *set,
                                          const struct hvd_cuda_packing *p,
                                          const struct hvd_pack_shape *shape)
{
    struct hvd_cuda_table **empty = NULL;
    struct hvd_cuda_table **oldest = NULL; /* that is not in use */
    int n_alike = 0;

    for (struct hvd_cuda_table **at = &set->tables; *at; at = &(*at)->next) {
        const struct hvd_cuda_table *t = *at;
        if ((t->is_for_unpack && !p->is_unpack) || !is_same(&t->shape, shape) ||
            !hvd_pack_table_fits(&p->list, &t->shape, t->host))
            continue;
        if (has_addresses(set, t, p->is_unpack))
            return at;
        n_alike++;
        if (!t->is_uploaded[p->is_unpack])
            empty = empty ? empty : at;
        else if (!is_in_use(set, t))
            oldest = at;
    }
    if (empty)
        return empty;
    return n_alike >= ALIKE_MAX ? oldest : NULL;
}

/* Returns the place of the oldest table that is not in use and has room; NULL: there is none. */
static struct hvd_cuda_table **find_old(struct hvd_cuda_set *set, size_t bytes)
{
    struct hvd_cuda_table **found = NULL;

    for (struct hvd_cuda_table **at = &set->tables; *at; at = &(*at)->next)
        if ((*at)->room >= bytes && !is_in_use(set, *at))
            found = at;
    return found;
}

static hvd_status_t create_table(struct hvd_cuda_device *g, struct hvd_cuda_set *set, size_t bytes,
                                 const struct hvd_cuda_stream *s, struct hvd_cuda_table **out,
                                 struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    struct hvd_cuda_table *t = hvd_calloc(1, sizeof(*t));
    void *host = NULL;

    if (!t)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a table");
    for (t->room = 4096; t->room < bytes;)
        t->room *= 2;
    hvd_status_t st = hvd_cuda_pinned_take(g, t->room, &host, err);
    t->host = host;
    if (st == HVD_OK)
        st = hvd_cuda_check(g, cu->cuMemAllocAsync(&t->device, t->room, s->stream),
                            "cuMemAllocAsync", err);
    if (st != HVD_OK) {
        hvd_cuda_pinned_put(g, t->host);
        hvd_free(t);
        return st;
    }
    t->last[0] = set->pack.n_launched;
    t->last[1] = set->move.n_launched;
    set->n_tables++;
    *out = t;
    return HVD_OK;
}

/* Uploads a part of the table on a stream. */
static hvd_status_t upload(struct hvd_cuda_device *g, struct hvd_cuda_table *t, size_t at,
                           size_t bytes, struct hvd_cuda_stream *s, struct hvd_err *err)
{
    return hvd_cuda_check(
        g, g->library->cu.cuMemcpyHtoDAsync_v2(t->device + at, t->host + at, bytes, s->stream),
        "cuMemcpyHtoDAsync", err);
}

/* Takes a table out of the list, or creates one, whose sizes are those of the packing. */
static hvd_status_t take_table(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                               const struct hvd_cuda_packing *p, const struct hvd_pack_shape *shape,
                               struct hvd_cuda_table **out, struct hvd_err *err)
{
    struct hvd_cuda_stream *s = p->is_unpack ? &set->move : &set->pack;
    struct hvd_cuda_table **at = find_table(set, p, shape);
    struct hvd_cuda_table *t = NULL;
    hvd_status_t st = HVD_OK;

    if (at) {
        t = *at;
        *at = t->next;
        *out = t;
        return HVD_OK;
    }
    at = set->n_tables >= TABLES_MAX ? find_old(set, bytes_of(shape)) : NULL;
    if (at) {
        t = *at;
        *at = t->next;
    } else {
        st = create_table(g, set, bytes_of(shape), s, &t, err);
    }
    if (st != HVD_OK)
        return st;
    t->shape = *shape;
    t->is_for_unpack = p->is_unpack;
    t->is_uploaded[0] = t->is_uploaded[1] = false;
    hvd_pack_table_write(&p->list, shape, t->host);
    *out = t;
    /* the collective stream waits for the pack stream before it unpacks */
    return upload(g, t, 0, shape->table_bytes, s, err);
}

static hvd_status_t launch(struct hvd_cuda_device *g, struct hvd_cuda_table *t,
                           const struct hvd_cuda_packing *p, struct hvd_cuda_stream *s,
                           struct hvd_err *err)
{
    struct hvd_cuda_args args = {0};
    void *params[] = {&args};

    const enum hvd_cuda_kernel kernel =
        hvd_pack_table_prepare(&p->list, &t->shape, p->scaling, p->is_unpack, &args);
    args.table = t->device;
    args.addresses = t->device + addresses_at(&t->shape, p->is_unpack);
    args.buffer = p->buffer;
    return hvd_cuda_check(g,
                          g->library->cu.cuLaunchKernel(g->kernels[kernel], t->shape.n_blocks, 1, 1,
                                                        HVD_CUDA_BLOCK, 1, 1, 0, s->stream, params,
                                                        NULL),
                          p->is_unpack ? "unpack" : "pack", err);
}

hvd_status_t hvd_cuda_pack(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                           const struct hvd_cuda_packing *p, struct hvd_err *err)
{
    struct hvd_cuda_stream *s = p->is_unpack ? &set->move : &set->pack;
    struct hvd_cuda_table *t = NULL;
    struct hvd_pack_shape shape;
    hvd_status_t st = hvd_pack_table_measure(&p->list, &shape, err);
    if (st != HVD_OK || shape.n_blocks == 0)
        return st;
    st = take_addresses(set, p, shape.n_pieces, err);
    if (st == HVD_OK)
        st = take_table(g, set, p, &shape, &t, err);
    if (t) {
        t->next = set->tables;
        set->tables = t;
    }
    if (st != HVD_OK)
        return st;
    if (!has_addresses(set, t, p->is_unpack)) {
        const size_t at = addresses_at(&t->shape, p->is_unpack);
        const size_t bytes = (size_t)t->shape.n_pieces * sizeof(uint64_t);
        memcpy(t->host + at, set->scratch, bytes);
        st = upload(g, t, at, bytes, s, err);
        t->is_uploaded[p->is_unpack] = true;
    }
    if (st == HVD_OK)
        st = launch(g, t, p, s, err);
    t->last[p->is_unpack] = s->n_launched + 1; /* the work that ends with this launch */
    return st;
}

void hvd_cuda_tables_destroy(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    while (set->tables) {
        struct hvd_cuda_table *t = set->tables;
        set->tables = t->next;
        (void)g->library->cu.cuMemFreeAsync(t->device, set->move.stream);
        hvd_cuda_pinned_put(g, t->host);
        hvd_free(t);
    }
    hvd_free(set->scratch);
    set->scratch = NULL;
}
