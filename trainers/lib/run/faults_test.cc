// What a run does with numbers that are not finite: field cases E5 and H4.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/exec/program.h"
#include "trainers/lib/testing/inject.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using States = std::map<std::string, HostTensor>;

// Keeps what every step leaves behind in `after`.
void KeepStates(TrainHooks* hooks, std::map<int64_t, States>* after) {
  hooks->after_update = [after](int64_t step, Session& session) -> absl::Status {
    for (const StateHome& home : session.training->states()) {
      ASSIGN_OR_RETURN((*after)[step][home.info.name],
                       session.training->program().ReadState(home.info.name));
    }
    return absl::OkStatus();
  };
}

std::vector<double> Scales(const TinyResult& result) {
  std::vector<double> scales;
  for (const nlohmann::json& line : result.metrics) scales.push_back(line.at("loss_scale"));
  return scales;
}

TEST(FaultsTest, E5_EveryStepOverflows) {
  TinyRun run("e5_every");
  std::set<int64_t> all;
  for (int64_t step = 1; step <= 30; ++step) all.insert(step);
  TrainHooks hooks = InjectAt(all, "h.0.grad");
  std::map<int64_t, States> after;
  KeepStates(&hooks, &after);
  const TinyResult result =
      run.Train({"--steps=30", "--precision=fp16", "--metrics=" + run.Path("metrics.jsonl")},
                RealFileSystem(), hooks);
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("step 17"), HasSubstr("loss scale, 1"),
                                            HasSubstr("17 in a row"), HasSubstr("may help"))));
  std::vector<double> scales;
  for (double scale = 65536; scale >= 1; scale /= 2) scales.push_back(scale);
  EXPECT_EQ(Scales(result), scales);
  EXPECT_EQ(StateDifference(after.at(17), after.at(1)), "");
  EXPECT_THAT(result.log, HasSubstr("skipped so far: 17"));
  // What no update touched is what the run began with: moments are zero.
  for (const auto& [name, values] : after.at(17)) {
    if (!absl::StartsWith(name, "moment")) continue;
    for (int64_t i = 0; i < values.type().elements(); ++i) ASSERT_EQ(values.Get(i), 0) << name;
  }
}

TEST(FaultsTest, E5_OneStepOverflows) {
  TinyRun run("e5_one");
  const Flags flags = {"--steps=8", "--precision=fp16", "--save_every=1", "--keep=9"};
  const auto place = [&](const std::string& name) {
    return Flags{"--out=" + run.Path(name), "--metrics=" + run.Path(name + ".jsonl")};
  };
  TrainHooks hooks = InjectAt({5}, "h.0.grad");
  std::map<int64_t, States> after;
  KeepStates(&hooks, &after);
  const TinyResult whole = run.Train(With(flags, place("whole")), RealFileSystem(), hooks);
  ASSERT_OK(whole.status);
  EXPECT_THAT(Scales(whole), ElementsAre(65536, 65536, 65536, 65536, 65536, 32768, 32768, 32768));
  EXPECT_THAT(whole.metrics[4]["skipped"].get<std::string>(),
              HasSubstr("overflowed at loss scale 65536, which is 32768 now"));
  EXPECT_FALSE(whole.metrics[4]["loss"].is_null());
  EXPECT_TRUE(whole.metrics[4]["grad_norm"].is_null());
  EXPECT_EQ(StateDifference(after.at(5), after.at(4)), "");
  EXPECT_NE(StateDifference(after.at(6), after.at(5)), "");
  // The schedule counts applied updates.
  EXPECT_EQ(whole.metrics[5]["lr"], whole.metrics[4]["lr"]);
  EXPECT_THAT(whole.log, AllOf(HasSubstr("step 5 is skipped"), HasSubstr("skipped so far: 1"),
                               HasSubstr("1 of 8 updates were skipped")));
  // Losses and norms are unscaled: half the scale changes nothing they show.
  EXPECT_NEAR(whole.metrics[5]["grad_norm"].get<double>(),
              whole.metrics[3]["grad_norm"].get<double>(), 2);

  for (const int64_t crash : {4, 5, 6}) {
    SCOPED_TRACE(crash);
    ASSERT_OK(RealFileSystem().RemoveTree(run.Path("parts")));
    TrainHooks crashing = InjectAt({5}, "h.0.grad");
    crashing.stop = [&, calls = int64_t{0}]() mutable { return calls++ == crash ? 15 : 0; };
    ASSERT_OK(run.Train(With(flags, place("parts")), RealFileSystem(), crashing).status);
    const TinyResult resumed =
        run.Train(With(flags, place("parts")), RealFileSystem(), InjectAt({5}, "h.0.grad"));
    ASSERT_OK(resumed.status);
    EXPECT_EQ(ComparableLines(resumed.metrics), ComparableLines(whole.metrics));
    EXPECT_EQ(Scales(resumed), Scales(whole));
    EXPECT_EQ(StateDifference(resumed.states, whole.states), "");
  }
}

