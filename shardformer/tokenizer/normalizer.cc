#include "shardformer/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "shardformer/tokenizer/json_fields.h"
#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

struct CodeRange {
  uint32_t first, last;
};

// The tables with which the files' makers normalize are older than those here: these characters
// pass unchanged there and are never moved or composed, in all four forms.
constexpr CodeRange kUntouched[] = {
    {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C}, {0xD3B, 0xD3C},
    {0xEBA, 0xEBA}, {0x1715, 0x1715}, {0x1ABF, 0x1ACE}, {0x1DF6, 0x1DFA}, {0x32FF, 0x32FF},
    {0xA7F2, 0xA7F4}, {0xA82C, 0xA82C}, {0xAB69, 0xAB69}, {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935},
    {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
    {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},};

// Characters that NFC leaves alone whatever stands beside them in a text of nothing else: composed
// Latin, basic Cyrillic, punctuation, ideographs, Hangul syllables.
constexpr CodeRange kComposed[] = {{0, 0x2FF},         {0x400, 0x482},   {0x2010, 0x2027},
                                   {0x3000, 0x3098},   {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3},
                                   {0xFF00, 0xFFEF},   {0x1F300, 0x1F64F}};

template <size_t n>
bool IsIn(uint32_t code, const CodeRange (&ranges)[n]) {
  const CodeRange* found =
      std::lower_bound(std::begin(ranges), std::end(ranges), code,
                       [](const CodeRange& r, uint32_t c) { return r.last < c; });
  return found != std::end(ranges) && found->first <= code;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Most characters that one becomes: U+FDFA has 18.
constexpr size_t kMostParts = 32;

int CombiningClass(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Puts the marks behind each letter in the order of their classes. (The library's own way takes a
// time that is quadratic in their number.)
void OrderMarks(std::vector<utf8proc_int32_t>* codes) {
  for (auto begin = codes->begin(); begin != codes->end();) {
    begin = std::find_if(begin, codes->end(), [](auto code) { return CombiningClass(code) != 0; });
    const auto end =
        std::find_if(begin, codes->end(), [](auto code) { return CombiningClass(code) == 0; });
    std::stable_sort(begin, end,
                     [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

void AppendForm(absl::string_view text, bool compose, bool compatible, std::string* out) {
  if (IsAscii(text)) {
    absl::StrAppend(out, text);
    return;
  }
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (size_t i = 0, length; i < text.size(); i += length) {
    utf8proc_int32_t parts[kMostParts];
    int unused = 0;
    const auto code = static_cast<utf8proc_int32_t>(DecodeUtf8(text.substr(i), &length));
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code, parts, kMostParts, options, &unused);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMostParts)) << code;
    codes.insert(codes.end(), parts, parts + count);
  }
  OrderMarks(&codes);
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(
      codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  CHECK(size >= 0) << utf8proc_errmsg(size);  // only options can be wrong
  codes.resize(static_cast<size_t>(size));
  for (const utf8proc_int32_t code : codes) AppendUtf8(static_cast<uint32_t>(code), out);
}

std::string ToForm(absl::string_view text, bool compose, bool compatible) {
  std::string out;
  size_t begin = 0, length;
  for (size_t i = 0; i < text.size(); i += length) {
    const uint32_t code = DecodeUtf8(text.substr(i), &length);
    if (code < kUntouched[0].first || !IsIn(code, kUntouched)) continue;
    AppendForm(text.substr(begin, i - begin), compose, compatible, &out);
    absl::StrAppend(&out, text.substr(i, length));
    begin = i + length;
  }
  AppendForm(text.substr(begin), compose, compatible, &out);
  return out;
}

std::string Replaced(absl::string_view text, const Pattern& pattern, const std::string& content,
                     Matcher* matcher) {
  std::string subject;
  const char* seen = WithStandIns(text, &subject) ? subject.data() : text.data();
  std::string out;
  size_t from = 0, begin, end;
  while (from < text.size() && pattern.Find(seen, text.size(), from, matcher, &begin, &end)) {
    if (begin == end) break;  // Parse refuses patterns that match nothing at all
    absl::StrAppend(&out, text.substr(from, begin - from), content);
    from = end;
  }
  absl::StrAppend(&out, text.substr(from));
  return out;
}

// Bytes of the white space at the start of `text`.
size_t LeadingSpace(absl::string_view text) {
  size_t i = 0, length;
  while (i < text.size() && IsWhiteSpace(DecodeUtf8(text.substr(i), &length))) i += length;
  return i;
}

absl::string_view WithoutTrailingSpace(absl::string_view text) {
  while (!text.empty()) {
    size_t last = text.size() - 1, length;
    while ((text[last] & 0xC0) == 0x80) --last;
    if (!IsWhiteSpace(DecodeUtf8(text.substr(last), &length))) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace

absl::StatusOr<Normalizer::Step> Normalizer::ParseStep(const nlohmann::json& json,
                                                       const std::string& path) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
  Step step;
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    step.compose = type.back() == 'C';
    step.compatible = type[2] == 'K';
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    ASSIGN_OR_RETURN(step.content, fields.RequiredText("prepend"));
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    ASSIGN_OR_RETURN(step.left, fields.Bool("strip_left", true));
    ASSIGN_OR_RETURN(step.right, fields.Bool("strip_right", true));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    ASSIGN_OR_RETURN(step.content, fields.RequiredText("content"));
    const nlohmann::json* pattern = fields.Find("pattern");
    const nlohmann::json given = pattern == nullptr ? nlohmann::json() : *pattern;
    const bool literal = given.is_object() && given.size() == 1 && given.contains("String") &&
                         given["String"].is_string() && given["String"] != "";
    if (!literal) {
      return Fields::Refuse(fields.PathOf("pattern"), given,
                            "only {\"String\": ...} that is not empty can be replaced");
    }
    ASSIGN_OR_RETURN(step.pattern, Pattern::Literal(given["String"].get<std::string>()));
  } else {
    return Fields::Refuse(fields.PathOf("type"), type,
                          "known are Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace and Strip");
  }
  RETURN_IF_ERROR(fields.End());
  return step;
}

absl::Status Normalizer::ParseList(const nlohmann::json& json, const std::string& path,
                                   std::vector<Step>* steps) {
  if (json.is_object() && json.contains("type") && json["type"] == "Sequence") {
    ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
    fields.Find("type");
    ASSIGN_OR_RETURN(const nlohmann::json* list, fields.RequiredList("normalizers"));
    for (size_t i = 0; i < list->size(); ++i) {
      RETURN_IF_ERROR(ParseList((*list)[i], absl::StrCat(path, ".normalizers[", i, "]"), steps));
    }
    return fields.End();
  }
  ASSIGN_OR_RETURN(Step step, ParseStep(json, path));
  steps->push_back(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<Normalizer> Normalizer::Parse(const nlohmann::json& json, const std::string& path) {
  Normalizer made;
  if (!json.is_null()) RETURN_IF_ERROR(ParseList(json, path, &made.steps_));
  return made;
}

bool Normalizer::KeepsAscii() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::kForm; });
}

bool Normalizer::Keeps(absl::string_view text) const {
  if (steps_.empty()) return true;
  if (!KeepsAscii()) return false;
  if (IsAscii(text)) return true;
  for (const Step& step : steps_) {
    if (!step.compose || step.compatible) return false;
  }
  size_t length;
  for (size_t i = 0; i < text.size(); i += length) {
    if (!IsIn(DecodeUtf8(text.substr(i), &length), kComposed)) return false;
  }
  return true;
}

std::string Normalizer::RunStep(const Step& step, absl::string_view text, Matcher* matcher) {
  switch (step.kind) {
    case Kind::kForm:
      return ToForm(text, step.compose, step.compatible);
    case Kind::kPrepend:
      return text.empty() ? std::string() : absl::StrCat(step.content, text);
    case Kind::kReplace:
      return Replaced(text, *step.pattern, step.content, matcher);
    case Kind::kStrip:
      if (step.left) text.remove_prefix(LeadingSpace(text));
      if (step.right) text = WithoutTrailingSpace(text);
      return std::string(text);
  }
  return std::string(text);
}

std::string Normalizer::Run(absl::string_view text, Matcher* matcher) const {
  std::string out(text);
  for (const Step& step : steps_) out = RunStep(step, out, matcher);
  return out;
}

}  // namespace colossus
