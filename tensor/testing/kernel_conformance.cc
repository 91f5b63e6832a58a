#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/testing/tensor_near.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/testing/case_run.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {
namespace {

// Half the distance of two neighbouring values, relative to the larger: what rounding costs.
double Roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

// Half the distance of the smallest values, or what f64 can hold of it.
double Underflow(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-1074;
    case DType::kBF16:
      return 0x1p-134;
    case DType::kF16:
      return 0x1p-25;
    default:
      return 0x1p-150;
  }
}

// How many terms a result may be the sum of: the extents of all factors that are reduced somewhere.
double ReductionLength(const FactorRule& rule) {
  double length = 1;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    bool reduced = rule.factors[f].kind != FactorKind::kParallel;
    for (const ValueFactors& value : rule.results) {
      std::set<int> present;
      for (const DimFactors& dim : value) present.insert(dim.begin(), dim.end());
      reduced = reduced || !present.count(static_cast<int>(f));
    }
    if (reduced) length *= static_cast<double>(std::max<int64_t>(1, rule.factors[f].extent));
  }
  return length;
}

// What a kernel's results are compared with.
struct Expected {
  Types types;
  std::vector<HostTensor> stored;     // as the reference rounds them
  std::vector<HostTensor> unrounded;  // floats as f64
  double length = 1;                  // terms of a sum
  bool wide = false;                  // arithmetic is f64
};

absl::StatusOr<Expected> Expect(const OpCase& c, const std::vector<HostTensor>& operands) {
  Expected e;
  ASSIGN_OR_RETURN(e.types, c.op->Infer({c.operands, c.attributes}));
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  Types wide = e.types;
  for (Type& type : wide) {
    if (IsFloat(type.dtype)) type.dtype = DType::kF64;
  }
  e.stored = RunReference(reference, c.attributes, operands, e.types);
  e.unrounded = RunReference(reference, c.attributes, operands, wide);
  e.length = ReductionLength(c.op->Factors({c.operands, c.attributes}));
  for (const Type& type : c.operands) e.wide = e.wide || type.dtype == DType::kF64;
  return e;
}

// Float results, element by element: |a - e| <= u |e| + underflow + (n + 16) u_acc scale, where u
// is the roundoff of the result's dtype (one rounding), n the terms of a sum, u_acc that of the
// accumulation (f32, f64 for f64 operands), 16 the operations on each term (a polynomial for exp or
// tanh included), scale the largest magnitude of the result or of the terms. If the reference
// itself rounds in between, so that its unrounded result is another, the stored one is taken and u
// counts twice. Where a case allows roundings to the operands' dtype on the way, its
// inner_magnitude times that roundoff is added.
absl::Status CompareFloats(const OpCase& c, const Expected& e, int r, const HostTensor& y) {
  DType dtype = e.types[r].dtype;
  std::vector<double> actual = y.ToDoubles(), expected = e.unrounded[r].ToDoubles();
  HostTensor rounded(e.types[r]);
  double roundings = 1, scale = c.magnitude;
  for (size_t i = 0; i < expected.size(); ++i) {
    rounded.Set(static_cast<int64_t>(i), expected[i]);
    scale = std::max(scale, std::fabs(expected[i]));
  }
  if (!(rounded == e.stored[r])) {
    expected = e.stored[r].ToDoubles();
    roundings = 2;
  }
  double accumulated =
      (e.length + 16) * (e.wide ? 0x1p-53 : 0x1p-24) * scale +
      Roundoff(c.operands.empty() ? dtype : c.operands[0].dtype) * c.inner_magnitude;
  // In units of each element's own limit, the comparator's limit is 1.
  for (size_t i = 0; i < expected.size(); ++i) {
    double limit =
        roundings * Roundoff(dtype) * std::fabs(expected[i]) + Underflow(dtype) + accumulated;
    if (limit == 0) limit = Underflow(DType::kF64);
    actual[i] = (actual[i] - expected[i]) / limit;
    expected[i] = 0;
  }
  NearReport report = CompareTensors(actual, expected, {.absolute = 1});
  if (report.ok) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "result ", r, " ", ToString(e.types[r]), " element ", report.worst_index, " is ",
      y.Get(report.worst_index), ", reference ", e.unrounded[r].Get(report.worst_index),
      "; in units of the limit: ", report.text));
}

absl::Status CompareResults(const OpCase& c, const Expected& e, const std::vector<HostTensor>& y) {
  for (size_t r = 0; r < y.size(); ++r) {
    if (IsFloat(e.types[r].dtype)) {
      RETURN_IF_ERROR(CompareFloats(c, e, static_cast<int>(r), y[r]));
    } else if (!(y[r] == e.stored[r])) {
      return absl::FailedPreconditionError(absl::StrCat("result ", r, " differs"));
    }
  }
  return absl::OkStatus();
}

// The buffers of one run in a device's memory: each with kAround bytes before and behind it as on
// the host, where the guards are.
class DeviceRun {
 public:
  DeviceRun(Device& device, const PlannedKernel& kernel, const Types& operands,
            const Types& results)
      : device_(device), kernel_(kernel), operands_(operands), results_(results) {}

