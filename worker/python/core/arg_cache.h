#ifndef HVD_WORKER_PYTHON_CORE_ARG_CACHE_H
#define HVD_WORKER_PYTHON_CORE_ARG_CACHE_H

#include "worker/python/core/submission.h"

#define HVD_PY_ARGS_MAX 5

/*
 * Fills in what a call says besides its tensors, the name behind its collective among it, from a
 * call that said the same by the same objects; true when there was one. What is filled in is good
 * until the next hvd_py_arg_cache_put.
 */
bool hvd_py_arg_cache_find(struct hvd_py_submission *s);

/* The call was read, as t has it, the text of its name too: the next one like it may be found.
 * Only str, int and float are kept, and only of names that come again; else nothing happens. */
void hvd_py_arg_cache_put(const struct hvd_py_submission *s, const horovod_tensor_t *t);

#endif
