/* Ranks in one process on a simulated clock: each message arrives at once. */
#include "tests/unit/support.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/arrival.h"

#define MS ((int64_t)1000000)
#define WARNING (2000 * MS)
#define SHUTDOWN (4000 * MS)
#define LOOK (WARNING / 16)
#define BEGIN (1000 * MS)
#define RANKS_MAX 40

struct scene {
    int size;
    int64_t now;
    struct hvd_arrival *ranks[RANKS_MAX]; /* NULL: it has not come */
    bool is_frozen[RANKS_MAX];
    bool has_left[RANKS_MAX];
    int64_t warned[RANKS_MAX]; /* when somebody named it first, from the begin on; -1: nobody */
    int64_t lost[RANKS_MAX];
    int n_messages;
    struct hvd_arrival_step last;
};

static void open_scene(struct scene *s, int size)
{
    *s = (struct scene){.size = size, .now = BEGIN};
    for (int i = 0; i < size; i++)
        s->warned[i] = s->lost[i] = -1;
}

static void come(struct scene *s, int rank, bool is_mute)
{
    const struct hvd_arrival_options options = {.rank = rank,
                                                .size = s->size,
                                                .warning_ns = WARNING,
                                                .shutdown_ns = SHUTDOWN,
                                                .is_mute = is_mute};

    assert_int_equal(hvd_arrival_create(&options, s->now, &s->ranks[rank], NULL), HVD_OK);
}

static void close_scene(struct scene *s)
{
    for (int i = 0; i < s->size; i++)
        hvd_arrival_destroy(s->ranks[i]);
}

/* What was sent before a rank has come is there when it comes: its neighbours send again here. */
static void deliver(struct scene *s, int from, const struct hvd_arrival_step *step)
{
    struct hvd_arrival *a = s->ranks[from];
    const int to = hvd_arrival_rank(a, step->neighbour);

    s->n_messages++;
    assert_false(s->has_left[to]); /* nobody sends to who has left */
    for (int i = 0; s->ranks[to] && i < hvd_arrival_neighbours(s->ranks[to]); i++)
        if (hvd_arrival_rank(s->ranks[to], i) == from)
            hvd_arrival_received(s->ranks[to], i, step->message, hvd_arrival_interval(a), s->now);
}

static void look(struct scene *s, int rank)
{
    struct hvd_arrival_step step;

    hvd_arrival_tick(s->ranks[rank], s->now);
    while (hvd_arrival_next(s->ranks[rank], &step)) {
        const int about = hvd_arrival_rank(s->ranks[rank], step.neighbour);
        s->last = step;
        if (step.action == HVD_ARRIVAL_SEND)
            deliver(s, rank, &step);
        else if (step.action == HVD_ARRIVAL_WARN && s->warned[about] < 0)
            s->warned[about] = s->now - BEGIN;
        else if (step.action == HVD_ARRIVAL_LOSE && s->lost[about] < 0)
            s->lost[about] = s->now - BEGIN;
    }
    s->has_left[rank] = hvd_arrival_is_over(s->ranks[rank]);
}

/* Everybody looks every LOOK, for so long. */
static void run(struct scene *s, int64_t ns)
{
    for (const int64_t end = s->now + ns; s->now < end; s->now += LOOK)
        for (int rank = 0; rank < s->size; rank++)
            if (s->ranks[rank] && !s->is_frozen[rank] && !s->has_left[rank])
                look(s, rank);
}

static int count_left(const struct scene *s)
{
    int n = 0;

    for (int rank = 0; rank < s->size; rank++)
        n += s->has_left[rank];
    return n;
}

static void ranks_that_come_at_once_leave_after_four_messages_each(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 17, 18, 40};

    (void)state;
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct scene s;
        open_scene(&s, sizes[k]);
        for (int rank = 0; rank < s.size; rank++) {
            come(&s, rank, false);
            hvd_arrival_finish(s.ranks[rank]);
        }
        run(&s, LOOK * 8);
        assert_int_equal(count_left(&s), s.size);
        assert_int_equal(s.n_messages, 4 * (s.size - 1));
        close_scene(&s);
    }
}

