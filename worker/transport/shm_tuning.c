/*
 * Decides by where the ranks are; see the header. A pure function of the seats, which all ranks
 * see alike, so that all decide alike.
 */
#include "worker/transport/shm_tuning.h"

#define EXCHANGE_MIN ((size_t)16 << 10)
#define EXCHANGE_DEFAULT ((size_t)64 << 10)
#define EXCHANGE_SHARE 8 /* of the second-level cache: inputs, outputs, four stages */
#define SLICES_SHARE 4   /* less is read of each */
#define STREAM_MIN ((size_t)1 << 20)
#define STREAM_MAX ((size_t)64 << 20)
#define STREAM_DEFAULT ((size_t)8 << 20)

static size_t clamp(size_t x, size_t least, size_t most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

/* The largest power of two that is not larger; 0 for 0. */
static size_t power_below(size_t x)
{
    while (x & (x - 1))
        x &= x - 1;
    return x;
}

static void size_chunks(const struct hvd_seat *seats, int n_ranks, size_t stage_bytes,
                        struct hvd_shm_tuning *tuning)
{
    size_t l2 = 0;

    for (int rank = 0; rank < n_ranks; rank++)
        if (seats[rank].l2_bytes > 0 && (l2 == 0 || seats[rank].l2_bytes < l2))
            l2 = (size_t)seats[rank].l2_bytes;
    if (l2 == 0)
        l2 = EXCHANGE_DEFAULT * EXCHANGE_SHARE;
    l2 = power_below(l2);
    tuning->exchange_bytes = clamp(l2 / EXCHANGE_SHARE, EXCHANGE_MIN, stage_bytes);
    tuning->slices_bytes = clamp(l2 / SLICES_SHARE, EXCHANGE_MIN, stage_bytes);
}

/* How many ranks may be under the third-level cache of this one. */
static int sharing(const struct hvd_seat *seats, int n_ranks, int rank)
{
    int n = 0;

    for (int other = 0; other < n_ranks; other++)
        n += seats[rank].l3 < 0 || seats[other].l3 < 0 || seats[other].l3 == seats[rank].l3;
    return n;
}

static size_t size_streams(const struct hvd_seat *seats, int n_ranks)
{
    size_t least = STREAM_MAX;
    bool is_known = false;

    for (int rank = 0; rank < n_ranks; rank++) {
        const size_t share =
            (size_t)seats[rank].l3_bytes / 2 / (size_t)sharing(seats, n_ranks, rank);
        is_known = is_known || share > 0;
        if (share > 0 && share < least)
            least = share;
    }
    return is_known ? clamp(least, STREAM_MIN, STREAM_MAX) : STREAM_DEFAULT;
}

/* Cores that some rank may run on. 0: not known. */
static int count_cores(const struct hvd_seat *seats, int n_ranks)
{
    int n = 0;

    for (int word = 0; word < HVD_SEAT_CORES / 64; word++) {
        uint64_t any = 0;
        for (int rank = 0; rank < n_ranks; rank++)
            any |= seats[rank].cores[word];
        for (; any; any &= any - 1)
            n++;
    }
    return n;
}

/* --- Groups ----------------------------------------------------------------------------------- */

/* The place by which ranks are parted. */
typedef int32_t (*place_fn)(const struct hvd_seat *seat);

static int32_t package_of(const struct hvd_seat *seat)
{
    return seat->package;
}

static int32_t numa_of(const struct hvd_seat *seat)
{
    return seat->numa;
}

static int count_mates(const struct hvd_seat *seats, int n_ranks, place_fn place, int rank)
{
    int n = 0;

    for (int other = 0; other < n_ranks; other++)
        n += place(&seats[other]) == place(&seats[rank]);
    return n;
}

/* How many places there are, with as many ranks each, at least two; 1 when it is not like that. */
static int count_groups(const struct hvd_seat *seats, int n_ranks, place_fn place)
{
    const int n_mates = count_mates(seats, n_ranks, place, 0);

    for (int rank = 0; rank < n_ranks; rank++)
        if (place(&seats[rank]) < 0 || count_mates(seats, n_ranks, place, rank) != n_mates)
            return 1;
    return n_mates >= 2 ? n_ranks / n_mates : 1;
}

static bool is_before(const struct hvd_seat *a, const struct hvd_seat *b, place_fn place)
{
    if (place(a) != place(b))
        return place(a) < place(b);
    return a->l3 < b->l3;
}

/* Ranks by place, then by cache, then by number. */
static void sort_ranks(const struct hvd_seat *seats, int n_ranks, place_fn place, int *order)
{
    for (int i = 0; i < n_ranks; i++) {
        int at = i;
        for (; place && at > 0 && is_before(&seats[i], &seats[order[at - 1]], place); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

void hvd_shm_tune(const struct hvd_seat *seats, int n_ranks, size_t stage_bytes,
                  struct hvd_shm_tuning *tuning, int *order)
{
    const int n_cores = count_cores(seats, n_ranks);
    place_fn place = package_of;

    *tuning = (struct hvd_shm_tuning){
        .stream_bytes = size_streams(seats, n_ranks),
        .is_crowded = n_cores > 0 && n_ranks > n_cores,
        .is_apart =
            n_ranks == 2 && seats[0].l3 >= 0 && seats[1].l3 >= 0 && seats[0].l3 != seats[1].l3,
        .n_groups = count_groups(seats, n_ranks, package_of),
    };
    size_chunks(seats, n_ranks, stage_bytes, tuning);
    if (tuning->n_groups == 1) {
        place = numa_of;
        tuning->n_groups = count_groups(seats, n_ranks, numa_of);
    }
    sort_ranks(seats, n_ranks, tuning->n_groups > 1 ? place : NULL, order);
}
