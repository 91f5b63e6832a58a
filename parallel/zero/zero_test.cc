// Whole updates over chunks on thread ranks: the field cases, the bits of every stage, and what is
// sent.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/sharding/axes.h"
#include "parallel/zero/layout.h"
#include "parallel/zero/testing/small_model.h"
#include "parallel/zero/testing/small_run.h"
#include "tensor/exec/testing/memory_disk.h"
#include "tensor/exec/testing/random_placer.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

Mesh MeshOf(std::vector<MeshAxis> axes) {
  absl::StatusOr<Mesh> mesh = Mesh::Make(std::move(axes));
  CHECK_OK(mesh.status());
  return *std::move(mesh);
}

Plan PlanOf(int zero, int64_t micro_batches) {
  Plan plan;
  plan.zero = zero;
  plan.micro_batches = micro_batches;
  return plan;
}

Optimizer PlainSgd() {
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kSgd;
  optimizer.momentum = 0;
  optimizer.weight_decay = 0;
  return optimizer;
}

// Every way to run one update of a plan: overlap on and off, at once and as late as streams may.
struct Way {
  bool overlap, late;
};
constexpr Way kWays[] = {{true, false}, {false, false}, {true, true}, {false, true}};

// FIELD-CASES A4. Two parameters, local gradients [2, 8] and [4, 16]: the mean is [3, 12], its norm
// 12.36932, the update with rate 1 [-3, -12]; also where each rank's gradient is the sum of four
// micro-batches.
TEST(ZeroTest, SameGradientsAndNormForEveryStage) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (int64_t micro_batches : {1, 4}) {
      for (const Way& way : kWays) {
        SCOPED_TRACE(absl::StrCat("ZeRO ", zero, ", ", micro_batches, " micro-batches, overlap ",
                                  way.overlap, ", late ", way.late));
        SmallRun run{{MeshOf({{"data", 2}}),
                      {{.name = "a", .block = "h.0", .global = {1}},
                       {.name = "b", .block = "h.1", .global = {1}}}},
                     PlanOf(zero, micro_batches)};
        run.optimizer = PlainSgd();
        run.grad_scale = 0.5;
        run.overlap = way.overlap;
        run.late = way.late;
        run.values = [](const std::string&) { return std::vector<double>{0}; };
        run.gradient = [&](const std::string& output, int rank, int, int) {
          const double whole = (output == "d.a" ? 2 : 8) * (rank + 1);
          return std::vector<double>{whole / static_cast<double>(micro_batches)};
        };
        ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
        EXPECT_EQ(result.gradients.at("a").Get(0) * run.grad_scale, 3);
        EXPECT_EQ(result.gradients.at("b").Get(0) * run.grad_scale, 12);
        EXPECT_LE(std::abs(std::sqrt(result.sum_squares[0]) * run.grad_scale - 12.36932), 1e-5);
        EXPECT_EQ(result.states.at("a").Get(0), -3);
        EXPECT_EQ(result.states.at("b").Get(0), -12);
      }
    }
  }
}

// FIELD-CASES A3. A weight split over tensor with gradients [3] and [4], a norm weight that both
// tensor ranks have with gradient [12]: the norm is 13, each element counted once. The clip factor
// for 6.5 is 0.5. Here with data=2 on top, each data rank holding half of every gradient.
TEST(ZeroTest, NormCountsShardedAndReplicatedTensorsOnce) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (bool data_first : {true, false}) {
      std::vector<MeshAxis> axes = {{"data", 2}, {"tensor", 2}};
      if (!data_first) std::swap(axes[0], axes[1]);
      SmallRun run{{MeshOf(axes),
                    {{.name = "w", .block = "h.0", .global = {2}, .split = {{"tensor"}}},
                     {.name = "norm", .block = "h.0", .global = {1}}}},
                   PlanOf(zero, 1)};
      run.optimizer = PlainSgd();
      run.grad_scale = 0.5;
      run.values = [](const std::string& name) {
        return std::vector<double>(name == "w" ? 2 : 1, 0);
      };
      run.gradient = [&](const std::string& output, int rank, int, int) {
        const double part = run.model.mesh.Coordinate(rank, "tensor") == 0 ? 3 : 4;
        return std::vector<double>{(output == "d.w" ? part : 12) / 2};
      };
      ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
      EXPECT_EQ(std::sqrt(result.sum_squares[0]), 13);
      EXPECT_EQ(result.states.at("w").Get(0), -1.5);
      EXPECT_EQ(result.states.at("w").Get(1), -2);
      EXPECT_EQ(result.states.at("norm").Get(0), -6);
    }
  }
}

