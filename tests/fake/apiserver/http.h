#ifndef HVD_TESTS_FAKE_APISERVER_HTTP_H
#define HVD_TESTS_FAKE_APISERVER_HTTP_H

#include "tests/fake/apiserver/server.h"

/* Listens on 127.0.0.1; port 0 takes a free one. The port, or -1 with errno. */
int fake_listen(struct fake_server *server, int port);

/* One turn: waits for the network or a timer, and does what they want. False on a fatal error. */
bool fake_turn(struct fake_server *server);

/* Appends the answer to the connection, with its head. */
void fake_send(struct fake_conn *conn, const struct fake_answer *answer);

/* Begins a stream of chunks. */
void fake_send_stream_head(struct fake_conn *conn);

/* Appends a chunk; of length 0: the end of the stream. */
void fake_send_chunk(struct fake_conn *conn, const void *data, size_t len);

/* Writes what is in out, as far as it goes, and waits for the rest. */
void fake_flush(struct fake_conn *conn);

/* The request is answered: out may leave, and the next request is read. */
void fake_finish_request(struct fake_conn *conn);

/* Ends the connection at once. */
void fake_close(struct fake_conn *conn);

/* Closes all and frees. */
void fake_http_fini(struct fake_server *server);

#endif
