#include "tensor/ops/pack.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// Of every buffer that a kernel reads or writes.
constexpr int64_t kAlignedBytes = 64;

// Error unless tensor i of `elements[i]` elements lies at offsets[i], ascending, inside `whole`.
absl::Status CheckPlaces(absl::string_view constraint, const Ints& offsets,
                         const std::vector<int64_t>& elements, int64_t whole) {
  int64_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < end || offsets[i] > whole || elements[i] > whole - offsets[i]) {
      return Refuse(constraint, absl::StrCat("tensor ", i, " of ", elements[i], " elements at ",
                                             offsets[i], ", after ", end, " of ", whole));
    }
    end = offsets[i] + elements[i];
  }
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view constraint, size_t count) {
  if (count >= 1 && count <= static_cast<size_t>(kMaxPacked)) return absl::OkStatus();
  return Refuse(constraint, absl::StrCat(count, " tensors, not 1 to ", kMaxPacked));
}

// Per result. Error: dims are below 0, or not as many as ranks say, or hold more than 2^62.
absl::StatusOr<std::vector<Dims>> DimsOfResults(const Attributes& attributes) {
  const Ints &ranks = attributes.IntList("ranks"), &dims = attributes.IntList("dims");
  std::vector<Dims> results;
  size_t at = 0;
  for (int64_t rank : ranks) {
    if (rank < 0 || rank > static_cast<int64_t>(dims.size() - at)) {
      return Refuse("unpack_c3", absl::StrCat("dims has no ", rank, " entries from ", at, " on"));
    }
    Dims own;
    int64_t elements = 1;
    for (size_t end = at + static_cast<size_t>(rank); at < end; ++at) {
      if (dims[at] < 0 || (dims[at] > 0 && elements > (int64_t{1} << 62) / dims[at])) {
        return Refuse("unpack_c3", absl::StrCat("the extent ", dims[at]));
      }
      own.push_back(dims[at]);
      if (dims[at] > 0) elements *= dims[at];
    }
    results.push_back(std::move(own));
  }
  if (at != dims.size()) {
    return Refuse("unpack_c3", absl::StrCat("dims has ", dims.size(), " entries, ranks take ", at));
  }
  return results;
}

