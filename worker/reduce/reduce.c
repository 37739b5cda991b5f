/*
 * The entry points: one kernel over a whole buffer, or, where a result has several stages or goes
 * to several places, stage after stage over blocks that stay in the first-level cache. Any thread;
 * no state, no allocation. The stack holds three blocks at most.
 */
#include "worker/reduce/reduce_internal.h"

#define BLOCK_BYTES 4096
#define LINE_BYTES 64

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

/* Stage by stage over one block; target is where the stages write: out, or what is then copied to
 * it. */
static void run_block(const struct hvd_reduce_pass *p, hvd_combine_fn combine, int64_t at,
                      int64_t count)
{
    _Alignas(LINE_BYTES) char scaled_a[BLOCK_BYTES];
    _Alignas(LINE_BYTES) char scaled_b[BLOCK_BYTES];
    _Alignas(LINE_BYTES) char result[BLOCK_BYTES];
    size_t from = (size_t)at * hvd_reduce_size(p->dtype);
    size_t size = (size_t)count * hvd_reduce_size(p->dtype);
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
}

void hvd_reduce_run(const struct hvd_reduce_pass *pass)
{
    struct hvd_reduce_pass p = *pass;
    int64_t element = (int64_t)hvd_reduce_size(p.dtype);
    int64_t block = BLOCK_BYTES / element;
    int64_t ragged = (int64_t)(-(uintptr_t)p.out % LINE_BYTES) / element; /* up to the next line */
    hvd_combine_fn combine = hvd_reduce_kernel(p.dtype, p.op);

    p.prescale_a = p.prescale_a && p.scaling && p.scaling->prescale != 1;
    p.prescale_b = p.prescale_b && p.scaling && p.scaling->prescale != 1;
    p.finish = p.finish && p.scaling && (p.scaling->postscale != 1 || p.scaling->divisor != 1);
    for (int64_t at = 0; at < p.count;) {
        int64_t count = at == 0 && ragged > 0 ? ragged : block;

        count = count < p.count - at ? count : p.count - at;
        run_block(&p, combine, at, count);
        at += count;
    }
    if (p.stream)
        hvd_reduce_stream_end();
}