static void nobody_leaves_before_all_are_through(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 40);
    for (int rank = 0; rank < s.size; rank++) {
        come(&s, rank, false);
        if (rank != 23)
            hvd_arrival_finish(s.ranks[rank]);
    }
    run(&s, 10 * SHUTDOWN);
    assert_int_equal(count_left(&s), 0);
    for (int rank = 0; rank < s.size; rank++)
        assert_int_equal(s.warned[rank], -1); /* all are there */
    hvd_arrival_finish(s.ranks[23]);
    run(&s, LOOK * 8);
    assert_int_equal(count_left(&s), 40);
    close_scene(&s);
}

static void a_rank_that_never_comes_is_named_alone_and_lost(void **state)
{
    static const int victims[] = {0, 1, 2, 30};

    (void)state;
    for (size_t k = 0; k < sizeof(victims) / sizeof(victims[0]); k++) {
        struct scene s;
        open_scene(&s, 40);
        for (int rank = 0; rank < s.size; rank++)
            if (rank != victims[k])
                come(&s, rank, false);
        run(&s, SHUTDOWN + 2 * LOOK);
        for (int rank = 0; rank < s.size; rank++) {
            assert_int_equal(s.warned[rank], rank == victims[k] ? WARNING : -1);
            assert_int_equal(s.lost[rank], rank == victims[k] ? SHUTDOWN : -1);
        }
        close_scene(&s);
    }
}

static void a_rank_that_stops_anywhere_is_named_alone(void **state)
{
    (void)state;
    for (int victim = 0; victim < 20; victim++) {
        for (int is_through = 0; is_through < 2; is_through++) {
            struct scene s;
            open_scene(&s, 20);
            for (int rank = 0; rank < s.size; rank++)
                come(&s, rank, false);
            run(&s, WARNING);
            if (is_through) /* the others have come to the end, and wait there */
                for (int rank = 0; rank < s.size; rank++)
                    if (rank != victim)
                        hvd_arrival_finish(s.ranks[rank]);
            s.is_frozen[victim] = true;
            run(&s, SHUTDOWN + WARNING);
            for (int rank = 0; rank < s.size; rank++) {
                assert_int_equal(s.warned[rank] >= 0, rank == victim);
                assert_int_equal(s.lost[rank] >= 0, rank == victim);
            }
            assert_in_range(s.warned[victim], 2 * WARNING - WARNING / 8, 2 * WARNING + LOOK);
            assert_int_equal(count_left(&s), 0);
            close_scene(&s);
        }
    }
}

static void a_rank_that_cannot_send_meanwhile_is_not_blamed(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 3);
    for (int rank = 0; rank < 3; rank++)
        come(&s, rank, rank == 1);
    run(&s, LOOK);
    s.is_frozen[1] = true;
    run(&s, 3 * SHUTDOWN);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(s.warned[rank], -1);
    close_scene(&s);
}

static void a_job_that_was_stopped_blames_nobody_for_it(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 3);
    for (int rank = 0; rank < 3; rank++)
        come(&s, rank, false);
    run(&s, WARNING / 2);
    s.now += 10 * SHUTDOWN;
    run(&s, SHUTDOWN);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(s.warned[rank], -1);
    close_scene(&s);
}

static void who_comes_again_is_named_again(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 2);
    come(&s, 0, false);
    run(&s, WARNING + 2 * LOOK);
    assert_int_equal(s.warned[1], WARNING);
    assert_false(s.last.has_come);
    come(&s, 1, false);
    run(&s, WARNING);
    s.warned[1] = -1;
    s.is_frozen[1] = true;
    run(&s, 2 * WARNING);
    assert_true(s.warned[1] > 0);
    assert_true(s.last.has_come);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_come_at_once_leave_after_four_messages_each),
        cmocka_unit_test(nobody_leaves_before_all_are_through),
        cmocka_unit_test(a_rank_that_never_comes_is_named_alone_and_lost),
        cmocka_unit_test(a_rank_that_stops_anywhere_is_named_alone),
        cmocka_unit_test(a_rank_that_cannot_send_meanwhile_is_not_blamed),
        cmocka_unit_test(a_job_that_was_stopped_blames_nobody_for_it),
        cmocka_unit_test(who_comes_again_is_named_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
