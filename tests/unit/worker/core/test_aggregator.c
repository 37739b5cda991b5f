#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/core/aggregator.h"
#include "worker/core/negotiator.h"

/*
 * The aggregator at position 1 of this tree; what it sends is written as text:
 *
 *          0
 *        /   \
 *       1     4
 *      / \   / \
 *     2   3 5   6
 */
struct aggregator {
    struct hvd_tree tree;
    struct hvd_node node;
    struct hvd_aggregator *r;
};

static hvd_status_t open_aggregator(struct aggregator *w)
{
    const struct hvd_tree_options shape = {.size = 7, .fanout = 2};
    const struct hvd_aggregator_options options = {.node = &w->node, .set = 5, .world_size = 7};
    hvd_status_t st;

    *w = (struct aggregator){0};
    st = hvd_tree_init(&w->tree, &shape, NULL);
    if (st == HVD_OK)
        st = hvd_tree_node_init(&w->node, &w->tree, 1, NULL);
    return st == HVD_OK ? hvd_aggregator_create(&options, &w->r, NULL) : st;
}

static void close_aggregator(struct aggregator *w)
{
    hvd_aggregator_destroy(w->r);
    hvd_tree_node_fini(&w->node);
    hvd_tree_fini(&w->tree);
}

static struct hvd_request request(enum hvd_op op, const char *name, int64_t rows)
{
    return (struct hvd_request){.op = op,
                                .dtype = HVD_FLOAT32,
                                .reduce = HVD_SUM,
                                .prescale = 1,
                                .postscale = 1,
                                .ndim = 1,
                                .shape = {rows},
                                .name = hvd_strview_of(name)};
}

static hvd_status_t ask_at(struct aggregator *w, int position, const struct hvd_request *req,
                           int64_t now_ns)
{
    const struct hvd_merged_request ask = hvd_message_request_of(req, position);

    return hvd_aggregator_request(w->r, &ask, now_ns, NULL);
}

static void ask(struct aggregator *w, int position, enum hvd_op op, const char *name, int64_t rows)
{
    const struct hvd_request req = request(op, name, rows);

    assert_int_equal(ask_at(w, position, &req, 0), HVD_OK);
}

static hvd_status_t bits(struct aggregator *w, int branch, uint64_t epoch, uint64_t word)
{
    struct hvd_reader reader;
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_bits(&buf, 5, epoch, &word, 1), HVD_OK);
    assert_int_equal(hvd_message_open(&reader, buf.data, buf.len, NULL), HVD_OK);
    hvd_status_t st = hvd_aggregator_bits(w->r, branch, &reader, 0, NULL);
    hvd_buf_fini(&buf);
    return st;
}

static size_t put_ranges(const struct hvd_pos_ranges *by, char *text, size_t size)
{
    size_t len = 0;

    for (uint32_t i = 0; i < by->n; i++) {
        const struct hvd_pos_range range = hvd_message_ranges_at(by, i);
        len +=
            (size_t)snprintf(text + len, size - len, "%s%d+%d", i ? "," : "", range.first, range.n);
    }
    return len;
}

/* One message as text: "name@first+n,first+n" a request, "bits 5", "slot 3@1+1", "leave 2+1". */
static void put_message(const struct hvd_buf *message, char *text, size_t size)
{
    struct hvd_reader r;
    struct hvd_merged_request item;
    struct hvd_partial partial;
    struct hvd_pos_range who;
    struct hvd_strview why;
    enum hvd_leave_why kind;
    size_t len = 0;

    assert_int_equal(hvd_message_open(&r, message->data, message->len, NULL), HVD_OK);
    assert_int_equal(r.set, 5);
    if (r.type == HVD_MESSAGE_BITS)
        snprintf(text, size, "bits %llu;", (unsigned long long)hvd_message_word(&r, 0));
    while (r.left > 0 && r.type == HVD_MESSAGE_REQUESTS) {
        assert_int_equal(hvd_message_read_request(&r, &item, NULL), HVD_OK);
        len += (size_t)snprintf(text + len, size - len, "%.*s@", (int)item.request.name.len,
                                item.request.name.data);
        len += put_ranges(&item.by, text + len, size - len);
        uint32_t n = 0;
        for (uint32_t i = 0; i < item.by.n; i++)
            n += (uint32_t)hvd_message_ranges_at(&item.by, i).n;
        for (uint32_t i = 0; i < n && hvd_message_has_rows(&item.request); i++)
            len += (size_t)snprintf(text + len, size - len, " %d",
                                    (int)hvd_message_request_row(&item, i));
        len += (size_t)snprintf(text + len, size - len, "%s%.*s;", item.refusal.len ? " not: " : "",
                                (int)item.refusal.len, item.refusal.data);
    }
    while (r.left > 0 && r.type == HVD_MESSAGE_PARTIAL) {
        assert_int_equal(hvd_message_read_partial(&r, &partial, NULL), HVD_OK);
        len += (size_t)snprintf(text + len, size - len, "slot %u@", partial.slot);
        len += put_ranges(&partial.by, text + len, size - len);
        len += (size_t)snprintf(text + len, size - len, " %ums;", partial.age_ms);
    }
    while (r.left > 0) {
        assert_int_equal(hvd_message_read_leave(&r, &who, &kind, &why, NULL), HVD_OK);
        len += (size_t)snprintf(text + len, size - len, "leave %d+%d %.*s;", who.first, who.n,
                                (int)why.len, why.data);
    }
}

