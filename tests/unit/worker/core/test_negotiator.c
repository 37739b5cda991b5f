#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/core/negotiator.h"

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const int ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A negotiator with what it borrows; every rank but the first is a child of its. */
struct world {
    struct hvd_tree tree;
    struct hvd_node root;
};

static struct world world;

static void close_world(void)
{
    hvd_tree_node_fini(&world.root);
    hvd_tree_fini(&world.tree);
}

/* Of the first ranks of a job. Without a cache, but where a test says otherwise. */
static hvd_status_t create_in(int world_size, int size, struct hvd_negotiator **out)
{
    const struct hvd_tree_options shape = {.size = size, .fanout = size};
    const struct hvd_negotiator_options options = {.tree = &world.tree,
                                                   .node = &world.root,
                                                   .ranks = ranks,
                                                   .world_size = world_size,
                                                   .fusion_bytes = 1024};
    hvd_status_t st = hvd_tree_init(&world.tree, &shape, NULL);

    if (st == HVD_OK)
        st = hvd_tree_node_init(&world.root, &world.tree, 0, NULL);
    return st == HVD_OK ? hvd_negotiator_create(&options, out, NULL) : st;
}

static hvd_status_t create(int size, struct hvd_negotiator **out)
{
    return create_in(size, size, out);
}

static void destroy(struct hvd_negotiator *n)
{
    hvd_negotiator_destroy(n);
    close_world();
}

static hvd_status_t ask_for(struct hvd_negotiator *n, int rank, const struct hvd_request *req,
                            int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_merged_request ask = hvd_message_request_of(req, rank);

    return hvd_negotiator_request(n, &ask, now_ns, err);
}

static hvd_status_t leave(struct hvd_negotiator *n, int rank, bool failed, const char *text)
{
    return hvd_negotiator_leave(n, (struct hvd_pos_range){.first = rank, .n = 1}, failed, text,
                                NULL);
}

static const struct hvd_buf *plan_of(struct hvd_negotiator *n)
{
    const struct hvd_buf *plan = NULL;

    assert_int_equal(hvd_negotiator_plan(n, &plan, NULL), HVD_OK);
    return plan;
}

static struct hvd_request request(const char *name)
{
    return (struct hvd_request){.op = HVD_ALLREDUCE,
                                .dtype = HVD_FLOAT32,
                                .reduce = HVD_SUM,
                                .prescale = 1,
                                .postscale = 1,
                                .ndim = 1,
                                .shape = {4},
                                .name = hvd_strview_of(name)};
}

static void ask(struct hvd_negotiator *n, int rank, const char *name)
{
    struct hvd_request req = request(name);

    assert_int_equal(ask_for(n, rank, &req, 0, NULL), HVD_OK);
}

/* The steps of the plan as "kind:name kind:name"; the plan is gone afterwards. */
static const char *take_plan(struct hvd_negotiator *n)
{
    static char text[1024];
    const struct hvd_buf *plan = plan_of(n);
    struct hvd_reader r;
    struct hvd_step step;
    size_t len = 0;

    text[0] = '\0';
    if (!plan)
        return text;
    assert_int_equal(hvd_message_open(&r, plan->data, plan->len, NULL), HVD_OK);
    while (r.left > 0) {
        assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d:%.*s", len ? " " : "",
                                step.kind, (int)step.name.len, step.name.data);
    }
    hvd_negotiator_plan_sent(n);
    return text;
}

static void a_tensor_is_planned_when_the_last_rank_asks(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        struct hvd_negotiator *n = NULL;
        assert_int_equal(create(sizes[i], &n), HVD_OK);
        for (int round = 0; round < 2; round++) {
            for (int rank = sizes[i] - 1; rank >= 0; rank--) {
                assert_null(plan_of(n));
                ask(n, rank, "t");
            }
            assert_string_equal(take_plan(n), "0:t");
            assert_int_equal(hvd_negotiator_waiting(n), 0);
        }
        destroy(n);
    }
}

static void a_plan_says_where_tensors_are_and_what_was_tuned(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request req = request("t");
    struct hvd_reader r;
    struct hvd_step step;

    (void)state;
    req.device = HVD_GPU;
    assert_int_equal(create(1, &n), HVD_OK);
    hvd_negotiator_tune(n, 4096, 250);
    assert_int_equal(ask_for(n, 0, &req, 0, NULL), HVD_OK);
    const struct hvd_buf *plan = plan_of(n);
    assert_int_equal(hvd_message_open(&r, plan->data, plan->len, NULL), HVD_OK);
    assert_int_equal(r.fusion, 4096);
    assert_int_equal(r.cycle_us, 250);
    assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
    assert_int_equal(step.device, HVD_GPU);
    destroy(n);
}

