#include "trainers/lib/answer/parity.h"

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
#include "shardformer/model_directory.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/safetensors_writer.h"
#include "trainers/lib/answer/golden.h"
#include "trainers/lib/answer/parity_compute.h"
#include "trainers/lib/checkpoint/run_lock.h"
#include "trainers/lib/report/output_file.h"

namespace colossus {
namespace {

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

// What tells a file that parity wrote from weights and from goldens.
constexpr char kMaker[] = "made_by", kParity[] = "colossus parity";

absl::Status CheckOut(FileSystem& files, const std::string& out) {
  RETURN_IF_ERROR(CheckOutsideRuns(files, "--out", out));
  RETURN_IF_ERROR(TryOutputFile(files, "--out", out, /*opening=*/""));
  if (!files.Exists(out)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t bytes, files.FileSize(out));
  if (bytes == 0) return absl::OkStatus();
  const absl::StatusOr<SafetensorsFile> old = SafetensorsFile::Open(files, out);
  if (old.ok()) {
    const auto maker = old->metadata().find(kMaker);
    if (maker != old->metadata().end() && maker->second == kParity) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--out=", out, " is another file, which would be overwritten; give another --out"));
}

absl::Status WriteComputed(FileSystem& files, const std::string& path, const Computed& computed) {
  std::vector<SafetensorsTensor> tensors;
  for (const auto& item : computed) {
    const Dims& dims = item.second.type().dims;
    tensors.push_back({item.first, DType::kF32, {dims.begin(), dims.end()}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, path, std::move(tensors),
                                            {{"format", "pt"}, {kMaker, kParity}}));
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
  if (!options.run.out.empty() && context.first) {
    RETURN_IF_ERROR(CheckOut(files, options.run.out));
  }
  ASSIGN_OR_RETURN(Golden golden, Golden::Open(files, options.parity.golden));
  ASSIGN_OR_RETURN(const ParityInputs inputs, ReadParityInputs(golden));
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(options));
  const std::string config = options.parity.model_config.empty()
                                 ? JoinPath(options.model.directory, "config.json")
                                 : options.parity.model_config;
  ASSIGN_OR_RETURN(const ModelConfig before, LoadModelConfig(files, config));
  RETURN_IF_ERROR(ParityPlan(options, layout, inputs, before).status());
  ASSIGN_OR_RETURN(ModelDirectory model,
                   ModelDirectory::Open(files, options.model.directory,
                                        {.config_file = options.parity.model_config,
                                         .require_tied = options.model.require_tied}));
  for (const std::string& note : model.notes()) context.log.Info(note);
  RETURN_IF_ERROR(CheckIds(inputs, model.config()));
  ASSIGN_OR_RETURN(const Plan plan, ParityPlan(options, layout, inputs, model.config()));
  ASSIGN_OR_RETURN(const Computed computed,
                   ComputeParity(context, layout, plan, model, golden, inputs));
  if (!context.first) return 0;
  if (!options.run.out.empty()) {
    RETURN_IF_ERROR(WriteComputed(files, options.run.out, computed));
  }
  ASSIGN_OR_RETURN(std::vector<Verdict> verdicts,
                   Comparison(golden, computed, options.parity.tolerance).Run());
  return Report(verdicts);
}

}  // namespace colossus
