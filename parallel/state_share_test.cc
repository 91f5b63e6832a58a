#include "parallel/state_share.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

// A program with one state of 24 elements.
absl::StatusOr<std::unique_ptr<Program>> FlatProgram(Device& device) {
  ASSIGN_OR_RETURN(Graph graph,
                   ParseGraph("graph g { state %w: f32[24] {role=parameter, global=[24], disk=[], "
                              "axes=[]} %y: f32[24] = mul(%w, %w) output y = %y }"));
  StepBuilder builder({"run"});
  const StepSegment segment = {{"g", std::make_shared<const Graph>(std::move(graph))}, {}, {}};
  builder.AddCall(builder.AddSegment(segment), 0, 0);
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Compile(std::move(step), device, {}));
  RETURN_IF_ERROR(program->Allocate());
  return program;
}

// Columns 3..5 of [4, 5], padded to 6: the home holds them from element 5 on.
TEST(StateShareTest, ReadsAndWritesWhatBothHave) {
  const std::unique_ptr<Device> device = NewHostDevice({.kernels = ReferenceKernels()});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Program> program, FlatProgram(*device));
  HostTensor home(Type{DType::kF32, {24}});
  ASSERT_OK(program->WriteState("w", home));
  StateShare share;
  share.info.name = "p";
  share.info.global_dims = {4, 5};
  share.piece = {{0, 3}, {4, 3}, 0, 12};
  share.home = "w";
  share.home_first = 5;

  const std::vector<float> whole = {0,  1,  2,  3,  4,  10, 11, 12, 13, 14,
                                    20, 21, 22, 23, 24, 30, 31, 32, 33, 34};
  ASSERT_OK(WriteStateShare(*program, share, WholePiece({4, 5}), whole.data()));
  ASSERT_OK_AND_ASSIGN(home, program->ReadState("w"));
  EXPECT_THAT(home.ToDoubles(), ElementsAre(0, 0, 0, 0, 0, 3, 4, 0, 13, 14, 0, 23, 24, 0, 33, 34, 0,
                                            0, 0, 0, 0, 0, 0, 0));
  const StatePiece inside = InsideOf(share.piece, share.info.global_dims);
  std::vector<float> saved(static_cast<size_t>(inside.count));
  ASSERT_OK(ReadStateShare(*program, share, inside, saved.data()));
  EXPECT_THAT(saved, ElementsAre(3, 4, 13, 14, 23, 24, 33, 34));
  std::vector<float> some(3, -1);
  ASSERT_OK(ReadStateShare(*program, share, PartOf(WholePiece({4, 5}), 7, 3), some.data()));
  EXPECT_THAT(some, ElementsAre(-1, 13, 14));
}

}  // namespace
}  // namespace colossus
