#include "tests/unit/support.h"

#include <sys/socket.h>
#include <unistd.h>

#include "operator/app/connections.h"

#define N 4

/* A set of at most N, and pairs of sockets whose first ends are in it. */
struct bench {
    struct hvd_connections set;
    struct hvd_connection *connections[2 * N];
    int fds[2 * N][2];
    size_t n;
};

static void add(struct bench *b, int64_t now_ms)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b->fds[b->n]), 0);
    b->connections[b->n] = hvd_connections_add(&b->set, b->fds[b->n][0], now_ms);
    assert_non_null(b->connections[b->n]);
    b->n++;
}

/* Whether the client at the other end sees the end of the stream. */
static bool is_shut(const struct bench *b, size_t i)
{
    char c;

    return recv(b->fds[i][1], &c, 1, MSG_DONTWAIT) == 0;
}

static void end(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        hvd_connections_remove(&b->set, b->connections[i]);
        (void)close(b->fds[i][0]);
        (void)close(b->fds[i][1]);
    }
    assert_int_equal(hvd_connections_count(&b->set), 0);
    assert_true(hvd_connections_expire(&b->set, INT64_MAX - 1) == INT64_MAX);
}

static void a_request_that_is_not_complete_in_time_is_cut_off(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, N);
    assert_true(hvd_connections_expire(&b.set, 0) == INT64_MAX);
    add(&b, 1000);
    add(&b, 1001);
    assert_int_equal(hvd_connections_expire(&b.set, 1000), 1000 + HVD_CONNECTION_REQUEST_MS);
    assert_int_equal(hvd_connections_expire(&b.set, 1000 + HVD_CONNECTION_REQUEST_MS),
                     1001 + HVD_CONNECTION_REQUEST_MS);
    assert_true(is_shut(&b, 0));
    assert_false(is_shut(&b, 1));
    assert_int_equal(b.set.n_overdue, 1);
    assert_int_equal(hvd_connections_count(&b.set), 1);
    end(&b);
}

static void an_answer_that_is_not_taken_in_time_is_cut_off(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, N);
    add(&b, 0);
    hvd_connections_enter(&b.set, b.connections[0], HVD_CONNECTION_ANSWER, 4000);
    assert_int_equal(hvd_connections_expire(&b.set, 4000 + HVD_CONNECTION_ANSWER_MS - 1),
                     4000 + HVD_CONNECTION_ANSWER_MS);
    assert_false(is_shut(&b, 0));
    assert_true(hvd_connections_expire(&b.set, 4000 + HVD_CONNECTION_ANSWER_MS) == INT64_MAX);
    assert_true(is_shut(&b, 0));
    end(&b);
}

static void each_request_of_a_connection_has_its_own_time(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, N);
    add(&b, 0);
    for (int64_t now_ms = 4000; now_ms < 60000; now_ms += 4000) {
        hvd_connections_enter(&b.set, b.connections[0], HVD_CONNECTION_ANSWER, now_ms);
        hvd_connections_enter(&b.set, b.connections[0], HVD_CONNECTION_REQUEST, now_ms);
        (void)hvd_connections_expire(&b.set, now_ms);
        assert_false(is_shut(&b, 0));
    }
    end(&b);
}

static void room_is_made_by_the_oldest_without_a_request(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, N);
    for (size_t i = 0; i < N; i++)
        add(&b, (int64_t)i);
    assert_int_equal(hvd_connections_make_room(&b.set, 0), 0);
    hvd_connections_enter(&b.set, b.connections[0], HVD_CONNECTION_ANSWER, 10);
    assert_int_equal(hvd_connections_make_room(&b.set, 1), 1);
    assert_false(is_shut(&b, 0));
    assert_true(is_shut(&b, 1));
    assert_int_equal(hvd_connections_make_room(&b.set, 3), 2);
    assert_true(is_shut(&b, 2) && is_shut(&b, 3));
    assert_int_equal(b.set.n_evicted, 3);
    end(&b);
}

static void answers_make_room_when_nothing_else_is_open(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, N);
    for (size_t i = 0; i < N; i++) {
        add(&b, 0);
        hvd_connections_enter(&b.set, b.connections[i], HVD_CONNECTION_ANSWER, (int64_t)(N - i));
    }
    assert_int_equal(hvd_connections_make_room(&b.set, 1), 1);
    assert_true(is_shut(&b, 0));
    assert_int_equal(hvd_connections_make_room(&b.set, N + 1), N - 1);
    assert_int_equal(hvd_connections_make_room(&b.set, N + 1), 0);
    end(&b);
}

static void what_is_shut_down_stays_so_and_counts_no_more(void **state)
{
    struct bench b = {0};

    (void)state;
    hvd_connections_init(&b.set, 1);
    add(&b, 0);
    assert_int_equal(hvd_connections_make_room(&b.set, 1), 1);
    hvd_connections_enter(&b.set, b.connections[0], HVD_CONNECTION_ANSWER, 1);
    assert_int_equal(hvd_connections_count(&b.set), 0);
    assert_true(hvd_connections_expire(&b.set, 0) == INT64_MAX);
    hvd_connections_remove(&b.set, NULL);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_is_not_complete_in_time_is_cut_off),
        cmocka_unit_test(an_answer_that_is_not_taken_in_time_is_cut_off),
        cmocka_unit_test(each_request_of_a_connection_has_its_own_time),
        cmocka_unit_test(room_is_made_by_the_oldest_without_a_request),
        cmocka_unit_test(answers_make_room_when_nothing_else_is_open),
        cmocka_unit_test(what_is_shut_down_stays_so_and_counts_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
