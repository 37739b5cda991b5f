/*
 * Implements aggregator.h. Pure: requests, bits and plans go in, messages for the parent come out.
 *
 * A waiting tensor needs two bits for each rank of the subtree, and one more for each variant of
 * the request. An allgather needs 8 more bytes for each rank.
 */
#include "worker/core/aggregator.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/aggregator_internal.h"
#include "worker/core/group_name.h"

#define FULL ((size_t)256 * 1024) /* bytes of requests at which the aggregator is full */

/* One form of a request, and the positions that made it. */
struct variant {
    struct variant *next;
    struct hvd_request request; /* its name lies behind the refusal */
    int64_t *rows;              /* allgather: by position from the subtree's first; owned */
    struct hvd_strview refusal; /* lies behind `asked`; empty: none */
    uint64_t asked[];           /* positions from the subtree's first */
};

/* A tensor that some ranks of the subtree have requested by name. */
struct tensor {
    struct hvd_named named;   /* first, so that pointers to the two convert */
    struct variant *variants; /* in the order they came; owned */
    struct variant **last;
    int n_seen;
    int64_t since_ns;
    uint64_t *seen; /* positions from the subtree's first; in this block */
    uint64_t *sent; /* those of `seen` that the parent has; likewise */
    struct hvd_strview name;
};

hvd_status_t hvd_aggregator_create(const struct hvd_aggregator_options *options,
                                   struct hvd_aggregator **out, struct hvd_err *err)
{
    struct hvd_aggregator *r = hvd_calloc(1, sizeof(*r));
    const size_t words = hvd_positions_words(options->node->range.n);

    if (r) {
        r->options = *options;
        r->size = options->node->range.n;
        r->n_branches = 1 + options->node->n_children;
        hvd_buf_init(&r->bits, HVD_MESSAGE_MAX);
        hvd_buf_init(&r->requests, HVD_MESSAGE_MAX);
        hvd_buf_init(&r->partial, HVD_MESSAGE_MAX);
        hvd_buf_init(&r->first_leave, HVD_MESSAGE_MAX);
        hvd_buf_init(&r->last_leave, HVD_MESSAGE_MAX);
        r->joined = hvd_calloc(words, sizeof(*r->joined));
        r->left = hvd_calloc(words, sizeof(*r->left));
        r->n_joined_of = hvd_calloc((size_t)r->n_branches, sizeof(*r->n_joined_of));
    }
    if (!r || !r->joined || !r->left || !r->n_joined_of) {
        hvd_aggregator_destroy(r);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a relay");
    }
    *out = r;
    return HVD_OK;
}

static void destroy_tensor(struct tensor *t)
{
    while (t->variants) {
        struct variant *next = t->variants->next;
        hvd_free(t->variants->rows);
        hvd_free(t->variants);
        t->variants = next;
    }
    hvd_free(t);
}

static void forget(struct hvd_aggregator *r, struct tensor *t)
{
    hvd_names_remove(&r->waiting, &t->named);
    destroy_tensor(t);
}

void hvd_aggregator_destroy(struct hvd_aggregator *r)
{
    if (!r)
        return;
    while (r->waiting.first)
        forget(r, (struct tensor *)r->waiting.first);
    hvd_aggregator_bits_fini(r);
    hvd_buf_fini(&r->bits);
    hvd_buf_fini(&r->requests);
    hvd_buf_fini(&r->partial);
    hvd_buf_fini(&r->first_leave);
    hvd_buf_fini(&r->last_leave);
    hvd_free(r->ranges);
    hvd_free(r->joined);
    hvd_free(r->left);
    hvd_free(r->n_joined_of);
    hvd_free(r);
}

bool hvd_aggregator_room(struct hvd_aggregator *r, uint32_t n)
{
    if (n <= r->ranges_room)
        return true;
    const uint32_t room = n > 2 * r->ranges_room ? n : 2 * r->ranges_room;
    struct hvd_pos_range *ranges = hvd_realloc(r->ranges, room, sizeof(*ranges));
    if (!ranges)
        return false;
    r->ranges = ranges;
    r->ranges_room = room;
    return true;
}

