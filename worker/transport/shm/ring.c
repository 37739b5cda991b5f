/*
 * Control messages between ranks of one host. Each ordered pair of ranks has a ring, so each end of
 * a ring belongs to one thread at a time and needs no lock. A message is its length in 8 bytes and
 * its bytes, padded to 8. The part that does not fit waits in the sender's memory and follows at
 * its next call; the rings are large enough that this is rare.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/transport/shm/shm_internal.h"

#define MESSAGE_MAX ((size_t)1 << 30)
#define UNIT sizeof(uint64_t)
#define SHORT ((size_t)1024)

static size_t padded(size_t len)
{
    return (len + UNIT - 1) / UNIT * UNIT;
}

/* --- Sending ---------------------------------------------------------------------------------- */

/* Copies into the ring. The position counts all bytes ever written. */
static void copy_in(struct hvd_shm_ring *ring, size_t ring_bytes, uint64_t position,
                    const char *data, size_t len)
{
    const size_t at = (size_t)position & (ring_bytes - 1);
    const size_t first = len < ring_bytes - at ? len : ring_bytes - at;

    memcpy(ring->bytes + at, data, first);
    memcpy(ring->bytes, data + first, len - first);
}

static void copy_out(const struct hvd_shm_ring *ring, size_t ring_bytes, uint64_t position,
                     char *data, size_t len)
{
    const size_t at = (size_t)position & (ring_bytes - 1);
    const size_t first = len < ring_bytes - at ? len : ring_bytes - at;

    memcpy(data, ring->bytes + at, first);
    memcpy(data + first, ring->bytes, len - first);
}

/* A message, and the number of its bytes in the ring. */
struct progress {
    const char *data;
    size_t len;
    size_t n_sent; /* HEAD: not even its length */
};

#define HEAD SIZE_MAX

/* Puts as much of a message as fits into the ring to a rank; whether all of it is there. */
static bool push(struct hvd_shm *s, int to, struct progress *p)
{
    struct hvd_shm_ring *ring = hvd_shm_ring(s, s->base.topology.rank, to);
    const size_t ring_bytes = s->shape.ring_bytes;
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    size_t room =
        ring_bytes - (size_t)(written - atomic_load_explicit(&ring->read, memory_order_acquire));
    const uint64_t before = written;

    if (p->n_sent == HEAD && room >= UNIT) {
        const uint64_t head = p->len;
        copy_in(ring, ring_bytes, written, (const char *)&head, UNIT);
        written += UNIT;
        room -= UNIT;
        p->n_sent = 0;
    }
    if (p->n_sent < p->len && room > 0) {
        const size_t left = p->len - p->n_sent;
        const size_t n = left < room ? left : room;
        copy_in(ring, ring_bytes, written, p->data + p->n_sent, n);
        p->n_sent += n;
        written += p->n_sent == p->len ? padded(n) : n;
    }
    if (written != before) {
        atomic_store_explicit(&ring->written, written, memory_order_release);
        hvd_shm_ring_doorbell(s, to);
    }
    return p->n_sent == p->len;
}

static bool fits(const struct hvd_shm *s, int to, size_t len)
{
    const struct hvd_shm_ring *ring = hvd_shm_ring(s, s->base.topology.rank, to);
    const uint64_t used = atomic_load_explicit(&ring->written, memory_order_relaxed) -
                          atomic_load_explicit(&ring->read, memory_order_acquire);

    return padded(len) + UNIT <= s->shape.ring_bytes - (size_t)used;
}

hvd_status_t hvd_shm_send(struct hvd_transport *t, int to, const void *data, size_t len,
                          struct hvd_err *err)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_shm_letter *letter;

    if (len > MESSAGE_MAX)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "a control message of %zu bytes", len);
    if (s->is_lost[to])
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "rank %d is lost", s->names[to]);
    s->counts.messages++;
    hvd_shm_flush(s);
    if (!s->letters[to] && fits(s, to, len)) {
        push(s, to, &(struct progress){.data = data, .len = len, .n_sent = HEAD});
        return HVD_OK;
    }
    letter = hvd_malloc(sizeof(*letter) + len, 1);
    if (!letter)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message to rank %d", to);
    *letter = (struct hvd_shm_letter){.len = len, .n_sent = HEAD};
    memcpy(letter->data, data, len);
    struct hvd_shm_letter **at = &s->letters[to];
    while (*at)
        at = &(*at)->next;
    *at = letter;
    s->n_letters++;
    hvd_shm_flush(s);
    return HVD_OK;
}

/* Moves the letters to one rank into its ring, as far as they fit. */
static void flush_to(struct hvd_shm *s, int to)
{
    while (s->letters[to]) {
        struct hvd_shm_letter *letter = s->letters[to];
        struct progress p = {letter->data, letter->len, letter->n_sent};
        const bool is_sent = push(s, to, &p);
        letter->n_sent = p.n_sent;
        if (!is_sent)
            return;
        s->letters[to] = letter->next;
        s->n_letters--;
        hvd_free(letter);
    }
}

void hvd_shm_flush(struct hvd_shm *s)
{
    for (int to = 0; s->n_letters > 0 && to < s->shape.n_ranks; to++)
        flush_to(s, to);
}

/* --- Receiving -------------------------------------------------------------------------------- */

