// ParseGraph: a parser without recursion, one function per production.
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/text.h"
#include "tensor/graph/text_lexer.h"
#include "tensor/ops/op_list.h"

namespace colossus {
namespace {

// Limits that keep element and byte counts within int64, and one name from being the whole text.
constexpr int64_t kMaxElements = int64_t{1} << 56;
constexpr size_t kMaxRank = 32, kMaxName = 1024;
constexpr size_t kMaxResults = 1024;  // those of an update of the most parameters

// A result or feed as written, before it exists.
struct Definition {
  Token at;
  std::string name;
  Type type;
  std::optional<Sharding> sharding;
  std::optional<Tier> tier;
};

class GraphParser {
 public:
  explicit GraphParser(absl::string_view text) : lexer_(text), builder_("") {}

  absl::StatusOr<Graph> Parse() {
    RETURN_IF_ERROR(Keyword("graph"));
    ASSIGN_OR_RETURN(std::string name, Name());
    builder_ = GraphBuilder(name);
    RETURN_IF_ERROR(Expect('{'));
    while (!lexer_.PeekIs('}')) RETURN_IF_ERROR(Statement());
    lexer_.Next();
    if (lexer_.peek().kind != TokenKind::kEnd) return Unexpected("the end of the text");
    return std::move(builder_).Build();
  }

 private:
  absl::Status Unexpected(absl::string_view wanted) const {
    return ErrorAt(lexer_.peek(),
                   absl::StrCat("expected ", wanted, ", found ", Describe(lexer_.peek())));
  }
  absl::Status Expect(char punctuation) {
    if (lexer_.Take(punctuation)) return absl::OkStatus();
    return Unexpected(absl::StrCat("'", std::string(1, punctuation), "'"));
  }
  absl::Status Keyword(absl::string_view word) {
    return lexer_.TakeWord(word) ? absl::OkStatus() : Unexpected(absl::StrCat("'", word, "'"));
  }
  // The builder's sticky error, if the call just made caused one.
  absl::Status Built(const Token& at) {
    absl::Status status = builder_.status();
    return status.ok() ? status : ErrorAt(at, std::string(status.message()));
  }

  // A word or a quoted string.
  absl::StatusOr<std::string> Name();
  absl::StatusOr<std::string> QuotedText();
  absl::StatusOr<std::vector<std::string>> Names();  // [a, "b c"]
  absl::StatusOr<int64_t> Integer();
  absl::StatusOr<Dims> ParseDims();
  absl::StatusOr<AttributeValue> Scalar();
  absl::StatusOr<AttributeValue> List();
  absl::StatusOr<Attributes> ParseAttributes();
  absl::StatusOr<Sharding> ParseSharding(const Token& at, int rank);
  absl::StatusOr<Definition> ParseDefinition();
  absl::StatusOr<Initializer> ParseInitializer();
  absl::Status StateField(StateInfo& info);
  absl::StatusOr<ValueId> Use();

  absl::Status Statement();
  absl::Status FeedStatement();
  absl::Status StateStatement();
  absl::Status UpdateStatement();
  absl::Status OutputStatement();
  absl::Status NodeStatement();
  absl::Status ApplyNode(const std::vector<Definition>& definitions, const Token& op_at,
                         ValueIds operands, Attributes attributes);

