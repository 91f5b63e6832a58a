// ForwardRun: logits of a small model on all ranks of a plan, as threads.
//
// Purpose: what attention sees, whatever the layout: which tokens a position's logits depend on.
// Thread-safety: functions of their arguments. Ownership: plain values.
//
//   ForwardRun run{SmallMistral(), plan, {IntRows({{1, 2, 3, 4, 5, 6}})}};
//   ASSERT_OK_AND_ASSIGN(std::vector<HostTensor> logits, LogitsOf(run));
//   EXPECT_THAT(TokensSeen(run), IsOkAndHolds(ElementsAre(1, 2, 3, 3, 3, 3)));
#ifndef COLOSSUS_TESTS_LAYOUTS_FORWARD_RUN_H_
#define COLOSSUS_TESTS_LAYOUTS_FORWARD_RUN_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/host_tensor.h"

namespace colossus {

// Runs `body` on all ranks of the plan's mesh, a thread each, with a device of its own. Error: of
// the rank that failed first.
absl::Status OnPlanRanks(const ModelConfig& config, const Plan& plan,
                         const std::function<absl::Status(Device&, int rank)>& body);

// Takes memory; parameters from RandomValues (layout_run.h), other states zero.
absl::Status SetRandomParameters(RankProgram& run);

struct ForwardRun {
  ModelConfig config;
  Plan plan;
  std::vector<HostTensor> ids;          // i32[rows, length]: a forward each
  HostTensor positions, segments = {};  // of every pass, if the plan is packed
};

// f32[rows, length, vocabulary] of each pass. Error: ranks do not have the same bits, too.
absl::StatusOr<std::vector<HostTensor>> LogitsOf(const ForwardRun& run);

// By position, the number of tokens that its logits depend on. REQUIRES: one row in one pass.
absl::StatusOr<std::vector<int>> TokensSeen(ForwardRun run);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_LAYOUTS_FORWARD_RUN_H_
