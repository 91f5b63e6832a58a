#include "shardformer/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "shardformer/tokenizer/json_fields.h"
#include "shardformer/tokenizer/unicode.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

// What ByteLevel splits by unless its use_regex is false.
constexpr char kByteLevelPattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Patterns of which it is known that no match holds a letter and then a space, that letters before
// a space match alike at the end of the text, and that nothing looks back: a text may be cut
// between the two. Those of Llama 3, Qwen 2, DeepSeek V3 and o200k.
#define LETTERS_BEFORE R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define SPACES_BEHIND R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define NAME_START R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define NAME_REST R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
constexpr const char* kCuttable[] = {
    kByteLevelPattern,
    LETTERS_BEFORE R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES_BEHIND,
    LETTERS_BEFORE R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES_BEHIND,
    R"(\p{N}{1,3})",
    "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*)" SPACES_BEHIND,
    NAME_START "*" NAME_REST "+" CONTRACTION NAME_START "+" NAME_REST "*" CONTRACTION
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES_BEHIND,
};
#undef LETTERS_BEFORE
#undef SPACES_BEHIND
#undef NAME_START
#undef NAME_REST
#undef CONTRACTION

bool IsCuttable(const std::string& pattern) {
  // Some files have the line breaks themselves in place of their escapes.
  const std::string escaped = absl::StrReplaceAll(pattern, {{"\r", "\\r"}, {"\n", "\\n"}});
  return std::find(std::begin(kCuttable), std::end(kCuttable), escaped) != std::end(kCuttable);
}

// A pattern that failed, under the name of its place.
absl::StatusOr<Pattern> Named(absl::StatusOr<Pattern> pattern, const std::string& path,
                              const nlohmann::json& value) {
  if (pattern.ok()) return pattern;
  return absl::Status(pattern.status().code(),
                      absl::StrCat(path, " is ", JsonExcerpt(value), ": ",
                                   pattern.status().message()));
}

}  // namespace

// The same stretch of the text and of what patterns see.
struct PreTokenizer::Piece {
  const char* text;
  const char* subject;
  size_t size;

  Piece Part(size_t begin, size_t end) const {
    return {text + begin, subject + begin, end - begin};
  }
};

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseSplit(Fields& fields) {
  Step step;
  ASSIGN_OR_RETURN(const std::string behavior, fields.RequiredText("behavior"));
  const std::pair<const char*, Behavior> behaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  const auto found = std::find_if(std::begin(behaviors), std::end(behaviors),
                                  [&](const auto& b) { return behavior == b.first; });
  if (found == std::end(behaviors)) {
    return Fields::Refuse(fields.PathOf("behavior"), behavior,
                          "known are Removed, Isolated, MergedWithPrevious, MergedWithNext and "
                          "Contiguous");
  }
  step.behavior = found->second;
  ASSIGN_OR_RETURN(step.invert, fields.Bool("invert", false));
  const nlohmann::json* pattern = fields.Find("pattern");
  const std::string path = fields.PathOf("pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1 ||
      !pattern->begin()->is_string()) {
    return Fields::Wrong(path, "an object with Regex or String",
                         pattern == nullptr ? nlohmann::json() : *pattern);
  }
  const std::string kind = pattern->begin().key(), text = pattern->begin()->get<std::string>();
  if (kind != "Regex" && kind != "String") {
    return Fields::Refuse(path, *pattern, "known are Regex and String");
  }
  if (text.empty()) return Fields::Refuse(path, *pattern, "an empty pattern splits nothing");
  ASSIGN_OR_RETURN(step.pattern,
                   Named(kind == "Regex" ? Pattern::Compile(text) : Pattern::Literal(text),
                         absl::StrCat(path, ".", kind), *pattern->begin()));
  step.cuts_before_space = kind == "Regex" && IsCuttable(text);
  return step;
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseStep(const nlohmann::json& json,
                                                           const std::string& path) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
  Step step;
  if (type == "Split") {
    ASSIGN_OR_RETURN(step, ParseSplit(fields));
  } else if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits", false));
    step.behavior = individual ? Behavior::kIsolated : Behavior::kContiguous;
    ASSIGN_OR_RETURN(step.pattern, Pattern::Compile(R"(\p{N})"));
    step.cuts_before_space = true;
  } else if (type == "ByteLevel") {
    step.byte_level = true;
    step.cuts_before_space = true;
    ASSIGN_OR_RETURN(step.add_prefix_space, fields.Bool("add_prefix_space", true));
    // Offsets are not computed, so there is nothing to trim.
    RETURN_IF_ERROR(fields.Bool("trim_offsets", true).status());
    ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
    if (use_regex) {
      ASSIGN_OR_RETURN(step.pattern, Pattern::Compile(kByteLevelPattern));
    }
  } else {
    return Fields::Refuse(fields.PathOf("type"), type,
                          "known are Sequence, Split, Digits and ByteLevel");
  }
  RETURN_IF_ERROR(fields.End());
  return step;
}

