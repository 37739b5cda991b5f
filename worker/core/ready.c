/*
 * The coordinator's book of cached tensors; see ready.h. Pure. Allocates only when a slot is
 * assigned.
 *
 * Requests are counted for 64 slots at once. Plane p holds bit p of the counters of all 64 slots,
 * so adding a word of requests propagates a carry through the planes. Slots in groups are counted
 * one by one, and so are all slots while a branch has joined.
 *
 * In this file, a rank is the number of a branch.
 */
#include "worker/core/ready.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/core/names.h"

#define LOOK_MAX 8 /* slots that one hvd_ready_stale checks */

struct slot {
    struct hvd_named named; /* first, so that pointers convert; in the map while in use */
    uint32_t index;
    uint32_t next_free; /* while the slot is free */
    bool may_join;
    uint64_t since;      /* the plan that changed the slot; older bits had another meaning */
    uint32_t group;      /* index of the group's first slot + 1; 0: no group */
    uint32_t group_size; /* at the group's first slot: the number of slots; elsewhere unused */
    uint32_t group_next; /* HVD_CACHE_NO_SLOT behind the last */
    uint32_t group_last; /* at the group's first slot */
    uint32_t n_complete; /* at the group's first slot */
    char *name;          /* owned */
};

/* 64 slots. */
struct page {
    uint64_t live;
    uint64_t grouped;
    uint64_t begun;    /* some rank of a branch has requested it, but not the whole branch */
    uint64_t complete; /* every branch has requested it; in a group it may wait for the others */
    bool is_reported[64];
    uint64_t last[64];      /* the last plan that contained it, or assigned it */
    int64_t since_ns[64];   /* when the first request came */
    struct slot *slots[64]; /* owned */
};

struct hvd_ready {
    int size;
    int n_planes;
    uint32_t capacity; /* maximum number of slots */
    struct hvd_names names;
    uint32_t n_slots; /* created so far */
    uint32_t n_words; /* words of 64 slots that the arrays have room for */
    uint32_t n_live;
    uint32_t first_free; /* HVD_CACHE_NO_SLOT: none */
    uint32_t hand;       /* where the next hvd_ready_stale starts */
    uint64_t changed;    /* the last plan that assigned or evicted a slot */
    struct page *pages;  /* n_words; owned, as all arrays below */
    uint64_t *planes;    /* n_planes of them for each word */
    uint64_t *seen;      /* n_words by rank */
    uint64_t *ready;     /* n_words */
    bool has_ready;      /* some bit of `ready` is set */
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
    for (r->n_planes = 1; size >> r->n_planes; r->n_planes++)
        ;
    r->capacity = capacity < HVD_CACHE_SLOTS_MAX ? capacity : HVD_CACHE_SLOTS_MAX;
    r->joined = joined;
    r->first_free = HVD_CACHE_NO_SLOT;
    *out = r;
    return HVD_OK;
}

static uint64_t bit_of(uint32_t slot)
{
    return (uint64_t)1 << (slot % 64);
}

static struct page *page_of(const struct hvd_ready *r, uint32_t slot)
{
    return &r->pages[slot / 64];
}

static struct slot *slot_at(const struct hvd_ready *r, uint32_t slot)
{
    return page_of(r, slot)->slots[slot % 64];
}

static bool is_live(const struct hvd_ready *r, uint32_t slot)
{
    return slot < r->n_slots && (r->pages[slot / 64].live & bit_of(slot));
}

void hvd_ready_destroy(struct hvd_ready *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        if (is_live(r, i))
            hvd_names_remove(&r->names, &slot_at(r, i)->named);
        hvd_free(slot_at(r, i)->name);
        hvd_free(slot_at(r, i));
    }
    hvd_free(r->pages);
    hvd_free(r->planes);
    hvd_free(r->seen);
    hvd_free(r->ready);
    hvd_free(r->joined);
    hvd_free(r);
}

uint32_t hvd_ready_find(const struct hvd_ready *r, struct hvd_strview name)
{
    const struct slot *s = (const struct slot *)hvd_names_find(&r->names, hvd_group_name_key(name));

    return s ? s->index : HVD_CACHE_NO_SLOT;
}