/* Everything that goes up now. */
static const char *take(struct aggregator *w)
{
    static char text[1024];
    const struct hvd_buf *message = NULL;

    text[0] = '\0';
    for (;;) {
        assert_int_equal(hvd_aggregator_next(w->r, &message, NULL), HVD_OK);
        if (!message)
            return text;
        put_message(message, text + strlen(text), sizeof(text) - strlen(text));
    }
}

static hvd_status_t follow(struct aggregator *w, uint64_t epoch, const struct hvd_step *steps,
                           int n, uint64_t word)
{
    const struct hvd_plan_head head = {.epoch = epoch, .words = &word, .n_words = word ? 1 : 0};
    struct hvd_reader reader;
    struct hvd_buf plan;

    hvd_buf_init(&plan, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&plan, HVD_MESSAGE_PLAN, 5);
    for (int i = 0; i < n && st == HVD_OK; i++)
        st = hvd_message_add_step(&plan, &steps[i], NULL);
    if (st == HVD_OK)
        st = hvd_message_end_plan(&plan, &head);
    if (st == HVD_OK)
        st = hvd_message_open(&reader, plan.data, plan.len, NULL);
    if (st == HVD_OK)
        st = hvd_aggregator_plan(w->r, reader, NULL);
    hvd_buf_fini(&plan);
    return st;
}

static struct hvd_step step(int kind, uint32_t slot, const char *name)
{
    return (struct hvd_step){.kind = kind,
                             .reduce = HVD_SUM,
                             .slot = slot,
                             .name = hvd_strview_of(name),
                             .text = {.data = ""}};
}

/* Slots 0 and 1 of allreduces a and b, 2 of a broadcast c, from plan 1 on. */
static void cache_three(struct aggregator *w)
{
    const struct hvd_step steps[] = {step(HVD_ALLREDUCE, 0, "a"), step(HVD_ALLREDUCE, 1, "b"),
                                     step(HVD_BROADCAST, 2, "c")};

    assert_int_equal(follow(w, 1, steps, 3, 0), HVD_OK);
}

static void what_all_ask_for_alike_goes_up_once(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    ask(&w, 3, HVD_ALLREDUCE, "t", 4);
    ask(&w, 1, HVD_ALLREDUCE, "t", 4);
    ask(&w, 1, HVD_ALLREDUCE, "u", 4);
    assert_string_equal(take(&w), "");
    assert_int_equal(hvd_aggregator_waiting(w.r), 2);
    ask(&w, 2, HVD_ALLREDUCE, "t", 4);
    assert_string_equal(take(&w), "t@1+3;");
    assert_string_equal(take(&w), "");
    ask(&w, 2, HVD_ALLREDUCE, "t", 4); /* the next time */
    assert_int_equal(hvd_aggregator_waiting(w.r), 2);
    close_aggregator(&w);
}

static void requests_that_differ_go_up_with_who_makes_each(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    ask(&w, 1, HVD_ALLREDUCE, "t", 4);
    ask(&w, 2, HVD_ALLREDUCE, "t", 5);
    ask(&w, 3, HVD_ALLREDUCE, "t", 4);
    assert_string_equal(take(&w), "t@1+1,3+1;t@2+1;");
    struct hvd_request grouped = request(HVD_ALLREDUCE, "g", 4);
    ask(&w, 1, HVD_ALLREDUCE, "g", 4);
    ask(&w, 2, HVD_ALLREDUCE, "g", 4);
    grouped.group = 9;
    grouped.group_size = 1;
    assert_int_equal(ask_at(&w, 3, &grouped, 0), HVD_OK);
    assert_string_equal(take(&w), "g@1+2;g@3+1;");
    close_aggregator(&w);
}

