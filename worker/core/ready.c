/*
 * The coordinator's book of cached tensors; see ready.h. Pure. Counting a bit costs a few
 * instructions and no memory; memory is taken only when a slot is given out.
 */
#include "worker/core/ready.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/names.h"

#define LOOK_MAX 8 /* slots that hvd_ready_stale looks at */

struct slot {
    struct hvd_named named; /* first; in the map while in use */
    uint32_t index;
    uint32_t next_free; /* while not in use */
    bool is_live;
    bool may_join;
    bool is_complete; /* every rank has asked; waits for its group */
    uint64_t since;   /* bits of ranks that have not seen this plan mean something else */
    uint64_t last;    /* the plan that it was last ready in */
    int n_seen;       /* ranks that have asked */
    int64_t since_ns; /* when the first one did */
    bool is_reported;
    uint32_t group;      /* index of the first of its group + 1; 0: alone */
    uint32_t group_size; /* at the first: how many; elsewhere not used */
    uint32_t group_next; /* HVD_NO_SLOT behind the last */
    uint32_t group_last; /* at the first */
    uint32_t n_complete; /* at the first */
    char *name;          /* owned */
};

struct hvd_ready {
    int size;
    uint32_t capacity; /* slots at most */
    struct hvd_names names;
    struct slot **slots; /* by index; owned */
    uint32_t n_slots;    /* made so far */
    uint32_t room;       /* how many slots and bits the arrays hold; a multiple of 64 */
    uint32_t n_live;
    uint32_t first_free; /* HVD_NO_SLOT: none */
    uint32_t hand;       /* of hvd_ready_stale */
    uint64_t *seen;      /* by rank: room / 64 words */
    uint64_t *ready;
    uint32_t n_ready;
    bool *joined;
    int n_joined;
};

hvd_status_t hvd_ready_create(int size, uint32_t capacity, struct hvd_ready **out,
                              struct hvd_err *err)
{
    struct hvd_ready *r = hvd_calloc(1, sizeof(*r));
    bool *joined = hvd_calloc((size_t)size, sizeof(bool));

    if (!r || !joined) {
        hvd_free(r);
        hvd_free(joined);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the cache of tensors");
    }
    r->size = size;
    r->capacity = capacity < HVD_SLOTS_MAX ? capacity : HVD_SLOTS_MAX;
    r->joined = joined;
    r->first_free = HVD_NO_SLOT;
    *out = r;
    return HVD_OK;
}

void hvd_ready_destroy(struct hvd_ready *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        if (r->slots[i]->is_live)
            hvd_names_remove(&r->names, &r->slots[i]->named);
        hvd_free(r->slots[i]->name);
        hvd_free(r->slots[i]);
    }
    hvd_free(r->slots);
    hvd_free(r->seen);
    hvd_free(r->ready);
    hvd_free(r->joined);
    hvd_free(r);
}

uint32_t hvd_ready_find(const struct hvd_ready *r, struct hvd_strview name)
{
    const struct slot *s = (const struct slot *)hvd_names_find(&r->names, name);

    return s ? s->index : HVD_NO_SLOT;
}

uint32_t hvd_ready_room(const struct hvd_ready *r)
{
    return r->capacity - r->n_live;
}

/* Twice as many slots and bits. */
static bool grow(struct hvd_ready *r)
{
    const uint32_t room = r->room ? r->room * 2 : 64;
    const size_t words = room / 64;
    const size_t old = r->room / 64;
    struct slot **slots = hvd_realloc(r->slots, room, sizeof(struct slot *));

    if (!slots)
        return false;
    r->slots = slots;
    uint64_t *ready = hvd_calloc(words, sizeof(*ready));
    uint64_t *seen = hvd_calloc(words * (size_t)r->size, sizeof(*seen));
    if (!ready || !seen) {
        hvd_free(ready);
        hvd_free(seen);
        return false;
    }
    for (size_t i = 0; i < old; i++)
        ready[i] = r->ready[i];
    for (size_t rank = 0; rank < (size_t)r->size; rank++)
        for (size_t i = 0; i < old; i++)
            seen[rank * words + i] = r->seen[rank * old + i];
    hvd_free(r->ready);
    hvd_free(r->seen);
    r->ready = ready;
    r->seen = seen;
    r->room = room;
    return true;
}

/* A slot that is not in use; HVD_NO_SLOT when out of memory. */
static uint32_t find_free(struct hvd_ready *r)
{
    if (r->first_free != HVD_NO_SLOT)
        return r->first_free;
    if (r->n_slots == r->room && !grow(r))
        return HVD_NO_SLOT;
    struct slot *s = hvd_calloc(1, sizeof(*s));
    if (!s)
        return HVD_NO_SLOT;
    s->next_free = HVD_NO_SLOT;
    r->slots[r->n_slots] = s;
    r->first_free = r->n_slots;
    return r->n_slots++;
}

