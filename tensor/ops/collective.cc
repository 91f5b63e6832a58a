#include "tensor/ops/collective.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// collective_c1: one operand (shift: 1 to 16), each of type f64, f32, bf16, f16, i64 or i32.
// collective_c2: attributes are known, of their types, and those needed are there.
// collective_c3: axes names at least one axis, none twice; 1 <= parts <= 2^20.
// collective_c4: dim, split and join are dims of x; split and join differ.
// collective_c5: parts divides the extent that is split; an extent that grows stays below 2^40.
// collective_c6: (all_reduce) reduction is sum, max or min.
// collective_c7: (send) one operand of any type; (receive) no operands, dtype and dims are a type;
// to and from are places in the group.
constexpr int64_t kMostParts = int64_t{1} << 20, kLargestExtent = int64_t{1} << 40;

bool IsSent(DType dtype) { return IsFloat(dtype) || dtype == DType::kI64 || dtype == DType::kI32; }

absl::Status CheckGroup(const OpCall& call) {
  Strings axes = call.attributes.StringList("axes");
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return Refuse("collective_c3", "axes must name at least one axis, and each once");
  }
  int64_t parts = call.attributes.Int("parts");
  if (parts >= 1 && parts <= kMostParts) return absl::OkStatus();
  return Refuse("collective_c3", absl::StrCat("parts is ", parts, ", not 1 to ", kMostParts));
}

// The base of all: `own` are the attributes of the op itself.
class CollectiveOp : public Op {
 public:
  // The results are known when the group is: all ranks have the same types.
  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return WholeRule(call.operands, *results);
  }
  // Time on links is not a matter of flops and bytes of memory: collectives/cost.h tells it.
  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }

 protected:
  absl::Status CheckCall(const OpCall& call, size_t most_operands,
                         std::initializer_list<absl::string_view> ints) const {
    bool reduces = name() == "all_reduce";
    std::vector<absl::string_view> own(ints);
    if (name() == "all_gather" && call.attributes.Has("index")) own.push_back("index");
    for (const auto& item : call.attributes.values()) {
      bool known = item.first == "axes" || item.first == "parts" || item.first == "site" ||
                   (reduces && item.first == "reduction") ||
                   std::find(own.begin(), own.end(), item.first) != own.end();
      if (!known) {
        return Refuse("collective_c2", absl::StrCat("unknown attribute '", item.first, "'"));
      }
    }
    own.push_back("parts");
    bool typed = call.attributes.HasType<Strings>("axes") &&
                 (!call.attributes.Has("site") || call.attributes.HasType<std::string>("site")) &&
                 (!reduces || call.attributes.HasType<std::string>("reduction"));
    for (absl::string_view name : own) typed = typed && call.attributes.HasType<int64_t>(name);
    if (!typed) return Refuse("collective_c2", "an attribute is missing or of another type");
    if (call.operands.empty() || call.operands.size() > most_operands) {
      return Refuse("collective_c1", absl::StrCat("given ", call.operands.size(), " operands"));
    }
    for (const Type& x : call.operands) {
      if (!IsSent(x.dtype)) return Refuse("collective_c1", absl::StrCat("x is ", ToString(x)));
    }
    return CheckGroup(call);
  }

  static absl::Status CheckDim(const OpCall& call, absl::string_view attribute) {
    int64_t dim = call.attributes.Int(attribute);
    if (dim >= 0 && dim < call.operands[0].rank()) return absl::OkStatus();
    return Refuse("collective_c4",
                  absl::StrCat(attribute, "=", dim, " is no dim of ", ToString(call.operands[0])));
  }

  static absl::Status Divide(const OpCall& call, absl::string_view attribute, Dims& dims) {
    int64_t dim = call.attributes.Int(attribute), parts = call.attributes.Int("parts");
    if (dims[dim] % parts != 0) {
      return Refuse("collective_c5", absl::StrCat("dim ", dim, " of ", ToString(call.operands[0]),
                                                  " is not divisible in ", parts, " parts"));
    }
    dims[dim] /= parts;
    return absl::OkStatus();
  }

  static absl::Status Multiply(const OpCall& call, absl::string_view attribute, Dims& dims) {
    int64_t dim = call.attributes.Int(attribute), parts = call.attributes.Int("parts");
    if (dims[dim] > kLargestExtent / parts) {
      return Refuse("collective_c5", absl::StrCat("dim ", dim, " of ", ToString(call.operands[0]),
                                                  " times ", parts, " is too large"));
    }
    dims[dim] *= parts;
    return absl::OkStatus();
  }
};

class AllReduceDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "all_reduce"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCall(call, 1, {}));
    const std::string& reduction = call.attributes.String("reduction");
    if (reduction != "sum" && reduction != "max" && reduction != "min") {
      return Refuse("collective_c6", absl::StrCat("reduction '", reduction, "'"));
    }
    return Types{call.operands[0]};
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }
};

class AllGatherDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "all_gather"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCall(call, 1, {"dim"}));
    RETURN_IF_ERROR(CheckDim(call, "dim"));
    const int64_t index = call.attributes.IntOr("index", 0), parts = call.attributes.Int("parts");
    if (index < 0 || index >= parts) {
      return Refuse("collective_c3", absl::StrCat("index is ", index, ", not below ", parts));
    }
    Type result = call.operands[0];
    RETURN_IF_ERROR(Multiply(call, "dim", result.dims));
    return Types{result};
  }

  // A part is a range of the result if nothing comes before dim.
  std::vector<int64_t> OperandPlaces(const OpCall& call) const override {
    const Type& x = call.operands[0];
    int64_t before = 1;
    for (int64_t d = 0; d < call.attributes.Int("dim"); ++d) before *= x.dims[d];
    if (before != 1 || !call.attributes.Has("index")) return {};
    return {call.attributes.Int("index") * x.elements()};
  }
};

class ReduceScatterDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "reduce_scatter"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCall(call, 1, {"dim"}));
    RETURN_IF_ERROR(CheckDim(call, "dim"));
    Type result = call.operands[0];
    RETURN_IF_ERROR(Divide(call, "dim", result.dims));
    return Types{result};
  }
};

class AllToAllDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "all_to_all"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCall(call, 1, {"split", "join"}));
    RETURN_IF_ERROR(CheckDim(call, "split"));
    RETURN_IF_ERROR(CheckDim(call, "join"));
    if (call.attributes.Int("split") == call.attributes.Int("join")) {
      return Refuse("collective_c4", "split and join are the same dim");
    }
    Type result = call.operands[0];
    RETURN_IF_ERROR(Divide(call, "split", result.dims));
    RETURN_IF_ERROR(Multiply(call, "join", result.dims));
    return Types{result};
  }
};

class ShiftDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "shift"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckCall(call, GraphBuilder::kMaxResults, {"by"}));
    return Types(call.operands.begin(), call.operands.end());
  }
};

absl::Status CheckPlace(const OpCall& call, absl::string_view attribute) {
  const int64_t place = call.attributes.Int(attribute), parts = call.attributes.Int("parts");
  if (place >= 0 && place < parts) return absl::OkStatus();
  return Refuse("collective_c7", absl::StrCat(attribute, " is ", place, ", not below ", parts));
}

class SendDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "send"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "collective_c2",
                                        {{"axes", AttributeKind::kStrings, true},
                                         {"parts", AttributeKind::kInt, true},
                                         {"site", AttributeKind::kString},
                                         {"to", AttributeKind::kInt, true}}));
    RETURN_IF_ERROR(CheckGroup(call));
    RETURN_IF_ERROR(CheckPlace(call, "to"));
    if (call.operands.size() != 1) return Refuse("collective_c7", "takes one operand");
    return Types{{DType::kI32, {1}}};
  }
};

class ReceiveDefinition final : public CollectiveOp {
 public:
  absl::string_view name() const override { return "receive"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "collective_c2",
                                        {{"axes", AttributeKind::kStrings, true},
                                         {"parts", AttributeKind::kInt, true},
                                         {"site", AttributeKind::kString},
                                         {"from", AttributeKind::kInt, true},
                                         {"dtype", AttributeKind::kString, true},
                                         {"dims", AttributeKind::kInts, true}}));
    RETURN_IF_ERROR(CheckGroup(call));
    RETURN_IF_ERROR(CheckPlace(call, "from"));
    if (!call.operands.empty()) return Refuse("collective_c7", "takes no operands");
    ASSIGN_OR_RETURN(DType dtype, ParseDType(call.attributes.String("dtype")));
    Type type{dtype, {}};
    for (int64_t extent : call.attributes.IntList("dims")) {
      if (extent < 0) return Refuse("collective_c7", absl::StrCat("an extent of ", extent));
      type.dims.push_back(extent);
    }
    return Types{type};
  }
};