uint32_t hvd_ready_room(const struct hvd_ready *r)
{
    return r->capacity - r->n_live;
}

/* Extends the array by zeroed elements of `each` bytes. Returns NULL when out of memory; the
 * array is unchanged. */
static void *extend(void *array, size_t old, size_t new, size_t each)
{
    char *grown = hvd_realloc(array, new, each);

    if (grown)
        memset(grown + old * each, 0, (new - old) * each);
    return grown;
}

/* Returns a copy of `seen` with more words for each branch, and frees the old one; NULL when out
 * of memory. */
static uint64_t *extend_seen(struct hvd_ready *r, size_t n_words)
{
    const size_t old = r->n_words;
    uint64_t *seen = hvd_calloc(n_words * (size_t)r->size, sizeof(*seen));

    if (!seen)
        return NULL;
    for (size_t rank = 0; rank < (size_t)r->size && old > 0; rank++)
        memcpy(seen + rank * n_words, r->seen + rank * old, old * sizeof(*seen));
    hvd_free(r->seen);
    return seen;
}

/* Doubles the number of slots. If one array cannot grow, the larger ones before it do no harm. */
static bool grow(struct hvd_ready *r)
{
    const uint32_t n = r->n_words ? r->n_words * 2 : 1;
    const size_t planes = (size_t)r->n_planes * sizeof(*r->planes);
    void *grown = extend(r->pages, r->n_words, n, sizeof(*r->pages));

    if (!grown)
        return false;
    r->pages = grown;
    grown = extend(r->planes, r->n_words, n, planes);
    if (!grown)
        return false;
    r->planes = grown;
    grown = extend(r->ready, r->n_words, n, sizeof(*r->ready));
    if (!grown)
        return false;
    r->ready = grown;
    grown = extend_seen(r, n);
    if (!grown)
        return false;
    r->seen = grown;
    r->n_words = n;
    return true;
}

/* Returns a free slot; HVD_CACHE_NO_SLOT when out of memory. */
static uint32_t find_free(struct hvd_ready *r)
{
    if (r->first_free != HVD_CACHE_NO_SLOT)
        return r->first_free;
    if (r->n_slots == r->n_words * 64 && !grow(r))
        return HVD_CACHE_NO_SLOT;
    struct slot *s = hvd_calloc(1, sizeof(*s));
    if (!s)
        return HVD_CACHE_NO_SLOT;
    s->next_free = HVD_CACHE_NO_SLOT;
    page_of(r, r->n_slots)->slots[r->n_slots % 64] = s;
    r->first_free = r->n_slots;
    return r->n_slots++;
}

static void enter_group(struct hvd_ready *r, uint32_t index, const struct hvd_ready_tensor *tensor)
{
    struct slot *s = slot_at(r, index);

    s->group_next = HVD_CACHE_NO_SLOT;
    if (tensor->group == 0)
        return;
    r->pages[index / 64].grouped |= bit_of(index);
    s->group = tensor->group == HVD_CACHE_NO_SLOT ? index + 1 : tensor->group;
    struct slot *first = slot_at(r, s->group - 1);
    if (first == s) {
        s->group_size = tensor->group_size;
    } else {
        slot_at(r, first->group_last)->group_next = index;
    }
    first->group_last = index;
}

hvd_status_t hvd_ready_assign(struct hvd_ready *r, const struct hvd_ready_tensor *tensor,
                              uint64_t epoch, uint32_t *slot)
{
    if (r->n_live >= r->capacity) {
        *slot = HVD_CACHE_NO_SLOT;
        return HVD_OK;
    }
    char *name = hvd_strndup(tensor->name.data, tensor->name.len);
    uint32_t index = name ? find_free(r) : HVD_CACHE_NO_SLOT;
    if (index == HVD_CACHE_NO_SLOT) {
        hvd_free(name);
        return HVD_ERR_NOMEM;
    }
    struct slot *s = slot_at(r, index);
    const uint32_t next_free = s->next_free;
    hvd_free(s->name);
    *s = (struct slot){.index = index,
                       .next_free = next_free,
                       .name = name,
                       .may_join = tensor->may_join,
                       .since = epoch};
    const struct hvd_strview copy = {.data = name, .len = tensor->name.len};
    if (!hvd_names_add(&r->names, hvd_group_name_key(copy), &s->named))
        return HVD_ERR_NOMEM;
    r->first_free = next_free;
    r->pages[index / 64].live |= bit_of(index);
    page_of(r, index)->last[index % 64] = epoch;
    r->changed = epoch;
    r->n_live++;
    enter_group(r, index, tensor);
    *slot = index;
    return HVD_OK;
}

