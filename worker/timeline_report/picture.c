/*
 * The typical step as a picture: a lane for each rank over an axis of time. Positions along the
 * axis are fractions of its length, so that the picture is as wide as the page; letters keep their
 * size:
 *
 *     rank 0  |mo|  id  |  mo  |     the lanes: an image of SCALE by a line for each rank,
 *     rank 1  |wa|  id  |wa| mo|     stretched to the width
 *             +----+----+----+--
 *             0   0.2  0.4  0.6 ms   the axis, below and over them
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "worker/timeline_report/page_internal.h"

#define LANES 32
#define CELLS 1000
#define SCALE 1000.0
#define LANE 22
#define THINNEST 0.005 /* thinner parts are invisible, and printed as 0.00 */
#define TICKS 6

/* The contents of a rank's lane. */
struct lane {
    const struct hvd_tl_stretch *parts;
    struct hvd_tl_stretch *owned; /* the parts if they are cells; else NULL */
    size_t n;
};

/* --- Lanes ------------------------------------------------------------------------------------ */

/* The time of each class in a cell. */
struct cell {
    int64_t ns[HVD_TL_CLASSES];
    int64_t green_ns;
};

static int64_t step_of(const struct hvd_tl_page_out *p)
{
    return p->a->step_to_ns - p->a->step_from_ns;
}

/* Returns where a cell begins; its number is at most CELLS. */
static int64_t begin_of(const struct hvd_tl_page_out *p, size_t cell)
{
    return p->a->step_from_ns + (int64_t)((double)step_of(p) * (double)cell / CELLS);
}

/* Distributes a stretch over the cells from *at on; *at becomes the cell in which it ends. */
static void share_out(const struct hvd_tl_page_out *p, const struct hvd_tl_stretch *s,
                      struct cell *cells, size_t *at)
{
    for (;; (*at)++) {
        const int64_t end = *at + 1 < CELLS ? begin_of(p, *at + 1) : s->to_ns;
        const int64_t from =
            *at > 0 && begin_of(p, *at) > s->from_ns ? begin_of(p, *at) : s->from_ns;
        const int64_t to = end < s->to_ns ? end : s->to_ns;
        const int64_t ns = to > from ? to - from : 0;

        cells[*at].ns[s->class_] += ns;
        cells[*at].green_ns += s->is_backward ? ns : 0;
        if (s->to_ns <= end)
            return;
    }
}

/* Returns the part that stands for a cell: of the class with the most time in it. */
static struct hvd_tl_stretch part_of(const struct hvd_tl_page_out *p, const struct cell *cell,
                                     size_t at)
{
    struct hvd_tl_stretch part = {.from_ns = begin_of(p, at), .to_ns = begin_of(p, at + 1)};
    int64_t sum = 0;

    for (size_t c = 0; c < HVD_TL_CLASSES; c++) {
        part.class_ = cell->ns[c] > cell->ns[part.class_] ? (uint8_t)c : part.class_;
        sum += cell->ns[c];
    }
    part.is_backward = cell->green_ns > 0 && cell->green_ns >= sum / 2;
    if (sum == 0)
        part.to_ns = part.from_ns;
    return part;
}

/* Makes a rank's lane of its stretches, or of cells if there are too many stretches. */
static hvd_status_t make_lane(const struct hvd_tl_page_out *p, size_t i, struct lane *lane)
{
    const struct hvd_tl_share *share = &p->a->shares[i];
    struct cell *cells;
    size_t at = 0;

    *lane = (struct lane){.parts = share->step, .n = share->n_step};
    if (share->n_step <= CELLS)
        return HVD_OK;
    cells = hvd_calloc(CELLS, sizeof(*cells));
    lane->owned = cells ? hvd_calloc(CELLS, sizeof(*lane->owned)) : NULL;
    for (size_t k = 0; lane->owned && k < share->n_step; k++)
        share_out(p, &share->step[k], cells, &at);
    for (size_t k = 0; lane->owned && k < CELLS; k++)
        lane->owned[k] = part_of(p, &cells[k], k);
    hvd_free(cells);
    lane->parts = lane->owned;
    lane->n = CELLS;
    return lane->owned ? HVD_OK : HVD_ERR_NOMEM;
}

/* --- What is in a lane ------------------------------------------------------------------------ */

