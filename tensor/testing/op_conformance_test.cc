// The suite itself: faults planted in ops, references and kernels are each rejected by the check
// that is there for them.
#include "tensor/testing/op_conformance.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/testing/op_cases.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

auto Rejected(const std::string& check) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(check));
}

// An op that is another one but for what a test changes.
class Disguise : public Op {
 public:
  explicit Disguise(const Op& op) : op_(op) {}
  absl::string_view name() const override { return op_.name(); }
  absl::StatusOr<Types> Infer(const OpCall& call) const override { return op_.Infer(call); }
  absl::Status Gradient(GradientBuilder& g) const override { return op_.Gradient(g); }
  FactorRule Factors(const OpCall& call) const override { return op_.Factors(call); }
  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    return op_.Localize(call, parts);
  }
  Cost CostOf(const OpCall& call) const override { return op_.CostOf(call); }
  Aliases MayAlias(const OpCall& call) const override { return op_.MayAlias(call); }

 protected:
  const Op& op_;
};

OpCase Product(const Op& op, DType f = DType::kF64) {
  return {.name = "planted",
          .op = &op,
          .attributes = {{"spec", "m k, k n -> m n"}},
          .operands = {{f, {5, 17}}, {f, {17, 3}}},
          .magnitude = 4};
}

OpCase Activation(const Op& op, DType f = DType::kF64) {
  return {.name = "planted", .op = &op, .operands = {{f, {67}}}};
}

TEST(OpConformance, AcceptsTheOpsAsTheyAre) {
  EXPECT_OK(CheckOp(Product(MatmulOp())));
  EXPECT_OK(CheckOp(Activation(PointwiseOp("tanh"))));
}

// Faults in the compiler's side of an op.

class WrongSign final : public Disguise {
 public:
  WrongSign() : Disguise(PointwiseOp("cos")) {}
  absl::Status Gradient(GradientBuilder& g) const override {
    g.Add(0, Mul(g.graph(), g.dy(0), Sin(g.graph(), g.x(0))));
    return absl::OkStatus();
  }
};

class MissingCotangent final : public Disguise {
 public:
  MissingCotangent() : Disguise(PointwiseOp("cos")) {}
  absl::Status Gradient(GradientBuilder&) const override { return absl::OkStatus(); }
};

TEST(OpConformance, RejectsAWrongSignInTheGradient) {
  WrongSign op;
  EXPECT_THAT(CheckOp(Activation(op)), Rejected("gradient: operand 0"));
}

TEST(OpConformance, RejectsAMissingCotangent) {
  MissingCotangent op;
  EXPECT_THAT(CheckOp(Activation(op)), Rejected("got no cotangent"));
}

TEST(OpConformance, RejectsACaseThatDeniesTheGradient) {
  OpCase c = Activation(PointwiseOp("tanh"));
  c.differentiable = false;
  EXPECT_THAT(CheckOp(c), Rejected("that the case denies"));
}

// Softmax is not independent along its last dim.
class WrongFactor final : public Disguise {
 public:
  WrongFactor() : Disguise(*FindCase("softmax/[3,17]").op) {}
  FactorRule Factors(const OpCall& call) const override {
    return PointwiseRule(call.operands, call.operands[0]);
  }
  static OpCase FindCase(const std::string& name) {
    for (OpCase& c : ShapeCases(DType::kF64)) {
      if (c.name == name) return c;
    }
    ADD_FAILURE() << name;
    return {};
  }
};

TEST(OpConformance, RejectsAWrongFactorRule) {
  WrongFactor op;
  OpCase c = WrongFactor::FindCase("softmax/[3,17]");
  c.op = &op;
  EXPECT_THAT(CheckOp(c), Rejected("factors: factor 'd1'"));
}

// Parts of an iota that do not know where they start.
class ForgottenOrigin final : public Disguise {
 public:
  explicit ForgottenOrigin(const Op& op) : Disguise(op) {}
  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    absl::StatusOr<Attributes> local = op_.Localize(call, parts);
    if (local.ok()) local->Erase("start");
    return local;
  }
};

TEST(OpConformance, RejectsAForgottenOrigin) {
  OpCase c = WrongFactor::FindCase("iota/inner");
  ForgottenOrigin op(*c.op);
  c.op = &op;
  EXPECT_THAT(CheckOp(c), Rejected("factors: factor 'd1'"));
}