uint32_t hvd_ready_group_first(const struct hvd_ready *r, uint32_t slot)
{
    const uint32_t group = slot_at(r, slot)->group;

    return group == 0 ? slot : group - 1;
}

uint32_t hvd_ready_group_next(const struct hvd_ready *r, uint32_t slot)
{
    return slot_at(r, slot)->group_next;
}

static uint64_t *seen_word(const struct hvd_ready *r, int rank, uint32_t slot)
{
    return &r->seen[(size_t)rank * r->n_words + slot / 64];
}

static uint64_t *planes_of(const struct hvd_ready *r, uint32_t word)
{
    return &r->planes[(size_t)word * (size_t)r->n_planes];
}

/* Returns the slots of a word that some branch has requested. */
static uint64_t any_seen(const struct hvd_ready *r, uint32_t word)
{
    uint64_t any = 0;

    for (int p = 0; p < r->n_planes; p++)
        any |= planes_of(r, word)[p];
    return any;
}

/* Counts another branch's requests for these slots; returns those that all branches have
 * requested now. */
static uint64_t count_word(struct hvd_ready *r, uint32_t word, uint64_t bits)
{
    uint64_t *planes = planes_of(r, word);
    uint64_t full = bits;
    uint64_t carry = bits;

    for (int p = 0; p < r->n_planes; p++) {
        const uint64_t plane = planes[p];
        planes[p] = plane ^ carry;
        carry &= plane;
        full &= r->size >> p & 1 ? planes[p] : ~planes[p];
    }
    return full;
}

/* Returns how many branches have requested the slot. */
static int n_seen(const struct hvd_ready *r, uint32_t slot)
{
    int n = 0;

    for (int p = 0; p < r->n_planes; p++)
        n |= (int)(planes_of(r, slot / 64)[p] >> (slot % 64) & 1) << p;
    return n;
}

/* Clears all requests for these slots of a word. */
static void forget_word(struct hvd_ready *r, uint32_t word, uint64_t bits)
{
    for (int rank = 0; rank < r->size; rank++)
        r->seen[(size_t)rank * r->n_words + word] &= ~bits;
    for (int p = 0; p < r->n_planes; p++)
        planes_of(r, word)[p] &= ~bits;
    r->pages[word].begun &= ~bits;
    r->pages[word].complete &= ~bits;
    r->ready[word] &= ~bits;
}

static bool is_any_ready(const struct hvd_ready *r)
{
    uint64_t any = 0;

    for (uint32_t w = 0; w < r->n_words; w++)
        any |= r->ready[w];
    return any != 0;
}

void hvd_ready_evict(struct hvd_ready *r, uint32_t slot, uint64_t epoch)
{
    struct slot *s = slot_at(r, slot);
    struct page *page = &r->pages[slot / 64];

    hvd_names_remove(&r->names, &s->named);
    forget_word(r, slot / 64, bit_of(slot));
    r->has_ready = r->has_ready && is_any_ready(r);
    page->live &= ~bit_of(slot);
    page->grouped &= ~bit_of(slot);
    page_of(r, slot)->is_reported[slot % 64] = false;
    s->since = epoch;
    r->changed = epoch;
    s->next_free = r->first_free;
    r->first_free = slot;
    r->n_live--;
}

uint32_t hvd_ready_stale(struct hvd_ready *r, uint64_t epoch, uint64_t age)
{
    for (int i = 0; i < LOOK_MAX && r->n_slots > 0; i++) {
        r->hand = (r->hand + 1) % r->n_slots;
        if (is_live(r, r->hand) && n_seen(r, r->hand) == 0 &&
            !((r->pages[r->hand / 64].complete | r->pages[r->hand / 64].begun) & bit_of(r->hand)) &&
            page_of(r, r->hand)->last[r->hand % 64] + age <= epoch)
            return r->hand;
    }
    return HVD_CACHE_NO_SLOT;
}