static void an_allgather_brings_the_rows_of_every_rank(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    ask(&w, 3, HVD_ALLGATHER, "t", 30);
    ask(&w, 1, HVD_ALLGATHER, "t", 10);
    ask(&w, 2, HVD_ALLGATHER, "t", 20);
    ask(&w, 2, HVD_ALLTOALL, "s", 2);
    ask(&w, 3, HVD_ALLTOALL, "s", 4);
    ask(&w, 1, HVD_ALLTOALL, "s", 6);
    assert_string_equal(take(&w), "t@1+3 10 20 30;s@1+3;");
    close_aggregator(&w);
}

static void bits_go_up_when_every_party_has_asked(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    cache_three(&w);
    for (uint64_t round = 1; round <= 3; round++) { /* a bit that is not cleared would show */
        assert_int_equal(bits(&w, 0, round, 3), HVD_OK);
        assert_int_equal(bits(&w, 1, round, 7), HVD_OK);
        assert_string_equal(take(&w), "");
        assert_int_equal(bits(&w, 2, round, 1), HVD_OK);
        assert_string_equal(take(&w), "bits 1;");
        assert_int_equal(bits(&w, 2, round, 1), HVD_ERR_INVALID); /* not in a plan yet */
        assert_int_equal(bits(&w, 2, round, 6), HVD_OK);
        assert_int_equal(bits(&w, 2, round, 2), HVD_ERR_INVALID);
        assert_int_equal(bits(&w, 0, round, 4), HVD_OK);
        assert_string_equal(take(&w), "bits 6;");
        assert_int_equal(follow(&w, round + 1, NULL, 0, 7), HVD_OK);
    }
    assert_int_equal(bits(&w, 1, 4, 1), HVD_OK);
    assert_int_equal(bits(&w, 1, 4, (uint64_t)1 << 60), HVD_OK); /* was in use once, maybe */
    close_aggregator(&w);
}

static void bits_for_what_a_slot_was_before_are_dropped(void **state)
{
    const struct hvd_step evict = step(HVD_STEP_EVICT, 0, "");
    const struct hvd_step again = step(HVD_ALLREDUCE, 0, "z");
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    cache_three(&w);
    assert_int_equal(bits(&w, 0, 1, 1), HVD_OK);
    assert_int_equal(follow(&w, 2, &evict, 1, 0), HVD_OK);
    assert_int_equal(bits(&w, 1, 1, 1), HVD_OK);
    assert_int_equal(follow(&w, 3, &again, 1, 0), HVD_OK);
    assert_int_equal(bits(&w, 2, 2, 1), HVD_OK);
    assert_string_equal(take(&w), "");
    for (int branch = 0; branch < 3; branch++)
        assert_int_equal(bits(&w, branch, 3, 1), HVD_OK);
    assert_string_equal(take(&w), "bits 1;");
    close_aggregator(&w);
}

static void a_cached_tensor_asked_for_by_name_goes_up_at_once(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    cache_three(&w);
    ask(&w, 2, HVD_ALLREDUCE, "a", 4);
    assert_string_equal(take(&w), "a@2+1;");
    ask(&w, 1, HVD_ALLREDUCE, "a", 4);
    assert_string_equal(take(&w), "");
    ask(&w, 3, HVD_ALLREDUCE, "a", 4);
    assert_string_equal(take(&w), "a@1+1,3+1;");
    close_aggregator(&w);
}

static void who_has_joined_counts_but_is_not_among_those_that_ask(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    cache_three(&w);
    ask(&w, 1, HVD_ALLREDUCE, "t", 4);
    ask(&w, 3, HVD_ALLREDUCE, "t", 4);
    assert_int_equal(bits(&w, 0, 1, 5), HVD_OK);
    assert_int_equal(bits(&w, 2, 1, 5), HVD_OK);
    ask(&w, 2, HVD_JOIN, "join", 0);
    /* zeros make no sense in a broadcast: the coordinator takes its slot away */
    assert_string_equal(take(&w), "bits 1;t@1+1,3+1;join@2+1;");
    ask(&w, 3, HVD_ALLREDUCE, "u", 4);
    assert_string_equal(take(&w), "");
    ask(&w, 1, HVD_JOIN, "join", 0);
    assert_string_equal(take(&w), "u@3+1;join@1+1;");
    const struct hvd_step end = step(HVD_JOIN, HVD_CACHE_NO_SLOT, "join");
    assert_int_equal(follow(&w, 2, &end, 1, 1), HVD_OK);
    ask(&w, 3, HVD_ALLREDUCE, "v", 4);
    assert_string_equal(take(&w), "");
    close_aggregator(&w);
}

