#include "gemini/chunk.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/round_up.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 62;
// Sizes that the search tries: from a quarter of the largest to all of it.
constexpr int64_t kSteps = 64;

absl::Status CheckOptions(const ChunkOptions& options) {
  const std::pair<const char*, int64_t> positive[] = {{"shards", options.shards},
                                                      {"alignment", options.alignment},
                                                      {"block", options.block},
                                                      {"max_elements", options.max_elements}};
  for (const auto& [name, value] : positive) {
    // Above, sums below could overflow.
    if (value >= 1 && value <= int64_t{1} << 30) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("chunks: ", name, " is ", value, ", not 1 to 2^30"));
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const std::vector<ChunkTensor>& tensors, const ChunkOptions& options) {
  // Of a tensor that has a chunk of its own: the most that padding can add.
  const int64_t padding = options.alignment + options.shards * options.block;
  absl::flat_hash_map<std::string, int> seen;
  int64_t total = 0;
  for (const ChunkTensor& tensor : tensors) {
    if (++seen[tensor.name] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("chunks: '", tensor.name, "' twice"));
    }
    if (tensor.elements < 0 || tensor.elements > kMostElements - padding - total) {
      return absl::InvalidArgumentError(absl::StrCat("chunks: '", tensor.name, "' has ",
                                                     tensor.elements, " elements after ", total,
                                                     " of others"));
    }
    total += tensor.elements + padding;
  }
  return absl::OkStatus();
}

// The tensors of each group together, groups and tensors in the order in which they come first.
std::vector<ChunkTensor> ByGroup(const std::vector<ChunkTensor>& tensors) {
  absl::flat_hash_map<std::string, size_t> index;
  std::vector<std::vector<const ChunkTensor*>> groups;
  for (const ChunkTensor& tensor : tensors) {
    auto [found, added] = index.try_emplace(tensor.group, groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(&tensor);
  }
  std::vector<ChunkTensor> ordered;
  for (const auto& group : groups) {
    for (const ChunkTensor* tensor : group) ordered.push_back(*tensor);
  }
  return ordered;
}

}  // namespace

// Tensors one after another; a new chunk for a new group, and where `largest` would be passed.
void ChunkLayout::Fill(const std::vector<ChunkTensor>& tensors, const ChunkOptions& options,
                       int64_t largest) {
  chunks_.clear();
  place_.clear();
  shards_ = options.shards;
  largest_ = largest;
  elements_ = used_ = 0;
  int64_t end = 0;  // of the last tensor, in its chunk
  for (const ChunkTensor& tensor : tensors) {
    int64_t first = RoundUp(end, options.alignment);
    if (chunks_.empty() || chunks_.back().group != tensor.group ||
        (first > 0 && first + tensor.elements > largest)) {
      chunks_.push_back({tensor.group, {}, 0, 0});
      first = 0;
    }
    end = first + tensor.elements;
    Chunk& chunk = chunks_.back();
    place_[tensor.name] = {static_cast<int>(chunks_.size()) - 1,
                           static_cast<int>(chunk.segments.size())};
    chunk.segments.push_back(
        {tensor.name, static_cast<int>(chunks_.size()) - 1, first, tensor.elements});
    chunk.used += tensor.elements;
    chunk.elements = RoundUp(end, options.shards * options.block);
  }
  for (const Chunk& chunk : chunks_) {
    elements_ += chunk.elements;
    used_ += chunk.used;
  }
}

absl::StatusOr<ChunkLayout> ChunkLayout::Make(const std::vector<ChunkTensor>& tensors,
                                              const ChunkOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckTensors(tensors, options));
  const std::vector<ChunkTensor> ordered = ByGroup(tensors);
  const int64_t unit = options.shards * options.block;
  ChunkLayout best;
  // Largest first, and only less padding wins: of equal sizes the one with the fewest chunks.
  for (int64_t step = kSteps; step >= kSteps / 4; --step) {
    ChunkLayout layout;
    const int64_t wanted =
        options.max_elements / kSteps * step + options.max_elements % kSteps * step / kSteps;
    layout.Fill(ordered, options, std::max(unit, wanted / unit * unit));
    if (step == kSteps || layout.padding() < best.padding()) best = std::move(layout);
  }
  return best;
}

const ChunkSegment* ChunkLayout::Find(absl::string_view tensor) const {
  auto found = place_.find(tensor);
  if (found == place_.end()) return nullptr;
  return &chunks_[found->second.first].segments[found->second.second];
}

ElementRange ChunkLayout::Shard(int chunk, int shard) const {
  CHECK(chunk >= 0 && chunk < static_cast<int>(chunks_.size())) << chunk;
  CHECK(shard >= 0 && shard < shards_) << shard;
  const int64_t count = chunks_[chunk].elements / shards_;
  return {shard * count, count};
}

std::vector<ChunkPiece> ChunkLayout::Held(int chunk, ElementRange range) const {
  CHECK(chunk >= 0 && chunk < static_cast<int>(chunks_.size())) << chunk;
  CHECK(range.first >= 0 && range.count >= 0 && range.end() <= chunks_[chunk].elements);
  const int64_t per_shard = chunks_[chunk].elements / shards_;
  std::vector<ChunkPiece> pieces;
  for (const ChunkSegment& segment : chunks_[chunk].segments) {
    const int64_t end = std::min(range.end(), segment.first + segment.elements);
    int64_t at = std::max(range.first, segment.first);
    while (at < end) {
      const int64_t shard = at / per_shard;
      const int64_t next = std::min(end, (shard + 1) * per_shard);
      pieces.push_back({segment.name, at - segment.first, chunk, at, static_cast<int>(shard),
                        at - shard * per_shard, next - at});
      at = next;
    }
  }
  return pieces;
}

std::vector<ChunkPiece> ChunkLayout::Pieces(absl::string_view tensor, ElementRange range) const {
  const ChunkSegment* segment = Find(tensor);
  CHECK(segment != nullptr) << tensor;
  CHECK(range.first >= 0 && range.count >= 0 && range.end() <= segment->elements) << tensor;
  return Held(segment->chunk, {segment->first + range.first, range.count});
}

std::vector<ChunkPiece> ChunkLayout::Pieces(absl::string_view tensor) const {
  const ChunkSegment* segment = Find(tensor);
  CHECK(segment != nullptr) << tensor;
  return Pieces(tensor, {0, segment->elements});
}

std::string Summary(const ChunkLayout& layout) {
  const double share = layout.elements() == 0 ? 0
                                              : 100.0 * static_cast<double>(layout.padding()) /
                                                    static_cast<double>(layout.elements());
  int64_t most = 0;
  for (const Chunk& chunk : layout.chunks()) most = std::max(most, chunk.elements);
  return absl::StrFormat(
      "%d chunks for %d shards: %d elements, %.2f %% of them padding; the "
      "largest has %d",
      layout.chunks().size(), layout.shards(), layout.elements(), share, most);
}

std::string ToText(const ChunkLayout& layout) {
  std::string text = absl::StrCat(Summary(layout), "\n");
  for (size_t c = 0; c < layout.chunks().size(); ++c) {
    const Chunk& chunk = layout.chunks()[c];
    absl::StrAppend(&text, "chunk ", c, " ", chunk.group, " ", chunk.elements, " elements, ",
                    chunk.used, " used\n");
    for (const ChunkSegment& segment : chunk.segments) {
      absl::StrAppend(&text, "  ", segment.name, " [", segment.first, ",",
                      segment.first + segment.elements, ")\n");
    }
  }
  return text;
}

}  // namespace colossus
