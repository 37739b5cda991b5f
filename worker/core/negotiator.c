/*
 * The coordinator's state machine; see negotiator.h. Pure: requests, bits and the time go in, plan
 * bytes come out.
 *
 * It compares each request with the first one on arrival and does not keep it. So a waiting tensor
 * needs one bit for each rank, and for an allgather 8 bytes more.
 */
#include "worker/core/negotiator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/core/mismatch.h"
#include "worker/core/negotiator_internal.h"

#define STALE_AGE 1000 /* plans since a slot's last use, after which another tensor may take it */

/* Numbers of uncached groups start here, above the numbers of cached groups, which are slots +
 * 1. */
#define UNCACHED_GROUP ((uint32_t)1 << 31)

int hvd_negotiator_world_rank(const struct hvd_negotiator *n, int position)
{
    return n->options.ranks[n->options.tree->rank_at[position]];
}

hvd_status_t hvd_negotiator_create(const struct hvd_negotiator_options *options,
                                   struct hvd_negotiator **out, struct hvd_err *err)
{
    const int n_branches = 1 + options->node->n_children;
    const size_t words = hvd_positions_words(options->tree->size);
    struct hvd_negotiator *n = hvd_calloc(1, sizeof(*n));
    hvd_status_t st = HVD_ERR_NOMEM;

    if (!n)
        return HVD_FAIL(err, st, 0, "out of memory for the negotiation");
    n->options = *options;
    n->size = options->tree->size;
    hvd_buf_init(&n->plan, HVD_MESSAGE_MAX);
    n->left = hvd_calloc(words, sizeof(*n->left));
    n->joined = hvd_calloc(words, sizeof(*n->joined));
    n->n_joined_of = hvd_calloc((size_t)n_branches, sizeof(*n->n_joined_of));
    if (n->left && n->joined && n->n_joined_of)
        st = hvd_ready_create(n_branches, options->cache_capacity, &n->ready, err);
    else
        hvd_err_set(err, st, 0, "out of memory for the negotiation");
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
    hvd_tally_forget(w);
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
    hvd_negotiator_partial_forget(n, HVD_CACHE_NO_SLOT);
    hvd_ready_destroy(n->ready);
    hvd_buf_fini(&n->plan);
    hvd_free(n->left);
    hvd_free(n->joined);
    hvd_free(n->n_joined_of);
    hvd_free(n);
}

/* Adds a tensor that no rank has requested yet to the map; NULL when out of memory. */
static struct hvd_waiting *add_waiting(struct hvd_negotiator *n, const struct hvd_request *req)
{
    const size_t align = sizeof(uint64_t);
    const size_t name_room = (req->name.len + 1 + align - 1) / align * align;
    const size_t head =
        (offsetof(struct hvd_waiting, name) + name_room + align - 1) / align * align;
    struct hvd_waiting *w = hvd_calloc(1, head + hvd_positions_words(n->size) * sizeof(uint64_t));

    if (!w)
        return NULL;
    w->first = *req;
    memcpy(w->name, req->name.data, req->name.len);
    w->first.name.data = w->name;
    w->seen = (uint64_t *)(void *)((char *)w + head);
    if (req->op == HVD_ALLGATHER) {
        w->rows = hvd_calloc((size_t)n->size, sizeof(*w->rows));
        if (!w->rows)
            goto fail;
    }
    if (hvd_names_add(&n->waiting, hvd_group_name_key(w->first.name), &w->named))
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

/* Adds a step that concerns no tensor. */
static hvd_status_t add_notice(struct hvd_negotiator *n, int kind, const char *text,
                               struct hvd_err *err)
{
    const struct hvd_step step = {.kind = kind,
                                  .slot = HVD_CACHE_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = {.data = ""},
                                  .text = hvd_strview_of(text)};