static void what_waits_too_long_goes_up_as_far_as_it_is_known(void **state)
{
    const int64_t second = 1000000000;
    const struct hvd_request late = request(HVD_ALLREDUCE, "t", 4);
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    cache_three(&w);
    assert_int_equal(ask_at(&w, 3, &late, 5 * second), HVD_OK);
    assert_int_equal(bits(&w, 1, 1, 2), HVD_OK); /* at 0 s */
    assert_int_equal(hvd_aggregator_stalled(w.r, 9 * second, 10 * second, NULL), HVD_OK);
    assert_string_equal(take(&w), "");
    assert_int_equal(hvd_aggregator_stalled(w.r, 12 * second, 10 * second, NULL), HVD_OK);
    assert_string_equal(take(&w), "slot 1@2+1 12000ms;");
    assert_int_equal(hvd_aggregator_stalled(w.r, 15 * second, 10 * second, NULL), HVD_OK);
    assert_string_equal(take(&w), "t@3+1;");
    assert_int_equal(bits(&w, 2, 1, 2), HVD_OK);
    assert_int_equal(ask_at(&w, 1, &late, 15 * second), HVD_OK);
    assert_int_equal(hvd_aggregator_stalled(w.r, 16 * second, 10 * second, NULL), HVD_OK);
    assert_string_equal(take(&w), "t@1+1;slot 1@2+2 16000ms;");
    assert_int_equal(hvd_aggregator_stalled(w.r, 17 * second, 10 * second, NULL), HVD_OK);
    assert_string_equal(take(&w), "");
    assert_int_equal(ask_at(&w, 2, &late, 17 * second), HVD_OK);
    assert_string_equal(take(&w), "t@2+1;");
    close_aggregator(&w);
}

static void the_first_to_leave_is_named_and_the_rest_are_counted(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    for (int position = 2; position <= 3; position++)
        assert_int_equal(hvd_aggregator_leave(w.r,
                                              (struct hvd_pos_range){.first = position, .n = 1},
                                              false, "had enough", NULL),
                         HVD_OK);
    assert_string_equal(take(&w), "leave 2+1 had enough;");
    assert_int_equal(
        hvd_aggregator_leave(w.r, (struct hvd_pos_range){.first = 1, .n = 1}, false, "too", NULL),
        HVD_OK);
    assert_string_equal(take(&w), "leave 1+3 too;");
    assert_int_equal(
        hvd_aggregator_leave(w.r, (struct hvd_pos_range){.first = 4, .n = 1}, false, "", NULL),
        HVD_ERR_INVALID);
    close_aggregator(&w);
}

static void who_is_elsewhere_or_asks_twice_is_at_fault(void **state)
{
    const struct hvd_request req = request(HVD_ALLREDUCE, "t", 4);
    const struct hvd_request join = request(HVD_JOIN, "j", 0);
    struct hvd_request illegal = req;
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    assert_int_equal(ask_at(&w, 4, &req, 0), HVD_ERR_INVALID);
    assert_int_equal(ask_at(&w, 0, &req, 0), HVD_ERR_INVALID);
    assert_int_equal(ask_at(&w, 2, &req, 0), HVD_OK);
    assert_int_equal(ask_at(&w, 2, &req, 0), HVD_ERR_INVALID);
    assert_int_equal(ask_at(&w, 2, &join, 0), HVD_OK);
    assert_int_equal(ask_at(&w, 2, &join, 0), HVD_ERR_INVALID);
    illegal.ndim = -1;
    assert_int_equal(ask_at(&w, 3, &illegal, 0), HVD_ERR_INVALID);
    assert_int_equal(bits(&w, 1, 0, 1), HVD_ERR_INVALID);
    close_aggregator(&w);
}

static void refuse(struct aggregator *w, int position, const char *name, const char *reason)
{
    const struct hvd_request req = request(HVD_ALLREDUCE, name, 4);
    struct hvd_merged_request ask = hvd_message_request_of(&req, position);

    ask.refusal = hvd_strview_of(reason);
    assert_int_equal(hvd_aggregator_request(w->r, &ask, 0, NULL), HVD_OK);
}

