/*
 * The aggregator's cached tensors: the slots, and which branch has requested which of them by bit.
 * Pure.
 *
 * Bits are processed in words: the AND of the branches' words holds the tensors that all branches
 * have requested.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/core/aggregator_internal.h"
#include "worker/core/group_name.h"
#include "worker/core/mismatch.h"

static uint64_t bit_of(uint32_t slot)
{
    return (uint64_t)1 << (slot % 64);
}

/* Returns the page of a slot; NULL when none of its slots was ever assigned. */
static struct hvd_aggregator_page *page_of(const struct hvd_aggregator *r, uint32_t slot)
{
    return slot / 64 < r->n_pages ? r->pages[slot / 64] : NULL;
}

/* --- Slots ------------------------------------------------------------------------------------ */

/* Returns the page of a slot and creates it if necessary; NULL when out of memory. */
static struct hvd_aggregator_page *make_page(struct hvd_aggregator *r, uint32_t slot)
{
    const uint32_t n = slot / 64 + 1;

    if (n > r->n_pages) {
        struct hvd_aggregator_page **pages =
            hvd_realloc(r->pages, n, sizeof(struct hvd_aggregator_page *));
        if (!pages)
            return NULL;
        for (uint32_t i = r->n_pages; i < n; i++)
            pages[i] = NULL;
        r->pages = pages;
        r->n_pages = n;
    }
    if (!r->pages[slot / 64])
        r->pages[slot / 64] = hvd_calloc(1, sizeof(struct hvd_aggregator_page) +
                                                (size_t)r->n_branches * sizeof(uint64_t));
    return r->pages[slot / 64];
}

void hvd_aggregator_uncache(struct hvd_aggregator *r, uint32_t slot)
{
    struct hvd_aggregator_page *page = page_of(r, slot);

    if (!page || !page->slots[slot % 64])
        return;
    hvd_names_remove(&r->cached, &page->slots[slot % 64]->named);
    hvd_free(page->slots[slot % 64]);
    page->slots[slot % 64] = NULL;
    page->live &= ~bit_of(slot);
    page->joinable &= ~bit_of(slot);
    page->sent &= ~bit_of(slot);
    page->due &= ~bit_of(slot);
    page->n_reported[slot % 64] = 0;
    page->since[slot % 64] = r->epoch;
    r->changed = r->epoch;
    for (int branch = 0; branch < r->n_branches; branch++)
        page->seen[branch] &= ~bit_of(slot);
}

hvd_status_t hvd_aggregator_cache(struct hvd_aggregator *r, const struct hvd_step *step)
{
    char text[8];
    const uint32_t slot = step->slot;
    const struct hvd_request req = {
        .op = (enum hvd_op)step->kind, .reduce = step->reduce, .ndim = 1};

    hvd_aggregator_uncache(r, slot);
    struct hvd_aggregator_page *page = make_page(r, slot);
    if (!page)
        return HVD_ERR_NOMEM;
    struct hvd_aggregator_slot *s = hvd_calloc(1, sizeof(*s) + step->name.len + 1);
    if (!s)
        return HVD_ERR_NOMEM;
    s->index = slot;
    memcpy(s->name, step->name.data, step->name.len);
    const struct hvd_strview name = {.data = s->name, .len = step->name.len};
    if (!hvd_names_add(&r->cached, hvd_group_name_key(name), &s->named)) {
        hvd_free(s);
        return HVD_ERR_NOMEM;
    }
    page->slots[slot % 64] = s;
    page->live |= bit_of(slot);
    if (hvd_mismatch_unsupported(&req, true, text, sizeof(text)) == 0)
        page->joinable |= bit_of(slot);
    page->since[slot % 64] = r->epoch;
    r->changed = r->epoch;
    return HVD_OK;
}

void hvd_aggregator_bits_fini(struct hvd_aggregator *r)
{
    for (uint32_t page = 0; page < r->n_pages; page++) {
        for (uint32_t i = 0; r->pages[page] && i < 64; i++)
            hvd_aggregator_uncache(r, page * 64 + i);
        hvd_free(r->pages[page]);
    }
    hvd_free(r->pages);
}

/* --- Bits ------------------------------------------------------------------------------------- */

/* Makes slots of a page due, among those given, once each branch has requested them or has
 * joined. */
static void complete(struct hvd_aggregator *r, uint32_t index, uint64_t among)
{
    struct hvd_aggregator_page *page = r->pages[index];
    uint64_t *seen = page->seen;

    for (int branch = 0; branch < r->n_branches && among != 0; branch++) {
        const bool has_joined =
            r->n_joined_of[branch] == hvd_tree_node_branch_range(r->options.node, branch).n;
        among &= seen[branch] | (has_joined ? page->joinable : 0);
    }
    if (among == 0)
        return;
    for (int branch = 0; branch < r->n_branches; branch++)
        seen[branch] &= ~among;
    page->sent |= among;
    page->due |= among;
    for (uint64_t bits = among; bits != 0; bits &= bits - 1)
        page->n_reported[__builtin_ctzll(bits)] = 0;
    if (index >= r->n_due)
        r->n_due = index + 1;
}

/* Returns the slots of a page that some, but not all, branches have requested. */
static uint64_t any_seen(const struct hvd_aggregator *r, const struct hvd_aggregator_page *page)
{
    uint64_t any = 0;

    for (int branch = 0; page && branch < r->n_branches; branch++)
        any |= page->seen[branch];
    return any;
}

