#include "worker/core/rank_list.h"

#include <string.h>

#include "tests/unit/support.h"

#define MANY 500

static const char *text_of(const int *ranks, int n)
{
    static struct hvd_rank_list list;

    hvd_rank_list_init(&list, ranks, n);
    return list.text;
}

static uint64_t digest_of(const int *ranks, int n)
{
    struct hvd_rank_list list;

    hvd_rank_list_init(&list, ranks, n);
    return list.digest;
}

static void a_list_is_written_in_its_order_with_runs_by_their_ends(void **state)
{
    (void)state;
    assert_string_equal(text_of(NULL, 0), "all ranks");
    assert_string_equal(text_of((const int[]){4}, 1), "4");
    assert_string_equal(text_of((const int[]){1, 0}, 2), "1, 0");
    assert_string_equal(text_of((const int[]){0, 1}, 2), "0, 1");
    assert_string_equal(text_of((const int[]){0, 1, 2, 3, 9, 8, 5, 6, 7}, 9), "0-3, 9, 8, 5-7");
    assert_string_equal(text_of((const int[]){2147483646, 2147483647, -2147483647 - 1}, 3),
                        "2147483646, 2147483647, -2147483648");
}

static void a_list_that_does_not_fit_ends_with_its_length(void **state)
{
    int ranks[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        ranks[i] = 2147483647 - 2 * i;
    assert_non_null(strstr(text_of(ranks, MANY), ", ... (500 ranks)"));
    for (int i = 0; i < MANY; i++)
        ranks[i] = i;
    assert_string_equal(text_of(ranks, MANY), "0-499");
}

static void lists_differ_by_order_length_and_members(void **state)
{
    const int list[] = {0, 1, 2};

    (void)state;
    assert_true(digest_of(list, 3) == digest_of((const int[]){0, 1, 2}, 3));
    assert_true(digest_of(list, 3) != digest_of((const int[]){0, 2, 1}, 3));
    assert_true(digest_of(list, 3) != digest_of(list, 2));
    assert_true(digest_of(list, 3) != digest_of((const int[]){0, 1, 3}, 3));
    assert_true(digest_of(list, 3) != digest_of(NULL, 0));
    assert_true(digest_of((const int[]){0}, 1) != digest_of(NULL, 0));
}

static void ranks_that_do_not_exist_or_are_given_twice_are_named(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_rank_list_check((const int[]){2, 0, 1}, 3, 3, &err), HVD_OK);
    assert_int_equal(hvd_rank_list_check((const int[]){0, 1, 3}, 3, 3, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "rank 3 does not exist: the communicator has 3 ranks");
    hvd_err_clear(&err);
    assert_int_equal(hvd_rank_list_check((const int[]){0, -1}, 2, 3, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "rank -1 does not exist: the communicator has 3 ranks");
    hvd_err_clear(&err);
    assert_int_equal(hvd_rank_list_check((const int[]){1, 1}, 2, 3, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "rank 1 is given twice");
    hvd_mem_fail_nth(1);
    assert_int_equal(hvd_rank_list_check((const int[]){1}, 1, 3, NULL), HVD_ERR_NOMEM);
    hvd_mem_fail_nth(0);
}

static void both_ranks_write_the_same_about_their_lists(void **state)
{
    const struct hvd_rank_list_of a = {.rank = 0, .host = "", .list = "0, 1"};
    const struct hvd_rank_list_of b = {.rank = 1, .host = "b", .list = "1, 0"};
    char text[HVD_ERR_MSG_MAX];
    char other[HVD_ERR_MSG_MAX];

    (void)state;
    hvd_rank_list_explain(&a, &b, text, sizeof(text));
    hvd_rank_list_explain(&b, &a, other, sizeof(other));
    assert_string_equal(text, other);
    assert_string_equal(text, "The ranks passed to horovod_init differ: rank 0 passes [0, 1], and "
                              "rank 1 on host b [1, 0]. All ranks of a job pass the same ranks, in "
                              "the same order");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_written_in_its_order_with_runs_by_their_ends),
        cmocka_unit_test(a_list_that_does_not_fit_ends_with_its_length),
        cmocka_unit_test(lists_differ_by_order_length_and_members),
        cmocka_unit_test(ranks_that_do_not_exist_or_are_given_twice_are_named),
        cmocka_unit_test(both_ranks_write_the_same_about_their_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