    return add_step(n, &step, NULL, err);
}

static hvd_status_t evict(struct hvd_negotiator *n, uint32_t slot, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    /* Evict the whole group: ranks request it entirely by bits or entirely by names. */
    for (slot = hvd_ready_group_first(n->ready, slot); st == HVD_OK && slot != HVD_CACHE_NO_SLOT;) {
        const struct hvd_step step = {.kind = HVD_STEP_EVICT,
                                      .slot = slot,
                                      .reduce = HVD_SUM,
                                      .name = {.data = ""},
                                      .text = {.data = ""}};
        const uint32_t next = hvd_ready_group_next(n->ready, slot);
        st = add_step(n, &step, NULL, err);
        hvd_ready_evict(n->ready, slot, n->epoch + 1);
        hvd_negotiator_partial_forget(n, slot);
        slot = next;
    }
    return st;
}

/* Whether the tensor may get a slot. A name that the library generated is used only once. */
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

/* Makes room for `wanted` slots by evicting tensors that have been unused for long, if there are
 * any. */
static hvd_status_t make_room(struct hvd_negotiator *n, uint32_t wanted, bool *has_room,
                              struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    uint32_t stale = 0;

    while (st == HVD_OK && hvd_ready_room(n->ready) < wanted && stale != HVD_CACHE_NO_SLOT) {
        stale = hvd_ready_stale(n->ready, n->epoch, STALE_AGE);
        if (stale != HVD_CACHE_NO_SLOT)
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
        .may_join = hvd_mismatch_unsupported(&w->first, true, text, sizeof(text)) == 0};
    hvd_status_t st = hvd_ready_assign(n->ready, &tensor, n->epoch + 1, &step->slot);

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a cached tensor");
    if (step->group == HVD_CACHE_NO_SLOT)
        step->group = step->slot + 1;
    return HVD_OK;
}

/* Adds the step of a complete tensor. *group is the group as in hvd_ready_tensor; the first
 * cached tensor of a group sets it. */
static hvd_status_t plan_tensor(struct hvd_negotiator *n, const struct hvd_waiting *w,
                                bool is_cached, uint32_t *group, struct hvd_err *err)
{
    struct hvd_step step = {.kind = (int)w->first.op,
                            .dtype = w->first.dtype,
                            .reduce = w->first.reduce,
                            .device = w->first.device,
                            .prescale = w->first.prescale,
                            .postscale = w->first.postscale,
                            .slot = HVD_CACHE_NO_SLOT,
                            .name = w->first.name,
                            .text = {.data = ""},
                            .n_rows = w->rows ? (uint32_t)n->size : 0};
    hvd_status_t st = HVD_OK;

    if (!hvd_shape_count(w->first.shape, w->first.ndim, &step.count))
        step.count = 0; /* does not happen: the request was checked on arrival */
    step.group = *group;
    step.group_size = w->cluster ? w->cluster->n_members : 0;
    if (is_cached) {
        st = assign_slot(n, w, &step, err);
        *group = step.group;
    }
    return st == HVD_OK ? add_step(n, &step, w->rows, err) : st;
}

static hvd_status_t plan_end(struct hvd_negotiator *n, enum hvd_step_kind kind,
                             const struct hvd_waiting *w, const char *text, struct hvd_err *err)
{
    const struct hvd_step step = {.kind = (int)kind,
                                  .slot = HVD_CACHE_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = w->first.name,
                                  .text = hvd_strview_of(text)};

    return add_step(n, &step, NULL, err);
}

static hvd_status_t plan_error(struct hvd_negotiator *n, const struct hvd_waiting *w,
                               const char *text, struct hvd_err *err)
{
    return plan_end(n, HVD_STEP_ERROR, w, text, err);
}

/* Plans a tensor without a group. */
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

static bool is_cluster_complete(const struct hvd_cluster *cluster)
{
    return cluster->n_open == 0 && cluster->n_complete == cluster->n_members;
}

/* Plans all tensors of a cluster. They run, or all fail with the reason of the first failing
 * tensor. */
static hvd_status_t plan_cluster(struct hvd_negotiator *n, struct hvd_cluster *cluster,
                                 struct hvd_err *err)
{
    bool is_cached = n->n_joined == 0;
    const char *text = NULL;
    uint32_t group = HVD_CACHE_NO_SLOT;
    hvd_status_t st = HVD_OK;

