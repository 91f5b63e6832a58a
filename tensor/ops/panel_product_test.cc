// Panel products on the threads of several ranks against the whole product.
#include "tensor/ops/panel_product.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/matmul.h"
#include "tensor/testing/run_op.h"
#include "tensor/testing/sharded_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

int64_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

const AxisNames kRow{"tensor.row"}, kColumn{"tensor.column"}, kNone{};

Mesh Square(int64_t q, int64_t data = 1) {
  return *Mesh::Make({{"data", data}, {"tensor.row", q}, {"tensor.column", q}});
}

// The three products of a layer x[b s c] w[c k d]: forward, for x, for w.
std::vector<ShardedOp> Products(DType f, int64_t q, int64_t data, std::mt19937_64& random) {
  const int64_t b = data * (1 + Below(random, 2)), s = q * (1 + Below(random, 3));
  const int64_t c = q * (1 + Below(random, 5)), k = 1 + Below(random, 3);
  const int64_t d = q * (1 + Below(random, 3));
  const AxisNames batch = data > 1 ? AxisNames{"data"} : kNone;
  const HostTensor x = RandomTensor(f, {b, s, c}, random), w = RandomTensor(f, {c, k, d}, random);
  const HostTensor dy = RandomTensor(f, {b, s, k, d}, random);
  const Sharding x_lies{{batch, kRow, kColumn}, {}}, w_lies{{kRow, kNone, kColumn}, {}};
  const Sharding y_lies{{batch, kRow, kNone, kColumn}, {}};
  const Attributes forward{{"spec", "b s c, c k d -> b s k d"}};
  Attributes for_w{{"spec", "b s c, b s k d -> c k d"}};
  if (f == DType::kBF16) for_w.Set("dtype", "f32");
  return {{.op = &MatmulOp(),
           .attributes = forward,
           .operands = {x, w},
           .x_shardings = {x_lies, w_lies},
           .wanted = {y_lies}},
          {.op = &MatmulOp(),
           .attributes = {{"spec", "b s k d, c k d -> b s c"}},
           .operands = {dy, w},
           .x_shardings = {y_lies, w_lies},
           .wanted = {x_lies}},
          {.op = &MatmulOp(),
           .attributes = for_w,
           .operands = {x, dy},
           .x_shardings = {x_lies, y_lies},
           .wanted = {w_lies}}};
}

TEST(PanelProductTest, RandomProducts) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t q = trial % 3 == 2 ? 3 : 2, data = trial % 3 == 1 ? 2 : 1;
    const Mesh mesh = Square(q, data);
    const DType f = trial % 2 ? DType::kF64 : DType::kBF16;
    for (ShardedOp& product : Products(f, q, data, random)) {
      absl::StatusOr<ShardedRun> run =
          RunSharded(product, mesh, f == DType::kF64 ? ReferenceKernels() : CpuKernels());
      ASSERT_OK(run.status());
      Sharding expected = product.wanted[0];
      if (data > 1 && product.attributes.String("spec") == "b s c, b s k d -> c k d") {
        expected.partial = {"data"};
      }
      EXPECT_EQ(run->shardings[0], expected);
      // bf16: partial sums are rounded once more than the whole.
      const Limit limit = f == DType::kF64 ? Limit{.absolute = 1e-13, .relative_to_max = 1e-13}
                                           : Limit{.absolute = 1e-3, .relative_to_max = 0x1p-7};
      EXPECT_TRUE(TensorNear(run->results[0].ToDoubles(), RunWhole(product)[0].ToDoubles(), limit))
          << product.attributes.ToString();
    }
  }
}

