/* Memory of work that may not be done, compared with a list of all uses. */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/device/cuda/recent.h"

#define N_USES_MAX 4000

/* A use of memory, as the list has it. */
struct noted {
    const void *at;
    bool writes;
    uint32_t number;
};

struct list {
    struct noted uses[N_USES_MAX];
    int n;
};

static const void *memory(uint64_t i)
{
    static const char base[1 << 16];

    return base + i * 64 % sizeof(base);
}

/* Adds a use to the list, and returns whether an earlier one conflicts. */
static bool note(struct list *l, const void *at, bool writes, uint32_t number, uint32_t done)
{
    bool conflicts = false;

    for (int i = 0; i < l->n; i++)
        if (l->uses[i].at == at && l->uses[i].number != number &&
            (int32_t)(l->uses[i].number - done) > 0 && (writes || l->uses[i].writes))
            conflicts = true;
    l->uses[l->n++] = (struct noted){.at = at, .writes = writes, .number = number};
    return conflicts;
}

/* Runs random work over so many addresses. */
static void run(uint64_t seed, uint64_t n_addresses, uint32_t in_flight)
{
    static struct hvd_recent recent;
    static struct list list;
    uint32_t number = UINT32_MAX - 200; /* it wraps */
    uint32_t done = number;

    memset(&recent, 0, sizeof(recent));
    list.n = 0;
    while (list.n + 8 < N_USES_MAX) {
        number++;
        const uint32_t newest = number - 1 - (uint32_t)(reference_random(&seed) % (in_flight + 1));
        if ((int32_t)(newest - done) > 0) /* what is done stays so */
            done = newest;
        for (uint64_t k = reference_random(&seed) % 8; k > 0; k--) {
            const void *at = memory(reference_random(&seed) % n_addresses);
            const bool writes = reference_random(&seed) % 3 == 0;
            const bool wanted = note(&list, at, writes, number, done);
            const bool seen = hvd_recent_add(&recent, at, writes, number, done);
            if (wanted && !seen)
                fail_msg("seed %llu: use %d is not found", (unsigned long long)seed, list.n);
        }
    }
}

static void conflicts_with_work_that_may_not_be_done_are_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run(seed, 3, 5);
        run(seed, 40, 30);
        run(seed, 1000, 200);
    }
}

static void work_without_common_memory_does_not_conflict(void **state)
{
    static struct hvd_recent recent;

    (void)state;
    memset(&recent, 0, sizeof(recent));
    for (uint32_t number = 1; number < 2000; number++)
        for (uint64_t i = 0; i < 8; i++)
            assert_false(hvd_recent_add(&recent, memory((uint64_t)number * 8 + i), true, number,
                                        number - (number < 30 ? number : 30)));
    assert_false(hvd_recent_add(&recent, NULL, true, 2000, 1970));
}

static void reads_of_the_same_memory_do_not_conflict(void **state)
{
    static struct hvd_recent recent;

    (void)state;
    memset(&recent, 0, sizeof(recent));
    for (uint32_t number = 1; number < 10; number++)
        assert_false(hvd_recent_add(&recent, memory(1), false, number, 0));
    assert_true(hvd_recent_add(&recent, memory(1), true, 10, 0));
    assert_false(hvd_recent_add(&recent, memory(1), false, 20, 19));
}

/* More memory at once than there is room for. */
static void memory_that_gives_way_counts_as_used_by_all(void **state)
{
    static struct hvd_recent recent;
    const uint64_t n = (uint64_t)HVD_RECENT_SETS * HVD_RECENT_WAYS * 4;
    char *base = malloc(n);

    (void)state;
    assert_non_null(base);
    memset(&recent, 0, sizeof(recent));
    for (uint32_t i = 0; i < n; i++)
        (void)hvd_recent_add(&recent, base + i, true, i + 1, 0);
    for (uint32_t i = 0; i < n; i += 97)
        assert_true(hvd_recent_add(&recent, base + i, true, (uint32_t)n + 1, 0));
    assert_false(hvd_recent_add(&recent, base, true, (uint32_t)n + 2, (uint32_t)n + 1));
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_with_work_that_may_not_be_done_are_found),
        cmocka_unit_test(work_without_common_memory_does_not_conflict),
        cmocka_unit_test(reads_of_the_same_memory_do_not_conflict),
        cmocka_unit_test(memory_that_gives_way_counts_as_used_by_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
