#include "tensor/io/json.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace colossus {
namespace {

// Walks the text and leaves its position where the handler can see it: the parser's events carry
// none.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// The parser's words without its exception tag and position: "[json...] parse error at line 1,
// column 2: syntax error ..." -> "syntax error ...".
std::string WithoutTag(const std::string& what) {
  const size_t tag = what.find("] ");
  const size_t start = tag == std::string::npos ? 0 : tag + 2;
  const size_t colon = what.find(": ", start);
  return what.substr(colon == std::string::npos ? start : colon + 2);
}

// Builds the tree from the parser's events. Every handler returns false to stop the parser, with
// the reason in error_.
class TreeBuilder {
 public:
  using json = nlohmann::json;

  TreeBuilder(absl::string_view text, absl::string_view file_name, int max_depth)
      : text_(text), file_name_(file_name), max_depth_(max_depth), furthest_(text.data()) {}

  const char** furthest() { return &furthest_; }
  const std::string& error() const { return error_; }
  json Take() { return std::move(root_); }

  bool null() { return Add(nullptr) != nullptr; }
  bool boolean(bool value) { return Add(value) != nullptr; }
  bool number_integer(int64_t value) { return Add(value) != nullptr; }
  bool number_unsigned(uint64_t value) { return Add(value) != nullptr; }
  bool number_float(double value, const std::string&) { return Add(value) != nullptr; }
  bool string(std::string& value) { return Add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) { return Fail("binary values are not JSON"); }

  bool start_object(size_t) { return Open(json::object()); }
  bool start_array(size_t) { return Open(json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    if (open_.back().value->contains(name)) {
      return Fail(absl::StrCat("the name ", PathOf(name), " is given twice in one object"));
    }
    open_.back().name = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    return Fail(WithoutTag(error.what()));
  }

 private:
  struct Level {
    json* value;       // the object or array being filled; its address is stable until it closes
    std::string name;  // of the member being read, objects only
  };

  bool Fail(absl::string_view reason) {
    const int64_t line = 1 + std::count(text_.data(), furthest_, '\n');
    error_ = absl::StrFormat("%s:%d: %s", file_name_, line, reason);
    return false;
  }

  std::string PathOf(absl::string_view name) const {
    std::string path;
    for (const Level& level : open_) {
      if (&level == &open_.back()) break;
      absl::StrAppend(
          &path, level.value->is_array() ? absl::StrCat(level.value->size() - 1) : level.name, ".");
    }
    return absl::StrCat(path, name);
  }

  // Puts a value where the parser stands and returns its place.
  template <typename T>
  json* Add(T&& value) {
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::forward<T>(value));
      return &parent.back();
    }
    json& member = parent[open_.back().name];
    member = std::forward<T>(value);
    return &member;
  }

  bool Open(json empty) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return Fail(absl::StrFormat("more than %d objects and arrays inside each other", max_depth_));
    }
    open_.push_back({Add(std::move(empty)), ""});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  absl::string_view text_;
  absl::string_view file_name_;
  int max_depth_;
  const char* furthest_;
  std::string error_;
  json root_;
  std::vector<Level> open_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view file_name,
                                         int max_depth) {
  const char* begin = text.data();
  // JSON has no NUL outside of escapes, but the parser takes one for the end of the text.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s:%d: a NUL byte", file_name, 1 + std::count(begin, begin + nul, '\n')));
  }
  TreeBuilder builder(text, file_name, max_depth);
  const char* end = begin + text.size();
  try {
    const bool ok = nlohmann::json::sax_parse(CountingIterator(begin, builder.furthest()),
                                              CountingIterator(end, builder.furthest()), &builder);
    if (!ok) return absl::InvalidArgumentError(builder.error());
  } catch (const std::exception& error) {  // numbers out of range of the library, out of memory
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": ", WithoutTag(error.what())));
  }
  return builder.Take();
}

absl::StatusOr<nlohmann::json> ReadJsonFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, files.ReadFile(path));
  return ParseJson(text, path);
}

std::string JsonExcerpt(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 57), "...");
  return text;
}

absl::string_view JsonKind(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "a list";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "a truth value";
    case nlohmann::json::value_t::number_integer:
    case nlohmann::json::value_t::number_unsigned:
      return "a whole number";
    case nlohmann::json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "no JSON value";
  }
}

}  // namespace colossus
