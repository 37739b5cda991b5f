#ifndef HVD_WORKER_PYTHON_TENSORFLOW_COMPLETION_COMPLETION_H
#define HVD_WORKER_PYTHON_TENSORFLOW_COMPLETION_COMPLETION_H

#include <stdbool.h>

/* A work item of the completion thread; part of what it completes. */
struct hvd_tf_completion {
    struct hvd_tf_completion *next;
    void (*run)(struct hvd_tf_completion *); /* takes the item */
};

/* Starts the thread, unless it runs. False if that is impossible. Any thread may call it. */
bool hvd_tf_completion_start(void);

/* Hands an item to the thread, which runs the items in this order. Does not wait, so that the
 * runtime's progress thread may call it. The thread must have been started. */
void hvd_tf_completion_put(struct hvd_tf_completion *item);

#endif
