#ifndef HVD_TESTS_FAKE_APISERVER_CONTROL_H
#define HVD_TESTS_FAKE_APISERVER_CONTROL_H

#include "tests/fake/apiserver/server.h"

/* Answers a request to /-/..., which tests/fake/README.md describes. */
void fake_control(const struct fake_request *request);

#endif