// FIELD-CASES A7. A norm weight in a region whose sequence is split over tensor: partial gradients
// 2 and 3 give 5 on both ranks (2.5 is wrong), and after ten updates all copies have the same bits
// (which RunSmall checks).
TEST(ZeroTest, ReplicatedNormWeightsGetTheSumOverASplitSequence) {
  for (int zero = 0; zero <= 3; ++zero) {
    SmallRun run{{MeshOf({{"data", 2}, {"tensor", 2}}),
                  {{.name = "norm", .block = "h.0", .global = {1}, .partial = {{"tensor", "data"}}},
                   {.name = "w", .block = "h.0", .global = {6}}}},
                 PlanOf(zero, 1)};
    run.updates = 10;
    run.gradient = [&](const std::string& output, int rank, int, int) {
      if (output == "d.w") return std::vector<double>(6, 0.25 * (1 + rank / 2));
      const double part = run.model.mesh.Coordinate(rank, "tensor") == 0 ? 2 : 3;
      return std::vector<double>{part / 2};
    };
    ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
    EXPECT_EQ(result.gradients.at("norm").Get(0), 5);
  }
}

// FIELD-CASES A7, the debug check: a copy that differs in one bit is named, at any stage, whether
// its ranks are along data, tensor or both.
TEST(ZeroTest, ACopyThatDiffersIsNamed) {
  for (int zero = 0; zero <= 3; ++zero) {
    SmallRun run{{MeshOf({{"data", 2}, {"tensor", 2}}),
                  {{.name = "w", .block = "h.0", .global = {6}, .split = {{"tensor"}}},
                   {.name = "norm", .block = "h.0", .global = {3}}}},
                 PlanOf(zero, 1)};
    run.before_check = [](int rank, Program& program) {
      float value = 0;
      if (rank != 1) return absl::OkStatus();  // tensor rank 1 of data rank 0
      RETURN_IF_ERROR(program.ReadStateBytes("chunk/1", 8, &value, 4));
      value += 1;
      return program.WriteStateBytes("chunk/1", 8, &value, 4);
    };
    EXPECT_THAT(RunSmall(run).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("state 'norm' differs")))
        << zero;
  }
}

// FIELD-CASES E4. All parameters 1, all gradients 0, rate and decay 0.1: decayed ones become 0.99,
// the others and frozen ones stay 1.
TEST(ZeroTest, DecayFollowsTheRecord) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (DType compute : {DType::kF32, DType::kBF16}) {
      SmallRun run{
          {MeshOf({{"data", 2}}),
           {{.name = "matrix", .block = "h.0", .global = {3, 5}, .decayed = true},
            {.name = "bias", .block = "h.0", .global = {5}},
            {.name = "frozen", .block = "h.0", .global = {4}, .partial = {}, .decayed = true}},
           compute},
          PlanOf(zero, 1)};
      run.plan.precision = {compute, compute};
      run.optimizer.weight_decay = 0.1;
      run.learning_rate = 0.1;
      const std::map<std::string, size_t> sizes = {{"matrix", 15}, {"bias", 5}, {"frozen", 4}};
      run.values = [&](const std::string& name) { return std::vector<double>(sizes.at(name), 1); };
      run.gradient = [&](const std::string& output, int, int, int) {
        return std::vector<double>(sizes.at(output.substr(2)), 0);
      };
      ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
      const std::string master = compute == DType::kBF16 ? "master/" : "";
      for (const auto& [name, size] : sizes) {
        const HostTensor& after = result.states.at(name == "frozen" ? name : master + name);
        for (size_t i = 0; i < size; ++i) {
          EXPECT_LE(std::abs(after.Get(static_cast<int64_t>(i)) - (name == "matrix" ? 0.99 : 1)),
                    1e-6)
              << name << " at ZeRO " << zero;
        }
      }
    }
  }
}

