// JSON lines: what is called a text decodes, and agrees with the JSON library on valid lines.
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz_target.h"
#include "trainers/lib/data/json_lines.h"

namespace colossus {
namespace {

std::vector<std::string> Seeds() {
  return {R"({"text":"ab"})", R"({"id": [1, {"text": null}], "text": "d\r\n\u00e9\ud83e\udd99"})",
          R"({"txt":"x", "n": -1.5e3})", "  ", R"({"text":""})"};
}

void Run(absl::string_view input) {
  const JsonLine line = ScanJsonLine(input, "text");
  if (line.kind != JsonLineKind::kText) return;
  std::string text;
  const absl::Status decoded = DecodeJsonString(line.raw, [&](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  const nlohmann::json json =
      nlohmann::json::parse(input.begin(), input.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return;  // lone surrogates and the like: ours may be kinder
  CHECK(json.is_object()) << std::string(input);
  CHECK_OK(decoded) << std::string(input);
  CHECK_EQ(json.at("text").get<std::string>(), text);
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "json_lines",
      .seeds = Seeds,
      .run = Run,
      .words = {"\"text\"", "\"text\":", "\\u0000", "\\ud83e", "\\\\", "\"\\\"", "{", "}", "1e5"},
  };
  return target;
}

}  // namespace colossus
