#include "shardformer/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/byte_symbols.h"
#include "shardformer/tokenizer/json_fields.h"

namespace colossus {
namespace {

constexpr size_t kShort = 48;  // symbols merged by plain search

uint64_t Mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  return x ^ (x >> 29);
}

uint64_t HashBytes(absl::string_view bytes) {
  uint64_t hash = bytes.size();
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    hash = Mix(hash ^ word);
  }
  uint64_t word = 0;
  memcpy(&word, at, left);
  return Mix(Mix(hash ^ word));
}

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// "a b" or ["a", "b"].
absl::Status SplitMerge(const nlohmann::json& merge, const std::string& path, std::string* left,
                        std::string* right) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    *left = merge[0].get<std::string>();
    *right = merge[1].get<std::string>();
    return absl::OkStatus();
  }
  if (merge.is_string()) {
    const std::string& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      *left = text.substr(0, space);
      *right = text.substr(space + 1);
      return absl::OkStatus();
    }
  }
  return Fields::Wrong(path, "two tokens, \"a b\" or [\"a\", \"b\"]", merge);
}

}  // namespace

absl::StatusOr<Bpe> Bpe::Parse(const nlohmann::json& json, const std::string& path) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  // Old files leave the type out.
  ASSIGN_OR_RETURN(const std::string type, fields.Text("type", "BPE"));
  if (type != "BPE") {
    return Fields::Refuse(fields.PathOf("type"), type, "only byte-level BPE can be read");
  }
  Bpe made;
  const nlohmann::json* vocabulary = fields.Find("vocab");
  RETURN_IF_ERROR(made.ParseVocabulary(vocabulary == nullptr ? nlohmann::json() : *vocabulary,
                                       fields.PathOf("vocab")));
  ASSIGN_OR_RETURN(const nlohmann::json* merges, fields.RequiredList("merges"));
  RETURN_IF_ERROR(made.ParseMerges(*merges, fields.PathOf("merges")));
  RETURN_IF_ERROR(made.ParseSettings(fields));
  RETURN_IF_ERROR(fields.End());
  return made;
}

absl::Status Bpe::ParseVocabulary(const nlohmann::json& json, const std::string& path) {
  if (!json.is_object()) return Fields::Wrong(path, "an object", json);
  if (json.empty()) return Fields::Wrong(path, "a vocabulary with tokens", json);
  ids_.reserve(json.size());
  byte_ids_.reserve(json.size());
  single_.fill(-1);
  absl::flat_hash_set<int32_t> taken;
  taken.reserve(json.size());
  std::string bytes;
  for (const auto& [token, value] : json.items()) {
    const auto place = [&, &token = token] {
      return absl::StrCat(path, "[", nlohmann::json(token).dump(), "]");
    };
    if (!ReadId(value, path).ok()) return ReadId(value, place()).status();
    const int32_t id = value.get<int32_t>();
    if (!taken.insert(id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(place(), " is ", id, ", an id that another token has too"));
    }
    ids_.emplace(token, id);
    if (!BytesOfSymbols(token, &bytes)) continue;  // merges cannot make it; added tokens may be so
    byte_ids_.emplace(bytes, id);
    if (bytes.size() == 1) single_[static_cast<unsigned char>(bytes[0])] = id;
  }
  return absl::OkStatus();
}

absl::Status Bpe::ParseMerges(const nlohmann::json& json, const std::string& path) {
  merges_.resize(std::bit_ceil(2 * json.size() + 2));
  std::string left, right;
  for (size_t i = 0; i < json.size(); ++i) {
    // The first line of merges.txt, which old converters kept.
    if (i == 0 && json[i].is_string() &&
        absl::StartsWith(json[i].get_ref<const std::string&>(), "#version")) {
      continue;
    }
    const std::string place = absl::StrCat(path, "[", i, "]");
    RETURN_IF_ERROR(SplitMerge(json[i], place, &left, &right));
    const auto a = ids_.find(left), b = ids_.find(right), both = ids_.find(left + right);
    if (a == ids_.end() || b == ids_.end() || both == ids_.end()) {
      const std::string& missing =
          a == ids_.end() ? left : b == ids_.end() ? right : (left += right);
      return absl::InvalidArgumentError(
          absl::StrCat(place, " needs the token ", nlohmann::json(missing).dump(),
                       ", which model.vocab does not have"));
    }
    AddMerge(a->second, b->second, {static_cast<int32_t>(i), both->second});
  }
  return absl::OkStatus();
}

absl::Status Bpe::ParseSettings(Fields& fields) {
  ASSIGN_OR_RETURN(ignore_merges_, fields.Bool("ignore_merges", false));
  if (!ignore_merges_) byte_ids_.clear();
  ASSIGN_OR_RETURN(fuse_unknown_, fields.Bool("fuse_unk", false));
  const bool all_bytes =
      std::all_of(single_.begin(), single_.end(), [](int32_t id) { return id >= 0; });
  ASSIGN_OR_RETURN(const std::string unknown, fields.Text("unk_token", ""));
  if (!unknown.empty() && !all_bytes) {  // else nothing is unknown
    const auto found = ids_.find(unknown);
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.PathOf("unk_token"), " is ", nlohmann::json(unknown).dump(),
                       ", which model.vocab does not have"));
    }
    unknown_ = found->second;
  }
  ASSIGN_OR_RETURN(const bool byte_fallback, fields.Bool("byte_fallback", false));
  if (byte_fallback && !all_bytes) {
    return Fields::Refuse(fields.PathOf("byte_fallback"), true,
                          "the vocabulary is not byte-level; Llama 2's kind cannot be read");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string affix, fields.Text(name, ""));
    if (affix.empty()) continue;
    return Fields::Refuse(fields.PathOf(name), affix,
                          "byte-level tokenizers with marks at words cannot be read");
  }
  const nlohmann::json* dropout = fields.Find("dropout");
  if (dropout != nullptr && *dropout != 0) {
    return Fields::Refuse(fields.PathOf("dropout"), *dropout,
                          "merges left out at random are not made; set it to null");
  }
  return absl::OkStatus();
}

