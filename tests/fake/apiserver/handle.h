#ifndef HVD_TESTS_FAKE_APISERVER_HANDLE_H
#define HVD_TESTS_FAKE_APISERVER_HANDLE_H

#include "tests/fake/apiserver/server.h"

/* Serves a request: answers it now or later, or never. Text of the request may be changed. */
void fake_handle(struct fake_request *request);

#endif
