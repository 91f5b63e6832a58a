#include "tensor/ops/element_segments.h"

#include <random>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Attributes Made(const std::vector<ElementSegment>& segments) {
  Attributes attributes;
  SetSegments(attributes, segments);
  return attributes;
}

// The rule of the header, element by element: (site, element) of each place of a buffer.
using Places = std::vector<std::pair<uint64_t, uint64_t>>;
Places ByRule(const std::vector<ElementSegment>& segments, int buffer, int64_t elements) {
  Places places(static_cast<size_t>(elements));
  for (const ElementSegment& s : segments) {
    for (int64_t i = 0; s.buffer == buffer && i < s.count; ++i) {
      int64_t rest = s.first + i, element = 0, stride = 1;
      for (size_t d = s.dims.size(); d-- > 0;) {
        element += (s.origin[d] + rest % s.dims[d]) * stride;
        rest /= s.dims[d];
        stride *= s.global[d];
      }
      places[s.at + i] = {SiteId(s.site), static_cast<uint64_t>(element)};
    }
  }
  return places;
}

// Protects: random boxes of random tensors, walked in random pieces, are the rule's elements; a
// whole tensor is one run.
TEST(ElementSegmentsTest, Rule) {
  std::mt19937_64 random(TestSeed());
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 100; ++round) {
    std::vector<ElementSegment> segments;
    std::vector<int64_t> buffers(2);
    for (int buffer = 0; buffer < 2; ++buffer) {
      for (int64_t tensor = below(3); tensor >= 0; --tensor) {
        ElementSegment s{.site = std::string(1, static_cast<char>('a' + below(20))),
                         .buffer = buffer};
        int64_t box = 1;
        for (int64_t rank = 1 + below(4); rank > 0; --rank) {
          s.global.push_back(1 + below(5));
          const bool whole = below(2) == 0;
          s.dims.push_back(whole ? s.global.back() : 1 + below(s.global.back()));
          s.origin.push_back(below(s.global.back() - s.dims.back() + 1));
          box *= s.dims.back();
        }
        s.first = below(box);
        s.count = 1 + below(box - s.first);
        s.at = buffers[buffer] + below(4);
        buffers[buffer] = s.at + s.count;
        segments.push_back(std::move(s));
      }
    }
    const Attributes attributes = Made(segments);
    ASSERT_OK(CheckSegments(attributes, "c", buffers));
    const ElementRuns runs(attributes);
    for (int buffer = 0; buffer < 2; ++buffer) {
      Places places(static_cast<size_t>(buffers[buffer]));
      for (int64_t begin = 0; begin < buffers[buffer];) {
        const int64_t end = std::min(buffers[buffer], begin + 1 + below(9));
        runs.ForEach(buffer, begin, end,
                     [&](int64_t at, int64_t count, uint64_t site, uint64_t element) {
                       ASSERT_LE(begin, at);
                       ASSERT_LE(at + count, end);
                       for (int64_t i = 0; i < count; ++i) {
                         places[at + i] = {site, element + static_cast<uint64_t>(i)};
                       }
                     });
        begin = end;
      }
      EXPECT_EQ(places, ByRule(segments, buffer, buffers[buffer]));
    }
  }
  int calls = 0;
  ElementRuns(Made({WholeSegment("w", {3, 4, 5})})).ForEach(0, 0, 60, [&](auto...) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_OK(CheckSegments(Made({WholeSegment("w", {})}), "c", {1}));
}

TEST(ElementSegmentsTest, Refuses) {
  auto check = [](const ElementSegment& segment) {
    return CheckSegments(Made({segment}), "update_c7", {10});
  };
  const ElementSegment good{.site = "w", .count = 6, .dims = {2, 3}, .origin = {0, 3},
                            .global = {2, 6}};
  EXPECT_OK(check(good));
  for (auto change : {+[](ElementSegment& s) { s.at = 5; },
                      +[](ElementSegment& s) { s.buffer = 1; },
                      +[](ElementSegment& s) { s.first = 1; },
                      +[](ElementSegment& s) { s.origin[1] = -1; }}) {
    ElementSegment bad = good;
    change(bad);
    EXPECT_THAT(check(bad), StatusIs(kInvalid, HasSubstr("update_c7")));
  }
  EXPECT_THAT(CheckSegments(Made({good, good}), "c", {20}),
              StatusIs(kInvalid, HasSubstr("ascend")));
  Attributes cut = Made({good});
  cut.Set("segments", Ints{0, 0, 6, 0, 2, 2, 3});
  EXPECT_THAT(CheckSegments(cut, "c", {10}), StatusIs(kInvalid, HasSubstr("agree")));
  EXPECT_THAT(CheckSegments({}, "c", {10}), StatusIs(kInvalid, HasSubstr("agree")));
}

}  // namespace
}  // namespace colossus
