#include "trainers/lib/run/measured_schedule.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/time_pipeline.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/report/progress.h"

namespace colossus {
namespace {

std::string TimesText(const PipelineCosts& costs) {
  std::vector<std::string> parts;
  for (const PartCosts& part : costs.parts) {
    parts.push_back(absl::StrFormat("%.3g/%.3g/%.3g", 1e3 * part.forward, 1e3 * part.backward_input,
                                    1e3 * part.backward_weight));
  }
  return absl::StrFormat(
      "measured ms of forward/backward-input/backward-weight by part: %s; of a message: %.3g",
      absl::StrJoin(parts, ", "), 1e3 * costs.communication);
}

absl::Status CompileOnAll(Session& session) {
  const KeepAlive alive(session.group);
  return session.group.Agree(CompileAgain(session), "compile");
}

absl::Status TakeTrialMemory(Session& session) {
  const KeepAlive alive(session.group);  // there may be much of it
  return session.group.Agree(PrepareTrial(*session.training), "trial memory");
}

bool GoesByMeasuredTimes(const Session& session) {
  return session.plan.stages.size() > 1 && session.plan.schedule == kSearchedSchedule &&
         session.group.size() > 1 && session.device->computes();
}

absl::StatusOr<PipelineCosts> RunTrial(Session& session) {
  session.group.At(0, "trial");
  absl::StatusOr<PipelineCosts> costs =
      TimePipeline(*session.training, session.model.vocabulary, *session.group.world());
  RETURN_IF_ERROR(session.group.Agree(costs.status(), "trial"));
  return costs;
}

}  // namespace

absl::Status MeasureSchedule(Session& session, Log& log, bool* begun) {
  if (!GoesByMeasuredTimes(session)) return absl::OkStatus();
  RETURN_IF_ERROR(TakeTrialMemory(session));
  *begun = true;
  const Timeline predicted = session.training->compiled().pipeline->timeline;
  ASSIGN_OR_RETURN(const PipelineCosts costs, RunTrial(session));
  *begun = false;
  ASSIGN_OR_RETURN(const double before, SecondsOf(predicted, costs));
  session.compiled_with.pipeline.measured = costs;
  const absl::Status compiled = CompileOnAll(session);
  if (absl::IsResourceExhausted(compiled)) {
    session.compiled_with.pipeline.measured.reset();
    log.Info(absl::StrCat("pipeline: ", TimesText(costs),
                          "; the order by predicted times stays, since the one by these does not "
                          "fit: ",
                          compiled.message()));
    return CompileOnAll(session);
  }
  RETURN_IF_ERROR(compiled);
  ASSIGN_OR_RETURN(const double after,
                   SecondsOf(session.training->compiled().pipeline->timeline, costs));
  log.Info(absl::StrFormat(
      "pipeline: %s; by these an update takes %.4g ms, in the order by predicted times %.4g ms; "
      "memory: %s on the device",
      TimesText(costs), 1e3 * after, 1e3 * before, BytesText(session.device_bytes())));
  return absl::OkStatus();
}

}  // namespace colossus
