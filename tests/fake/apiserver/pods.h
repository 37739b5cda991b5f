#ifndef HVD_TESTS_FAKE_APISERVER_PODS_H
#define HVD_TESTS_FAKE_APISERVER_PODS_H

#include "tests/fake/apiserver/server.h"

/* Puts an object into the controllers' queue. */
void fake_play_queue(struct fake_server *server, struct fake_object *object);

/* What the kubelet of a pod does next. */
void fake_pod_work(struct fake_server *server, struct fake_object *pod);

/* What the controllers of StatefulSets and Jobs do. */
void fake_set_work(struct fake_server *server, struct fake_object *set);
void fake_job_work(struct fake_server *server, struct fake_object *job);

#endif
