// What plans say of memory is what runs take: the device's arena by the pages that were touched,
// the host by the process's peak; and a run that goes on takes what a fresh one takes. FIELD-CASES
// H1 and B1.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/exec/program.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/run/session.h"
#include "trainers/lib/run/train.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kPairs = 30;  // of a model and a cap, accepted and measured
constexpr int kMostDraws = kPairs * 10 / 8;

int64_t StatusBytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == key && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// VmHWM starts again from what is resident now.
bool ForgetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

// What the refusal of a cap says that an instruction needs; -1: it does not say.
int64_t NeededAtOnce(const absl::Status& refusal) {
  const std::string text(refusal.message());
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(" needs ([0-9]+) at once"))) return -1;
  int64_t bytes = -1;
  return absl::SimpleAtoi(match[1].str(), &bytes) ? bytes : -1;
}

// One past the last byte of the arena whose page was ever touched.
int64_t HighWater(const Program& program) {
  const int64_t bytes = program.plan().device_bytes;
  char* base = const_cast<char*>(program.address({0, bytes, Tier::kDevice}));
  const int64_t head = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base) % kPage);
  const int64_t pages = (head + bytes + kPage - 1) / kPage;
  std::vector<unsigned char> resident(static_cast<size_t>(pages));
  if (mincore(base - head, static_cast<size_t>(pages * kPage), resident.data()) != 0) return -1;
  while (!resident.empty() && (resident.back() & 1) == 0) resident.pop_back();
  return static_cast<int64_t>(resident.size()) * kPage - head;
}

struct Peaks {
  int64_t planned_device = 0, device = 0, planned_host = 0;
  int64_t process = 0;  // largest resident size up to the last update
};

class PeakTest : public ::testing::Test {
 protected:
  PeakTest() : run_("peak") { run_.WriteText(20); }

  // A model by the seed; every third one is of a size that shows beside the program itself.
  void DrawModel(std::mt19937_64& random, bool large) {
    const int64_t width = large ? 256 + 64 * static_cast<int64_t>(random() % 5)
                                : 16 * (1 + static_cast<int64_t>(random() % 6));
    run_.WriteModel({{"n_layer", 1 + random() % 4}, {"n_embd", width}});
    flags_ = {"--steps=2", random() % 2 == 0 ? "--precision=bf16" : "--precision=fp32",
              absl::StrCat("--global_batch=", 2 * (1 + random() % 2)), "--micro_batch=2",
              random() % 2 == 0 ? "--recompute=block" : "--recompute=none"};
  }

  // Above what an instruction needs, below what takes everything.
  static int64_t DrawCap(std::mt19937_64& random, int64_t least, int64_t whole) {
    const double share = static_cast<double>(random() % 1000) / 1000;
    return least + static_cast<int64_t>(share * static_cast<double>(whole - least));
  }

  absl::Status Train(int64_t memory, Peaks* peaks) {
    std::vector<Peaks> steps;
    const absl::Status status = Train(memory, {}, &steps);
    if (!steps.empty()) *peaks = steps.back();
    return status;
  }

  // After each step. Not TinyRun's, which copies all states.
  absl::Status Train(int64_t memory, const std::vector<std::string>& more,
                     std::vector<Peaks>* steps) {
    TrainHooks hooks;
    hooks.after_update = [steps](int64_t, Session& session) {
      const Program& program = session.training->program();
      steps->push_back({program.plan().device_bytes, HighWater(program), program.plan().host_bytes,
                        StatusBytes("VmHWM:")});
      return absl::OkStatus();
    };
    hooks.matmul_peak = 1e9;
    std::vector<std::string> flags = run_.WithDefaults(flags_);
    flags.insert(flags.end(), more.begin(), more.end());
    flags.push_back("--device=capped");
    flags.push_back(absl::StrCat("--device_memory=", memory));
    const absl::StatusOr<Config> config = ReadConfig(Trainer::kPretrain, flags, RealFileSystem());
    if (!config.ok()) return config.status();
    Log log(nullptr, false);
    JobContext context{*config, log};
    return colossus::Train(RealFileSystem(), context, hooks).status();
  }