  TextLexer lexer_;
  GraphBuilder builder_;
};

absl::StatusOr<std::string> GraphParser::QuotedText() {
  if (lexer_.peek().kind != TokenKind::kString) return Unexpected("a string");
  Token token = lexer_.Next();
  std::string text, error;
  if (!absl::CUnescape(token.text, &text, &error)) {
    return ErrorAt(token, absl::StrCat("bad escape in string: ", error));
  }
  return text;
}

absl::StatusOr<std::string> GraphParser::Name() {
  if (lexer_.peek().kind == TokenKind::kString) return QuotedText();
  if (lexer_.peek().kind != TokenKind::kWord) return Unexpected("a name");
  return std::string(lexer_.Next().text);
}

absl::StatusOr<std::vector<std::string>> GraphParser::Names() {
  RETURN_IF_ERROR(Expect('['));
  std::vector<std::string> names;
  while (!lexer_.Take(']')) {
    if (!names.empty()) RETURN_IF_ERROR(Expect(','));
    ASSIGN_OR_RETURN(std::string name, Name());
    names.push_back(std::move(name));
  }
  return names;
}

absl::StatusOr<int64_t> GraphParser::Integer() {
  int64_t value = 0;
  if (lexer_.peek().kind != TokenKind::kNumber || !absl::SimpleAtoi(lexer_.peek().text, &value)) {
    return Unexpected("an integer");
  }
  lexer_.Next();
  return value;
}

absl::StatusOr<Dims> GraphParser::ParseDims() {
  RETURN_IF_ERROR(Expect('['));
  Dims dims;
  int64_t elements = 1;
  while (!lexer_.Take(']')) {
    if (!dims.empty()) RETURN_IF_ERROR(Expect(','));
    Token at = lexer_.peek();
    ASSIGN_OR_RETURN(int64_t extent, Integer());
    // Zero extents count as one, so that no order of multiplication overflows.
    if (extent < 0 || (extent > 0 && elements > kMaxElements / extent)) {
      return ErrorAt(at, "an extent is at least 0, and a tensor has at most 2^56 elements");
    }
    elements *= extent > 0 ? extent : 1;
    dims.push_back(extent);
    if (dims.size() > kMaxRank) return ErrorAt(at, "a tensor has at most 32 dims");
  }
  return dims;
}

absl::StatusOr<AttributeValue> GraphParser::Scalar() {
  if (lexer_.peek().kind == TokenKind::kString) {
    ASSIGN_OR_RETURN(std::string text, QuotedText());
    return AttributeValue(std::move(text));
  }
  if (lexer_.TakeWord("true")) return AttributeValue(true);
  if (lexer_.TakeWord("false")) return AttributeValue(false);
  if (lexer_.TakeWord("inf")) return AttributeValue(HUGE_VAL);
  if (lexer_.TakeWord("nan")) return AttributeValue(std::nan(""));
  if (lexer_.peek().kind != TokenKind::kNumber) return Unexpected("a value");
  Token token = lexer_.Next();
  if (token.text == "-inf") return AttributeValue(-HUGE_VAL);
  if (token.text.find_first_not_of("-0123456789") == absl::string_view::npos) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(token.text, &integer)) return AttributeValue(integer);
    return ErrorAt(token, absl::StrCat("not a 64-bit integer: ", Describe(token)));
  }
  std::string digits(token.text);
  char* end = nullptr;
  double value = std::strtod(digits.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) {
    return ErrorAt(token, absl::StrCat("not a number: ", Describe(token)));
  }
  return AttributeValue(value);
}

// Appends a scalar to the list of its type; false if the list has another type.
template <typename T>
bool AppendTo(std::vector<T>& list, const AttributeValue& item) {
  const T* value = std::get_if<T>(&item.variant());
  if (value != nullptr) list.push_back(*value);
  return value != nullptr;
}

absl::StatusOr<AttributeValue> GraphParser::List() {
  RETURN_IF_ERROR(Expect('['));
  Ints ints;
  Floats floats;
  Strings strings;
  if (lexer_.Take(']')) {
    if (lexer_.TakeWord("i")) return AttributeValue(ints);
    if (lexer_.TakeWord("f")) return AttributeValue(floats);
    if (lexer_.TakeWord("s")) return AttributeValue(strings);
    return Unexpected("i, f or s after the empty list");
  }
  do {
    Token at = lexer_.peek();
    ASSIGN_OR_RETURN(AttributeValue item, Scalar());
    bool fits = (floats.empty() && strings.empty() && AppendTo(ints, item)) ||
                (ints.empty() && strings.empty() && AppendTo(floats, item)) ||
                (ints.empty() && floats.empty() && AppendTo(strings, item));
    if (!fits) return ErrorAt(at, "a list holds only integers, only floats or only strings");
  } while (lexer_.Take(','));
  RETURN_IF_ERROR(Expect(']'));
  if (!ints.empty()) return AttributeValue(std::move(ints));
  if (!floats.empty()) return AttributeValue(std::move(floats));
  return AttributeValue(std::move(strings));
}