// NUMBERS 4.2: forward (q-1)/q (mk + kn)/q elements a rank, backward twice as many.
TEST(PanelProductTest, Elements) {
  std::mt19937_64 random(TestSeed());
  for (int64_t q : {2, 3}) {
    for (int trial = 0; trial < 10; ++trial) {
      std::vector<ShardedOp> products = Products(DType::kF64, q, 1, random);
      const int64_t mk = products[0].operands[0].type().elements();
      const int64_t kn = products[0].operands[1].type().elements();
      const int64_t forward = (mk + kn) * (q - 1) / (q * q);
      int64_t sent[3];
      for (int i = 0; i < 3; ++i) {
        absl::StatusOr<ShardedRun> run = RunSharded(products[i], Square(q));
        ASSERT_OK(run.status());
        for (size_t rank = 0; rank < run->runs.size(); ++rank) {
          int64_t elements = 0;
          for (const auto& counts : run->runs[rank].counts) elements += counts.second.elements;
          if (rank == 0) sent[i] = elements;
          EXPECT_EQ(elements, sent[i]) << "rank " << rank;
        }
      }
      EXPECT_EQ(sent[0], forward);
      EXPECT_EQ(sent[1] + sent[2], 2 * mk * (q - 1) / (q * q) + 2 * kn * (q - 1) / (q * q));
    }
  }
}

// Elements that a rank sends for one x[m k] w[k n] on q x q ranks.
double PanelElements(int64_t q, int64_t m, int64_t k, int64_t n) {
  const Sharding lies{{kRow, kColumn}, {}};
  ShardedOp product{
      .op = &MatmulOp(),
      .attributes = {{"spec", "m k, k n -> m n"}},
      .operands = {HostTensor(Type{DType::kF32, {m, k}}), HostTensor(Type{DType::kF32, {k, n}})},
      .x_shardings = {lies, lies},
      .wanted = {lies}};
  absl::StatusOr<std::vector<Graph>> graphs = LowerSharded(product, Square(q));
  EXPECT_OK(graphs.status());
  double elements = 0;
  for (const Node& node : graphs->at(0).nodes()) {
    if (node.op->name() != "all_gather") continue;
    const double part = static_cast<double>(graphs->at(0).OperandTypes(node)[0].elements());
    elements += part * static_cast<double>(node.attributes.Int("parts") - 1);
  }
  return elements;
}

// NUMBERS 4.2: a block's products, 12 h^2 of weights, forward: 1-D sends 4 (P-1)/P bsh, 2-D
// (q-1)/q^2 (7 bsh + 12 h^2), so 2-D wins where bs > 2.40 h at P = 4, 0.92 h at 16, 0.41 h at 64.
TEST(PanelProductTest, CrossingWithOneDimension) {
  const struct {
    int64_t q, h;
    double crossing;  // bs / h
  } rows[] = {{2, 40, 2.40}, {4, 400, 0.923}, {8, 800, 0.414}};
  for (const auto& row : rows) {
    const int64_t ranks = row.q * row.q, h = row.h;
    for (int side : {-1, 1}) {
      const double wanted = row.crossing * static_cast<double>(h) * (1 + 0.05 * side);
      const int64_t tokens = static_cast<int64_t>(wanted) / row.q * row.q;
      const double panels =
          PanelElements(row.q, tokens, h, 3 * h) + PanelElements(row.q, tokens, h, h) +
          PanelElements(row.q, tokens, h, 4 * h) + PanelElements(row.q, tokens, 4 * h, h);
      const double bsh = static_cast<double>(tokens * h),
                   weights = 12.0 * static_cast<double>(h * h);
      const double q = static_cast<double>(row.q), p = static_cast<double>(ranks);
      EXPECT_NEAR(panels, (q - 1) / (q * q) * (7 * bsh + weights), 1e-6 * panels);
      const double megatron = 4 * (p - 1) / p * bsh;
      EXPECT_EQ(panels<megatron, side> 0) << "P " << ranks << " tokens " << tokens;
    }
  }
}