static bool is_kind(const struct hvd_tl_stretch *part, size_t kind)
{
    return kind == HVD_TL_BACKWARD ? part->is_backward : part->class_ == kind;
}

/* Finds the next run of parts of one kind from *at on, as positions on the scale; false: there is
 * none. */
static bool next_run(const struct hvd_tl_page_out *p, const struct lane *lane, size_t kind,
                     size_t *at, double run[2])
{
    const double length = (double)step_of(p);

    while (*at < lane->n) {
        const struct hvd_tl_stretch *part = &lane->parts[(*at)++];
        const int64_t from = part->from_ns;
        int64_t to = part->to_ns;

        if (!is_kind(part, kind) || to <= from)
            continue;
        for (; *at < lane->n; (*at)++) {
            part = &lane->parts[*at];
            if (!is_kind(part, kind) || part->from_ns != to)
                break;
            to = part->to_ns;
        }
        run[0] = SCALE * (double)(from - p->a->step_from_ns) / length;
        run[1] = SCALE * (double)(to - p->a->step_from_ns) / length;
        if (run[1] - run[0] >= THINNEST)
            return true;
    }
    return false;
}

/* Writes all runs of one kind in the i-th lane. */
static hvd_status_t put_kind(const struct hvd_tl_page_out *p, const struct lane *lane, size_t i,
                             size_t kind)
{
    const bool is_green = kind == HVD_TL_BACKWARD;
    const size_t y = i * LANE + (is_green ? 16 : 2);
    double run[2];
    size_t at = 0;
    bool is_first = true;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && next_run(p, lane, kind, &at, run)) {
        if (is_first)
            st = hvd_buf_printf(p->out, "<path class=\"%s\" d=\"",
                                is_green ? "bw" : hvd_tl_kinds[kind].id);
        is_first = false;
        if (st == HVD_OK)
            st = hvd_buf_printf(p->out, "M%.2f %zuh%.2fv%dH%.2fz", run[0], y, run[1] - run[0],
                                is_green ? 3 : 14, run[0]);
    }
    return st == HVD_OK && !is_first ? hvd_buf_puts(p->out, "\"/>") : st;
}

/* Returns whether the picture has a green line anywhere. */
static bool has_green(const struct hvd_tl_page_out *p, const struct lane *lanes, size_t n)
{
    double run[2];

    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        if (next_run(p, &lanes[i], HVD_TL_BACKWARD, &at, run))
            return true;
    }
    return false;
}

static hvd_status_t put_lanes(const struct hvd_tl_page_out *p, const struct lane *lanes, size_t n)
{
    hvd_status_t st = hvd_buf_printf(p->out,
                                     "<svg viewBox=\"0 0 %.0f %zu\" width=\"100%%\" height=\"%zu\" "
                                     "preserveAspectRatio=\"none\">\n",
                                     SCALE, n * LANE, n * LANE);

    for (size_t i = 0; i < n && st == HVD_OK; i++) {
        for (size_t c = 0; c <= HVD_TL_BACKWARD && st == HVD_OK; c++)
            st = put_kind(p, &lanes[i], i, c);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "\n");
    }
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</svg>\n");
    for (size_t i = 0; i < n && st == HVD_OK; i++) {
        st = hvd_buf_printf(p->out,
                            "<rect class=\"frame\" x=\"0\" y=\"%zu\" width=\"100%%\" height=\"14\" "
                            "fill=\"none\" stroke=\"#7d8590\"/>"
                            "<text x=\"-8\" y=\"%zu\" text-anchor=\"end\">",
                            i * LANE + 2, i * LANE + 13);
        if (st == HVD_OK)
            st = hvd_tl_page_rank(p, i);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</text>\n");
    }
    return st;
}

/* --- The axis --------------------------------------------------------------------------------- */

