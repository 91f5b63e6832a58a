// Runs whose states lie on device, host and disk are the run on a large device, bit for bit: also
// on ranks, saved and resumed. FIELD-CASES B1, B2 and C1 with offloaded states.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

int Count(const std::string& text, const std::string& part) {
  return static_cast<int>(std::vector<std::string>(absl::StrSplit(text, part)).size()) - 1;
}

TEST_F(OffloadTest, EveryHomeGivesTheSameBits) {
  const Flags job = Flags{"--steps=5", "--precision=bf16", "--global_batch=4", "--micro_batch=2"};
  const TinyResult plain =
      run_.Train(job + Metrics() + Flags{"--device=capped", "--device_memory=1GB"});
  ASSERT_OK(plain.status);
  EXPECT_EQ(Sum(plain, "host_to_device_bytes") + Sum(plain, "disk_write_bytes"), 0);
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
    EXPECT_THAT(placed.log, HasSubstr("bytes an update: host to device "));
    EXPECT_THAT(placed.log, HasSubstr("peak on host: "));
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

// The first stage has the embedding alone, and room for it; the other one has the layers.
TEST_F(OffloadTest, OneStageFitsAndTheOtherDoesNot) {
  const Flags job = {"--steps=4",       "--mesh=stage=2",   "--borders=h.0",  "--global_batch=4",
                     "--micro_batch=1", "--device=capped"};
  const TinyResult plain = run_.Train(job + Metrics() + Flags{"--device_memory=1GB"});
  ASSERT_OK(plain.status);
  const int64_t first_stage = plain.metrics[0].at("device_peak_bytes");
  const TinyResult placed =
      run_.Train(job + Metrics() + Flags{absl::StrCat("--device_memory=", first_stage)});
  ASSERT_OK(placed.status);
  EXPECT_EQ(placed.metrics[0].at("device_peak_bytes"), first_stage);
  EXPECT_EQ(ComparableLines(placed.metrics), ComparableLines(plain.metrics));
  EXPECT_GT(Sum(placed, "host_to_device_bytes"), 0);  // of the other one
  EXPECT_GT(Sum(placed, "traffic_lower_bound_bytes"), 0);
  EXPECT_THAT(placed.log, HasSubstr("step 2: the "));
  EXPECT_THAT(placed.log, HasSubstr("bytes an update: host to device "));
}

// C1, and a run that goes on with its states at other homes.
TEST_F(OffloadTest, ResumesWithStatesOnDisk) {
  const Flags job = {"--precision=bf16", "--global_batch=2", "--data_order=shuffled"};
  const TinyResult whole = run_.Train(job + Metrics() + OnHost() + Flags{"--steps=10"});
  ASSERT_OK(whole.status);
  const Flags out = {"--out=" + run_.Path("out")};
  ASSERT_OK(run_.Train(job + out + Metrics() + OnDisk() + Flags{"--steps=7", "--schedule=constant"})
                .status);
  const TinyResult again =
      run_.Train(job + out + Metrics() + OnDisk() + Flags{"--steps=10", "--schedule=constant"});
  ASSERT_OK(again.status);
  EXPECT_THAT(again.log, HasSubstr("goes on with step 8 of 10"));
  ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
  const TinyResult straight =
      run_.Train(job + Metrics() + OnHost() + Flags{"--steps=10", "--schedule=constant"});
  ASSERT_OK(straight.status);
  EXPECT_EQ(ComparableLines(again.metrics), ComparableLines(straight.metrics));
  EXPECT_EQ(StateDifference(again.states, straight.states), "");
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

void GiveUpLockingPrivilege() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

// B2.
TEST_F(OffloadTest, PageLockThatIsNotGrantedIsOneWarning) {
  const Flags job = Flags{"--steps=2", "--precision=bf16"} + OnHost();
  const TinyResult locked = run_.Train(job);
  ASSERT_OK(locked.status);
  struct rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &old), 0);
  const struct rlimit small = {64 << 10, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  GiveUpLockingPrivilege();
  const TinyResult pageable = run_.Train(job);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &old), 0);
  ASSERT_OK(pageable.status);
  EXPECT_EQ(Count(pageable.log, "not page-locked"), 1) << pageable.log;
  EXPECT_THAT(pageable.log, HasSubstr("is 65536 bytes"));
  EXPECT_EQ(StateDifference(pageable.states, locked.states), "");
}

TEST_F(OffloadTest, ADiskThatCannotBeUsedIsRefused) {
  const TinyResult result = run_.Train(
      Flags{"--steps=1", "--device=capped", "--device_memory=1GB", "--offload_dir=/dev/shm"});
  if (result.status.ok()) GTEST_SKIP() << "/dev/shm is a disk here";
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("--offload_dir: /dev/shm"));
}

}  // namespace
}  // namespace colossus
