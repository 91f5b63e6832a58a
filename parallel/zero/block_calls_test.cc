#include "parallel/zero/block_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

int AddSegment(StepBuilder& step, const std::string& name, bool link) {
  absl::StatusOr<Graph> graph = ParseGraph("graph g { feed %x: f32[2] %y: f32[2] = tanh(%x) }");
  EXPECT_OK(graph.status());
  StepSegment segment{{name, std::make_shared<const Graph>(*std::move(graph))}, {}, {}};
  segment.link = link;
  return step.AddSegment(std::move(segment));
}

// Four parts "a" to "d" in three passes, b and c together; the first and the last gather.
BlockVariant VariantOf(StepBuilder& step, const std::string& name) {
  BlockVariant variant;
  for (const char* part : {"a", "b", "c", "d"}) {
    variant.segments.push_back(AddSegment(step, name + part, false));
  }
  variant.passes = {{0, 0, {0}}, {1, 2, {}}, {3, 3, {1}}};
  variant.gathers = {AddSegment(step, name + "ga", true), -1, AddSegment(step, name + "gd", true)};
  return variant;
}

// "name.micro_batch", with what must have finished before it.
std::vector<std::string> Calls(StepBuilder step) {
  absl::StatusOr<Step> built = std::move(step).Build();
  EXPECT_OK(built.status());
  std::vector<std::string> calls;
  auto name = [&](int c) {
    const Call& call = built->calls[static_cast<size_t>(c)];
    return absl::StrCat(built->segments[call.segment].segment.name, ".", call.micro_batch);
  };
  for (size_t c = 0; c < built->calls.size(); ++c) {
    calls.push_back(name(static_cast<int>(c)));
    for (int finished : built->calls[c].finished) {
      absl::StrAppend(&calls.back(), " after ", name(finished));
    }
  }
  return calls;
}

// Protects: vertically a pass runs for all micro-batches before the next; its chunks are gathered
// once, for the last one; reductions run behind the last micro-batch's pass.
TEST(BlockCallsTest, Vertical) {
  StepBuilder step({"accumulate"});
  const BlockVariant first = VariantOf(step, "f"), last = VariantOf(step, "l");
  BlockReductions reductions;
  reductions.list = {{AddSegment(step, "r", true), 2}};
  AddBlockCalls(step, VerticalCalls({{&first, 0}, {&last, 1}}), 0, reductions, &last, 1);
  EXPECT_THAT(Calls(std::move(step)),
              ElementsAre("fga.1", "fa.0", "la.1", "fb.0", "fc.0", "fgd.1", "lb.1", "lc.1", "r.-1",
                          "fd.0", "ld.1 after r.-1"));
  EXPECT_TRUE(VerticalCalls({}).empty());
}

// Protects: gathers are issued one pass ahead, also into the next micro-batch; reductions run
// behind the part that completes them, and have finished when one more pass has run.
TEST(BlockCallsTest, OneMicroBatchAfterAnother) {
  StepBuilder step({"accumulate"});
  const BlockVariant first = VariantOf(step, "f"), rest = VariantOf(step, "r");
  BlockReductions reductions;
  reductions.list = {{AddSegment(step, "x", true), 0}, {AddSegment(step, "y", true), 2}};
  AddBlockCalls(step, {{&first, 0}, {&rest, 1}}, 0, reductions);
  EXPECT_THAT(Calls(std::move(step)),
              ElementsAre("fga.0", "fa.0", "fgd.0", "fb.0", "fc.0", "rga.1", "fd.0", "ra.1", "x.-1",
                          "rgd.1", "rb.1", "rc.1", "y.-1", "rd.1 after x.-1"));
}

// Protects: what reads a reduction is called when one more pass has run, of whatever micro-batch.
TEST(BlockCallsTest, BehindReductions) {
  StepBuilder step({"accumulate"});
  const BlockVariant first = VariantOf(step, "f"), last = VariantOf(step, "l");
  BlockReductions reductions;
  reductions.list = {{AddSegment(step, "x", true), 0}, {AddSegment(step, "y", true), 3}};
  reductions.list.push_back({AddSegment(step, "ux", false), 0, false, /*behind_link=*/true});
  reductions.list.push_back({AddSegment(step, "uy", false), 3, false, /*behind_link=*/true});
  AddBlockCalls(step, VerticalCalls({{&first, 0}, {&last, 1}}), 0, reductions, &last, 1);
  EXPECT_THAT(Calls(std::move(step)),
              ElementsAre("fga.1", "fa.0", "la.1", "x.-1", "fb.0", "fc.0", "ux.-1", "fgd.1",
                          "lb.1 after x.-1", "lc.1", "fd.0", "ld.1", "y.-1", "uy.-1"));
}

TEST(BlockCallsTest, ReductionsAtTheEnd) {
  StepBuilder step({"accumulate"});
  const BlockVariant only = VariantOf(step, "o");
  BlockReductions reductions;
  reductions.list = {{AddSegment(step, "x", true), 0}, {AddSegment(step, "y", true), 2}};
  reductions.overlap = false;
  AddBlockCalls(step, {{&only, 0}}, 0, reductions);
  EXPECT_THAT(Calls(std::move(step)),
              ElementsAre("oga.0", "oa.0", "ogd.0", "ob.0", "oc.0", "od.0", "x.-1", "y.-1"));
}

TEST(BlockCallsTest, WithoutChunks) {
  StepBuilder step({"accumulate"});
  BlockVariant only;
  for (const char* part : {"a", "b"}) only.segments.push_back(AddSegment(step, part, false));
  only.passes = PassPerPart(2);
  only.gathers = {-1, -1};
  AddBlockCalls(step, {{&only, 0}, {&only, 1}}, 0);
  EXPECT_THAT(Calls(std::move(step)), ElementsAre("a.0", "b.0", "a.1", "b.1"));
}

}  // namespace
}  // namespace colossus
