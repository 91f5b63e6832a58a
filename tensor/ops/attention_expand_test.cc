// Ring attention on the threads of several ranks against attention on one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/attention.h"
#include "tensor/testing/run_op.h"
#include "tensor/testing/sharded_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Sums of up to a few hundred terms of magnitude 1 in another order: 1e-12 of the largest.
constexpr Limit kF64{.absolute = 1e-12, .relative_to_max = 1e-12};
constexpr Limit kF32{.absolute = 1e-5, .relative_to_max = 1e-5};

int64_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// Where position p of a sequence of `length` is stored when P ranks have it in zigzag order: rank r
// has the chunks r and 2P - 1 - r of 2P.
int64_t Zigzag(int64_t p, int64_t length, int64_t ranks) {
  const int64_t chunk = length / (2 * ranks), c = p / chunk;
  const int64_t place = c < ranks ? 2 * c : 2 * (2 * ranks - 1 - c) + 1;
  return place * chunk + p % chunk;
}

HostTensor Ints32(Dims dims, const std::function<int64_t(int64_t)>& value) {
  HostTensor x(Type{DType::kI32, std::move(dims)});
  for (int64_t i = 0; i < x.type().elements(); ++i) x.Set(i, static_cast<double>(value(i)));
  return x;
}

struct Problem {
  int64_t b, s, g, r, d, e;
};

// Adds an optional operand; roles must come in the order of the op.
void AddRole(ShardedOp& split, absl::string_view role, HostTensor operand) {
  Strings with = split.attributes.StringListOr("with", {});
  with.push_back(std::string(role));
  split.attributes.Set("with", with);
  split.operands.push_back(std::move(operand));
}

// Documents of random lengths: segments and positions that restart.
void AddDocuments(ShardedOp& split, const Problem& p, bool zigzag, int64_t ranks,
                  std::mt19937_64& random) {
  HostTensor segments(Type{DType::kI32, {p.b, p.s}});
  for (int64_t row = 0, segment = 0; row < p.b; ++row) {
    for (int64_t i = 0; i < p.s; ++i) {
      if (Below(random, 4) == 0) ++segment;
      segments.Set(row * p.s + (zigzag ? Zigzag(i, p.s, ranks) : i), static_cast<double>(segment));
    }
  }
  AddRole(split, "q_segments", segments);
  AddRole(split, "k_segments", segments);
}

// Everything an attention may have, at random. `ranks` of the ring.
ShardedOp RandomAttention(DType f, const Problem& p, int64_t ranks, std::mt19937_64& random) {
  ShardedOp split{.op = &AttentionOp(),
                  .attributes = {{"scale", 0.5}},
                  .operands = {RandomTensor(f, {p.b, p.s, p.g * p.r, p.d}, random),
                               RandomTensor(f, {p.b, p.s, p.g, p.d}, random),
                               RandomTensor(f, {p.b, p.s, p.g, p.e}, random)}};
  Attributes& attributes = split.attributes;
  const bool zigzag = p.s % (2 * ranks) == 0 && Below(random, 2) == 0;
  if (Below(random, 4) > 0) attributes.Set("causal", true);
  if (Below(random, 3) == 0) attributes.Set("window", 1 + Below(random, p.s));
  if (Below(random, 4) == 0) attributes.Set("softcap", 2.0);
  if (Below(random, 3) == 0) AddDocuments(split, p, zigzag, ranks, random);
  const bool length = !zigzag && Below(random, 4) == 0;
  if (zigzag || length || Below(random, 4) == 0) {
    HostTensor positions(Type{DType::kI32, {p.b, p.s}});
    for (int64_t i = 0; i < p.b * p.s; ++i) {
      const int64_t at = zigzag ? Zigzag(i % p.s, p.s, ranks) : i % p.s;
      positions.Set(i / p.s * p.s + at, static_cast<double>(i % p.s));
    }
    AddRole(split, "q_positions", positions);
    if (zigzag || Below(random, 2) == 0) AddRole(split, "k_positions", positions);
  }
  if (length) {
    AddRole(split, "kv_length", Ints32({p.b}, [&](int64_t) { return p.s - Below(random, 2); }));
  }
  if (Below(random, 4) == 0) {
    AddRole(split, "slopes", RandomTensor(DType::kF32, {p.g * p.r}, random));
  }
  if (Below(random, 4) == 0) {
    Dims bias{p.g * p.r, p.s, p.s};
    if (Below(random, 2) == 0) bias.insert(bias.begin(), p.b);
    AddRole(split, "bias", RandomTensor(f, bias, random));
  }
  if (Below(random, 3) == 0) {
    attributes.Set("dropout_rate", 0.25);
    attributes.Set("site", "h.0/attention");
    AddRole(split, "dropout_key", HostTensor::Of<int64_t>({2}, {7, 3}));
    AddRole(split, "first_row", HostTensor::Of<int64_t>({}, {5}));
  }
  return split;
}

