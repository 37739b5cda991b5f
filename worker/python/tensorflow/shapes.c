/*
 * Derives the shapes of outputs from those of inputs, while TensorFlow builds a graph. Any thread
 * may call these functions.
 */
#include "worker/python/tensorflow/shapes.h"

/* Becomes -1 in TensorFlow, which is its number for an unknown size. */
#define UNKNOWN SIZE_MAX

static bool is_ok(const struct tf_status *status)
{
    return hvd_tf.GetCode(status) == 0;
}

static void set_same(struct tf_shape_context *ctx, struct tf_status *status)
{
    const int64_t n = hvd_tf.ShapeInferenceContextNumInputs(ctx);
    struct tf_shape *shape = hvd_tf.NewShapeHandle();

    for (int i = 0; i < n && is_ok(status); i++) {
        hvd_tf.ShapeInferenceContextGetInput(ctx, i, shape, status);
        if (is_ok(status))
            hvd_tf.ShapeInferenceContextSetOutput(ctx, i, shape, status);
    }
    hvd_tf.DeleteShapeHandle(shape);
}

/* Sets output i to the shape of input i with an unknown number of rows. */
static void set_rows_of(struct tf_shape_context *ctx, int i, struct tf_status *status)
{
    struct tf_shape *input = hvd_tf.NewShapeHandle();
    struct tf_shape *row = hvd_tf.NewShapeHandle();
    struct tf_shape *output = hvd_tf.NewShapeHandle();
    struct tf_shape *rows = hvd_tf.ShapeInferenceContextVectorFromSize(ctx, UNKNOWN);

    hvd_tf.ShapeInferenceContextGetInput(ctx, i, input, status);
    if (is_ok(status))
        hvd_tf.ShapeInferenceContextWithRankAtLeast(ctx, input, 1, input, status);
    if (is_ok(status))
        hvd_tf.ShapeInferenceContextSubshape(ctx, input, 1, INT64_MAX, row, status);
    if (is_ok(status))
        hvd_tf.ShapeInferenceContextConcatenateShapes(ctx, rows, row, output, status);
    if (is_ok(status))
        hvd_tf.ShapeInferenceContextSetOutput(ctx, i, output, status);
    hvd_tf.DeleteShapeHandle(rows);
    hvd_tf.DeleteShapeHandle(output);
    hvd_tf.DeleteShapeHandle(row);
    hvd_tf.DeleteShapeHandle(input);
}

static void set_rows(struct tf_shape_context *ctx, struct tf_status *status)
{
    const int64_t n = hvd_tf.ShapeInferenceContextNumInputs(ctx);

    for (int i = 0; i < n && is_ok(status); i++)
        set_rows_of(ctx, i, status);
}

static void set_exchange(struct tf_shape_context *ctx, struct tf_status *status)
{
    struct tf_shape *counts = hvd_tf.ShapeInferenceContextVectorFromSize(ctx, UNKNOWN);

    set_rows_of(ctx, 0, status);
    if (is_ok(status))
        hvd_tf.ShapeInferenceContextSetOutput(ctx, 1, counts, status);
    hvd_tf.DeleteShapeHandle(counts);
}

static void set_scalar(struct tf_shape_context *ctx, struct tf_status *status)
{
    struct tf_shape *scalar = hvd_tf.ShapeInferenceContextScalar(ctx);

    hvd_tf.ShapeInferenceContextSetOutput(ctx, 0, scalar, status);
    hvd_tf.DeleteShapeHandle(scalar);
}

static void set_nothing(struct tf_shape_context *ctx, struct tf_status *status)
{
    (void)ctx;
    (void)status;
}

tf_shapes_fn hvd_tf_shapes_function(enum hvd_tf_shapes shapes)
{
    switch (shapes) {
    case HVD_TF_SHAPES_SAME:
        return set_same;
    case HVD_TF_SHAPES_ROWS:
        return set_rows;
    case HVD_TF_SHAPES_EXCHANGE:
        return set_exchange;
    case HVD_TF_SHAPES_SCALAR:
        return set_scalar;
    case HVD_TF_SHAPES_NONE:
        break;
    }
    return set_nothing;
}
