/*
 * The coordinator's state machine; see negotiate.h. Pure: requests and the time go in, plan bytes
 * come out. Memory per waiting tensor is one bit a rank (and 8 bytes a rank for an allgather), not
 * a request a rank: each request is compared with the first one as it comes.
 */
#include "worker/core/negotiate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/mismatch.h"
#include "worker/core/names.h"

#define NAMES_PER_RANK_MAX 6
#define RANKS_REPORTED_MAX 32

/* A tensor that some ranks have asked for. */
struct waiting {
    struct hvd_named named;   /* first */
    struct hvd_request first; /* the name is at `name` */
    int first_rank;
    int n_seen;
    int failed_check; /* 0, or the lowest number of hvd_mismatch so far */
    char *text;       /* its sentence; owned */
    int64_t *rows;    /* allgather: first dimension by rank; owned */
    int64_t since_ns;
    bool is_reported;
    uint64_t *seen; /* a bit a rank; behind the name, in the same block */
    char name[];
};

struct hvd_negotiator {
    int size;
    struct hvd_names waiting;
    struct hvd_buf plan;
    uint64_t *left; /* a bit a rank */
    int n_left;
    bool is_ending;
    bool is_aborted;
};

static size_t bitmap_words(int size)
{
    return ((size_t)size + 63) / 64;
}

static bool has_bit(const uint64_t *bits, int rank)
{
    return bits[rank / 64] >> (rank % 64) & 1;
}

static void set_bit(uint64_t *bits, int rank)
{
    bits[rank / 64] |= (uint64_t)1 << (rank % 64);
}

hvd_status_t hvd_negotiator_create(int size, struct hvd_negotiator **out, struct hvd_err *err)
{
    struct hvd_negotiator *n = hvd_calloc(1, sizeof(*n));
    uint64_t *left = hvd_calloc(bitmap_words(size), sizeof(*left));

    if (!n || !left) {
        hvd_free(n);
        hvd_free(left);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the negotiation");
    }
    n->size = size;
    n->left = left;
    hvd_buf_init(&n->plan, HVD_MESSAGE_MAX);
    *out = n;
    return HVD_OK;
}

static void destroy_waiting(struct waiting *w)
{
    if (!w)
        return;
    hvd_free(w->text);
    hvd_free(w->rows);
    hvd_free(w);
}

static void forget(struct hvd_negotiator *n, struct waiting *w)
{
    hvd_names_remove(&n->waiting, &w->named);
    destroy_waiting(w);
}

void hvd_negotiator_destroy(struct hvd_negotiator *n)
{
    if (!n)
        return;
    while (n->waiting.first)
        forget(n, (struct waiting *)n->waiting.first);
    hvd_buf_fini(&n->plan);
    hvd_free(n->left);
    hvd_free(n);
}

/* A tensor that nobody has asked for yet, in the map; NULL when out of memory. */
static struct waiting *add_waiting(struct hvd_negotiator *n, const struct hvd_request *req)
{
    const size_t align = sizeof(uint64_t);
    const size_t name_room = (req->name.len + 1 + align - 1) / align * align;
    const size_t head = (offsetof(struct waiting, name) + name_room + align - 1) / align * align;
    struct waiting *w = hvd_calloc(1, head + bitmap_words(n->size) * sizeof(uint64_t));

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
    if (hvd_names_add(&n->waiting, w->first.name, &w->named))
        return w;
fail:
    destroy_waiting(w);
    return NULL;
}

/* Adds a step to the plan, which begins with its first step. */
static hvd_status_t add_step(struct hvd_negotiator *n, int kind, const struct waiting *w,
                             const char *text, struct hvd_err *err)
{
    const bool has_rows = w && w->rows && kind == HVD_ALLGATHER;
    const struct hvd_strview name = w ? w->first.name : (struct hvd_strview){.data = ""};
    hvd_status_t st = HVD_OK;

    if (n->plan.len == 0)
        st = hvd_message_begin(&n->plan, HVD_MESSAGE_PLAN);
    if (st == HVD_OK)
        st = hvd_message_add_step(&n->plan, kind, name, has_rows ? w->rows : NULL,
                                  has_rows ? (uint32_t)n->size : 0, text);
    return st == HVD_OK
               ? st
               : HVD_FAIL(err, st, 0, "plan of %zu bytes: %s", n->plan.len, hvd_status_str(st));
}

/* Compares with the first request; keeps the sentence of the lowest check that failed. */
static hvd_status_t compare(struct waiting *w, int rank, const struct hvd_request *req)
{
    char text[HVD_TEXT_MAX];
    int check = hvd_mismatch((struct hvd_asked){.rank = w->first_rank, .req = &w->first},
                             (struct hvd_asked){.rank = rank, .req = req}, text, sizeof(text));

    if (check == 0 || (w->failed_check != 0 && w->failed_check <= check))
        return HVD_OK;
    char *copy = hvd_strdup(text);
    if (!copy)
        return HVD_ERR_NOMEM;
    hvd_free(w->text);
    w->text = copy;
    w->failed_check = check;
    return HVD_OK;
}

