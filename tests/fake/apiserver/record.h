#ifndef HVD_TESTS_FAKE_APISERVER_RECORD_H
#define HVD_TESTS_FAKE_APISERVER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct fake_request;

/* Every request to the API, in the order of arrival, as lines of JSON. */
struct fake_records {
    struct fake_record *all; /* owned */
    size_t n;
    size_t capacity;
    int64_t start_us;
    int64_t max_body; /* bytes of a body that are kept; 0: none */
};

/* How a request ended. */
struct fake_outcome {
    int code; /* 0: no answer */
    size_t response_bytes;
    int64_t fault; /* the rule that struck, 0: none */
    bool is_executed;
};

/* Notes a request that was just decided. Its number, from 1. */
size_t fake_record_add(struct fake_records *records, const struct fake_request *request,
                       const struct fake_outcome *outcome);

/* Notes what a kubelet did to a pod ("namespace/name"), among the requests. */
void fake_record_play(struct fake_records *records, const char *key, const char *what);

/* Appends the records behind number `after` as a JSON array. */
void fake_records_put(const struct fake_records *records, size_t after, struct hvd_buf *out);

/* Forgets all; numbers go on. */
void fake_records_clear(struct fake_records *records);

#endif
