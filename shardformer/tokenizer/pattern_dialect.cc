#include "shardformer/tokenizer/pattern_dialect.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

// Properties that mean the same to both, with the stand-ins of unicode.h.
constexpr absl::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",
    "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};
constexpr absl::string_view kScripts[] = {"Han", "Hiragana", "Katakana", "Hangul", "Thai"};

// Letters that together fold to one character: without regard to case, Oniguruma takes that
// character for the two.
constexpr absl::string_view kFolds[] = {"ss", "ff", "fi", "fl", "st"};

template <class List>
bool Contains(const List& list, absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

class Translator {
 public:
  explicit Translator(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < pattern_.size()) RETURN_IF_ERROR(Item());
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin;   // in out_
    bool caseless;  // outside of it
  };

  absl::Status Refuse(absl::string_view part, absl::string_view why) const {
    return absl::UnimplementedError(
        absl::StrCat("\"", part, "\" at byte ", at_, " of the pattern: ", why));
  }
  absl::string_view Rest() const { return pattern_.substr(at_); }
  bool At(absl::string_view text) const { return Rest().substr(0, text.size()) == text; }
  // Copies `n` bytes as they stand.
  void Copy(size_t n) {
    absl::StrAppend(&out_, pattern_.substr(at_, n));
    at_ += n;
  }

  absl::Status Item() {
    switch (pattern_[at_]) {
      case '(':
        return Open();
      case ')':
        return Close();
      case '[':
        atom_ = out_.size();
        letters_.clear();
        return Class();
      case '*':
      case '+':
      case '?':
        Copy(1);
        if (At("+") || At("?")) Copy(1);  // possessive, or as few as possible
        letters_.clear();
        return absl::OkStatus();
      case '{':
        return Interval();
      case '|':
      case '^':
      case '$':
      case '.':
        letters_.clear();
        atom_ = out_.size();
        Copy(1);
        return absl::OkStatus();
      default:
        atom_ = out_.size();
        return Character(/*in_class=*/false, nullptr);
    }
  }

  absl::Status Open() {
    letters_.clear();
    if (at_ == 0 && At("(?i)")) {
      Copy(4);
      caseless_ = true;
      return absl::OkStatus();
    }
    groups_.push_back({out_.size(), caseless_});
    if (At("(?i:")) {
      caseless_ = true;
      Copy(4);
      return absl::OkStatus();
    }
    for (const absl::string_view kind : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!At(kind)) continue;
      Copy(kind.size());
      return absl::OkStatus();
    }
    if (At("(?") || At("(*")) {
      return Refuse(Rest().substr(0, 4),
                    "of groups with options (?:...), (?i:...), (?>...) and looking ahead or back "
                    "can be read, and (?i) at the start");
    }
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (groups_.empty()) return Refuse(")", "it closes no group");
    letters_.clear();
    atom_ = groups_.back().begin;
    caseless_ = groups_.back().caseless;
    groups_.pop_back();
    Copy(1);
    return absl::OkStatus();
  }

  // {n}, {n,} or {n,m}; a brace that begins none is a character.
  absl::Status Interval() {
    size_t end = at_ + 1;
    while (end < pattern_.size() && (absl::ascii_isdigit(pattern_[end]) || pattern_[end] == ',')) {
      ++end;
    }
    const absl::string_view inside = pattern_.substr(at_ + 1, end - at_ - 1);
    const bool closed = end < pattern_.size() && pattern_[end] == '}';
    if (!closed || inside.empty() || std::count(inside.begin(), inside.end(), ',') > 1) {
      atom_ = out_.size();
      Copy(1);
      return absl::OkStatus();
    }
    if (inside[0] == ',') return Refuse(absl::StrCat("{", inside, "}"), "write {0,n}");
    Copy(inside.size() + 2);
    letters_.clear();
    if (At("?") && inside.find(',') == absl::string_view::npos) {
      return Refuse("}?", "after a single count its meaning differs between libraries");
    }
    if (At("?")) {
      Copy(1);
    } else if (At("+")) {  // the interval once or more: not possessive there
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status Class() {
    Copy(1);
    if (At("^")) Copy(1);
    if (At("]")) return Refuse("]", "a class must not be empty");
    std::optional<uint32_t> before, first;  // last single character; start of an open range
    while (at_ < pattern_.size() && !At("]")) {
      if (At("[")) return Refuse(Rest().substr(0, 2), "a class inside a class");
      if (At("&&")) return Refuse("&&", "an intersection of classes");
      if (At("-") && before && !At("-]")) {
        Copy(1);
        first = before;
        before.reset();
        continue;
      }
      std::optional<uint32_t> code;
      RETURN_IF_ERROR(Character(/*in_class=*/true, &code));
      if (first && code && *code >= 0x800 && HasStandIn(*first, *code)) {
        return Refuse("a range", "it holds characters newer than Unicode 14, which cannot be told "
                                 "apart; name properties such as \\p{L}");
      }
      first.reset();
      before = code;
    }
    if (!At("]")) return Refuse("[", "the class is not closed");
    Copy(1);
    return absl::OkStatus();
  }

  // One character or escape. `code` becomes the character, nothing for a set of them.
  absl::Status Character(bool in_class, std::optional<uint32_t>* code) {
    if (pattern_[at_] == '\\') return Escape(in_class, code);
    size_t length;
    const uint32_t c = DecodeUtf8(Rest(), &length);
    RETURN_IF_ERROR(CheckCase(c, in_class));
    if (code != nullptr) *code = c;
    if (c >= 0x800 && HasStandIn(c, c)) {
      return Refuse(Rest().substr(0, length),
                    "a character newer than Unicode 14 cannot be told from others of its category");
    }
    Copy(length);
    return absl::OkStatus();
  }

  absl::Status CheckCase(uint32_t c, bool in_class) {
    if (!caseless_) return absl::OkStatus();
    if (c >= 0x80) return Refuse(Rest().substr(0, 4), "without regard to case, only ASCII is read");
    if (in_class) return absl::OkStatus();
    letters_ += absl::ascii_tolower(static_cast<char>(c));
    const absl::string_view two =
        absl::string_view(letters_).substr(letters_.size() - std::min<size_t>(2, letters_.size()));
    if (!Contains(kFolds, two)) return absl::OkStatus();
    return Refuse(two, "without regard to case these two are also one character; spell both cases");
  }

  absl::Status Escape(bool in_class, std::optional<uint32_t>* code) {
    if (at_ + 1 >= pattern_.size()) return Refuse("\\", "nothing follows");
    const char c = pattern_[at_ + 1];
    if (c == 'p' || c == 'P') return Property();
    if (c == 'x' || c == 'u') return CodePoint(code);
    const bool letter = absl::ascii_isalnum(static_cast<unsigned char>(c));
    const absl::string_view known = in_class ? "dDsSrntfae" : "dDsSrntfaeAzZ";
    if (static_cast<unsigned char>(c) >= 0x80 ||
        (letter && known.find(c) == absl::string_view::npos)) {
      return Refuse(Rest().substr(0, 2), "its meaning differs between libraries");
    }
    letters_.clear();
    if (code != nullptr && !letter) *code = static_cast<unsigned char>(c);
    Copy(2);
    return absl::OkStatus();
  }

  absl::Status Property() {
    const size_t end = Rest().find('}');
    if (!(At("\\p{") || At("\\P{")) || end == absl::string_view::npos) {
      return Refuse(Rest().substr(0, 3), "write a property as \\p{...}");
    }
    letters_.clear();
    const absl::string_view name = Rest().substr(3, end - 3);
    if (Contains(kScripts, name)) {
      absl::StrAppend(&out_, Rest().substr(0, 3), "sc:", name, "}");
      at_ += end + 1;
      return absl::OkStatus();
    }
    if (!Contains(kCategories, name)) {
      return Refuse(Rest().substr(0, end + 1), "a property that cannot be read");
    }
    Copy(end + 1);
    return absl::OkStatus();
  }

  // \x41, \x{1F600} or \u00E9.
  absl::Status CodePoint(std::optional<uint32_t>* code) {
    absl::string_view digits = Rest().substr(2, At("\\u") ? 4 : 2);
    size_t length = 2 + digits.size();
    if (At("\\x{")) {
      const size_t end = std::min(Rest().find('}'), Rest().size() - 1);
      digits = Rest().substr(3, end - 3);
      length = end + 1;
    }
    uint32_t c = 0;
    const bool good = !digits.empty() && digits.size() <= 6 && absl::SimpleHexAtoi(digits, &c) &&
                      c < 0x110000 && (c < 0xD800 || c >= 0xE000);
    // Two digits are a byte, not a character, where they are no ASCII.
    if (!good || (length == 4 && c >= 0x80)) {
      return Refuse(Rest().substr(0, length), "no character; write \\x{...}");
    }
    if (c >= 0x800 && HasStandIn(c, c)) {
      return Refuse(Rest().substr(0, length), "a character newer than Unicode 14");
    }
    RETURN_IF_ERROR(CheckCase(c, code != nullptr));
    if (code != nullptr) *code = c;
    absl::StrAppend(&out_, "\\x{", absl::Hex(c), "}");
    at_ += length;
    return absl::OkStatus();
  }

  const absl::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;  // where the last atom begins in out_
  std::vector<Group> groups_;
  bool caseless_ = false;
  std::string letters_;  // characters in a row, where case does not count
};

}  // namespace

absl::StatusOr<std::string> ToPcre2(absl::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace colossus
