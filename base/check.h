// CHECK macros: assertions about our own code, on in every build. DCHECK: the same, only without
// NDEBUG (so not under -c opt), for conditions too costly or too frequent to test always.
//
// A failed check prints "file:line: CHECK failed: condition (values) message" to stderr as one
// write and aborts. What input or the machine can cause is an absl::Status instead.
// Thread-safe. Operands are evaluated once, the message only on failure.
//
//   CHECK(graph.IsBuilt()) << "call Build() first";
//   CHECK_EQ(lhs.size(), 3) << "for value " << name;   // mixed signedness compares by value
//   CHECK_OK(Verify(graph));                           // a Status or a StatusOr
#ifndef COLOSSUS_BASE_CHECK_H_
#define COLOSSUS_BASE_CHECK_H_

#include <concepts>
#include <cstddef>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace colossus::internal {

// Collects the message of one failed check; its destructor prints and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const std::string& what);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Turns `stream << a << b` into a void expression: & binds weaker than << and stronger than ?:.
struct Voidify {
  void operator&(std::ostream&) const {}
};

template <class T>
concept Streamable = requires(std::ostream& out, const T& value) { out << value; };

template <class T>
void PrintOperand(std::ostream& out, const T& value) {
  if constexpr (std::same_as<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::same_as<T, std::nullptr_t>) {
    out << "nullptr";
  } else if constexpr (std::same_as<T, signed char> || std::same_as<T, unsigned char>) {
    out << static_cast<int>(value);
  } else if constexpr (Streamable<T>) {
    out << value;
  } else if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else {
    out << "(a value without operator<<)";
  }
}

// The integer types std::cmp_equal and its kin accept.
template <class T>
concept ComparableInteger =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
    !std::same_as<T, char32_t>;

// Not null exactly when the comparison fails: the text "a == b (1 vs 2)".
using CheckOpFailure = std::unique_ptr<std::string>;

template <class A, class B>
CheckOpFailure MakeCheckOpFailure(const A& a, const B& b, const char* text) {
  std::ostringstream out;
  out << text << " (";
  PrintOperand(out, a);
  out << " vs ";
  PrintOperand(out, b);
  out << ")";
  return std::make_unique<std::string>(out.str());
}

#define COLOSSUS_DEFINE_CHECK_OP_(Name, op, cmp)                           \
  template <class A, class B>                                              \
  inline CheckOpFailure Name(const A& a, const B& b, const char* text) {   \
    bool holds;                                                            \
    if constexpr (ComparableInteger<A> && ComparableInteger<B>) {          \
      holds = cmp(a, b);                                                   \
    } else {                                                               \
      holds = static_cast<bool>(a op b);                                   \
    }                                                                      \
    if (ABSL_PREDICT_TRUE(holds)) return nullptr;                          \
    return MakeCheckOpFailure(a, b, text);                                 \
  }
COLOSSUS_DEFINE_CHECK_OP_(CheckEq, ==, std::cmp_equal)
COLOSSUS_DEFINE_CHECK_OP_(CheckNe, !=, std::cmp_not_equal)
COLOSSUS_DEFINE_CHECK_OP_(CheckLt, <, std::cmp_less)
COLOSSUS_DEFINE_CHECK_OP_(CheckLe, <=, std::cmp_less_equal)
COLOSSUS_DEFINE_CHECK_OP_(CheckGt, >, std::cmp_greater)
COLOSSUS_DEFINE_CHECK_OP_(CheckGe, >=, std::cmp_greater_equal)
#undef COLOSSUS_DEFINE_CHECK_OP_

inline absl::Status AsStatus(absl::Status status) { return status; }
template <class T>
absl::Status AsStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace colossus::internal

#define CHECK(...)                                                   \
  ABSL_PREDICT_TRUE(static_cast<bool>(__VA_ARGS__))                  \
  ? static_cast<void>(0)                                             \
  : ::colossus::internal::Voidify() &                                \
        ::colossus::internal::CheckFailure(__FILE__, __LINE__, #__VA_ARGS__).stream()

#define CHECK_EQ(a, b) COLOSSUS_CHECK_OP_(CheckEq, ==, a, b)
#define CHECK_NE(a, b) COLOSSUS_CHECK_OP_(CheckNe, !=, a, b)
#define CHECK_LT(a, b) COLOSSUS_CHECK_OP_(CheckLt, <, a, b)
#define CHECK_LE(a, b) COLOSSUS_CHECK_OP_(CheckLe, <=, a, b)
#define CHECK_GT(a, b) COLOSSUS_CHECK_OP_(CheckGt, >, a, b)
#define CHECK_GE(a, b) COLOSSUS_CHECK_OP_(CheckGe, >=, a, b)

// A while and not an if, so that an else after it cannot bind to it; it runs at most once.
#define COLOSSUS_CHECK_OP_(Name, op, a, b)                                           \
  while (const ::colossus::internal::CheckOpFailure colossus_check_failure_ =        \
             ::colossus::internal::Name((a), (b), #a " " #op " " #b))                \
  ::colossus::internal::CheckFailure(__FILE__, __LINE__, *colossus_check_failure_).stream()

#define CHECK_OK(...)                                                                      \
  for (const ::absl::Status colossus_check_status_ =                                       \
           ::colossus::internal::AsStatus(__VA_ARGS__);                                    \
       ABSL_PREDICT_FALSE(!colossus_check_status_.ok());)                                  \
  ::colossus::internal::CheckFailure(                                                      \
      __FILE__, __LINE__, #__VA_ARGS__ " is " + colossus_check_status_.ToString()).stream()

// Off, a DCHECK is compiled, so that its operands stay valid code, but never evaluated.
#ifdef NDEBUG
#define COLOSSUS_DCHECK_(check) while (false) check
#else
#define COLOSSUS_DCHECK_(check) check
#endif
#define DCHECK(...) COLOSSUS_DCHECK_(CHECK(__VA_ARGS__))
#define DCHECK_EQ(a, b) COLOSSUS_DCHECK_(CHECK_EQ(a, b))
#define DCHECK_NE(a, b) COLOSSUS_DCHECK_(CHECK_NE(a, b))
#define DCHECK_LT(a, b) COLOSSUS_DCHECK_(CHECK_LT(a, b))
#define DCHECK_LE(a, b) COLOSSUS_DCHECK_(CHECK_LE(a, b))
#define DCHECK_GT(a, b) COLOSSUS_DCHECK_(CHECK_GT(a, b))
#define DCHECK_GE(a, b) COLOSSUS_DCHECK_(CHECK_GE(a, b))
#define DCHECK_OK(...) COLOSSUS_DCHECK_(CHECK_OK(__VA_ARGS__))

#endif  // COLOSSUS_BASE_CHECK_H_
