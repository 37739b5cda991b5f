#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/heartbeat.h"

#define MS ((int64_t)1000000)
#define WARNING (2000 * MS)
#define SHUTDOWN (4000 * MS)
#define TICK (WARNING / 8)
#define BEGIN (1000 * MS)

/* Position 1 of a tree: the parent is 0, one child is a leaf, the other one has ranks below. */
static struct hvd_pos_range children[] = {{.first = 2, .n = 3}, {.first = 5, .n = 1}};
static const struct hvd_node inner = {
    .parent = 0, .range = {.first = 1, .n = 5}, .children = children, .n_children = 2};
enum { PARENT, AGGREGATOR, LEAF, N };

struct scene {
    struct hvd_heartbeat *h;
    int64_t now;
    struct hvd_waits waits;
    bool answers[N];
    int n_probes[N];
    int64_t warned[N]; /* when, from the begin on; -1: not */
    int64_t lost[N];
    int64_t silent; /* of the last one that was lost, as it was given */
    int64_t overdue;
    int64_t ended;
    struct hvd_beat_step last;
};

static void open_scene(struct scene *s, int64_t shutdown_ns)
{
    const struct hvd_heartbeat_options options = {
        .warning_ns = WARNING, .shutdown_ns = shutdown_ns, .node = &inner, .size = 6};

    *s = (struct scene){.now = BEGIN, .overdue = -1, .ended = -1};
    for (int i = 0; i < N; i++) {
        s->answers[i] = true;
        s->warned[i] = s->lost[i] = -1;
    }
    assert_int_equal(hvd_heartbeat_create(&options, &s->h, NULL), HVD_OK);
}

static void note(struct scene *s, const struct hvd_beat_step *step)
{
    const int64_t at = s->now - BEGIN;

    s->last = *step;
    switch (step->action) {
    case HVD_BEAT_PROBE:
        s->n_probes[step->neighbour]++;
        break;
    case HVD_BEAT_WARN:
        assert_int_equal(s->warned[step->neighbour], -1);
        s->warned[step->neighbour] = at;
        break;
    case HVD_BEAT_LOSE:
        assert_int_equal(s->lost[step->neighbour], -1);
        s->lost[step->neighbour] = at;
        s->silent = step->silent_ns;
        break;
    case HVD_BEAT_OVERDUE_WARN:
        assert_int_equal(s->overdue, -1);
        s->overdue = at;
        break;
    case HVD_BEAT_OVERDUE_LOSE:
        assert_int_equal(s->ended, -1);
        s->ended = at;
        break;
    }
}

/* Ticks until then; who answers does so before the next tick. */
static void go_on(struct scene *s, int64_t until)
{
    struct hvd_beat_step step;

    for (; s->now <= BEGIN + until; s->now += TICK) {
        hvd_heartbeat_tick(s->h, &s->waits, s->now);
        int probed = 0;
        while (hvd_heartbeat_next(s->h, &step)) {
            note(s, &step);
            if (step.action == HVD_BEAT_PROBE)
                probed |= 1 << step.neighbour;
        }
        for (int i = 0; i < N; i++)
            if (s->answers[i] && (probed & 1 << i))
                hvd_heartbeat_received(s->h, i, s->now);
    }
}

static void wait_for(struct scene *s, enum hvd_wait_kind kind, int64_t since)
{
    s->waits.of[kind] = (struct hvd_wait){.since_ns = since, .name = hvd_strview_of("t")};
}