// FIELD-CASES A11. 100 parameters of which 80 are frozen, in bf16 with decay 0.1; a whole block
// frozen; only the embedding trained. Frozen ones keep their bits, and the others do what they do
// where nobody lists the frozen ones.
TEST(ZeroTest, FrozenParameters) {
  const SmallParameter embed{.name = "embed", .block = "embed", .global = {20}, .decayed = true};
  const SmallParameter frozen{
      .name = "frozen", .block = "embed", .global = {50}, .partial = {}, .decayed = true};
  const SmallParameter last{
      .name = "last", .block = "h.0", .global = {30}, .partial = {}, .decayed = true};
  for (int ranks : {1, 2, 3}) {
    for (int zero = 0; zero <= 3; ++zero) {
      SmallRun run{{MeshOf({{"data", ranks}}), {embed, frozen, last}, DType::kBF16},
                   PlanOf(zero, 2)};
      run.plan.precision = {DType::kBF16, DType::kBF16};
      run.optimizer.weight_decay = 0.1;
      run.learning_rate = 0.01;
      run.updates = 10;
      ASSERT_OK_AND_ASSIGN(const SmallResult all, RunSmall(run));
      SmallRun without = run;
      without.model.parameters = {embed};
      ASSERT_OK_AND_ASSIGN(const SmallResult alone, RunSmall(without));
      run.updates = 0;
      ASSERT_OK_AND_ASSIGN(const SmallResult before, RunSmall(run));
      for (const char* name : {"frozen", "last"}) {
        EXPECT_TRUE(all.states.at(name) == before.states.at(name)) << name;
      }
      for (const auto& [name, value] : alone.states) {
        EXPECT_TRUE(value == all.states.at(name)) << name;
        EXPECT_FALSE(value == before.states.at(name)) << name;
      }
      // Parameters 200 bytes, gradients 40, optimizer states 240: not 1600.
      int64_t bytes = all.gradients.at("embed").type().bytes();
      for (const auto& [name, value] : all.states) bytes += value.type().bytes();
      EXPECT_EQ(all.gradients.size(), 1u);
      EXPECT_EQ(bytes, 480);
    }
  }
}

// Blocks with a tied tensor, tensors split over tensor if there is such an axis, norms whose
// gradients are sums over it, frozen ones, and odd sizes.
SmallModel RichModel(const Mesh& mesh, DType compute) {
  AxisNames tokens;
  for (const MeshAxis& axis : mesh.axes()) {
    if (SplitsTokens(axis.name)) tokens.push_back(axis.name);
  }
  AxisNames everything = tokens;
  const bool tensor = mesh.SizeOf("tensor") > 1;
  if (tensor) everything.push_back("tensor");
  const AxisNames split = tensor ? AxisNames{"tensor"} : AxisNames{};
  SmallModel model{mesh, {}, compute};
  model.parameters.push_back({.name = "wte",
                              .block = "embed",
                              .global = {30, 8},
                              .partial = {tokens, everything},
                              .decayed = true,
                              .also_read_by = {"head"}});
  model.parameters.push_back(
      {.name = "wpe", .block = "embed", .global = {7, 8}, .partial = {tokens}, .decayed = true});
  for (int h = 0; h < 3; ++h) {
    const std::string block = absl::StrCat("h.", h);
    model.parameters.push_back({.name = block + ".norm",
                                .block = block,
                                .global = {8},
                                .partial = {everything},
                                .wide = true});
    model.parameters.push_back({.name = block + ".w",
                                .block = block,
                                .global = {8, 12},
                                .split = {{}, split},
                                .partial = {tokens},
                                .decayed = true});
    model.parameters.push_back({.name = block + ".b",
                                .block = block,
                                .global = {12},
                                .split = {split},
                                .partial = {tokens}});
    model.parameters.push_back({.name = block + ".frozen",
                                .block = block,
                                .global = {5, 3},
                                .partial = {},
                                .decayed = true});
    model.parameters.push_back({.name = block + ".v",
                                .block = block,
                                .global = {12, 100},
                                .split = {split, {}},
                                .partial = {tokens},
                                .decayed = true});
  }
  model.parameters.push_back({.name = "norm",
                              .block = "head",
                              .global = {8},
                              .partial = {everything},
                              .wide = true});
  return model;
}

void ExpectSameBits(const SmallResult& a, const SmallResult& b) {
  EXPECT_EQ(a.sum_squares, b.sum_squares);
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, value] : a.gradients) {
    EXPECT_TRUE(value == b.gradients.at(name)) << "gradient of " << name;
  }
  EXPECT_EQ(a.states.size(), b.states.size());
  for (const auto& [name, value] : a.states) EXPECT_TRUE(value == b.states.at(name)) << name;
}

