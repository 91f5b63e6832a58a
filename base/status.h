// Shorthand for functions that return absl::Status or absl::StatusOr.
//
// Status is for what input or the machine can cause; CHECK (base/check.h) is for our own bugs.
// Thread-safe: everything here is a function of its arguments. Nothing is owned.
//
//   absl::StatusOr<Config> Load(const std::string& path) {
//     RETURN_IF_ERROR(ValidatePath(path));
//     ASSIGN_OR_RETURN(std::string text, ReadFile(path));
//     absl::StatusOr<Config> config = Parse(text);
//     if (!config.ok()) return Annotate(config.status(), path);   // "run.toml: line 3: ..."
//     return config;
//   }
#ifndef COLOSSUS_BASE_STATUS_H_
#define COLOSSUS_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

// The same code and payloads with the message "prefix: message". An ok status stays as it is.
// `prefix` names the thing at fault (a file, a key, a tensor), from outer to inner as it is
// annotated on the way up.
absl::Status Annotate(const absl::Status& status, absl::string_view prefix);

}  // namespace colossus

// Evaluates `expr`, an absl::Status, once; returns it from the enclosing function if it is not ok.
// The enclosing function returns absl::Status or absl::StatusOr<T>.
#define RETURN_IF_ERROR(...)                                                    \
  do {                                                                          \
    if (absl::Status colossus_status_ = (__VA_ARGS__); !colossus_status_.ok()) { \
      return colossus_status_;                                                  \
    }                                                                           \
  } while (false)

// Evaluates the expression after the first comma, an absl::StatusOr<T>, once. Moves its value into
// `lhs` (a declaration or an assignable expression) or returns its status from the enclosing
// function. It expands to several statements: REQUIRES braces when it is the body of an if or a
// loop. `lhs` holds no comma outside parentheses; name such a type first.
#define ASSIGN_OR_RETURN(lhs, ...) \
  COLOSSUS_ASSIGN_OR_RETURN_(COLOSSUS_CONCAT_(colossus_statusor_, __LINE__), lhs, (__VA_ARGS__))

#define COLOSSUS_ASSIGN_OR_RETURN_(statusor, lhs, expr)  \
  auto statusor = expr;                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
#define COLOSSUS_CONCAT_(a, b) COLOSSUS_CONCAT_INNER_(a, b)
#define COLOSSUS_CONCAT_INNER_(a, b) a##b

#endif  // COLOSSUS_BASE_STATUS_H_
