/*
 * Reports of stalls: tensors that some ranks requested long ago and others have not. Pure: the time
 * goes in, text comes out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/core/negotiator_internal.h"

#define NAMES_PER_RANK_MAX 6
#define RANKS_REPORTED_MAX 32

/* Returns this tensor, or the first one after it that some rank waits for. Ranks that refused a
 * tensor do not wait for it. */
static struct hvd_waiting *waited_for(struct hvd_named *item)
{
    struct hvd_waiting *w = (struct hvd_waiting *)item;

    while (w && w->n_seen == w->n_refused)
        w = (struct hvd_waiting *)hvd_names_next(&w->named);
    return w;
}

static struct hvd_waiting *first_waiting(const struct hvd_negotiator *n)
{
    return waited_for(n->waiting.first);
}

static struct hvd_waiting *next_waiting(const struct hvd_waiting *w)
{
    return waited_for(hvd_names_next(&w->named));
}

/* A tensor that ranks wait for, requested by name or cached. */
struct want {
    const struct hvd_waiting *named; /* NULL: it is the slot */
    uint32_t slot;
};

/* Whether the rank at a position has requested the head of the tensor's group. A rank requests
 * the head last, so it has then requested all that it has of the group. */
static bool has_named_head(const struct hvd_negotiator *n, const struct hvd_waiting *w,
                           int position)
{
    char text[HVD_NAME_MAX + 1];
    struct hvd_group_name group;

    if (!hvd_group_name_parse(w->first.name, &group) || group.i == 1)
        return false;
    const struct hvd_strview name = hvd_group_name_of(&group, 1, 1, text, sizeof(text));
    const struct hvd_waiting *head =
        (const struct hvd_waiting *)hvd_names_find(&n->waiting, hvd_group_name_key(name));
    return head && hvd_positions_has(head->seen, position);
}

/* Whether the rank at a position has neither requested the tensor by name nor joined. */
static bool has_not_named(const struct hvd_negotiator *n, const struct hvd_waiting *w, int position)
{
    return !hvd_positions_has(w->seen, position) && !hvd_positions_has(n->joined, position) &&
           !has_named_head(n, w, position);
}

static struct hvd_partial_note *find_note(const struct hvd_negotiator *n, uint32_t slot)
{
    struct hvd_partial_note *note = n->notes;

    while (note && note->slot != slot)
        note = note->next;
    return note;
}

/* Does the same for a cached tensor, which ranks request by bit. */
static bool has_not_marked(const struct hvd_negotiator *n, uint32_t slot, int position)
{
    const struct hvd_partial_note *note = find_note(n, slot);

    return hvd_ready_is_missing(n->ready, slot, hvd_tree_node_branch(n->options.node, position)) &&
           !hvd_positions_has(n->joined, position) &&
           !(note && hvd_positions_has(note->seen, position));
}

static bool has_not_asked(const struct hvd_negotiator *n, struct want want, int position)
{
    return want.named ? has_not_named(n, want.named, position)
                      : has_not_marked(n, want.slot, position);
}

static bool is_silent(const struct hvd_negotiator *n, int position)
{
    for (int i = 0; i < n->n_silent; i++)
        if (n->silent[i] == position)
            return true;
    return false;
}

/* Whether a report shall name a rank. It does if the rank's request is missing, unless a silent
 * rank above would hold that request back. It also does if the rank is silent and holds back
 * missing requests of its subtree. */
static bool is_missing(const struct hvd_negotiator *n, struct want want, int rank)
{
    const struct hvd_tree *tree = n->options.tree;
    const int position = tree->position_of[rank];
    bool is_blamed = has_not_asked(n, want, position);

    if (n->n_silent == 0)
        return is_blamed;
    for (int above = tree->parent_of[position]; above > 0; above = tree->parent_of[above])
        if (is_silent(n, above))
            return false;
    for (int i = 1; !is_blamed && is_silent(n, position) && i < tree->n_below[position]; i++)
        is_blamed = has_not_asked(n, want, position + i);
    return is_blamed;
}

void hvd_negotiator_silent(struct hvd_negotiator *n, const int *positions, int n_positions)
{
    n->n_silent = 0;
    for (int i = 0; i < n_positions; i++)
        if (positions[i] > 0 && positions[i] < n->size)
            n->silent[n->n_silent++] = positions[i];
}

const char *hvd_negotiator_oldest(const struct hvd_negotiator *n, int64_t *since_ns)
{
    struct hvd_ready_stall stall = {0};
    const char *name = NULL;

    if (n->is_ending) /* no tensor waits, whatever bits are left */
        return NULL;
    for (const struct hvd_waiting *w = first_waiting(n); w; w = next_waiting(w)) {
        if (name && w->since_ns >= *since_ns)
            continue;
        name = w->name;
        *since_ns = w->since_ns;
    }
    for (uint32_t from = 0; hvd_ready_next_stall(n->ready, from, &stall); from = stall.slot + 1) {
        if (name && stall.since_ns >= *since_ns)
            continue;
        name = stall.name;
        *since_ns = stall.since_ns;
    }
    return name;
}

