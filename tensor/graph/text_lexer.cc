#include "tensor/graph/text_lexer.h"

#include <cctype>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

bool IsAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool IsNameByte(char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '/' || c == '-'; }
bool StartsWord(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

}  // namespace

void TextLexer::SkipSpace() {
  for (; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == '#') {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

Token TextLexer::Make(Token token, TokenKind kind, size_t end) {
  token.kind = kind;
  token.text = text_.substr(at_, end - at_);
  at_ = end;
  return token;
}

Token TextLexer::ScanString(Token token) {
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') {
    token.kind = TokenKind::kBad;
    token.text = "a string without its closing quote";
    at_ = text_.size();
    return token;
  }
  ++at_;
  token = Make(token, TokenKind::kString, end);
  ++at_;
  return token;
}

Token TextLexer::Scan() {
  SkipSpace();
  Token token;
  token.line = line_;
  token.column = static_cast<int>(at_ - line_start_) + 1;
  if (at_ >= text_.size()) return token;
  char c = text_[at_];
  size_t end = at_ + 1;
  if (c == '"') return ScanString(token);
  if (c == '%') {
    while (end < text_.size() && IsNameByte(text_[end])) ++end;
    ++at_;
    return Make(token, TokenKind::kValue, end);
  }
  if (StartsWord(c)) {
    while (end < text_.size() && IsNameByte(text_[end])) ++end;
    return Make(token, TokenKind::kWord, end);
  }
  if (IsDigit(c) || c == '-') {
    // An exponent's sign belongs to the number: 0x1p-5.
    while (end < text_.size() && (IsAlnum(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && end > at_ + 1 &&
                                   (text_[end - 1] == 'p' || text_[end - 1] == 'e')))) {
      ++end;
    }
    return Make(token, TokenKind::kNumber, end);
  }
  if (absl::string_view("{}()[],=:;@").find(c) != absl::string_view::npos) {
    return Make(token, TokenKind::kPunctuation, end);
  }
  token = Make(token, TokenKind::kBad, end);
  return token;
}

absl::Status ErrorAt(const Token& token, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", token.line, ", column ", token.column, ": ", message));
}

std::string Describe(const Token& token) {
  absl::string_view text = token.text.substr(0, 60);
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kValue:
      return absl::StrCat("'%", absl::CEscape(text), "'");
    case TokenKind::kString:
      return absl::StrCat("\"", absl::CEscape(text), "\"");
    case TokenKind::kBad:
      return absl::CEscape(text);
    default:
      return absl::StrCat("'", absl::CEscape(text), "'");
  }
}

}  // namespace colossus
