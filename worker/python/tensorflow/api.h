#ifndef HVD_WORKER_PYTHON_TENSORFLOW_API_H
#define HVD_WORKER_PYTHON_TENSORFLOW_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/python/tensorflow/core/codes.h"

/*
 * The part of TensorFlow's C API that this library uses. It is declared here and looked up when the
 * library is loaded: so the build needs no TensorFlow, and one binary serves all of its versions.
 * Types of TensorFlow are opaque, except for the view of a text.
 */
struct tf_status;
struct tf_tensor;
struct tf_context;      /* TF_OpKernelContext: one run of a kernel */
struct tf_construction; /* TF_OpKernelConstruction */
struct tf_kernel_builder;
struct tf_definition_builder;
struct tf_shape_context;
struct tf_shape;
struct tf_done; /* TF_AsyncOpKernelDoneCallback: a std::function<void()> */

struct tf_text {
    const char *data;
    size_t len;
};

typedef void *(*tf_create_fn)(struct tf_construction *);
typedef void (*tf_compute_fn)(void *kernel, struct tf_context *);
typedef void (*tf_compute_async_fn)(void *kernel, struct tf_context *, struct tf_done *);
typedef void (*tf_delete_fn)(void *kernel);
typedef void (*tf_shapes_fn)(struct tf_shape_context *, struct tf_status *);

