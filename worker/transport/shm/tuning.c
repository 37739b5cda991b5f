/*
 * Tunes a segment to the locations of its ranks; see the header. A pure function of the locations,
 * which are the same on all ranks, so all decide alike.
 */
#include "worker/transport/shm/tuning.h"

#define EXCHANGE_MIN ((size_t)16 << 10)
#define EXCHANGE_DEFAULT ((size_t)64 << 10)
#define EXCHANGE_SHARE 8 /* of the second-level cache: inputs, outputs, four stages */
#define SLICES_SHARE 4   /* reads less of each */
#define STREAM_MIN ((size_t)1 << 20)
#define STREAM_MAX ((size_t)64 << 20)
#define STREAM_DEFAULT ((size_t)8 << 20)

static size_t clamp(size_t x, size_t least, size_t most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

/* The largest power of two that is not larger than x; 0 for 0. */
static size_t power_below(size_t x)
{
    while (x & (x - 1))
        x &= x - 1;
    return x;
}

static void size_chunks(const struct hvd_cpu_location *cpu_locations, int n_ranks,
                        size_t stage_bytes, struct hvd_shm_tuning *tuning)
{
    size_t l2 = 0;

    for (int rank = 0; rank < n_ranks; rank++)
        if (cpu_locations[rank].l2_bytes > 0 && (l2 == 0 || cpu_locations[rank].l2_bytes < l2))
            l2 = (size_t)cpu_locations[rank].l2_bytes;
    if (l2 == 0)
        l2 = EXCHANGE_DEFAULT * EXCHANGE_SHARE;
    l2 = power_below(l2);
    tuning->exchange_bytes = clamp(l2 / EXCHANGE_SHARE, EXCHANGE_MIN, stage_bytes);
    tuning->slices_bytes = clamp(l2 / SLICES_SHARE, EXCHANGE_MIN, stage_bytes);
}

/* How many ranks may share the third-level cache of this one. */
static int sharing(const struct hvd_cpu_location *cpu_locations, int n_ranks, int rank)
{
    int n = 0;

    for (int other = 0; other < n_ranks; other++)
        n += cpu_locations[rank].l3 < 0 || cpu_locations[other].l3 < 0 ||
             cpu_locations[other].l3 == cpu_locations[rank].l3;
    return n;
}

static size_t size_streams(const struct hvd_cpu_location *cpu_locations, int n_ranks)
{
    size_t least = STREAM_MAX;
    bool is_known = false;

    for (int rank = 0; rank < n_ranks; rank++) {
        const size_t share = (size_t)cpu_locations[rank].l3_bytes / 2 /
                             (size_t)sharing(cpu_locations, n_ranks, rank);
        is_known = is_known || share > 0;
        if (share > 0 && share < least)
            least = share;
    }
    return is_known ? clamp(least, STREAM_MIN, STREAM_MAX) : STREAM_DEFAULT;
}

/* The number of cores on which some rank may run. 0: unknown. */
static int count_cores(const struct hvd_cpu_location *cpu_locations, int n_ranks)
{
    int n = 0;

    for (int word = 0; word < HVD_CPU_LOCATION_CORES / 64; word++) {
        uint64_t any = 0;
        for (int rank = 0; rank < n_ranks; rank++)
            any |= cpu_locations[rank].cores[word];
        for (; any; any &= any - 1)
            n++;
    }
    return n;
}

/* --- Localities ------------------------------------------------------------------------------- */

/* The part of a location that separates localities. */
typedef int32_t (*locality_fn)(const struct hvd_cpu_location *cpu_location);

static int32_t package_of(const struct hvd_cpu_location *cpu_location)
{
    return cpu_location->package;
}

static int32_t numa_of(const struct hvd_cpu_location *cpu_location)
{
    return cpu_location->numa;
}

static int count_members(const struct hvd_cpu_location *cpu_locations, int n_ranks,
                         locality_fn locality_of, int rank)
{
    int n = 0;

    for (int other = 0; other < n_ranks; other++)
        n += locality_of(&cpu_locations[other]) == locality_of(&cpu_locations[rank]);
    return n;
}

/* The number of localities if each has the same number of ranks, at least two; 1 otherwise. */
static int count_localities(const struct hvd_cpu_location *cpu_locations, int n_ranks,
                            locality_fn locality_of)
{
    const int n_members = count_members(cpu_locations, n_ranks, locality_of, 0);

    for (int rank = 0; rank < n_ranks; rank++)
        if (locality_of(&cpu_locations[rank]) < 0 ||
            count_members(cpu_locations, n_ranks, locality_of, rank) != n_members)
            return 1;
    return n_members >= 2 ? n_ranks / n_members : 1;
}

static bool is_before(const struct hvd_cpu_location *a, const struct hvd_cpu_location *b,
                      locality_fn locality_of)
{
    if (locality_of(a) != locality_of(b))
        return locality_of(a) < locality_of(b);
    return a->l3 < b->l3;
}

/* Sorts the ranks by locality, then by cache, then by number. */
static void sort_ranks(const struct hvd_cpu_location *cpu_locations, int n_ranks,
                       locality_fn locality_of, int *order)
{
    for (int i = 0; i < n_ranks; i++) {
        int at = i;
        for (; locality_of && at > 0 &&
               is_before(&cpu_locations[i], &cpu_locations[order[at - 1]], locality_of);
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

void hvd_shm_tune(const struct hvd_cpu_location *cpu_locations, int n_ranks, size_t stage_bytes,
                  struct hvd_shm_tuning *tuning, int *order)
{
    const int n_cores = count_cores(cpu_locations, n_ranks);
    locality_fn locality_of = package_of;

    *tuning = (struct hvd_shm_tuning){
        .stream_bytes = size_streams(cpu_locations, n_ranks),
        .is_crowded = n_cores > 0 && n_ranks > n_cores,
        .is_apart = n_ranks == 2 && cpu_locations[0].l3 >= 0 && cpu_locations[1].l3 >= 0 &&
                    cpu_locations[0].l3 != cpu_locations[1].l3,
        .n_localities = count_localities(cpu_locations, n_ranks, package_of),
    };
    size_chunks(cpu_locations, n_ranks, stage_bytes, tuning);
    if (tuning->n_localities == 1) {
        locality_of = numa_of;
        tuning->n_localities = count_localities(cpu_locations, n_ranks, numa_of);
    }
    sort_ranks(cpu_locations, n_ranks, tuning->n_localities > 1 ? locality_of : NULL, order);
}