  TinyRun run_;
  std::vector<std::string> flags_;
};

TEST_F(PeakTest, PlansSayWhatRunsTake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  if (!ForgetPeak()) GTEST_SKIP() << "the process's peak cannot be set back here";
  std::mt19937_64 random(TestSeed());
  int placed = 0;
  for (int draw = 0; placed < kPairs; ++draw) {
    ASSERT_LT(draw, kMostDraws) << "of which only " << placed << " were accepted";
    DrawModel(random, draw % 3 == 0);
    Peaks whole, none;
    ASSERT_OK(Train(2000 * kMiB, &whole));
    const int64_t least = NeededAtOnce(Train(1, &none));
    ASSERT_GT(least, 0);
    ASSERT_LT(least, whole.planned_device);
    const int64_t cap = DrawCap(random, least, whole.planned_device);
    SCOPED_TRACE(absl::StrCat("draw ", draw, ", cap ", cap, " of ", least, " to ",
                              whole.planned_device));
    ASSERT_TRUE(ForgetPeak());
    const int64_t base = StatusBytes("VmRSS:");
    Peaks peaks;
    const absl::Status status = Train(cap, &peaks);
    if (absl::IsResourceExhausted(status)) continue;  // by the gaps between buffers
    ASSERT_OK(status);
    ++placed;
    EXPECT_LE(peaks.planned_device, cap);
    EXPECT_LE(peaks.device, peaks.planned_device + kPage);
    EXPECT_GE(peaks.device, 0.98 * static_cast<double>(peaks.planned_device) - kPage);
    const auto host = static_cast<double>(peaks.process - base - peaks.device);
    const auto planned = static_cast<double>(peaks.planned_host);
    EXPECT_NEAR(host, planned, 0.02 * planned + 64 * kMiB);
  }
}

// A model of 1,000,000 parameters in bf16 with fp32 master and moments, with all states on the
// device and with all of them on the host.
TEST_F(PeakTest, B1AResumedRunTakesWhatAFreshOneTakes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  if (!ForgetPeak()) GTEST_SKIP() << "the process's peak cannot be set back here";
  run_.WriteModel({{"n_layer", 1}, {"n_embd", 100}, {"vocab_size", 8768}, {"n_positions", 17}});
  constexpr int64_t kLargest = 8768 * 100 * 4;  // of a tensor
  for (const char* placement : {"--placement=auto", "--placement=cpu"}) {
    SCOPED_TRACE(placement);
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    flags_ = {"--precision=bf16", "--global_batch=2", "--schedule=constant", placement,
              "--out=" + run_.Path("out")};
    std::vector<Peaks> warm, fresh, resumed;
    ASSERT_OK(Train(100 * kMiB, {"--steps=3"}, &warm));
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    const auto measure = [&](const char* steps, std::vector<Peaks>* peaks) {
      ASSERT_TRUE(ForgetPeak());
      const int64_t base = StatusBytes("VmRSS:");
      ASSERT_OK(Train(100 * kMiB, {steps}, peaks));
      ASSERT_EQ(peaks->size(), 3u);
      for (Peaks& peak : *peaks) peak.process -= base;
    };
    measure("--steps=3", &fresh);
    measure("--steps=6", &resumed);
    EXPECT_GE(fresh[0].planned_device + fresh[0].planned_host, 16'000'000);
    for (size_t step = 0; step < 3; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step + 1));
      EXPECT_EQ(resumed[step].planned_device, fresh[0].planned_device);
      EXPECT_EQ(resumed[step].planned_host, fresh[0].planned_host);
      EXPECT_LE(resumed[step].device, fresh[0].device + kPage);
      // All states are there before step 1.
      EXPECT_LE(fresh[step].process, 1.01 * fresh[0].process + kMiB);
      EXPECT_LE(resumed[step].process, fresh[2].process + kLargest + kMiB);
    }
  }
}

}  // namespace
}  // namespace colossus
