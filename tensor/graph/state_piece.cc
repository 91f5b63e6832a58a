#include "tensor/graph/state_piece.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 60;

using Box = std::pair<Dims, Dims>;  // origin, extent

bool Disjoint(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.first.size(); ++d) {
    if (a.first[d] + a.second[d] <= b.first[d] || b.first[d] + b.second[d] <= a.first[d]) {
      return true;
    }
  }
  return false;
}

// What two boxes have in common, as rows: a row is a stretch of elements contiguous in both.
class CommonRows {
 public:
  CommonRows(const StatePiece& a, const StatePiece& b) : a_(Side(a)), b_(Side(b)) {
    CHECK_EQ(a.origin.size(), b.origin.size());
    for (size_t d = 0; d < a.origin.size(); ++d) {
      const int64_t begin = std::max(a.origin[d], b.origin[d]);
      const int64_t end = std::min(a.origin[d] + a.extent[d], b.origin[d] + b.extent[d]);
      if (end <= begin) rows_ = 0;
      origin_.push_back(begin);
      extent_.push_back(end - begin);
    }
    if (rows_ == 0) return;
    // Trailing dims that both boxes have whole belong to a row, and one dim more.
    outer_ = extent_.size();
    while (outer_ > 0) {
      --outer_;
      length_ *= extent_[outer_];
      if (extent_[outer_] != a.extent[outer_] || extent_[outer_] != b.extent[outer_]) break;
    }
    for (size_t d = 0; d < outer_; ++d) rows_ *= extent_[d];
  }

  int64_t rows() const { return rows_; }
  int64_t length() const { return length_; }  // elements of a row

  // Where a row begins in the boxes of a and b.
  std::pair<int64_t, int64_t> At(int64_t row) const {
    std::pair<int64_t, int64_t> at(0, 0);
    for (size_t d = extent_.size(); d-- > 0;) {
      int64_t index = 0;
      if (d < outer_) {
        index = row % extent_[d];
        row /= extent_[d];
      }
      at.first += (origin_[d] + index - a_.origin[d]) * a_.strides[d];
      at.second += (origin_[d] + index - b_.origin[d]) * b_.strides[d];
    }
    return at;
  }

 private:
  struct Side {
    explicit Side(const StatePiece& piece)
        : origin(piece.origin), strides(RowMajorStrides(piece.extent)) {}
    Dims origin, strides;
  };

  Side a_, b_;
  Dims origin_, extent_;  // of what is common
  size_t outer_ = 0;      // dims that count rows
  int64_t rows_ = 1, length_ = 1;
};

}  // namespace

StatePiece WholePiece(const Dims& global) {
  return {Dims(global.size(), 0), global, 0, ElementCount(global)};
}

StatePiece BoxPiece(const Slice& slice) {
  return {slice.origin, slice.extent, 0, ElementCount(slice.extent)};
}

StatePiece PartOf(const StatePiece& piece, int64_t at, int64_t count) {
  CHECK(at >= 0 && count >= 0 && at + count <= piece.count) << at << "+" << count;
  return {piece.origin, piece.extent, piece.first + at, count};
}

bool IsBox(const StatePiece& piece) {
  return piece.first == 0 && piece.count == ElementCount(piece.extent);
}

std::string ToString(const StatePiece& piece) {
  return absl::StrCat(DimsToString(piece.origin), "+", DimsToString(piece.extent),
                      IsBox(piece) ? "" : absl::StrCat("{", piece.first, ",", piece.count, "}"));
}

bool CountElements(absl::Span<const int64_t> dims, int64_t* elements) {
  *elements = 1;
  bool zero = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return false;
    zero = zero || dim == 0;
    if (dim > 0 && *elements > kMostElements / dim) return false;
    *elements *= std::max<int64_t>(dim, 1);
  }
  if (zero) *elements = 0;
  return true;
}

absl::Status CheckPiece(const StatePiece& piece, const Dims& global) {
  int64_t elements;
  bool inside = piece.origin.size() == global.size() && piece.extent.size() == global.size() &&
                CountElements(piece.extent, &elements);
  for (size_t d = 0; inside && d < global.size(); ++d) {
    inside = piece.origin[d] >= 0 && piece.origin[d] <= global[d] &&
             piece.extent[d] <= global[d] - piece.origin[d];
  }
  inside = inside && piece.first >= 0 && piece.first <= elements && piece.count >= 0 &&
           piece.count <= elements - piece.first;
  if (inside) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the piece ", DimsToString(piece.origin), "+", DimsToString(piece.extent), "{",
                   piece.first, ",", piece.count, "} is not inside ", DimsToString(global)));
}

StatePiece InsideOf(const StatePiece& piece, const Dims& global) {
  StatePiece inside;
  for (size_t d = 0; d < global.size(); ++d) {
    inside.origin.push_back(std::min(piece.origin[d], global[d]));
    inside.extent.push_back(std::max<int64_t>(
        0, std::min(piece.origin[d] + piece.extent[d], global[d]) - inside.origin[d]));
  }
  // Both orders agree, so a range of the one is a range of the other.
  const StatePiece box = {inside.origin, inside.extent, 0, ElementCount(inside.extent)};
  ForEachRun(box, piece, [&](int64_t at_box, int64_t, int64_t count) {
    if (inside.count == 0) inside.first = at_box;
    inside.count += count;
  });
  return inside;
}

absl::Status CheckCover(absl::Span<const StatePiece> pieces, const Dims& global) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pieces of ", DimsToString(global), " ", what));
  };
  std::map<Box, std::vector<std::pair<int64_t, int64_t>>> ranges;  // begin, end
  int64_t elements = 0;
  for (const StatePiece& piece : pieces) {
    if (piece.count == 0) continue;
    ranges[{piece.origin, piece.extent}].push_back({piece.first, piece.first + piece.count});
  }
  for (auto box = ranges.begin(); box != ranges.end(); ++box) {
    for (auto other = ranges.begin(); other != box; ++other) {
      if (!Disjoint(box->first, other->first)) return wrong("overlap");
    }
    auto& parts = box->second;
    std::sort(parts.begin(), parts.end());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0 && parts[i].first < parts[i - 1].second) return wrong("overlap");
      elements += parts[i].second - parts[i].first;
    }
  }
  return elements == ElementCount(global) ? absl::OkStatus() : wrong("leave elements out");
}

void ForEachRun(const StatePiece& a, const StatePiece& b,
                absl::FunctionRef<void(int64_t at_a, int64_t at_b, int64_t count)> run) {
  if (a.count == 0 || b.count == 0) return;
  const CommonRows rows(a, b);
  const int64_t end_a = a.first + a.count, end_b = b.first + b.count;
  // The first row that ends behind both beginnings; places ascend with rows.
  int64_t row = 0, end = rows.rows();
  while (row < end) {
    const int64_t middle = row + (end - row) / 2;
    const auto [at_a, at_b] = rows.At(middle);
    const bool before = at_a + rows.length() <= a.first || at_b + rows.length() <= b.first;
    if (before) {
      row = middle + 1;
    } else {
      end = middle;
    }
  }
  for (; row < rows.rows(); ++row) {
    const auto [at_a, at_b] = rows.At(row);
    const int64_t skip = std::max<int64_t>({0, a.first - at_a, b.first - at_b});
    const int64_t stop = std::min({rows.length(), end_a - at_a, end_b - at_b});
    if (at_a >= end_a || at_b >= end_b) return;
    if (skip < stop) run(at_a + skip - a.first, at_b + skip - b.first, stop - skip);
  }
}

}  // namespace colossus
