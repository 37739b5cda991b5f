/*
 * Handles groups of one name that have different numbers of tensors on different ranks, or that
 * some rank refuses. Pure.
 *
 * The heads of these groups are one tensor (group_name.h). Every rank requests it with its own
 * number in the name, or refuses it for the whole group. After all ranks have done so, all
 * requested tensors of these groups fail. No request for them is still under way then, because
 * ranks request a head last and aggregators pass it on last.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "worker/core/group_name.h"
#include "worker/core/negotiator_internal.h"

#define RANGES_MAX 8 /* ranges of ranks that the message contains for each number of tensors */

static struct hvd_tally *add_tally(const struct hvd_negotiator *n, struct hvd_waiting *w,
                                   uint32_t n_tensors)
{
    struct hvd_tally **end = &w->tallies;
    struct hvd_tally *t =
        hvd_calloc(1, sizeof(*t) + hvd_positions_words(n->size) * sizeof(*t->asked));

    if (!t)
        return NULL;
    t->n_tensors = n_tensors;
    while (*end)
        end = &(*end)->next;
    *end = t;
    return t;
}

static struct hvd_tally *find_tally(const struct hvd_waiting *w, uint32_t n_tensors)
{
    struct hvd_tally *t = w->tallies;

    while (t && t->n_tensors != n_tensors)
        t = t->next;
    return t;
}

hvd_status_t hvd_tally_count(const struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_merged_request *merged)
{
    struct hvd_group_name first;
    struct hvd_group_name asked;

    if (!hvd_group_name_parse(merged->request.name, &asked) || asked.i != 1 ||
        !hvd_group_name_parse(w->first.name, &first))
        return HVD_OK;
    if (!w->tallies) {
        if (first.n == asked.n)
            return HVD_OK;
        struct hvd_tally *same = add_tally(n, w, first.n);
        if (!same)
            return HVD_ERR_NOMEM;
        memcpy(same->asked, w->seen, hvd_positions_words(n->size) * sizeof(*same->asked));
    }
    struct hvd_tally *t = find_tally(w, asked.n);
    if (!t)
        t = add_tally(n, w, asked.n);
    for (uint32_t i = 0; t && i < merged->by.n; i++)
        hvd_positions_add(t->asked, hvd_message_ranges_at(&merged->by, i));
    return t ? HVD_OK : HVD_ERR_NOMEM;
}

void hvd_tally_forget(struct hvd_waiting *w)
{
    while (w->tallies) {
        struct hvd_tally *next = w->tallies->next;
        hvd_free(w->tallies);
        w->tallies = next;
    }
}

/* --- The message ------------------------------------------------------------------------------ */

static bool has_rank(const struct hvd_negotiator *n, const struct hvd_tally *t, int rank)
{
    return hvd_positions_has(t->asked, n->options.tree->position_of[rank]);
}

/* Returns the end of a range of ranks that are all in the tally and consecutive in both the set
 * and the job. */
static int end_of_range(const struct hvd_negotiator *n, const struct hvd_tally *t, int rank)
{
    int end = rank + 1;

    while (end < n->size && has_rank(n, t, end) &&
           n->options.ranks[end] == n->options.ranks[end - 1] + 1)
        end++;
    return end;
}

/* Appends "3 on ranks 0, 2-5", beginning with the first rank of the tally. */
static void put_tally(const struct hvd_negotiator *n, const struct hvd_tally *t, int first,
                      struct hvd_text *s)
{
    const int *ranks = n->options.ranks;
    int n_ranges = 0;

    if (t->n_tensors > 0)
        hvd_text_add(s, "%" PRIu32 " on ", t->n_tensors);
    else
        hvd_text_add(s, "none on ");
    hvd_text_add(s, hvd_positions_count(t->asked, t->asked, n->size) > 1 ? "ranks " : "rank ");
    for (int rank = first; rank < n->size; rank++) {
        if (!has_rank(n, t, rank))
            continue;
        const int end = end_of_range(n, t, rank);
        if (++n_ranges > RANGES_MAX) {
            hvd_text_add(s, ", ...");
            return;
        }
        hvd_text_add(s, n_ranges > 1 ? ", %d" : "%d", ranks[rank]);
        if (end > rank + 1)
            hvd_text_add(s, "-%d", ranks[end - 1]);
        rank = end - 1;
    }
}

/* Returns the tally of a rank of the set if no lower rank is in it; else NULL. */
static const struct hvd_tally *begins_tally(const struct hvd_negotiator *n,
                                            const struct hvd_waiting *w, int rank)
{
    const struct hvd_tally *t = w->tallies;

    while (t && !has_rank(n, t, rank))
        t = t->next;
    for (int before = 0; t && before < rank; before++)
        if (has_rank(n, t, before))
            return NULL;
    return t;
}

void hvd_tally_explain(const struct hvd_negotiator *n, const struct hvd_waiting *w, char *text,
                       size_t size)
{
    struct hvd_text s = hvd_text_in(text, size);
    struct hvd_group_name group = {.base = w->first.name};
    const char *between = "";

    if (!w->tallies) {
        hvd_text_add(&s, "%s", w->text ? w->text : "");
        return;
    }
    (void)hvd_group_name_parse(w->first.name, &group);
    hvd_text_add(&s, "Mismatched number of tensors in group %.*s: ",
                 group.base.len > 200 ? 200 : (int)group.base.len, group.base.data);
    for (int rank = 0; rank < n->size; rank++) {
        const struct hvd_tally *t = begins_tally(n, w, rank);
        if (!t)
            continue;
        hvd_text_add(&s, "%s", between);
        put_tally(n, t, rank, &s);
        between = "; ";
    }
    hvd_text_add(&s, ".");
    if (w->failed_check == HVD_REFUSED)
        hvd_text_add(&s, " %s", w->text);
}

/* --- Dropped tensors -------------------------------------------------------------------------- */

/* Marks the other tensors of a group of n_tensors as dropped. */
static void drop_members(const struct hvd_negotiator *n, const struct hvd_group_name *group,
                         uint32_t n_tensors)
{
    char text[HVD_NAME_MAX + 1];

    for (uint32_t i = 2; i <= n_tensors; i++) {
        const struct hvd_strview name = hvd_group_name_of(group, i, n_tensors, text, sizeof(text));
        struct hvd_waiting *member = (struct hvd_waiting *)hvd_names_find(&n->waiting, name);
        if (!member) /* every rank with such a group refused it */
            return;
        member->is_dropped = true;
    }
}

struct hvd_cluster *hvd_tally_drop(struct hvd_negotiator *n, struct hvd_waiting *w)
{
    struct hvd_group_name group;

    if (!hvd_group_name_parse(w->first.name, &group))
        return w->cluster;
    if (!w->tallies)
        drop_members(n, &group, group.n);
    for (const struct hvd_tally *t = w->tallies; t; t = t->next)
        drop_members(n, &group, t->n_tensors);
    w->is_dropped = true;
    return hvd_group_cut(w->cluster);
}