static void refusals_go_up_as_one_with_the_first_reason(void **state)
{
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    refuse(&w, 3, "t", "of 3");
    ask(&w, 2, HVD_ALLREDUCE, "t", 4);
    assert_string_equal(take(&w), "");
    refuse(&w, 1, "t", "of 1");
    assert_string_equal(take(&w), "t@1+1,3+1 not: of 3;t@2+1;");
    cache_three(&w);
    refuse(&w, 2, "b", "of 2"); /* cached: the others have asked by bit, or will */
    assert_string_equal(take(&w), "b@2+1 not: of 2;");
    close_aggregator(&w);
}

static void after_a_shutdown_nothing_goes_up_but_leaves(void **state)
{
    const struct hvd_step end = step(HVD_STEP_SHUTDOWN, HVD_CACHE_NO_SLOT, "");
    struct aggregator w;

    (void)state;
    assert_int_equal(open_aggregator(&w), HVD_OK);
    ask(&w, 2, HVD_ALLREDUCE, "t", 4);
    assert_int_equal(follow(&w, 1, &end, 1, 0), HVD_OK);
    for (int position = 1; position <= 3; position++)
        ask(&w, position, HVD_ALLREDUCE, "t", 4);
    assert_int_equal(hvd_aggregator_waiting(w.r), 0);
    assert_int_equal(
        hvd_aggregator_leave(w.r, (struct hvd_pos_range){.first = 1, .n = 3}, false, "all", NULL),
        HVD_OK);
    assert_string_equal(take(&w), "leave 1+3 all;leave 1+3 all;");
    close_aggregator(&w);
}

static void a_group_has_the_same_number_in_any_order(void **state)
{
    const struct hvd_strview a = hvd_strview_of("a");
    const struct hvd_strview b = hvd_strview_of("b");
    const uint64_t ab = hvd_group_add(hvd_group_add(0, a), b);

    (void)state;
    assert_true(ab == hvd_group_add(hvd_group_add(0, b), a));
    assert_int_equal(hvd_group_number(ab, 2), hvd_group_number(ab, 2));
    assert_int_not_equal(hvd_group_number(ab, 2), hvd_group_number(hvd_group_add(0, a), 2));
    assert_int_not_equal(hvd_group_number(ab, 2), hvd_group_number(ab, 3));
}

/* Some of everything, as far as memory goes. */
static hvd_status_t work(struct aggregator *w)
{
    const struct hvd_step steps[] = {step(HVD_ALLREDUCE, 70, "a"), step(HVD_STEP_EVICT, 70, "")};
    const struct hvd_request t = request(HVD_ALLGATHER, "t", 4);
    const struct hvd_request u = request(HVD_ALLREDUCE, "u", 4);
    hvd_status_t st = follow(w, 1, steps, 1, 0);
    const struct hvd_buf *message = NULL;

    for (int position = 1; position <= 3 && st == HVD_OK; position++)
        st = ask_at(w, position, &t, 0);
    if (st == HVD_OK)
        st = ask_at(w, 1, &u, 0);
    if (st == HVD_OK)
        st = hvd_aggregator_stalled(w->r, 100, 10, NULL);
    if (st == HVD_OK)
        st = hvd_aggregator_leave(w->r, (struct hvd_pos_range){.first = 1, .n = 3}, false, "x",
                                  NULL);
    while (st == HVD_OK && (st = hvd_aggregator_next(w->r, &message, NULL)) == HVD_OK && message)
        assert_true(message->len > 0);
    return st == HVD_OK ? follow(w, 2, steps + 1, 1, 0) : st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct aggregator w;
        hvd_status_t st = open_aggregator(&w);
        if (st == HVD_OK)
            st = work(&w);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        close_aggregator(&w);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_all_ask_for_alike_goes_up_once),
        cmocka_unit_test(requests_that_differ_go_up_with_who_makes_each),
        cmocka_unit_test(an_allgather_brings_the_rows_of_every_rank),
        cmocka_unit_test(bits_go_up_when_every_party_has_asked),
        cmocka_unit_test(bits_for_what_a_slot_was_before_are_dropped),
        cmocka_unit_test(a_cached_tensor_asked_for_by_name_goes_up_at_once),
        cmocka_unit_test(who_has_joined_counts_but_is_not_among_those_that_ask),
        cmocka_unit_test(what_waits_too_long_goes_up_as_far_as_it_is_known),
        cmocka_unit_test(the_first_to_leave_is_named_and_the_rest_are_counted),
        cmocka_unit_test(who_is_elsewhere_or_asks_twice_is_at_fault),
        cmocka_unit_test(refusals_go_up_as_one_with_the_first_reason),
        cmocka_unit_test(after_a_shutdown_nothing_goes_up_but_leaves),
        cmocka_unit_test(a_group_has_the_same_number_in_any_order),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