void hvd_negotiator_partial_forget(struct hvd_negotiator *n, uint32_t slot)
{
    for (struct hvd_partial_note **at = &n->notes; *at;) {
        struct hvd_partial_note *note = *at;
        if (slot != HVD_CACHE_NO_SLOT && note->slot != slot) {
            at = &note->next;
            continue;
        }
        *at = note->next;
        hvd_free(note);
    }
}

/* Keeps the ranks that have requested a slot, until the tensor is planned or evicted. */
static hvd_status_t keep_note(struct hvd_negotiator *n, const struct hvd_partial *partial)
{
    const size_t words = hvd_positions_words(n->size);
    struct hvd_partial_note *note = find_note(n, partial->slot);

    if (!note) {
        note = hvd_calloc(1, sizeof(*note) + words * sizeof(uint64_t));
        if (!note)
            return HVD_ERR_NOMEM;
        note->slot = partial->slot;
        note->next = n->notes;
        n->notes = note;
    }
    for (uint32_t i = 0; i < partial->by.n; i++)
        hvd_positions_add(note->seen, hvd_message_ranges_at(&partial->by, i));
    return HVD_OK;
}

hvd_status_t hvd_negotiator_partial(struct hvd_negotiator *n, int branch,
                                    struct hvd_reader *partial, int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_pos_range range = hvd_tree_node_branch_range(n->options.node, branch);
    struct hvd_partial item;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && partial->left > 0) {
        st = hvd_message_read_partial(partial, &item, err);
        if (st != HVD_OK)
            return st;
        if (!hvd_message_ranges_within(&item.by, range))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "bits of ranks that are elsewhere");
        if (!n->is_ending && hvd_ready_begin(n->ready, item.slot, partial->epoch,
                                             now_ns - (int64_t)item.age_ms * 1000000))
            st = keep_note(n, &item);
    }
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "out of memory for who has asked for a tensor");
}

/* Returns the length of the text without the number at its end. */
static size_t without_number(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] >= '0' && text[len - 1] <= '9')
        len--;
    return len;
}

/* Returns the length of NAME in "NAME_2of3"; 0 when the tensor is in no group that a binding
 * named. */
static size_t group_name_length(const char *name)
{
    const size_t len = strlen(name);
    const size_t of = without_number(name, len);
    if (of == len || of < 2 || strncmp(name + of - 2, "of", 2) != 0)
        return 0;
    const size_t end = without_number(name, of - 2);
    return end == of - 2 || end == 0 || name[end - 1] != '_' ? 0 : end - 1;
}

const char *hvd_negotiator_empty_group(const struct hvd_negotiator *n, const char *name)
{
    char only[HVD_NAME_MAX + sizeof("_1of1")];
    const size_t len = group_name_length(name);

    if (len == 0 || len > HVD_NAME_MAX)
        return NULL;
    snprintf(only, sizeof(only), "%.*s_1of1", (int)len, name);
    const struct hvd_waiting *w = (const struct hvd_waiting *)hvd_names_find(
        &n->waiting, hvd_group_name_key(hvd_strview_of(only)));
    return w && w->n_refused > 0 ? w->text : NULL;
}

static hvd_status_t report_name(const struct hvd_negotiator *n, struct hvd_buf *report, int rank,
                                int number, const char *name)
{
    const struct hvd_negotiator_options *o = &n->options;
    const char *host = number == 1 && o->host ? o->host(o->host_ctx, rank) : NULL;

    if (number == 1)
        return hvd_buf_printf(report, "\n%d%s%.64s: [%s", rank, host ? " on host " : "",
                              host ? host : "", name);
    return number <= NAMES_PER_RANK_MAX ? hvd_buf_printf(report, ", %s", name) : HVD_OK;
}

/* Appends "\nrank on host h: [a, b, ...]" when the rank is missing from newly stalled tensors.
 * If a rank refused a group of one of them, the reason follows. */
static hvd_status_t report_rank(const struct hvd_negotiator *n, int rank, int64_t before_ns,
                                struct hvd_buf *report)
{
    struct hvd_ready_stall stall = {0};
    hvd_status_t st = HVD_OK;
    const char *why = NULL;
    int n_names = 0;

    for (const struct hvd_waiting *w = first_waiting(n); w && st == HVD_OK; w = next_waiting(w)) {
        if (w->is_reported || w->since_ns > before_ns ||
            !is_missing(n, (struct want){.named = w}, rank))
            continue;
        st = report_name(n, report, n->options.ranks[rank], ++n_names, w->name);
        why = why ? why : hvd_negotiator_empty_group(n, w->name);
    }
    for (uint32_t from = 0; st == HVD_OK && hvd_ready_next_stall(n->ready, from, &stall);
         from = stall.slot + 1) {
        if (*stall.is_reported || stall.since_ns > before_ns ||
            !is_missing(n, (struct want){.slot = stall.slot}, rank))
            continue;
        st = report_name(n, report, n->options.ranks[rank], ++n_names, stall.name);
        why = why ? why : hvd_negotiator_empty_group(n, stall.name);
    }
    if (st == HVD_OK && n_names > 0)
        st = hvd_buf_puts(report, n_names > NAMES_PER_RANK_MAX ? " ...]" : "]");
    return st == HVD_OK && why ? hvd_buf_printf(report, ": %.500s", why) : st;
}