static void enter_group(struct hvd_ready *r, uint32_t index, const struct hvd_ready_tensor *tensor)
{
    struct slot *s = r->slots[index];

    s->group_next = HVD_NO_SLOT;
    if (tensor->group == 0)
        return;
    s->group = tensor->group == HVD_NO_SLOT ? index + 1 : tensor->group;
    struct slot *first = r->slots[s->group - 1];
    if (first == s) {
        s->group_size = tensor->group_size;
    } else {
        r->slots[first->group_last]->group_next = index;
    }
    first->group_last = index;
}

hvd_status_t hvd_ready_assign(struct hvd_ready *r, const struct hvd_ready_tensor *tensor,
                              uint64_t epoch, uint32_t *slot)
{
    if (r->n_live >= r->capacity) {
        *slot = HVD_NO_SLOT;
        return HVD_OK;
    }
    char *name = hvd_strndup(tensor->name.data, tensor->name.len);
    uint32_t index = name ? find_free(r) : HVD_NO_SLOT;
    if (index == HVD_NO_SLOT) {
        hvd_free(name);
        return HVD_ERR_NOMEM;
    }
    struct slot *s = r->slots[index];
    const uint32_t next_free = s->next_free;
    hvd_free(s->name);
    *s = (struct slot){.index = index,
                       .next_free = next_free,
                       .name = name,
                       .may_join = tensor->may_join,
                       .since = epoch,
                       .last = epoch};
    if (!hvd_names_add(&r->names, (struct hvd_strview){.data = name, .len = tensor->name.len},
                       &s->named))
        return HVD_ERR_NOMEM;
    r->first_free = next_free;
    s->is_live = true;
    r->n_live++;
    enter_group(r, index, tensor);
    *slot = index;
    return HVD_OK;
}

uint32_t hvd_ready_group_first(const struct hvd_ready *r, uint32_t slot)
{
    const uint32_t group = r->slots[slot]->group;

    return group == 0 ? slot : group - 1;
}

uint32_t hvd_ready_group_next(const struct hvd_ready *r, uint32_t slot)
{
    return r->slots[slot]->group_next;
}

static uint64_t *seen_word(const struct hvd_ready *r, int rank, uint32_t slot)
{
    return &r->seen[(size_t)rank * (r->room / 64) + slot / 64];
}

static uint64_t bit_of(uint32_t slot)
{
    return (uint64_t)1 << (slot % 64);
}

void hvd_ready_evict(struct hvd_ready *r, uint32_t slot, uint64_t epoch)
{
    struct slot *s = r->slots[slot];

    hvd_names_remove(&r->names, &s->named);
    s->is_live = false;
    s->is_complete = false;
    s->n_seen = 0;
    s->since = epoch;
    s->next_free = r->first_free;
    r->first_free = slot;
    r->n_live--;
    for (int rank = 0; rank < r->size; rank++)
        *seen_word(r, rank, slot) &= ~bit_of(slot);
    if (r->ready[slot / 64] & bit_of(slot)) {
        r->ready[slot / 64] &= ~bit_of(slot);
        r->n_ready--;
    }
}

uint32_t hvd_ready_stale(struct hvd_ready *r, uint64_t epoch, uint64_t age)
{
    for (int i = 0; i < LOOK_MAX && r->n_slots > 0; i++) {
        r->hand = (r->hand + 1) % r->n_slots;
        const struct slot *s = r->slots[r->hand];
        if (s->is_live && s->n_seen == 0 && !s->is_complete && s->last + age <= epoch)
            return r->hand;
    }
    return HVD_NO_SLOT;
}

uint32_t hvd_ready_not_joinable(const struct hvd_ready *r)
{
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i]->is_live && !r->slots[i]->may_join)
            return i;
    return HVD_NO_SLOT;
}

static void set_ready(struct hvd_ready *r, uint32_t slot)
{
    r->ready[slot / 64] |= bit_of(slot);
    r->n_ready++;
}

/* Every rank has asked for the slot. */
static void complete(struct hvd_ready *r, uint32_t slot)
{
    struct slot *s = r->slots[slot];

    s->is_complete = true;
    if (s->group == 0) {
        set_ready(r, slot);
        return;
    }
    struct slot *first = r->slots[s->group - 1];
    if (++first->n_complete < first->group_size)
        return;
    for (uint32_t i = s->group - 1; i != HVD_NO_SLOT; i = r->slots[i]->group_next)
        set_ready(r, i);
}

