#include "trainers/lib/run/train.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "gemini/report.h"
#include "trainers/lib/checkpoint/run_lock.h"
#include "trainers/lib/config/loss_scale.h"
#include "trainers/lib/data/sampler.h"
#include "trainers/lib/ranks/first_non_finite.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/link_bytes.h"
#include "trainers/lib/report/flops.h"
#include "trainers/lib/report/matmul_peak.h"
#include "trainers/lib/report/metrics.h"
#include "trainers/lib/report/output_file.h"
#include "trainers/lib/report/profile_report.h"
#include "trainers/lib/report/progress.h"
#include "trainers/lib/report/tier_report.h"
#include "trainers/lib/run/measured_schedule.h"
#include "trainers/lib/run/non_finite_report.h"
#include "trainers/lib/run/resume.h"
#include "trainers/lib/run/run_output.h"
#include "trainers/lib/run/schedule.h"
#include "trainers/lib/run/stop_between.h"
#include "trainers/lib/run/stop_signal.h"
#include "trainers/lib/run/warm_up.h"

namespace colossus {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // written as null
constexpr double kRecent = 0.9;  // weight of the past in the mean seconds of an update

class TrainingRun {
 public:
  TrainingRun(FileSystem& files, JobContext& context, const TrainHooks& hooks,
              const RunLayout& layout, RankGroup group, RunInputs& inputs)
      : files_(files),
        context_(context),
        options_(context.config.options),
        log_(context.log),
        hooks_(hooks),
        layout_(layout),
        group_(group),
        inputs_(inputs) {}

  // Checks everything, takes memory, sets first or saved values.
  absl::Status Open();
  absl::StatusOr<int> Run();

 private:
  absl::Status PlanUpdates();
  absl::Status Resume();
  absl::Status LookForStop();
  absl::Status OpenMetrics();
  absl::Status CheckProfile();
  absl::Status TakeMemory();
  absl::Status MeasurePeak();

  absl::Status Step();
  UpdateInput NextInput();
  absl::StatusOr<UpdateResult> Update(const UpdateInput& input, StepObserver* observer);
  // What follows from an update that was not applied: says so in `result` and the log, and counts.
  // Error: the run must end after this step.
  absl::Status Judge(const UpdateInput& input, UpdateResult* result);
  absl::Status Overflowed(UpdateResult* result);
  absl::Status NotFinite(const UpdateInput& input, UpdateResult* result);
  std::unique_ptr<StepObserver> ObserverOf(int64_t step) const;
  UpdateMetrics MetricsOf(const UpdateInput& input, const UpdateResult& result, double seconds);
  absl::Status Validate(UpdateMetrics* metrics);
  absl::Status SaveIfDue();
  absl::Status Save();
  // For an error that leaves the values as they should be: `reason`, with what became of them.
  absl::Status SaveBeforeEnding(absl::Status reason);
  absl::Status Finish();
  absl::Status ReportMemory();
  absl::Status ReportProfile();

  bool profiles() const { return options_.run.profile && group_.first(); }
  bool last() const { return counters_.attempted >= total_; }
  bool computes() const { return session_->device->computes(); }
  // Whether something that happens `every` updates (0: only at the end) happens after this one.
  bool Due(int64_t every) const {
    return last() || (every > 0 && counters_.attempted % every == 0);
  }

  FileSystem& files_;
  JobContext& context_;
  const Options& options_;
  Log& log_;
  const TrainHooks& hooks_;
  const RunLayout& layout_;
  RankGroup group_;
  RunInputs& inputs_;