  absl::Status Run(const KernelArgs& args) {
    KernelLaunch launch;
    launch.kernel = &kernel_;
    for (size_t i = 0; i < args.operands.size(); ++i) {
      launch.operands.push_back(Place(args.operands[i], operands_[i].bytes()));
    }
    for (size_t i = 0; i < args.results.size(); ++i) {
      launch.results.push_back(Place(args.results[i], results_[i].bytes()));
    }
    launch.workspace = Place(args.workspace, kernel_.workspace_bytes);
    ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, device_.NewArena(Tier::kDevice, bytes_));
    auto rebase = [&](const void* offset) {
      return arena->base() + reinterpret_cast<intptr_t>(offset);
    };
    for (const void*& x : launch.operands) x = rebase(x);
    for (void*& y : launch.results) y = rebase(y);
    launch.workspace = rebase(launch.workspace);
    std::unique_ptr<Stream> stream = device_.NewStream("conformance");
    for (const auto& [host, buffer] : buffers_) {
      device_.CopyIn(*stream, rebase(buffer.offset) - kAround, host - kAround,
                     buffer.bytes + 2 * kAround);
    }
    device_.Launch(*stream, launch);
    for (const auto& [host, buffer] : buffers_) {
      device_.CopyOut(*stream, host - kAround, rebase(buffer.offset) - kAround,
                      buffer.bytes + 2 * kAround);
    }
    return stream->Synchronize();
  }

 private:
  static constexpr int64_t kAround = 64;
  struct Buffer {
    void* offset;  // in the arena, still without its base
    int64_t bytes;
  };

  // The place of a host buffer; a result over an operand has the operand's.
  void* Place(const void* host, int64_t bytes) {
    char* start = static_cast<char*>(const_cast<void*>(host));
    auto [found, fresh] = buffers_.emplace(start, Buffer{nullptr, bytes});
    if (fresh) {
      found->second.offset = reinterpret_cast<void*>(bytes_ + kAround);
      bytes_ += (bytes + 2 * kAround + kAround - 1) / kAround * kAround;
    }
    return found->second.offset;
  }

  Device& device_;
  const PlannedKernel& kernel_;
  const Types &operands_, &results_;
  std::map<char*, Buffer> buffers_;
  int64_t bytes_ = 0;
};

// On the host without a device.
absl::StatusOr<std::vector<HostTensor>> RunKernel(const PlannedKernel& kernel, const OpCase& c,
                                                  const std::vector<HostTensor>& operands,
                                                  const Types& results, const GuardedRun& options,
                                                  Device* device) {
  if (device == nullptr) return RunGuarded(kernel.run, operands, results, options);
  absl::Status status;
  auto run = [&](const KernelArgs& args) {
    status = DeviceRun(*device, kernel, c.operands, results).Run(args);
  };
  absl::StatusOr<std::vector<HostTensor>> y = RunGuarded(run, operands, results, options);
  if (!status.ok()) return status;
  return y;
}

absl::Status CheckPlanned(const OpCase& c, const PlannedKernel& kernel,
                          const std::vector<HostTensor>& operands, const Expected& expected,
                          Device* device) {
  GuardedRun options{.garbage = 0xff, .workspace_bytes = kernel.workspace_bytes};
  auto run = [&] { return RunKernel(kernel, c, operands, expected.types, options, device); };
  ASSIGN_OR_RETURN(std::vector<HostTensor> apart, run());
  RETURN_IF_ERROR(CompareResults(c, expected, apart));
  options.garbage = 0x3c;
  ASSIGN_OR_RETURN(std::vector<HostTensor> again, run());
  int different = FirstDifferent(apart, again);
  if (different >= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("result ", different, " differs in a second run: not all of it is written"));
  }
  for (auto [result, operand] : c.op->MayAlias({c.operands, c.attributes})) {
    options.alias_result = result;
    options.alias_operand = operand;
    ASSIGN_OR_RETURN(std::vector<HostTensor> in_place, run());
    if (FirstDifferent(apart, in_place) >= 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("result ", result, " over operand ", operand, " differs"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAll(KernelList kernels, absl::Span<const OpCase> cases, int threads,
                      Device* device) {
  std::string failures;
  for (const OpCase& c : cases) {
    std::vector<HostTensor> operands = MakeOperands(c);
    absl::StatusOr<Expected> expected = Expect(c, operands);
    if (!expected.ok()) {
      absl::StrAppend(&failures, "\n", c.name, ": ", expected.status().ToString());
      continue;
    }
    KernelRequest request{c.op, &c.attributes, c.operands, expected->types, threads};
    for (const Kernel* kernel : kernels) {
      absl::StatusOr<PlannedKernel> planned = kernel->Plan(request);
      absl::Status status = planned.ok() ? CheckPlanned(c, *planned, operands, *expected, device)
                            : planned.status().code() != absl::StatusCode::kUnimplemented ||
                                    planned.status().message().empty()
                                ? absl::FailedPreconditionError("declines without a reason")
                                : absl::OkStatus();
      if (status.ok()) continue;
      absl::StrAppend(&failures, "\n", c.name, ": kernel ",
                      planned.ok() ? planned->name : std::string(kernel->name()), ": ",
                      std::string(status.message()));
    }
  }
  return failures.empty() ? absl::OkStatus() : absl::FailedPreconditionError(failures);
}

}  // namespace

absl::Status CheckKernels(KernelList kernels, absl::Span<const OpCase> cases, int threads) {
  return CheckAll(kernels, cases, threads, nullptr);
}

absl::Status CheckKernelsOn(Device& device, absl::Span<const OpCase> cases) {
  CHECK(device.computes());
  return CheckAll(device.kernels(), cases, device.threads(), &device);
}

}  // namespace colossus
