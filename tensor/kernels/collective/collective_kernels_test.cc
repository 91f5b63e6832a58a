// Every collective op on thread ranks against its definition over the values of all ranks.
#include "tensor/kernels/collective/collective_kernels.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "collectives/cost.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/text.h"
#include "tensor/ops/collective.h"
#include "tensor/testing/collective_definition.h"
#include "tensor/testing/run_on_ranks.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr DType kSent[] = {DType::kF64, DType::kF32, DType::kBF16,
                           DType::kF16, DType::kI64, DType::kI32};

// One collective of a program.
struct Use {
  const Op* op;
  Attributes attributes;
  Types operands;
};

class RandomUses {
 public:
  explicit RandomUses(uint64_t seed) : random_(seed) {}

  Use Next(const Mesh& mesh) {
    Use use;
    AxisNames axes;
    for (const MeshAxis& axis : mesh.axes()) axes.push_back(axis.name);
    std::shuffle(axes.begin(), axes.end(), random_);
    axes.resize(1 + Below(static_cast<int64_t>(axes.size())));
    const int64_t parts = mesh.SizeOf(axes);
    use.attributes = {{"axes", axes}, {"parts", parts}};
    Type x{kSent[Below(6)], {}};
    const int64_t rank = 1 + Below(4);
    for (int64_t d = 0; d < rank; ++d) x.dims.push_back(Below(4));
    const int64_t dim = Below(rank), other = Below(rank);
    const Op* ops[] = {&AllReduceOp(), &AllGatherOp(), &ReduceScatterOp(), &ShiftOp(),
                       &AllToAllOp()};
    use.op = ops[Below(dim == other ? 4 : 5)];
    if (use.op == &AllReduceOp()) {
      const char* reductions[] = {"sum", "max", "min"};
      use.attributes.Set("reduction", reductions[Below(3)]);
    } else if (use.op == &ShiftOp()) {
      use.attributes.Set("by", Below(9) - 4);
      for (int64_t more = Below(3); more > 0; --more) {
        use.operands.push_back({kSent[Below(6)], {Below(5)}});
      }
    } else if (use.op == &AllToAllOp()) {
      use.attributes.Set("split", dim);
      use.attributes.Set("join", other);
    } else {
      use.attributes.Set("dim", dim);
    }
    if (use.op == &AllToAllOp() || use.op == &ReduceScatterOp()) x.dims[dim] *= parts;
    use.operands.insert(use.operands.begin(), x);
    return use;
  }

  // Small integers: every sum is exact in every dtype.
  HostTensor Tensor(const Type& type) {
    HostTensor x(type);
    for (int64_t i = 0; i < type.elements(); ++i) x.Set(i, static_cast<double>(Below(17) - 8));
    return x;
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  std::mt19937_64 random_;
};

// A graph of all uses; operand i of use n is feed "x<n>.<i>", result i is output "y<n>.<i>".
Graph Program(const std::vector<Use>& uses) {
  GraphBuilder b("program");
  for (size_t n = 0; n < uses.size(); ++n) {
    ValueIds x;
    for (size_t i = 0; i < uses[n].operands.size(); ++i) {
      x.push_back(b.Feed(absl::StrCat("x", n, ".", i), uses[n].operands[i]));
    }
    const ValueIds y = b.Apply(*uses[n].op, x, uses[n].attributes);
    for (size_t i = 0; i < x.size(); ++i) b.Output(absl::StrCat("y", n, ".", i), y[i]);
  }
  absl::StatusOr<Graph> graph = std::move(b).Build();
  CHECK_OK(graph.status());
  return *std::move(graph);
}

std::vector<HostTensor> Named(const HostTensors& tensors, absl::string_view prefix, size_t count) {
  std::vector<HostTensor> found;
  for (size_t i = 0; i < count; ++i) found.push_back(tensors.at(absl::StrCat(prefix, ".", i)));
  return found;
}

void ExpectUse(const Mesh& mesh, const Use& use, size_t n, const std::vector<HostTensors>& inputs,
               const std::vector<RankRun>& runs) {
  const AxisNames& axes = use.attributes.StringList("axes");
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<std::vector<HostTensor>> x;
    for (int member : mesh.Group(rank, axes)) {
      x.push_back(Named(inputs[member], absl::StrCat("x", n), use.operands.size()));
    }
    const std::vector<HostTensor> expected =
        DefineCollective(*use.op, use.attributes, x)[mesh.IndexIn(rank, axes)];
    const std::vector<HostTensor> actual =
        Named(runs[rank].outputs, absl::StrCat("y", n), expected.size());
    EXPECT_EQ(actual, expected) << use.op->name() << use.attributes.ToString() << " of "
                                << ToString(use.operands[0]) << " on rank " << rank;
  }
}