static void nothing_is_sent_before_a_quarter_of_the_warning_time(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    go_on(&s, 10 * WARNING); /* nothing is waited for */
    for (int step = 0; step < 50; step++) {
        wait_for(&s, HVD_WAIT_DATA, s.now); /* one after the other */
        go_on(&s, s.now - BEGIN + WARNING / 4 - TICK);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(s.n_probes[i], 0);
    assert_int_equal(s.overdue, -1);
    hvd_heartbeat_destroy(s.h);
}

static void a_silent_neighbour_is_warned_of_and_given_up_at_the_times_that_were_set(void **state)
{
    static const enum hvd_wait_kind kinds[] = {HVD_WAIT_PLAN, HVD_WAIT_DATA, HVD_WAIT_LEAVE};
    struct scene s;

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        for (int silent = 0; silent < N; silent++) {
            open_scene(&s, SHUTDOWN);
            wait_for(&s, kinds[k], BEGIN);
            s.answers[silent] = false;
            go_on(&s, SHUTDOWN + WARNING);
            for (int i = 0; i < N; i++) {
                const bool is_due = i != LEAF || kinds[k] != HVD_WAIT_PLAN; /* see may_lose */
                assert_int_equal(s.warned[i], i == silent ? WARNING : -1);
                assert_int_equal(s.lost[i], i == silent && is_due ? SHUTDOWN : -1);
            }
            assert_int_equal(s.n_probes[silent], 1); /* messages arrive: one is enough */
            assert_int_equal(s.overdue, -1);
            assert_int_equal(s.ended, -1);
            hvd_heartbeat_destroy(s.h);
        }
    }
}

static void nobody_is_given_up_where_that_is_not_asked_for(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 0);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    s.answers[PARENT] = false;
    go_on(&s, 100 * WARNING);
    assert_int_equal(s.warned[PARENT], WARNING);
    assert_int_equal(s.lost[PARENT], -1);
    assert_int_equal(s.ended, -1);
    hvd_heartbeat_destroy(s.h);
}

static void data_that_moves_nowhere_while_all_answer_is_overdue(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    go_on(&s, SHUTDOWN + WARNING);
    assert_int_equal(s.overdue, WARNING);
    assert_int_equal(s.ended, SHUTDOWN);
    for (int i = 0; i < N; i++)
        assert_int_equal(s.warned[i], -1);
    hvd_heartbeat_destroy(s.h);
}

static void data_that_creeps_is_waited_for_and_overdue_once_it_stops(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    for (int step = 1; step <= 20; step++) { /* each time just before the warning */
        go_on(&s, step * (WARNING - TICK));
        s.waits.of[HVD_WAIT_DATA].moved++;
    }
    go_on(&s, s.now - BEGIN); /* which sees the last one */
    const int64_t stopped = s.now - TICK - BEGIN;
    assert_true(stopped > 8 * SHUTDOWN);
    assert_int_equal(s.overdue, -1);
    go_on(&s, stopped + SHUTDOWN + WARNING);
    assert_int_equal(s.overdue, stopped + WARNING);
    assert_int_equal(s.ended, stopped + SHUTDOWN);
    hvd_heartbeat_destroy(s.h);
}

/* A transfer that waits behind another one is on its way as well. */
static void what_waits_behind_data_that_has_moved_counts_from_then(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    go_on(&s, WARNING - TICK);
    wait_for(&s, HVD_WAIT_DATA, BEGIN + 1); /* agreed on with the first one */
    s.waits.of[HVD_WAIT_DATA].moved = 1;
    const int64_t then = s.now - BEGIN;
    go_on(&s, then + SHUTDOWN + WARNING);
    assert_int_equal(s.overdue, then + WARNING);
    assert_int_equal(s.ended, then + SHUTDOWN);
    hvd_heartbeat_destroy(s.h);
}