absl::StatusOr<Attributes> GraphParser::ParseAttributes() {
  Attributes attributes;
  if (!lexer_.Take('{')) return attributes;
  while (!lexer_.Take('}')) {
    if (!attributes.values().empty()) RETURN_IF_ERROR(Expect(','));
    if (lexer_.peek().kind != TokenKind::kWord) return Unexpected("an attribute name");
    Token name = lexer_.Next();
    if (attributes.Has(name.text)) {
      return ErrorAt(name, absl::StrCat("attribute ", Describe(name), " stands twice"));
    }
    RETURN_IF_ERROR(Expect('='));
    ASSIGN_OR_RETURN(AttributeValue value, lexer_.PeekIs('[') ? List() : Scalar());
    attributes.Set(name.text, std::move(value));
  }
  return attributes;
}

absl::StatusOr<Sharding> GraphParser::ParseSharding(const Token& at, int rank) {
  Sharding sharding;
  RETURN_IF_ERROR(Expect('('));
  while (!lexer_.PeekIs(')') && !lexer_.PeekIs(';')) {
    if (!sharding.dims.empty()) RETURN_IF_ERROR(Expect(','));
    ASSIGN_OR_RETURN(AxisNames axes, Names());
    sharding.dims.push_back(std::move(axes));
  }
  if (lexer_.Take(';')) {
    ASSIGN_OR_RETURN(sharding.partial, Names());
  }
  RETURN_IF_ERROR(Expect(')'));
  if (static_cast<int>(sharding.dims.size()) != rank) {
    return ErrorAt(
        at, absl::StrCat("sharded() names ", sharding.dims.size(), " dims of a value of ", rank));
  }
  return sharding;
}

absl::StatusOr<Definition> GraphParser::ParseDefinition() {
  Definition definition;
  definition.at = lexer_.peek();
  if (definition.at.kind != TokenKind::kValue) return Unexpected("a value, '%name'");
  definition.name = std::string(lexer_.Next().text);
  if (definition.name.empty() || definition.name.size() > kMaxName) {
    return ErrorAt(definition.at, "a value name has 1 to 1024 letters");
  }
  if (builder_.graph().FindValue(definition.name) != kNoValue) {
    return ErrorAt(definition.at, absl::StrCat("'%", definition.name, "' is defined already"));
  }
  RETURN_IF_ERROR(Expect(':'));
  if (lexer_.peek().kind != TokenKind::kWord) return Unexpected("an element type");
  Token dtype = lexer_.Next();
  absl::StatusOr<DType> parsed = ParseDType(dtype.text);
  if (!parsed.ok()) return ErrorAt(dtype, std::string(parsed.status().message()));
  definition.type.dtype = *parsed;
  ASSIGN_OR_RETURN(definition.type.dims, ParseDims());
  Token at = lexer_.peek();
  if (lexer_.TakeWord("sharded")) {
    ASSIGN_OR_RETURN(definition.sharding, ParseSharding(at, definition.type.rank()));
  }
  if (lexer_.TakeWord("tier")) {
    RETURN_IF_ERROR(Expect('('));
    for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
      if (!definition.tier && lexer_.TakeWord(colossus::Name(tier))) definition.tier = tier;
    }
    if (!definition.tier) return Unexpected("device, host or disk");
    RETURN_IF_ERROR(Expect(')'));
  }
  return definition;
}