    for (const struct hvd_waiting *w = cluster->first; w; w = w->next) {
        text = text ? text : w->text;
        is_cached = is_cached && is_cacheable(w);
    }
    if (is_cached && !text)
        st = make_room(n, cluster->n_members, &is_cached, err);
    if (!is_cached)
        group = UNCACHED_GROUP + n->n_uncached_groups++ % (UNCACHED_GROUP - 1);
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

/* Fails all groups of one name, because their numbers of tensors differ between ranks or because
 * a rank refused one. The head ends last, since programs may then submit the next group of that
 * name. */
static hvd_status_t plan_drop(struct hvd_negotiator *n, struct hvd_waiting *head,
                              struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    hvd_status_t st = HVD_OK;

    hvd_tally_explain(n, head, text, sizeof(text));
    struct hvd_cluster *rest = hvd_tally_drop(n, head);
    for (struct hvd_named *item = n->waiting.first; item && st == HVD_OK;) {
        struct hvd_waiting *w = (struct hvd_waiting *)item;
        item = hvd_names_next(item);
        if (!w->is_dropped || w == head)
            continue;
        st = plan_end(n, HVD_STEP_DROP, w, text, err);
        forget(n, w);
    }
    if (st == HVD_OK)
        st = plan_error(n, head, text, err);
    forget(n, head);
    return st == HVD_OK && rest && is_cluster_complete(rest) ? plan_cluster(n, rest, err) : st;
}

/* Keeps the message that explains why a tensor fails. */
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

/* Whether every rank has requested the tensor or has joined. */
static bool is_seen_by_all(const struct hvd_negotiator *n, const struct hvd_waiting *w)
{
    if (n->n_joined == 0)
        return w->n_seen == n->size;
    return hvd_positions_count(w->seen, n->joined, n->size) == n->size;
}

/* Whether this is a head that all ranks have requested, of groups that cannot run. */
static bool is_head_of_failed(const struct hvd_waiting *w)
{
    return w->is_complete &&
           (w->tallies || (w->n_refused > 0 && hvd_group_name_is_head(w->first.name)));
}

/* Plans the tensor or its cluster once it is complete. May free it. */
static hvd_status_t complete(struct hvd_negotiator *n, struct hvd_waiting *w, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];

    if (!w->is_complete && is_seen_by_all(n, w)) {
        int check = hvd_mismatch_unsupported(&w->first, w->n_seen < n->size, text, sizeof(text));
        if (check != 0 && !w->text && keep_text(w, check, text) != HVD_OK)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for tensor %s", w->name);
        w->is_complete = true;
        if (w->cluster)
            w->cluster->n_complete++;
    }
    if (is_head_of_failed(w) && !(w->cluster && w->cluster->n_open > 0))
        return plan_drop(n, w, err);
    if (!w->cluster)
        return w->is_complete ? plan_alone(n, w, err) : HVD_OK;
    return is_cluster_complete(w->cluster) ? plan_cluster(n, w->cluster, err) : HVD_OK;
}

/* --- Requests --------------------------------------------------------------------------------- */

/* Compares a request with the first one, and keeps the message of the lowest check that failed. */
static hvd_status_t compare(const struct hvd_negotiator *n, struct hvd_waiting *w, int position,
                            const struct hvd_request *req)
{
    char text[HVD_TEXT_MAX];
    int check = hvd_mismatch(
        (struct hvd_request_of_rank){.rank = hvd_negotiator_world_rank(n, w->first_position),
                                     .req = &w->first},
        (struct hvd_request_of_rank){.rank = hvd_negotiator_world_rank(n, position), .req = req},
        text, sizeof(text));

    if (check == 0 || (w->failed_check != 0 && w->failed_check <= check))
        return HVD_OK;
    return keep_text(w, check, text);
}

/* Returns the tensor of the request, and adds it for the first request; NULL when out of memory. */
static struct hvd_waiting *get_waiting(struct hvd_negotiator *n,
                                       const struct hvd_merged_request *merged, int64_t now_ns)
{
    struct hvd_waiting *w =
        (struct hvd_waiting *)hvd_names_find(&n->waiting, hvd_group_name_key(merged->request.name));

    if (!w) {
        w = add_waiting(n, &merged->request);
        if (w)
            w->first_position = hvd_message_ranges_at(&merged->by, 0).first;
    }
    if (w && w->n_seen == w->n_refused) /* no rank has waited for it so far */
        w->since_ns = now_ns - (int64_t)merged->age_ms * 1000000;
    return w;
}

/* Ends the join once every rank has joined. The step contains the last rank; nothing of the join
 * is kept. */
static hvd_status_t end_join(struct hvd_negotiator *n, int last, const struct hvd_request *req,
                             struct hvd_err *err)
{
    const struct hvd_step step = {.kind = HVD_JOIN,
                                  .reduce = HVD_SUM,
                                  .slot = HVD_CACHE_NO_SLOT,
                                  .count = hvd_negotiator_world_rank(n, last),
                                  .name = req->name,
                                  .text = {.data = ""}};