// Without any injected fault: a scale that is far too high comes down by itself, and both families
// then learn as in fp32. Each activation is rounded to 11 bits, so logits of size 1 are off by some
// 2^-11, and losses by no more than their differences: 20 x 2^-11 < 0.01.
TEST(FaultsTest, Fp16Learns) {
  TinyRun run("fp16");
  const nlohmann::json kModels[] = {
      {{"n_layer", 2}},
      {{"model_type", "llama"},
       {"architectures", {"LlamaForCausalLM"}},
       {"hidden_size", 16},
       {"intermediate_size", 32},
       {"num_hidden_layers", 2},
       {"num_attention_heads", 2},
       {"num_key_value_heads", 1},
       {"max_position_embeddings", 16},
       {"rms_norm_eps", 1e-5}}};
  for (const nlohmann::json& model : kModels) {
    SCOPED_TRACE(model.dump());
    run.WriteModel(model);
    const Flags flags = {"--global_batch=4", "--micro_batch=2", "--schedule=constant",
                         "--metrics=" + run.Path("metrics.jsonl")};
    const TinyResult expected = run.Train(With(flags, {"--steps=4"}));
    ASSERT_OK(expected.status);
    const TinyResult fp16 = run.Train(
        With(flags, {"--precision=fp16", "--steps=60", "--loss_scale=1099511627776"}));
    ASSERT_OK(fp16.status);
    size_t first = 0;
    while (first < 60 && !fp16.metrics[first]["skipped"].is_null()) ++first;
    EXPECT_GT(first, 5) << "2^40 overflows";
    ASSERT_LT(first, 40);
    const TinyResult fresh =
        run.Train(With(flags, {"--precision=fp16", "--steps=4", "--loss_scale=1024"}));
    ASSERT_OK(fresh.status);
    for (size_t step = 0; step < 4; ++step) {
      EXPECT_NEAR(fresh.metrics[step]["loss"].get<double>(),
                  expected.metrics[step]["loss"].get<double>(), 0.01)
          << step;
      EXPECT_NEAR(fresh.metrics[step]["grad_norm"].get<double>(),
                  expected.metrics[step]["grad_norm"].get<double>(),
                  0.05 * expected.metrics[step]["grad_norm"].get<double>())
          << step;
    }
    EXPECT_LT(fp16.metrics[59]["loss"], fp16.metrics[0]["loss"]);
  }
}

// H4, the default: the step, the layer, its first tensor and the rows are named; nothing that is
// not finite is saved.
TEST(FaultsTest, H4_Stops) {
  TinyRun run("h4_stops");
  run.WriteModel({{"n_layer", 2}});
  const std::string out = run.Path("out");
  // 10 rows, 2 an update: step 6 begins epoch 2, micro-batch 1 has row 1.
  const TinyResult result =
      run.Train({"--steps=9", "--save_every=2", "--keep=2", "--global_batch=2", "--micro_batch=1",
                 "--data_order=sequential", "--out=" + out,
                 "--metrics=" + run.Path("metrics.jsonl")},
                RealFileSystem(), InjectAt({6}, "h.1", /*micro_batch=*/1));
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("step 6: "), HasSubstr("not finite; first: +Inf in h.1/"),
                             HasSubstr("element 0"), HasSubstr("layer 1, forward"),
                             HasSubstr("micro-batch 1, rows 1 of the training data"),
                             HasSubstr("step-4"))));
  EXPECT_THAT(Checkpoints(out), ElementsAre("step-2", "step-4"));
  ASSERT_EQ(result.metrics.size(), 6);
  EXPECT_THAT(result.metrics[5]["skipped"].get<std::string>(), HasSubstr("h.1/"));
  // Resumed without the fault, it goes on.
  EXPECT_OK(run.Train({"--steps=9", "--save_every=2", "--keep=2", "--global_batch=2",
                       "--micro_batch=1", "--data_order=sequential", "--out=" + out})
                .status);
}

// H4, 'skip at most 2': counted, nothing changes, and a third in a row ends the run; also when the
// run was interrupted in between, and in a device apart from the host.
TEST(FaultsTest, H4_Skips) {
  TinyRun run("h4_skips");
  const Flags flags = {"--steps=9", "--save_every=1", "--keep=9", "--global_batch=2",
                       "--skip_nonfinite=2"};
  TrainHooks hooks = InjectAt({3, 4, 6, 7}, "h.0");
  std::map<int64_t, States> after;
  KeepStates(&hooks, &after);
  const TinyResult twice =
      run.Train(With(flags, {"--metrics=" + run.Path("metrics.jsonl"), "--out=" + run.Path("a")}),
                RealFileSystem(), hooks);
  ASSERT_OK(twice.status);
  EXPECT_EQ(StateDifference(after.at(4), after.at(2)), "");
  EXPECT_EQ(StateDifference(after.at(7), after.at(5)), "");
  EXPECT_NE(StateDifference(after.at(5), after.at(4)), "");
  EXPECT_THAT(twice.log, HasSubstr("4 of 9 updates were skipped"));

  const TinyResult thrice = run.Train(With(flags, {"--out=" + run.Path("b"), "--device=capped",
                                                   "--device_memory=100MB"}),
                                      RealFileSystem(), InjectAt({3, 4, 5}, "h.0"));
  EXPECT_THAT(thrice.status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("step 5"), HasSubstr("number 3 in a row"))));
  TrainHooks stopped = InjectAt({3, 4, 5}, "h.0");
  stopped.stop = [calls = 0]() mutable { return calls++ == 4 ? 2 : 0; };
  ASSERT_OK(run.Train(With(flags, {"--out=" + run.Path("c")}), RealFileSystem(), stopped).status);
  EXPECT_THAT(run.Train(With(flags, {"--out=" + run.Path("c")}), RealFileSystem(),
                        InjectAt({3, 4, 5}, "h.0"))
                  .status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("step 5")));
}