  std::optional<RunOutput> output_;
  std::unique_ptr<Session> session_;
  std::optional<Sampler> sampler_;
  std::unique_ptr<MetricsWriter> metrics_;  // null: none asked for
  std::optional<UpdateProfiler> profiler_;  // none: no profile asked for
  RateSchedule schedule_;
  int64_t total_ = 0;  // updates of the whole run, attempts
  Counters counters_;
  std::optional<LossScale> loss_scale_;  // fp16 runs
  UpdateRows rows_;                      // of the running update
  ModelSize size_;
  double peak_ = 0;            // flop/s
  double mean_seconds_ = 0;    // of recent updates
  bool saved_ = false;         // the present values are in a checkpoint
  int stopped_ = 0;            // signal
  int fault_rank_ = 0;         // that made the newest value that is not finite
  std::optional<LinkBytes> links_;
  std::optional<TierBytesMoved> tiers_;
  std::unique_ptr<Communicator> stage_ranks_;
  std::optional<WarmUp> warm_up_;  // none: an observer sees every update
  int64_t resident_ = 0;           // most of the process before it took memory
  PlacementReport placed_;         // what is moved: by the newest update
  TierFigures tier_figures_;
  std::optional<UpdateMetrics> newest_;
  std::optional<Evaluation> evaluation_;  // of the newest values that were evaluated
  Batch batch_;
};

absl::Status TrainingRun::Open() {
  ASSIGN_OR_RETURN(output_, RunOutput::Open(files_, options_.run, log_, group_));
  ASSIGN_OR_RETURN(session_, OpenSession(inputs_, context_.config, layout_, group_));
  RETURN_IF_ERROR(PlanUpdates());
  if (output_->resumed() != nullptr) RETURN_IF_ERROR(Resume());
  DescribeSession(*session_, log_);
  RETURN_IF_ERROR(output_->TryToWrite());
  RETURN_IF_ERROR(group_.AgreeOnFirst(OpenMetrics(), "open metrics"));
  RETURN_IF_ERROR(group_.AgreeOnFirst(CheckProfile(), "open profile"));
  resident_ = HostPeakBytes();
  if (!last()) RETURN_IF_ERROR(MeasureSchedule(*session_, log_, &context_.begun));
  RETURN_IF_ERROR(group_.Agree(TakeMemory(), "take memory"));
  context_.begun = true;
  return MeasurePeak();
}

absl::Status TrainingRun::PlanUpdates() {
  ASSIGN_OR_RETURN(sampler_, Sampler::Make({.rows = session_->data->train->rows(),
                                            .global_batch = session_->batch.global_batch,
                                            .seed = static_cast<uint64_t>(options_.run.seed),
                                            .shuffled = options_.data.order == "shuffled",
                                            .drop_tail = options_.data.tail == "drop"}));
  total_ = options_.run.steps > 0
               ? options_.run.steps
               : std::max<int64_t>(options_.run.epochs, 1) * sampler_->updates_per_epoch();
  if (options_.schedule.warmup_steps > total_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.warmup_steps is ", options_.schedule.warmup_steps, " but the run has ", total_,
        " updates: the peak learning rate would never be reached"));
  }
  schedule_ = MakeSchedule(options_, total_);
  if (session_->plan.precision.compute == DType::kF16) {
    loss_scale_.emplace(ReadLossScale(options_.precision));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::Resume() {
  const Checkpoint& checkpoint = *output_->resumed();
  // First: other ids make other rows, and perhaps another end in the model's config.
  RETURN_IF_ERROR(output_->CheckTokenizer(*session_));
  RETURN_IF_ERROR(CheckSameRun(checkpoint, session_->config, session_->model,
                               session_->data->train->rows(), log_));
  RETURN_IF_ERROR(output_->CheckStates(*session_));
  RETURN_IF_ERROR(sampler_->Seek(checkpoint.record().data));
  counters_ = checkpoint.record().counters;
  if (loss_scale_ && checkpoint.record().loss_scale) {
    loss_scale_->set_state(*checkpoint.record().loss_scale);
  }
  saved_ = true;
  if (counters_.attempted > total_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s is the end of step %d, but the run is to have %d updates (run.steps, run.epochs): give "
        "at least %d, or another --out",
        checkpoint.path(), counters_.attempted, total_, counters_.attempted));
  }
  log_.Info(last() ? absl::StrFormat("all %d updates of the run are done", total_)
                   : absl::StrFormat("goes on with step %d of %d", counters_.attempted + 1,
                                     total_));
  return absl::OkStatus();
}

