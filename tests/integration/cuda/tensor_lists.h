#ifndef HVD_TESTS_INTEGRATION_CUDA_TENSOR_LISTS_H
#define HVD_TESTS_INTEGRATION_CUDA_TENSOR_LISTS_H

#include <stdint.h>

#define TENSOR_LIST_MAX 2048
#define TENSOR_LISTS 4

/* The sizes of the tensors of a list. */
struct tensor_list {
    const char *name;
    int64_t counts[TENSOR_LIST_MAX]; /* of float32 */
    int n;
};

/* Fills a list: 0 to TENSOR_LISTS - 1. */
void tensor_list_fill(struct tensor_list *t, int which);

#endif
