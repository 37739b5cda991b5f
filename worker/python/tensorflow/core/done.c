/* Moves a std::function of libstdc++, which is bytes that may lie anywhere. */
#include "worker/python/tensorflow/core/done.h"

#include <stddef.h>
#include <string.h>

enum { DESTROY = 3 }; /* the operation of a manager that ends the functor */

_Static_assert(sizeof(struct hvd_tf_done) == 32, "the layout of libstdc++ on 64 bits");

void hvd_tf_done_take(struct hvd_tf_done *to, void *from)
{
    memcpy(to, from, sizeof(*to));
    memset((char *)from + offsetof(struct hvd_tf_done, manager), 0, sizeof(to->manager));
}

void hvd_tf_done_destroy(struct hvd_tf_done *done)
{
    if (done->manager)
        (void)done->manager(done->functor, done->functor, DESTROY);
    done->manager = NULL;
}

bool hvd_tf_done_fits(const void *from, bool (*is_code)(const void *address))
{
    struct hvd_tf_done done;
    const void *manager = NULL;
    const void *invoker = NULL;

    memcpy(&done, from, sizeof(done));
    memcpy(&manager, &done.manager, sizeof(manager));
    memcpy(&invoker, &done.invoker, sizeof(invoker));
    return manager && invoker && is_code(manager) && is_code(invoker);
}
