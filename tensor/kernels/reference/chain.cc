#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/chain.h"

namespace colossus {

// The steps' own references in turn, each result in a buffer of its own: what a chain means.
template <class S>
void ChainReference(const ReferenceCall& call) {
  absl::StatusOr<ChainProgram> program = ParseChain(call.attributes(), call.x_count());
  CHECK_OK(program.status());
  absl::StatusOr<Types> types = ChainTypes(*program, call.op_call().operands);
  CHECK_OK(types.status());
  std::vector<const void*> values;
  for (int i = 0; i < call.x_count(); ++i) values.push_back(call.x(i).raw());
  std::vector<std::vector<char>> buffers;
  for (const ChainStep& step : program->steps) {
    const Type& type = (*types)[values.size()];
    buffers.emplace_back(type.bytes());
    Types operand_types;
    std::vector<const void*> operands;
    for (int value : step.values) {
      operand_types.push_back((*types)[value]);
      operands.push_back(values[value]);
    }
    void* result = buffers.back().data();
    const KernelArgs args{operands, {&result, 1}};
    const Reference* reference = FindReference(step.op->name());
    CHECK(reference != nullptr) << std::string(step.op->name());
    const ReferenceFunction run =
        std::is_same_v<S, double> ? reference->run : reference->count;
    run(ReferenceCall(step.attributes, operand_types, {&type, 1}, args));
    values.push_back(result);
  }
  // Results last: they may lie over operands.
  for (int r = 0; r < call.y_count(); ++r) {
    const std::vector<char>& buffer = buffers[program->results[r]];
    if (!buffer.empty()) std::memcpy(call.y(r).raw(), buffer.data(), buffer.size());
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(ChainReference)

}  // namespace colossus