uint32_t hvd_aggregator_age(int64_t now_ns, int64_t since_ns)
{
    const int64_t ms = (now_ns - since_ns) / 1000000;

    return ms < 0 ? 0 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* --- Tensors requested by name ---------------------------------------------------------------- */

/* Adds a tensor without requests to the map; returns NULL when out of memory. */
static struct tensor *add_tensor(struct hvd_aggregator *r, struct hvd_strview name)
{
    const size_t words = hvd_positions_words(r->size);
    const size_t head = (sizeof(struct tensor) + 7) / 8 * 8;
    struct tensor *t = hvd_calloc(1, head + 2 * words * sizeof(uint64_t) + name.len + 1);

    if (!t)
        return NULL;
    t->seen = (uint64_t *)(void *)((char *)t + head);
    t->sent = t->seen + words;
    char *copy = (char *)(t->sent + words);
    memcpy(copy, name.data, name.len);
    t->name = (struct hvd_strview){.data = copy, .len = name.len};
    t->last = &t->variants;
    if (hvd_names_add(&r->waiting, hvd_group_name_key(t->name), &t->named))
        return t;
    hvd_free(t);
    return NULL;
}

/* Whether two requests of one name can form one variant. The first dimension of an uneven
 * operation may differ: it travels as a row. */
static bool is_same(const struct hvd_request *a, const struct hvd_request *b)
{
    struct hvd_request other = *b;

    if (a->group != b->group || a->group_size != b->group_size)
        return false;
    if (hvd_op_is_uneven(a->op) && a->op == b->op && a->ndim > 0 && b->ndim > 0)
        other.shape[0] = a->shape[0];
    return hvd_request_equal(a, &other);
}

/* Compares names as well, because heads of groups of different sizes share a tensor. All
 * refusals form one variant, which carries the text of the first. */
static bool is_variant(const struct variant *v, const struct hvd_merged_request *merged)
{
    if (!hvd_strview_same(v->request.name, merged->request.name))
        return false;
    if (v->refusal.len > 0 || merged->refusal.len > 0)
        return v->refusal.len > 0 && merged->refusal.len > 0;
    return is_same(&v->request, &merged->request);
}

/* Returns the variant of a request and creates it for the first such request; NULL when out of
 * memory. */
static struct variant *get_variant(const struct hvd_aggregator *r, struct tensor *t,
                                   const struct hvd_merged_request *merged)
{
    const size_t words = hvd_positions_words(r->size);
    const struct hvd_request *req = &merged->request;
    struct variant *v = t->variants;

    while (v && !is_variant(v, merged))
        v = v->next;
    if (v)
        return v;
    v = hvd_calloc(1, sizeof(*v) + words * sizeof(uint64_t) + merged->refusal.len + req->name.len);
    if (!v)
        return NULL;
    char *text = (char *)(v->asked + words);
    v->refusal = (struct hvd_strview){.data = text, .len = merged->refusal.len};
    memcpy(text, merged->refusal.len ? merged->refusal.data : "", merged->refusal.len);
    v->request = *req;
    v->request.name.data = text + merged->refusal.len;
    memcpy(text + merged->refusal.len, req->name.data, req->name.len);
    if (hvd_message_has_rows(req)) {
        v->rows = hvd_calloc((size_t)r->size, sizeof(*v->rows));
        if (!v->rows) {
            hvd_free(v);
            return NULL;
        }
    }
    *t->last = v;
    t->last = &v->next;
    return v;
}

/* Makes a range relative to the subtree's first position. */
static struct hvd_pos_range relative(const struct hvd_aggregator *r, struct hvd_pos_range range)
{
    range.first -= r->options.node->range.first;
    return range;
}

/* Writes the positions that made this variant and that the parent lacks. */
static hvd_status_t emit_variant(struct hvd_aggregator *r, const struct tensor *t,
                                 const struct variant *v, int64_t now_ns)
{
    const int base = r->options.node->range.first;
    struct hvd_pos_range range = {0};
    uint32_t n = 0;
    hvd_status_t st = HVD_OK;

    for (int from = 0; hvd_positions_next(v->asked, t->sent, r->size, from, &range);
         from = range.first + range.n) {
        if (!hvd_aggregator_room(r, n + 1))
            return HVD_ERR_NOMEM;
        r->ranges[n++] = (struct hvd_pos_range){.first = base + range.first, .n = range.n};
    }
    if (n == 0)
        return HVD_OK;
    const struct hvd_by by = {.ranges = r->ranges,
                              .n_ranges = n,
                              .age_ms = hvd_aggregator_age(now_ns, t->since_ns),
                              .rows = v->rows,
                              .rows_first = base,
                              .refusal = v->refusal};
    if (r->requests.len == 0)
        st = hvd_message_begin(&r->requests, HVD_MESSAGE_REQUESTS, r->options.set);
    return st == HVD_OK ? hvd_message_add_request(&r->requests, &v->request, &by) : st;
}

/* Writes all that the parent lacks of one tensor. */
static hvd_status_t emit_one(struct hvd_aggregator *r, struct tensor *t, int64_t now_ns)
{
    hvd_status_t st = HVD_OK;

    for (const struct variant *v = t->variants; v && st == HVD_OK; v = v->next)
        st = emit_variant(r, t, v, now_ns);
    memcpy(t->sent, t->seen, hvd_positions_words(r->size) * sizeof(*t->sent));
    return st;
}

/* Does the same for the other tensors of the head's groups. */
static hvd_status_t emit_members(struct hvd_aggregator *r, const struct tensor *head,
                                 int64_t now_ns)
{
    char text[HVD_NAME_MAX + 1];
    struct hvd_group_name group;
    hvd_status_t st = HVD_OK;

    for (const struct variant *v = head->variants; v; v = v->next) {
        if (!hvd_group_name_parse(v->request.name, &group))
            continue;
        for (uint32_t i = 2; i <= group.n && st == HVD_OK; i++) {
            const struct hvd_strview name =
                hvd_group_name_of(&group, i, group.n, text, sizeof(text));
            struct tensor *t = (struct tensor *)hvd_names_find(&r->waiting, name);
            if (!t)
                break;
            st = emit_one(r, t, now_ns);
        }
    }
    return st;
}

/* Whether all positions of the subtree made the same request. Then no other tensor of the head's
 * groups waits here, because a rank requests the head last. */
static bool is_uniform(const struct hvd_aggregator *r, const struct tensor *t)
{
    return t->n_seen == r->size && t->variants && !t->variants->next;
}

/* Writes all that the parent lacks. The head comes last, after the other tensors of its groups. */
static hvd_status_t emit(struct hvd_aggregator *r, struct tensor *t, int64_t now_ns)
{
    hvd_status_t st = HVD_OK;

    if (!is_uniform(r, t) && hvd_group_name_is_head(t->name))
        st = emit_members(r, t, now_ns);
    return st == HVD_OK ? emit_one(r, t, now_ns) : st;
}

/* Passes the tensor on once the whole subtree has requested it. May free it. */
static hvd_status_t complete(struct hvd_aggregator *r, struct tensor *t, int64_t now_ns)
{
    if (t->n_seen < r->size &&
        (r->n_joined == 0 || hvd_positions_count(t->seen, r->joined, r->size) < r->size))
        return HVD_OK;
    hvd_status_t st = emit(r, t, now_ns);
    forget(r, t);
    return st;
}

/* Records the positions of a request. HVD_ERR_INVALID when one of them had requested the tensor
 * before. */
static hvd_status_t mark(struct hvd_aggregator *r, struct tensor *t,
                         const struct hvd_merged_request *merged, struct hvd_err *err)
{
    struct variant *v = get_variant(r, t, merged);
    uint32_t row = 0;

    if (!v)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    for (uint32_t i = 0; i < merged->by.n; i++) {
        const struct hvd_pos_range range = relative(r, hvd_message_ranges_at(&merged->by, i));
        if (hvd_positions_any(t->seen, range))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "tensor %.*s was asked for twice",
                            (int)t->name.len, t->name.data);
        hvd_positions_add(t->seen, range);
        hvd_positions_add(v->asked, range);
        t->n_seen += range.n;
        for (int k = 0; v->rows && k < range.n; k++)
            v->rows[range.first + k] = hvd_message_request_row(merged, row++);
    }
    return HVD_OK;
}

