/* Who is behind, as heartbeats find out between them: all ranks of a tree in one process. */
#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/heartbeat.h"

#define MS ((int64_t)1000000)
#define WARNING (2000 * MS)
#define TICK (WARNING / 8)
#define STEP (WARNING / 32)
#define BEGIN (1000 * MS)
#define RANKS_PER_HOST 6

/* A sanitizer sees the same code with fewer ranks. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LARGEST 1026
#else
#define LARGEST 27360
#endif

/* A rank, which ticks at times of its own, and soon after a PING. */
struct rank {
    struct hvd_node node;
    struct hvd_heartbeat *h;
    int64_t next_ns;
    int64_t warned_ns; /* 0: not */
    bool waits;
    bool is_mute; /* it has no progress */
    uint64_t progress;
};

struct net {
    struct hvd_tree tree;
    struct rank *ranks; /* by position */
    int n;
    int64_t now;
    uint64_t n_messages;
    size_t longest; /* message */
};

static void open_net(struct net *net, int n, int fanout)
{
    int *hosts = test_malloc((size_t)n * sizeof(*hosts));
    uint64_t random = 7;

    *net = (struct net){.n = n, .now = BEGIN};
    for (int i = 0; i < n; i++)
        hosts[i] = i / RANKS_PER_HOST;
    const struct hvd_tree_options shape = {.size = n, .hosts = hosts, .fanout = fanout};
    assert_int_equal(hvd_tree_init(&net->tree, &shape, NULL), HVD_OK);
    test_free(hosts);
    net->ranks = test_calloc((size_t)n, sizeof(*net->ranks));
    for (int i = 0; i < n; i++) {
        struct rank *r = &net->ranks[i];
        const struct hvd_heartbeat_options options = {
            .warning_ns = WARNING, .node = &r->node, .size = n};
        assert_int_equal(hvd_tree_node_init(&r->node, &net->tree, i, NULL), HVD_OK);
        assert_int_equal(hvd_heartbeat_create(&options, &r->h, NULL), HVD_OK);
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        r->next_ns = BEGIN + (int64_t)(random >> 33) % TICK;
        r->waits = true;
        r->progress = 10;
    }
}

static void close_net(struct net *net)
{
    for (int i = 0; i < net->n; i++) {
        hvd_heartbeat_destroy(net->ranks[i].h);
        hvd_tree_node_fini(&net->ranks[i].node);
    }
    test_free(net->ranks);
    hvd_tree_fini(&net->tree);
}

static void put(const struct rank *r)
{
    if (!r->is_mute)
        hvd_heartbeat_put(r->h, r->progress);
}

static void send(struct net *net, int from, int neighbour, const struct hvd_beat_step *ping)
{
    const struct rank *sender = &net->ranks[from];
    const int to =
        neighbour == 0 ? sender->node.parent : sender->node.children[neighbour - 1].first;
    struct rank *r = &net->ranks[to];
    const int back = to == sender->node.parent ? hvd_tree_node_branch(&r->node, from) : 0;
    const struct hvd_beat beat = {.kind = ping ? ping->kind : HVD_WAIT_NONE,
                                  .age_ms = ping ? (uint32_t)(ping->waited_ns / MS) : 0,
                                  .behind = hvd_heartbeat_behind(sender->h, neighbour)};
    struct hvd_reader reader;
    struct hvd_beat got;
    struct hvd_buf buf;

    hvd_buf_init(&buf, 4096);
    assert_int_equal(hvd_message_beat(&buf, HVD_MESSAGE_PING, 0, &beat, NULL), HVD_OK);
    net->n_messages++;
    net->longest = buf.len > net->longest ? buf.len : net->longest;
    assert_int_equal(hvd_message_open(&reader, buf.data, buf.len, NULL), HVD_OK);
    assert_int_equal(hvd_message_read_beat(&reader, &got, NULL), HVD_OK);
    hvd_heartbeat_read(r->h, back, &got, net->now);
    hvd_buf_fini(&buf);
    if (!ping)
        return;
    r->next_ns = net->now;
    put(r);
    send(net, to, back, NULL);
}

static void tick(struct net *net, int position)
{
    struct rank *r = &net->ranks[position];
    struct hvd_waits waits = {0};
    struct hvd_beat_step step;

    if (r->waits)
        waits.of[HVD_WAIT_DATA].since_ns = BEGIN;
    r->next_ns = net->now + TICK;
    put(r);
    hvd_heartbeat_tick(r->h, &waits, net->now);
    while (hvd_heartbeat_next(r->h, &step)) {
        if (step.action == HVD_BEAT_PROBE)
            send(net, position, step.neighbour, &step);
        else if (step.action == HVD_BEAT_OVERDUE_WARN && r->warned_ns == 0)
            r->warned_ns = net->now;
    }
}

static void go_on(struct net *net, int64_t ns)
{
    for (const int64_t until = net->now + ns; net->now < until; net->now += STEP)
        for (int i = 0; i < net->n; i++)
            if (net->ranks[i].next_ns <= net->now)
                tick(net, i);
}