static hvd_status_t write_report(const struct hvd_negotiator *n, int64_t before_ns,
                                 int64_t limit_ns, struct hvd_buf *report)
{
    hvd_status_t st = hvd_buf_printf(
        report,
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of "
        "ranks and are waiting for remainder of ranks for more than %" PRId64
        " seconds. This may indicate that different ranks are trying to submit different tensors "
        "or that only subset of ranks is submitting tensors, which will cause deadlock. \nMissing "
        "ranks:",
        limit_ns / 1000000000);
    int n_ranks = 0;

    for (int rank = 0; rank < n->size && st == HVD_OK && n_ranks < RANKS_REPORTED_MAX; rank++) {
        size_t len = report->len;
        st = report_rank(n, rank, before_ns, report);
        n_ranks += report->len > len;
    }
    return st;
}

/* Whether an unreported tensor has stalled. With `mark`, also marks such tensors as reported. */
static bool any_stalled(const struct hvd_negotiator *n, int64_t before_ns, bool mark)
{
    struct hvd_ready_stall stall = {0};
    bool any = false;

    for (struct hvd_waiting *w = first_waiting(n); w; w = next_waiting(w)) {
        const bool is_new = !w->is_reported && w->since_ns <= before_ns;
        any = any || is_new;
        w->is_reported = w->is_reported || (is_new && mark);
    }
    for (uint32_t from = 0; hvd_ready_next_stall(n->ready, from, &stall); from = stall.slot + 1) {
        const bool is_new = !*stall.is_reported && stall.since_ns <= before_ns;
        any = any || is_new;
        *stall.is_reported = *stall.is_reported || (is_new && mark);
    }
    return any;
}

hvd_status_t hvd_negotiator_stalled(struct hvd_negotiator *n, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_buf *report)
{
    const int64_t before_ns = now_ns - limit_ns;

    if (n->is_ending || !any_stalled(n, before_ns, false))
        return HVD_OK;
    hvd_status_t st = write_report(n, before_ns, limit_ns, report);
    (void)any_stalled(n, before_ns, true);
    return st;
}

/* Returns how many ranks a tensor lacks, and writes the first of them into `missing`. */
static int find_missing(const struct hvd_negotiator *n, struct want want, int *missing, int room)
{
    int found = 0;

    for (int rank = 0; rank < n->size; rank++) {
        if (!is_missing(n, want, rank))
            continue;
        if (found < room)
            missing[found] = n->options.ranks[rank];
        found++;
    }
    return found;
}

/* Returns the tensor of its group that a complete tensor waits for; else the tensor itself. */
static const struct hvd_waiting *find_awaited(const struct hvd_negotiator *n,
                                              const struct hvd_waiting *w)
{
    const struct hvd_waiting *other = w->is_complete && w->cluster ? w->cluster->first : NULL;

    while (other && find_missing(n, (struct want){.named = other}, NULL, 0) == 0)
        other = other->next;
    return other ? other : w;
}

/* Returns the name of the tensor that has waited longest, if it has waited since before_ns at
 * least; NULL: none. */
static const char *find_overdue(const struct hvd_negotiator *n, int64_t before_ns,
                                struct want *want)
{
    const struct hvd_waiting *oldest = NULL;
    struct hvd_ready_stall stall = {0};
    struct hvd_ready_stall oldest_slot = {.since_ns = before_ns};

    if (n->is_ending)
        return NULL;
    for (const struct hvd_waiting *w = first_waiting(n); w; w = next_waiting(w))
        if (w->since_ns <= before_ns && (!oldest || w->since_ns < oldest->since_ns))
            oldest = w;
    for (uint32_t from = 0; hvd_ready_next_stall(n->ready, from, &stall); from = stall.slot + 1)
        if (stall.since_ns <= oldest_slot.since_ns)
            oldest_slot = stall;
    if (!oldest && !oldest_slot.name)
        return NULL;
    const bool is_slot = !oldest || (oldest_slot.name && oldest_slot.since_ns < oldest->since_ns);
    if (!is_slot)
        oldest = find_awaited(n, oldest);
    *want = (struct want){.named = is_slot ? NULL : oldest, .slot = oldest_slot.slot};
    return is_slot ? oldest_slot.name : oldest->name;
}

const char *hvd_negotiator_overdue(const struct hvd_negotiator *n, int64_t before_ns, int *missing,
                                   int *n_missing)
{
    struct want want = {0};
    const char *name = find_overdue(n, before_ns, &want);

    if (name)
        *n_missing = find_missing(n, want, missing, *n_missing);
    return name;
}

bool hvd_negotiator_awaits(const struct hvd_negotiator *n, int64_t before_ns, const int *positions,
                           int n_positions)
{
    struct want want = {0};

    if (!find_overdue(n, before_ns, &want))
        return false;
    for (int i = 0; i < n_positions; i++)
        if (has_not_asked(n, want, positions[i]))
            return true;
    return false;
}