absl::StatusOr<ValueId> GraphParser::Use() {
  if (lexer_.peek().kind != TokenKind::kValue) return Unexpected("a value, '%name'");
  Token token = lexer_.Next();
  ValueId value = builder_.graph().FindValue(token.text);
  if (value == kNoValue) {
    return ErrorAt(token, absl::StrCat(Describe(token), " is used before it is defined"));
  }
  return value;
}

absl::StatusOr<Initializer> GraphParser::ParseInitializer() {
  Initializer init;
  if (lexer_.TakeWord("constant"))
    init.kind = Initializer::Kind::kConstant;
  else if (lexer_.TakeWord("normal"))
    init.kind = Initializer::Kind::kNormal;
  else
    return Unexpected("constant or normal");
  RETURN_IF_ERROR(Expect('('));
  Token at = lexer_.peek();
  ASSIGN_OR_RETURN(AttributeValue value, Scalar());
  if (!std::holds_alternative<double>(value.variant())) return ErrorAt(at, "expected a float");
  init.value = std::get<double>(value.variant());
  RETURN_IF_ERROR(Expect(')'));
  return init;
}

absl::Status GraphParser::StateField(StateInfo& info) {
  if (lexer_.peek().kind != TokenKind::kWord) return Unexpected("a field of a state");
  Token key = lexer_.Next();
  if (key.text == "trainable") return (info.trainable = true, absl::OkStatus());
  if (key.text == "decayed") return (info.decayed = true, absl::OkStatus());
  RETURN_IF_ERROR(Expect('='));
  if (key.text == "role") {
    Token at = lexer_.peek();
    ASSIGN_OR_RETURN(std::string role, Name());
    absl::StatusOr<Role> parsed = ParseRole(role);
    if (!parsed.ok()) return ErrorAt(at, std::string(parsed.status().message()));
    info.role = *parsed;
  } else if (key.text == "global") {
    ASSIGN_OR_RETURN(info.global_dims, ParseDims());
  } else if (key.text == "disk") {
    ASSIGN_OR_RETURN(info.disk_dims, ParseDims());
  } else if (key.text == "axes") {
    ASSIGN_OR_RETURN(info.axes, Names());
  } else if (key.text == "tied_to") {
    ASSIGN_OR_RETURN(info.tied_to, Name());
  } else if (key.text == "init") {
    ASSIGN_OR_RETURN(info.init, ParseInitializer());
  } else {
    return ErrorAt(key, absl::StrCat("a state has no field ", Describe(key)));
  }
  return absl::OkStatus();
}

absl::Status GraphParser::FeedStatement() {
  ASSIGN_OR_RETURN(Definition feed, ParseDefinition());
  ValueId value = builder_.Feed(feed.name, feed.type);
  RETURN_IF_ERROR(Built(feed.at));
  builder_.Annotate(value, feed.sharding, feed.tier);
  return absl::OkStatus();
}

absl::Status GraphParser::StateStatement() {
  ASSIGN_OR_RETURN(Definition state, ParseDefinition());
  StateInfo info;
  info.name = state.name;
  info.trainable = false;
  RETURN_IF_ERROR(Expect('{'));
  do {
    RETURN_IF_ERROR(StateField(info));
  } while (lexer_.Take(','));
  RETURN_IF_ERROR(Expect('}'));
  ValueId value = builder_.AddState(std::move(info), state.type);
  RETURN_IF_ERROR(Built(state.at));
  builder_.Annotate(value, state.sharding, state.tier);
  return absl::OkStatus();
}

absl::Status GraphParser::UpdateStatement() {
  Token at = lexer_.peek();
  ASSIGN_OR_RETURN(ValueId in, Use());
  RETURN_IF_ERROR(Expect('='));
  ASSIGN_OR_RETURN(ValueId out, Use());
  const State* state = builder_.graph().StateOf(in);
  if (state != nullptr && state->out != state->in) {
    return ErrorAt(at, absl::StrCat("state ", Describe(at), " is updated twice"));
  }
  builder_.UpdateState(in, out);
  return Built(at);
}

