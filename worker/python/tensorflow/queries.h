#ifndef HVD_WORKER_PYTHON_TENSORFLOW_QUERIES_H
#define HVD_WORKER_PYTHON_TENSORFLOW_QUERIES_H

#include "worker/python/tensorflow/api.h"
#include "worker/python/tensorflow/core/definitions.h"

/* Registers the kernel of an operation without tensors, such as HorovodRank. An operation of
 * another kind gets none here. False: *status has the reason. */
bool hvd_tf_queries_register(const struct hvd_tf_definition *definition, struct tf_status *status);

#endif
