#include "trainers/lib/config/validate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "trainers/lib/config/loss_scale.h"
#include "trainers/lib/config/run_layout.h"

namespace colossus {
namespace {

absl::Status Needs(bool given, const char* key_name, absl::string_view why) {
  if (given) return absl::OkStatus();
  const Key* key = FindKey(key_name);
  CHECK(key != nullptr) << key_name;
  return absl::InvalidArgumentError(
      absl::StrCat("--", key->flag, " (", key->name, ") is needed: ", why));
}

absl::Status OneModel(const Options::Model& model) {
  if (model.preset.empty() != model.directory.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      model.preset.empty()
          ? "no model: give --preset=gpt2-tiny (or another one) or --model=DIR"
          : "model.preset and model.directory both name a model; give one of them");
}

absl::Status CheckDropout(double dropout) {
  if (dropout == -1 || (dropout >= 0 && dropout < 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.dropout is ", dropout, "; it must be -1 or a probability at least 0 and below 1"));
}

// Keys of what ranks share.
absl::Status CheckSharing(const Options& o) {
  const bool chunks = o.plan.chunk_elements != Options().plan.chunk_elements;
  if (o.plan.zero == 0 && !chunks) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(o));
  if (layout.LargestSize("data") * layout.LargestSize("sequence") > 1) return absl::OkStatus();
  const std::string key = o.plan.zero != 0 ? "zero" : "chunk_elements";
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.", key, " is ", o.plan.zero != 0 ? o.plan.zero : o.plan.chunk_elements, ", but ",
      layout.ToString(),
      " has nobody to share with: that are ranks along data and sequence; leave --", key,
      " out, or give one of these axes two ranks or more, as in --ranks=2 or "
      "--mesh=data=2,tensor=2"));
}

absl::Status CheckOverrides(const Options& o) {
  if (o.plan.overrides.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(o));
  int64_t largest = 1;  // of a stage
  for (const char* axis : {"data", "tensor", "sequence"}) largest *= layout.LargestSize(axis);
  if (largest > 1) return absl::OkStatus();
  const bool stages = layout.ranks > 1;
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.overrides is \"", o.plan.overrides, "\", but one rank",
      stages ? ", as each stage has, holds" : " holds",
      " every state whole; leave --overrides out, or give ", stages ? "stages" : "the run",
      " ranks, as in --", stages ? "mesh=stage=2,tensor=2" : "ranks=2 or --mesh=data=2,tensor=2"));
}

absl::Status ValidatePlan(const Options& o) {
  if (!o.run.largest) RETURN_IF_ERROR(OneModel(o.model));
  if (o.run.largest && o.run.device_memory == 0) {
    return Needs(false, "run.device_memory", "without a bound there is no largest model");
  }
  RETURN_IF_ERROR(CheckDropout(o.model.dropout));
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(o));
  return PlanBatch(o.batch.global_batch, o.batch.micro_batch, layout.Size("data")).status();
}

absl::Status ValidatePretrain(const Options& o) {
  RETURN_IF_ERROR(OneModel(o.model));
  RETURN_IF_ERROR(Needs(!o.data.file.empty(), "data.file", "what to train on, or `synthetic`"));
  if (o.data.file == "synthetic" && o.run.steps == 0) {
    return Needs(false, "run.steps", "generated rows have no end");
  }
  const bool validates = !o.data.validation_file.empty() || o.data.validation_share > 0;
  if (o.run.validate_every > 0 && !validates) {
    return absl::InvalidArgumentError(
        "run.validate_every has no effect without validation rows; give --validation_data=FILE or "
        "--validation_share=0.05");
  }
  RETURN_IF_ERROR(CheckDropout(o.model.dropout));
  if (o.precision.compute == "fp16") {
    RETURN_IF_ERROR(Validate(ReadLossScale(o.precision)));
  }
  if (o.run.steps > 0 && o.schedule.warmup_steps > o.run.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.warmup_steps is ", o.schedule.warmup_steps, " but run.steps is ",
                     o.run.steps, ": the peak learning rate would never be reached"));
  }
  if (o.plan.update == "layerwise" && o.optimizer.clip_norm > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.update is layerwise, which updates before the norm of all gradients is known, and "
        "optimizer.clip_norm is ",
        o.optimizer.clip_norm, "; use --clip_norm=0, or --update=whole"));
  }
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(o));
  if (o.run.device == "null" && layout.ranks > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "run.device = \"null\" predicts a run of one rank, this one has ", layout.ranks,
        "; //trainers:plan takes the same flags and says what each rank needs"));
  }
  return PlanBatch(o.batch.global_batch, o.batch.micro_batch, layout.Size("data")).status();
}

}  // namespace