/* Completes the slot when nobody is missing. */
static void check_complete(struct hvd_ready *r, uint32_t slot)
{
    int n = r->slots[slot]->n_seen;

    for (int rank = 0; r->n_joined > 0 && rank < r->size; rank++)
        n += r->joined[rank] && !(*seen_word(r, rank, slot) & bit_of(slot));
    if (n == r->size && !r->slots[slot]->is_complete)
        complete(r, slot);
}

/* Who asks, and what of. */
struct asking {
    int rank;
    uint64_t epoch;
    int64_t now_ns;
};

static hvd_status_t mark(struct hvd_ready *r, const struct asking *who, uint32_t slot,
                         struct hvd_err *err)
{
    const int rank = who->rank;
    struct slot *s = slot < r->n_slots ? r->slots[slot] : NULL;

    if (!s)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d asked for slot %u, which was never given",
                        rank, slot);
    if (!s->is_live || who->epoch < s->since)
        return HVD_OK;
    uint64_t *word = seen_word(r, rank, slot);
    if (*word & bit_of(slot))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d asked twice for tensor %s", rank,
                        s->name);
    *word |= bit_of(slot);
    if (s->n_seen++ == 0)
        s->since_ns = who->now_ns;
    if (s->n_seen + r->n_joined >= r->size)
        check_complete(r, slot);
    return HVD_OK;
}

hvd_status_t hvd_ready_bits(struct hvd_ready *r, int rank, const struct hvd_reader *bits,
                            int64_t now_ns, struct hvd_err *err)
{
    const struct asking who = {.rank = rank, .epoch = bits->epoch, .now_ns = now_ns};
    hvd_status_t st = HVD_OK;

    for (uint32_t w = 0; w < bits->n_words; w++) {
        uint64_t word = hvd_reader_word(bits, w);
        for (; word != 0 && st == HVD_OK; word &= word - 1)
            st = mark(r, &who, w * 64 + (uint32_t)__builtin_ctzll(word), err);
    }
    return st;
}

void hvd_ready_join(struct hvd_ready *r, int rank)
{
    if (r->joined[rank])
        return;
    r->joined[rank] = true;
    r->n_joined++;
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i]->is_live && r->slots[i]->n_seen > 0)
            check_complete(r, i);
}

void hvd_ready_unjoin(struct hvd_ready *r)
{
    memset(r->joined, 0, (size_t)r->size * sizeof(bool));
    r->n_joined = 0;
}

bool hvd_ready_has_joined(const struct hvd_ready *r, int rank)
{
    return r->joined[rank];
}

const uint64_t *hvd_ready_words(const struct hvd_ready *r, uint32_t *n_words)
{
    *n_words = r->n_ready > 0 ? (r->n_slots + 63) / 64 : 0;
    return r->n_ready > 0 ? r->ready : NULL;
}

void hvd_ready_take(struct hvd_ready *r, uint64_t epoch)
{
    const uint32_t n_words = (r->n_slots + 63) / 64;

    for (uint32_t w = 0; w < n_words && r->n_ready > 0; w++) {
        uint64_t word = r->ready[w];
        if (word == 0)
            continue;
        for (int rank = 0; rank < r->size; rank++)
            r->seen[(size_t)rank * (r->room / 64) + w] &= ~word;
        for (; word != 0; word &= word - 1) {
            struct slot *s = r->slots[w * 64 + (uint32_t)__builtin_ctzll(word)];
            s->n_seen = 0;
            s->n_complete = 0;
            s->is_complete = false;
            s->is_reported = false;
            s->last = epoch;
        }
        r->ready[w] = 0;
    }
    r->n_ready = 0;
}

bool hvd_ready_is_missing(const struct hvd_ready *r, uint32_t slot, int rank)
{
    return !r->joined[rank] && !(*seen_word(r, rank, slot) & bit_of(slot));
}

bool hvd_ready_next_stall(const struct hvd_ready *r, uint32_t from, struct hvd_ready_stall *stall)
{
    for (uint32_t i = from; i < r->n_slots; i++) {
        struct slot *s = r->slots[i];
        if (!s->is_live || s->n_seen == 0 || s->is_complete)
            continue;
        *stall = (struct hvd_ready_stall){
            .slot = i, .name = s->name, .since_ns = s->since_ns, .is_reported = &s->is_reported};
        return true;
    }
    return false;
}

size_t hvd_ready_waiting(const struct hvd_ready *r)
{
    struct hvd_ready_stall stall = {0};
    size_t n = 0;

    for (uint32_t from = 0; hvd_ready_next_stall(r, from, &stall); from = stall.slot + 1)
        n++;
    return n;
}
