// Pipelines of an encoder and a decoder, trained: what the encoder makes is read by every block of
// the decoder, on whichever stages, and its gradient is summed over all of them; so is that of the
// matrix that both share. (tests/gate looks at the messages of a micro-batch.)
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/testing/graph_training.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/softmax.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

constexpr int64_t kRows = 2, kSource = 5, kTarget = 3, kWidth = 4;
constexpr int kEncoder = 2, kDecoder = 3;

class Model {
 public:
  // "encoder.embed", two blocks, "decoder.embed", three blocks and "head"; both embeddings and the
  // head read one matrix.
  absl::StatusOr<Graph> Build() && {
    const ValueId source = Rows("source", kSource), target = Rows("target", kTarget);
    b_.Feed("loss_seed", {DType::kF32, {}});
    const ValueId shared = Weight("shared");
    ValueId memory = Product("encoder.embed", source, shared);
    for (int i = 0; i < kEncoder; ++i) {
      const std::string block = absl::StrCat("encoder.", i);
      memory = Add(b_, memory, Tanh(b_, Product(block, memory, Weight(block))));
    }
    ValueId x = Product("decoder.embed", target, shared);
    for (int i = 0; i < kDecoder; ++i) {
      const std::string block = absl::StrCat("decoder.", i);
      const ValueId query = Product(block, x, Weight(block));
      const ValueId shares = Softmax(b_, Matmul(b_, "b t c, b s c -> b t s", query, memory));
      x = Add(b_, x, Matmul(b_, "b t s, b s c -> b t c", shares, memory));
    }
    const ValueId y = Product("head", x, shared);
    b_.Output("loss_sum", ReduceSum(b_, Mul(b_, y, y), {0, 1, 2}, /*keep=*/false));
    return std::move(b_).Build();
  }

 private:
  ValueId Rows(const std::string& name, int64_t length) {
    const ValueId rows = b_.Feed(name, {DType::kF32, {kRows, length, kWidth}});
    b_.Annotate(rows, Sharding{{{"batch"}, {}, {}}, {}}, std::nullopt);
    return rows;
  }
  ValueId Weight(const std::string& name) {
    StateInfo info;
    info.name = name;
    info.global_dims = info.disk_dims = {kWidth, kWidth};
    info.axes = {"", ""};
    return b_.AddState(info, {DType::kF32, info.global_dims});
  }
  // What follows is of that block too.
  ValueId Product(const std::string& block, ValueId x, ValueId weight) {
    b_.SetBlock(block);
    return Matmul(b_, "b s c, c d -> b s d", x, weight);
  }

  GraphBuilder b_{"encoder_decoder"};
};

HostTensor Random(Dims dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor values(Type{DType::kF32, std::move(dims)});
  for (float& x : values.data<float>()) {
    x = static_cast<float>(static_cast<double>(random() % 2001) / 1000 - 1);
  }
  return values;
}

HostTensors RowsOf(int micro_batch, int64_t part, int64_t parts) {
  const uint64_t seed = static_cast<uint64_t>(100 * micro_batch + 10 * part);
  return {{"source", Random({kRows / parts, kSource, kWidth}, seed + 1)},
          {"target", Random({kRows / parts, kTarget, kWidth}, seed + 2)}};
}

GraphJob JobOf(std::vector<MeshAxis> mesh, std::vector<std::string> borders,
               const std::string& schedule, int micro_batches) {
  GraphJob job;
  job.forward = [] { return Model().Build(); };
  job.blocks = {"encoder.embed", "encoder.0", "encoder.1", "decoder.embed",
                "decoder.0",     "decoder.1", "decoder.2", "head"};
  job.borders = std::move(borders);
  job.mesh = std::move(mesh);
  job.schedule = schedule;
  job.micro_batches = micro_batches;
  job.optimizer.kind = Optimizer::Kind::kSgd;
  job.learning_rate = 0.01;
  job.updates = 2;
  job.feeds = RowsOf;
  job.values = [](const StateInfo& info) {
    return Random(info.global_dims, std::hash<std::string>()(info.name));
  };
  return job;
}

// What the ranks hold together; copies must be the same bits.
HostTensors Train(const GraphJob& job) {
  HostTensors all;
  const absl::StatusOr<std::vector<HostTensors>> ranks = TrainGraph(job);
  EXPECT_OK(ranks.status());
  if (!ranks.ok()) return all;
  for (const HostTensors& states : *ranks) {
    for (const auto& [name, value] : states) {
      const auto [it, first] = all.emplace(name, value);
      EXPECT_TRUE(it->second == value) << name;
    }
  }
  return all;
}

// Of each part.
struct Cut {
  int64_t stages;
  int chunks;
  std::vector<std::string> borders;
};

TEST(EncoderDecoderTrainingTest, BitsOfOneStage) {
  const std::vector<Cut> cuts = {
      {2, 1, {"decoder.embed"}},
      {2, 1, {"decoder.1"}},
      {3, 1, {"encoder.1", "decoder.1"}},
      {4, 1, {"encoder.0", "decoder.embed", "decoder.2"}},
  };
  const int micro_batches = 4;
  const HostTensors before = [&] {
    GraphJob job = JobOf({}, {}, "1f1b", 1);
    job.updates = 0;
    return Train(job);
  }();
  const HostTensors expected = Train(JobOf({}, {}, "1f1b", micro_batches));
  for (const auto& [name, value] : expected) EXPECT_FALSE(value == before.at(name)) << name;
  for (const Cut& cut : cuts) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "searched"}) {
      SCOPED_TRACE(absl::StrCat(schedule, " cut at ", absl::StrJoin(cut.borders, ", ")));
      EXPECT_EQ(Train(JobOf({{"stage", cut.stages}}, cut.borders, schedule, micro_batches)),
                expected);
    }
  }
}

// Encoder and decoder in a V: the first stage has the first part of one and the last of the other.
TEST(EncoderDecoderTrainingTest, TwoPartsAStage) {
  const HostTensors expected = Train(JobOf({}, {}, "1f1b", 4));
  for (const char* schedule : {"zb-v", "interleaved", "looped"}) {
    SCOPED_TRACE(schedule);
    GraphJob job = JobOf({{"stage", 2}}, {"encoder.1", "decoder.embed", "decoder.1"}, schedule, 4);
    job.chunks = 2;
    EXPECT_EQ(Train(job), expected);
  }
}

TEST(EncoderDecoderTrainingTest, WithDataAndZero) {
  GraphJob one = JobOf({{"data", 2}}, {}, "1f1b", 3);
  one.optimizer = Optimizer();
  const HostTensors expected = Train(one);
  GraphJob job = JobOf({{"stage", 2}, {"data", 2}}, {"decoder.0"}, "zb-h1", 3);
  job.optimizer = Optimizer();
  EXPECT_EQ(Train(job), expected);
}

}  // namespace
}  // namespace colossus
