#include "tests/unit/support.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/kube/client.h"

#define N_CONNECTIONS 16
#define LONG_MS 60000
#define PAUSE_US 50000
#define QUIET_US 500000 /* libcurl looks after a new connection once more, 200 ms later */
#define GIVE_UP_S 5     /* a wait that stays this long ends the test; libcurl looks after 10 s */

/* An answer with its end, and one whose end does not come. */
#define ANSWER(length)                                                                             \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " length                 \
    "\r\n\r\n{\"metadata\":{\"name\":\"p\"}}\n"
static char whole[] = ANSWER("26"), endless[] = ANSWER("27"), cut[] = ANSWER("99") "{\n";

/* A server that answers the first request and is silent to all others. */
static struct {
    const char *text;
    int listener;
    char url[64];
    pthread_t thread;
    atomic_bool has_answered;
} server;

static void answer(int connection)
{
    const size_t len = strlen(server.text);
    char request[4096];

    if (read(connection, request, sizeof(request)) > 0 &&
        write(connection, server.text, len) == (ssize_t)len)
        atomic_store(&server.has_answered, true);
}

static void *serve(void *arg)
{
    int connections[N_CONNECTIONS];
    int n = 0;

    (void)arg;
    while (n < N_CONNECTIONS) {
        connections[n] = accept(server.listener, NULL, NULL);
        if (connections[n] < 0)
            break;
        if (n++ == 0)
            answer(connections[0]);
    }
    while (n > 0)
        close(connections[--n]);
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    server.text = *state;
    atomic_store(&server.has_answered, false);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (server.listener < 0 || bind(server.listener, (void *)&address, len) != 0 ||
        listen(server.listener, N_CONNECTIONS) != 0 ||
        getsockname(server.listener, (void *)&address, &len) != 0)
        return -1;
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    (void)state;
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    return close(server.listener);
}

static void count(void *ctx, const struct hvd_kube_response *response)
{
    int *n_done = ctx;

    *n_done += response->status == HVD_OK;
}

static void send_list(const struct hvd_kube_api *api, int *n_done)
{
    const struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST, .path = {.kind = HVD_KIND_POD}, .on_done = count, .ctx = n_done};
    struct hvd_err err = {0};

    assert_int_equal(api->send(api->self, &request, NULL, &err), HVD_OK);
}

/* The sends move the first list's bytes: it ends within the last of them, and nothing comes any
 * more. */
static void a_list_that_ended_while_others_were_sent_is_not_slept_upon(void **state)
{
    const struct hvd_kube_config config = {.server = server.url};
    const struct hvd_kube_client_options options = {.config = &config};
    struct hvd_kube_client *client = NULL;
    struct hvd_err err = {0};
    int n_done = 0, n_others = 0;

    (void)state;
    assert_int_equal(hvd_kube_client_create(&options, &client, &err), HVD_OK);
    const struct hvd_kube_api *api = hvd_kube_client_api(client);
    send_list(api, &n_done);
    for (int i = 0; i < N_CONNECTIONS - 2 && !atomic_load(&server.has_answered); i++) {
        usleep(PAUSE_US);
        send_list(api, &n_others);
    }
    usleep(QUIET_US);
    send_list(api, &n_others); /* on the connection of the first list, which is free */
    assert_true(atomic_load(&server.has_answered));
    assert_int_equal(n_done, 0);
    alarm(GIVE_UP_S);
    for (int turn = 0; turn < 100 && n_done == 0; turn++) {
        assert_int_equal(hvd_kube_client_wait(client, NULL, 0, LONG_MS, NULL, &err), HVD_OK);
        assert_int_equal(hvd_kube_client_step(client, &err), HVD_OK);
    }
    alarm(0);
    assert_int_equal(n_done, 1);
    assert_int_equal(n_others, 0);
    hvd_kube_client_destroy(client);
}

struct ended {
    int n;
    hvd_status_t status;
};

static void note_end(void *ctx, const struct hvd_kube_response *response)
{
    struct ended *ended = ctx;

    ended->n++;
    ended->status = response->status;
}

/* libcurl may have read all of an answer without noticing its end. */
static void an_answer_that_has_come_is_not_waited_for(void **state)
{
    const struct hvd_kube_config config = {.server = server.url};
    const struct hvd_kube_client_options options = {.config = &config};
    struct hvd_kube_client *client = NULL;
    struct hvd_err err = {0};
    struct ended ended = {0};
    const struct hvd_kube_request request = {.verb = HVD_VERB_GET,
                                             .path = {.kind = HVD_KIND_POD, .ns = "n", .name = "p"},
                                             .on_done = note_end,
                                             .ctx = &ended};

    assert_int_equal(hvd_kube_client_create(&options, &client, &err), HVD_OK);
    const struct hvd_kube_api *api = hvd_kube_client_api(client);
    assert_int_equal(api->send(api->self, &request, NULL, &err), HVD_OK);
    alarm(GIVE_UP_S);
    while (ended.n == 0) {
        assert_int_equal(hvd_kube_client_wait(client, NULL, 0, LONG_MS, NULL, &err), HVD_OK);
        assert_int_equal(hvd_kube_client_step(client, &err), HVD_OK);
    }
    alarm(0);
    assert_int_equal(ended.status, *state == cut ? HVD_ERR_UNAVAILABLE : HVD_OK);
    hvd_kube_client_destroy(client);
}

int main(void)
{
    struct hvd_err err = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            a_list_that_ended_while_others_were_sent_is_not_slept_upon, start_server, stop_server,
            whole),
        cmocka_unit_test_prestate_setup_teardown(an_answer_that_has_come_is_not_waited_for,
                                                 start_server, stop_server, whole),
        cmocka_unit_test_prestate_setup_teardown(an_answer_that_has_come_is_not_waited_for,
                                                 start_server, stop_server, endless),
        cmocka_unit_test_prestate_setup_teardown(an_answer_that_has_come_is_not_waited_for,
                                                 start_server, stop_server, cut),
    };

    if (hvd_kube_client_global_init(&err) != HVD_OK)
        return 1;
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    hvd_kube_client_global_fini();
    return n_failed;
}