// Queries that see no key have an lse of -infinity, which the comparison of numbers does not take.
HostTensor Finite(HostTensor x) {
  for (int64_t i = 0; i < x.type().elements(); ++i) {
    if (x.Get(i) == -std::numeric_limits<double>::infinity()) x.Set(i, -1e6);
  }
  return x;
}

void ExpectSame(const ShardedOp& split, const Mesh& mesh, const Limit& limit, KernelList kernels) {
  absl::StatusOr<ShardedRun> run = RunSharded(split, mesh, kernels);
  ASSERT_OK(run.status()) << split.attributes.ToString();
  const std::vector<HostTensor> whole = RunWhole(split);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(
        TensorNear(Finite(run->results[i]).ToDoubles(), Finite(whole[i]).ToDoubles(), limit))
        << split.op->name() << " result " << i << " " << split.attributes.ToString();
  }
}

// attention_grad of the same problem.
ShardedOp GradientOf(const ShardedOp& forward, std::mt19937_64& random) {
  ShardedOp gradient = forward;
  gradient.op = &AttentionGradOp();
  const std::vector<HostTensor> y = RunWhole(forward);
  gradient.operands.insert(gradient.operands.begin() + 3, y.begin(), y.end());
  gradient.operands.insert(gradient.operands.begin(),
                           RandomTensor(y[0].type().dtype, y[0].type().dims, random));
  return gradient;
}

struct Layout {
  std::vector<MeshAxis> axes;
  std::map<std::string, AxisNames> split;
  int64_t ranks;
};

const std::vector<Layout>& Layouts() {
  static const auto* const layouts = new std::vector<Layout>{
      {{{"sequence", 2}}, {{"s", {"sequence"}}, {"t", {"sequence"}}}, 2},
      {{{"sequence", 3}}, {{"s", {"sequence"}}, {"t", {"sequence"}}}, 3},
      {{{"data", 2}, {"sequence", 2}, {"tensor", 2}},
       {{"b", {"data"}}, {"g", {"tensor"}}, {"s", {"sequence"}}, {"t", {"sequence"}}},
       2},
      {{{"sequence", 2}, {"tensor", 2}},
       {{"s", {"tensor", "sequence"}}, {"t", {"tensor", "sequence"}}},
       4}};
  return *layouts;
}

void ExpectRandomAttentions(DType f, int trials, const Limit& limit, KernelList kernels) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < trials; ++trial) {
    const Layout& layout = Layouts()[trial % Layouts().size()];
    const Mesh mesh = *Mesh::Make(layout.axes);
    const Problem p{2 * (1 + Below(random, 2)), layout.ranks * (1 + Below(random, 4)),
                    2 * (1 + Below(random, 2)), 1 + Below(random, 2),
                    1 + Below(random, 5),       1 + Below(random, 5)};
    ShardedOp forward = RandomAttention(f, p, layout.ranks, random);
    forward.axes = layout.split;
    ExpectSame(forward, mesh, limit, kernels);
    ExpectSame(GradientOf(forward, random), mesh, limit, kernels);
  }
}

TEST(RingAttentionTest, RandomProblems) {
  ExpectRandomAttentions(DType::kF64, 120, kF64, ReferenceKernels());
}

TEST(RingAttentionTest, FastKernels) {
  ExpectRandomAttentions(DType::kF32, 40, kF32, CpuKernels());
  // Operands of magnitude up to 4 rounded to bf16; blocks are rounded before they are added.
  ExpectRandomAttentions(DType::kBF16, 40, {.absolute = 0.05, .relative_to_max = 0x1p-6},
                         CpuKernels());
}

// Protects: more ranks than key/value heads: the query heads of a group are split too, and dropout
// finds the head.
TEST(RingAttentionTest, HeadsOfAGroupSplit) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh = *Mesh::Make({{"group", 2}, {"member", 2}, {"sequence", 2}});
  for (int trial = 0; trial < 10; ++trial) {
    const Problem p{2, 2 * (1 + Below(random, 4)), 2, 2 * (1 + Below(random, 2)), 3, 3};
    ShardedOp forward = RandomAttention(DType::kF64, p, 2, random);
    forward.axes = {{"g", {"group"}}, {"r", {"member"}}, {"s", {"sequence"}}, {"t", {"sequence"}}};
    ExpectSame(forward, mesh, kF64, ReferenceKernels());
    ExpectSame(GradientOf(forward, random), mesh, kF64, ReferenceKernels());
  }
}

