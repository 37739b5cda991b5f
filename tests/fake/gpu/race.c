/*
 * Vector clocks, and what was accessed by whom. A stream's clock grows with everything that is
 * enqueued on it, and takes what the host knows at the call and what waited-for events know. So the
 * order between two pieces of work depends on the calls alone, not on when threads run them: an
 * access is checked when it happens, against all earlier ones of its bytes.
 */
#include "tests/fake/gpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a block with the same history: the last write, and all reads since. */
struct fake_segment {
    struct fake_segment *next;
    size_t from;
    size_t to;
    struct fake_access *write; /* NULL: no value yet */
    struct fake_access **reads;
    unsigned n_reads;
    bool is_made; /* `write` is the allocation, not a value */
};

static unsigned n_agents;

unsigned fake_agent(void)
{
    return n_agents++;
}

/* --- Clocks ----------------------------------------------------------------------------------- */

static void grow(struct fake_clock *clock, unsigned n)
{
    if (n <= clock->n)
        return;
    uint64_t *at = realloc(clock->at, n * sizeof(*at));
    if (!at)
        fake_die("out of memory");
    memset(at + clock->n, 0, (n - clock->n) * sizeof(*at));
    clock->at = at;
    clock->n = n;
}

void fake_clock_join(struct fake_clock *to, const struct fake_clock *from)
{
    grow(to, from->n);
    for (unsigned i = 0; i < from->n; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

bool fake_clock_covers(const struct fake_clock *clock, const struct fake_clock *other)
{
    for (unsigned i = 0; i < other->n; i++)
        if (other->at[i] > (i < clock->n ? clock->at[i] : 0))
            return false;
    return true;
}

void fake_clock_set(struct fake_clock *clock, unsigned agent, uint64_t when)
{
    grow(clock, agent + 1);
    clock->at[agent] = when;
}

void fake_clock_fini(struct fake_clock *clock)
{
    free(clock->at);
    *clock = (struct fake_clock){0};
}

static bool knows(const struct fake_clock *clock, const struct fake_access *access)
{
    return access->agent < clock->n && clock->at[access->agent] >= access->when;
}

/* --- Accesses --------------------------------------------------------------------------------- */

static struct fake_access *unused; /* to be used again */

struct fake_access *fake_access_create(unsigned agent, uint64_t when, const char *what)
{
    struct fake_access *access = unused;

    if (access)
        unused = access->next;
    else
        access = fake_calloc(1, sizeof(*access));
    *access = (struct fake_access){.n_users = 1, .agent = agent, .when = when};
    snprintf(access->what, sizeof(access->what), "%s", what);
    return access;
}

void fake_access_put(struct fake_access *access)
{
    if (!access || --access->n_users > 0)
        return;
    access->next = unused;
    unused = access;
}

static struct fake_access *share(struct fake_access *access)
{
    access->n_users++;
    return access;
}

static void clear_reads(struct fake_segment *segment)
{
    for (unsigned i = 0; i < segment->n_reads; i++)
        fake_access_put(segment->reads[i]);
    free(segment->reads);
    segment->reads = NULL;
    segment->n_reads = 0;
}

static void destroy_segment(struct fake_segment *segment)
{
    clear_reads(segment);
    fake_access_put(segment->write);
    free(segment);
}

static void add_read(struct fake_segment *segment, struct fake_access *by)
{
    for (unsigned i = 0; i < segment->n_reads; i++) {
        if (segment->reads[i]->agent == by->agent) {
            struct fake_access *gone = segment->reads[i];
            segment->reads[i] = share(by);
            fake_access_put(gone);
            return;
        }
    }
    struct fake_access **reads =
        realloc(segment->reads, (segment->n_reads + 1) * sizeof(struct fake_access *));
    if (!reads)
        fake_die("out of memory");
    segment->reads = reads;
    segment->reads[segment->n_reads++] = share(by);
}

/* Makes a segment end at the offset, if one holds it. */
static void split(struct fake_block *block, size_t at)
{
    for (struct fake_segment *segment = block->segments; segment; segment = segment->next) {
        if (at <= segment->from || at >= segment->to)
            continue;
        struct fake_segment *rest = fake_calloc(1, sizeof(*rest));
        *rest = (struct fake_segment){
            .next = segment->next, .from = at, .to = segment->to, .is_made = segment->is_made};
        if (segment->write)
            rest->write = share(segment->write);
        for (unsigned i = 0; i < segment->n_reads; i++)
            add_read(rest, segment->reads[i]);
        segment->next = rest;
        segment->to = at;
        return;
    }
}

/* What is accessed, for the checks below. */
struct claim {
    enum fake_gpu_finding finding;
    struct fake_block *block;
    size_t from;
    size_t to;
    bool is_write;
    bool is_reported; /* one report for each access is enough */
    const struct fake_clock *clock;
    struct fake_access *by;
};

static void compare(struct claim *claim, const struct fake_access *earlier, const char *did)
{
    if (!earlier || claim->is_reported || earlier == claim->by || knows(claim->clock, earlier))
        return;
    claim->is_reported = true;
    fake_report(claim->finding, "%s %s bytes %zu to %zu of %p (%zu bytes), which %s %s, unordered",
                claim->by->what, claim->is_write ? "writes" : "reads", claim->from, claim->to,
                (void *)claim->block->at, claim->block->bytes, earlier->what, did);
}

static void check(struct claim *claim)
{
    bool has_value = true;

    for (struct fake_segment *s = claim->block->segments; s; s = s->next) {
        if (s->to <= claim->from || s->from >= claim->to)
            continue;
        compare(claim, s->write, s->is_made ? "allocates" : "writes");
        for (unsigned i = 0; claim->is_write && i < s->n_reads; i++)
            compare(claim, s->reads[i], "reads");
        has_value = has_value && !s->is_made;
    }
    if (!claim->is_write && !has_value && !claim->is_reported &&
        fake_option(FAKE_GPU_REPORT_UNWRITTEN) && !claim->block->is_host)
        fake_report(FAKE_GPU_UNWRITTEN, "%s reads bytes %zu to %zu of %p", claim->by->what,
                    claim->from, claim->to, (void *)claim->block->at);
}

/* Replaces the history of the range by one write. */
static void put_write(const struct claim *claim)
{
    struct fake_segment *made = fake_calloc(1, sizeof(*made));
    struct fake_segment **at = &claim->block->segments;

    *made = (struct fake_segment){.from = claim->from, .to = claim->to, .write = share(claim->by)};
    while (*at && (*at)->to <= claim->from)
        at = &(*at)->next;
    while (*at && (*at)->from < claim->to) {
        struct fake_segment *gone = *at;
        *at = gone->next;
        destroy_segment(gone);
    }
    made->next = *at;
    *at = made;
}

static void record(const struct claim *claim)
{
    split(claim->block, claim->from);
    split(claim->block, claim->to);
    if (claim->is_write) {
        put_write(claim);
        return;
    }
    for (struct fake_segment *s = claim->block->segments; s; s = s->next)
        if (s->from >= claim->from && s->to <= claim->to)
            add_read(s, claim->by);
}

/* --- Checks ----------------------------------------------------------------------------------- */

/* Reports one finding about the work, if it is the first. */
static void refuse(struct fake_op *op, enum fake_gpu_finding finding, const char *did,
                   const void *at, const char *why)
{
    if (!op->is_reported)
        fake_report(finding, "%s %s %p, %s", op->access->what, did, at, why);
    op->is_reported = true;
}

/* Whether the range may be accessed by the work at all. */
static bool is_accessible(struct fake_op *op, const struct fake_block *block, const void *at,
                          size_t bytes, const char *did)
{
    char why[320];

    if (!block) {
        refuse(op, FAKE_GPU_OUT_OF_BOUNDS, did, at, "which no allocation has");
        return false;
    }
    const size_t from = (size_t)((const char *)at - block->at);
    if (block->is_free) {
        const bool is_known = knows(&op->clock, block->freed);
        snprintf(why, sizeof(why), "which %s has freed", block->freed->what);
        refuse(op, is_known ? FAKE_GPU_USE_AFTER_FREE : FAKE_GPU_FREE_IN_FLIGHT, did, at, why);
        return false;
    }
    if (bytes > block->bytes - from) {
        snprintf(why, sizeof(why), "%zu bytes at %zu of an allocation of %zu", bytes, from,
                 block->bytes);
        refuse(op, FAKE_GPU_OUT_OF_BOUNDS, did, at, why);
        return false;
    }
    if (!block->is_host && block->context != op->stream->context) {
        refuse(op, FAKE_GPU_WRONG_CONTEXT, did, at, "which is memory of another device");
        return false;
    }
    return true;
}

bool fake_access_range(struct fake_op *op, const void *at, size_t bytes, bool is_write)
{
    struct fake_block *block = fake_block_of(at);

    if (bytes == 0)
        return true;
    if (!is_accessible(op, block, at, bytes, is_write ? "writes" : "reads"))
        return false;
    const size_t from = (size_t)((const char *)at - block->at);
    struct claim claim = {.finding = FAKE_GPU_RACE,
                          .block = block,
                          .from = from,
                          .to = from + bytes,
                          .is_write = is_write,
                          .is_reported = op->is_reported,
                          .clock = &op->clock,
                          .by = op->access};
    check(&claim);
    op->is_reported = claim.is_reported;
    record(&claim);
    block->n_writes += is_write;
    if (is_write && block->is_host)
        fake_guard_data(op, block);
    return true;
}

void fake_access_free(struct fake_block *block, struct fake_access *by,
                      const struct fake_clock *clock)
{
    struct claim claim = {.finding = FAKE_GPU_FREE_IN_FLIGHT,
                          .block = block,
                          .from = 0,
                          .to = block->bytes,
                          .is_write = true,
                          .clock = clock,
                          .by = by};

    check(&claim);
    by->n_users++;
    block->freed = by;
    while (block->segments) {
        struct fake_segment *gone = block->segments;
        block->segments = gone->next;
        destroy_segment(gone);
    }
}

void fake_access_begin(struct fake_block *block, struct fake_access *by)
{
    struct claim claim = {
        .block = block, .from = 0, .to = block->bytes, .is_write = true, .by = by};

    put_write(&claim);
    block->segments->is_made = true;
}

void fake_access_host(struct fake_block *block, const void *at, size_t bytes, bool is_write)
{
    struct CUctx_st *context = block->context;
    const size_t from = (size_t)((const char *)at - block->at);
    struct fake_access *by =
        fake_access_create(context->host_agent, ++context->host_when, "the host");

    fake_clock_set(&context->host, context->host_agent, context->host_when);
    struct claim claim = {.finding = FAKE_GPU_RACE,
                          .block = block,
                          .from = from,
                          .to = from + bytes,
                          .is_write = is_write,
                          .clock = &context->host,
                          .by = by};
    check(&claim);
    record(&claim);
    fake_access_put(by);
}
