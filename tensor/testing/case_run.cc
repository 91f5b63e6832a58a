#include "tensor/testing/case_run.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/testing/seed.h"
#include "tensor/testing/guarded_buffer.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {

absl::Status Fails(const OpCase& c, absl::string_view check, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(c.name, ": ", check, ": ", what));
}

absl::StatusOr<Reference> ReferenceOf(const OpCase& c) {
  if (c.reference.has_value()) return *c.reference;
  const Reference* reference = FindReference(c.op->name());
  if (reference == nullptr) return Fails(c, "infer", "the op has no reference kernel");
  return *reference;
}

std::vector<HostTensor> MakeOperands(const OpCase& c) {
  static const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  std::vector<HostTensor> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    HostTensor x(c.operands[i]);
    bool is_float = IsFloat(c.operands[i].dtype);
    auto given = c.fills.find(static_cast<int>(i));
    Fill fill = given != c.fills.end() ? given->second
                : is_float             ? Fill::Uniform(-1, 1)
                                       : Fill::Uniform(0, 2);
    CHECK(fill.values.empty() ||
          static_cast<int64_t>(fill.values.size()) == c.operands[i].elements())
        << c.name << ": values of operand " << i;
    std::uniform_real_distribution<double> real(fill.low, fill.high);
    for (int64_t k = 0; k < c.operands[i].elements(); ++k) {
      double value = fill.values.empty() ? real(random) : fill.values[k];
      x.Set(k, is_float ? value : std::floor(value));
    }
    operands.push_back(std::move(x));
  }
  if (c.prepare) c.prepare(operands);
  return operands;
}

Types TypesOf(absl::Span<const HostTensor> tensors) {
  Types types;
  for (const HostTensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

std::vector<HostTensor> RunReference(const Reference& reference, const Attributes& attributes,
                                     absl::Span<const HostTensor> operands, const Types& results) {
  std::vector<HostTensor> y;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (const HostTensor& x : operands) sources.push_back(x.raw());
  for (const Type& type : results) y.emplace_back(type);
  for (HostTensor& tensor : y) targets.push_back(tensor.raw());
  Types operand_types = TypesOf(operands);
  KernelArgs args{sources, targets, nullptr};
  reference.run(ReferenceCall(attributes, operand_types, results, args));
  return y;
}

absl::StatusOr<std::vector<HostTensor>> RunGuarded(
    const std::function<void(const KernelArgs&)>& run, absl::Span<const HostTensor> operands,
    const Types& results, const GuardedRun& options) {
  std::vector<GuardedBuffer> x, y;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (const HostTensor& tensor : operands) x.emplace_back(tensor.type().bytes(), tensor.raw());
  for (const Type& type : results) y.emplace_back(type.bytes(), options.garbage);
  for (GuardedBuffer& buffer : x) sources.push_back(buffer.data());
  for (GuardedBuffer& buffer : y) targets.push_back(buffer.data());
  if (options.alias_result >= 0) {
    targets[options.alias_result] = x[options.alias_operand].data();
  }
  GuardedBuffer workspace(options.workspace_bytes, options.garbage);
  run({sources, targets, workspace.data()});
  if (!workspace.intact()) return absl::FailedPreconditionError("wrote beside the workspace");
  for (size_t i = 0; i < x.size(); ++i) {
    std::string which = absl::StrCat("operand ", i);
    if (!x[i].intact()) return absl::FailedPreconditionError("wrote beside " + which);
    if (static_cast<int>(i) != options.alias_operand && !x[i].Holds(operands[i].raw())) {
      return absl::FailedPreconditionError("changed " + which);
    }
  }
  std::vector<HostTensor> copies;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!y[i].intact()) {
      return absl::FailedPreconditionError(absl::StrCat("wrote beside result ", i));
    }
    copies.emplace_back(results[i]);
    if (results[i].bytes() > 0) {
      std::memcpy(copies[i].raw(), targets[i], static_cast<size_t>(results[i].bytes()));
    }
  }
  return copies;
}

int FirstDifferent(absl::Span<const HostTensor> a, absl::Span<const HostTensor> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i])) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace colossus