ShardedOp Causal(const Problem& p, bool positions, int64_t ranks, std::mt19937_64& random) {
  ShardedOp split{.op = &AttentionOp(),
                  .attributes = {{"scale", 0.5}, {"causal", true}},
                  .operands = {RandomTensor(DType::kF64, {p.b, p.s, p.g * p.r, p.d}, random),
                               RandomTensor(DType::kF64, {p.b, p.s, p.g, p.d}, random),
                               RandomTensor(DType::kF64, {p.b, p.s, p.g, p.e}, random)},
                  .axes = {{"s", {"sequence"}}, {"t", {"sequence"}}}};
  if (!positions) return split;
  HostTensor places(Type{DType::kI32, {p.b, p.s}});
  for (int64_t i = 0; i < p.b * p.s; ++i) {
    places.Set(i / p.s * p.s + Zigzag(i % p.s, p.s, ranks), static_cast<double>(i % p.s));
  }
  AddRole(split, "q_positions", places);
  AddRole(split, "k_positions", places);
  return split;
}

// What every rank sends: (P - 1) / P of k and v forward, twice as much backward.
TEST(RingAttentionTest, Elements) {
  std::mt19937_64 random(TestSeed());
  for (int ranks : {1, 2, 3, 4}) {
    const Mesh mesh = *Mesh::Make({{"sequence", ranks}});
    const Problem p{2, 12, 2, 2, 4, 4};
    const int64_t kv = p.b * p.s * p.g * p.d;
    const ShardedOp forward = Causal(p, false, ranks, random);
    const int64_t sent[] = {2 * kv * (ranks - 1) / ranks, 4 * kv * (ranks - 1) / ranks};
    for (int backward : {0, 1}) {
      absl::StatusOr<ShardedRun> run =
          RunSharded(backward ? GradientOf(forward, random) : forward, mesh);
      ASSERT_OK(run.status());
      for (const RankRun& rank : run->runs) {
        const auto found = rank.counts.find("sequence");
        EXPECT_EQ(found == rank.counts.end() ? 0 : found->second.elements, sent[backward]);
      }
    }
  }
}

// The most blocks of keys that are live at once, the rank's own included: operand `key` of the ring
// and what `shift` makes of it.
int BlocksLive(const Graph& graph, int key, absl::string_view op) {
  std::set<ValueId> blocks;
  std::map<ValueId, size_t> last;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (ValueId v : node.operands) last[v] = n;
    if (node.op->name() == op) blocks.insert(node.operands[key]);
  }
  int most = 0;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    int live = 0;
    for (ValueId v : blocks) {
      const NodeId made = graph.value(v).producer;
      live += (made == kNoNode || made <= static_cast<NodeId>(n)) && last[v] >= n;
    }
    most = std::max(most, live);
  }
  return most;
}

TEST(RingAttentionTest, AtMostTwoBlocksAreLive) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh = *Mesh::Make({{"sequence", 4}});
  const ShardedOp forward = Causal({1, 8, 1, 1, 2, 2}, false, 4, random);
  absl::StatusOr<ShardedRun> run = RunSharded(forward, mesh);
  ASSERT_OK(run.status());
  EXPECT_EQ(BlocksLive(run->graphs[1], 1, "attention"), 2) << ToText(run->graphs[1]);
  run = RunSharded(GradientOf(forward, random), mesh);
  ASSERT_OK(run.status());
  EXPECT_EQ(BlocksLive(run->graphs[1], 2, "attention_grad"), 2) << ToText(run->graphs[1]);
}

// Pairs of a query and a key that it sees, by positions or, without them, by index.
int64_t VisiblePairs(const AttentionProblem& p, const KernelArgs& args) {
  auto position = [&](int operand, int64_t origin, int64_t b, int64_t i, int64_t extent) {
    if (operand < 0) return origin + i;
    return int64_t{static_cast<const int32_t*>(args.operands[operand])[b * extent + i]};
  };
  int64_t pairs = 0;
  for (int64_t b = 0; b < p.b; ++b) {
    for (int64_t i = 0; i < p.s; ++i) {
      for (int64_t j = 0; j < p.t; ++j) {
        pairs += position(p.q_positions, p.origin[1], b, i, p.s) >=
                 position(p.k_positions, p.key_origin, b, j, p.t);
      }
    }
  }
  return pairs;
}