// Protects: ZeRO stage, overlap, lateness and the size of chunks change no bit, on any mesh, with
// accumulation, and in every precision.
TEST(ZeroTest, StagesHaveTheSameBits) {
  const std::vector<std::vector<MeshAxis>> meshes = {
      {{"data", 2}},
      {{"data", 3}},
      {{"sequence", 2}, {"data", 2}},
      {{"data", 2}, {"tensor", 2}},
      {{"tensor", 2}, {"sequence.group", 2}, {"sequence.member", 1}},
  };
  const std::pair<DType, DType> precisions[] = {{DType::kF32, DType::kF32},
                                                {DType::kBF16, DType::kBF16},
                                                {DType::kF16, DType::kF16},
                                                {DType::kF64, DType::kF64},
                                                {DType::kBF16, DType::kF32}};
  int n = 0;
  for (const std::vector<MeshAxis>& axes : meshes) {
    for (const auto& [compute, gradient] : precisions) {
      SmallRun run{RichModel(MeshOf(axes), compute), PlanOf(0, 1 + 2 * (n % 2))};
      run.plan.precision = {compute, gradient};
      run.optimizer.kind = n % 3 == 0 ? Optimizer::Kind::kSgd : Optimizer::Kind::kAdamw;
      run.optimizer.narrow_moments = compute == DType::kBF16;
      run.updates = 2;
      run.learning_rate = 0.125;
      SCOPED_TRACE(absl::StrCat(run.model.mesh.ranks(), " ranks, ", Name(compute), ", ",
                                run.plan.micro_batches, " micro-batches"));
      ASSERT_OK_AND_ASSIGN(const SmallResult first, RunSmall(run));
      for (int zero = 0; zero <= 3; ++zero, ++n) {
        run.plan.zero = zero;
        const Way& way = kWays[static_cast<size_t>(n) % std::size(kWays)];
        run.overlap = way.overlap;
        run.late = way.late;
        run.plan.chunk_elements = int64_t{1} << (n % 5 == 0 ? 10 : 26);
        SCOPED_TRACE(absl::StrCat("ZeRO ", zero, ", overlap ", way.overlap, ", late ", way.late));
        ASSERT_OK_AND_ASSIGN(const SmallResult result, RunSmall(run));
        // Another chunk size is another order of the norm's sum.
        if (run.plan.chunk_elements == int64_t{1} << 26) {
          ExpectSameBits(result, first);
        } else {
          EXPECT_LE(std::abs(result.sum_squares[1] - first.sum_squares[1]),
                    1e-12 * first.sum_squares[1]);
          for (const auto& [name, value] : result.states) {
            EXPECT_TRUE(value == first.states.at(name)) << name;
          }
        }
      }
      ++n;
    }
  }
}

// Protects: nor does any placement on device, host and disk.
TEST(ZeroTest, PlacementsHaveTheSameBits) {
  const std::vector<std::vector<MeshAxis>> meshes = {
      {{"data", 1}}, {{"data", 2}}, {{"data", 2}, {"tensor", 2}}};
  uint64_t n = TestSeed();
  for (const std::vector<MeshAxis>& axes : meshes) {
    for (DType compute : {DType::kF32, DType::kBF16}) {
      SmallRun run{RichModel(MeshOf(axes), compute), PlanOf(0, 2)};
      run.plan.precision = {compute, compute};
      run.optimizer.kind = Optimizer::Kind::kAdamw;
      run.updates = 2;
      run.learning_rate = 0.125;
      ASSERT_OK_AND_ASSIGN(const SmallResult first, RunSmall(run));
      for (int zero = 0; zero <= 3; ++zero, ++n) {
        SCOPED_TRACE(absl::StrCat(run.model.mesh.ranks(), " ranks, ", Name(compute), ", ZeRO ",
                                  zero, ", seed ", n));
        run.plan.zero = zero;
        run.late = n % 2 == 0;
        run.set_program = [n](int rank, ProgramOptions& options) {
          options.placer = std::make_shared<RandomPlacer>(n * 8 + static_cast<uint64_t>(rank));
          options.poison = n % 3 == 0;
          if (n % 4 == 0) return;
          options.disk_memory_bytes = 1 << 24;
          options.disk = std::make_shared<MemoryDisk>(options.disk_memory_bytes);
        };
        ASSERT_OK_AND_ASSIGN(const SmallResult result, RunSmall(run));
        ExpectSameBits(result, first);
      }
    }
  }
}

