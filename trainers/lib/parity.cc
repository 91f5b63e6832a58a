#include "trainers/lib/parity.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_system.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/training_program.h"
#include "shardformer/model_directory.h"
#include "tensor/io/safetensors_writer.h"
#include "tensor/ops/loss.h"
#include "trainers/lib/golden.h"
#include "trainers/lib/output_file.h"
#include "trainers/lib/run_device.h"
#include "trainers/lib/run_lock.h"
#include "trainers/lib/session.h"

namespace colossus {
namespace {

constexpr int kSteps = 3;  // optimizer steps; the loss is known before each and after the last

// What the model computed, under the golden's names, in f32 (scalars too).
using Computed = std::map<std::string, HostTensor>;

struct Inputs {
  HostTensor ids, labels;
  int64_t rows = 0, length = 0;
};

// The reference gives unshifted labels: position t is judged against labels[t + 1].
HostTensor Shifted(const HostTensor& labels) {
  HostTensor shifted(labels.type());
  const int64_t rows = labels.type().dims[0], length = labels.type().dims[1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t < length; ++t) {
      shifted.Set(r * length + t, t + 1 < length ? labels.Get(r * length + t + 1) : kIgnoreLabel);
    }
  }
  return shifted;
}

absl::StatusOr<Inputs> ReadInputs(const Golden& golden) {
  for (const char* name : {"attention_mask", "token_type_ids", "decoder_input_ids",
                           "pixel_values", "input_features"}) {
    if (golden.Has(name)) {
      return absl::UnimplementedError(
          absl::StrCat(golden.file().path(), ": input '", name, "' is not one of a causal model"));
    }
  }
  Inputs inputs;
  ASSIGN_OR_RETURN(inputs.ids, golden.Read("input_ids", DType::kI32));
  ASSIGN_OR_RETURN(HostTensor labels, golden.Read("labels", DType::kI32));
  if (inputs.ids.type().rank() != 2 || labels.type() != inputs.ids.type()) {
    return absl::InvalidArgumentError(absl::StrCat(
        golden.file().path(), ": input_ids and labels must be [rows, length], both alike"));
  }
  inputs.rows = inputs.ids.type().dims[0];
  inputs.length = inputs.ids.type().dims[1];
  inputs.labels = Shifted(labels);
  return inputs;
}

absl::Status CheckIds(const Inputs& inputs, const ModelConfig& config) {
  for (int64_t i = 0; i < inputs.ids.type().elements(); ++i) {
    const double id = inputs.ids.Get(i), label = inputs.labels.Get(i);
    const bool bad_label = label != kIgnoreLabel && (label < 0 || label >= config.vocabulary);
    if (id < 0 || id >= config.vocabulary || bad_label) {
      return absl::InvalidArgumentError(
          absl::StrCat("golden: an id is outside of the vocabulary of ", config.vocabulary));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Program>> CompileLogits(const ModelDirectory& model,
                                                       const Inputs& inputs,
                                                       const Options& options, DType compute,
                                                       Device& device) {
  CompileOptions compile;
  compile.dump_graphs = options.run.dump_graphs;
  ForwardOptions forward;
  forward.rows = inputs.rows;
  forward.length = inputs.length;
  forward.compute = compute;
  forward.loss = false;
  forward.logits = true;
  return CompileForward(model.config(), forward, compile, device);
}

// The program's memory is free again afterwards.
absl::StatusOr<HostTensor> ComputeLogits(const ModelDirectory& model, const Inputs& inputs,
                                         DType compute, std::unique_ptr<Program> program) {
  RETURN_IF_ERROR(program->Allocate());
  for (const StateInfo& info : model.parameters()) {
    ASSIGN_OR_RETURN(HostTensor values, model.Read(info, compute));
    RETURN_IF_ERROR(program->WriteState(info.name, values));
  }
  FeedFunction feeds = [&](absl::string_view name, int) {
    return name == "input_ids" ? &inputs.ids : nullptr;
  };
  ASSIGN_OR_RETURN(Fetched fetched, program->RunPhase(0, feeds));
  return std::move(fetched.at({"logits", 0}));
}

HostTensor Scalar(double value) {
  HostTensor scalar(Type{DType::kF32, {}});
  scalar.Set(0, value);
  return scalar;
}

HostTensor OnDisk(const StateInfo& info, const HostTensor& values, double factor) {
  HostTensor disk(Type{DType::kF32, info.disk_dims});
  for (int64_t i = 0; i < disk.type().elements(); ++i) disk.Set(i, values.Get(i) * factor);
  return disk;
}

absl::StatusOr<std::unique_ptr<TrainingProgram>> CompileSteps(
    const ModelDirectory& model, const Golden& golden, const Inputs& inputs,
    const Options& options, DType compute, Device& device) {
  Plan plan;
  plan.micro_batch = inputs.rows;
  plan.sequence_length = inputs.length;
  plan.precision.compute = compute;
  plan.precision.gradient = DType::kF32;
  plan.recomputation = ParseRecomputation(options.plan.recompute);
  TrainingOptions training;
  training.fetch_gradients = true;
  training.compile.dump_graphs = options.run.dump_graphs;
  training.optimizer = {Optimizer::Kind::kAdamw, golden.beta1, golden.beta2, golden.epsilon, 0,
                        golden.weight_decay};
  return TrainingProgram::Make(model.config(), plan, training, device);
}

absl::Status ComputeSteps(const ModelDirectory& model, const Golden& golden, const Inputs& inputs,
                          DType compute, double loss_scale, TrainingProgram& training,
                          Computed& out) {
  RETURN_IF_ERROR(training.Allocate());
  for (const StateInfo& info : model.parameters()) {
    ASSIGN_OR_RETURN(HostTensor values, model.Read(info, DType::kF32));
    RETURN_IF_ERROR(training.SetParameter(info.name, values));
  }
  UpdateInput input;
  input.micro_batches.push_back({inputs.ids, inputs.labels, {}, {}, 0});
  input.learning_rate = golden.learning_rate;
  input.loss_scale = loss_scale;
  for (int step = 0; step <= kSteps; ++step) {
    if (step == kSteps) {
      for (const StateInfo& info : model.parameters()) {
        std::string state = StateName(
            compute == MasterDType(compute) ? Role::kParameter : Role::kMaster, info.name);
        ASSIGN_OR_RETURN(HostTensor values, training.program().ReadState(state));
        out["final." + info.name] = OnDisk(info, values, 1);
      }
    }
    input.applied = input.step = step;
    ASSIGN_OR_RETURN(UpdateResult result, training.RunUpdate(input));
    const HostTensor loss = Scalar(result.loss);
    out[step == 0 ? "loss" : absl::StrCat("loss_step", step + 1)] = loss;
    if (step > 0) continue;
    out["loss_step1"] = loss;
    out["grad_norm"] = Scalar(result.grad_norm);
    for (const StateInfo& info : model.parameters()) {
      auto found = result.gradients.find({absl::StrCat("gradient/", info.name), -1});
      if (found == result.gradients.end()) continue;
      out["grad." + info.name] = OnDisk(info, found->second, result.gradient_scale);
    }
  }
  return absl::OkStatus();
}

// The largest error of one kind so far, as a share of its limit.
struct Verdict {
  std::string kind, worst;
  double error = 0, limit = 0;
  bool ok = true;

  void Judge(const std::string& what, double value, double most) {
    // "pass if error <= limit": NaN fails.
    const bool pass = value <= most;
    const double share = most > 0 ? value / most : value;
    const double so_far = limit > 0 ? error / limit : error;
    if (worst.empty() || !pass || share > so_far) {
      if (ok || !pass) {
        worst = what;
        error = value;
        limit = most;
      }
    }
    ok = ok && pass;
  }
};

double LargestAbs(const HostTensor& values) {
  double largest = 0;
  for (int64_t i = 0; i < values.type().elements(); ++i) {
    largest = std::max(largest, std::fabs(values.Get(i)));
  }
  return largest;
}

// NaN if the sizes differ or any difference is NaN.
double LargestError(const HostTensor& a, const HostTensor& b) {
  if (a.type().elements() != b.type().elements()) return NAN;
  double largest = 0;
  for (int64_t i = 0; i < a.type().elements(); ++i) {
    const double error = std::fabs(a.Get(i) - b.Get(i));
    if (!(error <= largest)) largest = error;
    if (std::isnan(error)) return NAN;
  }
  return largest;
}

class Comparison {
 public:
  Comparison(const Golden& golden, const Computed& computed, double tolerance)
      : golden_(golden), computed_(computed), tolerance_(tolerance) {}

  absl::StatusOr<std::vector<Verdict>> Run() {
    for (const SafetensorsEntry& entry : golden_.file().entries()) {
      RETURN_IF_ERROR(CompareOne(entry.name));
    }
    if (gradient_square_ > 0) {
      gradients_.Judge("all", std::sqrt(error_square_ / gradient_square_),
                       golden_.limits().gradient_l2 * tolerance_);
    }
    std::vector<Verdict> all;
    for (Verdict* v : {&outputs_, &losses_, &norm_, &gradients_, &each_, &finals_}) {
      if (!v->worst.empty()) all.push_back(*v);
    }
    return all;
  }

 private:
  absl::Status CompareOne(const std::string& name) {
    const GoldenLimits& limits = golden_.limits();
    auto starts = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
    const bool loss = name == "loss" || starts("loss_step");
    if (name != "logits" && !loss && name != "grad_norm" && !starts("grad.") &&
        !starts("final.")) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(HostTensor expected, golden_.Read(name, DType::kF32));
    auto found = computed_.find(name);
    if (found == computed_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the golden has '", name, "', the model does not compute it"));
    }
    const HostTensor& actual = found->second;
    const double error = LargestError(actual, expected), size = LargestAbs(expected);
    if (name == "logits") {
      outputs_.Judge(name, error / size, limits.output * tolerance_);
    } else if (loss) {
      losses_.Judge(name, error, limits.loss * tolerance_);
    } else if (name == "grad_norm") {
      norm_.Judge(name, error / size, limits.gradient_l2 * tolerance_);
    } else if (starts("grad.")) {
      AddSquares(actual, expected);
      each_.Judge(name.substr(5), error,
                  std::max(limits.gradient_each * size, limits.gradient_floor) * tolerance_);
    } else {
      CompareFinal(name.substr(6), actual, expected);
    }
    return absl::OkStatus();
  }

  void AddSquares(const HostTensor& actual, const HostTensor& expected) {
    for (int64_t i = 0; i < expected.type().elements(); ++i) {
      const double error = actual.Get(i) - expected.Get(i);
      error_square_ += error * error;
      gradient_square_ += expected.Get(i) * expected.Get(i);
    }
  }

  // Adam turns rounding noise into whole steps, so tensors that are only noise are left out, and a
  // small share of elements may be off.
  void CompareFinal(const std::string& parameter, const HostTensor& actual,
                    const HostTensor& expected) {
    if (golden_.noise.count(parameter) > 0) return;
    int64_t over = 0;
    const double limit = golden_.limits().final_abs * tolerance_;
    for (int64_t i = 0; i < expected.type().elements(); ++i) {
      over += !(std::fabs(actual.Get(i) - expected.Get(i)) <= limit);
    }
    finals_.Judge(parameter, static_cast<double>(over) / expected.type().elements(),
                  golden_.limits().final_share_over * tolerance_);
  }

  const Golden& golden_;
  const Computed& computed_;
  const double tolerance_;
  double error_square_ = 0, gradient_square_ = 0;
  Verdict outputs_{"output, relative to the largest", "", 0, 0, true};
  Verdict losses_{"loss, absolute", "", 0, 0, true};
  Verdict norm_{"gradient norm, relative", "", 0, 0, true};
  Verdict gradients_{"gradients, relative L2", "", 0, 0, true};
  Verdict each_{"each gradient, absolute", "", 0, 0, true};
  Verdict finals_{"final parameters, share beyond", "", 0, 0, true};
};

absl::Status WriteComputed(FileSystem& files, const std::string& path, const Computed& computed) {
  std::vector<SafetensorsTensor> tensors;
  for (const auto& item : computed) {
    const Dims& dims = item.second.type().dims;
    tensors.push_back({item.first, DType::kF32, {dims.begin(), dims.end()}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, path, std::move(tensors)));
  for (const SafetensorsTensor& tensor : writer->order()) {
    const HostTensor& values = computed.at(tensor.name);
    RETURN_IF_ERROR(
        writer->Append(tensor.name, {static_cast<const char*>(values.raw()),
                                     static_cast<size_t>(values.type().bytes())}));
  }
  return writer->Finish();
}

int Report(const std::vector<Verdict>& verdicts) {
  bool ok = true;
  for (const Verdict& v : verdicts) {
    ok = ok && v.ok;
    std::printf("%-4s %-32s %.2e  limit %.2e  (%s)\n", v.ok ? "ok" : "FAIL", v.kind.c_str(),
                v.error, v.limit, v.worst.c_str());
  }
  std::printf(ok ? "parity: within the limits\n" : "parity: beyond the limits\n");
  return ok ? 0 : 1;
}

}  // namespace

absl::StatusOr<int> RunParity(JobContext& context) {
  const Options& options = context.config.options;
  FileSystem& files = RealFileSystem();
  if (!options.run.out.empty()) {
    RETURN_IF_ERROR(CheckOutsideRuns(files, "--out", options.run.out));
    RETURN_IF_ERROR(TryOutputFile(files, "--out", options.run.out, /*opening=*/""));
  }
  ASSIGN_OR_RETURN(Golden golden, Golden::Open(files, options.parity.golden));
  if (!golden.frozen.empty()) {
    return absl::UnimplementedError(absl::StrCat(options.parity.golden, ": the reference froze '",
                                                 *golden.frozen.begin(),
                                                 "'; parity trains every parameter"));
  }
  ASSIGN_OR_RETURN(ModelDirectory model,
                   ModelDirectory::Open(files, options.model.directory,
                                        {.config_file = options.parity.model_config,
                                         .require_tied = options.model.require_tied}));
  for (const std::string& note : model.notes()) context.log.Info(note);
  ASSIGN_OR_RETURN(Inputs inputs, ReadInputs(golden));
  RETURN_IF_ERROR(CheckIds(inputs, model.config()));
  const DType compute = ParsePrecision(options.precision.compute);
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, MakeDevice(options));
  // Both are refused, if at all, before either takes memory; then one at a time has it.
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingProgram> training,
                   CompileSteps(model, golden, inputs, options, compute, *device));
  ASSIGN_OR_RETURN(std::unique_ptr<Program> forward,
                   CompileLogits(model, inputs, options, compute, *device));
  context.begun = true;
  Computed computed;
  ASSIGN_OR_RETURN(computed["logits"],
                   ComputeLogits(model, inputs, compute, std::move(forward)));
  const double loss_scale = compute == DType::kF16 ? options.precision.loss_scale : 1;
  RETURN_IF_ERROR(ComputeSteps(model, golden, inputs, compute, loss_scale, *training, computed));
  if (!options.run.out.empty()) {
    RETURN_IF_ERROR(WriteComputed(files, options.run.out, computed));
  }
  ASSIGN_OR_RETURN(std::vector<Verdict> verdicts,
                   Comparison(golden, computed, options.parity.tolerance).Run());
  return Report(verdicts);
}

}  // namespace colossus
