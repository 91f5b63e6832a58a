// Runs whose states lie on device, host and disk are the run on a large device, bit for bit: also
// on ranks, with dropout and recomputation, saved and resumed. FIELD-CASES A10, A15, B1 and C1 with
// offloaded states.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/exec/disk/file_disk_tier.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class OffloadTest : public ::testing::Test {
 protected:
  OffloadTest() : run_("offload") {
    run_.WriteText(20);
    run_.WriteModel({{"n_layer", 3}, {"n_embd", 64}});
  }

  // The disk's own buffers, and little more: most states go to disk.
  Flags OnDisk(int ranks = 1) const {
    const int64_t staging = NewFileDiskTier(run_.Path("offload"), {}).value()->staging_bytes();
    return {"--device=capped", "--device_memory=1GB", "--placement=cpu",
            absl::StrCat("--host_memory=", ranks * (staging + kHostBytes)),
            "--offload_dir=" + run_.Path("offload")};
  }
  static Flags OnHost() { return {"--device=capped", "--device_memory=1GB", "--placement=cpu"}; }
  Flags Metrics() const { return {"--metrics=" + run_.Path("metrics.jsonl")}; }

  static constexpr int64_t kHostBytes = 1000000;
  TinyRun run_;
};

int64_t Sum(const TinyResult& result, const std::string& key) {
  int64_t sum = 0;
  for (const nlohmann::json& line : result.metrics) sum += line.at(key).get<int64_t>();
  return sum;
}

TEST_F(OffloadTest, EveryHomeGivesTheSameBits) {
  const Flags job = Flags{"--steps=5", "--precision=bf16", "--global_batch=4", "--micro_batch=2"};
  const TinyResult plain =
      run_.Train(job + Metrics() + Flags{"--device=capped", "--device_memory=1GB"});
  ASSERT_OK(plain.status);
  EXPECT_EQ(Sum(plain, "host_to_device_bytes") + Sum(plain, "disk_write_bytes"), 0);
  EXPECT_THAT(plain.log, HasSubstr("placement=auto chose the device for everything: "));
  EXPECT_THAT(plain.log, HasSubstr("accumulation_order=auto chose horizontal: nothing moves"));
  for (const bool disk : {false, true}) {
    SCOPED_TRACE(disk ? "disk" : "host");
    const TinyResult placed = run_.Train(job + Metrics() + (disk ? OnDisk() : OnHost()));
    ASSERT_OK(placed.status);
    EXPECT_EQ(ComparableLines(placed.metrics), ComparableLines(plain.metrics));
    EXPECT_EQ(StateDifference(placed.states, plain.states), "");
    EXPECT_GT(Sum(placed, "host_to_device_bytes"), 0);
    EXPECT_GT(Sum(placed, "device_to_host_bytes"), 0);
    EXPECT_EQ(Sum(placed, "disk_write_bytes") > 0, disk);
    EXPECT_EQ(Sum(placed, "disk_read_bytes") > 0, disk);
    EXPECT_GT(Sum(placed, "traffic_lower_bound_bytes"), 0);
    EXPECT_THAT(placed.log, HasSubstr("host: peak "));
    EXPECT_THAT(placed.log, HasSubstr("memory of the process: "));
    EXPECT_THAT(placed.log, HasSubstr("to device: parameters "));
    EXPECT_EQ(absl::StrContains(placed.log, "buffers of the disk"), disk);
    EXPECT_THAT(placed.log, HasSubstr("step 2: the "));  // measured
  }
}

TEST_F(OffloadTest, RanksHaveAFileEach) {
  const Flags job = {"--steps=3", "--precision=bf16", "--global_batch=4", "--ranks=2", "--zero=3"};
  const TinyResult plain = run_.Train(job + Flags{"--device=capped", "--device_memory=1GB"});
  ASSERT_OK(plain.status);
  const TinyResult placed = run_.Train(job + Metrics() + OnDisk(2));
  ASSERT_OK(placed.status);
  EXPECT_EQ(StateDifference(placed.states, plain.states), "");
  EXPECT_GT(Sum(placed, "disk_write_bytes"), 0);
}

