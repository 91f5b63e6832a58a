#include "trainers/lib/answer/plan.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/answer/largest.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Planned> Plan(std::vector<std::string> flags) {
  flags.push_back("--threads=1");
  absl::StatusOr<Config> config = ReadConfig(Trainer::kPlan, flags, RealFileSystem());
  if (!config.ok()) return config.status();
  Log log(nullptr, false);
  JobContext context{*config, log};
  return PlanRun(RealFileSystem(), context);
}

nlohmann::json Json(std::vector<std::string> flags) {
  flags.push_back("--json");
  const absl::StatusOr<Planned> planned = Plan(flags);
  EXPECT_OK(planned);
  return planned.ok() ? nlohmann::json::parse(planned->text) : nlohmann::json::object();
}

// Bytes of a model that fits, so that tests can give less.
int64_t DevicePeak(const std::vector<std::string>& flags) {
  return Json(flags)["peak_bytes"]["device"].get<int64_t>();
}

// Parameters of gpt2-tiny's nine norms.
constexpr int64_t kOfNorms = 9 * 2 * 128;

TEST(Plan, AModelThatFitsStaysOnTheDevice) {
  const nlohmann::json plan = Json({"--preset=gpt2-tiny"});
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["parameters"], 859008);
  EXPECT_EQ(plan["tokens"], 16 * 256);
  EXPECT_GT(plan["peak_bytes"]["device"], 16 * 859008 - 2);
  EXPECT_EQ(plan["peak_bytes"]["disk"], 0);
  EXPECT_EQ(plan["capacity_bytes"]["device"], nullptr);
  EXPECT_EQ(plan["largest"]["device"].size(), 5u);
  EXPECT_EQ(plan["traffic"]["host_to_device"]["parameters"], 0);
  EXPECT_GT(plan["step_seconds"], 0.0);
}

TEST(Plan, AModelThatDoesNotFitUsesTheHost) {
  const int64_t peak = DevicePeak({"--preset=gpt2-tiny"});
  const nlohmann::json plan =
      Json({"--preset=gpt2-tiny", absl::StrCat("--device_memory=", peak * 9 / 10)});
  EXPECT_EQ(plan["fits"], true);
  EXPECT_LE(plan["peak_bytes"]["device"], peak * 9 / 10);
  EXPECT_GT(plan["peak_bytes"]["host"], 0);
  EXPECT_GT(plan["traffic_lower_bound_bytes"], 0);
}

// Protects: what auto chose is said before a run as it is in one.
TEST(Plan, SaysWhatAutoChose) {
  const std::vector<std::string> flags = {"--preset=gpt2-tiny", "--micro_batch=8",
                                          "--recompute=auto"};
  const std::string choices = Json(flags)["choices"].dump();
  for (const char* key : {"recompute", "accumulation_order", "placement"}) {
    EXPECT_THAT(choices, HasSubstr(absl::StrCat(key, "=auto chose ")));
  }
  const absl::StatusOr<Planned> text = Plan(flags);
  ASSERT_OK(text);
  EXPECT_THAT(text->text, HasSubstr("\nrecompute=auto chose "));
}

TEST(Plan, HostMemoryThatIsShortNeedsDisk) {
  const std::vector<std::string> flags = {"--preset=gpt2-30m", "--placement=cpu",
                                          "--sequence_length=64", "--global_batch=1",
                                          "--device_memory=2GB", "--host_memory=360MB"};
  const nlohmann::json without = Json(flags);
  EXPECT_EQ(without["fits"], false);
  EXPECT_THAT(without["reason"].get<std::string>(), HasSubstr("host"));
  EXPECT_THAT(without["would_fit_with"].dump(), HasSubstr("more --host_memory"));
  EXPECT_THAT(without["would_fit_with"].dump(), HasSubstr("more --disk"));
  EXPECT_THAT(without["would_fit_with"].dump(), HasSubstr("--placement=auto"));
  std::vector<std::string> more = flags;
  more.push_back("--disk=1GB");
  const nlohmann::json with = Json(more);
  EXPECT_EQ(with["fits"], true);
  EXPECT_GT(with["peak_bytes"]["disk"], 0);
  EXPECT_LE(with["peak_bytes"]["host"], 360000000);
  // The buffers of the disk are part of it, and the largest one.
  EXPECT_GT(with["peak_bytes"]["host"], 33554432);
  EXPECT_THAT(with["largest"]["host"].dump(), HasSubstr("buffers of the disk"));
  EXPECT_GT(with["traffic"]["disk_written"]["states"], 0);
}