absl::Status PreTokenizer::ParseList(const nlohmann::json& json, const std::string& path,
                                     std::vector<Step>* steps) {
  if (json.is_object() && json.contains("type") && json["type"] == "Sequence") {
    ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
    fields.Find("type");
    ASSIGN_OR_RETURN(const nlohmann::json* list, fields.RequiredList("pretokenizers"));
    for (size_t i = 0; i < list->size(); ++i) {
      RETURN_IF_ERROR(
          ParseList((*list)[i], absl::StrCat(path, ".pretokenizers[", i, "]"), steps));
    }
    return fields.End();
  }
  if (!steps->empty() && steps->back().byte_level) {
    return Fields::Refuse(path, json, "a step after ByteLevel; ByteLevel must be the last one");
  }
  ASSIGN_OR_RETURN(Step step, ParseStep(json, path));
  steps->push_back(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const nlohmann::json& json,
                                                 const std::string& path) {
  PreTokenizer made;
  if (!json.is_null()) RETURN_IF_ERROR(ParseList(json, path, &made.steps_));
  if (made.steps_.empty() || !made.steps_.back().byte_level) {
    return Fields::Refuse(path, json,
                          "only byte-level tokenizers can be read, whose last step is ByteLevel");
  }
  made.cuts_before_space_ = true;
  for (const Step& step : made.steps_) made.cuts_before_space_ &= step.cuts_before_space;
  // With a space put before each piece that has none, a cut would add one.
  made.cuts_before_space_ &= !made.steps_.back().add_prefix_space;
  return made;
}

// Gives (begin, end, matches) of all stretches of the piece in order, empty matches too.
template <class Emit>
void PreTokenizer::Stretches(const Pattern& pattern, const Piece& piece, Matcher* matcher,
                             Emit emit) {
  size_t done = 0, from = 0;
  bool any = false;
  size_t last_end = 0;
  while (from <= piece.size) {
    size_t begin, end;
    if (!pattern.Find(piece.subject, piece.size, from, matcher, &begin, &end)) break;
    if (begin == end && any && last_end == end) {  // an empty match right behind a match is none
      size_t length = 1;
      if (from < piece.size) DecodeUtf8({piece.subject + from, piece.size - from}, &length);
      from += length;
      continue;
    }
    any = true;
    from = last_end = end;
    if (done != begin) emit(done, begin, false);
    emit(begin, end, true);
    done = end;
  }
  if (done != piece.size) emit(done, piece.size, false);
}

template <class Emit>
void PreTokenizer::Cut(const Step& step, const Piece& piece, Matcher* matcher, Emit emit) {
  const auto give = [&](size_t begin, size_t end) {
    if (begin != end) emit(piece.Part(begin, end));
  };
  if (step.behavior == Behavior::kIsolated) {
    Stretches(*step.pattern, piece, matcher,
              [&](size_t begin, size_t end, bool) { give(begin, end); });
    return;
  }
  // The stretch that the next one may join.
  size_t open_begin = 0, open_end = 0;
  bool open = false, before = false;
  Stretches(*step.pattern, piece, matcher, [&](size_t begin, size_t end, bool matches) {
    matches ^= step.invert;
    bool joins = false;
    switch (step.behavior) {
      case Behavior::kRemoved:
        if (!matches) give(begin, end);
        return;
      case Behavior::kMergedWithPrevious:
        joins = matches && !before;
        break;
      case Behavior::kMergedWithNext:
        joins = !matches && before;
        break;
      default:
        joins = matches == before;
    }
    before = matches;
    if (open && !joins) give(open_begin, open_end);
    if (!open || !joins) open_begin = begin;
    open_end = end;
    open = true;
  });
  if (open) give(open_begin, open_end);
}

void PreTokenizer::RunFrom(size_t index, Piece piece, PreTokenizerScratch* scratch,
                           absl::FunctionRef<void(absl::string_view)> give) const {
  const Step& step = steps_[index];
  if (step.byte_level) {
    if (step.add_prefix_space && piece.text[0] != ' ') {
      scratch->prefixed_text.assign(1, ' ').append(piece.text, piece.size);
      scratch->prefixed_subject.assign(1, ' ').append(piece.subject, piece.size);
      piece = {scratch->prefixed_text.data(), scratch->prefixed_subject.data(), piece.size + 1};
    }
    if (!step.pattern) return give({piece.text, piece.size});
    Cut(step, piece, &scratch->matcher,
        [&](const Piece& part) { give({part.text, part.size}); });
    return;
  }
  Cut(step, piece, &scratch->matcher,
      [&](const Piece& part) { RunFrom(index + 1, part, scratch, give); });
}

void PreTokenizer::Run(absl::string_view text, PreTokenizerScratch* scratch,
                       absl::FunctionRef<void(absl::string_view)> piece) const {
  if (text.empty()) return;
  const bool copied = WithStandIns(text, &scratch->subject);
  RunFrom(0, {text.data(), copied ? scratch->subject.data() : text.data(), text.size()}, scratch,
          piece);
}

}  // namespace colossus
