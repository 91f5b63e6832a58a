// What saving and loading take beside the memory of training: all ranks of a process together no
// more than the largest tensor of the job.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/testing/heap_counter.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/state_share.h"
#include "trainers/lib/checkpoint/record.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/run/run_output.h"
#include "trainers/lib/run/session.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

// Heap of the process.
struct Figures {
  int64_t before = 0, most = 0;
  int64_t largest = 0;  // bytes of the largest tensor
};

class CheckpointMemoryTest : public ::testing::Test {
 protected:
  // An embedding of 8 MiB in f32, one layer.
  CheckpointMemoryTest() : run_("checkpoint_memory") {
    run_.WriteModel({{"n_embd", 64}, {"n_head", 8}, {"vocab_size", 32768}});
  }

  Figures Save(const Flags& layout) {
    return Measure(layout, SetFirstValues, [](RunOutput& output, Session& session) {
      CheckpointRecord record;
      record.counters.attempted = 1;
      record.model = session.model.raw.dump();
      return output.Save(session, record);
    });
  }

  Figures Load(const Flags& layout) {
    return Measure(layout, nullptr,
                   [](RunOutput& output, Session& session) { return output.Restore(session); });
  }

 private:
  using Prepare = std::function<absl::Status(Session& session)>;
  using Work = std::function<absl::Status(RunOutput& output, Session& session)>;

  // Of `work` on all ranks of a layout, whose memory for training is taken; `prepare` may be none.
  Figures Measure(const Flags& layout, const Prepare& prepare, const Work& work) {
    Figures figures;
    const Flags flags = With(layout, {"--out=" + run_.Path("out"), "--precision=bf16",
                                      "--global_batch=8", "--micro_batch=1", "--steps=9"});
    const auto on_rank = [&](RunOutput& output, Session& session, RankGroup group) -> absl::Status {
      if (prepare) RETURN_IF_ERROR(prepare(session));
      return MeasureRank(output, session, group, work, figures);
    };
    EXPECT_OK(run_.OnRanks(flags, on_rank));
    return figures;
  }

  static absl::Status MeasureRank(RunOutput& output, Session& session, RankGroup group,
                                  const Work& work, Figures& figures) {
    RETURN_IF_ERROR(group.Agree(absl::OkStatus(), "allocated"));
    if (group.first()) {
      for (const JobState& state : session.training->job_states()) {
        const Type type{state.dtype, state.info.global_dims};
        figures.largest = std::max(figures.largest, type.bytes());
      }
      figures.before = HeapBytes();
      ResetHeapPeak();
    }
    RETURN_IF_ERROR(group.Agree(absl::OkStatus(), "begin"));
    RETURN_IF_ERROR(group.Agree(work(output, session), "work"));
    if (group.first()) figures.most = HeapPeak();
    return group.Agree(absl::OkStatus(), "end");
  }

  TinyRun run_;
};

void Expect(const char* what, const Flags& layout, const Figures& figures) {
  const int64_t taken = figures.most - figures.before;
  std::cout << what << " " << absl::StrJoin(layout, " ") << ": " << taken
            << " bytes of heap; the largest tensor has " << figures.largest << std::endl;
  if (!HeapIsCounted()) return;
  EXPECT_GE(taken, int64_t{64} << 10) << "no buffer at all?";
  EXPECT_LE(taken, figures.largest) << what << " " << absl::StrJoin(layout, " ");
}

TEST_F(CheckpointMemoryTest, TakesNoMoreThanTheLargestTensor) {
  const std::vector<Flags> saved = {
      {"--ranks=2", "--zero=3"}, {"--ranks=4", "--zero=1"}, {"--mesh=tensor=4"}};
  const std::vector<Flags> loaded = {{"--ranks=1"},
                                     {"--ranks=4"},
                                     {"--ranks=8", "--zero=3"},
                                     {"--mesh=data=2,tensor=2", "--zero=2"}};
  for (const Flags& save : saved) {
    Expect("save", save, Save(save));
    for (const Flags& load : loaded) Expect("load", load, Load(load));
  }
}

}  // namespace
}  // namespace colossus