    n->n_joined = 0;
    memset(n->joined, 0, hvd_positions_words(n->size) * sizeof(*n->joined));
    memset(n->n_joined_of, 0, (size_t)(1 + n->options.node->n_children) * sizeof(int));
    hvd_ready_unjoin(n->ready);
    return add_step(n, &step, NULL, err);
}

/* Plans waiting tensors until none can be planned. Planning one changes the list, so each pass
 * starts again. */
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

static hvd_status_t join(struct hvd_negotiator *n, int position, const struct hvd_request *req,
                         struct hvd_err *err)
{
    const int branch = hvd_tree_node_branch(n->options.node, position);
    hvd_status_t st = HVD_OK;
    uint32_t slot;

    if (hvd_positions_has(n->joined, position))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d joined twice",
                        hvd_negotiator_world_rank(n, position));
    /* Zeros cannot complete these tensors. After the eviction ranks request them by name, and
     * the requests fail with a reason. */
    while (st == HVD_OK && (slot = hvd_ready_not_joinable(n->ready)) != HVD_CACHE_NO_SLOT)
        st = evict(n, slot, err);
    if (st != HVD_OK)
        return st;
    hvd_positions_add(n->joined, (struct hvd_pos_range){.first = position, .n = 1});
    n->n_joined++;
    if (++n->n_joined_of[branch] == hvd_tree_node_branch_range(n->options.node, branch).n)
        hvd_ready_join(n->ready, branch);
    st = complete_waiting(n, err);
    return st == HVD_OK && n->n_joined == n->size ? end_join(n, position, req, err) : st;
}

static hvd_status_t join_all(struct hvd_negotiator *n, const struct hvd_merged_request *merged,
                             struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < merged->by.n; i++) {
        const struct hvd_pos_range range = hvd_message_ranges_at(&merged->by, i);
        for (int k = 0; k < range.n && st == HVD_OK; k++)
            st = join(n, range.first + k, &merged->request, err);
    }
    return st;
}

/* Records that the ranks in the ranges have requested the tensor. HVD_ERR_INVALID when one of
 * them had before. */
static hvd_status_t mark(const struct hvd_negotiator *n, struct hvd_waiting *w,
                         const struct hvd_merged_request *merged, struct hvd_err *err)
{
    const bool has_rows = w->rows && hvd_message_has_rows(&merged->request);
    uint32_t row = 0;

    for (uint32_t i = 0; i < merged->by.n; i++) {
        const struct hvd_pos_range range = hvd_message_ranges_at(&merged->by, i);
        if (hvd_positions_any(w->seen, range))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "rank %d or one of the %d behind it asked twice for tensor %s",
                            hvd_negotiator_world_rank(n, range.first), range.n - 1, w->name);
        hvd_positions_add(w->seen, range);
        w->n_seen += range.n;
        for (int k = 0; has_rows && k < range.n; k++)
            w->rows[n->options.tree->rank_at[range.first + k]] =
                hvd_message_request_row(merged, row++);
    }
    return HVD_OK;
}

/* Records that ranks refused the tensor. It fails on all ranks, with the text of the first
 * refusal. */
static hvd_status_t refuse(struct hvd_waiting *w, const struct hvd_merged_request *merged)
{
    char text[HVD_TEXT_MAX + 1];

    for (uint32_t i = 0; i < merged->by.n; i++)
        w->n_refused += hvd_message_ranges_at(&merged->by, i).n;
    if (w->failed_check == HVD_REFUSED)
        return HVD_OK;
    snprintf(text, sizeof(text), "%.*s", (int)merged->refusal.len, merged->refusal.data);
    return keep_text(w, HVD_REFUSED, text);
}