bool hvd_shm_has_mail(const struct hvd_shm *s)
{
    const int rank = s->base.topology.rank;

    for (int from = 0; from < s->shape.n_ranks; from++) {
        const struct hvd_shm_ring *ring = hvd_shm_ring(s, from, rank);
        if (from != rank && atomic_load_explicit(&ring->written, memory_order_acquire) !=
                                atomic_load_explicit(&ring->read, memory_order_relaxed))
            return true;
    }
    return false;
}

/* The size of a message's allocation: short ones have the same size, so that each can reuse the
 * memory of another. */
static size_t room_for(size_t len)
{
    return len < SHORT ? SHORT : len;
}

static char *take_room(struct hvd_shm *s, size_t len)
{
    for (size_t i = 0; i < HVD_SHM_KEPT; i++) {
        char *room = s->kept[i].data;
        if (!room || s->kept[i].bytes < room_for(len))
            continue;
        s->kept[i].data = NULL;
        s->kept[i].bytes = 0;
        return room;
    }
    return hvd_malloc(room_for(len), 1);
}

void hvd_shm_recycle(struct hvd_transport *t, struct hvd_inbound *in)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    const size_t bytes = room_for(in->len);
    struct hvd_shm_room *least = s->kept;

    for (size_t i = 1; i < HVD_SHM_KEPT; i++)
        if (s->kept[i].bytes < least->bytes)
            least = &s->kept[i];
    if (bytes > s->shape.ring_bytes || least->bytes >= bytes) {
        hvd_free(in->data);
    } else {
        hvd_free(least->data);
        *least = (struct hvd_shm_room){in->data, bytes};
    }
    in->data = NULL;
}

/* Takes the available bytes of the next message from a rank's ring; HVD_OK when it is complete. */
static hvd_status_t pull(struct hvd_shm *s, int from, struct hvd_err *err)
{
    struct hvd_shm_ring *ring = hvd_shm_ring(s, from, s->base.topology.rank);
    struct hvd_shm_arrival *a = &s->arrivals[from];
    const size_t ring_bytes = s->shape.ring_bytes;
    uint64_t at = atomic_load_explicit(&ring->read, memory_order_relaxed);
    size_t there = (size_t)(atomic_load_explicit(&ring->written, memory_order_acquire) - at);

    if (there == 0)
        return HVD_INPROGRESS;
    if (!a->data) {
        uint64_t len = 0;
        copy_out(ring, ring_bytes, at, (char *)&len, UNIT);
        if (len > MESSAGE_MAX)
            return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "the ring from rank %d is damaged", from);
        a->data = take_room(s, (size_t)len);
        if (!a->data)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for %zu bytes from rank %d",
                            (size_t)len, from);
        a->len = (size_t)len;
        a->n_received = 0;
        at += UNIT;
        there -= UNIT;
    }
    const size_t left = a->len - a->n_received;
    const size_t n = left < there ? left : there;
    copy_out(ring, ring_bytes, at, a->data + a->n_received, n);
    a->n_received += n;
    at += a->n_received == a->len ? padded(n) : n;
    atomic_store_explicit(&ring->read, at, memory_order_release);
    return a->n_received == a->len ? HVD_OK : HVD_INPROGRESS;
}

/* Reports each lost rank once, after all its messages. */
static hvd_status_t tell_lost(struct hvd_shm *s, struct hvd_inbound *in, struct hvd_err *err)
{
    for (int rank = 0; s->lost >= 0 && rank < s->shape.n_ranks; rank++) {
        if (!s->is_lost[rank] || s->is_told[rank])
            continue;
        s->is_told[rank] = true;
        *in = (struct hvd_inbound){.from = rank};
        return HVD_FAIL(err, HVD_ERR_GONE, 0, "rank %d: its process ended during the job",
                        s->names[rank]);
    }
    return HVD_INPROGRESS;
}

hvd_status_t hvd_shm_receive(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err)
{
    struct hvd_shm *s = (struct hvd_shm *)t;
    const int n_ranks = s->shape.n_ranks;

    if (s->n_letters > 0)
        hvd_shm_flush(s);
    for (int i = 0; i < n_ranks; i++) {
        const int from = s->next_sender;
        s->next_sender = from + 1 < n_ranks ? from + 1 : 0;
        if (from == t->topology.rank)
            continue;
        hvd_status_t st = pull(s, from, err);
        if (st == HVD_INPROGRESS)
            continue;
        if (st == HVD_OK) {
            struct hvd_shm_arrival *a = &s->arrivals[from];
            *in = (struct hvd_inbound){.from = from, .data = a->data, .len = a->len};
            *a = (struct hvd_shm_arrival){0};
        }
        return st;
    }
    hvd_status_t st = tell_lost(s, in, err); /* the rings are empty by now */
    if (st == HVD_INPROGRESS)
        hvd_shm_check_alive(s);
    return st;
}

void hvd_shm_letters_fini(struct hvd_shm *s)
{
    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        while (s->letters && s->letters[rank]) {
            struct hvd_shm_letter *next = s->letters[rank]->next;
            hvd_free(s->letters[rank]);
            s->letters[rank] = next;
        }
        if (s->arrivals)
            hvd_free(s->arrivals[rank].data);
    }
    s->n_letters = 0;
    for (size_t i = 0; i < HVD_SHM_KEPT; i++)
        hvd_free(s->kept[i].data);
    memset(s->kept, 0, sizeof(s->kept));
}
