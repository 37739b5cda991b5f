/*
 * The coordinator's state machine; see negotiate.h. Pure: requests, bits and the time go in, plan
 * bytes come out. Memory per waiting tensor is one bit a rank (and 8 bytes a rank for an
 * allgather), not a request a rank: each request is compared with the first one as it comes.
 */
#include "worker/core/negotiate.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/mismatch.h"
#include "worker/core/negotiate_internal.h"

#define STALE_AGE 1000 /* plans without a slot, before another tensor may have it */

static size_t bitmap_words(int size)
{
    return ((size_t)size + 63) / 64;
}

bool hvd_rank_bit(const uint64_t *bits, int rank)
{
    return bits[rank / 64] >> (rank % 64) & 1;
}

static void set_bit(uint64_t *bits, int rank)
{
    bits[rank / 64] |= (uint64_t)1 << (rank % 64);
}

hvd_status_t hvd_negotiator_create(const struct hvd_negotiator_options *options,
                                   struct hvd_negotiator **out, struct hvd_err *err)
{
    struct hvd_negotiator *n = hvd_calloc(1, sizeof(*n));
    uint64_t *left = hvd_calloc(bitmap_words(options->size), sizeof(*left));
    hvd_status_t st = HVD_ERR_NOMEM;

    if (!n || !left) {
        hvd_free(n);
        hvd_free(left);
        return HVD_FAIL(err, st, 0, "out of memory for the negotiation");
    }
    n->options = *options;
    n->left = left;
    hvd_buf_init(&n->plan, HVD_MESSAGE_MAX);
    st = hvd_ready_create(options->size, options->cache_capacity, &n->ready, err);
    if (st != HVD_OK) {
        hvd_negotiator_destroy(n);
        return st;
    }
    *out = n;
    return HVD_OK;
}

static void destroy_waiting(struct hvd_waiting *w)
{
    if (!w)
        return;
    hvd_group_leave(w);
    hvd_free(w->text);
    hvd_free(w->rows);
    hvd_free(w);
}

static void forget(struct hvd_negotiator *n, struct hvd_waiting *w)
{
    hvd_names_remove(&n->waiting, &w->named);
    destroy_waiting(w);
}

static void forget_all(struct hvd_negotiator *n)
{
    hvd_group_fini(n);
    while (n->waiting.first)
        forget(n, (struct hvd_waiting *)n->waiting.first);
}

void hvd_negotiator_destroy(struct hvd_negotiator *n)
{
    if (!n)
        return;
    forget_all(n);
    hvd_ready_destroy(n->ready);
    hvd_buf_fini(&n->plan);
    hvd_free(n->left);
    hvd_free(n);
}

/* A tensor that nobody has asked for yet, in the map; NULL when out of memory. */
static struct hvd_waiting *add_waiting(struct hvd_negotiator *n, const struct hvd_request *req)
{
    const size_t align = sizeof(uint64_t);
    const size_t name_room = (req->name.len + 1 + align - 1) / align * align;
    const size_t head =
        (offsetof(struct hvd_waiting, name) + name_room + align - 1) / align * align;
    struct hvd_waiting *w = hvd_calloc(1, head + bitmap_words(n->options.size) * sizeof(uint64_t));

    if (!w)
        return NULL;
    w->first = *req;
    memcpy(w->name, req->name.data, req->name.len);
    w->first.name.data = w->name;
    w->seen = (uint64_t *)(void *)((char *)w + head);
    if (req->op == HVD_ALLGATHER) {
        w->rows = hvd_calloc((size_t)n->options.size, sizeof(*w->rows));
        if (!w->rows)
            goto fail;
    }
    if (hvd_names_add(&n->waiting, w->first.name, &w->named))
        return w;
fail:
    destroy_waiting(w);
    return NULL;
}

/* --- The plan --------------------------------------------------------------------------------- */

