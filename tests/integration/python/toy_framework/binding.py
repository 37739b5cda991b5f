"""Horovod for the toy framework: its adapter, and the module that its users import. Nothing else knows of it."""
import array

from toy import Frozen, Rows

from horovod.common.adapter import Adapter
from horovod.common.basics import Average, Sum, init, rank, shutdown, size  # noqa: F401
from horovod.common.operations import Operations, barrier, poll, synchronize  # noqa: F401
from horovod.common.process_sets import ProcessSet, add_process_set, remove_process_set  # noqa: F401


def _rows_of(memory):
    return Rows(memoryview(memory).tolist())


class ToyAdapter(Adapter):
    """What the operations need of the toy framework; see Adapter."""

    dense_is_ours = True

    @staticmethod
    def dense(tensor):
        if not isinstance(tensor, Rows):
            raise ValueError(f"{type(tensor).__name__} is no toy.")
        flat = array.array("d", [number for row in tensor.rows for number in row])
        return memoryview(flat).cast("B").cast("d", (len(tensor.rows), len(tensor.rows[0])))

    @staticmethod
    def from_output(output, like):
        return _rows_of(output)

    @staticmethod
    def return_to(tensor, result):
        return lambda _: _rows_of(result)

    def dense_in_place(self, tensor):
        if isinstance(tensor, Frozen):
            raise ValueError("A frozen toy cannot be changed in place.")
        return self.dense(tensor)

    @staticmethod
    def write_back(tensor, target):
        def bring(_):
            tensor.rows = target.tolist()
            tensor.changes += 1
            return tensor
        return bring


operations = Operations(ToyAdapter(), __name__)
allreduce, allreduce_ = operations.allreduce, operations.allreduce_
allreduce_async, allreduce_async_ = operations.allreduce_async, operations.allreduce_async_
grouped_allreduce_async, grouped_allreduce_ = operations.grouped_allreduce_async, operations.grouped_allreduce_
allgather_async, grouped_allgather_async = operations.allgather_async, operations.grouped_allgather_async
broadcast, broadcast_, broadcast_async = operations.broadcast, operations.broadcast_, operations.broadcast_async
alltoall_async = operations.alltoall_async
reducescatter, grouped_reducescatter_async = operations.reducescatter, operations.grouped_reducescatter_async
