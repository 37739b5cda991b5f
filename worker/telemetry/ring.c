/*
 * A bounded queue of records of one or more 64-byte cells:
 *
 *     cell:  n_cells (0: not written yet) | event | shape, name ... | continued in the next cells
 *
 * A producer reserves cells by moving `head` (compare and swap), writes them, and publishes them by
 * storing n_cells last. The reader zeroes what it has read before it moves `tail`, so a reserved
 * cell is always "not written yet", whatever it held before.
 */
#include "worker/telemetry/ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

#define CELL_BYTES 64
#define LINE 128 /* two cache lines: the processor fetches neighbours in pairs */
#define HEAD_BYTES (offsetof(struct cell, payload))

struct cell {
    atomic_uint n_cells;
    struct hvd_event event;
    char payload[CELL_BYTES - sizeof(atomic_uint) - 4 - sizeof(struct hvd_event)];
};

_Static_assert(sizeof(struct cell) == CELL_BYTES, "a slot is a cache line");

/* The fields that producers share, that the reader publishes and that only the reader uses lie in
 * separate cache lines. */
struct hvd_ring {
    void *memory; /* owned; the cells are in it, aligned */
    struct cell *cells;
    uint64_t n_cells;
    char apart_1[LINE];
    atomic_uint_fast64_t head; /* cells reserved, ever */
    atomic_uint_fast64_t n_dropped;
    char apart_2[LINE];
    atomic_uint_fast64_t tail; /* cells read and zeroed, ever */
    char apart_3[LINE];
    uint64_t read; /* cells read, ever */
    uint64_t told; /* the value of tail: the reader updates it an eighth of the ring at a time */
};

hvd_status_t hvd_ring_create(uint64_t n_cells, struct hvd_ring **out)
{
    struct hvd_ring *ring = hvd_calloc(1, sizeof(*ring));

    if (!ring)
        return HVD_ERR_NOMEM;
    ring->memory = hvd_calloc(n_cells + 1, sizeof(*ring->cells));
    if (!ring->memory) {
        hvd_free(ring);
        return HVD_ERR_NOMEM;
    }
    const size_t past = (uintptr_t)ring->memory % CELL_BYTES;
    void *aligned = (char *)ring->memory + (past ? CELL_BYTES - past : 0);
    ring->cells = aligned;
    ring->n_cells = n_cells;
    *out = ring;
    return HVD_OK;
}

void hvd_ring_destroy(struct hvd_ring *ring)
{
    if (!ring)
        return;
    hvd_free(ring->memory);
    hvd_free(ring);
}

/* Copies into a record's payload. Its first bytes are in its own cell; the rest fills whole cells,
 * which may wrap around to the beginning of the ring. */
static void copy_in(struct hvd_ring *ring, uint64_t first, size_t at, const void *data, size_t len)
{
    const char *from = data;

    while (len > 0) {
        const uint64_t cell = first + (at + HEAD_BYTES) / CELL_BYTES;
        const size_t in_cell = (at + HEAD_BYTES) % CELL_BYTES;
        const size_t n = len < CELL_BYTES - in_cell ? len : CELL_BYTES - in_cell;
        memcpy((char *)&ring->cells[cell & (ring->n_cells - 1)] + in_cell, from, n);
        from += n;
        at += n;
        len -= n;
    }
}

static void copy_out(const struct hvd_ring *ring, size_t at, void *data, size_t len)
{
    char *to = data;

    while (len > 0) {
        const uint64_t cell = ring->read + (at + HEAD_BYTES) / CELL_BYTES;
        const size_t in_cell = (at + HEAD_BYTES) % CELL_BYTES;
        const size_t n = len < CELL_BYTES - in_cell ? len : CELL_BYTES - in_cell;
        memcpy(to, (const char *)&ring->cells[cell & (ring->n_cells - 1)] + in_cell, n);
        to += n;
        at += n;
        len -= n;
    }
}

bool hvd_ring_put(struct hvd_ring *ring, const struct hvd_event *event, const int64_t *shape,
                  const char *name, bool *wants_reader)
{
    const size_t shape_bytes = event->ndim * sizeof(*shape);
    const size_t bytes = HEAD_BYTES + shape_bytes + event->name_len;
    const uint64_t n = (bytes + CELL_BYTES - 1) / CELL_BYTES;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    do {
        if (head + n - atomic_load_explicit(&ring->tail, memory_order_acquire) > ring->n_cells) {
            atomic_fetch_add_explicit(&ring->n_dropped, 1, memory_order_relaxed);
            *wants_reader = true;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    struct cell *cell = &ring->cells[head & (ring->n_cells - 1)];
    cell->event = *event;
    copy_in(ring, head, 0, shape, shape_bytes);
    copy_in(ring, head, shape_bytes, name, event->name_len);
    atomic_store_explicit(&cell->n_cells, (unsigned)n, memory_order_release);
    if ((head ^ (head + n)) & (ring->n_cells / 4))
        *wants_reader = true;
    return true;
}

static void release(struct hvd_ring *ring)
{
    atomic_store_explicit(&ring->tail, ring->read, memory_order_release);
    ring->told = ring->read;
}

bool hvd_ring_take(struct hvd_ring *ring, struct hvd_note *note)
{
    struct cell *cell = &ring->cells[ring->read & (ring->n_cells - 1)];
    const unsigned n = atomic_load_explicit(&cell->n_cells, memory_order_acquire);

    if (n == 0) {
        if (ring->told != ring->read)
            release(ring);
        return false;
    }
    const size_t shape_bytes = cell->event.ndim * sizeof(note->shape[0]);
    note->event = cell->event;
    copy_out(ring, 0, note->shape, shape_bytes);
    copy_out(ring, shape_bytes, note->name, note->event.name_len);
    note->name[note->event.name_len] = '\0';
    for (unsigned i = 0; i < n; i++) {
        struct cell *used = &ring->cells[(ring->read + i) & (ring->n_cells - 1)];
        memset(used, 0, sizeof(*used));
    }
    ring->read += n;
    if (ring->read - ring->told >= ring->n_cells / 8)
        release(ring);
    return true;
}

uint64_t hvd_ring_dropped(const struct hvd_ring *ring)
{
    return atomic_load_explicit(&ring->n_dropped, memory_order_relaxed);
}
