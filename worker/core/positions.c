/*
 * Sets of positions in a tree; see positions.h. Pure. A range costs a step per 64 positions.
 */
#include "worker/core/positions.h"

size_t hvd_positions_words(int size)
{
    return ((size_t)size + 63) / 64;
}

bool hvd_positions_has(const uint64_t *set, int position)
{
    return set[position / 64] >> (position % 64) & 1;
}

/* Returns the positions of a word that are in the range. */
static uint64_t mask(int word, struct hvd_pos_range range)
{
    const int begin = range.first > word * 64 ? range.first - word * 64 : 0;
    const int end = range.first + range.n < word * 64 + 64 ? range.first + range.n - word * 64 : 64;
    const uint64_t up_to_end = end == 64 ? UINT64_MAX : ((uint64_t)1 << end) - 1;

    return up_to_end & (UINT64_MAX << begin);
}

void hvd_positions_add(uint64_t *set, struct hvd_pos_range range)
{
    for (int word = range.first / 64; word * 64 < range.first + range.n; word++)
        set[word] |= mask(word, range);
}

bool hvd_positions_any(const uint64_t *set, struct hvd_pos_range range)
{
    for (int word = range.first / 64; word * 64 < range.first + range.n; word++)
        if (set[word] & mask(word, range))
            return true;
    return false;
}

int hvd_positions_count(const uint64_t *a, const uint64_t *b, int size)
{
    int n = 0;

    for (size_t word = 0; word < hvd_positions_words(size); word++)
        n += __builtin_popcountll(a[word] | b[word]);
    return n;
}

/* Returns the first position at or after `from` that is in the difference of the sets (is_in),
 * or is not (!is_in); `size` when there is none. */
static int find(const uint64_t *set, const uint64_t *without, int size, int from, bool is_in)
{
    while (from < size) {
        const int word = from / 64;
        uint64_t bits = set[word] & ~(without ? without[word] : 0);
        bits = (is_in ? bits : ~bits) & (UINT64_MAX << (from % 64));
        if (bits != 0) {
            const int found = word * 64 + __builtin_ctzll(bits);
            return found < size ? found : size;
        }
        from = word * 64 + 64;
    }
    return size;
}

bool hvd_positions_next(const uint64_t *set, const uint64_t *without, int size, int from,
                        struct hvd_pos_range *range)
{
    const int first = find(set, without, size, from, true);

    if (first == size)
        return false;
    *range =
        (struct hvd_pos_range){.first = first, .n = find(set, without, size, first, false) - first};
    return true;
}
