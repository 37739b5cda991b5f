#ifndef HVD_TESTS_FAKE_APISERVER_ANSWER_H
#define HVD_TESTS_FAKE_APISERVER_ANSWER_H

#include "tests/fake/apiserver/server.h"

/* An answer that is a Status of failure; reason NULL: the usual one of the code. */
void fake_answer_fail(struct fake_answer *answer, const struct fake_request *request, int code,
                      const char *reason, const char *message);

/* The failures that every client knows, with the texts of the real server. */
void fake_answer_not_found(struct fake_answer *answer, const struct fake_request *request);
void fake_answer_exists(struct fake_answer *answer, const struct fake_request *request);
void fake_answer_conflict(struct fake_answer *answer, const struct fake_request *request);

/* 409 for a precondition of a deletion, 422 for what validation says ("FIELD: why"). */
void fake_answer_unmet(struct fake_answer *answer, const struct fake_request *request,
                       const char *why);
void fake_answer_invalid(struct fake_answer *answer, const struct fake_request *request,
                         const char *why);

/* 200 or 201 with an object as it is now. */
void fake_answer_object(struct fake_answer *answer, const struct fake_request *request, int code,
                        struct fake_version *version);

/* 200 with a Status of success about an object that is gone. */
void fake_answer_deleted(struct fake_answer *answer, const struct fake_request *request,
                         const char *uid);

#endif
