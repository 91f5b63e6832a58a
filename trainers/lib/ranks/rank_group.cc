#include "trainers/lib/ranks/rank_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

// Texts travel as whole i32 elements.
constexpr size_t kElementBytes = sizeof(int32_t);

int64_t ElementsOf(int64_t bytes) {
  return (bytes + static_cast<int64_t>(kElementBytes) - 1) / static_cast<int64_t>(kElementBytes);
}

std::string Encode(const absl::Status& status) {
  return absl::StrCat(static_cast<int>(status.code()), " ", status.message());
}

absl::Status Decode(absl::string_view text) {
  const size_t space = text.find(' ');
  int code = 0;
  CHECK(space != absl::string_view::npos && absl::SimpleAtoi(text.substr(0, space), &code)) << text;
  return absl::Status(static_cast<absl::StatusCode>(code), text.substr(space + 1));
}

// What all ranks are to report.
absl::Status JointError(const std::vector<std::string>& texts) {
  const bool alike = std::all_of(texts.begin(), texts.end(),
                                 [&](const std::string& text) { return text == texts[0]; });
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const absl::Status status = Decode(texts[rank]);
    if (status.ok()) continue;
    return alike ? status : Annotate(status, absl::StrCat("rank ", rank));
  }
  CHECK(false) << "no rank failed";
  return absl::OkStatus();
}

}  // namespace

absl::Status RankGroup::Agree(const absl::Status& mine, absl::string_view site) {
  absl::Status verdict;
  RETURN_IF_ERROR(Judge(mine, site, &verdict));
  return verdict;
}

absl::Status RankGroup::AgreeOnFirst(const absl::Status& of_first, absl::string_view site) {
  if (world_ == nullptr) return of_first;
  ASSIGN_OR_RETURN(const std::string text,
                   FromFirst(first() && !of_first.ok() ? Encode(of_first) : "", site));
  return text.empty() ? absl::OkStatus() : Decode(text);
}

absl::Status RankGroup::Judge(const absl::Status& mine, absl::string_view site,
                              absl::Status* verdict) {
  *verdict = mine;
  if (world_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t failed, Sum(mine.ok() ? 0 : 1, site));
  if (failed == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, Gather(Encode(mine), site));
  *verdict = JointError(texts);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RankGroup::Reduce(int64_t mine, absl::string_view site,
                                          Reduction reduction) {
  if (world_ != nullptr) RETURN_IF_ERROR(AllReduce(*world_, &mine, 1, site, reduction));
  return mine;
}

absl::StatusOr<int64_t> RankGroup::Sum(int64_t mine, absl::string_view site) {
  return Reduce(mine, site, Reduction::kSum);
}

absl::StatusOr<int64_t> RankGroup::Max(int64_t mine, absl::string_view site) {
  return Reduce(mine, site, Reduction::kMax);
}

absl::Status RankGroup::MaxOfEach(std::vector<int64_t>& numbers, absl::string_view site) {
  if (world_ == nullptr || numbers.empty()) return absl::OkStatus();
  return AllReduce(*world_, numbers.data(), static_cast<int64_t>(numbers.size()), site,
                   Reduction::kMax);
}

absl::StatusOr<std::vector<std::string>> RankGroup::Gather(absl::string_view mine,
                                                           absl::string_view site) {
  if (world_ == nullptr) return std::vector<std::string>{std::string(mine)};
  const int64_t bytes = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<size_t>(size()));
  Collective lengths;
  lengths.kind = CollectiveKind::kAllGather;
  lengths.dtype = DType::kI64;
  lengths.src = &bytes;
  lengths.dst = sizes.data();
  lengths.count = 1;
  lengths.site = absl::StrCat(site, "/lengths");
  RETURN_IF_ERROR(world_->Run(lengths));

  Collective texts;
  texts.kind = CollectiveKind::kAllGather;
  texts.dtype = DType::kI32;
  int64_t total = 0;
  for (const int64_t size : sizes) {
    texts.counts.push_back(ElementsOf(size));
    total += texts.counts.back();
  }
  std::vector<int32_t> own(static_cast<size_t>(ElementsOf(bytes)));
  if (bytes > 0) std::memcpy(own.data(), mine.data(), mine.size());
  std::vector<int32_t> all(static_cast<size_t>(total));
  texts.src = own.data();
  texts.dst = all.data();
  texts.count = ElementsOf(bytes);
  texts.site = absl::StrCat(site, "/texts");
  RETURN_IF_ERROR(world_->Run(texts));

  std::vector<std::string> result;
  const char* at = reinterpret_cast<const char*>(all.data());
  for (size_t r = 0; r < sizes.size(); ++r) {
    result.emplace_back(at, static_cast<size_t>(sizes[r]));
    at += static_cast<size_t>(texts.counts[r]) * kElementBytes;
  }
  return result;
}

absl::StatusOr<std::string> RankGroup::FromFirst(absl::string_view mine, absl::string_view site) {
  ASSIGN_OR_RETURN(std::vector<std::string> texts, Gather(first() ? mine : "", site));
  return std::move(texts[0]);
}

}  // namespace colossus
