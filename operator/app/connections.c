/*
 * Decides which client connections stay open. Only time counts, not traffic: a client that trickles
 * bytes holds a connection no longer than a silent one. When too many are open, the oldest without
 * a complete request is closed first, so there is always room for a new one. A client that sends
 * its request at once is answered long before it is the oldest. All connections of a phase have the
 * same time, so each ring is in the order of the deadlines.
 */
#include "operator/app/connections.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/mem.h"

static void link_last(struct hvd_connections *set, struct hvd_connection *connection,
                      enum hvd_connection_phase phase)
{
    struct hvd_connection *head = &set->_heads[phase];

    connection->_phase = phase;
    connection->_prev = head->_prev;
    connection->_next = head;
    head->_prev->_next = connection;
    head->_prev = connection;
    set->_n[phase]++;
}

static void unlink_one(struct hvd_connections *set, struct hvd_connection *connection)
{
    connection->_prev->_next = connection->_next;
    connection->_next->_prev = connection->_prev;
    set->_n[connection->_phase]--;
}

static struct hvd_connection *oldest(struct hvd_connections *set, enum hvd_connection_phase phase)
{
    return set->_n[phase] ? set->_heads[phase]._next : NULL;
}

static int64_t time_of(enum hvd_connection_phase phase)
{
    return phase == HVD_CONNECTION_REQUEST ? HVD_CONNECTION_REQUEST_MS : HVD_CONNECTION_ANSWER_MS;
}

void hvd_connections_init(struct hvd_connections *set, size_t max)
{
    *set = (struct hvd_connections){._max = max};
    for (size_t i = 0; i < HVD_N_CONNECTION_PHASES; i++)
        set->_heads[i]._prev = set->_heads[i]._next = &set->_heads[i];
}

struct hvd_connection *hvd_connections_add(struct hvd_connections *set, int fd, int64_t now_ms)
{
    struct hvd_connection *connection = hvd_calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->_fd = fd;
    connection->_due_ms = now_ms + HVD_CONNECTION_REQUEST_MS;
    link_last(set, connection, HVD_CONNECTION_REQUEST);
    return connection;
}

void hvd_connections_enter(struct hvd_connections *set, struct hvd_connection *connection,
                           enum hvd_connection_phase phase, int64_t now_ms)
{
    if (connection->_phase == HVD_CONNECTION_CLOSING)
        return;
    unlink_one(set, connection);
    connection->_due_ms = now_ms + time_of(phase);
    link_last(set, connection, phase);
}

void hvd_connections_remove(struct hvd_connections *set, struct hvd_connection *connection)
{
    if (!connection)
        return;
    unlink_one(set, connection);
    hvd_free(connection);
}

/* Makes close discard the bytes that the client has not taken: the kernel would keep them for
 * minutes. */
static void shut_down(struct hvd_connections *set, struct hvd_connection *connection)
{
    const struct linger discard = {.l_onoff = 1, .l_linger = 0};
    int n_left = 0;

    if (ioctl(connection->_fd, SIOCOUTQ, &n_left) == 0 && n_left > 0)
        (void)setsockopt(connection->_fd, SOL_SOCKET, SO_LINGER, &discard, sizeof(discard));
    (void)shutdown(connection->_fd, SHUT_RDWR);
    unlink_one(set, connection);
    link_last(set, connection, HVD_CONNECTION_CLOSING);
}

static int64_t expire_phase(struct hvd_connections *set, enum hvd_connection_phase phase,
                            int64_t now_ms)
{
    struct hvd_connection *first;

    while ((first = oldest(set, phase)) != NULL && first->_due_ms <= now_ms) {
        shut_down(set, first);
        set->n_overdue++;
    }
    return first ? first->_due_ms : INT64_MAX;
}

int64_t hvd_connections_expire(struct hvd_connections *set, int64_t now_ms)
{
    int64_t request_ms = expire_phase(set, HVD_CONNECTION_REQUEST, now_ms);
    int64_t answer_ms = expire_phase(set, HVD_CONNECTION_ANSWER, now_ms);

    return request_ms < answer_ms ? request_ms : answer_ms;
}

size_t hvd_connections_make_room(struct hvd_connections *set, size_t n)
{
    size_t n_before = hvd_connections_count(set);

    while (hvd_connections_count(set) && hvd_connections_count(set) + n > set->_max) {
        struct hvd_connection *victim = oldest(set, HVD_CONNECTION_REQUEST);
        shut_down(set, victim ? victim : oldest(set, HVD_CONNECTION_ANSWER));
        set->n_evicted++;
    }
    return n_before - hvd_connections_count(set);
}

size_t hvd_connections_count(const struct hvd_connections *set)
{
    return set->_n[HVD_CONNECTION_REQUEST] + set->_n[HVD_CONNECTION_ANSWER];
}
