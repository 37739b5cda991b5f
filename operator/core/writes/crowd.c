/*
 * One backoff for all repairs of a job that have no records of their own: see crowd.h. The log of
 * repairs, which the shell keeps, and contest.c use it. Pure but for the allocator.
 */
#include "operator/core/writes/crowd.h"

#include "base/mem.h"
#include "operator/core/view/hash.h"
#include "operator/core/writes/repair_internal.h"

#define N_BITS 262144u
#define N_HASHES 4
#define FOUGHT_ROUNDS 6 /* the sixth round is 2 minutes after the first */
#define WINDOW_MS 2000
#define LONGEST_MS 300000
#define BACK_MS 60000 /* a clock that was set back by more must not lengthen a wait */

struct hvd_crowd *hvd_crowd_create(int64_t now_ms)
{
    struct hvd_crowd *crowd = hvd_calloc(1, sizeof(*crowd));
    uint8_t *bits = hvd_calloc(N_BITS / 8, 1);

    if (!crowd || !bits) {
        hvd_free(crowd);
        hvd_free(bits);
        return NULL;
    }
    *crowd = (struct hvd_crowd){
        .bits = bits, .window_ms = now_ms, .round_ms = now_ms, .last_ms = now_ms, .n_rounds = 1};
    return crowd;
}

void hvd_crowd_destroy(struct hvd_crowd *crowd)
{
    if (crowd)
        hvd_free(crowd->bits);
    hvd_free(crowd);
}

/* The bit of the which-th hash of the write; a write has N_HASHES, each a part of one hash. */
static unsigned bit_of(uint64_t key, uint64_t value, unsigned which)
{
    const uint64_t hash =
        hvd_hash_number(hvd_hash_number(HVD_HASH_START, (int64_t)key), (int64_t)value);

    return (unsigned)(((hash >> 32) + which * (hash | 1)) % N_BITS);
}

bool hvd_crowd_has(const struct hvd_crowd *crowd, uint64_t key, uint64_t value)
{
    for (unsigned i = 0; i < N_HASHES; i++) {
        const unsigned bit = bit_of(key, value, i);

        if (!(crowd->bits[bit / 8] & (1u << (bit % 8))))
            return false;
    }
    return true;
}

static int64_t next_round_ms(const struct hvd_crowd *crowd)
{
    int64_t wait_ms = WINDOW_MS;

    for (unsigned i = 1; i < crowd->n_rounds && wait_ms < LONGEST_MS; i++)
        wait_ms *= 2;
    return crowd->round_ms + (wait_ms < LONGEST_MS ? wait_ms : LONGEST_MS);
}

int64_t hvd_crowd_due_ms(const struct hvd_crowd *crowd, bool is_repeated, unsigned n_planned,
                         int64_t now_ms)
{
    const bool is_open = now_ms < crowd->window_ms + WINDOW_MS;

    if (n_planned >= HVD_CROWD_EACH)
        return now_ms + WINDOW_MS;
    if (is_repeated)
        return next_round_ms(crowd);
    return is_open && crowd->n_first + n_planned >= HVD_CROWD_EACH ? crowd->window_ms + WINDOW_MS
                                                                   : now_ms;
}

static void note_repeated(struct hvd_crowd *crowd, int64_t now_ms)
{
    crowd->n_repeated++;
    if (now_ms < next_round_ms(crowd))
        return; /* it belongs to the current round */
    crowd->round_ms = now_ms;
    if (crowd->n_rounds < UINT16_MAX)
        crowd->n_rounds++;
}

void hvd_crowd_note(struct hvd_crowd *crowd, uint64_t key, uint64_t value, int64_t now_ms)
{
    crowd->last_ms = now_ms;
    if (hvd_crowd_has(crowd, key, value)) {
        note_repeated(crowd, now_ms);
        return;
    }
    for (unsigned i = 0; i < N_HASHES; i++) {
        const unsigned bit = bit_of(key, value, i);

        crowd->bits[bit / 8] |= (uint8_t)(1u << (bit % 8));
    }
    crowd->n_written++;
    if (now_ms >= crowd->window_ms + WINDOW_MS) {
        crowd->window_ms = now_ms;
        crowd->n_first = 0;
    }
    crowd->n_first++;
}

/* Some writes seem repeated and are not. */
bool hvd_crowd_is_fought(const struct hvd_crowd *crowd)
{
    return crowd->n_rounds >= FOUGHT_ROUNDS ||
           (crowd->n_repeated >= 16 && crowd->n_repeated >= crowd->n_written / 8);
}

int64_t hvd_crowd_calm_ms(const struct hvd_crowd *crowd)
{
    const int64_t due_ms = next_round_ms(crowd);

    return (due_ms > crowd->last_ms ? due_ms : crowd->last_ms) + HVD_REPAIR_CALM_MS;
}

bool hvd_crowd_is_calm(const struct hvd_crowd *crowd, int64_t now_ms)
{
    return now_ms + BACK_MS < crowd->last_ms || now_ms >= hvd_crowd_calm_ms(crowd);
}
