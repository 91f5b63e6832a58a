#include "tensor/kernels/reference/reference.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

class ReferenceKernelClass final : public Kernel {
 public:
  absl::string_view name() const override { return "reference"; }

  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    const Reference* reference = FindReference(request.op->name());
    if (reference == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("op '", request.op->name(), "' has no reference kernel"));
    }
    // The request's views end with the call; the planned kernel keeps copies.
    struct Call {
      Attributes attributes;
      Types operands, results;
    };
    auto call = std::make_shared<Call>();
    call->attributes = *request.attributes;
    call->operands.assign(request.operands.begin(), request.operands.end());
    call->results.assign(request.results.begin(), request.results.end());
    PlannedKernel planned;
    planned.name = std::string(name());
    planned.run = [function = reference->run, call](const KernelArgs& args) {
      function(ReferenceCall(call->attributes, call->operands, call->results, args));
    };
    return planned;
  }
};

}  // namespace

int64_t TensorView::GetInt(int64_t i) const {
  switch (type_->dtype) {
    case DType::kI64: return static_cast<const int64_t*>(data_)[i];
    case DType::kI32: return static_cast<const int32_t*>(data_)[i];
    default: return static_cast<int64_t>(Get(i));
  }
}

void MutableTensorView::SetInt(int64_t i, int64_t value) const {
  switch (type_->dtype) {
    case DType::kI64: static_cast<int64_t*>(data_)[i] = value; return;
    case DType::kI32: static_cast<int32_t*>(data_)[i] = static_cast<int32_t>(value); return;
    default: Set(i, static_cast<double>(value));
  }
}

const Kernel& ReferenceKernel() {
  static const ReferenceKernelClass* const kernel = new ReferenceKernelClass();
  return *kernel;
}

KernelList ReferenceKernels() {
  static const Kernel* const list[] = {&ReferenceKernel()};
  return list;
}

int64_t OffsetOf(const Dims& index, const Dims& dims) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) offset = offset * dims[d] + index[d];
  return offset;
}

int64_t BroadcastOffset(const Dims& index, const Dims& operand_dims) {
  int64_t offset = 0;
  size_t skip = index.size() - operand_dims.size();
  for (size_t d = 0; d < operand_dims.size(); ++d) {
    offset = offset * operand_dims[d] + (operand_dims[d] == 1 ? 0 : index[d + skip]);
  }
  return offset;
}

}  // namespace colossus