// Values that ranks exchange are held by that for longer than by what computes with them, if these
// are computed again in the backward.
TEST_F(OffloadTest, StaticOfSequencesThatRecompute) {
  run_.WriteModel({{"model_type", "llama"},
                   {"architectures", {"LlamaForCausalLM"}},
                   {"num_hidden_layers", 2},
                   {"hidden_size", 16},
                   {"num_attention_heads", 2},
                   {"num_key_value_heads", 1},
                   {"intermediate_size", 32},
                   {"max_position_embeddings", 16},
                   {"rms_norm_eps", 1e-5}});
  for (const char* recompute : {"--recompute=cheap", "--recompute=selective"}) {
    SCOPED_TRACE(recompute);
    const Flags job = {"--steps=2", "--mesh=sequence=2", recompute, "--precision=bf16",
                       "--global_batch=2", "--micro_batch=1"};
    const TinyResult plain = run_.Train(job + Metrics());
    ASSERT_OK(plain.status);
    const TinyResult placed =
        run_.Train(job + Metrics() +
                   Flags{"--device=capped", "--device_memory=1GB", "--placement=static"});
    ASSERT_OK(placed.status);
    EXPECT_EQ(StateDifference(placed.states, plain.states), "");
  }
}

// Tensors whose sizes are no multiples of what memory is given out in.
TEST_F(OffloadTest, NoLessIsMovedThanTheLeast) {
  run_.WriteModel({{"n_layer", 2}, {"n_embd", 18}});
  for (const char* precision : {"--precision=bf16", "--precision=fp32"}) {
    const Flags job = {"--steps=4", precision, "--global_batch=4", "--micro_batch=2",
                       "--device=capped"};
    const TinyResult plain = run_.Train(job + Metrics() + Flags{"--device_memory=1GB"});
    ASSERT_OK(plain.status);
    const int64_t whole = plain.metrics[0].at("device_peak_bytes").get<int64_t>();
    for (const int64_t tenths : {7, 8, 9}) {
      SCOPED_TRACE(absl::StrCat(precision, " ", tenths));
      const TinyResult placed = run_.Train(
          job + Metrics() + Flags{absl::StrCat("--device_memory=", whole * tenths / 10)});
      ASSERT_OK(placed.status);
      for (const nlohmann::json& line : placed.metrics) {
        const int64_t least = line.at("traffic_lower_bound_bytes").get<int64_t>();
        EXPECT_GT(least, 0);
        EXPECT_GE(line.at("host_to_device_bytes").get<int64_t>() +
                      line.at("device_to_host_bytes").get<int64_t>(),
                  least);
      }
    }
  }
}

// Each stage of a pipeline places its own step, before and after it was measured.
TEST_F(OffloadTest, StagesPlaceTheirOwnSteps) {
  const Flags job = {"--steps=5", "--precision=bf16", "--global_batch=8", "--micro_batch=1"};
  for (const Flags& layout :
       {Flags{"--mesh=stage=2", "--schedule=zb-v"}, Flags{"--mesh=stage=2,data=2", "--zero=3"}}) {
    SCOPED_TRACE(layout[0]);
    const int ranks = layout[0] == "--mesh=stage=2" ? 2 : 4;
    const TinyResult plain =
        run_.Train(job + layout + Metrics() + Flags{"--device=capped", "--device_memory=1GB"});
    ASSERT_OK(plain.status);
    EXPECT_EQ(Sum(plain, "host_to_device_bytes"), 0);
    for (const bool disk : {false, true}) {
      SCOPED_TRACE(disk ? "disk" : "host");
      const TinyResult placed =
          run_.Train(job + layout + Metrics() + (disk ? OnDisk(ranks) : OnHost()));
      ASSERT_OK(placed.status);
      EXPECT_EQ(ComparableLines(placed.metrics), ComparableLines(plain.metrics));
      EXPECT_EQ(StateDifference(placed.states, plain.states), "");
      EXPECT_GT(Sum(placed, "host_to_device_bytes"), 0);
      EXPECT_GT(Sum(placed, "traffic_lower_bound_bytes"), 0);
      EXPECT_EQ(Sum(placed, "disk_write_bytes") > 0, disk);
      EXPECT_THAT(placed.log, HasSubstr("step 2: the "));  // measured
    }
  }
}

