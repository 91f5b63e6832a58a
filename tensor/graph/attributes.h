// Attributes: the constants of a node, kept sorted by name and printed exactly.
//
// Purpose: everything an op needs to know besides its operands (an einsum's labels, an epsilon, a
// block size). Text is the identity: two equal attribute sets print the same bytes, and doubles are
// printed as hex floats, so parsing gives back the same bits.
// Thread-safety: a plain value. Ownership: owns its strings and lists.
//
//   Attributes a{{"axis", int64_t{1}}, {"causal", true}, {"spec", "b s c, c d -> b s d"}};
//   a.Int("axis");                 // 1; CHECKs that it is there and an integer
//   a.FloatOr("scale", 1.0);       // default when absent
//   a.ToString();                  // {axis=1, causal=true, spec="b s c, c d -> b s d"}
#ifndef COLOSSUS_TENSOR_GRAPH_ATTRIBUTES_H_
#define COLOSSUS_TENSOR_GRAPH_ATTRIBUTES_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colossus {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Strings = std::vector<std::string>;

class AttributeValue {
 public:
  using Variant = std::variant<bool, int64_t, double, std::string, Ints, Floats, Strings>;

  AttributeValue(bool v) : value_(v) {}                          // NOLINT: implicit on purpose
  AttributeValue(int v) : value_(static_cast<int64_t>(v)) {}     // NOLINT
  AttributeValue(int64_t v) : value_(v) {}                       // NOLINT
  AttributeValue(double v) : value_(v) {}                        // NOLINT
  AttributeValue(const char* v) : value_(std::string(v)) {}      // NOLINT
  AttributeValue(absl::string_view v) : value_(std::string(v)) {}  // NOLINT
  AttributeValue(std::string v) : value_(std::move(v)) {}        // NOLINT
  AttributeValue(Ints v) : value_(std::move(v)) {}               // NOLINT
  AttributeValue(Floats v) : value_(std::move(v)) {}             // NOLINT
  AttributeValue(Strings v) : value_(std::move(v)) {}            // NOLINT

  const Variant& variant() const { return value_; }

  // true, 3, 0x1.8p+1, "text", [1, 2], [0x1p+0], ["a"]; empty lists: []i, []f, []s. Infinities and
  // NaN print as inf, -inf, nan (inside lists too).
  std::string ToString() const;

  // Compares bits, so that NaN equals itself and -0 differs from 0: the rule of the text.
  friend bool operator==(const AttributeValue& a, const AttributeValue& b) {
    return a.ToString() == b.ToString();
  }

 private:
  Variant value_;
};

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> list)
      : values_(list) {}

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  // nullptr when absent.
  const AttributeValue* Find(absl::string_view name) const;
  void Set(absl::string_view name, AttributeValue value);
  void Erase(absl::string_view name);

  // Typed access. REQUIRES: present with that type (verified by each op's Infer, so a CHECK here is
  // a bug of ours, never of the input).
  bool Bool(absl::string_view name) const;
  int64_t Int(absl::string_view name) const;
  double Float(absl::string_view name) const;
  const std::string& String(absl::string_view name) const;
  const Ints& IntList(absl::string_view name) const;
  const Floats& FloatList(absl::string_view name) const;
  const Strings& StringList(absl::string_view name) const;

  // The same with a default for an absent name. REQUIRES: if present, of that type.
  bool BoolOr(absl::string_view name, bool otherwise) const;
  int64_t IntOr(absl::string_view name, int64_t otherwise) const;
  double FloatOr(absl::string_view name, double otherwise) const;
  std::string StringOr(absl::string_view name, absl::string_view otherwise) const;
  Strings StringListOr(absl::string_view name, Strings otherwise) const;

  // True if present with type T (one of AttributeValue::Variant's).
  template <typename T>
  bool HasType(absl::string_view name) const {
    const AttributeValue* value = Find(name);
    return value != nullptr && std::holds_alternative<T>(value->variant());
  }

  // Sorted by name. `{a=1, b=true}`; `{}` when empty.
  std::string ToString() const;
  const std::map<std::string, AttributeValue>& values() const { return values_; }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.values_ == b.values_;
  }

 private:
  template <typename T>
  const T& Get(absl::string_view name) const;

  std::map<std::string, AttributeValue> values_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_ATTRIBUTES_H_
