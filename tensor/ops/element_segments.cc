#include "tensor/ops/element_segments.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// "segments" holds, for each: buffer, at, count, first, rank, dims, origin, global.
constexpr size_t kFixed = 5;

absl::Status CheckSegment(absl::string_view constraint, const ElementSegment& segment,
                          const std::vector<int64_t>& buffer_elements) {
  const int64_t buffers = static_cast<int64_t>(buffer_elements.size());
  const bool known = segment.buffer >= 0 && segment.buffer < buffers;
  int64_t box = 1;
  for (size_t d = 0; d < segment.dims.size(); ++d) {
    if (segment.dims[d] < 0 || segment.origin[d] < 0 || segment.global[d] < 0) {
      return Refuse(constraint, absl::StrCat("a dim of '", segment.site, "' is negative"));
    }
    box *= segment.dims[d];
  }
  if (!known || segment.at < 0 || segment.count < 0 || segment.first < 0 ||
      segment.at > buffer_elements[segment.buffer] - segment.count ||
      segment.first > box - segment.count) {
    return Refuse(constraint, absl::StrCat("elements of '", segment.site,
                                           "' are outside their buffer or tensor"));
  }
  return absl::OkStatus();
}

// False: they are no segments.
bool Parse(const Attributes& attributes, std::vector<ElementSegment>& segments) {
  if (!attributes.HasType<Strings>("sites") || !attributes.HasType<Ints>("segments")) return false;
  const Ints& numbers = attributes.IntList("segments");
  size_t i = 0;
  for (const std::string& site : attributes.StringList("sites")) {
    if (numbers.size() - i < kFixed) return false;
    ElementSegment segment;
    segment.site = site;
    segment.buffer = static_cast<int>(numbers[i]);
    segment.at = numbers[i + 1];
    segment.count = numbers[i + 2];
    segment.first = numbers[i + 3];
    const int64_t rank = numbers[i + 4];
    i += kFixed;
    if (rank < 1 || rank > static_cast<int64_t>(numbers.size() - i) / 3) return false;
    for (Dims* dims : {&segment.dims, &segment.origin, &segment.global}) {
      dims->assign(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                   numbers.begin() + static_cast<std::ptrdiff_t>(i) + rank);
      i += static_cast<size_t>(rank);
    }
    segments.push_back(std::move(segment));
  }
  return i == numbers.size();
}

}  // namespace

ElementSegment WholeSegment(std::string site, const Dims& dims) {
  const int64_t elements = ElementCount(dims);
  return {.site = std::move(site),
          .count = elements,
          .dims = {elements},
          .origin = {0},
          .global = {elements}};
}

void SetSegments(Attributes& attributes, const std::vector<ElementSegment>& segments) {
  Strings sites;
  Ints numbers;
  for (const ElementSegment& segment : segments) {
    sites.push_back(segment.site);
    // A tensor without dims is a row of one.
    const bool scalar = segment.dims.empty();
    numbers.insert(numbers.end(), {segment.buffer, segment.at, segment.count, segment.first,
                                   scalar ? 1 : static_cast<int64_t>(segment.dims.size())});
    if (scalar) {
      numbers.insert(numbers.end(), {1, 0, 1});
      continue;
    }
    for (const Dims* dims : {&segment.dims, &segment.origin, &segment.global}) {
      numbers.insert(numbers.end(), dims->begin(), dims->end());
    }
  }
  attributes.Set("sites", std::move(sites));
  attributes.Set("segments", std::move(numbers));
}

absl::Status CheckSegments(const Attributes& attributes, absl::string_view constraint,
                           const std::vector<int64_t>& buffer_elements) {
  std::vector<ElementSegment> segments;
  if (!Parse(attributes, segments)) {
    return Refuse(constraint, "sites and segments do not agree");
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    absl::Status status = CheckSegment(constraint, segments[i], buffer_elements);
    if (!status.ok()) return status;
    if (i == 0) continue;
    const ElementSegment& before = segments[i - 1];
    if (std::pair(before.buffer, before.at + before.count) >
            std::pair(segments[i].buffer, segments[i].at) ||
        before.buffer > segments[i].buffer) {
      return Refuse(constraint, "segments do not ascend");
    }
  }
  return absl::OkStatus();
}

ElementRuns::ElementRuns(const Attributes& attributes) {
  std::vector<ElementSegment> segments;
  if (!attributes.Has("segments")) return;
  Parse(attributes, segments);
  for (const ElementSegment& given : segments) {
    if (given.count == 0) continue;
    Segment segment;
    segment.site = SiteId(given.site);
    segment.buffer = given.buffer;
    segment.at = given.at;
    segment.count = given.count;
    segment.first = given.first;
    int64_t stride = 1;
    bool whole = false;  // the dim after this one
    for (size_t d = given.dims.size(); d-- > 0;) {
      if (whole) {
        // Its elements follow each other across rows of the dim after it.
        segment.dims.front() *= given.dims[d];
        segment.origin.front() = given.origin[d] * segment.dims.front() / given.dims[d];
      } else {
        segment.dims.insert(segment.dims.begin(), given.dims[d]);
        segment.origin.insert(segment.origin.begin(), given.origin[d]);
        segment.strides.insert(segment.strides.begin(), stride);
      }
      whole = given.dims[d] == given.global[d] && given.origin[d] == 0;
      stride *= given.global[d];
    }
    segments_.push_back(std::move(segment));
  }
}

int64_t ElementRuns::Segment::Element(int64_t local) const {
  int64_t element = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    element += (origin[d] + local % dims[d]) * strides[d];
    local /= dims[d];
  }
  return element;
}

}  // namespace colossus
