#include "trainers/lib/run/non_finite_report.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "shardformer/model.h"
#include "tensor/graph/block.h"

namespace colossus {
namespace {

constexpr size_t kMostRows = 64;  // named in a message

std::string BlockText(absl::string_view block, int64_t layers) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (SourceBlock(block) == LayerBlock(layer)) {
      return absl::StrCat("layer ", layer, IsGradientBlock(block) ? ", backward" : ", forward");
    }
  }
  return block.empty() ? "" : absl::StrCat("block ", block);
}

std::string RowsText(const NonFinite& found, const UpdateRows& rows, const BatchShare& share) {
  absl::Span<const int64_t> of = rows.rows;
  std::string text = "the update's rows";
  if (found.micro_batch >= 0 && found.micro_batch < rows.MicroBatches(share.all_rows())) {
    of = rows.Share(found.micro_batch, share);
    text = absl::StrCat("micro-batch ", found.micro_batch, ", rows");
  }
  if (of.empty()) return absl::StrCat("micro-batch ", found.micro_batch, ", which is padding");
  const bool all = of.size() <= kMostRows;
  return absl::StrCat(text, " ", absl::StrJoin(of.subspan(0, all ? of.size() : kMostRows), ", "),
                      all ? "" : ", ...", " of the training data");
}

}  // namespace

NonFiniteReport ReportNonFinite(const UpdateResult& result,
                                const std::optional<FoundOnRank>& on_rank, const UpdateRows& rows,
                                const BatchShare& share, int64_t layers, int ranks) {
  NonFiniteReport report;
  report.what = absl::StrFormat("the loss (%g) or the gradient norm (%g) is not finite",
                                result.loss, result.grad_norm);
  if (!on_rank) {
    report.what += "; computed once more, all values were finite";
    report.remedy = "Numbers that do not repeat point to a fault of memory or processor";
    return report;
  }
  const NonFinite& found = on_rank->what;
  absl::StrAppend(&report.what, "; first: ", ToText(found));
  if (ranks > 1) absl::StrAppend(&report.what, " on rank ", on_rank->rank);
  if (found.op == "state") {
    report.remedy = absl::StrCat(
        "The update before left '", found.value,
        "' so: a smaller optimizer.learning_rate or a longer schedule.warmup_steps may help");
    return report;
  }
  const std::string block = BlockText(found.block, layers);
  absl::StrAppend(&report.what, block.empty() ? "" : ", ", block, "; ",
                  RowsText(found, rows, share));
  report.remedy =
      "A smaller optimizer.learning_rate, a longer schedule.warmup_steps or precision.compute = "
      "\"fp32\" may help; run.skip_nonfinite leaves out so many updates in a row";
  return report;
}

}  // namespace colossus