TEST(Plan, WhatIsFarTooSmallIsRefusedWithWhatWouldDo) {
  const absl::StatusOr<Planned> planned =
      Plan({"--preset=gpt2-tiny", "--device_memory=2MB", "--global_batch=4"});
  ASSERT_OK(planned);
  EXPECT_FALSE(planned->fits);
  EXPECT_THAT(planned->text, HasSubstr("fits: no"));
  EXPECT_THAT(planned->text, HasSubstr("would fit with: "));
  EXPECT_THAT(planned->text, HasSubstr("--device_memory="));
}

// The number after the last "--device_memory=" of the text.
int64_t DeviceMemoryIn(const std::string& text) {
  const std::string flag = "--device_memory=";
  const size_t at = text.rfind(flag);
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + flag.size());
}

// A folder with the config of one block of width 16.
std::string OneBlock() {
  const std::string folder = JoinPath(::testing::TempDir(), "one_block");
  EXPECT_OK(RealFileSystem().MakeDirs(folder));
  const nlohmann::json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                                 {"n_layer", 1},         {"n_head", 2},
                                 {"n_embd", 16},         {"vocab_size", 257},
                                 {"n_positions", 32}};
  EXPECT_OK(
      RealFileSystem().WriteFileAtomically(JoinPath(folder, "config.json"), config.dump()));
  return folder;
}

// What the refusal of one byte says would do.
int64_t EnoughFor(std::vector<std::string> flags) {
  flags.push_back("--device_memory=1");
  const absl::StatusOr<Planned> refused = Plan(flags);
  EXPECT_OK(refused);
  if (!refused.ok() || refused->fits) return -1;
  return DeviceMemoryIn(refused->text);
}

// However far from enough the given memory is.
TEST(Plan, WhatWouldDoIsFoundFromAnySize) {
  for (const char* way : {"--placement=auto", "--placement=static", "--recompute=auto"}) {
    SCOPED_TRACE(way);
    std::vector<std::string> flags = {"--model=" + OneBlock(), "--global_batch=2", way};
    const int64_t enough = EnoughFor(flags);
    ASSERT_GT(enough, 64);
    flags.push_back(absl::StrCat("--device_memory=", enough));
    EXPECT_EQ(Json(flags)["fits"], true);
    flags.back() = absl::StrCat("--device_memory=", enough / 2);
    EXPECT_EQ(Json(flags)["fits"], false);
  }
}

TEST(Plan, AMicroBatchThatWasNotGivenCanBeSmaller) {
  std::vector<std::string> flags = {"--model=" + OneBlock(), "--global_batch=16"};
  std::vector<std::string> small = flags;
  small.push_back("--micro_batch=1");
  const int64_t enough = EnoughFor(small);
  ASSERT_GT(enough, 0);
  flags.push_back(absl::StrCat("--device_memory=", enough));
  const nlohmann::json refused = Json(flags);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_THAT(refused["would_fit_with"].dump(), HasSubstr("--micro_batch=1"));
}

TEST(Plan, TheLargestModelFitsAndTheNextDoesNot) {
  const std::vector<std::string> memory = {"--device_memory=100MB", "--host_memory=200MB",
                                           "--micro_batch=1", "--sequence_length=64"};
  std::vector<std::string> flags = memory;
  flags.push_back("--largest");
  const nlohmann::json found = Json(flags);
  EXPECT_EQ(found["fits"], true);
  EXPECT_LE(found["peak_bytes"]["device"], 100000000);
  EXPECT_EQ(found["hidden"], 128 * found["heads"].get<int64_t>());
  EXPECT_GE(found["layers"], found["heads"]);
}

