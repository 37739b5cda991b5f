import torch

import horovod.torch as hvd

hvd.init(process_sets="dynamic")
even_set = hvd.add_process_set(range(0, hvd.size(), 2))
odd_set = hvd.add_process_set(range(1, hvd.size(), 2))

everyone = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
assert everyone.item() == sum(range(hvd.size()))

mine, theirs = (odd_set, even_set) if hvd.rank() % 2 else (even_set, odd_set)
assert mine.included() and not theirs.included()
assert mine.size() == len(mine.ranks) and mine.rank() == hvd.rank() // 2
assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=mine).tolist() == [float(mine.size())] * 2

model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     named_parameters=model.named_parameters(), process_set=mine)
model(torch.full((1, 2), float(hvd.rank()))).sum().backward()
optimizer.step()
assert model.weight.grad.tolist() == [[sum(mine.ranks) / mine.size()] * 2]

assert hvd.remove_process_set(even_set)
hvd.barrier()
print("rank", hvd.rank(), "of", hvd.global_process_set.size())
