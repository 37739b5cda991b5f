/*
 * The entry points. A plain reduction is one kernel over the whole buffer. A result with several
 * stages or several outputs is computed in blocks that stay in the first-level cache, stage after
 * stage. Any thread; no state, no allocation. The stack holds three blocks at most.
 */
#include "worker/reduce/reduce_internal.h"
#include "worker/reduce/sums.h"

#define BLOCK_BYTES 2048
#define LINE_BYTES HVD_LINE_BYTES

void hvd_reduce_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *into, const void *from,
                        int64_t count)
{
    hvd_reduce_kernel(dtype, op)(into, into, from, count);
}

void hvd_reduce_combine_into(enum hvd_dtype dtype, enum hvd_reduce op, void *out, const void *a,
                             const void *b, int64_t count)
{
    hvd_reduce_kernel(dtype, op)(out, a, b, count);
}

void hvd_reduce_combine_into_stream(enum hvd_dtype dtype, enum hvd_reduce op, void *out,
                                    const void *a, const void *b, int64_t count)
{
    hvd_reduce_run(&(struct hvd_reduce_pass){
        .dtype = dtype, .op = op, .a = a, .b = b, .out = out, .count = count, .stream = true});
}

void hvd_reduce_combine_into2(enum hvd_dtype dtype, enum hvd_reduce op, void *const out[2],
                              const void *a, const void *b, int64_t count)
{
    hvd_reduce_run(&(struct hvd_reduce_pass){
        .dtype = dtype, .op = op, .a = a, .b = b, .out = out[0], .second = out[1], .count = count});
}

void hvd_reduce_combine_into2_stream(enum hvd_dtype dtype, enum hvd_reduce op, void *const out[2],
                                     const void *a, const void *b, int64_t count)
{
    hvd_reduce_run(&(struct hvd_reduce_pass){.dtype = dtype,
                                             .op = op,
                                             .a = a,
                                             .b = b,
                                             .out = out[0],
                                             .second = out[1],
                                             .count = count,
                                             .stream = true});
}

/* Runs the stages over one block. The stages write to target: out, or memory that is then copied to
 * it. */
static void run_block(const struct hvd_reduce_pass *p, hvd_combine_fn combine, int64_t at,
                      int64_t count)
{
    _Alignas(LINE_BYTES) char scaled_a[BLOCK_BYTES];
    _Alignas(LINE_BYTES) char scaled_b[BLOCK_BYTES];
    _Alignas(LINE_BYTES) char result[BLOCK_BYTES];
    size_t from = (size_t)at * hvd_dtype_size((int)p->dtype);
    size_t size = (size_t)count * hvd_dtype_size((int)p->dtype);
    const char *a = (const char *)p->a + from;
    const char *b = p->b ? (const char *)p->b + from : NULL;
    char *out = (char *)p->out + from;
    char *target = p->second ? (char *)p->second + from : p->stream ? result : out;

    if (p->prescale_a) {
        hvd_reduce_prescale(p->dtype, p->scaling, b ? scaled_a : target, a, count);
        a = b ? scaled_a : target;
    }
    if (b && p->prescale_b) {
        hvd_reduce_prescale(p->dtype, p->scaling, scaled_b, b, count);
        b = scaled_b;
    }
    if (b)
        combine(target, a, b, count);
    else if (target != a)
        memcpy(target, a, size);
    if (p->finish)
        hvd_reduce_finish(p->dtype, p->scaling, target, count);
    if (p->stream)
        hvd_reduce_stream(out, target, size);
    else if (target != out)
        memcpy(out, target, size);
    if (p->next && p->next_streams)
        hvd_reduce_stream((char *)p->next_to + from, (const char *)p->next + from, size);
    else if (p->next)
        memcpy((char *)p->next_to + from, (const char *)p->next + from, size);
}

/* The kernel that does the whole pass at once, and its factor; NULL: none exists. */
static hvd_lines_fn at_once(const struct hvd_reduce_pass *p, double *factor)
{
    const struct hvd_sum_kernels *sums = &hvd_reduce_sums[hvd_reduce_variant()][p->dtype];
    bool is_sum = p->op == HVD_SUM || p->op == HVD_AVERAGE;

    *factor = 1;
    if (!is_sum || !p->b || p->prescale_a || p->prescale_b || (p->second && p->next))
        return NULL;
    if (p->finish && !hvd_reduce_finishes_by_factor(p->dtype, p->scaling, factor))
        return NULL;
    if (p->next && p->next_streams)
        return p->stream ? sums->stream_all : sums->with_stream;
    if (p->next)
        return p->stream ? sums->stream_next : sums->with_next;
    if (p->second)
        return p->stream ? sums->stream_both : sums->both;
    return p->stream ? sums->stream : NULL;
}

/* Runs the kernel over whole lines from element `at` and returns how many elements they hold.
 * Returns 0 where an output that is not aligned for its type never meets the start of a line: such
 * stores would fault. */
static int64_t run_lines(const struct hvd_reduce_pass *p, hvd_lines_fn lines, double factor,
                         int64_t at)
{
    size_t element = hvd_dtype_size((int)p->dtype);
    size_t from = (size_t)at * element;
    const struct hvd_lines l = {
        .out = (char *)p->out + from,
        .second = p->second ? (char *)p->second + from : NULL,
        .a = (const char *)p->a + from,
        .b = (const char *)p->b + from,
        .next = p->next ? (const char *)p->next + from : NULL,
        .next_to = p->next ? (char *)p->next_to + from : NULL,
        .n_lines = (size_t)(p->count - at) * element / LINE_BYTES,
        .factor = factor,
    };

    if ((uintptr_t)l.out % LINE_BYTES != 0)
        return 0;
    lines(&l);
    return (int64_t)(l.n_lines * LINE_BYTES / element);
}

/* Whether the pass consists of the kernel alone. */
static bool is_plain(const struct hvd_reduce_pass *p)
{
    return p->b && !p->second && !p->next && !p->stream && !p->prescale_a && !p->prescale_b &&
           !p->finish;
}

void hvd_reduce_run(const struct hvd_reduce_pass *pass)
{
    struct hvd_reduce_pass p = *pass;
    int64_t element = (int64_t)hvd_dtype_size((int)p.dtype);
    int64_t block = (int64_t)(-(uintptr_t)p.out % LINE_BYTES) / element; /* up to the next line */
    hvd_combine_fn combine = hvd_reduce_kernel(p.dtype, p.op);
    hvd_lines_fn lines;
    double factor;

    p.prescale_a = p.prescale_a && p.scaling && p.scaling->prescale != 1;
    p.prescale_b = p.prescale_b && p.scaling && p.scaling->prescale != 1;
    p.finish = p.finish && p.scaling && (p.scaling->postscale != 1 || p.scaling->divisor != 1);
    p.next_streams =
        p.next && p.next_streams && ((uintptr_t)p.next_to - (uintptr_t)p.out) % LINE_BYTES == 0;
    if (is_plain(&p)) {
        combine(p.out, p.a, p.b, p.count);
        return;
    }
    lines = at_once(&p, &factor);
    for (int64_t at = 0; at < p.count; block = BLOCK_BYTES / element) {
        int64_t count = block < p.count - at ? block : p.count - at;

        run_block(&p, combine, at, count);
        at += count;
        if (lines) {
            at += run_lines(&p, lines, factor, at);
            lines = NULL;
        }
    }
    if ((p.stream || p.next_streams) && !p.is_open)
        hvd_reduce_stream_end();
}