// Protects: the trial that a searched order is measured by leaves nothing behind, wherever states
// lie.
TEST_F(OffloadTest, SearchedByMeasuredTimes) {
  const Flags job = {"--steps=4",        "--precision=bf16", "--global_batch=6", "--micro_batch=1",
                     "--dropout=0.5", "--mesh=stage=3"};
  const Flags searched = {"--schedule=searched"};
  const TinyResult plain = run_.Train(job + Metrics() + Flags{"--schedule=1f1b"});
  ASSERT_OK(plain.status);
  const Flags large = {"--device=capped", "--device_memory=1GB"};
  for (const Flags& device : {Flags{}, large, OnHost(), OnDisk(3)}) {
    SCOPED_TRACE(device.empty() ? "host device" : device.back());
    const TinyResult result = run_.Train(job + Metrics() + searched + device);
    ASSERT_OK(result.status);
    EXPECT_EQ(ComparableLines(result.metrics), ComparableLines(plain.metrics));
    EXPECT_EQ(StateDifference(result.states, plain.states), "");
    for (size_t i = 0; i < plain.metrics.size(); ++i) {
      EXPECT_EQ(result.metrics[i].at("link_bytes"), plain.metrics[i].at("link_bytes"));
    }
    EXPECT_THAT(result.log, HasSubstr("schedule=searched went by predicted times: "));
    EXPECT_THAT(result.log,
                HasSubstr("measured ms of forward/backward-input/backward-weight by part: "));
    EXPECT_THAT(result.log, HasSubstr("; by these an update takes "));
  }
}

// A device that a searched order fills, and smaller ones until the order has to keep less: nothing
// is moved. How much an order keeps depends on times, so no one size is too small for it.
TEST_F(OffloadTest, ASearchedOrderKeepsToTheDevice) {
  const Flags job = {"--steps=2",      "--global_batch=16",     "--micro_batch=2",
                     "--mesh=stage=2", "--schedule=searched", "--device=capped"};
  const TinyResult plain = run_.Train(job + Metrics() + Flags{"--device_memory=1GB"});
  ASSERT_OK(plain.status);
  const int64_t peak = plain.metrics[0].at("device_peak_bytes").get<int64_t>();
  bool limited = false;
  for (int share = 95; share >= 50 && !limited; share -= 5) {
    const int64_t memory = peak * share / 100;
    SCOPED_TRACE(memory);
    const TinyResult less =
        run_.Train(job + Metrics() + Flags{absl::StrCat("--device_memory=", memory)});
    ASSERT_OK(less.status);
    EXPECT_LE(less.metrics[0].at("device_peak_bytes"), memory);
    EXPECT_EQ(Sum(less, "host_to_device_bytes"), 0);
    EXPECT_EQ(ComparableLines(less.metrics), ComparableLines(plain.metrics));
    limited = absl::StrContains(less.log, "since the device has no room for more");
  }
  EXPECT_TRUE(limited);
}

// The first stage has the embedding alone, and room for it; the other one has the layers.
TEST_F(OffloadTest, OneStageFitsAndTheOtherDoesNot) {
  const Flags job = {"--steps=4",       "--mesh=stage=2",   "--borders=h.0",  "--global_batch=4",
                     "--micro_batch=1", "--device=capped"};
  const TinyResult plain = run_.Train(job + Metrics() + Flags{"--device_memory=1GB"});
  ASSERT_OK(plain.status);
  const int64_t memory = plain.metrics[0].at("device_peak_bytes").get<int64_t>() * 9 / 10;
  const TinyResult placed =
      run_.Train(job + Metrics() + Flags{absl::StrCat("--device_memory=", memory)});
  ASSERT_OK(placed.status);
  // Rank 0.
  EXPECT_THAT(placed.log, HasSubstr("placement=auto chose the device for everything"));
  EXPECT_LE(placed.metrics[0].at("device_peak_bytes"), memory);
  EXPECT_EQ(ComparableLines(placed.metrics), ComparableLines(plain.metrics));
  EXPECT_GT(Sum(placed, "host_to_device_bytes"), 0);  // of the other one
  EXPECT_GT(Sum(placed, "traffic_lower_bound_bytes"), 0);
  EXPECT_THAT(placed.log, HasSubstr("step 2: the "));
  EXPECT_THAT(placed.log, HasSubstr("to device: parameters "));
}