absl::Status GraphParser::OutputStatement() {
  Token at = lexer_.peek();
  ASSIGN_OR_RETURN(std::string name, Name());
  RETURN_IF_ERROR(Expect('='));
  ASSIGN_OR_RETURN(ValueId value, Use());
  builder_.Output(name, value);
  return Built(at);
}

absl::Status GraphParser::NodeStatement() {
  std::vector<Definition> definitions;
  do {
    ASSIGN_OR_RETURN(Definition definition, ParseDefinition());
    if (definitions.size() == kMaxResults) return ErrorAt(definition.at, "too many results");
    definitions.push_back(std::move(definition));
  } while (lexer_.Take(','));
  RETURN_IF_ERROR(Expect('='));
  Token op_at = lexer_.peek();
  if (op_at.kind != TokenKind::kWord) return Unexpected("an op");
  lexer_.Next();
  RETURN_IF_ERROR(Expect('('));
  ValueIds operands;
  while (!lexer_.Take(')')) {
    if (!operands.empty()) RETURN_IF_ERROR(Expect(','));
    ASSIGN_OR_RETURN(ValueId operand, Use());
    operands.push_back(operand);
  }
  ASSIGN_OR_RETURN(Attributes attributes, ParseAttributes());
  std::string block;
  if (lexer_.Take('@')) {
    ASSIGN_OR_RETURN(block, Name());
  }
  int64_t clone = 0;
  if (lexer_.TakeWord("clone")) {
    RETURN_IF_ERROR(Expect('='));
    Token at = lexer_.peek();
    ASSIGN_OR_RETURN(clone, Integer());
    if (clone < 1 || clone > 1000000) return ErrorAt(at, "a clone number is 1 to 1000000");
  }
  builder_.SetBlock(block);
  builder_.SetClone(static_cast<int>(clone));
  return ApplyNode(definitions, op_at, std::move(operands), std::move(attributes));
}

absl::Status GraphParser::ApplyNode(const std::vector<Definition>& definitions, const Token& op_at,
                                    ValueIds operands, Attributes attributes) {
  const Op* op = FindOp(op_at.text);
  if (op == nullptr) return ErrorAt(op_at, absl::StrCat("there is no op ", Describe(op_at)));
  std::vector<std::string> names;
  for (size_t i = 0; i < definitions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (definitions[i].name == names[j]) {
        return ErrorAt(definitions[i].at, absl::StrCat("'%", names[j], "' is defined already"));
      }
    }
    names.push_back(definitions[i].name);
  }
  ValueIds results = builder_.ApplyNamed(*op, std::move(operands), std::move(attributes), names);
  RETURN_IF_ERROR(Built(op_at));
  for (size_t i = 0; i < definitions.size(); ++i) {
    const Definition& definition = definitions[i];
    if (builder_.type(results[i]) != definition.type) {
      return ErrorAt(definition.at, absl::StrCat("'%", definition.name, "' is written as ",
                                                 ToString(definition.type), " but ", op_at.text,
                                                 " gives ", ToString(builder_.type(results[i]))));
    }
    builder_.Annotate(results[i], definition.sharding, definition.tier);
  }
  return absl::OkStatus();
}

absl::Status GraphParser::Statement() {
  if (lexer_.TakeWord("feed")) return FeedStatement();
  if (lexer_.TakeWord("state")) return StateStatement();
  if (lexer_.TakeWord("update")) return UpdateStatement();
  if (lexer_.TakeWord("output")) return OutputStatement();
  if (lexer_.peek().kind == TokenKind::kValue) return NodeStatement();
  return Unexpected("feed, state, update, output, a node or '}'");
}

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text) { return GraphParser(text).Parse(); }

}  // namespace colossus
