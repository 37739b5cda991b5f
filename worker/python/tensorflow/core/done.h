#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_DONE_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_DONE_H

#include <stdbool.h>

/*
 * The function that an asynchronous kernel calls at its end. TensorFlow passes the address of a
 * std::function<void()> of libstdc++, which it destroys as soon as the kernel returns. So a kernel
 * that ends later moves it. The fields are the layout of libstdc++, fixed by its ABI:
 *
 *     functor (16 bytes) | manager (8) | invoker (8)
 *
 * manager(to, from, operation) copies and destroys the functor; NULL: the function is empty, and
 * its destructor does nothing. Pure, but for the functions that it calls.
 */
struct hvd_tf_done {
    void *functor[2];
    int (*manager)(void *to, const void *from, int operation);
    void (*invoker)(const void *functor);
};

/* Moves the function at `from` to `to`, so that TensorFlow destroys nothing there. `to` has to be
 * destroyed. */
void hvd_tf_done_take(struct hvd_tf_done *to, void *from);

/* Destroys what hvd_tf_done_take has moved. */
void hvd_tf_done_destroy(struct hvd_tf_done *done);

/* Whether the function at `from` has the layout: it is not empty, and is_code says of both pointers
 * that they are addresses of code. */
bool hvd_tf_done_fits(const void *from, bool (*is_code)(const void *address));

#endif
