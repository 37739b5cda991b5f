"""Variables of graphs, and the hook that broadcasts them when a session begins."""
import tensorflow as tf

from horovod.tensorflow.functions import broadcast_variables
from horovod.tensorflow.reductions import on
from horovod.tensorflow.util import _executing_eagerly


def broadcast_global_variables(root_rank):
    """Returns the operation that gives the global variables of the graph the values that they have on root_rank."""
    if _executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() needs a graph. Eagerly there are no global variables: use "
                           "hvd.broadcast_variables(variables, root_rank), with those of the model and of the optimizer.")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts the global variables from a root when a session begins, so that all ranks begin with the same: with those of a
    checkpoint that the root alone has, or with the root's random ones. device: where the operations are put."""

    def __init__(self, root_rank, device=""):
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op = None
        self.device = device

    def begin(self):
        """Adds the operation to the graph, once."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            with on(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        """Runs it. A session that replaces a lost one does this as well, and so all ranks have to replace theirs."""
        session.run(self.bcast_op)
