#include "base/nearest_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace colossus {

// By rows of the table of prefixes.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string NearestName(absl::string_view wanted, const std::vector<std::string>& names) {
  wanted = wanted.substr(0, 256);  // the table is quadratic; no name here is longer
  std::string nearest;
  size_t fewest = static_cast<size_t>(-1);
  for (const std::string& name : names) {
    const size_t edits = EditDistance(wanted, name);
    const size_t allowed = std::max<size_t>(1, std::max(wanted.size(), name.size()) / 3);
    if (edits <= allowed && edits < fewest) {
      fewest = edits;
      nearest = name;
    }
  }
  return nearest;
}

std::string NearestNameHint(absl::string_view wanted, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(wanted, names);
  return nearest.empty() ? "" : absl::StrCat(" (did you mean ", nearest, "?)");
}

}  // namespace colossus