TEST(CollectiveKernelsTest, RandomProgramsAreAsDefined) {
  RandomUses random(TestSeed());
  const std::vector<std::vector<MeshAxis>> meshes = {{{"a", 1}},
                                                     {{"a", 2}},
                                                     {{"a", 3}},
                                                     {{"a", 5}},
                                                     {{"a", 2}, {"b", 2}},
                                                     {{"a", 2}, {"b", 3}},
                                                     {{"a", 2}, {"b", 1}, {"c", 4}},
                                                     {{"a", 2}, {"b", 2}, {"c", 2}}};
  for (const std::vector<MeshAxis>& axes : meshes) {
    const Mesh mesh = *Mesh::Make(axes);
    std::vector<Use> uses;
    for (int n = 0; n < 60; ++n) uses.push_back(random.Next(mesh));
    const std::vector<Graph> graphs(mesh.ranks(), Program(uses));
    std::vector<HostTensors> inputs(mesh.ranks());
    for (HostTensors& of_rank : inputs) {
      for (ValueId feed : graphs[0].feeds()) {
        of_rank[graphs[0].value(feed).name] = random.Tensor(graphs[0].value(feed).type);
      }
    }
    absl::StatusOr<std::vector<RankRun>> runs = RunGraphsOnRanks(mesh, graphs, inputs);
    ASSERT_OK(runs.status());
    for (size_t n = 0; n < uses.size(); ++n) ExpectUse(mesh, uses[n], n, inputs, *runs);
  }
}

// Stage 0 sends to stage 2 and gets an answer; stage 1 takes no part. Any type goes.
Graph MessageGraph(const Mesh& mesh, int rank) {
  const int64_t stage = mesh.Coordinate(rank, "stage");
  GraphBuilder b("messages");
  const Type x{DType::kF32, {2, 3}}, mask{DType::kBool, {5}};
  if (stage == 0) {
    b.Output("sent", Send(b, b.Feed("x", x), {"stage"}, 3, 2, "x"));
    b.Output("answer", Receive(b, mask, {"stage"}, 3, 2, "mask"));
  } else if (stage == 2) {
    b.Output("x", Receive(b, x, {"stage"}, 3, 0, "x"));
    b.Output("sent", Send(b, b.Feed("mask", mask), {"stage"}, 3, 0, "mask"));
  } else {
    b.Output("own", b.Feed("x", x));
  }
  return *std::move(b).Build();
}

TEST(CollectiveKernelsTest, Messages) {
  const Mesh mesh = *Mesh::Make({{"stage", 3}, {"data", 2}});
  RandomUses random(TestSeed());
  std::vector<Graph> graphs;
  std::vector<HostTensors> inputs(6);
  for (int rank = 0; rank < 6; ++rank) {
    graphs.push_back(MessageGraph(mesh, rank));
    inputs[rank]["x"] = random.Tensor({DType::kF32, {2, 3}});
    HostTensor& mask = inputs[rank]["mask"] = HostTensor(Type{DType::kBool, {5}});
    mask.Set(rank % 5, 1);
  }
  absl::StatusOr<std::vector<RankRun>> runs = RunGraphsOnRanks(mesh, graphs, inputs);
  ASSERT_OK(runs.status());
  for (int data : {0, 1}) {
    EXPECT_EQ((*runs)[4 + data].outputs.at("x"), inputs[data].at("x"));
    EXPECT_EQ((*runs)[data].outputs.at("answer"), inputs[4 + data].at("mask"));
    EXPECT_EQ((*runs)[data].counts.at("stage").bytes, 24);
    EXPECT_TRUE((*runs)[2 + data].counts.empty());
  }
}

