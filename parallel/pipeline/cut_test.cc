#include "parallel/pipeline/cut.h"

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/messages.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

std::vector<std::string> Blocks(int count) {
  std::vector<std::string> blocks;
  for (int b = 0; b < count; ++b) blocks.push_back(absl::StrCat("b", b));
  return blocks;
}

std::vector<double> PartSums(const ModelCut& cut, const std::vector<double>& seconds) {
  std::vector<double> sums(static_cast<size_t>(cut.parts), 0);
  for (size_t b = 0; b < seconds.size(); ++b) {
    sums[static_cast<size_t>(cut.PartOf(absl::StrCat("b", b)))] += seconds[b];
  }
  return sums;
}

// The least that the longest of `parts` parts of blocks from `first` on can be.
double Best(const std::vector<double>& seconds, size_t first, int parts) {
  if (parts == 1) {
    double all = 0;
    for (size_t b = first; b < seconds.size(); ++b) all += seconds[b];
    return all;
  }
  double best = 1e30, part = 0;
  for (size_t end = first + 1; end + static_cast<size_t>(parts) <= seconds.size() + 1; ++end) {
    part += seconds[end - 1];
    best = std::min(best, std::max(part, Best(seconds, end, parts - 1)));
  }
  return best;
}

TEST(CutTest, BalancedIsBest) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 9);
    const int parts = 1 + static_cast<int>(random() % blocks);
    std::vector<double> seconds;
    for (int b = 0; b < blocks; ++b) seconds.push_back(static_cast<double>(random() % 10));
    const ModelCut cut = CutBalanced(Blocks(blocks), seconds, parts);
    EXPECT_EQ(cut.parts, parts);
    const std::vector<double> sums = PartSums(cut, seconds);
    EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), Best(seconds, 0, parts));
    for (int b = 1; b < blocks; ++b) {  // consecutive, none empty
      const int step = cut.PartOf(absl::StrCat("b", b)) - cut.PartOf(absl::StrCat("b", b - 1));
      EXPECT_TRUE(step == 0 || step == 1);
    }
  }
}

// Among cuts with the same longest part the most even one.
TEST(CutTest, TheRestIsEven) {
  EXPECT_EQ(PartSums(CutBalanced(Blocks(7), {6, 1, 1, 1, 1, 1, 1}, 4), {6, 1, 1, 1, 1, 1, 1}),
            (std::vector<double>{6, 2, 2, 2}));
}

// A cut, as the first block of each part and the end.
using Firsts = std::vector<size_t>;

std::vector<Firsts> AllCuts(size_t blocks, int parts, size_t first = 0) {
  if (parts == 1) return {{first, blocks}};
  std::vector<Firsts> cuts;
  for (size_t next = first + 1; next + static_cast<size_t>(parts) <= blocks + 1; ++next) {
    for (Firsts rest : AllCuts(blocks, parts - 1, next)) {
      rest.insert(rest.begin(), first);
      cuts.push_back(std::move(rest));
    }
  }
  return cuts;
}

struct CutSizes {
  double longest = 0, fullest = 0, squares = 0;
};

CutSizes SizesOf(const Firsts& cut, const std::vector<double>& seconds, const Balance& balance) {
  CutSizes sizes;
  for (size_t p = 0; p + 1 < cut.size(); ++p) {
    double part = 0;
    for (size_t b = cut[p]; b < cut[p + 1]; ++b) part += seconds[b];
    part /= balance.speeds[p];
    sizes.longest = std::max(sizes.longest, part);
    sizes.fullest = std::max(sizes.fullest,
                             balance.bytes(static_cast<int>(p), cut[p], cut[p + 1]));
    sizes.squares += part * part;
  }
  return sizes;
}

Firsts FirstsOf(const ModelCut& cut, size_t blocks) {
  Firsts firsts = {0};
  for (size_t b = 1; b < blocks; ++b) {
    const auto part = [&](size_t at) { return cut.PartOf(absl::StrCat("b", at)); };
    if (part(b) != part(b - 1)) firsts.push_back(b);
  }
  firsts.push_back(blocks);
  return firsts;
}