void hvd_aggregator_bits_complete(struct hvd_aggregator *r)
{
    for (uint32_t page = 0; page < r->n_pages; page++)
        if (r->pages[page])
            complete(r, page, any_seen(r, r->pages[page]));
}

/* Keeps the bits whose slots have not changed their meaning since the sender's epoch. */
static uint64_t current(const struct hvd_aggregator_page *page, uint64_t bits, uint64_t epoch)
{
    uint64_t kept = bits & page->live;

    for (uint64_t left = kept; left != 0; left &= left - 1)
        if (epoch < page->since[__builtin_ctzll(left)])
            kept &= ~(left & -left);
    return kept;
}

/* Records the bits that a branch requested in a page. Returns false when it had requested one
 * before. */
static bool mark(struct hvd_aggregator *r, int branch, uint32_t index, uint64_t bits,
                 int64_t now_ns)
{
    struct hvd_aggregator_page *page = r->pages[index];
    uint64_t *seen = &page->seen[branch];

    if (bits & (*seen | page->sent))
        return false;
    for (uint64_t first = bits & ~any_seen(r, page); first != 0; first &= first - 1)
        page->begun_ns[__builtin_ctzll(first)] = now_ns;
    *seen |= bits;
    complete(r, index, bits);
    return true;
}

hvd_status_t hvd_aggregator_bits(struct hvd_aggregator *r, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns, struct hvd_err *err)
{
    for (uint32_t i = 0; i < bits->n_words && !r->is_ending; i++) {
        uint64_t word = hvd_message_word(bits, i);
        if (word == 0)
            continue;
        const struct hvd_aggregator_page *page = page_of(r, i * 64);
        if (!page)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "slot %u was asked for, which was never given",
                            i * 64);
        word = bits->epoch < r->changed ? current(page, word, bits->epoch) : word & page->live;
        if (!mark(r, branch, i, word, now_ns))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a cached tensor was asked for twice");
    }
    return HVD_OK;
}

void hvd_aggregator_take(struct hvd_aggregator *r, const struct hvd_reader *plan)
{
    for (uint32_t i = 0; i < plan->n_words && i < r->n_pages; i++)
        if (r->pages[i])
            r->pages[i]->sent &= ~hvd_message_word(plan, i);
}

hvd_status_t hvd_aggregator_write_bits(struct hvd_aggregator *r)
{
    uint64_t any = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_due; i++) {
        const uint64_t due = r->pages[i] ? r->pages[i]->due : 0;
        any |= due;
        if (due != 0)
            n = i + 1;
    }
    r->n_due = 0;
    if (any == 0)
        return HVD_OK;
    hvd_status_t st = hvd_message_bits(&r->bits, r->options.set, r->epoch, NULL, n);
    for (uint32_t i = 0; st == HVD_OK && i < n; i++) {
        st = hvd_message_add_word(&r->bits, r->pages[i] ? r->pages[i]->due : 0);
        if (r->pages[i])
            r->pages[i]->due = 0;
    }
    return st;
}

/* --- Stalls ----------------------------------------------------------------------------------- */

/* Writes the branches that have requested a slot as ranges, and returns the number of branches. */
static int ranges_of(struct hvd_aggregator *r, uint32_t slot, uint32_t *n_ranges)
{
    int n = 0;

    *n_ranges = 0;
    for (int branch = 0; branch < r->n_branches; branch++) {
        const struct hvd_pos_range range = hvd_tree_node_branch_range(r->options.node, branch);
        struct hvd_pos_range *last = *n_ranges > 0 ? &r->ranges[*n_ranges - 1] : NULL;
        if (!(page_of(r, slot)->seen[branch] & bit_of(slot)))
            continue;
        n++;
        if (last && last->first + last->n == range.first)
            last->n += range.n;
        else
            r->ranges[(*n_ranges)++] = range;
    }
    return n;
}

static hvd_status_t tell(struct hvd_aggregator *r, uint32_t slot, int64_t now_ns)
{
    struct hvd_aggregator_page *page = page_of(r, slot);
    uint32_t n_ranges = 0;
    hvd_status_t st = HVD_OK;
    const int n = ranges_of(r, slot, &n_ranges);

    if (n == page->n_reported[slot % 64])
        return HVD_OK;
    page->n_reported[slot % 64] = n;
    if (r->partial.len == 0)
        st = hvd_message_begin_partial(&r->partial, r->options.set, r->epoch);
    const struct hvd_by by = {.ranges = r->ranges,
                              .n_ranges = n_ranges,
                              .age_ms = hvd_aggregator_age(now_ns, page->begun_ns[slot % 64])};
    return st == HVD_OK ? hvd_message_add_partial(&r->partial, slot, &by) : st;
}

hvd_status_t hvd_aggregator_write_partial(struct hvd_aggregator *r, int64_t now_ns,
                                          int64_t before_ns)
{
    hvd_status_t st = HVD_OK;

    if (!hvd_aggregator_room(r, (uint32_t)r->n_branches))
        return HVD_ERR_NOMEM;
    for (uint32_t page = 0; page < r->n_pages; page++)
        for (uint64_t bits = any_seen(r, r->pages[page]); bits != 0 && st == HVD_OK;
             bits &= bits - 1) {
            const uint32_t slot = page * 64 + (uint32_t)__builtin_ctzll(bits);
            if (r->pages[page]->begun_ns[slot % 64] <= before_ns)
                st = tell(r, slot, now_ns);
        }
    return st;
}