// Protects: never more than two panels of an operand are live, and none is a full row of w.
TEST(PanelProductTest, AtMostTwoPanelsAreLive) {
  std::mt19937_64 random(TestSeed());
  const int64_t q = 3;
  for (const ShardedOp& product : Products(DType::kF64, q, 1, random)) {
    absl::StatusOr<ShardedRun> run = RunSharded(product, Square(q));
    ASSERT_OK(run.status());
    const Graph& graph = run->graphs[4];
    std::map<ValueId, size_t> last;
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      for (ValueId v : graph.nodes()[n].operands) last[v] = n;
    }
    for (const char* axis : {"tensor.row", "tensor.column"}) {
      size_t most = 0;
      for (size_t n = 0; n < graph.nodes().size(); ++n) {
        size_t live = 0;
        for (size_t made = 0; made <= n; ++made) {
          const Node& node = graph.nodes()[made];
          live += node.op->name() == "all_gather" &&
                  node.attributes.StringList("axes")[0] == axis && last[node.results[0]] >= n;
        }
        most = std::max(most, live);
      }
      EXPECT_LE(most, 2u) << axis;
    }
    // Of w[c k d] all of c meets, in panels over its axis; a row of it, k d, stays split.
    const int64_t row = product.operands[1].type().dims.back();
    for (const Node& node : graph.nodes()) {
      const Dims& dims = graph.value(node.results[0]).type.dims;
      const bool gathered = node.op->name() == "all_gather";
      const bool of_w = gathered && node.attributes.StringList("axes") == kRow;
      EXPECT_LE(of_w ? dims.back() : 0, row / q);
    }
  }
}

FactorRule Rule(const Dims& a, const Dims& b, const std::string& spec) {
  const Types types{{DType::kF32, a}, {DType::kF32, b}};
  return MatmulOp().Factors({types, Attributes{{"spec", spec}}});
}

// Protects: ordinary products are left to ordinary ways; without a wish the sum says how dx lies.
TEST(PanelProductTest, Finding) {
  const Mesh mesh = *Mesh::Make({{"a", 2}, {"b", 2}, {"wide", 4}});
  const FactorRule rule = Rule({8, 8}, {8, 8}, "m k, k n -> m n");
  const Sharding x{{{"a"}, {"b"}}, {}}, w{{{"a"}, {"b"}}, {}};
  const std::optional<PanelProduct> found = FindPanelProduct(rule, {x, w}, std::nullopt, mesh);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(rule.factors[found->factor].label, "k");
  EXPECT_EQ(found->y, (Sharding{{{"a"}, {"b"}}, {}}));
  auto finds = [&](Sharding first, Sharding second, std::optional<Sharding> wanted) {
    return FindPanelProduct(rule, {first, second}, wanted, mesh).has_value();
  };
  EXPECT_FALSE(finds({{{"a"}, {}}, {}}, {{{}, {"b"}}, {}}, std::nullopt));
  EXPECT_FALSE(finds({{{}, {"a"}}, {}}, {{{"a"}, {}}, {}}, std::nullopt));
  EXPECT_FALSE(finds({{{"a"}, {}}, {}}, {{{}, {"a"}}, {}}, std::nullopt));
  EXPECT_FALSE(finds({{{"a"}, {"wide"}}, {}}, {{{"a"}, {"wide"}}, {}}, std::nullopt));
  EXPECT_FALSE(finds(x, w, Sharding{{{"b"}, {"a"}}, {}}));
  const FactorRule for_x = Rule({8, 8}, {8, 8}, "m n, k n -> m k");
  const std::optional<PanelProduct> dx = FindPanelProduct(for_x, {x, w}, std::nullopt, mesh);
  ASSERT_TRUE(dx.has_value());
  EXPECT_EQ(for_x.factors[dx->factor].label, "k");
  EXPECT_EQ(dx->y, (Sharding{{{"a"}, {"b"}}, {}}));
}

TEST(PanelProductTest, RefusesOtherProducts) {
  std::mt19937_64 random(TestSeed());
  ShardedOp product = Products(DType::kF64, 2, 1, random)[0];
  product.x_shardings[1].dims = {kRow, kNone, kNone};
  EXPECT_THAT(RunSharded(product, Square(2)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no panel product")));
}

}  // namespace
}  // namespace colossus