// Against all cuts there are: those that fit, or all if none does; then the least longest part, the
// least fullest one, the least sum of squares.
TEST(CutTest, MemoryCountsAfterTimeAndWithinALimitBefore) {
  std::mt19937_64 random(TestSeed());
  int moved = 0, without = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t blocks = 2 + random() % 7;
    const int parts = 1 + static_cast<int>(random() % std::min<size_t>(4, blocks));
    std::vector<double> seconds, states, activations;
    Balance balance;
    for (size_t b = 0; b < blocks; ++b) {
      seconds.push_back(static_cast<double>(random() % 4));
      states.push_back(static_cast<double>(random() % 5));
      activations.push_back(static_cast<double>(random() % 3));
    }
    for (int p = 0; p < parts; ++p) balance.speeds.push_back(random() % 3 == 0 ? 2 : 1);
    balance.bytes = [&](int part, size_t first, size_t end) {
      double sum = 0;
      for (size_t b = first; b < end; ++b) sum += states[b] + (parts - part) * activations[b];
      return sum;
    };
    const std::vector<Firsts> all = AllCuts(blocks, parts);
    for (double most : {1e9, 12.0, 7.0}) {
      balance.most_bytes = most;
      std::vector<CutSizes> allowed, any;
      for (const Firsts& cut : all) {
        any.push_back(SizesOf(cut, seconds, balance));
        if (any.back().fullest <= most) allowed.push_back(any.back());
      }
      if (allowed.empty()) allowed = any;
      const auto key = [](const CutSizes& s) {
        return std::make_tuple(s.longest, s.fullest, s.squares);
      };
      const CutSizes best = *std::min_element(
          allowed.begin(), allowed.end(),
          [&](const CutSizes& a, const CutSizes& b) { return key(a) < key(b); });
      const ModelCut cut = CutBalanced(Blocks(static_cast<int>(blocks)), seconds, parts, balance);
      const CutSizes sizes = SizesOf(FirstsOf(cut, blocks), seconds, balance);
      EXPECT_EQ(key(sizes), key(best)) << "round " << round << " most " << most;
      moved += best.longest > Best(seconds, 0, parts) ? 1 : 0;
      without += best.fullest > most ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 0);
  EXPECT_GT(without, 0);
}

TEST(CutTest, AtBorders) {
  const ModelCut cut = CutAtBorders(Blocks(4), {"b1", "b3"});
  EXPECT_EQ(cut.parts, 3);
  EXPECT_EQ(cut.PartOf("b0"), 0);
  EXPECT_EQ(cut.PartOf("b2.grad"), 1);
  EXPECT_EQ(cut.PartOf("b3"), 2);
  EXPECT_EQ(cut.PartOf("elsewhere"), 0);
  EXPECT_EQ(BordersOf(Blocks(4), cut), (std::vector<std::string>{"b1", "b3"}));
}

// Three blocks; %skip goes from the first to the last one, past the second. Block b1 is recomputed
// in part; %dw1 and %dw2 are gradients of weights, of which %dw1 has a node of its own before it.
constexpr char kModel[] = R"(graph g {
  feed %x: f32[2,3]
  state %w1: f32[3,3] {role=parameter, global=[3,3], disk=[3,3], axes=[embed, mlp], trainable}
  state %w2: f32[3,3] {role=parameter, global=[3,3], disk=[3,3], axes=[embed, mlp], trainable}
  %a: f32[2,3] = tanh(%x) @b0
  %skip: f32[2,3] = exp(%x) @b0
  %b: f32[2,3] = matmul(%a, %w1) {spec="m k, k n -> m n"} @b1
  %b2: f32[2,3] = tanh(%b) @b1
  %c: f32[2,3] = matmul(%b2, %w2) {spec="m k, k n -> m n"} @b2
  %d: f32[2,3] = add(%c, %skip) @b2
  %dc: f32[2,3] = mul(%d, %d) @b2.grad
  %dw2: f32[3,3] = matmul(%b2, %dc) {spec="m k, m n -> k n"} @b2.grad
  %db2: f32[2,3] = matmul(%dc, %w2) {spec="m n, k n -> m k"} @b2.grad
  %b2again: f32[2,3] = tanh(%b) @b1 clone=1
  %db: f32[2,3] = mul(%db2, %b2again) @b1.grad
  %half: f32[2,3] = tanh(%db) @b1.grad
  %dw1: f32[3,3] = matmul(%a, %half) {spec="m k, m n -> k n"} @b1.grad
  output loss = %d
  output dw1 = %dw1
  output dw2 = %dw2
}
)";

Graph Model() {
  absl::StatusOr<Graph> graph = ParseGraph(kModel);
  EXPECT_OK(graph.status());
  return *std::move(graph);
}

std::string Text(const Work& work) {
  const char* kind = work.kind == ActionKind::kForward          ? "F"
                     : work.kind == ActionKind::kBackwardWeight ? "W"
                                                                : "B";
  return absl::StrCat(kind, work.part);
}

Work WorkOf(const Graph& graph, const std::vector<Work>& works, const char* value) {
  return works[static_cast<size_t>(graph.value(graph.FindValue(value)).producer)];
}