/* Fails unless every rank that answers has warned and knows this. */
static void expect(const struct net *net, const struct hvd_behind *wanted)
{
    for (int i = 0; i < net->n; i++) {
        const struct hvd_behind seen = hvd_heartbeat_behind(net->ranks[i].h, -1);
        if (net->ranks[i].waits && net->ranks[i].warned_ns == 0)
            fail_msg("position %d of %d has not warned", i, net->n);
        if (seen.n_known != wanted->n_known || seen.n != wanted->n ||
            seen.progress != wanted->progress)
            fail_msg("position %d of %d: %u of %u ranks have %u", i, net->n, seen.n, seen.n_known,
                     (unsigned)seen.progress);
        for (uint32_t k = 0; k < hvd_message_behind_named(wanted); k++)
            assert_int_equal(seen.positions[k], wanted->positions[k]);
    }
}

static void the_rank_that_is_behind_is_known_on_every_rank(void **state)
{
    static const int sizes[] = {2, 3, 5, 8, 48, LARGEST};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const int victims[] = {0, 1, sizes[i] / 2, sizes[i] - 1};
        for (size_t v = 0; v < (sizes[i] == LARGEST ? 1 : 4); v++) {
            const int victim = sizes[i] == LARGEST ? sizes[i] - 1 : victims[v];
            const struct hvd_behind wanted = {
                .n_known = (uint32_t)sizes[i], .n = 1, .progress = 9, .positions = {victim}};
            struct net net;
            open_net(&net, sizes[i], 0);
            net.ranks[victim].progress = 9;
            net.ranks[victim].waits = false; /* it does other things */
            go_on(&net, WARNING + WARNING / 2 + 2 * TICK);
            expect(&net, &wanted);
            assert_true(net.longest < 100);
            close_net(&net);
        }
    }
}

/* More than a message has room for: their number is known, and the first ones by position. */
static void ranks_that_are_behind_alike_are_counted(void **state)
{
    const struct hvd_behind wanted = {
        .n_known = 700, .n = 100, .progress = 3, .positions = {6, 13, 20, 27}};
    struct net net;

    (void)state;
    open_net(&net, 700, 4);
    for (int i = 0; i < net.n; i++)
        net.ranks[i].progress = i % 7 == 6 ? 3 : 10 + (uint64_t)i;
    go_on(&net, 2 * WARNING);
    expect(&net, &wanted);
    close_net(&net);
}

static void where_all_are_alike_all_are_counted(void **state)
{
    const struct hvd_behind wanted = {
        .n_known = 5, .n = 5, .progress = 10, .positions = {0, 1, 2, 3}};
    struct net net;

    (void)state;
    open_net(&net, 5, 0);
    go_on(&net, WARNING + 2 * TICK);
    expect(&net, &wanted);
    for (int i = 0; i < net.n; i++) /* nobody waits longer than needed */
        assert_in_range(net.ranks[i].warned_ns - BEGIN, WARNING, WARNING + TICK + STEP);
    close_net(&net);
}

/* A report is a lower bound, and must not outlive what it was about. */
static void a_rank_that_catches_up_is_not_behind_any_more(void **state)
{
    struct hvd_behind wanted = {.n_known = 48, .n = 1, .progress = 4, .positions = {47}};
    struct net net;

    (void)state;
    open_net(&net, 48, 0);
    net.ranks[47].progress = 4;
    go_on(&net, 2 * WARNING);
    expect(&net, &wanted);
    net.ranks[47].progress = 12;
    net.ranks[20].progress = 8;
    wanted.progress = 8;
    wanted.positions[0] = 20;
    go_on(&net, WARNING);
    expect(&net, &wanted);
    for (int i = 0; i < net.n; i++)
        net.ranks[i].waits = false;
    go_on(&net, 5 * WARNING); /* nothing is sent any more, so all that was reported is old */
    for (int i = 0; i < net.n; i++)
        assert_int_equal(hvd_heartbeat_behind(net.ranks[i].h, -1).n_known, 1);
    close_net(&net);
}

static void ranks_without_progress_count_as_unknown(void **state)
{
    struct net net;

    (void)state;
    open_net(&net, 12, 0);
    for (int i = 0; i < net.n; i++)
        net.ranks[i].is_mute = i != 3;
    go_on(&net, WARNING + 2 * TICK);
    for (int i = 0; i < net.n; i++) {
        const struct hvd_behind seen = hvd_heartbeat_behind(net.ranks[i].h, -1);
        assert_int_equal(seen.n_known, 1);
        assert_int_equal(seen.positions[0], 3);
        /* who has none does not wait for that of others; who has some waits for half of W more */
        assert_int_equal(net.ranks[i].warned_ns > 0, i != 3);
    }
    go_on(&net, WARNING / 2);
    assert_in_range(net.ranks[3].warned_ns - BEGIN, WARNING * 3 / 2, WARNING * 3 / 2 + TICK + STEP);
    close_net(&net);
}

static void nothing_is_sent_while_nothing_waits(void **state)
{
    struct net net;

    (void)state;
    open_net(&net, 48, 0);
    for (int i = 0; i < net.n; i++)
        net.ranks[i].waits = false;
    go_on(&net, 10 * WARNING);
    assert_int_equal(net.n_messages, 0);
    close_net(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_is_behind_is_known_on_every_rank),
        cmocka_unit_test(ranks_that_are_behind_alike_are_counted),
        cmocka_unit_test(where_all_are_alike_all_are_counted),
        cmocka_unit_test(a_rank_that_catches_up_is_not_behind_any_more),
        cmocka_unit_test(ranks_without_progress_count_as_unknown),
        cmocka_unit_test(nothing_is_sent_while_nothing_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
