// The words of graph text, with their places. Internal to text parsing.
//
// Thread-safety: none; one thread. Ownership: tokens are views of the text, which must outlive
// them.
//
//   TextLexer lexer("graph g {");
//   lexer.peek();        // kWord "graph", line 1, column 1
//   lexer.Next();        // the same, and moves on
#ifndef COLOSSUS_TENSOR_GRAPH_TEXT_LEXER_H_
#define COLOSSUS_TENSOR_GRAPH_TEXT_LEXER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

enum class TokenKind {
  kEnd,
  kWord,         // graph, matmul, h.0/x
  kValue,        // %h.0/x; text without the %
  kNumber,       // 3, -0x1.8p+1, 1e-5, -inf
  kString,       // "..."; text between the quotes, still escaped
  kPunctuation,  // one of { } ( ) [ ] , = : ; @
  kBad,          // anything else; text says what is wrong
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;
  int line = 1, column = 1;  // counted in bytes from 1
};

class TextLexer {
 public:
  explicit TextLexer(absl::string_view text) : text_(text) { peek_ = Scan(); }

  const Token& peek() const { return peek_; }
  Token Next() {
    Token token = peek_;
    peek_ = Scan();
    return token;
  }
  bool PeekIs(char punctuation) const {
    return peek_.kind == TokenKind::kPunctuation && peek_.text[0] == punctuation;
  }
  bool PeekIsWord(absl::string_view word) const {
    return peek_.kind == TokenKind::kWord && peek_.text == word;
  }
  // Takes the punctuation or word if it is next.
  bool Take(char punctuation) { return PeekIs(punctuation) && (Next(), true); }
  bool TakeWord(absl::string_view word) { return PeekIsWord(word) && (Next(), true); }

 private:
  Token Scan();
  void SkipSpace();
  Token ScanString(Token token);
  Token Make(Token token, TokenKind kind, size_t end);

  absl::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  Token peek_;
};

// InvalidArgument "line 3, column 7: message".
absl::Status ErrorAt(const Token& token, absl::string_view message);

// "'%x'", "the end", ...: for "expected ..., found ...".
std::string Describe(const Token& token);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_TEXT_LEXER_H_