TEST(CutTest, WorkOfNodes) {
  const Graph graph = Model();
  const ModelCut cut = CutAtBorders(Blocks(3), {"b1", "b2"});
  const std::vector<Work> works = WorkOfNodes(graph, cut, /*split_backward=*/true);
  const std::pair<const char*, const char*> rows[] = {
      {"a", "F0"},   {"skip", "F0"},    {"b2", "F1"}, {"d", "F2"},    {"dc", "B2"}, {"dw2", "W2"},
      {"db2", "B2"}, {"b2again", "W1"}, {"db", "W1"}, {"half", "W1"}, {"dw1", "W1"}};
  for (const auto& [value, work] : rows) {
    EXPECT_EQ(Text(WorkOf(graph, works, value)), work) << value;
  }
  const std::vector<Work> whole = WorkOfNodes(graph, cut, /*split_backward=*/false);
  EXPECT_EQ(WorkOf(graph, whole, "dw1"), (Work{ActionKind::kBackward, 1}));
}

// What is read by another part's work is no gradient of weights alone.
TEST(CutTest, WeightGradientsStayInTheirPart) {
  const Graph graph = Model();
  const ModelCut cut = CutAtBorders(Blocks(3), {"b2"});
  const std::vector<Work> works = WorkOfNodes(graph, cut, true);
  EXPECT_EQ(Text(WorkOf(graph, works, "db2")), "B1");
  EXPECT_EQ(Text(WorkOf(graph, works, "db")), "W0");
}

TEST(CutTest, PiecesRunInOrder) {
  const Graph graph = Model();
  const ModelCut cut = CutAtBorders(Blocks(3), {"b1", "b2"});
  const GraphCut pieces = CutGraph(graph, cut, true);
  std::string text;
  for (const Work& work : pieces.works) absl::StrAppend(&text, Text(work), " ");
  EXPECT_EQ(text, "F0 F1 F2 B2 W2 W1 W1 ");  // a clone has the tag of its block
  EXPECT_OK(CutIntoSegments(graph, pieces.piece_of).status());
}

std::string Text(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) {
    absl::StrAppend(&text, Text(message.work), ":", message.from, "-", message.to);
    for (const SentValue& value : message.values) absl::StrAppend(&text, " ", value.name);
    absl::StrAppend(&text, " for");
    for (const Work& reader : message.readers) absl::StrAppend(&text, " ", Text(reader));
    absl::StrAppend(&text, "; ");
  }
  return text;
}

TEST(MessagesTest, OnceAndDirectly) {
  const Graph graph = Model();
  const ModelCut cut = CutAtBorders(Blocks(3), {"b1", "b2"});
  const GraphCut pieces = CutGraph(graph, cut, true);
  ASSERT_OK_AND_ASSIGN(const std::vector<Segment> segments,
                       CutIntoSegments(graph, pieces.piece_of));
  EXPECT_EQ(Text(FindMessages(segments, pieces.works, {0, 1, 2})),
            "F0:0-1 a for F1 W1; F0:0-2 skip for F2; F1:1-2 b2 for F2 W2; B2:2-1 db2 for W1; ");
  // In a V the middle part has a stage of its own, the others share one.
  EXPECT_EQ(Text(FindMessages(segments, pieces.works, {0, 1, 0})),
            "F0:0-1 a for F1 W1; F1:1-0 b2 for F2 W2; B2:0-1 db2 for W1; ");
  EXPECT_EQ(Text(FindMessages(segments, pieces.works, {0, 0, 0})), "");
}

// Both ends name each other, and the receiver gives the values under their names.
TEST(MessagesTest, Segments) {
  Message message;
  message.from = 0;
  message.to = 2;
  message.values = {{"x", {DType::kF32, {2, 3}}}, {"mask", {DType::kBool, {4}}}};
  ASSERT_OK_AND_ASSIGN(const StepSegment send, SendSegment(message, 3, "f.1"));
  ASSERT_OK_AND_ASSIGN(const StepSegment receive, ReceiveSegment(message, 3, "f.1"));
  EXPECT_TRUE(send.link && receive.link);
  const Graph& sent = *send.segment.graph;
  const Graph& received = *receive.segment.graph;
  EXPECT_EQ(sent.feeds().size(), 2u);
  EXPECT_EQ(sent.nodes()[0].attributes.Int("to"), 2);
  EXPECT_EQ(received.nodes()[1].attributes.Int("from"), 0);
  for (const SentValue& value : message.values) {
    EXPECT_EQ(received.value(received.FindOutput(value.name)).type, value.type);
  }
}

}  // namespace
}  // namespace colossus
