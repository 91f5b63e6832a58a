#include "trainers/lib/config/validate.h"

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/options.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlanBatchTest, E1BatchArithmetic) {
  EXPECT_THAT(PlanBatch(256, 2, 7),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("14 (micro-batch 2 x data-parallel 7) does not divide 256"),
                             HasSubstr("252 or 266 would do"))));
  ASSERT_OK_AND_ASSIGN(BatchPlan plan, PlanBatch(256, 2, 8));
  EXPECT_EQ(plan.accumulation, 16);
  EXPECT_EQ(plan.ToString(8),
            "global batch 256 = micro-batch 2 x accumulation 16 x data-parallel 8");
  EXPECT_THAT(PlanBatch(4, 0, 8), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("a micro-batch would be empty")));
}

struct BatchCase {
  int64_t global, micro, ranks;
  int64_t want_global, want_micro, want_accumulation;  // 0: refused
};

TEST(PlanBatchTest, FillsInWhatIsNotGiven) {
  const BatchCase cases[] = {
      {0, 0, 1, 8, 8, 1},   {0, 0, 2, 16, 8, 1}, {0, 4, 1, 4, 4, 1},
      {0, 4, 3, 12, 4, 1},  {6, 0, 1, 6, 6, 1},  {6, 0, 2, 6, 3, 1},
      {12, 3, 2, 12, 3, 2}, {4, 8, 1, 0, 0, 0},  {7, 0, 2, 0, 0, 0},
  };
  for (const BatchCase& c : cases) {
    SCOPED_TRACE(testing::Message() << c.global << " " << c.micro << " " << c.ranks);
    const auto plan = PlanBatch(c.global, c.micro, c.ranks);
    ASSERT_EQ(plan.ok(), c.want_global > 0) << plan.status();
    if (!plan.ok()) continue;
    EXPECT_EQ(plan->global_batch, c.want_global);
    EXPECT_EQ(plan->micro_batch, c.want_micro);
    EXPECT_EQ(plan->accumulation, c.want_accumulation);
  }
  EXPECT_THAT(PlanBatch(4, 8, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("; 8 would do")));
}

TEST(RowLengthTest, ModelBoundsIt) {
  EXPECT_THAT(RowLength(0, 256), IsOkAndHolds(256));
  EXPECT_THAT(RowLength(0, 131072), IsOkAndHolds(1024));
  EXPECT_THAT(RowLength(0, 0), IsOkAndHolds(1024));
  EXPECT_THAT(RowLength(2048, 0), IsOkAndHolds(2048));
  EXPECT_THAT(RowLength(257, 256),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256 positions")));
}

struct ValidateCase {
  const char* part;  // of the message; empty: fine
  std::function<void(Options&)> change;
};

// What pretrain says of each, beside a model and data.
void ExpectPretrain(absl::Span<const ValidateCase> cases) {
  for (const ValidateCase& c : cases) {
    Options options;
    options.model.preset = "gpt2-tiny";
    options.data.file = "a";
    c.change(options);
    const absl::Status status = Validate(Trainer::kPretrain, options);
    EXPECT_EQ(status.ok(), c.part[0] == '\0') << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.part));
  }
}

TEST(ValidateTest, PretrainCombinations) {
  const ValidateCase cases[] = {
      {"", [](Options&) {}},
      {"give one of them", [](Options& o) { o.model.directory = "m"; }},
      {"--steps (run.steps) is needed", [](Options& o) { o.data.file = "synthetic"; }},
      {"without validation rows", [](Options& o) { o.run.validate_every = 5; }},
      {"",
       [](Options& o) {
         o.run.validate_every = 5;
         o.data.validation_share = 0.1;
       }},
      {"model.dropout is 1", [](Options& o) { o.model.dropout = 1; }},
      {"model.dropout is -0.5", [](Options& o) { o.model.dropout = -0.5; }},
      {"would never be reached",
       [](Options& o) {
         o.run.steps = 5;
         o.schedule.warmup_steps = 6;
       }},
      {"8 would do",
       [](Options& o) {
         o.batch.micro_batch = 8;
         o.batch.global_batch = 4;
       }},
      {"--device_memory", [](Options& o) { o.run.device = "capped"; }},
  };
  ExpectPretrain(cases);
}

TEST(ValidateTest, WhatRanksShare) {
  const ValidateCase cases[] = {
      {"plan.zero is 3, but 1 rank has nobody to share with", [](Options& o) { o.plan.zero = 3; }},
      {"plan.zero is 1, but 2 ranks, tensor=2 has nobody to share with: that are ranks along data",
       [](Options& o) {
         o.plan.zero = 1;
         o.plan.mesh = "tensor=2";
       }},
      {"plan.chunk_elements is 5, but 1 rank has nobody to share with",
       [](Options& o) { o.plan.chunk_elements = 5; }},
      {"plan.overrides is \"*=data\", but one rank holds every state whole; leave --overrides out",
       [](Options& o) { o.plan.overrides = "*=data"; }},
      {"one rank, as each stage has, holds every state whole; leave --overrides out, or give "
       "stages ranks, as in --mesh=stage=2,tensor=2",
       [](Options& o) {
         o.plan.overrides = "*=data";
         o.plan.mesh = "stage=2";
       }},
      {"",
       [](Options& o) {
         o.plan.overrides = "*=data";
         o.plan.mesh = "stage:/stage:data=2";
       }},
      {"",
       [](Options& o) {
         o.plan.overrides = "*=data";
         o.run.ranks = 2;
       }},
      {"",
       [](Options& o) {
         o.plan.chunk_elements = 5;
         o.run.ranks = 2;
       }},
      {"",
       [](Options& o) {
         o.plan.zero = 2;
         o.run.ranks = 2;
       }},
      {"",
       [](Options& o) {
         o.plan.zero = 3;
         o.plan.mesh = "tensor=2,sequence=2";
       }},
  };
  ExpectPretrain(cases);
}

TEST(ValidateTest, RequiredKeysOfOtherTrainers) {
  Options options;
  EXPECT_THAT(Validate(Trainer::kEvaluate, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--model")));
  options.model.directory = "m";
  EXPECT_OK(Validate(Trainer::kGenerate, options));
  EXPECT_THAT(Validate(Trainer::kEvaluate, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--data")));
  EXPECT_THAT(Validate(Trainer::kParity, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--golden")));
  options.parity.golden = "g";
  EXPECT_OK(Validate(Trainer::kParity, options));
  options.plan.zero = 1;
  EXPECT_THAT(Validate(Trainer::kParity, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("leave --zero out")));
  EXPECT_THAT(Validate(Trainer::kConvert, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--out")));
  EXPECT_THAT(Validate(Trainer::kTokenize, Options()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tokenizer")));
}

}  // namespace
}  // namespace colossus