/* What a neighbour says. */
static void hear(struct scene *s, int neighbour, enum hvd_wait_kind kind, int64_t age, int silent)
{
    const struct hvd_beat beat = {
        .kind = kind, .age_ms = (uint32_t)(age / MS), .name = hvd_strview_of("theirs")};
    struct hvd_beat got;
    struct hvd_buf buf;
    struct hvd_reader reader;

    struct hvd_beat with = beat;
    with.n_silent = silent >= 0;
    hvd_buf_init(&buf, 4096);
    assert_int_equal(hvd_message_beat(&buf, HVD_MESSAGE_PING, 0, &with, &silent), HVD_OK);
    assert_int_equal(hvd_message_open(&reader, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_beat(&reader, &got, NULL), HVD_OK);
    hvd_heartbeat_read(s->h, neighbour, &got, s->now);
    hvd_buf_fini(&buf);
}

static void who_is_probed_probes_the_others_for_as_long_as_it_is(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    s.answers[LEAF] = false;
    while (s.now < BEGIN + WARNING) { /* the parent has waited for half a second before */
        hear(&s, PARENT, HVD_WAIT_DATA, s.now - BEGIN + 500 * MS, -1);
        go_on(&s, s.now - BEGIN);
    }
    assert_int_equal(s.n_probes[PARENT], 0); /* it is there */
    assert_true(s.n_probes[AGGREGATOR] > 3);
    assert_int_equal(s.n_probes[LEAF], 1);
    assert_int_equal(s.warned[LEAF], WARNING - 500 * MS);
    assert_true(hvd_strview_equal(s.last.name, "theirs"));
    const int n_probes = s.n_probes[AGGREGATOR];
    go_on(&s, s.now - BEGIN + WARNING / 2); /* its wait is over: it says nothing any more */
    assert_false(hvd_heartbeat_is_active(s.h));
    const int n_last = s.n_probes[AGGREGATOR];
    go_on(&s, 10 * WARNING);
    assert_in_range(n_last, n_probes, n_probes + 4);
    assert_int_equal(s.n_probes[AGGREGATOR], n_last);
    hvd_heartbeat_destroy(s.h);
}

static void word_of_a_silent_rank_goes_on_but_not_back(void **state)
{
    int positions[HVD_SILENT_MAX];
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    s.answers[LEAF] = false;
    while (s.now < BEGIN + SHUTDOWN + WARNING / 4) {
        hear(&s, AGGREGATOR, HVD_WAIT_DATA, s.now - BEGIN, 4);
        go_on(&s, s.now - BEGIN);
    }
    assert_int_equal(hvd_heartbeat_silent(s.h, -1, positions), 2);
    assert_int_equal(positions[0], 4);
    assert_int_equal(positions[1], 5); /* the leaf's */
    assert_int_equal(hvd_heartbeat_silent(s.h, AGGREGATOR, positions), 1);
    assert_int_equal(positions[0], 5);
    assert_int_equal(s.overdue, -1); /* somebody is to blame */
    assert_int_equal(s.ended, -1);
    hvd_heartbeat_destroy(s.h);
}

static void a_silent_rank_elsewhere_is_left_to_those_next_to_it_for_a_while(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    while (s.now < BEGIN + SHUTDOWN + 2 * WARNING) {
        hear(&s, AGGREGATOR, HVD_WAIT_DATA, s.now - BEGIN, 4);
        go_on(&s, s.now - BEGIN);
    }
    assert_int_equal(s.overdue, -1);
    assert_int_equal(s.ended, SHUTDOWN + WARNING / 2);
    hvd_heartbeat_destroy(s.h);
}

static void who_answers_again_is_warned_of_again(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 0);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    s.answers[LEAF] = false;
    go_on(&s, WARNING);
    assert_int_equal(s.warned[LEAF], WARNING);
    hvd_heartbeat_received(s.h, LEAF, s.now);
    s.warned[LEAF] = -1;
    go_on(&s, 2 * WARNING);
    assert_in_range(s.warned[LEAF], WARNING + WARNING / 2, 2 * WARNING);
    hvd_heartbeat_destroy(s.h);
}

/* A wait may be long before a rank stands still: what counts is how long it does. */
static void a_silence_counts_from_its_begin_and_not_from_that_of_the_wait(void **state)
{
    /* data would be overdue while all answer */
    static const enum hvd_wait_kind kinds[] = {HVD_WAIT_PLAN, HVD_WAIT_LEAVE, HVD_WAIT_SET};
    struct scene s;

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        for (int64_t before = 2 * TICK; before <= 3 * SHUTDOWN; before += 3 * TICK) {
            open_scene(&s, SHUTDOWN);
            wait_for(&s, kinds[k], BEGIN);
            go_on(&s, before); /* the last answer comes then */
            s.answers[AGGREGATOR] = false;
            go_on(&s, before + SHUTDOWN - TICK);
            assert_int_equal(s.lost[AGGREGATOR], -1);
            go_on(&s, before + SHUTDOWN + TICK);
            assert_int_equal(s.lost[AGGREGATOR], before + SHUTDOWN);
            assert_int_equal(s.silent, SHUTDOWN);
            hvd_heartbeat_destroy(s.h);
        }
    }
}