// The reference kernel of attention, which counts the pairs of each thread: of each rank.
class CountingKernel final : public Kernel {
 public:
  absl::string_view name() const override { return "counting"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    if (request.op != &AttentionOp() && request.op != &AttentionGradOp()) {
      return absl::UnimplementedError("another op");
    }
    ASSIGN_OR_RETURN(PlannedKernel planned, ReferenceKernel().Plan(request));
    const AttentionProblem problem = DescribeAttention({request.operands, *request.attributes},
                                                       request.op == &AttentionOp() ? 3 : 6);
    planned.run = [this, problem, run = planned.run](const KernelArgs& args) {
      run(args);
      std::lock_guard<std::mutex> lock(mutex_);
      counts_[std::this_thread::get_id()] += VisiblePairs(problem, args);
    };
    return planned;
  }
  // Of each rank, in no order; starts again at zero.
  std::vector<double> Take() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<double> counts;
    for (const auto& [thread, count] : counts_) counts.push_back(static_cast<double>(count));
    counts_.clear();
    return counts;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::thread::id, int64_t> counts_;
};

// Largest count by the mean.
double Imbalance(const std::vector<double>& counts) {
  double sum = 0;
  for (double count : counts) sum += count;
  return *std::max_element(counts.begin(), counts.end()) * static_cast<double>(counts.size()) / sum;
}

// Protects: in zigzag order ranks have equal work, to the pair; else up to 2 - 1/P of the mean.
TEST(RingAttentionTest, ZigzagBalancesCausalWork) {
  std::mt19937_64 random(TestSeed());
  const CountingKernel counting;
  const Kernel* const list[] = {&counting, &ReferenceKernel()};
  for (int ranks : {2, 3, 4, 8}) {
    const Mesh mesh = *Mesh::Make({{"sequence", ranks}});
    const Problem p{1, 16 * ranks, 1, 2, 3, 3};
    for (bool zigzag : {false, true}) {
      const ShardedOp forward = Causal(p, zigzag, ranks, random);
      const ShardedOp gradient = GradientOf(forward, random);
      for (const ShardedOp& split : {forward, gradient}) {
        ASSERT_OK(RunSharded(split, mesh, list).status());
        const double imbalance = Imbalance(counting.Take());
        // In order, blocks on the diagonal are not quite half a block: up to a sixteenth.
        const double expected = zigzag ? 1 : 2 - 1.0 / ranks;
        EXPECT_NEAR(imbalance, expected, zigzag ? 0 : 0.1) << ranks;
      }
    }
  }
}

// Protects: dealt out in zigzag order, with its positions, attention is what it is in order.
TEST(RingAttentionTest, ZigzagIsTheSameAttention) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh = *Mesh::Make({{"sequence", 2}});
  const Problem p{2, 16, 2, 1, 3, 3};
  const ShardedOp ordered = Causal(p, false, 2, random);
  ShardedOp dealt = Causal(p, true, 2, random);
  auto row = [&](const HostTensor& x, int64_t i) { return i * x.type().elements() / (p.b * p.s); };
  for (int operand : {0, 1, 2}) {
    const HostTensor& x = ordered.operands[operand];
    for (int64_t i = 0; i < p.b * p.s; ++i) {
      const int64_t to = i / p.s * p.s + Zigzag(i % p.s, p.s, 2);
      for (int64_t j = 0; j < row(x, 1); ++j) {
        dealt.operands[operand].Set(row(x, to) + j, x.Get(row(x, i) + j));
      }
    }
  }
  absl::StatusOr<ShardedRun> run = RunSharded(dealt, mesh);
  ASSERT_OK(run.status());
  const HostTensor whole = RunWhole(ordered)[0];
  for (int64_t i = 0; i < p.b * p.s; ++i) {
    const int64_t from = i / p.s * p.s + Zigzag(i % p.s, p.s, 2);
    for (int64_t j = 0; j < row(whole, 1); ++j) {
      EXPECT_NEAR(run->results[0].Get(row(whole, from) + j), whole.Get(row(whole, i) + j), 1e-13);
    }
  }
}

TEST(RingAttentionTest, RefusesKeysSplitUnlikeQueries) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh = *Mesh::Make({{"sequence", 2}, {"tensor", 2}});
  ShardedOp split = Causal({1, 8, 1, 1, 2, 2}, false, 2, random);
  split.axes = {{"t", {"sequence"}}};
  EXPECT_THAT(RunSharded(split, mesh).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("keys are split over sequence, queries over none")));
  split.axes = {{"t", {"sequence"}}, {"s", {"tensor"}}};
  EXPECT_THAT(RunSharded(split, mesh).status().message(), HasSubstr("queries over tensor"));
}

}  // namespace
}  // namespace colossus