// Protects: the random bits of narrow moments are the elements' own, wherever they lie: with
// gradients that are sums without rounding, every mesh and stage has the same moments.
TEST(ZeroTest, NarrowMomentsDoNotDependOnTheLayout) {
  const std::vector<std::vector<MeshAxis>> meshes = {{},
                                                     {{"data", 2}},
                                                     {{"tensor", 2}},
                                                     {{"data", 2}, {"tensor", 2}},
                                                     {{"tensor", 2}, {"data", 4}}};
  for (Optimizer::Kind kind : {Optimizer::Kind::kAdamw, Optimizer::Kind::kSgd}) {
    SmallResult first;
    for (size_t m = 0; m < meshes.size(); ++m) {
      SmallRun run{RichModel(MeshOf(meshes[m]), DType::kBF16), PlanOf(static_cast<int>(m) % 4, 1)};
      run.plan.precision = {DType::kBF16, DType::kBF16};
      run.optimizer.kind = kind;
      run.optimizer.narrow_moments = true;
      run.updates = 3;
      run.fetch_gradients = false;
      // The same for all elements, so that they differ by their random bits alone.
      run.gradient = [&](const std::string& output, int rank, int, int update) {
        const SmallLocal local = MakeLocal(run.model, rank);
        const Graph& graph = local.local.graph;
        const int64_t count = graph.value(graph.FindOutput(output)).type.elements();
        const AxisNames& summed = local.local.outputs.at(output).partial;
        const double whole = 1.125 + update + static_cast<double>(output.size());
        return std::vector<double>(static_cast<size_t>(count),
                                   whole / run.model.mesh.SizeOf(summed));
      };
      SCOPED_TRACE(absl::StrCat(run.model.mesh.ranks(), " ranks, ZeRO ", m % 4));
      ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
      const HostTensor& moment = result.states.at("moment1/h.1.v");
      EXPECT_EQ(moment.type(), (Type{DType::kBF16, {12, 100}}));
      EXPECT_NE(moment.Get(0), moment.Get(7)) << "rounded to nearest";
      if (m == 0) first = std::move(result);
      else for (const auto& [name, value] : first.states) {
        EXPECT_TRUE(value == result.states.at(name)) << name;
      }
    }
  }
}

// Protects: gradients are the sums of all ranks' and micro-batches' summands, uses of a tied tensor
// included; with integers there is no rounding.
TEST(ZeroTest, GradientsAreSums) {
  for (int zero = 0; zero <= 3; ++zero) {
    SmallRun run{RichModel(MeshOf({{"data", 2}, {"tensor", 2}}), DType::kF32), PlanOf(zero, 3)};
    std::map<std::string, std::vector<double>> sums;
    auto summand = [&](const std::string& output, int rank, int micro_batch, int64_t i) {
      // The same on all ranks that differ along tensor, where the gradient is no sum over it.
      const bool over_tensor = output == "d.wte.1" || output.find("norm") != std::string::npos;
      const int64_t place = over_tensor ? rank : 2 * run.model.mesh.Coordinate(rank, "data");
      return static_cast<double>(
          (i * 7 + place * 5 + micro_batch * 3 + static_cast<int64_t>(output.size())) % 11);
    };
    run.gradient = [&](const std::string& output, int rank, int micro_batch, int) {
      const SmallLocal local = MakeLocal(run.model, rank);
      const Graph& graph = local.local.graph;
      const int64_t count = graph.value(graph.FindOutput(output)).type.elements();
      std::vector<double> values;
      for (int64_t i = 0; i < count; ++i) values.push_back(summand(output, rank, micro_batch, i));
      return values;
    };
    ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
    // wte has two uses: one a sum over data, one over data and tensor.
    const HostTensor& wte = result.gradients.at("wte");
    const HostTensor& norm = result.gradients.at("h.1.norm");
    for (int64_t i = 0; i < wte.type().elements(); ++i) {
      double expected = 0;
      for (int m = 0; m < 3; ++m) {
        for (int rank : {0, 2}) expected += summand("d.wte", rank, m, i);
        for (int rank = 0; rank < 4; ++rank) expected += summand("d.wte.1", rank, m, i);
      }
      EXPECT_EQ(wte.Get(i), expected) << i;
    }
    for (int64_t i = 0; i < norm.type().elements(); ++i) {
      double expected = 0;
      for (int m = 0; m < 3; ++m) {
        for (int rank = 0; rank < 4; ++rank) expected += summand("d.h.1.norm", rank, m, i);
      }
      EXPECT_EQ(norm.Get(i), expected) << i;
    }
  }
}

// Elements that each rank sends to sum up one f64.
std::vector<int64_t> SentForNorm(int ranks) {
  std::vector<int64_t> sent(static_cast<size_t>(ranks));
  CHECK_OK(RunRanks({.ranks = ranks}, [&](Communicator& world) {
    double value = 1;
    const absl::Status status = AllReduce(world, &value, 1, "norm");
    sent[static_cast<size_t>(world.rank())] = world.counts().elements;
    return status;
  }));
  return sent;
}

