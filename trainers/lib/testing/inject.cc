#include "trainers/lib/testing/inject.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"

namespace colossus {
namespace {

// Puts an infinity into the first float result of a block in one micro-batch.
class Injector final : public StepObserver {
 public:
  Injector(Program& program, std::string block, int micro_batch)
      : program_(program), block_(std::move(block)), micro_batch_(micro_batch) {}

  absl::Status After(size_t t) override {
    const Instruction& instruction = program_.plan().instructions[t];
    if (done_ || instruction.kind != InstructionKind::kKernel ||
        instruction.micro_batch != micro_batch_) {
      return absl::OkStatus();
    }
    const Graph& graph = program_.step().graph_of(program_.step().calls[instruction.call]);
    const Node& node = graph.node(instruction.node);
    const Type& type = graph.value(node.results[0]).type;
    if (node.block != block_ || !IsFloat(type.dtype)) return absl::OkStatus();
    done_ = true;
    HostTensor infinity(Type{type.dtype, {}});
    infinity.Set(0, std::numeric_limits<double>::infinity());
    BufferRange first = instruction.results[0];
    first.bytes = SizeOf(type.dtype);
    return program_.WriteRange(first, infinity.raw());
  }

 private:
  Program& program_;
  const std::string block_;
  const int micro_batch_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<StepObserver> Inject(Program& program, const std::string& block, int micro_batch) {
  return std::make_unique<Injector>(program, block, micro_batch);
}

TrainHooks InjectAt(const std::set<int64_t>& steps, const std::string& block, int micro_batch) {
  TrainHooks hooks;
  hooks.observer = [=](int64_t step, Program& program) -> std::unique_ptr<StepObserver> {
    if (!steps.contains(step)) return nullptr;
    return Inject(program, block, micro_batch);
  };
  return hooks;
}

}  // namespace colossus