void Bpe::AddMerge(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = PairKey(left, right);
  const size_t mask = merges_.size() - 1;
  size_t at = Mix(pair) & mask;
  while (merges_[at].pair != pair && merges_[at].merge.rank >= 0) at = (at + 1) & mask;
  merges_[at] = {pair, merge};  // of a pair given twice the later one counts
}

Bpe::Merge Bpe::FindMerge(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t at = Mix(pair) & mask;; at = (at + 1) & mask) {
    if (merges_[at].pair == pair || merges_[at].merge.rank < 0) return merges_[at].merge;
  }
}

void Bpe::StartIds(absl::string_view piece, std::vector<int32_t>* ids) const {
  ids->clear();
  bool after_unknown = false;
  for (const char c : piece) {
    const int32_t id = single_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids->push_back(id);
    } else if (unknown_ >= 0 && !(after_unknown && fuse_unknown_)) {
      ids->push_back(unknown_);
    }
    after_unknown = id < 0;
  }
}

// Over scratch->ids_, by a search for the least rank before each merge.
void Bpe::MergeShort(BpeScratch* scratch) const {
  std::vector<int32_t>&ids = scratch->ids_, &ranks = scratch->ranks_;
  size_t n = ids.size();
  const auto rank = [&](size_t i) {
    const int32_t found = FindMerge(ids[i], ids[i + 1]).rank;
    return found < 0 ? INT32_MAX : found;
  };
  ranks.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank(i);
  while (n > 1) {
    const auto least = std::min_element(ranks.begin(), ranks.begin() + static_cast<int64_t>(n) - 1);
    if (*least == INT32_MAX) break;
    const size_t i = static_cast<size_t>(least - ranks.begin());
    ids[i] = FindMerge(ids[i], ids[i + 1]).id;
    std::copy(ids.begin() + i + 2, ids.begin() + n, ids.begin() + i + 1);
    std::copy(ranks.begin() + i + 2, ranks.begin() + n, ranks.begin() + i + 1);
    --n;
    if (i + 1 < n) ranks[i] = rank(i);
    if (i > 0) ranks[i - 1] = rank(i - 1);
  }
  ids.resize(n);
}

// Over scratch->ids_, by a heap of candidates; one whose neighbours changed is passed over.
void Bpe::MergeLong(BpeScratch* scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch->symbols_;
  std::vector<BpeScratch::Candidate>& heap = scratch->heap_;
  const auto later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const int32_t n = static_cast<int32_t>(scratch->ids_.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols.push_back({scratch->ids_[i], i - 1, i + 1 < n ? i + 1 : -1});
  }
  const auto offer = [&](int32_t at) {
    if (at < 0 || symbols[at].after < 0) return false;
    const int32_t left = symbols[at].id, right = symbols[symbols[at].after].id;
    const Merge merge = FindMerge(left, right);
    if (merge.rank >= 0) heap.push_back({merge.rank, at, left, right});
    return merge.rank >= 0;
  };
  for (int32_t i = 0; i < n; ++i) offer(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const BpeScratch::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    BpeScratch::Symbol& symbol = symbols[top.at];
    const int32_t next = symbol.after;
    if (symbol.id != top.left || next < 0 || symbols[next].id != top.right) continue;
    symbol.id = FindMerge(top.left, top.right).id;
    symbol.after = symbols[next].after;
    symbols[next].id = -1;  // gone
    if (symbol.after >= 0) symbols[symbol.after].before = top.at;
    if (offer(top.at)) std::push_heap(heap.begin(), heap.end(), later);
    if (offer(symbol.before)) std::push_heap(heap.begin(), heap.end(), later);
  }
  scratch->ids_.clear();
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = symbols[i].after) {
    scratch->ids_.push_back(symbols[i].id);
  }
}

void Bpe::Compute(absl::string_view piece, BpeScratch* scratch) const {
  if (ignore_merges_) {
    const auto found = byte_ids_.find(piece);
    if (found != byte_ids_.end()) {
      scratch->ids_.assign(1, found->second);
      return;
    }
  }
  StartIds(piece, &scratch->ids_);
  if (scratch->ids_.size() <= kShort) {
    MergeShort(scratch);
  } else {
    MergeLong(scratch);
  }
}

void Bpe::Encode(absl::string_view piece, BpeScratch* scratch, std::vector<int32_t>* ids) const {
  if (piece.size() > BpeScratch::kBytes) {
    Compute(piece, scratch);
    ids->insert(ids->end(), scratch->ids_.begin(), scratch->ids_.end());
    return;
  }
  BpeScratch::Slot& slot = scratch->slots_[HashBytes(piece) % BpeScratch::kSlots];
  if (slot.size == piece.size() && memcmp(slot.bytes, piece.data(), piece.size()) == 0) {
    ids->insert(ids->end(), slot.ids, slot.ids + slot.count);
    return;
  }
  Compute(piece, scratch);
  ids->insert(ids->end(), scratch->ids_.begin(), scratch->ids_.end());
  if (scratch->ids_.size() > BpeScratch::kIds) return;
  slot.size = static_cast<uint8_t>(piece.size());
  slot.count = static_cast<uint8_t>(scratch->ids_.size());
  memcpy(slot.bytes, piece.data(), piece.size());
  std::copy(scratch->ids_.begin(), scratch->ids_.end(), slot.ids);
}

}  // namespace colossus