/* X(result, name without TF_, arguments) */
#define HVD_TF_API(X)                                                                              \
    X(struct tf_status *, NewStatus, (void))                                                       \
    X(void, DeleteStatus, (struct tf_status *))                                                    \
    X(void, SetStatus, (struct tf_status *, enum hvd_tf_code, const char *message))                \
    X(enum hvd_tf_code, GetCode, (const struct tf_status *))                                       \
    X(const char *, Message, (const struct tf_status *))                                           \
    X(struct tf_definition_builder *, NewOpDefinitionBuilder, (const char *type))                  \
    X(void, OpDefinitionBuilderAddInput, (struct tf_definition_builder *, const char *))           \
    X(void, OpDefinitionBuilderAddOutput, (struct tf_definition_builder *, const char *))          \
    X(void, OpDefinitionBuilderAddAttr, (struct tf_definition_builder *, const char *))            \
    X(void, OpDefinitionBuilderSetIsStateful, (struct tf_definition_builder *, bool))              \
    X(void, OpDefinitionBuilderSetShapeInferenceFunction,                                          \
      (struct tf_definition_builder *, tf_shapes_fn))                                              \
    X(void, RegisterOpDefinition, (struct tf_definition_builder *, struct tf_status *))            \
    X(struct tf_kernel_builder *, NewKernelBuilder,                                                \
      (const char *type, const char *device, tf_create_fn, tf_compute_fn, tf_delete_fn))           \
    X(struct tf_kernel_builder *, NewAsyncKernelBuilder,                                           \
      (const char *type, const char *device, tf_create_fn, tf_compute_async_fn, tf_delete_fn))     \
    X(void, RegisterKernelBuilder,                                                                 \
      (const char *name, struct tf_kernel_builder *, struct tf_status *))                          \
    X(struct tf_text, OpKernelConstruction_GetName, (struct tf_construction *))                    \
    X(void, OpKernelConstruction_GetAttrSize,                                                      \
      (struct tf_construction *, const char *name, int32_t *n, int32_t *bytes,                     \
       struct tf_status *))                                                                        \
    X(void, OpKernelConstruction_GetAttrType,                                                      \
      (struct tf_construction *, const char *name, int *, struct tf_status *))                     \
    X(void, OpKernelConstruction_GetAttrInt64,                                                     \
      (struct tf_construction *, const char *name, int64_t *, struct tf_status *))                 \
    X(void, OpKernelConstruction_GetAttrFloat,                                                     \
      (struct tf_construction *, const char *name, float *, struct tf_status *))                   \
    X(void, OpKernelConstruction_GetAttrBool,                                                      \
      (struct tf_construction *, const char *name, unsigned char *, struct tf_status *))           \
    X(void, OpKernelConstruction_GetAttrString,                                                    \
      (struct tf_construction *, const char *name, char *, size_t max, struct tf_status *))        \
    X(void, OpKernelConstruction_Failure, (struct tf_construction *, struct tf_status *))          \
    X(void, OpKernelContext_Failure, (struct tf_context *, struct tf_status *))                    \
    X(void, GetInput, (struct tf_context *, int, struct tf_tensor **, struct tf_status *))         \
    X(struct tf_tensor *, AllocateOutput,                                                          \
      (struct tf_context *, int index, int type, const int64_t *dims, int ndim, size_t bytes,      \
       struct tf_status *))                                                                        \
    X(struct tf_tensor *, ForwardInputOrAllocateOutput,                                            \
      (struct tf_context *, const int *inputs, int n_inputs, int output, const int64_t *dims,      \
       int ndim, int *forwarded, struct tf_status *))                                              \
    X(void, DeleteTensor, (struct tf_tensor *))                                                    \
    X(int, NumDims, (const struct tf_tensor *))                                                    \
    X(int64_t, Dim, (const struct tf_tensor *, int))                                               \
    X(void *, TensorData, (const struct tf_tensor *))                                              \
    X(size_t, TensorByteSize, (const struct tf_tensor *))                                          \
    X(void, RunAsyncOpKernelDoneCallback, (struct tf_done *))                                      \
    X(struct tf_shape *, NewShapeHandle, (void))                                                   \
    X(void, DeleteShapeHandle, (struct tf_shape *))                                                \
    X(int64_t, ShapeInferenceContextNumInputs, (struct tf_shape_context *))                        \
    X(void, ShapeInferenceContextGetInput,                                                         \
      (struct tf_shape_context *, int, struct tf_shape *, struct tf_status *))                     \
    X(void, ShapeInferenceContextSetOutput,                                                        \
      (struct tf_shape_context *, int, struct tf_shape *, struct tf_status *))                     \
    X(struct tf_shape *, ShapeInferenceContextScalar, (struct tf_shape_context *))                 \
    X(struct tf_shape *, ShapeInferenceContextVectorFromSize, (struct tf_shape_context *, size_t)) \
    X(void, ShapeInferenceContextWithRankAtLeast,                                                  \
      (struct tf_shape_context *, struct tf_shape *, int64_t, struct tf_shape *,                   \
       struct tf_status *))                                                                        \
    X(void, ShapeInferenceContextSubshape,                                                         \
      (struct tf_shape_context *, struct tf_shape *, int64_t start, int64_t end,                   \
       struct tf_shape *, struct tf_status *))                                                     \
    X(void, ShapeInferenceContextConcatenateShapes,                                                \
      (struct tf_shape_context *, struct tf_shape *, struct tf_shape *, struct tf_shape *,         \
       struct tf_status *))

#define HVD_TF_FIELD(result, name, arguments) result(*name) arguments;
struct hvd_tf_api {
    HVD_TF_API(HVD_TF_FIELD)
};
#undef HVD_TF_FIELD

/* TensorFlow's functions. Complete, and constant, once hvd_tf_api_load has returned NULL. */
extern struct hvd_tf_api hvd_tf;

/* Looks up all functions in the TensorFlow of this process. Returns NULL, or a sentence that names
 * what is missing; it stays valid for ever. */
const char *hvd_tf_api_load(void);

/* Whether TensorFlow's std::function is that of libstdc++: the name of a function of its library
 * that takes one says so. After hvd_tf_api_load. */
bool hvd_tf_api_has_libstdcxx(void);

/* Whether the address lies in a library of TensorFlow. Any thread; quick for an address that was
 * asked for before. */
bool hvd_tf_api_has_code(const void *address);

#endif