// FIELD-CASES H1: what ranks share out; a parameter has 14 bytes of states and 2 of a gradient, one
// of a norm is its own master and has 12.
TEST(Plan, RanksShareStates) {
  const double other = 859008 - kOfNorms, norms = kOfNorms;
  const double states[] = {14 * other + 12 * norms, (2 + 12.0 / 4) * other + (4 + 8.0 / 4) * norms,
                           (2 + 12.0 / 4) * other + (4 + 8.0 / 4) * norms,
                           14.0 / 4 * other + 12.0 / 4 * norms};
  for (int zero = 0; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    std::vector<std::string> flags = {"--preset=gpt2-tiny", "--ranks=4"};
    if (zero > 0) flags.push_back(absl::StrCat("--zero=", zero));
    const nlohmann::json plan = Json(flags);
    EXPECT_EQ(plan["ranks"], 4);
    EXPECT_EQ(plan["parameters"], 859008);
    EXPECT_EQ(plan["tokens"], 16 * 256);
    // Chunks and vocabulary are padded.
    const double bytes = plan["home_bytes"]["device"].get<double>();
    EXPECT_GE(bytes, states[zero]);
    EXPECT_LE(bytes, 1.06 * states[zero]);
    EXPECT_GT(plan["step_seconds"], 0.0);
  }
}

int64_t SumOf(const nlohmann::json& parts) {
  int64_t sum = 0;
  for (const auto& part : parts.items()) sum += part.value().get<int64_t>();
  return sum;
}

// FIELD-CASES H1, the estimate: per place what it is for, which is all of the peak but for what
// lies idle between buffers.
TEST(Plan, ThePeakIsTakenApart) {
  const std::vector<std::string> job = {"--preset=gpt2-tiny", "--ranks=2", "--zero=3"};
  for (const char* recompute : {"--recompute=none", "--recompute=block"}) {
    SCOPED_TRACE(recompute);
    std::vector<std::string> flags = job;
    flags.push_back(recompute);
    const nlohmann::json plan = Json(flags);
    const nlohmann::json& parts = plan["parts_bytes"]["device"];
    EXPECT_GE(parts["states"], (14 * 859008 - 2 * kOfNorms) / 2);
    EXPECT_GT(parts["gathered"], 0);
    EXPECT_GT(parts["activations"], 0);
    EXPECT_GT(plan["parts_bytes"]["host"]["staging"], 0);
    for (const char* tier : {"device", "host"}) {
      const int64_t peak = plan["peak_bytes"][tier], sum = SumOf(plan["parts_bytes"][tier]);
      EXPECT_LE(sum, peak) << tier;
      EXPECT_GE(sum, 0.9 * static_cast<double>(peak)) << tier;
    }
  }
}

TEST(Plan, EveryStageIsAClassOfRanks) {
  const std::vector<std::string> flags = {"--preset=gpt2-tiny", "--mesh=stage=2,data=2",
                                          "--schedule=1f1b", "--micro_batch=2"};
  const nlohmann::json plan = Json(flags);
  EXPECT_EQ(plan["fits"], true);
  ASSERT_EQ(plan["rank_classes"].size(), 2u);
  for (int stage = 0; stage < 2; ++stage) {
    const nlohmann::json& ranks = plan["rank_classes"][stage];
    EXPECT_EQ(ranks["first_rank"], 2 * stage);
    EXPECT_EQ(ranks["ranks"], 2);
    EXPECT_GT(ranks["peak_bytes"]["device"], 0);
  }
  const absl::StatusOr<Planned> text = Plan(flags);
  ASSERT_OK(text);
  EXPECT_THAT(text->text, HasSubstr("ranks 0 to 1, each:\nborders not given: "));
  EXPECT_THAT(text->text, HasSubstr("ranks 2 to 3, each:\nborders not given: "));
  std::vector<std::string> small = flags;
  small.push_back("--device_memory=20000");  // less than an instruction needs
  const nlohmann::json refused = Json(small);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_THAT(refused["reason"].get<std::string>(), HasSubstr("ranks 0 to 1: "));
}

// A plan measures nothing, and says so.
TEST(Plan, ASearchedOrderGoesByPredictedTimes) {
  const nlohmann::json plan = Json({"--preset=gpt2-tiny", "--mesh=stage=2",
                                    "--pipeline_schedule=searched", "--micro_batch=2",
                                    "--micro_batches=4"});
  for (const nlohmann::json& ranks : plan["rank_classes"]) {
    EXPECT_THAT(ranks["choices"].dump(), HasSubstr("schedule=searched went by predicted times: "));
  }
}