/* Returns 1, 2 or 5 times a power of ten, so that at most TICKS of them fit behind 0. */
static double tick_of(double length)
{
    const double least = length / TICKS;
    const double power = pow(10, floor(log10(least)));

    return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

/* Writes lines through the lanes with their times below, all in one unit, and the unit's name. */
static hvd_status_t put_axis(const struct hvd_tl_page_out *p, size_t n)
{
    static const char *const units[] = {"ns", "&micro;s", "ms", "s"};
    const size_t bottom = n * LANE;
    double length = (double)step_of(p);
    double tick;
    size_t unit = 0;
    hvd_status_t st;

    for (; length >= 1000 && unit < 3; unit++)
        length /= 1000;
    tick = tick_of(length);
    st = hvd_buf_puts(p->out, "<g text-anchor=\"middle\">\n");
    for (int i = 0; i <= TICKS && i * tick <= length * (1 + 1e-9) && st == HVD_OK; i++) {
        const double x = 100 * i * tick / length;

        st = hvd_buf_printf(p->out,
                            "<line x1=\"%.3f%%\" y1=\"0\" x2=\"%.3f%%\" y2=\"%zu\" "
                            "stroke=\"#8886\"/><text%s x=\"%.3f%%\" y=\"%zu\">",
                            x, x, bottom + 4, i % 2 ? " class=\"between\"" : "", x, bottom + 17);
        if (st == HVD_OK)
            st = i == 0
                     ? hvd_buf_puts(p->out, "0")
                     : hvd_buf_printf(p->out, "%.*f %s", tick < 1 ? 1 : 0, i * tick, units[unit]);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</text>\n");
    }
    return st == HVD_OK ? hvd_buf_printf(p->out,
                                         "<text x=\"50%%\" y=\"%zu\">time since the step began"
                                         "</text></g></svg>\n",
                                         bottom + 34)
                        : st;
}

/* --- The section ------------------------------------------------------------------------------ */

static hvd_status_t put_legend(const struct hvd_tl_page_out *p, const char *green)
{
    hvd_status_t st = hvd_buf_puts(p->out, "<ul class=\"key\">");

    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<li><i class=\"%s\"></i>%s</li>\n", hvd_tl_kinds[c].id,
                            hvd_tl_kinds[c].name);
    if (st == HVD_OK && green)
        st = hvd_buf_printf(p->out, "<li><i class=\"bw\"></i>%s</li>\n", green);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</ul>\n") : st;
}

static hvd_status_t put_words(const struct hvd_tl_page_out *p, const struct lane *lanes, size_t n)
{
    const bool is_green = has_green(p, lanes, n);
    const char *green = p->a->has_backward ? "backward" : "handing out";
    bool has_cells = false;
    hvd_status_t st =
        hvd_buf_puts(p->out, "<h2>A typical step</h2>\n<p>Of all steps the one of middle length, ");

    for (size_t i = 0; i < n; i++)
        has_cells = has_cells || lanes[i].owned;
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, (double)step_of(p));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, ". A step begins where a tensor comes again.");
    if (st == HVD_OK && is_green)
        st = hvd_buf_printf(p->out, " The green line: %s.",
                            p->a->has_backward ? "backward, as marked"
                                               : "from the first to the last tensor handed out");
    if (st == HVD_OK && has_cells)
        st = hvd_buf_printf(p->out,
                            " A lane with more than %d parts is drawn in %d cells of one length, "
                            "each as the kind that has most of it.",
                            CELLS, CELLS);
    if (st == HVD_OK && p->a->n_ranks > n)
        st = hvd_buf_printf(p->out, " %zu more ranks are not drawn.", p->a->n_ranks - n);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</p>\n");
    return st == HVD_OK ? put_legend(p, is_green ? green : NULL) : st;
}

hvd_status_t hvd_tl_picture_step(const struct hvd_tl_page_out *p)
{
    const size_t n = p->a->n_ranks < LANES ? p->a->n_ranks : LANES;
    struct lane lanes[LANES] = {{.n = 0}};
    hvd_status_t st = HVD_OK;

    if (step_of(p) <= 0)
        return HVD_OK;
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = make_lane(p, i, &lanes[i]);
    if (st == HVD_OK)
        st = put_words(p, lanes, n);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out,
                            "<svg class=\"step\" width=\"100%%\" height=\"%zu\" role=\"img\" "
                            "aria-label=\"The ranks in a typical step\">\n",
                            n * LANE + 38);
    if (st == HVD_OK)
        st = put_lanes(p, lanes, n);
    if (st == HVD_OK)
        st = put_axis(p, n);
    for (size_t i = 0; i < n; i++)
        hvd_free(lanes[i].owned);
    return st;
}