static hvd_status_t add_step(struct hvd_negotiator *n, const struct hvd_step *step,
                             const int64_t *rows, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (n->plan.len == 0)
        st = hvd_message_begin(&n->plan, HVD_MESSAGE_PLAN, n->options.set);
    if (st == HVD_OK)
        st = hvd_message_add_step(&n->plan, step, rows);
    return st == HVD_OK
               ? st
               : HVD_FAIL(err, st, 0, "plan of %zu bytes: %s", n->plan.len, hvd_status_str(st));
}

/* A step that is about no tensor. */
static hvd_status_t add_notice(struct hvd_negotiator *n, int kind, const char *text,
                               struct hvd_err *err)
{
    const struct hvd_step step = {.kind = kind,
                                  .slot = HVD_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = {.data = ""},
                                  .text = hvd_strview_of(text)};

    return add_step(n, &step, NULL, err);
}

static hvd_status_t evict(struct hvd_negotiator *n, uint32_t slot, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    /* All of a group: it is asked for as a whole, by bits or by names. */
    for (slot = hvd_ready_group_first(n->ready, slot); st == HVD_OK && slot != HVD_NO_SLOT;) {
        const struct hvd_step step = {.kind = HVD_STEP_EVICT,
                                      .slot = slot,
                                      .reduce = HVD_SUM,
                                      .name = {.data = ""},
                                      .text = {.data = ""}};
        const uint32_t next = hvd_ready_group_next(n->ready, slot);
        st = add_step(n, &step, NULL, err);
        hvd_ready_evict(n->ready, slot, n->epoch + 1);
        slot = next;
    }
    return st;
}

/* Names made up by the library are used once. */
static bool is_cacheable(const struct hvd_waiting *w)
{
    static const char mark[] = ".noname.";
    const char *p = w->name;

    if (w->first.op == HVD_JOIN)
        return false;
    while ((p = strchr(p, '.')) != NULL) {
        if (strncmp(p, mark, sizeof(mark) - 1) == 0)
            return false;
        p++;
    }
    return true;
}

/* Makes room for `wanted` slots, as far as there are tensors that nobody uses any more. */
static hvd_status_t make_room(struct hvd_negotiator *n, uint32_t wanted, bool *has_room,
                              struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    uint32_t stale = 0;

    while (st == HVD_OK && hvd_ready_room(n->ready) < wanted && stale != HVD_NO_SLOT) {
        stale = hvd_ready_stale(n->ready, n->epoch, STALE_AGE);
        if (stale != HVD_NO_SLOT)
            st = evict(n, stale, err);
    }
    *has_room = hvd_ready_room(n->ready) >= wanted;
    return st;
}

static hvd_status_t assign_slot(struct hvd_negotiator *n, const struct hvd_waiting *w,
                                struct hvd_step *step, struct hvd_err *err)
{
    char text[8];
    const struct hvd_ready_tensor tensor = {
        .name = w->first.name,
        .group = step->group,
        .group_size = step->group_size,
        .may_join = hvd_unsupported(&w->first, true, text, sizeof(text)) == 0};
    hvd_status_t st = hvd_ready_assign(n->ready, &tensor, n->epoch + 1, &step->slot);

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a cached tensor");
    if (step->group == HVD_NO_SLOT)
        step->group = step->slot + 1;
    return HVD_OK;
}

/* The step of a complete tensor. group: in: whether to cache and as what; see hvd_ready_tensor. */
static hvd_status_t plan_tensor(struct hvd_negotiator *n, const struct hvd_waiting *w,
                                bool is_cached, uint32_t *group, struct hvd_err *err)
{
    struct hvd_step step = {.kind = (int)w->first.op,
                            .dtype = w->first.dtype,
                            .reduce = w->first.reduce,
                            .device = w->first.device,
                            .prescale = w->first.prescale,
                            .postscale = w->first.postscale,
                            .slot = HVD_NO_SLOT,
                            .name = w->first.name,
                            .text = {.data = ""},
                            .n_rows = w->rows ? (uint32_t)n->options.size : 0};
    hvd_status_t st = HVD_OK;

    if (!hvd_shape_count(w->first.shape, w->first.ndim, &step.count))
        step.count = 0; /* checked when it came in */
    if (is_cached) {
        step.group = *group;
        step.group_size = w->cluster ? w->cluster->n_members : 0;
        st = assign_slot(n, w, &step, err);
        *group = step.group;
    }
    return st == HVD_OK ? add_step(n, &step, w->rows, err) : st;
}

