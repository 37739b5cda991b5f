/*
 * fake-apiserver [--port N]: an API server for tests, on loopback, without TLS. Prints its port,
 * then serves until SIGTERM, SIGINT or the end of standard input (its parent's end).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/fake/apiserver/http.h"
#include "tests/fake/apiserver/list.h"
#include "tests/fake/apiserver/must.h"

#define MAX_EVENTS_KEPT 100000
#define BOOKMARK_US 60000000
#define MAX_REQUEST_BYTES 3145728
#define MAX_BODY_RECORDED 65536

static void on_changed(void *ctx, struct fake_object *object, const struct fake_event *event)
{
    fake_play_changed(ctx, object, event);
}

static int open_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    static struct fake_server server;
    int port = argc == 3 && strcmp(argv[1], "--port") == 0 ? (int)strtol(argv[2], NULL, 10) : 0;

    if (argc != 1 && argc != 3) {
        (void)fputs("Usage: fake-apiserver [--port N]\n", stderr);
        return 2;
    }
    server.signal_fd = open_signals();
    server.config = (struct fake_config){.bookmark_us = BOOKMARK_US,
                                         .max_request_bytes = MAX_REQUEST_BYTES,
                                         .agent = fake_copy("horovod-operator")};
    server.store.max_events = MAX_EVENTS_KEPT;
    server.store.changed = on_changed;
    server.store.ctx = &server;
    server.records.max_body = MAX_BODY_RECORDED;
    server.faults.random = 1;
    fake_play_init(&server);
    port = fake_listen(&server, port);
    if (port < 0) {
        perror("fake-apiserver: cannot listen");
        return 1;
    }
    (void)printf("%d\n", port);
    (void)fflush(stdout);
    while (!server.is_stopped && fake_turn(&server))
        ;
    fake_http_fini(&server);
    fake_snapshots_fini(&server);
    fake_faults_clear(&server.faults, 0);
    fake_records_clear(&server.records);
    free(server.records.all);
    fake_play_fini(&server);
    fake_store_fini(&server.store);
    fake_timers_fini(&server.timers);
    cJSON_Delete(server.config.tokens);
    free(server.config.agent);
    free(server.config.date);
    return 0;
}
