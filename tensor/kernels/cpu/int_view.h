// IntView: i32 or i64 values read as int64_t.
//
// Thread-safety: a plain view of the caller's memory.
//
//   IntView labels(dtype, args.operands[2]);  labels[row];
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_INT_VIEW_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_INT_VIEW_H_

#include <cstdint>

#include "base/dtype.h"

namespace colossus {

class IntView {
 public:
  // REQUIRES: dtype is i32 or i64.
  IntView(DType dtype, const void* data) : wide_(dtype == DType::kI64), data_(data) {}
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

 private:
  bool wide_;
  const void* data_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_INT_VIEW_H_
