/* Element types: TensorFlow's numbers, which saved graphs contain and which never change. Pure. */
#include "worker/python/tensorflow/core/elements.h"

static const struct {
    int tf_type;
    horovod_dtype_t dtype;
    size_t size;
} types[] = {
    {1, HOROVOD_FLOAT32, 4}, {2, HOROVOD_FLOAT64, 8},  {3, HOROVOD_INT32, 4},
    {4, HOROVOD_UINT8, 1},   {5, HOROVOD_INT16, 2},    {6, HOROVOD_INT8, 1},
    {9, HOROVOD_INT64, 8},   {10, HOROVOD_BOOL, 1},    {14, HOROVOD_BFLOAT16, 2},
    {17, HOROVOD_UINT16, 2}, {19, HOROVOD_FLOAT16, 2}, {22, HOROVOD_UINT32, 4},
    {23, HOROVOD_UINT64, 8},
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool hvd_tf_element_of(int tf_type, horovod_dtype_t *out)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (types[i].tf_type != tf_type)
            continue;
        *out = types[i].dtype;
        return true;
    }
    return false;
}

size_t hvd_tf_element_size(horovod_dtype_t dtype)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].size;
    return 0;
}