/* The tensor of the request; made when this is the first one. NULL when out of memory. */
static struct waiting *get_waiting(struct hvd_negotiator *n, int rank,
                                   const struct hvd_request *req, int64_t now_ns)
{
    struct waiting *w = (struct waiting *)hvd_names_find(&n->waiting, req->name);

    if (w)
        return w;
    w = add_waiting(n, req);
    if (w) {
        w->first_rank = rank;
        w->since_ns = now_ns;
    }
    return w;
}

hvd_status_t hvd_negotiator_request(struct hvd_negotiator *n, int rank,
                                    const struct hvd_request *req, int64_t now_ns,
                                    struct hvd_err *err)
{
    hvd_status_t st = hvd_request_check(req, n->size, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "request of rank %d", rank);
    if (n->is_ending)
        return HVD_OK;

    struct waiting *w = get_waiting(n, rank, req, now_ns);
    if (!w)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor of rank %d", rank);
    if (has_bit(w->seen, rank))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d asked twice for tensor %s", rank,
                        w->name);
    st = compare(w, rank, req);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a tensor of rank %d", rank);
    set_bit(w->seen, rank);
    w->n_seen++;
    if (w->rows && req->op == HVD_ALLGATHER && req->ndim > 0)
        w->rows[rank] = req->shape[0];
    if (w->n_seen < n->size)
        return HVD_OK;
    st = w->failed_check ? add_step(n, HVD_STEP_ERROR, w, w->text, err)
                         : add_step(n, (int)w->first.op, w, "", err);
    if (st == HVD_OK)
        forget(n, w);
    return st;
}

hvd_status_t hvd_negotiator_leave(struct hvd_negotiator *n, int rank, bool failed, const char *text,
                                  struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (failed && !n->is_aborted)
        st = add_step(n, HVD_STEP_ABORT, NULL, text, err);
    else if (!n->is_ending)
        st = add_step(n, HVD_STEP_SHUTDOWN, NULL, text, err);
    if (st != HVD_OK)
        return st;
    n->is_ending = true;
    n->is_aborted = n->is_aborted || failed;
    while (n->waiting.first)
        forget(n, (struct waiting *)n->waiting.first);
    if (has_bit(n->left, rank))
        return HVD_OK;
    set_bit(n->left, rank);
    n->n_left++;
    return n->n_left == n->size ? add_step(n, HVD_STEP_DOWN, NULL, "", err) : HVD_OK;
}

const struct hvd_buf *hvd_negotiator_plan(const struct hvd_negotiator *n)
{
    return n->plan.len > 0 ? &n->plan : NULL;
}

void hvd_negotiator_plan_sent(struct hvd_negotiator *n)
{
    hvd_buf_reset(&n->plan);
}

size_t hvd_negotiator_waiting(const struct hvd_negotiator *n)
{
    return hvd_names_count(&n->waiting);
}

static struct waiting *first_waiting(const struct hvd_negotiator *n)
{
    return (struct waiting *)n->waiting.first;
}

static struct waiting *next_waiting(const struct waiting *w)
{
    return (struct waiting *)hvd_names_next(&w->named);
}

/* Adds "\nrank: [a, b, ...]" when the rank is missing from a newly stalled tensor. */
static hvd_status_t report_rank(const struct hvd_negotiator *n, int rank, int64_t before_ns,
                                struct hvd_buf *report)
{
    hvd_status_t st = HVD_OK;
    int n_names = 0;

    for (const struct waiting *w = first_waiting(n); w && st == HVD_OK; w = next_waiting(w)) {
        if (w->is_reported || w->since_ns > before_ns || has_bit(w->seen, rank))
            continue;
        n_names++;
        if (n_names == 1)
            st = hvd_buf_printf(report, "\n%d: [%s", rank, w->name);
        else if (n_names <= NAMES_PER_RANK_MAX)
            st = hvd_buf_printf(report, ", %s", w->name);
    }
    if (st == HVD_OK && n_names > 0)
        st = hvd_buf_puts(report, n_names > NAMES_PER_RANK_MAX ? " ...]" : "]");
    return st;
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

hvd_status_t hvd_negotiator_stalled(struct hvd_negotiator *n, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_buf *report)
{
    const int64_t before_ns = now_ns - limit_ns;
    bool any = false;

    for (const struct waiting *w = first_waiting(n); w; w = next_waiting(w))
        any = any || (!w->is_reported && w->since_ns <= before_ns);
    if (!any)
        return HVD_OK;
    hvd_status_t st = write_report(n, before_ns, limit_ns, report);
    for (struct waiting *w = first_waiting(n); w; w = next_waiting(w))
        w->is_reported = w->is_reported || w->since_ns <= before_ns;
    return st;
}

const char *hvd_negotiator_overdue(const struct hvd_negotiator *n, int64_t before_ns, int *missing,
                                   int *n_missing)
{
    const struct waiting *oldest = NULL;
    const int room = *n_missing;
    int found = 0;

    for (const struct waiting *w = first_waiting(n); w; w = next_waiting(w))
        if (w->since_ns <= before_ns && (!oldest || w->since_ns < oldest->since_ns))
            oldest = w;
    if (!oldest)
        return NULL;
    for (int rank = 0; rank < n->size; rank++) {
        if (has_bit(oldest->seen, rank))
            continue;
        if (found < room)
            missing[found] = rank;
        found++;
    }
    *n_missing = found;
    return oldest->name;
}
