#ifndef HVD_WORKER_PYTHON_CORE_ARG_CACHE_H
#define HVD_WORKER_PYTHON_CORE_ARG_CACHE_H

#include "worker/python/core/submission.h"

#define HVD_PY_ARGS_MAX 5

/*
 * Looks for an earlier call with the same argument objects, and fills in that call's parsed
 * arguments: all but the tensors, with the name behind its collective. Returns true if there was
 * one. The arguments are valid until the next hvd_py_arg_cache_put.
 */
bool hvd_py_arg_cache_find(struct hvd_py_submission *s);

/* Stores the parsed arguments t of a call, with the text of its name, so that the next such call
 * finds them. Keeps only str, int and float objects, and only names that repeat; else does nothing.
 */
void hvd_py_arg_cache_put(const struct hvd_py_submission *s, const horovod_tensor_t *t);

#endif
