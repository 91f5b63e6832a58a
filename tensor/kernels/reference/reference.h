// Reference kernels: the definition of every op.
//
// Purpose: plain loops that say what an op means, free of options and speed, the judge of every
// fast kernel. They read any dtype as double, compute in double and round once per stored result.
// Thread-safety: stateless. Ownership: views of the caller's buffers.
//
// A reference kernel is one function template in tensor/kernels/reference/<op>.cc and one line in
// reference_list.cc. Its arithmetic is written on S, which is double when it runs and Counted
// (counted.h) when a test counts its operations:
//
//   template <class S>
//   void ScaleReference(const ReferenceCall& call) {
//     S factor(call.attributes().Float("factor"));
//     for (int64_t i = 0; i < call.x(0).elements(); ++i)
//       call.y(0).Set(i, ToDouble(factor * S(call.x(0).Get(i))));
//   }
//   COLOSSUS_INSTANTIATE_REFERENCE(ScaleReference)
#ifndef COLOSSUS_TENSOR_KERNELS_REFERENCE_REFERENCE_H_
#define COLOSSUS_TENSOR_KERNELS_REFERENCE_REFERENCE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/counted.h"

namespace colossus {

// A read-only dense tensor.
class TensorView {
 public:
  TensorView(const Type& type, const void* data) : type_(&type), data_(data) {}
  const Type& type() const { return *type_; }
  const Dims& dims() const { return type_->dims; }
  int64_t dim(int i) const { return type_->dims[i]; }
  int64_t elements() const { return type_->elements(); }
  double Get(int64_t i) const { return LoadAsDouble(type_->dtype, data_, i); }
  int64_t GetInt(int64_t i) const;  // exact for integer types
  const void* raw() const { return data_; }

 private:
  const Type* type_;
  const void* data_;
};

class MutableTensorView {
 public:
  MutableTensorView(const Type& type, void* data) : type_(&type), data_(data) {}
  const Type& type() const { return *type_; }
  const Dims& dims() const { return type_->dims; }
  int64_t dim(int i) const { return type_->dims[i]; }
  int64_t elements() const { return type_->elements(); }
  void Set(int64_t i, double value) const { StoreFromDouble(type_->dtype, data_, i, value); }
  void SetInt(int64_t i, int64_t value) const;  // exact for integer types
  double Get(int64_t i) const { return LoadAsDouble(type_->dtype, data_, i); }
  void* raw() const { return data_; }

 private:
  const Type* type_;
  void* data_;
};

class ReferenceCall {
 public:
  ReferenceCall(const Attributes& attributes, absl::Span<const Type> operand_types,
                absl::Span<const Type> result_types, const KernelArgs& args)
      : attributes_(attributes), operand_types_(operand_types), result_types_(result_types),
        args_(args) {}
  const Attributes& attributes() const { return attributes_; }
  int x_count() const { return static_cast<int>(operand_types_.size()); }
  int y_count() const { return static_cast<int>(result_types_.size()); }
  TensorView x(int i) const { return {operand_types_[i], args_.operands[i]}; }
  MutableTensorView y(int i) const { return {result_types_[i], args_.results[i]}; }
  OpCall op_call() const { return {operand_types_, attributes_}; }

 private:
  const Attributes& attributes_;
  absl::Span<const Type> operand_types_, result_types_;
  const KernelArgs& args_;
};

using ReferenceFunction = void (*)(const ReferenceCall&);

struct Reference {
  absl::string_view op;
  ReferenceFunction run;    // on double
  ReferenceFunction count;  // on Counted: the same, adding to CountedOperations()
};

// nullptr if the op has none (a test checks that every op has one).
const Reference* FindReference(absl::string_view op_name);

#define COLOSSUS_INSTANTIATE_REFERENCE(function)              \
  template void function<double>(const ReferenceCall& call); \
  template void function<Counted>(const ReferenceCall& call);

// The last entry of every kernel list: wraps FindReference. Accepts every request.
const Kernel& ReferenceKernel();
// The list with only that entry.
KernelList ReferenceKernels();

// Calls fn(index) for every index tuple of `dims`, row-major; `index` is a Dims. Once for a scalar.
template <typename Fn>
void ForEachIndex(const Dims& dims, Fn fn) {
  if (ElementCount(dims) == 0) return;
  Dims index(dims.size(), 0);
  for (;;) {
    fn(index);
    int d = static_cast<int>(dims.size()) - 1;
    for (; d >= 0 && ++index[d] == dims[d]; --d) index[d] = 0;
    if (d < 0) return;
  }
}

// Offset of `index` in a row-major tensor of `dims`.
int64_t OffsetOf(const Dims& index, const Dims& dims);
// Offset of the element of a right-aligned broadcast operand that result `index` reads.
int64_t BroadcastOffset(const Dims& index, const Dims& operand_dims);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_REFERENCE_REFERENCE_H_