class WrongFlops final : public Disguise {
 public:
  WrongFlops() : Disguise(MatmulOp()) {}
  Cost CostOf(const OpCall& call) const override {
    Cost cost = op_.CostOf(call);
    cost.flops /= 2;
    return cost;
  }
};

TEST(OpConformance, RejectsWrongFlops) {
  WrongFlops op;
  EXPECT_THAT(CheckOp(Product(op)), Rejected("flops: CostOf says"));
}

// A product that overwrites what it still reads.
class WrongAlias final : public Disguise {
 public:
  WrongAlias() : Disguise(MatmulOp()) {}
  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }
};

TEST(OpConformance, RejectsAWrongAlias) {
  WrongAlias op;
  EXPECT_THAT(CheckOp(Product(op)), Rejected("aliases: result 0 over operand 0"));
}

// The reference writes fewer rows than Infer says: one of two results is garbage.
template <class S>
void LeavesTheLastUnwritten(const ReferenceCall& call) {
  for (int64_t i = 0; i + 1 < call.x(0).elements(); ++i) {
    call.y(0).Set(i, ToDouble(Tanh(S(call.x(0).Get(i)))));
  }
}

template <class S>
void GivesNan(const ReferenceCall& call) {
  for (int64_t i = 0; i < call.x(0).elements(); ++i) {
    call.y(0).Set(i, std::numeric_limits<double>::quiet_NaN());
  }
}

TEST(OpConformance, RejectsAReferenceThatDoesNotFit) {
  OpCase c = Activation(PointwiseOp("tanh"));
  c.reference =
      Reference{"tanh", &LeavesTheLastUnwritten<double>, &LeavesTheLastUnwritten<Counted>};
  EXPECT_THAT(CheckOp(c), Rejected("infer: result 0 is not written"));
  c.reference = Reference{"tanh", &GivesNan<double>, &GivesNan<Counted>};
  EXPECT_THAT(CheckOp(c), Rejected("infer: result 0 is nan"));
}

// Faults in kernels: a right one of f32 or bf16, spoilt afterwards.
using Spoil = std::function<void(const KernelArgs&)>;

class SpoiltKernel final : public Kernel {
 public:
  explicit SpoiltKernel(Spoil spoil) : spoil_(std::move(spoil)) {}
  absl::string_view name() const override { return "spoilt"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    absl::StatusOr<PlannedKernel> planned = ReferenceKernel().Plan(request);
    if (!planned.ok()) return planned;
    planned->run = [run = planned->run, this](const KernelArgs& args) {
      run(args);
      spoil_(args);
    };
    return planned;
  }

 private:
  Spoil spoil_;
};

absl::Status CheckSpoilt(const OpCase& c, Spoil spoil) {
  SpoiltKernel kernel(std::move(spoil));
  const Kernel* list[] = {&kernel};
  return CheckKernels(list, {c});
}

float* Floats32(const KernelArgs& args) { return static_cast<float*>(args.results[0]); }

TEST(KernelConformance, AcceptsAKernelAsItIs) {
  EXPECT_OK(CheckSpoilt(Product(MatmulOp(), DType::kF32), [](const KernelArgs&) {}));
  EXPECT_OK(CheckSpoilt(Product(MatmulOp(), DType::kBF16), [](const KernelArgs&) {}));
}

struct Fault {
  std::string name;
  Spoil spoil;
};

// Results are f32[5, 3].
const Fault kProductFaults[] = {
    {"wrong tail", [](const KernelArgs& a) { Floats32(a)[14] += 1; }},
    {"NaN", [](const KernelArgs& a) { Floats32(a)[7] = std::nanf(""); }},
    {"swapped dims",
     [](const KernelArgs& a) {
       std::vector<float> y(Floats32(a), Floats32(a) + 15);
       for (int i = 0; i < 15; ++i) Floats32(a)[i] = y[i % 5 * 3 + i / 5];
     }},
    {"missing accumulation: the last product is left out",
     [](const KernelArgs& a) {
       const float* x = static_cast<const float*>(a.operands[0]);
       const float* w = static_cast<const float*>(a.operands[1]);
       for (int i = 0; i < 15; ++i) Floats32(a)[i] -= x[i / 3 * 17 + 16] * w[16 * 3 + i % 3];
     }},
    {"off by one row",
     [](const KernelArgs& a) { std::memmove(Floats32(a) + 3, Floats32(a), 12 * sizeof(float)); }},
    {"a sum in bf16",
     [](const KernelArgs& a) {
       for (int i = 0; i < 15; ++i) Floats32(a)[i] = BF16::From(Floats32(a)[i]).F();
     }},
    {"writes past the end", [](const KernelArgs& a) { Floats32(a)[15] = 0; }},
    {"writes before the start", [](const KernelArgs& a) { Floats32(a)[-1] = 0; }},
    {"changes an operand",
     [](const KernelArgs& a) { static_cast<float*>(const_cast<void*>(a.operands[0]))[0] = 9; }},
    {"writes past its workspace",
     [](const KernelArgs& a) { static_cast<char*>(a.workspace)[0] = 0; }},
};