// Two blocks with dropout 0.5: loss and, through the moments, every gradient are the same with
// nothing recomputed, the core of attention and whole blocks, wherever the states and what is kept
// lie.
TEST_F(OffloadTest, A10RecomputationWithDropout) {
  run_.WriteModel({{"n_layer", 2}});
  const Flags job = {"--steps=1", "--dropout=0.5", "--global_batch=2", "--device=capped"};
  const TinyResult plain = run_.Train(job + Metrics() + Flags{"--device_memory=1GB"});
  ASSERT_OK(plain.status);
  const int64_t peak = plain.metrics[0]["device_peak_bytes"];
  for (const char* recompute : {"none", "selective", "block"}) {
    for (const int percent : {100, 75, 50}) {
      SCOPED_TRACE(absl::StrCat(recompute, ", ", percent, " % of the device"));
      const TinyResult placed = run_.Train(
          job + Metrics() + Flags{absl::StrCat("--recompute=", recompute),
                                  absl::StrCat("--device_memory=", peak * percent / 100)});
      ASSERT_OK(placed.status);
      EXPECT_EQ(Sum(placed, "host_to_device_bytes") > 0, percent < 100);
      EXPECT_EQ(ComparableLines(placed.metrics), ComparableLines(plain.metrics));
      EXPECT_EQ(StateDifference(placed.states, plain.states), "");
    }
  }
}

// Moments and masters are fp32 wherever they live, unless asked for otherwise, which the log says.
TEST_F(OffloadTest, A15NarrowStateIsAnExplicitChoice) {
  const Flags job = Flags{"--steps=1", "--precision=bf16"} + OnDisk();
  for (const bool narrow : {false, true}) {
    const TinyResult result =
        run_.Train(narrow ? job + Flags{"--optimizer_state=bf16"} : job);
    ASSERT_OK(result.status);
    EXPECT_EQ(absl::StrContains(result.log, "moments bf16, rounded at random"), narrow);
    for (const auto& [name, value] : result.states) {
      const bool moment = absl::StartsWith(name, "moment");
      const DType state = moment && narrow ? DType::kBF16 : DType::kF32;
      const bool norm = absl::StrContains(name, ".ln_");  // fp32, its own master
      const bool copy = !moment && !absl::StartsWith(name, "master") && !norm;
      EXPECT_EQ(value.type().dtype, copy ? DType::kBF16 : state) << name;
    }
  }
}

// A run that is interrupted and goes on with its states on disk is the one that was not, whose
// states are on the host. 10 samples, batch 2, shuffled, stopped after step 7, in epoch 2; and 20
// samples, batch 2 with accumulation 2, stopped after update 3.
struct Interrupted {
  int64_t samples;
  Flags batch;
  const char *stop, *end, *goes_on;
};

TEST_F(OffloadTest, C1ResumesWithStatesOnDisk) {
  const Interrupted cases[] = {
      {10, {"--global_batch=2"}, "--steps=7", "--steps=10", "goes on with step 8 of 10"},
      {20, {"--global_batch=4", "--micro_batch=2"}, "--steps=3", "--steps=6",
       "goes on with step 4 of 6"},
  };
  for (const Interrupted& row : cases) {
    SCOPED_TRACE(row.goes_on);
    run_.WriteText(row.samples);
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    const Flags job = Flags{"--precision=bf16", "--data_order=shuffled", "--schedule=constant"} +
                      row.batch + Metrics();
    const TinyResult whole = run_.Train(job + OnHost() + Flags{row.end});
    ASSERT_OK(whole.status);
    const Flags parts = job + OnDisk() + Flags{"--out=" + run_.Path("out")};
    ASSERT_OK(run_.Train(parts + Flags{row.stop}).status);
    const TinyResult again = run_.Train(parts + Flags{row.end});
    ASSERT_OK(again.status);
    EXPECT_THAT(again.log, HasSubstr(row.goes_on));
    EXPECT_EQ(ComparableLines(again.metrics), ComparableLines(whole.metrics));
    EXPECT_EQ(StateDifference(again.states, whole.states), "");
  }
}

// B1: all states exist before the first step, so peaks are the same in every step.
TEST_F(OffloadTest, AResumedRunNeedsWhatAFreshOneNeeds) {
  const Flags out = {"--out=" + run_.Path("out"), "--schedule=constant"};
  const TinyResult fresh = run_.Train(out + Metrics() + OnHost() + Flags{"--steps=3"});
  ASSERT_OK(fresh.status);
  const TinyResult resumed = run_.Train(out + Metrics() + OnHost() + Flags{"--steps=6"});
  ASSERT_OK(resumed.status);
  ASSERT_EQ(resumed.metrics.size(), 6u);
  for (const nlohmann::json& line : resumed.metrics) {
    EXPECT_EQ(line.at("device_peak_bytes"), fresh.metrics[0].at("device_peak_bytes"));
  }
}

}  // namespace
}  // namespace colossus