static hvd_status_t complete_all(struct hvd_aggregator *r, int64_t now_ns)
{
    hvd_status_t st = HVD_OK;

    for (struct hvd_named *item = r->waiting.first; item && st == HVD_OK;) {
        struct hvd_named *next = hvd_names_next(item);
        st = complete(r, (struct tensor *)item, now_ns);
        item = next;
    }
    return st;
}

/* Records that ranks have joined: they contribute zeros to tensors that they do not request.
 * Writes the tensors that this completes before the JOIN itself. */
static hvd_status_t join(struct hvd_aggregator *r, const struct hvd_merged_request *merged,
                         int64_t now_ns, struct hvd_err *err)
{
    struct hvd_pos_range ranges[1];
    const struct hvd_by by = {.ranges = ranges, .n_ranges = 1};
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < merged->by.n && st == HVD_OK; i++) {
        ranges[0] = hvd_message_ranges_at(&merged->by, i);
        if (hvd_positions_any(r->joined, relative(r, ranges[0])))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a rank joined twice");
        hvd_positions_add(r->joined, relative(r, ranges[0]));
        r->n_joined += ranges[0].n;
        for (int k = 0; k < ranges[0].n; k++)
            r->n_joined_of[hvd_tree_node_branch(r->options.node, ranges[0].first + k)]++;
        hvd_aggregator_bits_complete(r);
        st = complete_all(r, now_ns);
        if (st == HVD_OK && r->requests.len == 0)
            st = hvd_message_begin(&r->requests, HVD_MESSAGE_REQUESTS, r->options.set);
        if (st == HVD_OK)
            st = hvd_message_add_request(&r->requests, &merged->request, &by);
    }
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "a join: %s", hvd_status_str(st));
}

