#ifndef HVD_TESTS_FAKE_APISERVER_LIST_H
#define HVD_TESTS_FAKE_APISERVER_LIST_H

#include "tests/fake/apiserver/server.h"

/* Answers a list, or the next page of one. */
void fake_list(struct fake_answer *answer, const struct fake_request *request);

/* Forgets the lists that are being read: their next page is answered with 410. */
void fake_snapshots_expire(struct fake_server *server);

/* Frees them all. */
void fake_snapshots_fini(struct fake_server *server);

#endif
