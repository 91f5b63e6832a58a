// GradientBuilder: what an op's Gradient() sees and writes.
//
// Purpose: gives the values of one forward node and the cotangents of its results, and collects
// cotangents of its operands. The rule adds ordinary graph nodes through graph().
// Thread-safety: none; one thread. Ownership: refers to the graph under construction.
//
//   absl::Status MulOp::Gradient(GradientBuilder& g) const {
//     g.Add(0, Mul(g.graph(), g.dy(0), g.x(1)));
//     g.Add(1, Mul(g.graph(), g.dy(0), g.x(0)));
//     return absl::OkStatus();
//   }
#ifndef COLOSSUS_TENSOR_OPS_GRADIENT_BUILDER_H_
#define COLOSSUS_TENSOR_OPS_GRADIENT_BUILDER_H_

#include <vector>

#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/types.h"

namespace colossus {

class GradientBuilder {
 public:
  // x, y: operand and result values of the forward node in `graph`; dy: cotangent of each result
  // or kNoValue; needed: per operand, whether anything asks for its cotangent; to_parameter: per
  // operand, whether it is the start value of a state.
  GradientBuilder(GraphBuilder& graph, const Attributes& attributes, ValueIds x, ValueIds y,
                  ValueIds dy, std::vector<bool> needed, std::vector<bool> to_parameter);

  GraphBuilder& graph() { return graph_; }
  const Attributes& attributes() const { return attributes_; }

  int x_count() const { return static_cast<int>(x_.size()); }
  ValueId x(int i) const { return x_[i]; }
  ValueId y(int i) const { return y_[i]; }
  const Type& x_type(int i) const { return graph_.type(x_[i]); }
  const Type& y_type(int i) const { return graph_.type(y_[i]); }

  // Whether result i has a cotangent at all. At least one result has.
  bool has_dy(int i) const { return dy_[i] != kNoValue; }
  // REQUIRES: has_dy(i).
  ValueId dy(int i) const;

  // False: nobody wants the cotangent of operand i; Add would be dropped.
  bool needs(int i) const { return needed_[i]; }
  // Element type in which the cotangent of operand i is wanted: that of the operand, but at least
  // f32 where the operand is a parameter (a micro-batch's gradient is fp32 as the product leaves
  // it).
  DType gradient_dtype(int i) const;

  // The cotangent of operand i; at most once per operand. REQUIRES: dims as the operand's, dtype
  // gradient_dtype(i).
  void Add(int i, ValueId dx);
  // What was added, or kNoValue.
  ValueId dx(int i) const { return dx_[i]; }

 private:
  GraphBuilder& graph_;
  const Attributes& attributes_;
  ValueIds x_, y_, dy_, dx_;
  std::vector<bool> needed_, to_parameter_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_GRADIENT_BUILDER_H_
