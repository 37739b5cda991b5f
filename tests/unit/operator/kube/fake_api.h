#ifndef HVD_TESTS_UNIT_OPERATOR_KUBE_FAKE_API_H
#define HVD_TESTS_UNIT_OPERATOR_KUBE_FAKE_API_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/kube/api.h"

#define FAKE_MAX_CALLS 64

/* A request that the code under test has sent and that the test answers by hand. */
struct hvd_kube_call {
    struct hvd_kube_request request;
    char query[512];
    char body[4096];
    char ns[64];
    char name[64];
    bool is_open;
};

/* The port in memory: remembers what was sent, in order. */
struct fake_api {
    struct hvd_kube_api api;
    struct hvd_kube_call calls[FAKE_MAX_CALLS];
    size_t n_calls;
    size_t n_cancelled;
    size_t n_suspected;
    hvd_status_t fail_send; /* what the next sends return; HVD_OK: they succeed */
};

/* Prepares the fake. */
void fake_api_init(struct fake_api *fake);

/* The last request sent. */
struct hvd_kube_call *fake_api_last(struct fake_api *fake);

/* Requests not answered yet. */
size_t fake_api_open(const struct fake_api *fake);

/* Answers with an HTTP status and a JSON body (NULL: none), judged as the client does. */
void fake_api_answer(struct hvd_kube_call *call, long code, const char *body);

/* Ends a stream in good order. */
void fake_api_end(struct hvd_kube_call *call, long code);

/* Ends the request without an HTTP answer. */
void fake_api_break(struct hvd_kube_call *call, hvd_status_t st);

/* The stream's answer begins. */
void fake_api_begin(struct hvd_kube_call *call);

/* Feeds text into a stream; when that ends the stream, answers it so. Returns the status. */
hvd_status_t fake_api_stream(struct hvd_kube_call *call, const char *text);

#endif
