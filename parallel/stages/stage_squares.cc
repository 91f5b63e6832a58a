#include "parallel/stages/stage_squares.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "parallel/pipeline/messages.h"
#include "parallel/square_sums.h"
#include "tensor/graph/builder.h"

namespace colossus {
namespace {

const Type kTotal{DType::kF64, {}};

std::string TotalName(int part, const AxisNames& axes) {
  return absl::StrCat("squares/", part, "/", absl::StrJoin(axes, "."));
}

template <typename T>
bool Has(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

StageSquares StageSquares::Of(std::vector<PartGradient> gradients) {
  StageSquares squares;
  for (const PartGradient& gradient : gradients) {
    if (!Has(squares.groups, gradient.axes)) squares.groups.push_back(gradient.axes);
    if (!Has(squares.parts, gradient.part)) squares.parts.push_back(gradient.part);
  }
  std::sort(squares.parts.begin(), squares.parts.end());
  for (int part : squares.parts) {
    std::vector<AxisNames>& sums = squares.sums[part];
    for (const AxisNames& group : squares.groups) {
      const bool begun =
          std::any_of(gradients.begin(), gradients.end(), [&](const PartGradient& gradient) {
            return gradient.part <= part && gradient.axes == group;
          });
      if (begun) sums.push_back(group);
    }
  }
  squares.gradients = std::move(gradients);
  return squares;
}

absl::StatusOr<Graph> PartSquaresGraph(const StageSquares& squares, size_t which,
                                       const Mesh& mesh) {
  const int part = squares.parts[which];
  const std::string name = absl::StrCat("squares.", part);
  GraphBuilder builder(name);
  builder.SetBlock(name);
  SquareSums sums(builder, mesh);
  sums.SetOrder(squares.groups);
  std::vector<AxisNames> before;
  if (which > 0) before = squares.sums.at(squares.parts[which - 1]);
  for (const AxisNames& group : squares.groups) {
    if (!Has(before, group)) continue;
    sums.Continue(group, builder.Feed(TotalName(squares.parts[which - 1], group), kTotal));
  }
  std::vector<MeasuredGradient> measured;
  for (const PartGradient& gradient : squares.gradients) {
    if (gradient.part != part) continue;
    measured.push_back({gradient.axes, builder.Feed(gradient.name, gradient.type)});
  }
  sums.Add(measured);
  if (which + 1 == squares.parts.size()) {
    builder.Output("sum_squares", sums.Total());
  } else {
    for (const AxisNames& group : squares.sums.at(part)) {
      builder.Output(TotalName(part, group), sums.Of(group));
    }
  }
  return std::move(builder).Build();
}

absl::Status AddStageSquares(const StageSquares& squares, const Mesh& mesh,
                             const StagePipeline& pipeline, int phase, StepBuilder& step) {
  for (size_t i = 0; i < squares.parts.size(); ++i) {
    const int part = squares.parts[i];
    const bool last = i + 1 == squares.parts.size();
    if (pipeline.OnStage(part)) {
      ASSIGN_OR_RETURN(Graph graph, PartSquaresGraph(squares, i, mesh));
      StepSegment segment;
      segment.segment = {graph.name(), std::make_shared<const Graph>(std::move(graph))};
      segment.may_run_on_host = true;
      if (last) segment.fetched = {"sum_squares"};
      step.AddCall(step.AddSegment(std::move(segment)), -1, phase);
    }
    if (last) break;
    Message message;
    message.from = pipeline.stage_of[static_cast<size_t>(part)];
    message.to = pipeline.stage_of[static_cast<size_t>(squares.parts[i + 1])];
    for (const AxisNames& group : squares.sums.at(part)) {
      message.values.push_back({TotalName(part, group), kTotal});
    }
    if (message.from == message.to) continue;
    ASSIGN_OR_RETURN(std::optional<StepSegment> end,
                     EndOf(message, pipeline, absl::StrCat("squares.", part)));
    if (end) step.AddCall(step.AddSegment(*std::move(end)), -1, phase);
  }
  return absl::OkStatus();
}

}  // namespace colossus