absl::Status TrainingRun::OpenMetrics() {
  const std::string& path = options_.run.metrics;
  if (path.empty() || !group_.first()) return absl::OkStatus();
  if (output_->resumed() == nullptr) {
    ASSIGN_OR_RETURN(metrics_, MetricsWriter::Create(files_, path, log_));
  } else {
    ASSIGN_OR_RETURN(metrics_, MetricsWriter::Resume(files_, path, counters_.attempted, log_));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::CheckProfile() {
  const std::string& path = options_.run.profile_file;
  if (!profiles() || path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOutsideCheckpoints(files_, "--profile_file", path));
  RETURN_IF_ERROR(CheckOtherFile("--profile_file", path, "--metrics", options_.run.metrics));
  return TryOutputFile(files_, "--profile_file", path, kProfileJsonOpening);
}

absl::Status TrainingRun::TakeMemory() {
  const KeepAlive alive(group_);  // there may be much of it
  RETURN_IF_ERROR(session_->training->Allocate());
  const absl::Status locked = session_->training->program().LockHostPages();
  if (!locked.ok()) log_.Warning(locked.message());
  return output_->resumed() != nullptr ? output_->Restore(*session_) : SetFirstValues(*session_);
}

absl::Status TrainingRun::MeasurePeak() {
  links_.emplace(session_->own.communicators.get(), layout_.mesh);
  Program& program = session_->training->program();
  if (profiles()) profiler_.emplace(program, total_ - counters_.attempted);
  tiers_.emplace(program);
  if (!options_.run.profile && !hooks_.observer) {
    ASSIGN_OR_RETURN(stage_ranks_, session_->StageRanks());
    warm_up_.emplace(program, group_, stage_ranks_ ? RankGroup(stage_ranks_.get()) : group_);
  }
  placed_ = ReportUpdate(program);
  size_ = SizeOfModel(session_->model, session_->training->parameters(),
                      session_->plan.sequence_length);
  if (hooks_.matmul_peak) {
    peak_ = *hooks_.matmul_peak;
  } else {
    ASSIGN_OR_RETURN(peak_,
                     MeasureMatmulPeak(*session_->device, session_->plan.precision.compute,
                                       program.options().rates));
  }
  log_.Info(absl::StrFormat("matmul peak: %.1f Gflop/s %s with %d threads", peak_ / 1e9,
                            computes() && !hooks_.matmul_peak ? "measured" : "declared",
                            session_->device->threads()));
  if (!computes()) {
    log_.Info("the null device predicts time and memory; losses and norms are not computed");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> TrainingRun::Run() {
  RETURN_IF_ERROR(LookForStop());
  while (!last() && stopped_ == 0) {
    RETURN_IF_ERROR(Step());
    RETURN_IF_ERROR(LookForStop());
    RETURN_IF_ERROR(SaveIfDue());
  }
  const absl::Status reported = ReportProfile();
  if (stopped_ != 0 && !last()) {
    log_.Info(absl::StrFormat("stopped by signal %d after step %d; newest checkpoint: %s",
                              stopped_, counters_.attempted, output_->newest()));
    RETURN_IF_ERROR(reported);
    return 128 + stopped_;
  }
  RETURN_IF_ERROR(Finish());
  RETURN_IF_ERROR(reported);  // the model is there all the same
  return stopped_ == 0 ? 0 : 128 + stopped_;
}

// A signal reaches one rank or all, sooner or later; all stop after the same step.
absl::Status TrainingRun::LookForStop() {
  const int asked = hooks_.stop ? hooks_.stop() : 0;
  ASSIGN_OR_RETURN(const int64_t agreed, group_.Max(asked, "stop"));
  stopped_ = static_cast<int>(agreed);
  return absl::OkStatus();
}

UpdateInput TrainingRun::NextInput() {
  const Plan& plan = session_->plan;
  const BatchShare share = session_->share();
  rows_ = sampler_->Next();
  UpdateInput input;
  for (int64_t m = 0; m < rows_.MicroBatches(share.all_rows()); ++m) {
    FillBatch(*session_->data->train, rows_.Share(m, share), share.micro_batch, &batch_);
    input.micro_batches.push_back(ToMicroBatch(batch_, plan.packed, m * share.all_rows()));
  }
  input.learning_rate = LearningRate(schedule_, counters_.applied);
  input.clip_norm = options_.optimizer.clip_norm;
  input.applied = counters_.applied;
  input.step = counters_.attempted;
  input.seed = static_cast<uint64_t>(options_.run.seed);
  if (loss_scale_) input.loss_scale = loss_scale_->value();
  return input;
}

std::unique_ptr<StepObserver> TrainingRun::ObserverOf(int64_t step) const {
  return hooks_.observer ? hooks_.observer(step, session_->training->program()) : nullptr;
}

absl::StatusOr<UpdateResult> TrainingRun::Update(const UpdateInput& input,
                                                 StepObserver* observer) {
  ASSIGN_OR_RETURN(UpdateResult result, session_->training->RunUpdate(input, observer));
  ++counters_.attempted;
  saved_ = false;
  if (!computes() || result.tokens == 0) result.loss = result.grad_norm = kNone;
  if (!result.skipped.empty()) return result;
  ++counters_.applied;
  counters_.nonfinite_in_a_row = 0;
  if (loss_scale_) loss_scale_->Applied();
  return result;
}

absl::Status TrainingRun::Judge(const UpdateInput& input, UpdateResult* result) {
  if (result->skipped.empty()) return absl::OkStatus();
  ++counters_.skipped;
  absl::Status fault;
  if (!result->finite) {
    // A forward that is not finite has nothing to do with the loss scale.
    const bool overflow = loss_scale_ && std::isfinite(result->loss);
    fault = overflow ? Overflowed(result) : NotFinite(input, result);
  }
  log_.Warning(absl::StrFormat("step %d is skipped: %s; skipped so far: %d", counters_.attempted,
                               result->skipped, counters_.skipped));
  if (fault.ok()) return fault;
  return absl::Status(fault.code(),
                      absl::StrFormat("step %d: %s. No parameter was changed by this step; newest "
                                      "checkpoint: %s",
                                      counters_.attempted, std::string(fault.message()),
                                      output_->newest()));
}

absl::Status TrainingRun::Overflowed(UpdateResult* result) {
  result->skipped = absl::StrFormat("the gradients overflowed at loss scale %g",
                                    loss_scale_->value());
  RETURN_IF_ERROR(loss_scale_->Overflowed());
  absl::StrAppendFormat(&result->skipped, ", which is %g now", loss_scale_->value());
  return absl::OkStatus();
}

absl::Status TrainingRun::NotFinite(const UpdateInput& input, UpdateResult* result) {
  const std::unique_ptr<StepObserver> observer = ObserverOf(counters_.attempted);
  ASSIGN_OR_RETURN(
      const std::optional<FoundOnRank> found,
      FindNonFiniteOnRanks(*session_->training, input, observer.get(), group_));
  const BatchShare share = session_->share(found ? found->rank : group_.rank());
  fault_rank_ = found ? found->rank : 0;
  const NonFiniteReport report =
      ReportNonFinite(*result, found, rows_, share, session_->model.layers, layout_.ranks);
  result->skipped = report.what;
  ++counters_.nonfinite_in_a_row;
  if (counters_.nonfinite_in_a_row <= options_.run.skip_nonfinite) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "%s%s. %s", report.what,
      counters_.nonfinite_in_a_row > 1
          ? absl::StrFormat(" (number %d in a row, run.skip_nonfinite is %d)",
                            counters_.nonfinite_in_a_row, options_.run.skip_nonfinite)
          : "",
      report.remedy));
}

absl::Status TrainingRun::Step() {
  Clock& clock = session_->device->clock();
  const double start = clock.Seconds();
  const DataPosition position = sampler_->position();
  group_.At(counters_.attempted + 1, "data");
  if (hooks_.before_data) RETURN_IF_ERROR(hooks_.before_data(counters_.attempted + 1));
  const UpdateInput input = NextInput();
  group_.At(counters_.attempted + 1, "update");
  const double data_seconds = clock.Seconds() - start;
  const std::unique_ptr<StepObserver> given = ObserverOf(counters_.attempted + 1);
  StepObserver* inner = given != nullptr ? given.get()
                        : profiler_      ? profiler_->Next()
                        : warm_up_       ? warm_up_->Next()
                                         : nullptr;
  StopBetweenMicroBatches stop(session_->training->program(), hooks_.stop, hooks_.finish_seconds,
                               inner, group_, /*finishes=*/session_->plan.stages.size() > 1);
  absl::StatusOr<UpdateResult> updated = Update(input, stop.needed() ? &stop : inner);
  if (stop.given_up()) {
    log_.Info(absl::StrFormat("step %d is given up; it will be computed again",
                              counters_.attempted + 1));
    if (profiler_ && given == nullptr && inner != nullptr) {
      log_.Info("no profile: the update that was given up is part of it");
      profiler_.reset();
    }
    return sampler_->Seek(position);
  }
  if (!updated.ok()) return updated.status();
  const double seconds = clock.Seconds() - start;
  if (profiler_) profiler_->Done({seconds, data_seconds});
  if (warm_up_) {
    ASSIGN_OR_RETURN(const std::string placed, warm_up_->Done(seconds));
    if (!placed.empty()) log_.Info(absl::StrCat("step ", counters_.attempted, ": ", placed));
    if (!placed.empty()) placed_ = ReportUpdate(session_->training->program());
  }
  UpdateResult& result = *updated;
  ASSIGN_OR_RETURN(auto link_bytes, links_->Next(group_));
  ASSIGN_OR_RETURN(placed_.moved, tiers_->Next(group_));
  ASSIGN_OR_RETURN(tier_figures_, tiers_->Figures(placed_, group_));
  const absl::Status fault = Judge(input, &result);
  UpdateMetrics metrics = MetricsOf(input, result, seconds);
  metrics.link_bytes = std::move(link_bytes);
  if (hooks_.after_update) RETURN_IF_ERROR(hooks_.after_update(counters_.attempted, *session_));
  if (result.finite && Due(options_.run.validate_every)) RETURN_IF_ERROR(Validate(&metrics));
  newest_ = metrics;
  // Before the checkpoint: a run that goes on from it finds the line of every step before.
  absl::Status written = group_.AgreeOnFirst(
      metrics_ ? metrics_->Write(metrics) : absl::OkStatus(), "metrics");
  if (!fault.ok()) {
    // All ranks end for it, the one at fault first, so that it is the one that is named.
    if (group_.rank() != fault_rank_) RETURN_IF_ERROR(group_.Agree(absl::OkStatus(), "fault"));
    return fault;
  }
  return written.ok() ? written : SaveBeforeEnding(std::move(written));
}

UpdateMetrics TrainingRun::MetricsOf(const UpdateInput& input, const UpdateResult& result,
                                     double seconds) {
  mean_seconds_ =
      mean_seconds_ == 0 ? seconds : kRecent * mean_seconds_ + (1 - kRecent) * seconds;
  ProgressInput now;
  now.step = counters_.attempted;
  now.last_step = total_;
  now.loss = result.loss;
  now.rows = session_->plan.rows();
  now.devices = layout_.ranks;
  now.sequence_length = session_->plan.sequence_length;
  now.counting_tokens = result.tokens;
  now.seconds = seconds;
  now.seconds_left_per_update = mean_seconds_;
  now.flops_per_token = ModelFlopsPerToken(size_);
  now.peak_flops_per_second = peak_;
  now.device_peak_bytes = tier_figures_.device_peak;
  now.host_peak_bytes = tier_figures_.host_peak;
  const Progress progress = ComputeProgress(now);
  log_.Progress(ProgressLine(progress));
  UpdateMetrics metrics;
  metrics.step = counters_.attempted;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  metrics.lr = input.learning_rate;
  metrics.tokens = result.tokens;
  metrics.step_seconds = seconds;
  metrics.tokens_per_second = progress.tokens_per_second;
  metrics.model_flops_utilization = progress.utilization;
  metrics.device_peak_bytes = progress.device_peak_bytes;
  metrics.host_peak_bytes = progress.host_peak_bytes;
  if (loss_scale_) metrics.loss_scale = input.loss_scale;
  metrics.skipped = result.skipped;
  metrics.host_to_device_bytes = Total(placed_.moved.host_to_device);
  metrics.device_to_host_bytes = Total(placed_.moved.device_to_host);
  metrics.disk_read_bytes = Total(placed_.moved.disk_read);
  metrics.disk_write_bytes = Total(placed_.moved.disk_written);
  metrics.traffic_lower_bound_bytes = tier_figures_.traffic_lower_bound;
  metrics.hidden_transfer_fraction = tier_figures_.hidden_transfer_fraction;
  return metrics;
}

absl::Status TrainingRun::Validate(UpdateMetrics* metrics) {
  if (!session_->validation) return absl::OkStatus();
  group_.At(counters_.attempted, "validate");
  ASSIGN_OR_RETURN(evaluation_, session_->validation->Run(*session_->data->validation,
                                                          session_->data->token_bytes));
  const std::optional<double> bits = evaluation_->bits_per_byte();
  log_.Info(absl::StrFormat("step %d: validation loss %.4f%s", counters_.attempted,
                            evaluation_->loss(),
                            bits ? absl::StrFormat(", %.4f bits per byte", *bits) : ""));
  if (metrics != nullptr) {
    metrics->validation_loss = evaluation_->loss();
    metrics->validation_bits_per_byte = bits;
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::SaveIfDue() {
  if (!output_->saves() || saved_ || counters_.attempted == 0) return absl::OkStatus();
  if (!Due(options_.run.save_every) && stopped_ == 0) return absl::OkStatus();
  group_.At(counters_.attempted, "save");
  absl::Status status = Save();
  if (status.ok() || last() || stopped_ != 0 || absl::IsDataLoss(status)) return status;
  // Later ones may succeed, and the older ones are as they were.
  log_.Error(absl::StrFormat("step %d is not saved, training goes on: %s; newest checkpoint: %s",
                             counters_.attempted, std::string(status.message()),
                             output_->newest()));
  return absl::OkStatus();
}

absl::Status TrainingRun::SaveBeforeEnding(absl::Status reason) {
  const absl::Status saved = output_->saves() ? Save() : absl::OkStatus();
  return absl::Status(
      reason.code(),
      absl::StrFormat("%s; the run ends after step %d%s; newest checkpoint: %s",
                      std::string(reason.message()), counters_.attempted,
                      saved.ok() ? "" : ", not saved: " + std::string(saved.message()),
                      output_->newest()));
}

absl::Status TrainingRun::Save() {
  CheckpointRecord record;
  record.counters = counters_;
  record.data = sampler_->position();
  if (loss_scale_) record.loss_scale = loss_scale_->state();
  record.data_rows = session_->data->train->rows();
  record.config = ToToml(session_->config);
  record.model = session_->model.raw.dump();
  RETURN_IF_ERROR(output_->Save(*session_, std::move(record)));
  saved_ = true;
  return absl::OkStatus();
}

absl::Status TrainingRun::ReportProfile() {
  if (!profiler_) return absl::OkStatus();
  if (profiler_->updates() == 0) {
    log_.Info("profile: no update ran");
    return absl::OkStatus();
  }
  ProfileFigures figures;
  figures.warm_up = profiler_->warm_up();
  figures.updates = profiler_->updates();
  figures.sums = profiler_->sums();
  figures.tokens_per_update = session_->plan.rows() * session_->plan.sequence_length;
  figures.flops_per_token = ModelFlopsPerToken(size_);
  figures.peak_flops_per_second = peak_;
  figures.threads = session_->device->threads();
  for (const std::string& line : ProfileLines(profiler_->profile(), figures)) log_.Info(line);
  const std::string& path = options_.run.profile_file;
  if (path.empty()) return absl::OkStatus();
  return files_.WriteFileAtomically(path, ProfileJson(profiler_->profile(), figures));
}

absl::Status TrainingRun::ReportMemory() {
  if (!newest_) return absl::OkStatus();
  if (tier_figures_.traffic_lower_bound) {  // on some rank something is placed
    for (const std::string& line : ReportLines(placed_)) log_.Info(line);
  }
  if (!computes()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t planned, PlannedBytes(session_->training->program(),
                                                       layout_.processes, group_));
  log_.Info(MemoryLine(planned, HostPeakBytes() - resident_));
  return absl::OkStatus();
}

absl::Status TrainingRun::Finish() {
  RETURN_IF_ERROR(ReportMemory());
  if (!evaluation_) RETURN_IF_ERROR(Validate(nullptr));  // resumed after the last update
  if (output_->saves()) {
    group_.At(counters_.attempted, "export");
    RETURN_IF_ERROR(output_->Export(*session_));
  }
  if (!group_.first()) return absl::OkStatus();
  if (counters_.skipped > 0) {
    log_.Warning(absl::StrFormat("%d of %d updates were skipped", counters_.skipped,
                                 counters_.attempted));
  }
  std::printf("steps: %d\n", static_cast<int>(counters_.attempted));
  if (newest_ && computes()) std::printf("loss: %.4f\n", newest_->loss);
  if (newest_ && !computes()) {
    std::printf("predicted step seconds: %.6g\n", newest_->step_seconds);
    std::printf("predicted device bytes: %lld\n",
                static_cast<long long>(newest_->device_peak_bytes));
  }
  if (evaluation_) {
    std::printf("validation loss: %.4f\n", evaluation_->loss());
    if (const std::optional<double> bits = evaluation_->bits_per_byte()) {
      std::printf("validation bits per byte: %.4f\n", *bits);
    }
  }
  if (output_->saves()) std::printf("model: %s\n", output_->model_folder().c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> TrainRank(FileSystem& files, JobContext& context, const TrainHooks& hooks,
                              const RunLayout& layout, RankGroup group, RunInputs& inputs) {
  TrainingRun run(files, context, hooks, layout, group, inputs);
  RETURN_IF_ERROR(run.Open());
  return run.Run();
}

absl::StatusOr<int> Train(FileSystem& files, JobContext& context, const TrainHooks& hooks) {
  RunInputs inputs(files, context.config.options, context.log);
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(context.config.options));
  return RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) {
    return TrainRank(files, rank, hooks, layout, group, inputs);
  });
}

absl::StatusOr<int> RunPretrain(JobContext& context) {
  const StopSignal signal;
  TrainHooks hooks;
  hooks.stop = [&] { return signal.received(); };
  return Train(RealFileSystem(), context, hooks);
}

}  // namespace colossus
