#ifndef HVD_TESTS_FAKE_APISERVER_WRITE_H
#define HVD_TESTS_FAKE_APISERVER_WRITE_H

#include "tests/fake/apiserver/server.h"

/* POST, PUT, PATCH and DELETE of one object, with what the real server checks about versions, uids,
 * immutable parts, sizes and propagation. */
void fake_write_create(struct fake_answer *answer, const struct fake_request *request);
void fake_write_update(struct fake_answer *answer, const struct fake_request *request);
void fake_write_patch(struct fake_answer *answer, const struct fake_request *request);
void fake_write_delete(struct fake_answer *answer, const struct fake_request *request);

/* Deletes an object as a user would, without preconditions: "Background", "Foreground" or "Orphan".
 */
void fake_delete(struct fake_server *server, struct fake_object *object, const char *propagation);

#endif