TEST(KernelConformance, RejectsEachFault) {
  for (const Fault& fault : kProductFaults) {
    EXPECT_THAT(CheckSpoilt(Product(MatmulOp(), DType::kF32), fault.spoil),
                Rejected("kernel reference"))
        << fault.name;
  }
}

// 1.0000001 squared and the like: truncation leaves up to a unit, rounding half of one.
TEST(KernelConformance, RejectsTruncationToBf16) {
  OpCase c{.name = "planted",
           .op = &ConvertOp(),
           .attributes = {{"dtype", "bf16"}},
           .operands = {{DType::kF32, {67}}}};
  Spoil truncate = [](const KernelArgs& a) {
    for (int i = 0; i < 67; ++i) {
      uint32_t bits;
      std::memcpy(&bits, static_cast<const float*>(a.operands[0]) + i, sizeof(bits));
      static_cast<uint16_t*>(a.results[0])[i] = static_cast<uint16_t>(bits >> 16);
    }
  };
  EXPECT_THAT(CheckSpoilt(c, truncate), Rejected("kernel reference"));
}

// Keeps what the buffer held before, which only a second run with other garbage shows when the
// garbage happens to be near: here the result is an integer, compared exactly.
TEST(KernelConformance, RejectsAResultLeftUnwritten) {
  class Lazy final : public Kernel {
   public:
    absl::string_view name() const override { return "lazy"; }
    absl::StatusOr<PlannedKernel> Plan(const KernelRequest&) const override {
      return PlannedKernel{"lazy", 0, [](const KernelArgs&) {}};
    }
  };
  Lazy lazy;
  const Kernel* list[] = {&lazy};
  EXPECT_THAT(CheckKernels(list, {Product(MatmulOp(), DType::kF32)}), Rejected("kernel lazy"));
  EXPECT_THAT(CheckKernels(list, {Activation(PointwiseOp("exp"), DType::kF16)}),
              Rejected("kernel lazy"));
}

// The capped device's memory is its own: only what was copied comes back.
TEST(KernelConformance, RunsOnADevice) {
  CappedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.kernels = ReferenceKernels();
  options.late_seed = 7;
  auto device = NewCappedDevice(options);
  ASSERT_OK(device.status());
  const OpCase cases[] = {Product(MatmulOp(), DType::kF32),
                          Activation(PointwiseOp("exp"), DType::kBF16)};
  EXPECT_OK(CheckKernelsOn(**device, cases));
  EXPECT_GT((*device)->copied().out, 0);
}

TEST(KernelConformance, RejectsWritesBesideAResultOnADevice) {
  class Long final : public Kernel {
   public:
    absl::string_view name() const override { return "long"; }
    absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
      absl::StatusOr<PlannedKernel> planned = ReferenceKernel().Plan(request);
      if (!planned.ok()) return planned;
      planned->run = [run = planned->run](const KernelArgs& args) {
        run(args);
        static_cast<float*>(args.results[0])[15] = 0;
      };
      return planned;
    }
  };
  Long too_long;
  const Kernel* list[] = {&too_long};
  CappedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.kernels = list;
  auto device = NewCappedDevice(options);
  ASSERT_OK(device.status());
  EXPECT_THAT(CheckKernelsOn(**device, {Product(MatmulOp(), DType::kF32)}),
              Rejected("wrote beside result 0"));
}

TEST(KernelConformance, RejectsDecliningWithoutAReason) {
  class Silent final : public Kernel {
   public:
    absl::string_view name() const override { return "silent"; }
    absl::StatusOr<PlannedKernel> Plan(const KernelRequest&) const override {
      return absl::UnimplementedError("");
    }
  };
  Silent silent;
  const Kernel* list[] = {&silent};
  EXPECT_THAT(CheckKernels(list, {Product(MatmulOp(), DType::kF32)}),
              Rejected("declines without a reason"));
}

}  // namespace
}  // namespace colossus
