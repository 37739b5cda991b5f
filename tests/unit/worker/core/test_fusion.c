#include "tests/unit/support.h"

#include "worker/core/fusion.h"

#define MAX 16

static const struct hvd_request floats = {
    .op = HVD_ALLREDUCE, .dtype = HVD_FLOAT32, .reduce = HVD_SUM, .prescale = 1, .postscale = 1};
static const struct hvd_request halves = {
    .op = HVD_ALLREDUCE, .dtype = HVD_FLOAT16, .reduce = HVD_SUM, .prescale = 1, .postscale = 1};

struct world {
    struct hvd_fusable items[MAX];
    struct hvd_batch batches[MAX];
    uint32_t n;
    uint32_t n_batches;
};

static void add(struct world *w, const struct hvd_request *req, int64_t count)
{
    w->items[w->n++] =
        (struct hvd_fusable){.request = req, .count = count, .kind = hvd_fusion_kind(req, count)};
}

/* The items of each batch, as digits, batches apart by a blank. */
static void expect(struct world *w, int64_t max_bytes, const char *want)
{
    char got[2 * MAX + 1] = "";
    size_t at = 0;

    w->n_batches = hvd_fusion_fuse(w->items, w->n, max_bytes, w->batches);
    for (uint32_t b = 0; b < w->n_batches; b++) {
        int64_t bytes = 0;
        uint32_t n = 0;
        if (b > 0)
            got[at++] = ' ';
        for (uint32_t i = w->batches[b].first; i != HVD_FUSION_END; i = w->items[i].next) {
            got[at++] = (char)('0' + i);
            bytes += w->items[i].count * (int64_t)hvd_dtype_size((int)w->items[i].request->dtype);
            n++;
        }
        assert_int_equal(bytes, w->batches[b].bytes);
        assert_int_equal(n, w->batches[b].n);
        assert_true(n == 1 || bytes <= max_bytes);
    }
    got[at] = '\0';
    assert_string_equal(got, want);
}

static void tensors_of_different_groups_stay_apart(void **state)
{
    static const uint32_t groups[] = {1, 0, 1, 2, 0, 2, 1};
    struct world w = {.n = 0};

    (void)state;
    for (int i = 0; i < 7; i++) {
        add(&w, &floats, 10);
        w.items[i].group = groups[i];
    }
    expect(&w, 1000, "026 14 35");
    expect(&w, 80, "02 14 35 6");
}

static void tensors_of_one_kind_move_together_up_to_the_limit(void **state)
{
    struct world w = {.n = 0};

    (void)state;
    for (int i = 0; i < 5; i++)
        add(&w, &floats, 10); /* 40 bytes each */
    expect(&w, 1000, "01234");
    expect(&w, 80, "01 23 4");
    expect(&w, 79, "0 1 2 3 4");
    expect(&w, 0, "0 1 2 3 4");
}

static void other_kinds_in_between_do_not_end_a_batch(void **state)
{
    struct world w = {.n = 0};
    struct hvd_request scaled = floats;
    struct hvd_request gather = floats;

    (void)state;
    scaled.prescale = 0.5;
    gather.op = HVD_ALLGATHER;
    add(&w, &floats, 10);
    add(&w, &halves, 10);
    add(&w, &gather, 10);
    add(&w, &floats, 10);
    add(&w, &scaled, 10);
    add(&w, &halves, 10);
    expect(&w, 1000, "03 15 2 4");
}

static void a_tensor_larger_than_the_limit_goes_alone_and_small_ones_still_fuse(void **state)
{
    struct world w = {.n = 0};

    (void)state;
    add(&w, &floats, 1);
    add(&w, &floats, 1000);
    add(&w, &floats, 1);
    expect(&w, 100, "02 1");
}

static void more_kinds_than_can_be_open_lose_no_tensor(void **state)
{
    struct hvd_request kinds[20];
    struct hvd_fusable items[60];
    struct hvd_batch batches[60];
    uint32_t n = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        kinds[i] = floats;
        kinds[i].prescale = i + 2;
    }
    for (int i = 0; i < 60; i++)
        items[i] = (struct hvd_fusable){
            .request = &kinds[i % 20], .count = 1, .kind = hvd_fusion_kind(&kinds[i % 20], 1)};
    uint32_t n_batches = hvd_fusion_fuse(items, 60, 1000, batches);
    for (uint32_t b = 0; b < n_batches; b++)
        n += batches[b].n;
    assert_int_equal(n, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_different_groups_stay_apart),
        cmocka_unit_test(tensors_of_one_kind_move_together_up_to_the_limit),
        cmocka_unit_test(other_kinds_in_between_do_not_end_a_batch),
        cmocka_unit_test(a_tensor_larger_than_the_limit_goes_alone_and_small_ones_still_fuse),
        cmocka_unit_test(more_kinds_than_can_be_open_lose_no_tensor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
