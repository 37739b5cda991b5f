#ifndef HVD_TESTS_BENCH_MODELS_H
#define HVD_TESTS_BENCH_MODELS_H

/*
 * The gradients of two models that everybody measures with, as element counts in the order of their
 * layers.
 */

#include <stddef.h>

/* As many as the larger model has. */
#define MODEL_MAX_TENSORS 512

/* Fills sizes, of MODEL_MAX_TENSORS, and returns how many there are: 161, 25,557,032 elements. */
size_t model_resnet50(size_t *sizes);

/* The same for BERT-large with its pooler: 391 tensors, 335,141,888 elements. */
size_t model_bert_large(size_t *sizes);

#endif