static void a_pause_that_is_shorter_than_the_shutdown_time_ends_nothing(void **state)
{
    struct scene s;

    (void)state;
    for (int64_t pause = TICK; pause < SHUTDOWN; pause += TICK) {
        open_scene(&s, SHUTDOWN);
        wait_for(&s, HVD_WAIT_LEAVE, BEGIN);
        go_on(&s, 2 * SHUTDOWN);
        for (int i = 0; i < 3; i++) {
            s.answers[AGGREGATOR] = false;
            go_on(&s, s.now - BEGIN - TICK + pause);
            s.warned[AGGREGATOR] = -1;
            s.answers[AGGREGATOR] = true;
            hvd_heartbeat_received(s.h, AGGREGATOR, s.now);
            go_on(&s, s.now - BEGIN + WARNING);
        }
        assert_int_equal(s.lost[AGGREGATOR], -1);
        assert_int_equal(s.ended, -1);
        hvd_heartbeat_destroy(s.h);
    }
}

/* Data may be overdue when a rank falls silent: those next to it give it up, if it stays so. */
static void a_silence_elsewhere_that_begins_late_is_left_to_those_next_to_it(void **state)
{
    const int64_t before = SHUTDOWN - TICK;
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    go_on(&s, before - TICK);
    while (s.now < BEGIN + before + SHUTDOWN + 2 * WARNING) {
        hear(&s, AGGREGATOR, HVD_WAIT_DATA, s.now - BEGIN, 4);
        go_on(&s, s.now - BEGIN);
    }
    assert_int_equal(s.ended, before + SHUTDOWN + WARNING / 2);
    hvd_heartbeat_destroy(s.h);
}

/* What a neighbour has waited for meanwhile is not the fault of those behind this rank. */
static void a_rank_that_did_not_run_blames_nobody_for_what_others_waited(void **state)
{
    for (int is_received = 0; is_received < 2; is_received++) {
        struct scene s;

        (void)state;
        open_scene(&s, SHUTDOWN);
        go_on(&s, WARNING);
        if (is_received)
            hvd_heartbeat_received(s.h, LEAF, s.now - TICK);
        s.now += 10 * SHUTDOWN; /* it was stopped */
        const int64_t woken = s.now;
        s.answers[LEAF] = false;
        while (s.now < woken + SHUTDOWN) {
            hear(&s, PARENT, HVD_WAIT_LEAVE, 10 * SHUTDOWN + s.now - woken, -1);
            go_on(&s, s.now - BEGIN);
        }
        assert_int_equal(s.lost[LEAF], -1);
        hear(&s, PARENT, HVD_WAIT_LEAVE, 11 * SHUTDOWN, -1);
        go_on(&s, s.now - BEGIN);
        assert_int_equal(s.lost[LEAF], woken + SHUTDOWN - BEGIN);
        hvd_heartbeat_destroy(s.h);
    }
}

static void a_rank_that_did_not_run_blames_nobody_for_it(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    for (int i = 0; i < N; i++)
        s.answers[i] = false;
    go_on(&s, WARNING / 2); /* all are probed */
    s.now += 100 * WARNING; /* and stopped, as this one is */
    go_on(&s, s.now - BEGIN + TICK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s.warned[i], -1);
        hvd_heartbeat_received(s.h, i, s.now);
        s.answers[i] = true;
    }
    go_on(&s, s.now - BEGIN);
    assert_int_equal(s.overdue, -1);
    for (int i = 0; i < N; i++)
        assert_int_equal(s.lost[i], -1);
    hvd_heartbeat_destroy(s.h);
}

/* Of a loop of short transfers, the last one began behind the last look before the stop. */
static void data_that_waited_while_this_rank_did_not_run_is_not_overdue(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    go_on(&s, WARNING);
    const int64_t began = s.now - TICK / 2;
    s.now += 10 * SHUTDOWN;
    const int64_t woken = s.now;
    wait_for(&s, HVD_WAIT_DATA, began);
    go_on(&s, woken - BEGIN + WARNING - TICK);
    assert_int_equal(s.overdue, -1);
    assert_int_equal(s.ended, -1);
    go_on(&s, woken - BEGIN + SHUTDOWN);
    assert_int_equal(s.overdue, woken - BEGIN + WARNING);
    assert_int_equal(s.ended, woken - BEGIN + SHUTDOWN);
    hvd_heartbeat_destroy(s.h);
}

