/*
 * Writes which ranks waited for which as a table. It has columns for the ranks that others waited
 * for the longest, as many as fit on a page of paper; one column has the rest of the waiting.
 */
#include <string.h>

#include "worker/timeline_report/page_internal.h"

#define LINES 32
#define COLUMNS 8
#define NARROW 3 /* columns that fit on a telephone */

/* The ranks that have a column; the last entry is for all ranks without one. */
struct columns {
    size_t rank[COLUMNS];
    size_t n;
    bool is_shown[HVD_TL_RANKS_MAX];
    bool has_others;
};

static double waited_for(const struct hvd_tl_page_out *p, size_t k)
{
    double sum = 0;

    for (size_t i = 0; i < p->a->n_ranks; i++)
        sum += p->a->waited_ns[i * (p->a->n_ranks + 1) + k];
    return sum;
}

/* Returns the rank without a column that others waited for the longest. */
static size_t next_column(const struct hvd_tl_page_out *p, const struct columns *c)
{
    size_t most = p->a->n_ranks;
    double longest = -1;

    for (size_t k = 0; k < p->a->n_ranks; k++) {
        const double ns = c->is_shown[k] ? -1 : waited_for(p, k);

        if (ns > longest) {
            longest = ns;
            most = k;
        }
    }
    return most;
}

static void choose_columns(const struct hvd_tl_page_out *p, struct columns *c)
{
    const size_t n = p->a->n_ranks;

    for (size_t i = 0; i < n && i < COLUMNS; i++)
        c->is_shown[next_column(p, c)] = true;
    for (size_t k = 0; k < n; k++)
        if (c->is_shown[k])
            c->rank[c->n++] = k;
    for (size_t k = 0; k <= n; k++)
        if (k == n || !c->is_shown[k])
            c->has_others = c->has_others || waited_for(p, k) > 0 || p->a->n_last[k] > 0;
}

/* Writes the row of one rank that waited. */
static hvd_status_t put_waiter(const struct hvd_tl_page_out *p, size_t i, const struct columns *c)
{
    const double *waited = &p->a->waited_ns[i * (p->a->n_ranks + 1)];
    double others = waited[p->a->n_ranks];
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><th scope=\"row\">");

    for (size_t k = 0; k < p->a->n_ranks; k++)
        others += c->is_shown[k] ? 0 : waited[k];
    if (st == HVD_OK)
        st = hvd_tl_page_rank(p, i);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</th>");
    for (size_t k = 0; k < c->n + c->has_others && st == HVD_OK; k++) {
        const double ns = k < c->n ? waited[c->rank[k]] : others;

        st = hvd_buf_puts(p->out, "<td>");
        if (st == HVD_OK && ns > 0)
            st = hvd_tl_page_time(p->out, ns);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</td>");
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, "</tr>\n") : st;
}

/* Writes the row of how often each rank was the last. */
static hvd_status_t put_lasts(const struct hvd_tl_page_out *p, const struct columns *c)
{
    int64_t others = p->a->n_last[p->a->n_ranks];
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><th scope=\"row\">was the last</th>");

    for (size_t k = 0; k < p->a->n_ranks; k++)
        others += c->is_shown[k] ? 0 : p->a->n_last[k];
    for (size_t k = 0; k < c->n + c->has_others && st == HVD_OK; k++)
        st = hvd_buf_printf(
            p->out, "<td>%.1f %%</td>",
            hvd_tl_page_percent((double)(k < c->n ? p->a->n_last[c->rank[k]] : others),
                                (double)p->a->n_groups));
    return st == HVD_OK ? hvd_buf_puts(p->out, "</tr>\n") : st;
}

static hvd_status_t put_heading(const struct hvd_tl_page_out *p, const struct columns *c)
{
    const bool is_wide = c->n + c->has_others > NARROW; /* it scrolls, also by keys */
    hvd_status_t st = hvd_buf_printf(
        p->out,
        "<div class=\"scroll\"%s><table class=\"fit\">\n<thead><tr><th scope=\"col\">who</th>",
        is_wide ? " tabindex=\"0\" role=\"region\" aria-label=\"Waiting for whom\"" : "");

    for (size_t k = 0; k < c->n + c->has_others && st == HVD_OK; k++) {
        st = hvd_buf_puts(p->out, "<th scope=\"col\">");
        if (st == HVD_OK)
            st = hvd_tl_page_rank(p, k < c->n ? c->rank[k] : p->a->n_ranks);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</th>");
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, "</tr></thead>\n<tbody>") : st;
}

hvd_status_t hvd_tl_waits_put(const struct hvd_tl_page_out *p)
{
    struct columns c = {.n = 0};
    hvd_status_t st = hvd_buf_puts(p->out, "<h2>Waiting for whom</h2>\n");

    if (st == HVD_OK && p->a->n_groups == 0)
        return hvd_buf_puts(p->out,
                            "<p>The timelines do not show it: there is one of a single rank, "
                            "and it has no ticks of others.</p>\n");
    choose_columns(p, &c);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<p>How long a rank (line) had nothing to do but wait for "
                                  "another (column) to ask for the same tensor.");
    if (st == HVD_OK && p->a->n_ranks > COLUMNS)
        st = hvd_buf_printf(p->out, " The %d ranks that were waited for the longest have a column.",
                            COLUMNS);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</p>\n");
    if (st == HVD_OK)
        st = put_heading(p, &c);
    for (size_t i = 0; i < p->a->n_ranks && i < LINES && st == HVD_OK; i++)
        st = put_waiter(p, i, &c);
    if (st == HVD_OK)
        st = put_lasts(p, &c);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</tbody></table></div>\n");
    return st == HVD_OK && p->a->n_ranks > LINES
               ? hvd_buf_printf(p->out, "<p>%zu more ranks have no line.</p>\n",
                                p->a->n_ranks - LINES)
               : st;
}