static hvd_status_t plan_error(struct hvd_negotiator *n, const struct hvd_waiting *w,
                               const char *text, struct hvd_err *err)
{
    const struct hvd_step step = {.kind = HVD_STEP_ERROR,
                                  .slot = HVD_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = w->first.name,
                                  .text = hvd_strview_of(text)};

    return add_step(n, &step, NULL, err);
}

/* A tensor that is in no group. */
static hvd_status_t plan_alone(struct hvd_negotiator *n, struct hvd_waiting *w, struct hvd_err *err)
{
    bool is_cached = n->n_joined == 0 && is_cacheable(w);
    uint32_t group = 0;
    hvd_status_t st = HVD_OK;

    if (w->text) {
        st = plan_error(n, w, w->text, err);
    } else {
        if (is_cached)
            st = make_room(n, 1, &is_cached, err);
        if (st == HVD_OK)
            st = plan_tensor(n, w, is_cached, &group, err);
    }
    if (st == HVD_OK)
        forget(n, w);
    return st;
}

/* All tensors of a cluster: they run, or all fail for the reason of the first that cannot. */
static hvd_status_t plan_cluster(struct hvd_negotiator *n, struct hvd_cluster *cluster,
                                 struct hvd_err *err)
{
    bool is_cached = n->n_joined == 0;
    const char *text = NULL;
    uint32_t group = HVD_NO_SLOT;
    hvd_status_t st = HVD_OK;

    for (const struct hvd_waiting *w = cluster->first; w; w = w->next) {
        text = text ? text : w->text;
        is_cached = is_cached && is_cacheable(w);
    }
    if (is_cached && !text)
        st = make_room(n, cluster->n_members, &is_cached, err);
    for (const struct hvd_waiting *w = cluster->first; w && st == HVD_OK; w = w->next) {
        if (text)
            st = plan_error(n, w, w->text ? w->text : text, err);
        else
            st = plan_tensor(n, w, is_cached, &group, err);
    }
    for (struct hvd_waiting *w = cluster->first; w && st == HVD_OK;) {
        struct hvd_waiting *next = w->next;
        forget(n, w);
        w = next;
    }
    return st;
}

/* Keeps the sentence why a tensor fails. */
static hvd_status_t keep_text(struct hvd_waiting *w, int check, const char *text)
{
    char *copy = hvd_strdup(text);

    if (!copy)
        return HVD_ERR_NOMEM;
    hvd_free(w->text);
    w->text = copy;
    w->failed_check = check;
    return HVD_OK;
}

/* Whether every rank has asked for the tensor or has joined. */
static bool is_seen_by_all(const struct hvd_negotiator *n, const struct hvd_waiting *w)
{
    int n_seen = w->n_seen;

    for (int rank = 0; n->n_joined > 0 && rank < n->options.size; rank++)
        n_seen += hvd_ready_has_joined(n->ready, rank) && !hvd_rank_bit(w->seen, rank);
    return n_seen == n->options.size;
}

/* Plans the tensor, or its group, when nothing is missing. May free it. */
static hvd_status_t complete(struct hvd_negotiator *n, struct hvd_waiting *w, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];

    if (!w->is_complete && is_seen_by_all(n, w)) {
        int check = hvd_unsupported(&w->first, w->n_seen < n->options.size, text, sizeof(text));
        if (check != 0 && !w->text && keep_text(w, check, text) != HVD_OK)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for tensor %s", w->name);
        w->is_complete = true;
        if (w->cluster)
            w->cluster->n_complete++;
    }
    if (!w->cluster)
        return w->is_complete ? plan_alone(n, w, err) : HVD_OK;
    if (w->cluster->n_open > 0 || w->cluster->n_complete < w->cluster->n_members)
        return HVD_OK;
    return plan_cluster(n, w->cluster, err);
}

