#ifndef HVD_TESTS_FAKE_APISERVER_PLAY_H
#define HVD_TESTS_FAKE_APISERVER_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "tests/fake/apiserver/store.h"

struct fake_server;

/*
 * The controllers and kubelets of the cluster that is not there: StatefulSets and Jobs get pods,
 * pods run and end, what has lost its owner goes. `play` of POST /-/config and the annotation
 * fake.horovod.io/play of a HorovodJob say how; see tests/fake/README.md.
 */
struct fake_play {
    cJSON *script;             /* what holds for every job */
    struct fake_object *queue; /* what controllers have to look at */

    uint64_t next_node;
};

/* Prepares what holds without any configuration: all at once, everything succeeds. */
void fake_play_init(struct fake_server *server);

/* Frees. */
void fake_play_fini(struct fake_server *server);

/* Merges doc (may be NULL) into the script. False for an unknown key. */
bool fake_play_configure(struct fake_server *server, const cJSON *doc);

/* Notes what a change asks of the controllers. */
void fake_play_changed(struct fake_server *server, struct fake_object *object,
                       const struct fake_event *event);

/* Lets the controllers do all that is to be done now. */
void fake_play_step(struct fake_server *server);

/* Whether a controller or kubelet will do something by itself. */
bool fake_play_is_busy(const struct fake_server *server);

#endif
