#include "parallel/pipeline/transfers.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

StageLayout Layout(std::vector<MeshAxis> axes, int first, Sharding sharding) {
  absl::StatusOr<Mesh> mesh = Mesh::Make(std::move(axes));
  EXPECT_OK(mesh.status());
  return {*std::move(mesh), first, std::move(sharding)};
}

// "0>2 [0,0]+[4,6]"
std::string Text(const Transfers& transfers) {
  std::vector<std::string> lines;
  for (const Transfer& t : transfers.list) {
    lines.push_back(absl::StrCat(t.from, ">", t.to, " [", absl::StrJoin(t.origin, ","), "]+[",
                                 absl::StrJoin(t.extent, ","), "]"));
  }
  return absl::StrJoin(lines, "; ");
}

std::string TransfersOf(const Dims& dims, const StageLayout& from, const StageLayout& to) {
  const absl::StatusOr<Transfers> transfers = PlanTransfers(dims, from, to);
  EXPECT_OK(transfers.status());
  return transfers.ok() ? Text(*transfers) : "";
}

TEST(TransfersTest, BetweenMeshes) {
  const StageLayout one = Layout({}, 0, Replicated(2));
  const StageLayout rows = Layout({{"data", 2}}, 1, {{{"data"}, {}}, {}});
  EXPECT_EQ(TransfersOf({4, 6}, one, rows), "0>1 [0,0]+[2,6]; 0>2 [2,0]+[2,6]");
  const StageLayout last = Layout({}, 3, Replicated(2));
  EXPECT_EQ(TransfersOf({4, 6}, rows, last), "1>3 [0,0]+[2,6]; 2>3 [2,0]+[2,6]");
  // From rows to columns: everybody to everybody.
  const StageLayout columns = Layout({{"tensor", 2}}, 3, {{{}, {"tensor"}}, {}});
  EXPECT_EQ(TransfersOf({4, 6}, rows, columns),
            "1>3 [0,0]+[2,3]; 2>3 [2,0]+[2,3]; 1>4 [0,3]+[2,3]; 2>4 [2,3]+[2,3]");
  // Copies share the work.
  const StageLayout copies = Layout({{"tensor", 2}}, 3, Replicated(2));
  const StageLayout next = Layout({{"data", 4}}, 5, {{{"data"}, {}}, {}});
  EXPECT_EQ(TransfersOf({4, 6}, copies, next),
            "3>5 [0,0]+[1,6]; 4>6 [1,0]+[1,6]; 3>7 [2,0]+[1,6]; 4>8 [3,0]+[1,6]");
  EXPECT_EQ(TransfersOf({}, Layout({{"data", 2}}, 0, Replicated(0)),
                        Layout({{"data", 3}}, 2, Replicated(0))),
            "0>2 []+[]; 1>3 []+[]; 0>4 []+[]");
}

TEST(TransfersTest, SameLayoutIsRankToRank) {
  const Sharding sharding{{{"data"}, {}}, {}};
  const std::vector<MeshAxis> axes = {{"data", 2}, {"tensor", 2}};
  ASSERT_OK_AND_ASSIGN(const Transfers transfers, PlanTransfers({4, 6}, Layout(axes, 0, sharding),
                                                                Layout(axes, 4, sharding)));
  ASSERT_EQ(transfers.list.size(), 4u);
  for (const Transfer& t : transfers.list) EXPECT_EQ(t.to, t.from + 4);
}

// A sum over the ranks of the receiver: the first has it, the others zeros.
TEST(TransfersTest, ToASum) {
  const StageLayout one = Layout({}, 0, Replicated(1));
  const StageLayout sum = Layout({{"data", 2}}, 1, {{{}}, {"data"}});
  ASSERT_OK_AND_ASSIGN(const Transfers transfers, PlanTransfers({6}, one, sum));
  EXPECT_EQ(Text(transfers), "0>1 [0]+[6]");
  for (int rank : {1, 2}) {
    GraphBuilder builder("receive");
    builder.Output("x", AddReceives(builder, DType::kF32, transfers, rank, 3, "x"));
    ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
    EXPECT_EQ(graph.nodes().back().op->name(), rank == 1 ? "receive" : "constant");
  }
}