TEST(FaultsTest, FaultThatDoesNotRepeat) {
  TinyRun run("once");
  TrainHooks hooks;
  hooks.observer = [calls = 0](int64_t, Program& program) mutable {
    return calls++ == 1 ? Inject(program, "h.0") : nullptr;
  };
  EXPECT_THAT(run.Train({"--steps=3"}, RealFileSystem(), hooks).status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("step 2"), HasSubstr("memory or processor"))));
}

// A state that is not finite is never saved, and the run does not go on with it.
TEST(FaultsTest, NonFiniteStateIsNotSaved) {
  TinyRun run("state");
  const std::string out = run.Path("out");
  TrainHooks hooks;
  hooks.after_update = [&](int64_t step, Session& session) -> absl::Status {
    if (step != 4) return absl::OkStatus();
    HostTensor bias(Type{DType::kF32, {16}});
    bias.Set(3, std::nan(""));
    return session.training->program().WriteState("moment2/transformer.ln_f.bias", bias);
  };
  EXPECT_THAT(
      run.Train({"--steps=9", "--save_every=2", "--out=" + out}, RealFileSystem(), hooks).status,
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("moment2/transformer.ln_f.bias"), HasSubstr("NaN at element 3"))));
  EXPECT_THAT(Checkpoints(out), ElementsAre("step-2"));
}

// Weights with a NaN: the tensor is named before the first update.
TEST(FaultsTest, NonFiniteWeightsAreNamed) {
  TinyRun run("weights");
  ASSERT_OK(run.Train({"--steps=1", "--out=" + run.Path("out")}).status);
  const std::string model = run.Path("out/model"), file = model + "/model.safetensors";
  ASSERT_OK_AND_ASSIGN(std::string bytes, RealFileSystem().ReadFile(file));
  const uint32_t nan = 0x7fc00000;
  std::memcpy(bytes.data() + bytes.size() - sizeof(nan), &nan, sizeof(nan));
  ASSERT_OK(RealFileSystem().WriteFileAtomically(file, bytes));
  EXPECT_THAT(run.Train({"--steps=1", "--model=" + model}).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(model), HasSubstr("tensor 'transformer."),
                             HasSubstr("NaN"), Not(HasSubstr("learning_rate")))));
}

// A long update is given up when the run is asked to stop, and computed by the run that goes on.
TEST(FaultsTest, StopBetweenMicroBatches) {
  TinyRun run("between");
  const Flags flags = {"--steps=4", "--global_batch=4", "--micro_batch=1", "--dropout=0.1"};
  const auto place = [&](const std::string& name) {
    return Flags{"--out=" + run.Path(name), "--metrics=" + run.Path(name + ".jsonl")};
  };
  const TinyResult whole = run.Train(With(flags, place("whole")));
  ASSERT_OK(whole.status);
  // Asked once before the run, three times inside each update and once behind it.
  struct Row {
    int call;
    double finish_seconds;
    size_t steps;
  };
  for (const Row& row : {Row{0, 0, 0}, Row{2, 0, 0}, Row{5, 0, 1}, Row{6, 0, 1}, Row{6, 1e9, 2}}) {
    SCOPED_TRACE(absl::StrCat(row.call, " ", row.finish_seconds));
    ASSERT_OK(RealFileSystem().RemoveTree(run.Path("parts")));
    TrainHooks hooks;
    hooks.finish_seconds = row.finish_seconds;
    hooks.stop = [&, calls = 0]() mutable { return calls++ >= row.call ? 15 : 0; };
    const TinyResult stopped = run.Train(With(flags, place("parts")), RealFileSystem(), hooks);
    ASSERT_OK(stopped.status);
    EXPECT_EQ(stopped.exit_code, 143);
    EXPECT_EQ(stopped.metrics.size(), row.steps);
    EXPECT_EQ(RealFileSystem().Exists(
                  run.Path(absl::StrCat("parts/checkpoints/step-", row.steps))),
              row.steps > 0);
    const TinyResult resumed = run.Train(With(flags, place("parts")));
    EXPECT_EQ(ComparableLines(resumed.metrics), ComparableLines(whole.metrics));
    EXPECT_EQ(StateDifference(resumed.states, whole.states), "");
  }
}

}  // namespace
}  // namespace colossus