// Protects: what is sent is counted by the axes it goes over.
TEST(CollectiveKernelsTest, CountsByAxes) {
  const Mesh mesh = *Mesh::Make({{"data", 2}, {"tensor", 2}});
  GraphBuilder b("counts");
  ValueId x = b.Feed("x", {DType::kF32, {8}});
  x = AllGather(b, x, {"tensor"}, 2, 0);
  x = ReduceScatter(b, x, {"tensor", "data"}, 4, 0);
  b.Output("y", AllGather(b, x, {"tensor"}, 2, 0));
  const Graph graph = *std::move(b).Build();
  const HostTensors inputs = {{"x", HostTensor(Type{DType::kF32, {8}})}};
  absl::StatusOr<std::vector<RankRun>> runs =
      RunGraphsOnRanks(mesh, std::vector<Graph>(4, graph), std::vector<HostTensors>(4, inputs));
  ASSERT_OK(runs.status());
  for (const RankRun& run : *runs) {
    EXPECT_EQ(run.counts.size(), 2u);
    EXPECT_EQ(run.counts.at("tensor").elements, 8 + 4);
    EXPECT_EQ(run.counts.at("tensor,data").elements, 12);
    EXPECT_EQ(run.counts.at("tensor").bytes, 4 * 12);
  }
}

// Protects: a planned collective tells its time, with ranks or without.
TEST(CollectiveKernelsTest, SecondsWithoutRanks) {
  const Mesh mesh = *Mesh::Make({{"a", 2}, {"b", 4}});
  const CollectiveKernels kernels(mesh, ReferenceKernels());
  const Types part{{DType::kBF16, {3, 5}}}, whole{{DType::kBF16, {3, 20}}};
  Attributes attributes{{"axes", Strings{"b"}}, {"parts", 4}, {"dim", 1}};
  absl::StatusOr<PlannedKernel> planned =
      PlanKernel(kernels.list(), {&AllGatherOp(), &attributes, part, whole, 1});
  ASSERT_OK(planned.status());
  EXPECT_EQ(planned->seconds.value_or(0),
            CollectiveSeconds(CollectiveKind::kAllGather, DType::kBF16, 60, 4));
  attributes.Set("axes", Strings{"a"});
  EXPECT_THAT(
      PlanKernel(kernels.list(), {&AllGatherOp(), &attributes, part, whole, 1}).status().message(),
      HasSubstr("planned for 4 ranks, the group has 2"));
}

// Protects: a program for another mesh is refused when planned; a rank that fails ends the others.
TEST(CollectiveKernelsTest, Refuses) {
  const Mesh mesh = *Mesh::Make({{"a", 2}});
  auto program = [](const char* axis, int64_t parts) {
    return Program({{&AllReduceOp(),
                     {{"axes", Strings{axis}}, {"parts", parts}, {"reduction", "sum"}},
                     {{DType::kF32, {2}}}}});
  };
  const std::vector<HostTensors> inputs(2, {{"x0.0", HostTensor(Type{DType::kF32, {2}})}});
  auto message = [&](const Graph& first, const Graph& second) {
    return std::string(
        RunGraphsOnRanks(mesh, std::vector<Graph>{first, second}, inputs).status().message());
  };
  EXPECT_THAT(message(program("a", 4), program("a", 4)),
              HasSubstr("planned for 4 ranks, the group has 2"));
  EXPECT_THAT(message(program("b", 2), program("b", 2)), HasSubstr("no axis 'b'"));
  EXPECT_THAT(message(program("a", 2), program("b", 2)), HasSubstr("no axis 'b'"));
}

}  // namespace
}  // namespace colossus
