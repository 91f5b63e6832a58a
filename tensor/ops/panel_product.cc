#include "tensor/ops/panel_product.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// The dim of a value that is the factor, or -1. Dims of a product are one factor each.
int DimOf(const ValueFactors& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d][0] == factor) return static_cast<int>(d);
  }
  return -1;
}

// Axes of a factor in the values that have it.
struct FactorAxes {
  std::optional<AxisNames> in[3];  // operands and result; nullopt: not there, or not known

  // The one list in all values, or nullopt.
  std::optional<AxisNames> Same() const {
    std::optional<AxisNames> same;
    for (const std::optional<AxisNames>& axes : in) {
      if (!axes.has_value()) continue;
      if (same.has_value() && *same != *axes) return std::nullopt;
      same = axes;
    }
    return same;
  }
};

std::vector<FactorAxes> AxesOf(const FactorRule& rule, absl::Span<const Sharding> operands,
                               const std::optional<Sharding>& wanted) {
  std::vector<FactorAxes> factors(rule.factors.size());
  auto fill = [&](const ValueFactors& dims, const Sharding& sharding, int value) {
    for (size_t d = 0; d < dims.size(); ++d) factors[dims[d][0]].in[value] = sharding.dims[d];
  };
  for (int i : {0, 1}) fill(rule.operands[i], operands[i], i);
  if (wanted.has_value()) fill(rule.results[0], *wanted, 2);
  return factors;
}

bool Overlap(const AxisNames& a, const AxisNames& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& axis) {
    return std::find(b.begin(), b.end(), axis) != b.end();
  });
}

// Axes of factors that the result lacks, in the mesh's order.
AxisNames SummedAxes(const FactorRule& rule, const std::vector<FactorAxes>& factors, int panel,
                     const Mesh& mesh) {
  std::set<std::string> summed;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (static_cast<int>(f) == panel || DimOf(rule.results[0], static_cast<int>(f)) >= 0) continue;
    const AxisNames axes = factors[f].Same().value_or(AxisNames{});
    summed.insert(axes.begin(), axes.end());
  }
  AxisNames in_order;
  for (const MeshAxis& axis : mesh.axes()) {
    if (summed.count(axis.name)) in_order.push_back(axis.name);
  }
  return in_order;
}

// Whether all labels but `panel` lie the same in all values, no two of them over one axis.
bool OthersAgree(const std::vector<FactorAxes>& factors, int panel) {
  std::set<std::string> used;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (static_cast<int>(f) == panel) continue;
    const std::optional<AxisNames> axes = factors[f].Same();
    if (!axes.has_value()) return false;
    for (const std::string& axis : *axes) {
      if (!used.insert(axis).second) return false;
    }
  }
  return true;
}

std::optional<PanelProduct> TryPanel(const FactorRule& rule, std::vector<FactorAxes> factors,
                                     int panel, const Mesh& mesh) {
  if (!OthersAgree(factors, panel)) return std::nullopt;
  FactorAxes& of_panel = factors[panel];
  const AxisNames summed = SummedAxes(rule, factors, panel, mesh);
  const bool in_result = DimOf(rule.results[0], panel) >= 0;
  if (in_result && !of_panel.in[2].has_value()) of_panel.in[2] = summed;
  // It lies over different axes in two values, as many ranks each.
  std::vector<AxisNames> lists;
  for (const std::optional<AxisNames>& axes : of_panel.in) {
    if (axes.has_value()) lists.push_back(*axes);
  }
  if (lists.size() != 2 || lists[0].empty() || lists[1].empty() || Overlap(lists[0], lists[1]) ||
      mesh.SizeOf(lists[0]) != mesh.SizeOf(lists[1])) {
    return std::nullopt;
  }
  PanelProduct product;
  product.factor = panel;
  for (int i : {0, 1}) product.operands[i] = of_panel.in[i].value_or(AxisNames{});
  product.y.partial = summed;
  if (in_result) {
    // What is scattered over these axes must be a sum over them.
    product.result = *of_panel.in[2];
    for (const std::string& axis : product.result) {
      auto found = std::find(product.y.partial.begin(), product.y.partial.end(), axis);
      if (found == product.y.partial.end()) return std::nullopt;
      product.y.partial.erase(found);
    }
  }
  for (const DimFactors& dim : rule.results[0]) {
    product.y.dims.push_back(dim[0] == panel ? product.result : *factors[dim[0]].Same());
  }
  return product;
}

