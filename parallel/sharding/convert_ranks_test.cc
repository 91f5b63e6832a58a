// Conversions on the threads of up to 8 ranks: every pair of shardings, against the whole value.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/sharding/convert.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/testing/run_on_ranks.h"

namespace colossus {
namespace {

// Adds `axis` to every sharding in each of its possible places: nowhere, in the sum, and at every
// place in the axes of each dim.
std::vector<Sharding> WithAxis(const std::vector<Sharding>& before, const std::string& axis) {
  std::vector<Sharding> all;
  for (const Sharding& sharding : before) {
    all.push_back(sharding);
    all.push_back(sharding);
    all.back().partial.push_back(axis);
    for (size_t d = 0; d < sharding.dims.size(); ++d) {
      for (size_t at = 0; at <= sharding.dims[d].size(); ++at) {
        all.push_back(sharding);
        AxisNames& axes = all.back().dims[d];
        axes.insert(axes.begin() + static_cast<int64_t>(at), axis);
      }
    }
  }
  return all;
}

std::vector<Sharding> AllShardings(const Dims& dims, const Mesh& mesh) {
  std::vector<Sharding> all = {Replicated(static_cast<int>(dims.size()))};
  for (const MeshAxis& axis : mesh.axes()) all = WithAxis(all, axis.name);
  std::vector<Sharding> fitting;
  for (const Sharding& sharding : all) {
    if (CheckSharding(dims, sharding, mesh).ok()) fitting.push_back(sharding);
  }
  return fitting;
}

bool IsPossible(const Sharding& from, const Sharding& to, const Mesh& mesh) {
  return std::all_of(to.partial.begin(), to.partial.end(), [&](const std::string& axis) {
    return mesh.SizeOf(axis) == 1 ||
           std::find(from.partial.begin(), from.partial.end(), axis) != from.partial.end();
  });
}

// A graph for each rank that converts feed x from one sharding to all others; output i is as
// targets[i].
std::vector<Graph> Conversions(const Type& type, const Sharding& from,
                               const std::vector<Sharding>& targets, const Mesh& mesh) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    GraphBuilder graph("conversions");
    ValueId x = graph.Feed("x", *LocalType(type, from, mesh));
    for (size_t i = 0; i < targets.size(); ++i) {
      absl::StatusOr<ValueId> y = ConvertSharding(graph, x, type, from, targets[i], mesh, rank);
      EXPECT_OK(y.status()) << ToText(from) << " to " << ToText(targets[i]);
      if (!y.ok()) return {};
      graph.Output(absl::StrCat("y", i), *y);
    }
    absl::StatusOr<Graph> built = std::move(graph).Build();
    EXPECT_OK(built.status());
    if (!built.ok()) return {};
    graphs.push_back(*std::move(built));
  }
  return graphs;
}

void ExpectConversions(const HostTensor& whole, const Sharding& from,
                       const std::vector<Sharding>& targets, const Mesh& mesh,
                       std::mt19937_64& random) {
  const std::vector<Graph> graphs = Conversions(whole.type(), from, targets, mesh);
  ASSERT_EQ(graphs.size(), static_cast<size_t>(mesh.ranks()));
  std::vector<HostTensors> inputs;
  for (HostTensor& part : TakeApart(whole, from, mesh, random, /*integers=*/true)) {
    inputs.push_back({{"x", std::move(part)}});
  }
  absl::StatusOr<std::vector<RankRun>> runs = RunGraphsOnRanks(mesh, graphs, inputs, CpuKernels());
  ASSERT_OK(runs.status()) << ToText(from);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::string what = absl::StrCat(ToText(from), " to ", ToText(targets[i]));
    absl::StatusOr<HostTensor> y =
        PutTogether(whole.type(), targets[i], mesh, OutputOf(*runs, absl::StrCat("y", i)));
    ASSERT_OK(y.status()) << what;
    EXPECT_EQ(y->ToDoubles(), whole.ToDoubles()) << what;
  }
}

// Small integers, all different: every sum is exact.
HostTensor Numbered(const Dims& dims) {
  HostTensor whole(Type{DType::kF32, dims});
  for (int64_t i = 0; i < whole.type().elements(); ++i) whole.Set(i, static_cast<double>(i));
  return whole;
}

TEST(ConvertRanksTest, EveryPair) {
  std::mt19937_64 random(TestSeed());
  const std::vector<std::vector<MeshAxis>> meshes = {
      {{"a", 1}},           {{"a", 2}},           {{"a", 3}},
      {{"a", 8}},           {{"a", 2}, {"b", 2}}, {{"a", 2}, {"b", 3}},
      {{"a", 2}, {"b", 1}}, {{"a", 4}, {"b", 2}}, {{"a", 2}, {"b", 2}, {"c", 2}}};
  int pairs = 0;
  for (const std::vector<MeshAxis>& axes : meshes) {
    const Mesh mesh = *Mesh::Make(axes);
    const HostTensor whole = Numbered({24, 8});
    const std::vector<Sharding> all = AllShardings(whole.type().dims, mesh);
    for (const Sharding& from : all) {
      std::vector<Sharding> targets;
      for (const Sharding& to : all) {
        if (IsPossible(from, to, mesh)) targets.push_back(to);
      }
      ExpectConversions(whole, from, targets, mesh, random);
      pairs += static_cast<int>(targets.size());
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(pairs, 5000);
}

// Protects: more dims, extents that do not divide everywhere, other element types.
TEST(ConvertRanksTest, RandomPairs) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh = *Mesh::Make({{"a", 2}, {"b", 2}, {"c", 2}});
  for (const Dims& dims : {Dims{4, 3, 8}, Dims{2, 6, 2, 4}, Dims{8}, Dims{}}) {
    const std::vector<Sharding> all = AllShardings(dims, mesh);
    for (DType dtype : {DType::kF64, DType::kBF16, DType::kI32}) {
      const HostTensor whole = Numbered(dims).Converted(dtype);
      const Sharding& from = all[random() % all.size()];
      std::vector<Sharding> targets;
      for (int i = 0; i < 40; ++i) {
        const Sharding& to = all[random() % all.size()];
        if (IsPossible(from, to, mesh)) targets.push_back(to);
      }
      ExpectConversions(whole, from, targets, mesh, random);
    }
  }
}

}  // namespace
}  // namespace colossus
