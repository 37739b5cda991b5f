/*
 * The notes about doubtful numbers of a report: damaged or missing records, an incomplete file,
 * collectives without an end, a clock that went back, and ranks that do not match. The page has
 * only the notes that apply.
 */
#include <inttypes.h>

#include "worker/timeline_report/page_internal.h"

#define NOTES_SHOWN 16

static bool is_noted(const struct hvd_tl_rank *rank)
{
    return rank->n_damaged + rank->n_dropped + rank->n_stalls + rank->n_open + rank->n_back > 0 ||
           rank->is_cut;
}

/* Appends a count, such as ", 3 records could not be read"; nothing if it is 0. */
static hvd_status_t put_count(const struct hvd_tl_page_out *p, int64_t n, const char *one,
                              const char *several, bool *is_first)
{
    const char *before = *is_first ? ": " : ", ";

    if (n == 0)
        return HVD_OK;
    *is_first = false;
    return hvd_buf_printf(p->out, "%s%" PRId64 " %s", before, n, n == 1 ? one : several);
}

static hvd_status_t put_rank_note(const struct hvd_tl_page_out *p, size_t i)
{
    const struct hvd_tl_rank *rank = &p->m->ranks[i];
    const struct {
        int64_t n;
        const char *one;
        const char *several;
    } counts[] = {{rank->n_damaged, "record could not be read", "records could not be read"},
                  {rank->n_dropped, "event came too fast to be written",
                   "events came too fast to be written"},
                  {rank->n_open, "collective has no end", "collectives have no end"},
                  {rank->n_back, "time its clock went back", "times its clock went back"},
                  {rank->n_stalls, "stall, loss or failure", "stalls, losses or failures"}};
    bool is_first = true;
    hvd_status_t st = hvd_buf_puts(p->out, "<p class=\"note\">");

    if (st == HVD_OK)
        st = hvd_tl_page_rank(p, i);
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]) && st == HVD_OK; k++)
        st = put_count(p, counts[k].n, counts[k].one, counts[k].several, &is_first);
    if (st == HVD_OK && rank->is_cut)
        st = hvd_buf_printf(p->out, "%s its file breaks off, so that later events are missing",
                            is_first ? ":" : ",");
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, rank->trouble[0] ? ". The first: " : ".");
    if (st == HVD_OK)
        st = hvd_tl_head_escaped(p->out, rank->trouble);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</p>\n") : st;
}

/* Appends a note about ranks whose last collectives ended far apart. */
static hvd_status_t put_ends(const struct hvd_tl_page_out *p)
{
    const struct hvd_tl_analysis *a = p->a;
    hvd_status_t st;

    if (a->ends_apart_ns <= HVD_TL_SAME_MAX_NS)
        return HVD_OK;
    st = hvd_buf_puts(p->out, "<p class=\"note\">The last collective of ");
    if (st == HVD_OK)
        st = hvd_tl_page_rank(p, a->ends_first);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, " ends ");
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, (double)a->ends_apart_ns);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, " before that of ");
    if (st == HVD_OK)
        st = hvd_tl_page_rank(p, a->ends_last);
    return st == HVD_OK ? hvd_buf_puts(p->out, ": it took part in no more, or its later events are "
                                               "missing.</p>\n")
                        : st;
}

hvd_status_t hvd_tl_notes_put(const struct hvd_tl_page_out *p)
{
    size_t n = 0;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < p->m->n_ranks && st == HVD_OK; i++)
        if (is_noted(&p->m->ranks[i]) && n++ < NOTES_SHOWN)
            st = put_rank_note(p, i);
    if (st == HVD_OK && n > NOTES_SHOWN)
        st = hvd_buf_printf(p->out, "<p class=\"note\">The same goes for %zu more rank%s.</p>\n",
                            n - NOTES_SHOWN, n == NOTES_SHOWN + 1 ? "" : "s");
    if (st == HVD_OK)
        st = put_ends(p);
    if (st == HVD_OK && p->a->n_odd > 0)
        st = hvd_buf_printf(p->out,
                            "<p class=\"note\">%" PRId64 " of %" PRId64
                            " collectives do not fit together between the ranks and count as "
                            "negotiating: events are missing, a timeline began later, a clock "
                            "jumped, or a rank stood still.</p>\n",
                            p->a->n_odd, p->a->n_groups);
    return st;
}
