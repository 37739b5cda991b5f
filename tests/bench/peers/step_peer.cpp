/*
 * The step benchmark's table for Horovod's C++ core, over plain memory: what a framework's adapter
 * would implement, and no more. Tensors, contexts and names are made once and used by every step,
 * and the submitter sleeps on a condition variable until the last callback, both of which are
 * cheaper than what the adapters for frameworks do.
 */
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/operations.h"

#include "tests/bench/step.h"

namespace {

using namespace horovod::common;

class Memory : public PersistentBuffer {
public:
    explicit Memory(int64_t size) : bytes(static_cast<size_t>(size)) {}
    const void *AccessData(std::shared_ptr<OpContext>) const override { return bytes.data(); }

private:
    std::vector<char> bytes;
};

class Floats : public Tensor {
public:
    Floats(float *elements, size_t count) : elements(elements), count(count) {}
    const DataType dtype() const override { return DataType::HOROVOD_FLOAT32; }
    const TensorShape shape() const override
    {
        return TensorShape(std::vector<int64_t>{static_cast<int64_t>(count)});
    }
    const void *data() const override { return elements; }
    int64_t size() const override { return static_cast<int64_t>(count * sizeof(float)); }

private:
    float *elements;
    size_t count;
};

// An allreduce allocates the fusion buffer and nothing else.
class Context : public OpContext {
public:
    Status AllocatePersistent(int64_t size, std::shared_ptr<PersistentBuffer> *buffer) override
    {
        *buffer = std::make_shared<Memory>(size);
        return Status::OK();
    }
    Status AllocateOutput(TensorShape, std::shared_ptr<Tensor> *,
                          std::shared_ptr<ReadyEvent> *) override
    {
        return Status::PreconditionError("the benchmark brings its own outputs");
    }
    Status AllocateZeros(int64_t, DataType, std::shared_ptr<Tensor> *) override
    {
        return Status::PreconditionError("the benchmark does not join early");
    }
    Framework framework() const override { return Framework::PYTORCH; }
};

struct Prepared {
    std::string name;
    std::shared_ptr<Tensor> input;
    std::shared_ptr<Tensor> output;
    ReduceOp op;
};

std::shared_ptr<Context> context;
std::vector<Prepared> prepared;
std::string failure;

std::mutex lock;
std::condition_variable last_is_done;
std::atomic<size_t> n_pending;

void note_failure(const std::string &reason)
{
    std::lock_guard<std::mutex> guard(lock);
    if (failure.empty())
        failure = "the peer: " + reason;
}

void tensor_is_done(const Status &status)
{
    if (!status.ok())
        note_failure(status.reason());
    if (n_pending.fetch_sub(1) == 1) {
        std::lock_guard<std::mutex> guard(lock);
        last_is_done.notify_one();
    }
}

const char *init()
{
    failure.clear();
    return horovod_init(nullptr, 0, nullptr, nullptr, 0) ? nullptr : "the peer's init failed";
}

const char *prepare(const struct step_tensor *tensors, size_t n_tensors)
{
    context = std::make_shared<Context>();
    for (size_t i = 0; i < n_tensors; i++)
        prepared.push_back({tensors[i].name,
                            std::make_shared<Floats>(tensors[i].input, tensors[i].n),
                            std::make_shared<Floats>(tensors[i].output, tensors[i].n),
                            tensors[i].is_average ? ReduceOp::AVERAGE : ReduceOp::SUM});
    return nullptr;
}

const char *step()
{
    n_pending = prepared.size();
    for (const auto &tensor : prepared) {
        Status status =
            EnqueueTensorAllreduce(context, tensor.input, tensor.output, ReadyEventList(),
                                   tensor.name, CPU_DEVICE_ID, tensor_is_done, tensor.op);
        if (!status.ok()) {
            note_failure(status.reason());
            return failure.c_str();
        }
    }
    std::unique_lock<std::mutex> guard(lock);
    last_is_done.wait(guard, [] { return n_pending == 0; });
    return failure.empty() ? nullptr : failure.c_str();
}

void forget()
{
    prepared.clear();
    context.reset();
}

void leave()
{
    horovod_shutdown();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct step_port step_peer;
const struct step_port step_peer = {init, prepare, step, forget, leave};
