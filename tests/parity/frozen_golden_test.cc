// A reference that trained a part of its model: what it froze has no gradient and no part in the
// norm, and keeps its values.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/safetensors_writer.h"
#include "trainers/lib/answer/parity.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr char kCase[] = "tests/golden/llama_tied";

bool IsFrozen(const std::string& name) { return absl::StrContains(name, ".layers.0."); }

using Tensors = std::vector<std::pair<SafetensorsTensor, std::string>>;  // with their bytes

absl::Status Add(const SafetensorsFile& file, const std::string& name, const std::string& as,
                 Tensors* tensors) {
  ASSIGN_OR_RETURN(const auto bytes, file.data(name));
  const SafetensorsEntry& entry = *file.Find(name);
  tensors->push_back({{as, entry.dtype.value(), entry.dims}, {bytes.begin(), bytes.end()}});
  return absl::OkStatus();
}

// The numbers of the case that hold of a first layer that is frozen too: those of the first step,
// the gradients of the rest and their norm, and weights that stay.
absl::StatusOr<Tensors> FrozenTensors() {
  ASSIGN_OR_RETURN(const SafetensorsFile golden,
                   SafetensorsFile::Open(RealFileSystem(), JoinPath(kCase, "golden.safetensors")));
  ASSIGN_OR_RETURN(const SafetensorsFile weights,
                   SafetensorsFile::Open(RealFileSystem(), JoinPath(kCase, "model.safetensors")));
  Tensors tensors;
  for (const char* name : {"input_ids", "labels", "logits", "loss"}) {
    RETURN_IF_ERROR(Add(golden, name, name, &tensors));
  }
  double squares = 0;
  for (const SafetensorsEntry& entry : golden.entries()) {
    if (!absl::StartsWith(entry.name, "grad.") || IsFrozen(entry.name)) continue;
    RETURN_IF_ERROR(Add(golden, entry.name, entry.name, &tensors));
    std::vector<double> values(static_cast<size_t>(entry.elements));
    RETURN_IF_ERROR(golden.CopyTo(entry.name, DType::kF64, values.data()));
    for (const double value : values) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  tensors.push_back({{"grad_norm", DType::kF64, {}}, std::string(sizeof(norm), '\0')});
  std::memcpy(tensors.back().second.data(), &norm, sizeof(norm));
  for (const SafetensorsEntry& entry : weights.entries()) {
    if (!IsFrozen(entry.name)) continue;
    RETURN_IF_ERROR(Add(weights, entry.name, "final." + entry.name, &tensors));
  }
  return tensors;
}

absl::Status Write(const std::string& path, const Tensors& tensors) {
  std::vector<SafetensorsTensor> headers;
  std::map<std::string, std::string> bytes;
  for (const auto& [tensor, values] : tensors) {
    headers.push_back(tensor);
    bytes[tensor.name] = values;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(RealFileSystem(), path, headers));
  for (const SafetensorsTensor& tensor : writer->order()) {
    RETURN_IF_ERROR(writer->Append(tensor.name, bytes.at(tensor.name)));
  }
  return writer->Finish();
}

// Of the golden in `folder`, whose reference froze these.
absl::StatusOr<int> Parity(const std::string& folder, const std::vector<std::string>& frozen,
                           const std::string& flag) {
  ASSIGN_OR_RETURN(const std::string json,
                   RealFileSystem().ReadFile(JoinPath(kCase, "golden.json")));
  const std::string names =
      frozen.empty() ? "[]" : absl::StrCat("[\"", absl::StrJoin(frozen, "\", \""), "\"]");
  RETURN_IF_ERROR(RealFileSystem().WriteFileAtomically(
      JoinPath(folder, "golden.json"),
      absl::StrReplaceAll(json, {{"\"frozen\": []", "\"frozen\": " + names}})));
  const std::vector<std::string> flags = {
      absl::StrCat("--model=", kCase), "--threads=1", flag,
      absl::StrCat("--golden=", JoinPath(folder, "golden.safetensors"))};
  ASSIGN_OR_RETURN(const Config config, ReadConfig(Trainer::kParity, flags, RealFileSystem()));
  Log log(nullptr, false);
  JobContext context{config, log};
  return RunParity(context);
}

TEST(FrozenGoldenTest, WithinTheLimits) {
  const std::string folder = testing::TempDir();
  ASSERT_OK_AND_ASSIGN(const Tensors tensors, FrozenTensors());
  ASSERT_OK(Write(JoinPath(folder, "golden.safetensors"), tensors));
  std::vector<std::string> frozen;
  for (const auto& [tensor, values] : tensors) {
    if (absl::StartsWith(tensor.name, "final.")) frozen.push_back(tensor.name.substr(6));
  }
  EXPECT_EQ(frozen.size(), 9u);
  EXPECT_THAT(Parity(folder, frozen, "--ranks=1"), IsOkAndHolds(0));
  EXPECT_THAT(Parity(folder, frozen, "--ranks=2"), IsOkAndHolds(0));
  EXPECT_THAT(Parity(folder, {}, "--ranks=1"), IsOkAndHolds(1)) << "a larger norm, other weights";
  EXPECT_THAT(Parity(folder, {"wpe"}, "--ranks=1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("golden.json: frozen: no parameter is named 'wpe'")));
}

}  // namespace
}  // namespace colossus