// Protects: a stage of more ranks than another was planned in its place.
TEST(Plan, StagesOfDifferentMeshesAreClassesOfTheirOwn) {
  const nlohmann::json plan = Json({"--preset=gpt2-tiny", "--mesh=stage:data=3/stage:tensor=2",
                                    "--schedule=1f1b", "--micro_batch=2", "--micro_batches=2"});
  EXPECT_EQ(plan["fits"], true);
  ASSERT_EQ(plan["rank_classes"].size(), 2u);
  const nlohmann::json &first = plan["rank_classes"][0], &last = plan["rank_classes"][1];
  EXPECT_EQ(first["first_rank"], 0);
  EXPECT_EQ(first["ranks"], 3);
  EXPECT_EQ(last["first_rank"], 3);
  EXPECT_EQ(last["ranks"], 2);
  // The head computes all rows with half of the vocabulary.
  EXPECT_NE(first["peak_bytes"]["device"], last["peak_bytes"]["device"]);
}

// Protects: a stage of one rank among larger ones had no kernels that send and receive.
TEST(Plan, AStageOfOneRankAmongLargerOnesIsPlanned) {
  for (const char* mesh : {"--mesh=stage:/stage:data=2", "--mesh=stage:data=2/stage:"}) {
    const nlohmann::json plan = Json({"--preset=gpt2-tiny", mesh, "--borders=h.2",
                                      "--micro_batch=2", "--micro_batches=2"});
    EXPECT_EQ(plan["fits"], true) << mesh;
    EXPECT_EQ(plan["rank_classes"].size(), 2u) << mesh;
  }
}

// Protects: of a plan that is predicted chunks and overrides were left out.
TEST(Plan, ChunksAndOverridesCount) {
  const auto with = [](std::vector<std::string> flags, const char* more) {
    flags.push_back(more);
    return flags;
  };
  const std::vector<std::string> shared = {"--preset=gpt2-tiny", "--ranks=2", "--zero=3"};
  EXPECT_NE(DevicePeak(with(shared, "--chunk_elements=20000")), DevicePeak(shared));
  const auto homes = [](const std::vector<std::string>& flags) {
    return Json(flags)["home_bytes"]["device"].get<int64_t>();
  };
  const std::vector<std::string> split = {"--preset=gpt2-tiny", "--mesh=tensor=2"};
  EXPECT_GT(homes(with(split, "--overrides=*.c_fc.weight=")), homes(split));
}

// A device that computes and reads its memory faster takes less time; one behind a slow link more.
TEST(Plan, TheDeviceIsDeclared) {
  const std::vector<std::string> flags = {"--preset=gpt2-tiny", "--placement=cpu",
                                          "--device_memory=1GB"};
  const auto seconds = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return Json(all)["step_seconds"].get<double>();
  };
  const double cores = seconds({});
  const double gpu = seconds({"--device_tflops=40", "--device_gbps=700", "--link_gbps=12"});
  EXPECT_LT(gpu, cores / 3);
  EXPECT_LT(gpu, seconds({"--device_tflops=40", "--link_gbps=12"}));
  EXPECT_LT(gpu, seconds({"--device_gbps=700", "--link_gbps=12"}));
  EXPECT_GT(seconds({"--link_gbps=0.01"}), 1.5 * cores);
  EXPECT_GT(seconds({"--host_gbps=1"}), 1.1 * cores);
}

TEST(LargestFitting, IsTheLastThatFits) {
  for (int64_t last = 0; last <= 20; ++last) {
    const auto fits = [&](int64_t n) -> absl::StatusOr<bool> { return n <= last; };
    const absl::StatusOr<int64_t> found = LargestFitting(1, 15, fits);
    ASSERT_OK(found);
    EXPECT_EQ(*found, std::min<int64_t>(last, 15)) << last;
  }
}

TEST(Plan, FlagsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(Plan({}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no model")));
  EXPECT_THAT(Plan({"--largest"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_memory")));
  EXPECT_THAT(Plan({"--largest", "--preset=gpt2-tiny", "--device_memory=1GB"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.largest")));
}

}  // namespace
}  // namespace colossus
