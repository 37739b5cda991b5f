#ifndef HVD_WORKER_PYTHON_CORE_RECALL_H
#define HVD_WORKER_PYTHON_CORE_RECALL_H

#include "worker/python/core/submission.h"

#define HVD_PY_SAID_MAX 5

/*
 * Fills in what a call says besides its tensors, the name behind its collective among it, from a
 * call that said the same by the same objects; true when there was one. What is filled in is good
 * until the next hvd_py_remember.
 */
bool hvd_py_recall(struct hvd_py_submission *s);

/* The call was read, as t has it, the text of its name too: the next one like it may be recalled.
 * Only str, int and float are kept, and only of names that come again; else nothing happens. */
void hvd_py_remember(const struct hvd_py_submission *s, const horovod_tensor_t *t);

#endif