hvd_status_t hvd_aggregator_request(struct hvd_aggregator *r,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err)
{
    hvd_status_t st = hvd_request_check(&merged->request, r->options.world_size, err);

    if (st != HVD_OK)
        return st;
    if (!hvd_message_ranges_within(&merged->by, r->options.node->range))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a request of ranks that are elsewhere");
    if (r->is_ending)
        return HVD_OK;
    if (merged->request.op == HVD_JOIN)
        return join(r, merged, now_ns, err);
    const struct hvd_strview key = hvd_group_name_key(merged->request.name);
    struct tensor *t = (struct tensor *)hvd_names_find(&r->waiting, key);
    const bool is_first = !t;
    if (!t)
        t = add_tensor(r, merged->request.name);
    if (!t)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    if (is_first)
        t->since_ns = now_ns - (int64_t)merged->age_ms * 1000000;
    st = mark(r, t, merged, err);
    if (st != HVD_OK)
        return st;
    if (is_first && hvd_names_find(&r->cached, key))
        st = emit(r, t, now_ns);
    if (st == HVD_OK)
        st = complete(r, t, now_ns);
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "requests: %s", hvd_status_str(st));
}

size_t hvd_aggregator_waiting(const struct hvd_aggregator *r)
{
    return hvd_names_count(&r->waiting);
}

/* --- Leaving ---------------------------------------------------------------------------------- */

static hvd_status_t write_leave(const struct hvd_aggregator *r, struct hvd_buf *buf,
                                struct hvd_pos_range who, bool failed, const char *text)
{
    hvd_status_t st = hvd_message_begin(buf, HVD_MESSAGE_LEAVE, r->options.set);

    const enum hvd_leave_why why = failed ? HVD_LEAVE_FAILED : HVD_LEAVE_CALLED;

    return st == HVD_OK ? hvd_message_add_leave(buf, who, why, text) : st;
}

hvd_status_t hvd_aggregator_leave(struct hvd_aggregator *r, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err)
{
    const struct hvd_pos_range all = r->options.node->range;
    const bool was_all = hvd_positions_count(r->left, r->left, r->size) == r->size;
    hvd_status_t st = HVD_OK;

    if (who.first < all.first || who.first + who.n > all.first + all.n)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "ranks left that are elsewhere");
    if (!r->has_left) {
        r->has_left = true;
        st = write_leave(r, &r->first_leave, who, failed, text);
    }
    hvd_positions_add(r->left, relative(r, who));
    if (st == HVD_OK && !was_all && hvd_positions_count(r->left, r->left, r->size) == r->size)
        st = write_leave(r, &r->last_leave, all, false, text);
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "leaving: %s", hvd_status_str(st));
}

bool hvd_aggregator_has_left(const struct hvd_aggregator *r, int position)
{
    return hvd_positions_has(r->left, position - r->options.node->range.first);
}

/* --- Plans ------------------------------------------------------------------------------------ */