uint32_t hvd_ready_not_joinable(const struct hvd_ready *r)
{
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (is_live(r, i) && !slot_at(r, i)->may_join)
            return i;
    return HVD_CACHE_NO_SLOT;
}

/* Puts slots of a word into the next plan. */
static void set_ready(struct hvd_ready *r, uint32_t word, uint64_t bits)
{
    r->ready[word] |= bits;
    r->has_ready = r->has_ready || bits != 0;
}

/* Completes a slot that every branch has requested. A group becomes ready with its last slot. */
static void complete(struct hvd_ready *r, uint32_t slot)
{
    const struct slot *s = slot_at(r, slot);

    r->pages[slot / 64].complete |= bit_of(slot);
    if (s->group == 0) {
        set_ready(r, slot / 64, bit_of(slot));
        return;
    }
    struct slot *first = slot_at(r, s->group - 1);
    if (++first->n_complete < first->group_size)
        return;
    for (uint32_t i = s->group - 1; i != HVD_CACHE_NO_SLOT; i = slot_at(r, i)->group_next)
        set_ready(r, i / 64, bit_of(i));
}

/* Completes the slot when no branch is missing. */
static void check_complete(struct hvd_ready *r, uint32_t slot)
{
    int n = n_seen(r, slot);

    for (int rank = 0; r->n_joined > 0 && rank < r->size; rank++)
        n += r->joined[rank] && !(*seen_word(r, rank, slot) & bit_of(slot));
    if (n == r->size && !(r->pages[slot / 64].complete & bit_of(slot)))
        complete(r, slot);
}

/* The branch that makes requests, and the plan to which its bits refer. */
struct asking {
    int rank;
    uint64_t epoch;
    int64_t now_ns;
};

/* Records the time of the first request for these slots of a word. */
static void note_time(struct hvd_ready *r, uint32_t word, uint64_t bits, int64_t now_ns)
{
    struct page *page = &r->pages[word];

    for (bits &= ~page->begun; bits != 0; bits &= bits - 1)
        page->since_ns[__builtin_ctzll(bits)] = now_ns;
}

/* Records a request for one slot. */
static hvd_status_t mark(struct hvd_ready *r, const struct asking *who, uint32_t slot,
                         struct hvd_err *err)
{
    if (slot >= r->n_slots)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "slot %u was asked for, which was never given",
                        slot);
    if (!is_live(r, slot) || who->epoch < slot_at(r, slot)->since)
        return HVD_OK;
    uint64_t *word = seen_word(r, who->rank, slot);
    if (*word & bit_of(slot))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "tensor %s was asked for twice",
                        slot_at(r, slot)->name);
    *word |= bit_of(slot);
    note_time(r, slot / 64, bit_of(slot) & ~any_seen(r, slot / 64), who->now_ns);
    const uint64_t full = count_word(r, slot / 64, bit_of(slot));
    if (full != 0 || r->n_joined > 0)
        check_complete(r, slot);
    return HVD_OK;
}

/* Records requests for all slots of a word at once; false when they must be recorded one by one. */
static bool mark_word(struct hvd_ready *r, const struct asking *who, uint32_t w, uint64_t bits)
{
    if (w >= r->n_words || who->epoch < r->changed || r->n_joined > 0)
        return false;
    struct page *page = &r->pages[w];
    uint64_t *seen = &r->seen[(size_t)who->rank * r->n_words + w];
    if ((bits & ~page->live) || (bits & page->grouped) || (bits & *seen))
        return false;
    *seen |= bits;
    note_time(r, w, bits & ~any_seen(r, w), who->now_ns);
    const uint64_t full = count_word(r, w, bits);
    page->complete |= full;
    set_ready(r, w, full);
    return true;
}

