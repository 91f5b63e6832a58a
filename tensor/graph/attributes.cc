#include "tensor/graph/attributes.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace colossus {
namespace {

std::string Print(bool v) { return v ? "true" : "false"; }
std::string Print(int64_t v) { return absl::StrCat(v); }
std::string Print(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return absl::StrFormat("%a", v);
}
std::string Print(const std::string& v) { return absl::StrCat("\"", absl::CEscape(v), "\""); }

template <typename T>
std::string PrintList(const std::vector<T>& list, absl::string_view empty) {
  if (list.empty()) return std::string(empty);
  return absl::StrCat("[", absl::StrJoin(list, ", ", [](std::string* out, const T& item) {
                        out->append(Print(item));
                      }), "]");
}

std::string Print(const Ints& v) { return PrintList(v, "[]i"); }
std::string Print(const Floats& v) { return PrintList(v, "[]f"); }
std::string Print(const Strings& v) { return PrintList(v, "[]s"); }

}  // namespace

std::string AttributeValue::ToString() const {
  return std::visit([](const auto& v) { return Print(v); }, value_);
}

const AttributeValue* Attributes::Find(absl::string_view name) const {
  auto it = values_.find(std::string(name));
  return it == values_.end() ? nullptr : &it->second;
}

void Attributes::Set(absl::string_view name, AttributeValue value) {
  values_.insert_or_assign(std::string(name), std::move(value));
}

void Attributes::Erase(absl::string_view name) { values_.erase(std::string(name)); }

template <typename T>
const T& Attributes::Get(absl::string_view name) const {
  const AttributeValue* value = Find(name);
  CHECK(value != nullptr) << "no attribute '" << name << "' in " << ToString();
  const T* typed = std::get_if<T>(&value->variant());
  CHECK(typed != nullptr) << "attribute '" << name << "' has another type in " << ToString();
  return *typed;
}

bool Attributes::Bool(absl::string_view name) const { return Get<bool>(name); }
int64_t Attributes::Int(absl::string_view name) const { return Get<int64_t>(name); }
double Attributes::Float(absl::string_view name) const { return Get<double>(name); }
const std::string& Attributes::String(absl::string_view name) const {
  return Get<std::string>(name);
}
const Ints& Attributes::IntList(absl::string_view name) const { return Get<Ints>(name); }
const Floats& Attributes::FloatList(absl::string_view name) const { return Get<Floats>(name); }
const Strings& Attributes::StringList(absl::string_view name) const { return Get<Strings>(name); }

bool Attributes::BoolOr(absl::string_view name, bool otherwise) const {
  return Has(name) ? Bool(name) : otherwise;
}
int64_t Attributes::IntOr(absl::string_view name, int64_t otherwise) const {
  return Has(name) ? Int(name) : otherwise;
}
double Attributes::FloatOr(absl::string_view name, double otherwise) const {
  return Has(name) ? Float(name) : otherwise;
}
std::string Attributes::StringOr(absl::string_view name, absl::string_view otherwise) const {
  return Has(name) ? String(name) : std::string(otherwise);
}
Strings Attributes::StringListOr(absl::string_view name, Strings otherwise) const {
  return Has(name) ? StringList(name) : std::move(otherwise);
}

std::string Attributes::ToString() const {
  return absl::StrCat("{", absl::StrJoin(values_, ", ", [](std::string* out, const auto& item) {
                        absl::StrAppend(out, item.first, "=", item.second.ToString());
                      }), "}");
}

}  // namespace colossus
