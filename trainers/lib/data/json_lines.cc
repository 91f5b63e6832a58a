#include "trainers/lib/data/json_lines.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

constexpr size_t kPiece = 64 << 10;  // bytes
constexpr int kMostDepth = 512;      // of nested arrays and objects

bool IsHighSurrogate(uint32_t code) { return code >= 0xD800 && code < 0xDC00; }
bool IsLowSurrogate(uint32_t code) { return code >= 0xDC00 && code < 0xE000; }

// Four hexadecimal digits at the start of `text`.
std::optional<uint32_t> Hex4(absl::string_view text) {
  if (text.size() < 4) return std::nullopt;
  uint32_t code = 0;
  for (const char c : text.substr(0, 4)) {
    if (!absl::ascii_isxdigit(c)) return std::nullopt;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  return code;
}

// Utf8Length, without a call for ASCII.
size_t CharacterLength(absl::string_view text) {
  return static_cast<unsigned char>(text[0]) < 0x80 ? 1 : Utf8Length(text);
}

// Walks over JSON; every method returns whether what it names stood at the cursor and moves past
// it.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  void Spaces() {
    while (!text_.empty() && strchr(" \t\r\n", text_[0]) != nullptr && text_[0] != '\0') Skip(1);
  }
  bool AtEnd() const { return text_.empty(); }
  bool At(char c) const { return !text_.empty() && text_[0] == c; }
  bool Take(char c) {
    if (!At(c)) return false;
    Skip(1);
    return true;
  }

  // `raw`: what stands between the quotes.
  bool String(absl::string_view* raw) {
    if (!Take('"')) return false;
    const char* begin = text_.data();
    while (!At('"')) {
      if (text_.empty() || static_cast<unsigned char>(text_[0]) < 0x20) return false;
      if (text_[0] == '\\') {
        if (!Escape()) return false;
      } else {
        const size_t length = CharacterLength(text_);
        if (length == 0) return false;
        Skip(length);
      }
    }
    *raw = absl::string_view(begin, static_cast<size_t>(text_.data() - begin));
    return Take('"');
  }

  bool Value(int depth) {
    absl::string_view unused;
    if (text_.empty() || depth > kMostDepth) return false;
    switch (text_[0]) {
      case '"':
        return String(&unused);
      case '{':
        return Object(depth, [](absl::string_view, bool, absl::string_view) {});
      case '[':
        return Array(depth);
      case 't':
        return Word("true");
      case 'f':
        return Word("false");
      case 'n':
        return Word("null");
      default:
        return Number();
    }
  }

  // `member(name, is_string, raw)`: name and string value as they stand between their quotes.
  template <class Member>
  bool Object(int depth, Member member) {
    if (!Take('{')) return false;
    Spaces();
    if (Take('}')) return true;
    do {
      absl::string_view name, raw;
      Spaces();
      if (!String(&name)) return false;
      Spaces();
      if (!Take(':')) return false;
      Spaces();
      const bool is_string = At('"');
      if (is_string ? !String(&raw) : !Value(depth + 1)) return false;
      member(name, is_string, raw);
      Spaces();
    } while (Take(','));
    return Take('}');
  }

 private:
  void Skip(size_t n) { text_.remove_prefix(n); }

  bool Array(int depth) {
    Take('[');
    Spaces();
    if (Take(']')) return true;
    do {
      Spaces();
      if (!Value(depth + 1)) return false;
      Spaces();
    } while (Take(','));
    return Take(']');
  }

  bool Word(absl::string_view word) {
    if (text_.substr(0, word.size()) != word) return false;
    Skip(word.size());
    return true;
  }

  bool Digits() {
    if (text_.empty() || !absl::ascii_isdigit(text_[0])) return false;
    while (!text_.empty() && absl::ascii_isdigit(text_[0])) Skip(1);
    return true;
  }

  bool Number() {
    Take('-');
    if (!Take('0') && !Digits()) return false;
    if (Take('.') && !Digits()) return false;
    if (At('e') || At('E')) {
      Skip(1);
      if (At('+') || At('-')) Skip(1);
      return Digits();
    }
    return true;
  }

  bool Escape() {
    if (text_.size() < 2) return false;
    if (text_[1] != 'u') {
      const bool known = text_[1] != '\0' && strchr("\"\\/bfnrt", text_[1]) != nullptr;
      if (known) Skip(2);
      return known;
    }
    const std::optional<uint32_t> code = Hex4(text_.substr(2));
    if (!code || IsLowSurrogate(*code)) return false;
    Skip(6);
    if (!IsHighSurrogate(*code)) return true;
    if (text_.substr(0, 2) != "\\u") return false;
    const std::optional<uint32_t> low = Hex4(text_.substr(2));
    if (!low || !IsLowSurrogate(*low)) return false;
    Skip(6);
    return true;
  }

  absl::string_view text_;  // from the cursor on
};

// The character of the escape at the start of `raw`; `length` becomes its bytes there.
uint32_t DecodeEscape(absl::string_view raw, size_t* length) {
  *length = 2;
  switch (raw[1]) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'u':
      break;
    default:
      return static_cast<unsigned char>(raw[1]);
  }
  const std::optional<uint32_t> code = Hex4(raw.substr(2));
  CHECK(code.has_value()) << "a string that was never scanned";
  *length = 6;
  if (!IsHighSurrogate(*code)) return *code;
  const std::optional<uint32_t> low = Hex4(raw.substr(8));
  CHECK(low.has_value()) << "a string that was never scanned";
  *length = 12;
  return 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
}

// Whether a name between its quotes spells `field`; only short names are decoded.
bool Spells(absl::string_view name, absl::string_view field) {
  if (name == field) return true;
  if (name.find('\\') == absl::string_view::npos || name.size() > 6 * field.size()) return false;
  std::string decoded;
  const absl::Status status = DecodeJsonString(name, [&](absl::string_view piece) {
    decoded.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  return status.ok() && decoded == field;
}

}  // namespace

JsonLine ScanJsonLine(absl::string_view line, absl::string_view field) {
  Scanner scanner(line);
  scanner.Spaces();
  if (scanner.AtEnd()) return {JsonLineKind::kBlank, {}};
  int found = 0;
  bool is_text = false;
  absl::string_view text;
  const bool whole =
      scanner.Object(0, [&](absl::string_view name, bool is_string, absl::string_view raw) {
        if (!Spells(name, field)) return;
        ++found;
        is_text = is_string;
        text = raw;
      });
  scanner.Spaces();
  if (!whole || !scanner.AtEnd() || found > 1) return {JsonLineKind::kBroken, {}};
  if (found == 0 || !is_text) return {JsonLineKind::kMissingField, {}};
  if (text.empty()) return {JsonLineKind::kEmpty, {}};
  return {JsonLineKind::kText, text};
}

absl::Status DecodeJsonString(absl::string_view raw,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) {
  std::string piece;
  while (!raw.empty()) {
    if (raw[0] == '\\') {
      size_t length;
      AppendUtf8(DecodeEscape(raw, &length), &piece);
      raw.remove_prefix(length);
    } else {
      const size_t length = CharacterLength(raw);
      CHECK(length > 0) << "a string that was never scanned";
      piece.append(raw.data(), length);
      raw.remove_prefix(length);
    }
    if (piece.size() > kPiece - 4) {
      RETURN_IF_ERROR(sink(piece));
      piece.clear();
    }
  }
  return piece.empty() ? absl::OkStatus() : sink(piece);
}

}  // namespace colossus