static void the_order_is_that_of_completion(void **state)
{
    struct hvd_negotiator *n = NULL;

    (void)state;
    assert_int_equal(create(2, &n), HVD_OK);
    ask(n, 0, "a");
    ask(n, 0, "b");
    ask(n, 0, "c");
    ask(n, 1, "c");
    ask(n, 1, "a");
    assert_string_equal(take_plan(n), "0:c 0:a");
    ask(n, 1, "b");
    assert_string_equal(take_plan(n), "0:b");
    destroy(n);
}

static void rows_of_an_allgather_are_in_rank_order(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request req = request("g");
    struct hvd_reader r;
    struct hvd_step step;

    (void)state;
    req.op = HVD_ALLGATHER;
    assert_int_equal(create(3, &n), HVD_OK);
    for (int rank = 2; rank >= 0; rank--) {
        req.shape[0] = rank * 10;
        assert_int_equal(ask_for(n, rank, &req, 0, NULL), HVD_OK);
    }
    const struct hvd_buf *plan = plan_of(n);
    assert_int_equal(hvd_message_open(&r, plan->data, plan->len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
    assert_int_equal(step.n_rows, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(hvd_message_step_row(&step, rank), rank * 10);
    destroy(n);
}

static void a_mismatch_becomes_an_error_step_and_the_lowest_check_wins(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request req = request("t");
    struct hvd_reader r;
    struct hvd_step step;

    (void)state;
    assert_int_equal(create(3, &n), HVD_OK);
    assert_int_equal(ask_for(n, 0, &req, 0, NULL), HVD_OK);
    req.shape[0] = 5;
    assert_int_equal(ask_for(n, 1, &req, 0, NULL), HVD_OK);
    req.dtype = HVD_UINT8;
    assert_int_equal(ask_for(n, 2, &req, 0, NULL), HVD_OK);
    const struct hvd_buf *plan = plan_of(n);
    assert_int_equal(hvd_message_open(&r, plan->data, plan->len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
    assert_int_equal(step.kind, HVD_STEP_ERROR);
    assert_int_equal(strncmp(step.text.data, "Mismatched data types", 21), 0);
    hvd_negotiator_plan_sent(n);
    for (int rank = 0; rank < 3; rank++) /* and the name is free again */
        ask(n, rank, "t");
    assert_string_equal(take_plan(n), "0:t");
    destroy(n);
}

static void asking_twice_is_the_peers_fault(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request req = request("t");
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(create(2, &n), HVD_OK);
    ask(n, 1, "t");
    assert_int_equal(ask_for(n, 1, &req, 0, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "rank 1 or one of the 0 behind it asked twice for tensor t");
    req.ndim = -1;
    assert_int_equal(ask_for(n, 0, &req, 0, NULL), HVD_ERR_INVALID);
    destroy(n);
}

static void a_root_that_is_not_in_the_set_is_the_peers_fault(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request req = request("t");
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(create_in(4, 3, &n), HVD_OK);
    req.op = HVD_BROADCAST;
    req.root = 3;
    assert_int_equal(ask_for(n, 1, &req, 0, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "request of rank 1: root rank 3 is not in process set 0");
    req.root = 2;
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(ask_for(n, rank, &req, 0, NULL), HVD_OK);
    assert_string_equal(take_plan(n), "2:t");
    destroy(n);
}

static void the_first_rank_to_leave_ends_the_job_and_the_last_one_closes_it(void **state)
{
    struct hvd_negotiator *n = NULL;

    (void)state;
    assert_int_equal(create(3, &n), HVD_OK);
    ask(n, 0, "t");
    assert_int_equal(leave(n, 1, false, "rank 1 left"), HVD_OK);
    assert_string_equal(take_plan(n), "9:");
    assert_int_equal(hvd_negotiator_waiting(n), 0);
    ask(n, 2, "t"); /* too late, and harmless */
    assert_int_equal(leave(n, 1, false, "again"), HVD_OK);
    assert_int_equal(leave(n, 0, false, "rank 0 left"), HVD_OK);
    assert_null(plan_of(n));
    assert_int_equal(leave(n, 2, true, "rank 2 failed"), HVD_OK);
    assert_string_equal(take_plan(n), "10: 11:");
    destroy(n);
}

static void a_stall_names_tensors_and_missing_ranks_once(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_buf report;
    struct hvd_request req = request("slow");
    const int64_t second = 1000000000;

    (void)state;
    hvd_buf_init(&report, 4096);
    assert_int_equal(create(3, &n), HVD_OK);
    assert_int_equal(ask_for(n, 1, &req, 5 * second, NULL), HVD_OK);
    assert_int_equal(hvd_negotiator_stalled(n, 64 * second, 60 * second, &report), HVD_OK);
    assert_int_equal(report.len, 0);
    assert_int_equal(hvd_negotiator_stalled(n, 66 * second, 60 * second, &report), HVD_OK);
    assert_non_null(strstr(report.data, "for more than 60 seconds"));
    assert_non_null(strstr(report.data, "Missing ranks:\n0: [slow]\n2: [slow]"));
    hvd_buf_reset(&report);
    assert_int_equal(hvd_negotiator_stalled(n, 99 * second, 60 * second, &report), HVD_OK);
    assert_int_equal(report.len, 0);
    hvd_buf_fini(&report);
    destroy(n);
}

static void refuse(struct hvd_negotiator *n, int rank, const char *name, const char *reason,
                   int64_t now_ns)
{
    const struct hvd_request req = request(name);
    struct hvd_merged_request ask = hvd_message_request_of(&req, rank);

    ask.refusal = hvd_strview_of(reason);
    assert_int_equal(hvd_negotiator_request(n, &ask, now_ns, NULL), HVD_OK);
}

/* Whoever comes first, and whatever else differs. */
static void a_refusal_fails_the_tensor_with_the_first_reason(void **state)
{
    struct hvd_request other = request("t");
    struct hvd_reader r;
    struct hvd_step step;

    (void)state;
    other.dtype = HVD_INT8;
    for (int first = 0; first < 4; first++) {
        struct hvd_negotiator *n = NULL;
        assert_int_equal(create(4, &n), HVD_OK);
        for (int i = 0; i < 4; i++) {
            const int rank = (first + i) % 4;
            if (rank == 1)
                assert_int_equal(ask_for(n, rank, &other, 0, NULL), HVD_OK);
            else if (rank == 2 || rank == 3)
                refuse(n, rank, "t", rank == 2 ? "of 2" : "of 3", 0);
            else
                ask(n, rank, "t");
        }
        const struct hvd_buf *plan = plan_of(n);
        assert_non_null(plan);
        assert_int_equal(hvd_message_open(&r, plan->data, plan->len, NULL), HVD_OK);
        assert_int_equal(hvd_message_read_step(&r, &step, NULL), HVD_OK);
        assert_int_equal(step.kind, HVD_STEP_ERROR);
        assert_true(hvd_strview_equal(step.text, first == 3 ? "of 3" : "of 2"));
        destroy(n);
    }
}

static void who_refused_waits_for_nobody(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_buf report;
    struct hvd_request req = request("t");
    const int64_t second = 1000000000;
    int missing[4];
    int n_missing = 4;

    (void)state;
    hvd_buf_init(&report, 4096);
    assert_int_equal(create(3, &n), HVD_OK);
    refuse(n, 2, "t", "no", 5 * second);
    assert_int_equal(hvd_negotiator_stalled(n, 200 * second, 60 * second, &report), HVD_OK);
    assert_int_equal(report.len, 0);
    assert_null(hvd_negotiator_overdue(n, 200 * second, missing, &n_missing));
    assert_int_equal(ask_for(n, 1, &req, 200 * second, NULL), HVD_OK);
    assert_int_equal(hvd_negotiator_stalled(n, 250 * second, 60 * second, &report), HVD_OK);
    assert_int_equal(report.len, 0);
    assert_int_equal(hvd_negotiator_stalled(n, 261 * second, 60 * second, &report), HVD_OK);
    assert_non_null(strstr(report.data, "Missing ranks:\n0: [t]"));
    hvd_buf_fini(&report);
    destroy(n);
}

static void of_a_group_that_a_rank_has_without_tensors_its_refusal_is_told(void **state)
{
    static const char *const named[] = {"g_1of3", "a_b_12of30", "g_1of2_1of3"};
    static const char *const others[] = {"g",     "g_1of",  "g_of3", "_1of3",     "of3",
                                         "g1of3", "h_1of3", "3",     "g_1of3 or", ""};
    struct hvd_negotiator *n = NULL;
    struct hvd_buf report;
    struct hvd_request req = request("g_1of3");
    const int64_t second = 1000000000;

    (void)state;
    hvd_buf_init(&report, 4096);
    assert_int_equal(create(3, &n), HVD_OK);
    assert_null(hvd_negotiator_empty_group(n, "g_1of3"));
    refuse(n, 2, "g_1of1", "none in g", 0);
    refuse(n, 1, "a_b_1of1", "none in a_b", 0);
    refuse(n, 1, "g_1of2_1of1", "none in g_1of2", 0);
    ask(n, 0, "h_1of1");
    assert_string_equal(hvd_negotiator_empty_group(n, named[0]), "none in g");
    assert_string_equal(hvd_negotiator_empty_group(n, named[1]), "none in a_b");
    assert_string_equal(hvd_negotiator_empty_group(n, named[2]), "none in g_1of2");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(hvd_negotiator_empty_group(n, others[i]));
    ask(n, 1, "h_1of1");
    ask(n, 2, "h_1of1");
    assert_string_equal(take_plan(n), "0:h_1of1");
    assert_int_equal(ask_for(n, 0, &req, 5 * second, NULL), HVD_OK);
    assert_int_equal(ask_for(n, 1, &req, 5 * second, NULL), HVD_OK);
    assert_int_equal(hvd_negotiator_stalled(n, 66 * second, 60 * second, &report), HVD_OK);
    assert_non_null(strstr(report.data, "Missing ranks:\n2: [g_1of3]: none in g"));
    hvd_buf_fini(&report);
    destroy(n);
}

static void the_tensor_that_waits_longest_is_overdue(void **state)
{
    struct hvd_negotiator *n = NULL;
    struct hvd_request older = request("older");
    struct hvd_request newer = request("newer");
    int missing[2] = {-1, -1};
    int n_missing = 2;

    (void)state;
    assert_int_equal(create(5, &n), HVD_OK);
    assert_null(hvd_negotiator_overdue(n, 100, missing, &n_missing));
    assert_int_equal(ask_for(n, 1, &newer, 20, NULL), HVD_OK);
    assert_int_equal(ask_for(n, 0, &older, 10, NULL), HVD_OK);
    assert_int_equal(ask_for(n, 2, &older, 30, NULL), HVD_OK);
    assert_null(hvd_negotiator_overdue(n, 9, missing, &n_missing));
    assert_string_equal(hvd_negotiator_overdue(n, 20, missing, &n_missing), "older");
    assert_int_equal(n_missing, 3);
    assert_int_equal(missing[0], 1);
    assert_int_equal(missing[1], 3);
    destroy(n);
}

/* Rank 1 groups g0 and g1, the others g0, g1 and g2. */
static void of_a_group_the_tensor_that_is_missing_is_overdue(void **state)
{
    static const char *const names[] = {"g0", "g1", "g2"};
    struct hvd_negotiator *n = NULL;
    int missing[2] = {-1, -1};
    int n_missing = 2;

    (void)state;
    assert_int_equal(create(3, &n), HVD_OK);
    for (int i = 0; i < 8; i++) { /* rank 1 is first */
        const int rank = i < 2 ? 1 : (i - 2) / 3 * 2;
        struct hvd_request req = request(names[i < 2 ? i : (i - 2) % 3]);
        req.group = rank == 1 ? 22 : 33;
        req.group_size = rank == 1 ? 2 : 3;
        assert_int_equal(ask_for(n, rank, &req, i < 2 ? 10 : 40, NULL), HVD_OK);
    }
    assert_string_equal(hvd_negotiator_overdue(n, 20, missing, &n_missing), "g2");
    assert_int_equal(n_missing, 1);
    assert_int_equal(missing[0], 1);
    destroy(n);
}

static hvd_status_t negotiate_all(struct hvd_negotiator *n)
{
    struct hvd_request req = request("t");
    hvd_status_t st = HVD_OK;

    for (int rank = 0; rank < 3 && st == HVD_OK; rank++) {
        req = request("sum");
        st = ask_for(n, rank, &req, 0, NULL);
        req = request("gather");
        req.op = HVD_ALLGATHER;
        if (st == HVD_OK)
            st = ask_for(n, rank, &req, 0, NULL);
        req = request("differs");
        req.shape[0] = rank;
        if (st == HVD_OK)
            st = ask_for(n, rank, &req, 0, NULL);
    }
    return st == HVD_OK ? leave(n, 0, false, "end") : st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_negotiator *n = NULL;
        hvd_status_t st = create(3, &n);
        if (st == HVD_OK)
            st = negotiate_all(n);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        destroy(n);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_planned_when_the_last_rank_asks),
        cmocka_unit_test(a_plan_says_where_tensors_are_and_what_was_tuned),
        cmocka_unit_test(the_order_is_that_of_completion),
        cmocka_unit_test(rows_of_an_allgather_are_in_rank_order),
        cmocka_unit_test(a_mismatch_becomes_an_error_step_and_the_lowest_check_wins),
        cmocka_unit_test(asking_twice_is_the_peers_fault),
        cmocka_unit_test(a_root_that_is_not_in_the_set_is_the_peers_fault),
        cmocka_unit_test(the_first_rank_to_leave_ends_the_job_and_the_last_one_closes_it),
        cmocka_unit_test(a_stall_names_tensors_and_missing_ranks_once),
        cmocka_unit_test(a_refusal_fails_the_tensor_with_the_first_reason),
        cmocka_unit_test(who_refused_waits_for_nobody),
        cmocka_unit_test(of_a_group_that_a_rank_has_without_tensors_its_refusal_is_told),
        cmocka_unit_test(the_tensor_that_waits_longest_is_overdue),
        cmocka_unit_test(of_a_group_the_tensor_that_is_missing_is_overdue),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
