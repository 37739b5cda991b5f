#ifndef HVD_TESTS_FAKE_APISERVER_WATCH_H
#define HVD_TESTS_FAKE_APISERVER_WATCH_H

#include "tests/fake/apiserver/server.h"

/* Turns the connection into a stream of events from resourceVersion on. fault may be NULL. */
void fake_watch_start(const struct fake_request *request, const struct fake_fault *fault);

/* Frees the watch of a connection that ends. None is legal. */
void fake_watch_end(struct fake_conn *conn);

/* Sends what is new to all watches. */
void fake_watches_flush(struct fake_server *server);

/* Does something to the watches of a resource (NULL: all) now: "drop", "gone", "garbage", "half" or
 * "bookmark". Their number; -1 for an unknown action. */
int fake_watches_do(struct fake_server *server, const char *resource, const char *action);

/* The number of streams. */
int fake_watches_count(const struct fake_server *server);

#endif