static void unjoin(struct hvd_aggregator *r)
{
    memset(r->joined, 0, hvd_positions_words(r->size) * sizeof(*r->joined));
    memset(r->n_joined_of, 0, (size_t)r->n_branches * sizeof(*r->n_joined_of));
    r->n_joined = 0;
}

/* Ends all requests: drops the waiting ones and ignores later ones. */
static void end(struct hvd_aggregator *r)
{
    r->is_ending = true;
    while (r->waiting.first)
        forget(r, (struct tensor *)r->waiting.first);
    hvd_buf_reset(&r->requests);
    r->n_due = 0;
}

/* Drops a tensor that has failed. Part of the subtree may not have requested it yet. */
static void drop(struct hvd_aggregator *r, struct hvd_strview name)
{
    struct tensor *t = (struct tensor *)hvd_names_find(&r->waiting, hvd_group_name_key(name));

    if (t)
        forget(r, t);
}

static hvd_status_t follow(struct hvd_aggregator *r, const struct hvd_step *step)
{
    if (step->kind == HVD_STEP_EVICT)
        hvd_aggregator_uncache(r, step->slot);
    else if (step->kind == HVD_STEP_DROP)
        drop(r, step->name);
    else if (step->kind == HVD_JOIN)
        unjoin(r);
    else if (step->kind == HVD_STEP_SHUTDOWN || step->kind == HVD_STEP_ABORT)
        end(r);
    else if (step->slot != HVD_CACHE_NO_SLOT)
        return hvd_aggregator_cache(r, step);
    return HVD_OK;
}

hvd_status_t hvd_aggregator_plan(struct hvd_aggregator *r, struct hvd_reader plan,
                                 struct hvd_err *err)
{
    struct hvd_step step;
    hvd_status_t st = HVD_OK;

    if (plan.epoch != 0) /* the coordinator's final message has epoch 0 */
        r->epoch = plan.epoch;
    hvd_aggregator_take(r, &plan);
    while (plan.left > 0) {
        st = hvd_message_read_step(&plan, &step, err);
        if (st != HVD_OK)
            return st;
        st = follow(r, &step);
        if (st != HVD_OK)
            return HVD_FAIL(err, st, 0, "out of memory for a cached tensor");
    }
    return HVD_OK;
}

/* --- For the parent --------------------------------------------------------------------------- */

hvd_status_t hvd_aggregator_stalled(struct hvd_aggregator *r, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_err *err)
{
    const int64_t before_ns = now_ns - limit_ns;
    hvd_status_t st = r->is_ending ? HVD_OK : hvd_aggregator_write_partial(r, now_ns, before_ns);

    for (struct hvd_named *item = r->waiting.first; item && st == HVD_OK;
         item = hvd_names_next(item)) {
        struct tensor *t = (struct tensor *)item;
        if (t->since_ns <= before_ns)
            st = emit(r, t, now_ns);
    }
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "stalled tensors: %s", hvd_status_str(st));
}

hvd_status_t hvd_aggregator_next(struct hvd_aggregator *r, const struct hvd_buf **message,
                                 struct hvd_err *err)
{
    struct hvd_buf *const order[] = {&r->bits, &r->requests, &r->partial, &r->first_leave,
                                     &r->last_leave};
    const size_t n = sizeof(order) / sizeof(order[0]);

    *message = NULL;
    if (r->n_given == 0 && r->n_due == 0 &&
        (r->requests.len | r->partial.len | r->first_leave.len | r->last_leave.len) == 0)
        return HVD_OK; /* the usual case */
    if (r->n_given == 0 && r->n_due > 0) {
        hvd_status_t st = hvd_aggregator_write_bits(r);
        if (st != HVD_OK)
            return HVD_FAIL(err, st, 0, "bits: %s", hvd_status_str(st));
    }
    if (r->n_given > 0)
        hvd_buf_reset(order[r->n_given - 1]);
    for (size_t i = r->n_given; i < n; i++) {
        if (order[i]->len == 0)
            continue;
        *message = order[i];
        r->n_given = i + 1;
        return HVD_OK;
    }
    r->n_given = 0;
    return HVD_OK;
}

bool hvd_aggregator_is_full(const struct hvd_aggregator *r)
{
    return r->requests.len >= FULL;
}
