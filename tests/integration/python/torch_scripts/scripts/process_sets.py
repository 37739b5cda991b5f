import torch

import horovod.torch as hvd

even_set = hvd.ProcessSet([0])
odd_set = hvd.ProcessSet([1])
hvd.init(process_sets=[even_set, odd_set])

everyone = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
assert everyone.item() == sum(range(hvd.size()))

mine = even_set if hvd.rank() == 0 else odd_set
for other in (even_set, odd_set):
    assert other.included() == (other is mine)
    assert other.size() == 1
assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=mine).tolist() == [1., 1.]

model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     named_parameters=model.named_parameters(), process_set=mine)
model(torch.full((1, 2), float(hvd.rank()))).sum().backward()
optimizer.step()
assert model.weight.grad.tolist() == [[hvd.rank(), hvd.rank()]]

assert hvd.remove_process_set(even_set)
hvd.barrier()
print("rank", hvd.rank(), "of", hvd.global_process_set.size())
