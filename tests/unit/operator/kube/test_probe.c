#include "tests/unit/support.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/kube/client.h"
#include "operator/kube/probe.h"

/* A server that gives one answer to each connection, in turn, and then ends. */
static struct {
    const char *const *answers;
    int listener;
    char url[64];
    pthread_t thread;
} server;

static void *serve(void *arg)
{
    (void)arg;
    for (const char *const *answer = server.answers; *answer; answer++) {
        int connection = accept(server.listener, NULL, NULL);
        char request[1024];
        if (connection < 0)
            break;
        if (read(connection, request, sizeof(request)) > 0 &&
            write(connection, *answer, strlen(*answer)) < 0)
            perror("write");
        close(connection);
    }
    close(server.listener);
    return NULL;
}

static void start(const char *const *answers)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    server.answers = answers;
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(server.listener >= 0);
    assert_int_equal(bind(server.listener, (void *)&address, len), 0);
    assert_int_equal(listen(server.listener, 4), 0);
    assert_int_equal(getsockname(server.listener, (void *)&address, &len), 0);
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d/readyz", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
#define DOWN                                                                                       \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 25\r\n\r\nwatch of pods: "                \
    "down\033\nmore\n"

static void a_healthy_operator_is_asked_once(void **state)
{
    static const char *const answers[] = {OK, NULL};
    struct hvd_err err = {0};

    (void)state;
    start(answers);
    assert_int_equal(hvd_kube_probe_wait(server.url, 1, &err), HVD_OK);
    pthread_join(server.thread, NULL);
}

static void an_operator_that_is_not_ready_yet_is_asked_again(void **state)
{
    static const char *const answers[] = {DOWN, "", OK, NULL};
    struct hvd_err err = {0};

    (void)state;
    start(answers);
    assert_int_equal(hvd_kube_probe_wait(server.url, 3, &err), HVD_OK);
    pthread_join(server.thread, NULL);
}

static void the_last_answer_is_the_message_on_one_line(void **state)
{
    static const char *const answers[] = {DOWN, NULL};
    struct hvd_err err = {0};
    char expected[160];

    (void)state;
    start(answers);
    assert_int_equal(hvd_kube_probe_wait(server.url, 1, &err), HVD_ERR_UNAVAILABLE);
    pthread_join(server.thread, NULL);
    snprintf(expected, sizeof(expected), "%s: HTTP 503: watch of pods: down more", server.url);
    assert_string_equal(err.msg, expected);
}

static void a_text_of_any_length_does_no_harm(void **state)
{
    static char answer[64 * 1024];
    static const char *const answers[] = {answer, NULL};
    struct hvd_err err = {0};
    int n = snprintf(answer, sizeof(answer), "HTTP/1.1 500 No\r\nContent-Length: 60000\r\n\r\n");

    (void)state;
    memset(answer + n, 'x', 60000);
    start(answers);
    assert_int_equal(hvd_kube_probe_wait(server.url, 1, &err), HVD_ERR_UNAVAILABLE);
    pthread_join(server.thread, NULL);
    assert_non_null(strstr(err.msg, "HTTP 500: xxx"));
}

static void nobody_there_is_unavailable(void **state)
{
    static const char *const answers[] = {NULL};
    struct hvd_err err = {0};

    (void)state;
    start(answers);
    pthread_join(server.thread, NULL);
    assert_int_equal(hvd_kube_probe_wait(server.url, 1, &err), HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, server.url));
}

static void what_is_no_url_is_refused_at_once(void **state)
{
    static const char *const urls[] = {"ftp://127.0.0.1/", "http://", "file:///etc/passwd"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct hvd_err err = {0};
        assert_int_equal(hvd_kube_probe_wait(urls[i], 1000, &err), HVD_ERR_INVALID);
        assert_non_null(strstr(err.msg, "give an http or https URL"));
    }
}

static int start_up(void **state)
{
    (void)state;
    return hvd_kube_client_global_init(NULL) == HVD_OK ? 0 : -1;
}

static int shut_down(void **state)
{
    (void)state;
    hvd_kube_client_global_fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_operator_is_asked_once),
        cmocka_unit_test(an_operator_that_is_not_ready_yet_is_asked_again),
        cmocka_unit_test(the_last_answer_is_the_message_on_one_line),
        cmocka_unit_test(a_text_of_any_length_does_no_harm),
        cmocka_unit_test(nobody_there_is_unavailable),
        cmocka_unit_test(what_is_no_url_is_refused_at_once),
    };

    return cmocka_run_group_tests(tests, start_up, shut_down);
}