/* --- What ranks ask for ----------------------------------------------------------------------- */

/* Compares with the first request; keeps the sentence of the lowest check that failed. */
static hvd_status_t compare(const struct hvd_negotiator *n, struct hvd_waiting *w, int rank,
                            const struct hvd_request *req)
{
    char text[HVD_TEXT_MAX];
    int check = hvd_mismatch(
        (struct hvd_asked){.rank = n->options.ranks[w->first_rank], .req = &w->first},
        (struct hvd_asked){.rank = n->options.ranks[rank], .req = req}, text, sizeof(text));

    if (check == 0 || (w->failed_check != 0 && w->failed_check <= check))
        return HVD_OK;
    return keep_text(w, check, text);
}

/* The tensor of the request; made when this is the first one. NULL when out of memory. */
static struct hvd_waiting *get_waiting(struct hvd_negotiator *n, int rank,
                                       const struct hvd_request *req, int64_t now_ns)
{
    struct hvd_waiting *w = (struct hvd_waiting *)hvd_names_find(&n->waiting, req->name);

    if (w)
        return w;
    w = add_waiting(n, req);
    if (w) {
        w->first_rank = rank;
        w->since_ns = now_ns;
    }
    return w;
}

/* Every rank has joined: tells them who was last, and everything is as before. */
static hvd_status_t end_join(struct hvd_negotiator *n, int last_rank, const struct hvd_request *req,
                             struct hvd_err *err)
{
    const struct hvd_step step = {.kind = HVD_JOIN,
                                  .reduce = HVD_SUM,
                                  .slot = HVD_NO_SLOT,
                                  .count = n->options.ranks[last_rank],
                                  .name = req->name,
                                  .text = {.data = ""}};

    n->n_joined = 0;
    hvd_ready_unjoin(n->ready);
    return add_step(n, &step, NULL, err);
}

/* Goes through the waiting tensors, which planning changes, until none can be planned. */
static hvd_status_t complete_waiting(struct hvd_negotiator *n, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    size_t before;

    do {
        before = hvd_names_count(&n->waiting);
        struct hvd_named *item = n->waiting.first;
        while (item && st == HVD_OK && hvd_names_count(&n->waiting) == before) {
            struct hvd_named *next = hvd_names_next(item);
            st = complete(n, (struct hvd_waiting *)item, err);
            item = next;
        }
    } while (st == HVD_OK && hvd_names_count(&n->waiting) != before);
    return st;
}

static hvd_status_t join(struct hvd_negotiator *n, int rank, const struct hvd_request *req,
                         struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    uint32_t slot;

    if (hvd_ready_has_joined(n->ready, rank))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d joined twice", rank);
    /* What cannot be done with zeros is asked for by name, and refused with a reason. */
    while (st == HVD_OK && (slot = hvd_ready_not_joinable(n->ready)) != HVD_NO_SLOT)
        st = evict(n, slot, err);
    if (st != HVD_OK)
        return st;
    hvd_ready_join(n->ready, rank);
    n->n_joined++;
    st = complete_waiting(n, err);
    return st == HVD_OK && n->n_joined == n->options.size ? end_join(n, rank, req, err) : st;
}

/* Counts a request for a tensor. */
static hvd_status_t count(struct hvd_negotiator *n, struct hvd_waiting *w, int rank,
                          const struct hvd_request *req, struct hvd_err *err)
{
    if (hvd_rank_bit(w->seen, rank))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d asked twice for tensor %s",
                        n->options.ranks[rank], w->name);
    hvd_status_t st = compare(n, w, rank, req);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a tensor of rank %d", rank);
    st = hvd_group_enter(n, w, rank, req, err);
    if (st != HVD_OK)
        return st;
    set_bit(w->seen, rank);
    w->n_seen++;
    if (w->rows && req->op == HVD_ALLGATHER && req->ndim > 0)
        w->rows[rank] = req->shape[0];
    return complete(n, w, err);
}