hvd_status_t hvd_ready_bits(struct hvd_ready *r, int rank, const struct hvd_reader *bits,
                            int64_t now_ns, struct hvd_err *err)
{
    const struct asking who = {.rank = rank, .epoch = bits->epoch, .now_ns = now_ns};
    hvd_status_t st = HVD_OK;

    for (uint32_t w = 0; w < bits->n_words; w++) {
        uint64_t word = hvd_message_word(bits, w);
        if (word == 0 || mark_word(r, &who, w, word))
            continue;
        for (; word != 0 && st == HVD_OK; word &= word - 1)
            st = mark(r, &who, w * 64 + (uint32_t)__builtin_ctzll(word), err);
    }
    return st;
}

bool hvd_ready_begin(struct hvd_ready *r, uint32_t slot, uint64_t epoch, int64_t since_ns)
{
    if (slot >= r->n_slots || !is_live(r, slot) || epoch < slot_at(r, slot)->since)
        return false;
    struct page *page = &r->pages[slot / 64];
    int64_t *since = &page->since_ns[slot % 64];
    if ((page->complete & bit_of(slot)) || epoch < page->last[slot % 64])
        return false;
    if (!((any_seen(r, slot / 64) | page->begun) & bit_of(slot)) || since_ns < *since)
        *since = since_ns;
    page->begun |= bit_of(slot);
    return true;
}

void hvd_ready_join(struct hvd_ready *r, int rank)
{
    if (r->joined[rank])
        return;
    r->joined[rank] = true;
    r->n_joined++;
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (is_live(r, i) && n_seen(r, i) > 0)
            check_complete(r, i);
}

void hvd_ready_unjoin(struct hvd_ready *r)
{
    memset(r->joined, 0, (size_t)r->size * sizeof(bool));
    r->n_joined = 0;
}

const uint64_t *hvd_ready_words(const struct hvd_ready *r, uint32_t *n_words)
{
    *n_words = r->has_ready ? (r->n_slots + 63) / 64 : 0;
    return r->has_ready ? r->ready : NULL;
}

void hvd_ready_take(struct hvd_ready *r, uint64_t epoch)
{
    const uint32_t n_words = (r->n_slots + 63) / 64;

    for (uint32_t w = 0; w < n_words && r->has_ready; w++) {
        const uint64_t ready = r->ready[w];
        struct page *page = &r->pages[w];
        if (ready == 0)
            continue;
        forget_word(r, w, ready);
        for (uint64_t bits = ready; bits != 0; bits &= bits - 1) {
            page->last[__builtin_ctzll(bits)] = epoch;
            page->is_reported[__builtin_ctzll(bits)] = false;
        }
        for (uint64_t bits = ready & page->grouped; bits != 0; bits &= bits - 1)
            slot_at(r, w * 64 + (uint32_t)__builtin_ctzll(bits))->n_complete = 0;
    }
    r->has_ready = false;
}

bool hvd_ready_is_missing(const struct hvd_ready *r, uint32_t slot, int rank)
{
    return !r->joined[rank] && !(*seen_word(r, rank, slot) & bit_of(slot));
}

/* Returns the slots of a word that some ranks have requested and others have not. */
static uint64_t waiting_in(const struct hvd_ready *r, uint32_t word)
{
    return (any_seen(r, word) | r->pages[word].begun) & r->pages[word].live &
           ~r->pages[word].complete;
}

bool hvd_ready_next_stall(const struct hvd_ready *r, uint32_t from, struct hvd_ready_stall *stall)
{
    const uint32_t n_words = (r->n_slots + 63) / 64;

    for (uint32_t w = from / 64; w < n_words; w++) {
        uint64_t bits = waiting_in(r, w);
        if (w == from / 64)
            bits &= UINT64_MAX << (from % 64);
        if (bits == 0)
            continue;
        const uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(bits);
        *stall = (struct hvd_ready_stall){.slot = slot,
                                          .name = slot_at(r, slot)->name,
                                          .since_ns = page_of(r, slot)->since_ns[slot % 64],
                                          .is_reported = &page_of(r, slot)->is_reported[slot % 64]};
        return true;
    }
    return false;
}

size_t hvd_ready_waiting(const struct hvd_ready *r)
{
    const uint32_t n_words = (r->n_slots + 63) / 64;
    size_t n = 0;

    for (uint32_t w = 0; w < n_words; w++)
        n += (size_t)__builtin_popcountll(waiting_in(r, w));
    return n;
}