/* Counts a request for a tensor, and plans the tensor if that completes it. May free it. */
static hvd_status_t count(struct hvd_negotiator *n, struct hvd_waiting *w,
                          const struct hvd_merged_request *merged, struct hvd_err *err)
{
    const int first = hvd_message_ranges_at(&merged->by, 0).first;
    hvd_status_t st = hvd_tally_count(n, w, merged);

    if (st == HVD_OK) {
        st = mark(n, w, merged, err);
        if (st != HVD_OK)
            return st;
        st = merged->refusal.len > 0 ? refuse(w, merged) : compare(n, w, first, &merged->request);
    }
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a tensor of rank %d",
                        hvd_negotiator_world_rank(n, first));
    st = hvd_group_enter(n, w, &merged->request, err);
    return st == HVD_OK ? complete(n, w, err) : st;
}

/* Whether the root of a broadcast, numbered in the job, is in the set. */
static bool has_root(const struct hvd_negotiator *n, const struct hvd_request *req)
{
    for (int i = 0; i < n->size && req->op == HVD_BROADCAST; i++)
        if (n->options.ranks[i] == req->root)
            return true;
    return req->op != HVD_BROADCAST;
}

hvd_status_t hvd_negotiator_request(struct hvd_negotiator *n,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err)
{
    const int first = hvd_message_ranges_at(&merged->by, 0).first;
    hvd_status_t st = hvd_request_check(&merged->request, n->options.world_size, err);

    if (!hvd_message_ranges_within(&merged->by, n->options.node->range))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a request of ranks that do not exist");
    if (st == HVD_OK && !has_root(n, &merged->request))
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "root rank %d is not in process set %" PRIu32,
                      merged->request.root, n->options.set);
    if (st != HVD_OK)
        return HVD_WRAP(err, st, "request of rank %d", hvd_negotiator_world_rank(n, first));
    if (n->is_ending)
        return HVD_OK;
    if (merged->request.op == HVD_JOIN)
        return join_all(n, merged, err);

    const uint32_t slot = hvd_ready_find(n->ready, merged->request.name);
    if (slot != HVD_CACHE_NO_SLOT) {
        st = evict(n, slot, err);
        if (st != HVD_OK)
            return st;
    }
    struct hvd_waiting *w = get_waiting(n, merged, now_ns);
    if (!w)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor of rank %d",
                        hvd_negotiator_world_rank(n, first));
    return count(n, w, merged, err);
}

hvd_status_t hvd_negotiator_bits(struct hvd_negotiator *n, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns, struct hvd_err *err)
{
    return n->is_ending ? HVD_OK : hvd_ready_bits(n->ready, branch, bits, now_ns, err);
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

hvd_status_t hvd_negotiator_leave(struct hvd_negotiator *n, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err)
{
    const int n_left = hvd_positions_count(n->left, n->left, n->size);
    hvd_status_t st = HVD_OK;

    if (who.first < 0 || who.first + who.n > n->size)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "ranks left that do not exist");
    if (failed && !n->is_aborted)
        st = add_notice(n, HVD_STEP_ABORT, text, err);
    else if (!n->is_ending)
        st = add_notice(n, HVD_STEP_SHUTDOWN, text, err);
    if (st != HVD_OK)
        return st;
    n->is_ending = true;
    n->is_aborted = n->is_aborted || failed;
    forget_all(n);
    hvd_positions_add(n->left, who);
    if (n_left == n->size || hvd_positions_count(n->left, n->left, n->size) < n->size)
        return HVD_OK;
    return add_notice(n, HVD_STEP_DOWN, "", err);
}

bool hvd_negotiator_has_left(const struct hvd_negotiator *n, int position)
{
    return hvd_positions_has(n->left, position);
}

bool hvd_negotiator_is_aborted(const struct hvd_negotiator *n)
{
    return n->is_aborted;
}

/* Forgets partial requests for the slots in the plan, because these tensors no longer wait. */
static void forget_partials(struct hvd_negotiator *n, const struct hvd_plan_head *head)
{
    for (uint32_t i = 0; n->notes && i < head->n_words; i++)
        for (uint64_t word = head->words[i]; word != 0; word &= word - 1)
            hvd_negotiator_partial_forget(n, i * 64 + (uint32_t)__builtin_ctzll(word));
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
    forget_partials(n, &head);
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
    return n->is_ending ? 0 : hvd_names_count(&n->waiting) + hvd_ready_waiting(n->ready);
}