hvd_status_t hvd_negotiator_request(struct hvd_negotiator *n, int rank,
                                    const struct hvd_request *req, int64_t now_ns,
                                    struct hvd_err *err)
{
    hvd_status_t st = hvd_request_check(req, n->options.world_size, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "request of rank %d", n->options.ranks[rank]);
    if (n->is_ending)
        return HVD_OK;
    if (req->op == HVD_JOIN)
        return join(n, rank, req, err);

    const uint32_t slot = hvd_ready_find(n->ready, req->name);
    if (slot != HVD_NO_SLOT) {
        st = evict(n, slot, err);
        if (st != HVD_OK)
            return st;
    }
    struct hvd_waiting *w = get_waiting(n, rank, req, now_ns);
    if (!w)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor of rank %d", rank);
    return count(n, w, rank, req, err);
}

hvd_status_t hvd_negotiator_bits(struct hvd_negotiator *n, int rank, const struct hvd_reader *bits,
                                 int64_t now_ns, struct hvd_err *err)
{
    return n->is_ending ? HVD_OK : hvd_ready_bits(n->ready, rank, bits, now_ns, err);
}

/* --- The end ---------------------------------------------------------------------------------- */

hvd_status_t hvd_negotiator_close(struct hvd_negotiator *n, const char *text, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (!n->is_ending)
        st = add_notice(n, HVD_STEP_SHUTDOWN, text, err);
    if (st == HVD_OK) {
        n->is_ending = true;
        forget_all(n);
    }
    return st;
}

hvd_status_t hvd_negotiator_leave(struct hvd_negotiator *n, int rank, bool failed, const char *text,
                                  struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (failed && !n->is_aborted)
        st = add_notice(n, HVD_STEP_ABORT, text, err);
    else if (!n->is_ending)
        st = add_notice(n, HVD_STEP_SHUTDOWN, text, err);
    if (st != HVD_OK)
        return st;
    n->is_ending = true;
    n->is_aborted = n->is_aborted || failed;
    forget_all(n);
    if (hvd_rank_bit(n->left, rank))
        return HVD_OK;
    set_bit(n->left, rank);
    n->n_left++;
    return n->n_left == n->options.size ? add_notice(n, HVD_STEP_DOWN, "", err) : HVD_OK;
}

hvd_status_t hvd_negotiator_plan(struct hvd_negotiator *n, const struct hvd_buf **plan,
                                 struct hvd_err *err)
{
    struct hvd_plan_head head = {
        .epoch = n->epoch + 1, .fusion = n->options.fusion_bytes, .cycle_us = n->options.cycle_us};
    hvd_status_t st = HVD_OK;

    head.words = hvd_ready_words(n->ready, &head.n_words);
    if (n->plan.len == 0 && !head.words) {
        *plan = NULL;
        return HVD_OK;
    }
    if (n->plan.len == 0)
        st = hvd_message_begin(&n->plan, HVD_MESSAGE_PLAN, n->options.set);
    if (st == HVD_OK)
        st = hvd_message_end_plan(&n->plan, &head);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "plan of %zu bytes: %s", n->plan.len, hvd_status_str(st));
    n->epoch = head.epoch;
    hvd_ready_take(n->ready, n->epoch);
    *plan = &n->plan;
    return HVD_OK;
}

void hvd_negotiator_tune(struct hvd_negotiator *n, int64_t fusion_bytes, uint32_t cycle_us)
{
    n->options.fusion_bytes = fusion_bytes;
    n->options.cycle_us = cycle_us;
}

void hvd_negotiator_plan_sent(struct hvd_negotiator *n)
{
    hvd_buf_reset(&n->plan);
}

size_t hvd_negotiator_waiting(const struct hvd_negotiator *n)
{
    return hvd_names_count(&n->waiting) + hvd_ready_waiting(n->ready);
}