std::string BatchPlan::ToString(int64_t data_parallel) const {
  return absl::StrCat("global batch ", global_batch, " = micro-batch ", micro_batch,
                      " x accumulation ", accumulation, " x data-parallel ", data_parallel);
}

absl::StatusOr<BatchPlan> PlanBatch(int64_t global_batch, int64_t micro_batch,
                                    int64_t data_parallel) {
  CHECK(global_batch >= 0 && micro_batch >= 0 && data_parallel >= 1);
  if (global_batch == 0 && micro_batch == 0) micro_batch = kDefaultRows;
  if (global_batch == 0) global_batch = micro_batch * data_parallel;
  if (global_batch < data_parallel) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch.global_batch is ", global_batch, " rows for ", data_parallel,
        " data-parallel ranks: a micro-batch would be empty; use at least ", data_parallel));
  }
  if (micro_batch == 0 && global_batch % data_parallel == 0) {
    micro_batch = global_batch / data_parallel;
  }
  const int64_t unit = std::max<int64_t>(micro_batch, 1) * data_parallel;
  if (global_batch % unit != 0) {
    const int64_t below = global_batch / unit * unit;
    return absl::InvalidArgumentError(
        absl::StrCat(unit, " (micro-batch ", std::max<int64_t>(micro_batch, 1), " x data-parallel ",
                     data_parallel, ") does not divide ", global_batch, " (batch.global_batch); ",
                     below > 0 ? absl::StrCat(below, " or ") : "", below + unit, " would do"));
  }
  return BatchPlan{global_batch, micro_batch, global_batch / unit};
}

absl::StatusOr<int64_t> RowLength(int64_t given, int64_t positions) {
  constexpr int64_t kDefault = 1024;
  if (given == 0) return positions == 0 ? kDefault : std::min(positions, kDefault);
  if (positions == 0 || given <= positions) return given;
  return absl::InvalidArgumentError(absl::StrCat("data.sequence_length is ", given,
                                                 " but the model has ", positions, " positions"));
}

absl::Status Validate(Trainer trainer, const Options& o) {
  if (trainer == Trainer::kPretrain) {
    RETURN_IF_ERROR(ValidatePretrain(o));
  } else if (trainer == Trainer::kPlan) {
    RETURN_IF_ERROR(ValidatePlan(o));
  } else if (trainer == Trainer::kTokenize) {
    RETURN_IF_ERROR(Needs(!o.data.tokenizer.empty(), "data.tokenizer",
                          "bytes, a tokenizer.json or its folder"));
    if (o.data.file == "synthetic") {
      return absl::InvalidArgumentError("data.file is synthetic, which is no text");
    }
  } else {
    RETURN_IF_ERROR(Needs(!o.model.directory.empty(), "model.directory", "which model to use"));
  }
  if (trainer == Trainer::kPretrain || trainer == Trainer::kParity || trainer == Trainer::kPlan) {
    RETURN_IF_ERROR(CheckSharing(o));
    RETURN_IF_ERROR(CheckOverrides(o));
  }
  if (trainer == Trainer::kEvaluate) {
    RETURN_IF_ERROR(Needs(!o.data.file.empty(), "data.file", "what to evaluate on"));
  }
  if (trainer == Trainer::kParity) {
    RETURN_IF_ERROR(Needs(!o.parity.golden.empty(), "parity.golden", "what to compare with"));
  }
  if (trainer == Trainer::kConvert) {
    RETURN_IF_ERROR(Needs(!o.run.out.empty(), "run.out", "where to write the directory"));
  }
  if (o.run.device == "capped" && o.run.device_memory == 0) {
    return Needs(false, "run.device_memory", "the capacity of the capped device");
  }
  return absl::OkStatus();
}

}  // namespace colossus