// unpack_c1: one operand with one dim. unpack_c2: offsets, ranks and dims are lists of ints, and
// nothing else is there; offsets and ranks have one entry for each of 1 to 256 results.
// unpack_c3: ranks and extents are at least 0, and dims has as many entries as ranks take.
// unpack_c4: the results ascend, do not overlap and end inside x.
class UnpackDefinition final : public Op {
 public:
  absl::string_view name() const override { return "unpack"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    if (call.operands.size() != 1 || call.operands[0].rank() != 1) {
      return Refuse("unpack_c1", "needs one operand with one dim");
    }
    RETURN_IF_ERROR(CheckAttributeTypes(call, "unpack_c2",
                                        {{"offsets", AttributeKind::kInts, true},
                                         {"ranks", AttributeKind::kInts, true},
                                         {"dims", AttributeKind::kInts, true}}));
    const Ints& offsets = call.attributes.IntList("offsets");
    RETURN_IF_ERROR(CheckCount("unpack_c2", offsets.size()));
    if (call.attributes.IntList("ranks").size() != offsets.size()) {
      return Refuse("unpack_c2", "offsets and ranks differ in length");
    }
    ASSIGN_OR_RETURN(std::vector<Dims> dims, DimsOfResults(call.attributes));
    const Type& x = call.operands[0];
    Types results;
    std::vector<int64_t> elements;
    for (Dims& own : dims) {
      results.push_back({x.dtype, std::move(own)});
      elements.push_back(results.back().elements());
    }
    RETURN_IF_ERROR(CheckPlaces("unpack_c4", offsets, elements, x.elements()));
    return results;
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueIds given;
    std::vector<int64_t> offsets;
    const Ints& all = g.attributes().IntList("offsets");
    for (size_t i = 0; i < all.size(); ++i) {
      if (!g.has_dy(static_cast<int>(i))) continue;
      given.push_back(Convert(g.graph(), g.dy(static_cast<int>(i)), g.gradient_dtype(0)));
      offsets.push_back(all[i]);
    }
    g.Add(0, Pack(g.graph(), std::move(given), std::move(offsets), g.x_type(0).elements()));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return WholeRule(call.operands, *results);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
  // Where every result is aligned as buffers are; else they are copied.
  bool IsView(const OpCall& call) const override {
    const int64_t size = SizeOf(call.operands[0].dtype);
    const Ints& offsets = call.attributes.IntList("offsets");
    return std::all_of(offsets.begin(), offsets.end(),
                       [size](int64_t offset) { return offset * size % kAlignedBytes == 0; });
  }
  std::vector<int64_t> ViewOffsets(const OpCall& call) const override {
    return call.attributes.IntList("offsets");
  }
};

// pack_c1: 1 to 256 operands of one dtype. pack_c2: offsets (ints, one per operand) and elements
// (int, at least 0) are there, and nothing else. pack_c3: the operands ascend, do not overlap and
// end inside the result.
class PackDefinition final : public Op {
 public:
  absl::string_view name() const override { return "pack"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCount("pack_c1", call.operands.size()));
    std::vector<int64_t> elements;
    for (const Type& type : call.operands) {
      if (type.dtype != call.operands[0].dtype) {
        return Refuse("pack_c1",
                      absl::StrCat(ToString(type), " beside ", ToString(call.operands[0])));
      }
      elements.push_back(type.elements());
    }
    RETURN_IF_ERROR(CheckAttributeTypes(
        call, "pack_c2",
        {{"offsets", AttributeKind::kInts, true}, {"elements", AttributeKind::kInt, true}}));
    const Ints& offsets = call.attributes.IntList("offsets");
    const int64_t whole = call.attributes.Int("elements");
    if (offsets.size() != call.operands.size() || whole < 0) {
      return Refuse("pack_c2", absl::StrCat(offsets.size(), " offsets for ", call.operands.size(),
                                            " operands and ", whole, " elements"));
    }
    RETURN_IF_ERROR(CheckPlaces("pack_c3", offsets, elements, whole));
    return Types{{call.operands[0].dtype, {whole}}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    std::vector<PackedTensor> tensors;
    const Ints& offsets = g.attributes().IntList("offsets");
    for (int i = 0; i < g.x_count(); ++i) {
      tensors.push_back({offsets[static_cast<size_t>(i)], g.x_type(i).dims});
    }
    const ValueIds parts = Unpack(g.graph(), g.dy(0), tensors);
    for (int i = 0; i < g.x_count(); ++i) {
      if (g.needs(i)) {
        g.Add(i, Convert(g.graph(), parts[static_cast<size_t>(i)], g.gradient_dtype(i)));
      }
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return WholeRule(call.operands, *results);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
  std::vector<int64_t> OperandPlaces(const OpCall& call) const override {
    return call.attributes.IntList("offsets");
  }
};

}  // namespace

const Op& UnpackOp() {
  static const UnpackDefinition* const op = new UnpackDefinition();
  return *op;
}

const Op& PackOp() {
  static const PackDefinition* const op = new PackDefinition();
  return *op;
}

ValueIds Unpack(GraphBuilder& graph, ValueId x, absl::Span<const PackedTensor> tensors,
                absl::string_view name) {
  Ints offsets, ranks, dims;
  for (const PackedTensor& tensor : tensors) {
    offsets.push_back(tensor.offset);
    ranks.push_back(static_cast<int64_t>(tensor.dims.size()));
    dims.insert(dims.end(), tensor.dims.begin(), tensor.dims.end());
  }
  Attributes attributes{
      {"offsets", std::move(offsets)}, {"ranks", std::move(ranks)}, {"dims", std::move(dims)}};
  ValueIds results = graph.Apply(UnpackOp(), {x}, std::move(attributes), name);
  // After an error the builder gives a fixed number of results.
  results.resize(std::max(results.size(), tensors.size()), kNoValue);
  return results;
}

ValueId Pack(GraphBuilder& graph, ValueIds tensors, std::vector<int64_t> offsets, int64_t elements,
             absl::string_view name) {
  return graph.Apply1(PackOp(), std::move(tensors),
                      {{"offsets", std::move(offsets)}, {"elements", elements}}, name);
}

}  // namespace colossus
