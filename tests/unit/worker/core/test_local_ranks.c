/* Local ranks, compared with their definition. */
#include "worker/core/local_ranks.h"

#include "tests/unit/support.h"

#define MANY 27360

/* Returns how many ranks before this one are on its host. */
static int defined(const int *hosts, int rank)
{
    int found = 0;

    for (int i = 0; i < rank; i++)
        found += hosts[i] == hosts[rank];
    return found;
}

static void ranks_of_a_host_are_counted_in_their_order(void **state)
{
    int hosts[12];
    int *local_ranks = NULL;

    (void)state;
    for (unsigned seed = 1; seed < 2000; seed++) {
        const int n = (int)(seed % 12);
        unsigned random = seed * 2654435761U;
        for (int i = 0; i < n; i++) {
            random = random * 1664525U + 1013904223U;
            hosts[i] = (int)(random >> 24) % (1 + n / 3) - 1; /* any number, also below 0 */
        }
        assert_int_equal(hvd_local_ranks_of(hosts, n, &local_ranks), HVD_OK);
        for (int i = 0; i < n; i++)
            assert_int_equal(local_ranks[i], defined(hosts, i));
        hvd_free(local_ranks);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static void many_ranks_by_turns_have_them_too(void **state)
{
    static int hosts[MANY];
    int *local_ranks = NULL;

    (void)state;
    for (int i = 0; i < MANY; i++)
        hosts[i] = i % 4560;
    assert_int_equal(hvd_local_ranks_of(hosts, MANY, &local_ranks), HVD_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(local_ranks[i], i / 4560);
    hvd_free(local_ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_host_are_counted_in_their_order),
        cmocka_unit_test(many_ranks_by_turns_have_them_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