template <class Definition>
const Op& Singleton() {
  static const Definition* const op = new Definition();
  return *op;
}

Attributes GroupAttributes(const GraphBuilder& graph, const Op& op, const AxisNames& axes,
                           int64_t parts, absl::string_view name) {
  std::string site(name);
  if (site.empty()) site = absl::StrCat(graph.block(), graph.block().empty() ? "" : "/", op.name());
  return {{"axes", axes}, {"parts", parts}, {"site", site}};
}

}  // namespace

const Op& AllReduceOp() { return Singleton<AllReduceDefinition>(); }
const Op& AllGatherOp() { return Singleton<AllGatherDefinition>(); }
const Op& ReduceScatterOp() { return Singleton<ReduceScatterDefinition>(); }
const Op& AllToAllOp() { return Singleton<AllToAllDefinition>(); }
const Op& ShiftOp() { return Singleton<ShiftDefinition>(); }
const Op& SendOp() { return Singleton<SendDefinition>(); }
const Op& ReceiveOp() { return Singleton<ReceiveDefinition>(); }

bool IsCollective(const Op& op) {
  return &op == &AllReduceOp() || &op == &AllGatherOp() || &op == &ReduceScatterOp() ||
         &op == &AllToAllOp() || &op == &ShiftOp() || &op == &SendOp() || &op == &ReceiveOp();
}

ValueId AllReduce(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts,
                  absl::string_view reduction, absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, AllReduceOp(), axes, parts, name);
  attributes.Set("reduction", reduction);
  return graph.Apply1(AllReduceOp(), {x}, std::move(attributes), name);
}

ValueId AllGather(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int dim,
                  absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, AllGatherOp(), axes, parts, name);
  attributes.Set("dim", dim);
  return graph.Apply1(AllGatherOp(), {x}, std::move(attributes), name);
}

ValueId AllGatherInPlace(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts,
                         int64_t index, absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, AllGatherOp(), axes, parts, name);
  attributes.Set("dim", 0);
  attributes.Set("index", index);
  return graph.Apply1(AllGatherOp(), {x}, std::move(attributes), name);
}

ValueId ReduceScatter(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int dim,
                      absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, ReduceScatterOp(), axes, parts, name);
  attributes.Set("dim", dim);
  return graph.Apply1(ReduceScatterOp(), {x}, std::move(attributes), name);
}

ValueId AllToAll(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int split,
                 int join, absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, AllToAllOp(), axes, parts, name);
  attributes.Set("split", split);
  attributes.Set("join", join);
  return graph.Apply1(AllToAllOp(), {x}, std::move(attributes), name);
}

ValueIds Shift(GraphBuilder& graph, ValueIds x, const AxisNames& axes, int64_t parts, int64_t by,
               absl::string_view name) {
  if (parts == 1) return x;
  Attributes attributes = GroupAttributes(graph, ShiftOp(), axes, parts, name);
  attributes.Set("by", by);
  return graph.Apply(ShiftOp(), std::move(x), std::move(attributes), name);
}

ValueId Send(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int64_t to,
             absl::string_view name) {
  Attributes attributes = GroupAttributes(graph, SendOp(), axes, parts, name);
  attributes.Set("to", to);
  return graph.Apply1(SendOp(), {x}, std::move(attributes), name);
}

ValueId Receive(GraphBuilder& graph, const Type& type, const AxisNames& axes, int64_t parts,
                int64_t from, absl::string_view name) {
  Attributes attributes = GroupAttributes(graph, ReceiveOp(), axes, parts, name);
  attributes.Set("from", from);
  attributes.Set("dtype", Name(type.dtype));
  attributes.Set("dims", Ints(type.dims.begin(), type.dims.end()));
  return graph.Apply1(ReceiveOp(), {}, std::move(attributes), name);
}

}  // namespace colossus