// Protects: NUMBERS 4.1: 2M elements at stages 0 to 2, 3M at stage 3, each (P - 1) / P times on
// every rank, M with its padding; with k micro-batches stage 3 gathers 2k times.
TEST(ZeroTest, ElementsSent) {
  for (int ranks : {2, 3, 4}) {
    const std::vector<int64_t> norm = SentForNorm(ranks);
    for (int zero = 0; zero <= 3; ++zero) {
      for (int64_t micro_batches : {1, 2}) {
        for (DType compute : {DType::kF32, DType::kBF16}) {
          SmallRun run{{MeshOf({{"data", ranks}}), {}, compute}, PlanOf(zero, micro_batches)};
          run.plan.precision = {compute, compute};
          run.fetch_gradients = false;
          int64_t padded = 0;
          for (int h = 0; h < 3; ++h) {
            const std::string block = absl::StrCat("h.", h);
            const int64_t rows = 10 + 300 * h;
            run.model.parameters.push_back(
                {.name = block + ".w", .block = block, .global = {rows, 7}, .decayed = true});
            run.model.parameters.push_back({.name = block + ".b", .block = block, .global = {7}});
            const int64_t unit = 1024 * ranks;
            padded += (rows * 7 + unit - 1) / unit * unit + unit;
          }
          ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
          const int64_t moves = zero < 3 ? 2 : 1 + 2 * micro_batches;
          for (int rank = 0; rank < ranks; ++rank) {
            const auto& counts = result.counts[static_cast<size_t>(rank)];
            EXPECT_EQ(counts.at("data").elements,
                      moves * padded / ranks * (ranks - 1) + norm[static_cast<size_t>(rank)])
                << ranks << " ranks, ZeRO " << zero;
          }
        }
      }
    }
  }
}

// Protects: the same for 200 shapes: models of one to three blocks, with one to three parameters
// each.
TEST(ZeroTest, ElementsSentByRandomModels) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 200; ++g) {
    std::mt19937_64 random(g);
    auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    const int ranks = 2 + static_cast<int>(below(3)), zero = static_cast<int>(below(4));
    const int64_t micro_batches = 1 + below(2);
    SmallRun run{{MeshOf({{"data", ranks}}), {}}, PlanOf(zero, micro_batches)};
    run.optimizer = PlainSgd();
    run.fetch_gradients = false;
    int64_t padded = 0;
    for (int64_t h = 1 + below(3); h > 0; --h) {
      int64_t end = 0;
      for (int64_t p = 1 + below(3); p > 0; --p) {
        const Dims dims = {1 + below(40), 1 + below(70)};
        run.model.parameters.push_back({.name = absl::StrCat("h.", h, ".", p),
                                        .block = absl::StrCat("h.", h),
                                        .global = dims});
        end = (end + 63) / 64 * 64 + ElementCount(dims);
      }
      const int64_t unit = 1024 * ranks;
      padded += (end + unit - 1) / unit * unit;
    }
    ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
    const int64_t moves = zero < 3 ? 2 : 1 + 2 * micro_batches;
    const std::vector<int64_t> norm = SentForNorm(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(result.counts[static_cast<size_t>(rank)].at("data").elements,
                moves * padded / ranks * (ranks - 1) + norm[static_cast<size_t>(rank)])
          << "model " << g;
    }
  }
}

// Protects: what is sharded takes a part of the memory. f32 master and moments, bf16 parameters:
// 14 bytes an element at stage 0; 2 and 12 / P at 1 and 2; 14 / P at 3.
TEST(ZeroTest, StateBytes) {
  for (int zero = 0; zero <= 3; ++zero) {
    SmallRun run{{MeshOf({{"data", 4}}),
                  {{.name = "w", .block = "h.0", .global = {64, 128}, .decayed = true}},
                  DType::kBF16},
                 PlanOf(zero, 1)};
    run.plan.precision = {DType::kBF16, DType::kBF16};
    ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
    const int64_t elements = 64 * 128;
    const int64_t expected[] = {14 * elements, 2 * elements + 12 * elements / 4,
                                2 * elements + 12 * elements / 4, 14 * elements / 4};
    EXPECT_THAT(result.state_bytes, ::testing::Each(expected[zero]));
  }
}

}  // namespace
}  // namespace colossus