class PanelLoop {
 public:
  PanelLoop(ShardedCall& call, GraphBuilder& graph, const PanelProduct& product)
      : call_(call),
        graph_(graph),
        product_(product),
        parts_(call.mesh().SizeOf(product.operands[0].empty() ? product.operands[1]
                                                              : product.operands[0])),
        extent_(call.rule().factors[product.factor].extent / parts_),
        result_dim_(DimOf(call.rule().results[0], product.factor)),
        dtype_(call.global().operands[0].dtype) {}

  // The result in `dtype`.
  ValueId Run(DType dtype) {
    const int64_t panels = std::min(parts_, std::max<int64_t>(1, extent_));
    const DType product = result_dim_ >= 0 ? dtype : StatisticsDType(dtype_);
    ValueId sum = kNoValue;
    ValueIds slices;
    Panel next = Gather(0, panels);
    for (int64_t j = 0; j < panels; ++j) {
      const Panel panel = next;
      if (j + 1 < panels) next = Gather(j + 1, panels);  // on its way before the product
      ValueId y =
          Matmul(graph_, call_.attributes().String("spec"), panel.x[0], panel.x[1], product);
      if (result_dim_ >= 0) {
        slices.push_back(ReduceScatter(graph_, y, product_.result, parts_, result_dim_));
      } else {
        sum = sum == kNoValue ? y : Add(graph_, sum, y);
      }
    }
    if (result_dim_ < 0) return Convert(graph_, sum, dtype);
    return slices.size() == 1 ? slices[0] : Concat(graph_, slices, result_dim_);
  }

 private:
  struct Panel {
    ValueId x[2];
  };

  // The j-th slice of every rank's part of the label, where an operand has it.
  Panel Gather(int64_t j, int64_t panels) {
    Panel panel{{call_.x(0), call_.x(1)}};
    for (int i : {0, 1}) {
      const int dim = DimOf(call_.rule().operands[i], product_.factor);
      if (dim < 0) continue;
      const Dims& dims = graph_.type(call_.x(i)).dims;
      Ints starts(dims.size(), 0), limits(dims.begin(), dims.end());
      if (dims.empty()) continue;  // after an error
      starts[dim] = extent_ * j / panels;
      limits[dim] = extent_ * (j + 1) / panels;
      ValueId slice = panels == 1 ? call_.x(i) : Slice(graph_, call_.x(i), starts, limits);
      panel.x[i] = AllGather(graph_, slice, product_.operands[i], parts_, dim);
    }
    return panel;
  }

  ShardedCall& call_;
  GraphBuilder& graph_;
  const PanelProduct product_;
  const int64_t parts_, extent_;  // ranks along an axis; of the label, on a rank
  const int result_dim_;
  const DType dtype_;  // of the operands
};

}  // namespace

std::optional<PanelProduct> FindPanelProduct(const FactorRule& rule,
                                             absl::Span<const Sharding> operands,
                                             const std::optional<Sharding>& wanted,
                                             const Mesh& mesh) {
  const std::vector<FactorAxes> factors = AxesOf(rule, operands, wanted);
  // Without a wish there may be two: what the result lacks goes in panels, else what of it the
  // second operand has, so that the first, the activations, stays.
  for (int turn : {0, 1, 2}) {
    for (int f = 0; f < static_cast<int>(factors.size()); ++f) {
      const bool in_result = DimOf(rule.results[0], f) >= 0;
      const bool in_second = DimOf(rule.operands[1], f) >= 0;
      if (turn != (!in_result ? 0 : in_second ? 1 : 2)) continue;
      std::optional<PanelProduct> product = TryPanel(rule, factors, f, mesh);
      if (product.has_value()) return product;
    }
  }
  return std::nullopt;
}

absl::Status ExpandMatmul(ShardedCall& call, GraphBuilder& graph) {
  std::optional<Sharding> wanted;
  if (!call.wanted().empty()) wanted = call.wanted()[0];
  const std::optional<PanelProduct> product =
      FindPanelProduct(call.rule(), {call.x_sharding(0), call.x_sharding(1)}, wanted, call.mesh());
  if (!product.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("matmul '", call.attributes().String("spec"),
                                                   "': its operands make no panel product"));
  }
  absl::StatusOr<Types> results = call.op().Infer(call.global());
  RETURN_IF_ERROR(results.status());
  call.Set(0, PanelLoop(call, graph, *product).Run((*results)[0].dtype), product->y);
  return graph.status();
}

}  // namespace colossus
