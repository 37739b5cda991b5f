"""Makes the LossScaleOptimizer of Keras 3 reduce gradients before it checks them.

compile() under the policy mixed_float16 puts a LossScaleOptimizer around the optimizer. It updates only if its own rank's
gradients are finite. If one rank overflowed alone, the others would wait for its gradients. With reduced gradients an overflow
on one rank is an overflow on all of them, and every rank skips the step and lowers the scale.
"""
import functools


def not_converted(function, backend):
    """Returns a function that AutoGraph leaves as it is, with all that the function calls."""
    if backend != "tensorflow":
        return function
    import tensorflow as tf
    return tf.autograph.experimental.do_not_convert(function)


def reduce_before_check(reduce_then, distributed, backend):
    """Replaces LossScaleOptimizer.apply, once. Optimizers without a distributed optimizer inside behave as before.

    reduce_then, distributed: the function and the class of optimizers.py.
    """
    from keras.optimizers import LossScaleOptimizer
    apply_checked = LossScaleOptimizer.apply
    if getattr(apply_checked, "reduces", False):
        return

    @functools.wraps(apply_checked)
    def apply(self, grads, trainable_variables=None):
        inner = self.inner_optimizer
        if not isinstance(inner, distributed) or inner._horovod.is_off:
            return apply_checked(self, grads, trainable_variables)

        def update(gradients, variables):
            with inner._horovod.off():
                return apply_checked(self, gradients, variables)

        return reduce_then(self, inner, update, grads, trainable_variables)

    apply = not_converted(apply, backend)
    apply.reduces = True
    LossScaleOptimizer.apply = apply