TEST(TransfersTest, SendsAndReceivesPutTogether) {
  const StageLayout rows = Layout({{"data", 2}}, 0, {{{"data"}, {}}, {}});
  const StageLayout columns = Layout({{"tensor", 3}}, 2, {{{}, {"tensor"}}, {}});
  ASSERT_OK_AND_ASSIGN(const Transfers transfers, PlanTransfers({4, 6}, rows, columns));
  GraphBuilder send("send");
  EXPECT_EQ(AddSends(send, send.Feed("x", {DType::kF32, {2, 6}}), transfers, 1, 5, "s"), 3);
  ASSERT_OK_AND_ASSIGN(const Graph sent, std::move(send).Build());
  EXPECT_EQ(sent.outputs().size(), 3u);
  EXPECT_EQ(sent.OperandTypes(sent.nodes().back())[0], (Type{DType::kF32, {2, 2}}));
  GraphBuilder receive("receive");
  receive.Output("x", AddReceives(receive, DType::kF32, transfers, 3, 5, "r"));
  ASSERT_OK_AND_ASSIGN(const Graph received, std::move(receive).Build());
  EXPECT_EQ(received.value(received.FindOutput("x")).type, (Type{DType::kF32, {4, 2}}));
}

// Random layouts: every element of every receiver comes once, from a rank that has it.
TEST(TransfersTest, EveryElementOnce) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&random](int first) {
    std::vector<MeshAxis> axes;
    Sharding sharding = Replicated(3);
    for (const char* name : {"data", "tensor", "sequence"}) {
      const uint64_t most = std::string(name) == "sequence" ? 2 : 3;
      axes.push_back({name, static_cast<int64_t>(1 + random() % most)});
      const size_t dim = random() % 4;
      if (dim < 3) sharding.dims[dim].push_back(name);
    }
    return Layout(axes, first, sharding);
  };
  const Dims dims = {36, 36, 36};
  for (int round = 0; round < 40; ++round) {
    const StageLayout from = draw(0), to = draw(from.mesh.ranks());
    ASSERT_OK_AND_ASSIGN(const Transfers transfers, PlanTransfers(dims, from, to));
    for (int rank = 0; rank < to.mesh.ranks(); ++rank) {
      const Slice& part = transfers.parts.at(to.first + rank);
      std::vector<int> count(static_cast<size_t>(ElementCount(dims)), 0);
      for (const Transfer& t : transfers.list) {
        if (t.to != to.first + rank) continue;
        const Slice& sender = transfers.parts.at(t.from);
        for (size_t d = 0; d < 3; ++d) {
          ASSERT_GE(t.origin[d], std::max(sender.origin[d], part.origin[d]));
          ASSERT_LE(t.origin[d] + t.extent[d], std::min(sender.origin[d] + sender.extent[d],
                                                        part.origin[d] + part.extent[d]));
        }
        for (int64_t i = 0; i < ElementCount(t.extent); ++i) {
          const int64_t z = i % t.extent[2], y = i / t.extent[2] % t.extent[1];
          const int64_t x = i / t.extent[2] / t.extent[1];
          ++count[((t.origin[0] + x) * dims[1] + t.origin[1] + y) * dims[2] + t.origin[2] + z];
        }
      }
      const int64_t once = std::count(count.begin(), count.end(), 1);
      ASSERT_EQ(once, ElementCount(part.extent)) << "round " << round;
      ASSERT_EQ(once + std::count(count.begin(), count.end(), 0), ElementCount(dims));
    }
  }
}

}  // namespace
}  // namespace colossus