static void who_has_left_does_not_have_to_answer(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_LEAVE, BEGIN);
    s.answers[LEAF] = false;
    hvd_heartbeat_leave(s.h, LEAF);
    go_on(&s, 2 * SHUTDOWN);
    assert_int_equal(s.n_probes[LEAF], 0);
    assert_int_equal(s.warned[LEAF], -1);
    assert_int_equal(s.lost[LEAF], -1);
    hvd_heartbeat_destroy(s.h);
}

static void create(void)
{
    const struct hvd_heartbeat_options options = {.warning_ns = WARNING, .node = &inner};
    struct hvd_heartbeat *h = NULL;
    const hvd_status_t st = hvd_heartbeat_create(&options, &h, NULL);

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    hvd_heartbeat_destroy(h);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(create());
}

/* Next to this rank, and as a neighbour says. */
static void who_is_silent_is_missed_once_that_has_lasted(void **state)
{
    int missed[HVD_SILENT_MAX];
    struct scene s;

    (void)state;
    open_scene(&s, SHUTDOWN);
    wait_for(&s, HVD_WAIT_DATA, BEGIN);
    s.answers[AGGREGATOR] = false;
    go_on(&s, WARNING / 2); /* probed after a quarter: silent, but not for half of the time */
    assert_int_equal(hvd_heartbeat_silent(s.h, -1, missed), 1);
    assert_int_equal(hvd_heartbeat_missed(s.h, WARNING / 2, missed), 0);
    go_on(&s, WARNING * 3 / 4);
    assert_int_equal(hvd_heartbeat_missed(s.h, WARNING / 2, missed), 1);
    assert_int_equal(missed[0], 2);
    assert_int_equal(hvd_heartbeat_missed(s.h, WARNING, missed), 0);
    hvd_heartbeat_received(s.h, AGGREGATOR, s.now); /* it was busy */
    s.answers[AGGREGATOR] = true;
    go_on(&s, WARNING * 3 / 4 + TICK);
    assert_int_equal(hvd_heartbeat_missed(s.h, 0, missed), 0);

    const int64_t reported = s.now - BEGIN;
    while (s.now - BEGIN < reported + WARNING / 2) {
        hear(&s, LEAF, HVD_WAIT_NONE, 0, 4);
        go_on(&s, s.now - BEGIN);
    }
    assert_int_equal(hvd_heartbeat_missed(s.h, WARNING / 2, missed), 1);
    assert_int_equal(missed[0], 4);
    assert_int_equal(hvd_heartbeat_missed(s.h, WARNING, missed), 0);
    hvd_heartbeat_destroy(s.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_that_creeps_is_waited_for_and_overdue_once_it_stops),
        cmocka_unit_test(what_waits_behind_data_that_has_moved_counts_from_then),
        cmocka_unit_test(who_is_silent_is_missed_once_that_has_lasted),
        cmocka_unit_test(nothing_is_sent_before_a_quarter_of_the_warning_time),
        cmocka_unit_test(a_silent_neighbour_is_warned_of_and_given_up_at_the_times_that_were_set),
        cmocka_unit_test(nobody_is_given_up_where_that_is_not_asked_for),
        cmocka_unit_test(data_that_moves_nowhere_while_all_answer_is_overdue),
        cmocka_unit_test(who_is_probed_probes_the_others_for_as_long_as_it_is),
        cmocka_unit_test(word_of_a_silent_rank_goes_on_but_not_back),
        cmocka_unit_test(a_silent_rank_elsewhere_is_left_to_those_next_to_it_for_a_while),
        cmocka_unit_test(who_answers_again_is_warned_of_again),
        cmocka_unit_test(a_silence_counts_from_its_begin_and_not_from_that_of_the_wait),
        cmocka_unit_test(a_pause_that_is_shorter_than_the_shutdown_time_ends_nothing),
        cmocka_unit_test(a_silence_elsewhere_that_begins_late_is_left_to_those_next_to_it),
        cmocka_unit_test(a_rank_that_did_not_run_blames_nobody_for_what_others_waited),
        cmocka_unit_test(a_rank_that_did_not_run_blames_nobody_for_it),
        cmocka_unit_test(data_that_waited_while_this_rank_did_not_run_is_not_overdue),
        cmocka_unit_test(who_has_left_does_not_have_to_answer),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
