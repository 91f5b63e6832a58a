#include "trainers/lib/report/metrics.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Log log(nullptr, /*terminal=*/false);

std::string Path(const std::string& name) { return JoinPath(testing::TempDir(), name); }

std::string Read(const std::string& path) {
  auto text = RealFileSystem().ReadFile(path);
  return text.ok() ? *text : std::string(text.status().message());
}

void WriteSteps(MetricsWriter& metrics, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) ASSERT_OK(metrics.Write({.step = step}));
}

std::vector<int64_t> Steps(const std::string& path) {
  std::vector<int64_t> steps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"].get<int64_t>());
  }
  return steps;
}

TEST(MetricsTest, EveryKeyInEveryLine) {
  const std::vector<std::string> keys = {"step",
                                         "loss",
                                         "grad_norm",
                                         "lr",
                                         "tokens",
                                         "step_seconds",
                                         "tokens_per_second",
                                         "model_flops_utilization",
                                         "device_peak_bytes",
                                         "host_peak_bytes",
                                         "validation_loss",
                                         "validation_bits_per_byte",
                                         "loss_scale",
                                         "skipped",
                                         "link_bytes",
                                         "host_to_device_bytes",
                                         "device_to_host_bytes",
                                         "disk_read_bytes",
                                         "disk_write_bytes",
                                         "traffic_lower_bound_bytes",
                                         "hidden_transfer_fraction"};
  const double infinity = std::numeric_limits<double>::infinity();
  for (const UpdateMetrics& metrics : {UpdateMetrics{}, UpdateMetrics{.step = 2,
                                                        .loss = NAN,
                                                        .grad_norm = infinity,
                                                        .validation_loss = 1.5,
                                                        .skipped = "no token counts"}}) {
    const std::string line = ToJsonLine(metrics);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const nlohmann::ordered_json root = nlohmann::ordered_json::parse(line);
    std::vector<std::string> found;
    for (const auto& [key, value] : root.items()) found.push_back(key);
    EXPECT_EQ(found, keys);
    EXPECT_EQ(root["skipped"].is_null(), metrics.skipped.empty());
    EXPECT_EQ(root["validation_loss"].is_null(), !metrics.validation_loss.has_value());
    EXPECT_EQ(root["loss"].is_null(), std::isnan(metrics.loss));
    EXPECT_EQ(root["grad_norm"].is_null(), std::isinf(metrics.grad_norm));
  }
}

TEST(MetricsTest, DoublesReadBackExactly) {
  for (const double value : {1.0 / 3, 1e-300, 5.551234567890123, 0.1}) {
    const nlohmann::json root = nlohmann::json::parse(ToJsonLine({.loss = value}));
    EXPECT_EQ(root["loss"].get<double>(), value);
  }
}

TEST(MetricsTest, AFileThatCannotBeMadeIsToldWithItsFlag) {
  const std::string path = Path("no/such/folder/metrics.jsonl");
  EXPECT_THAT(MetricsWriter::Create(RealFileSystem(), path, log).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("--metrics=" + path + " cannot be written"),
                             HasSubstr("in a folder that can be written"))));
}

TEST(MetricsTest, NewRunsEmptyTheFile) {
  const std::string path = Path("new.jsonl");
  std::ofstream(path) << "{\"step\":9}\n";
  ASSERT_OK_AND_ASSIGN(auto metrics, MetricsWriter::Create(RealFileSystem(), path, log));
  EXPECT_EQ(Read(path), "");
  WriteSteps(*metrics, 1, 2);
  EXPECT_THAT(Steps(path), ElementsAre(1, 2)) << "lines are there before the file is closed";
}

TEST(MetricsTest, ResumedRunsCutAfterTheCheckpointAndAppend) {
  const std::string path = Path("resumed.jsonl");
  {
    ASSERT_OK_AND_ASSIGN(auto metrics, MetricsWriter::Create(RealFileSystem(), path, log));
    WriteSteps(*metrics, 1, 7);
  }
  const std::string before = Read(path);
  std::ofstream(path, std::ios::app) << "{\"step\":8,\"lo";  // killed within a line
  {
    ASSERT_OK_AND_ASSIGN(auto metrics, MetricsWriter::Resume(RealFileSystem(), path, 5, log));
    EXPECT_EQ(before.find(Read(path)), 0u) << "kept lines stay byte for byte";
    WriteSteps(*metrics, 6, 6);
  }
  EXPECT_THAT(Steps(path), ElementsAre(1, 2, 3, 4, 5, 6));
  {
    ASSERT_OK_AND_ASSIGN(auto metrics, MetricsWriter::Resume(RealFileSystem(), path, 0, log));
    EXPECT_EQ(Read(path), "");
  }
  ASSERT_OK_AND_ASSIGN(auto metrics,
                       MetricsWriter::Resume(RealFileSystem(), Path("missing.jsonl"), 5, log));
  WriteSteps(*metrics, 6, 6);
  EXPECT_THAT(Steps(Path("missing.jsonl")), ElementsAre(6));
}

TEST(MetricsTest, ForeignFilesAreLeftAlone) {
  const std::string path = Path("foreign.txt");
  std::ofstream(path) << "dear diary\n";
  EXPECT_THAT(MetricsWriter::Resume(RealFileSystem(), path, 5, log).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("foreign.txt:1")));
  EXPECT_THAT(MetricsWriter::Create(RealFileSystem(), path, log).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("txt is another file")));
  EXPECT_EQ(Read(path), "dear diary\n");
}

// Two runs would cut and mix each other's lines.
TEST(MetricsTest, AFileHasOneWriter) {
  const std::string path = Path("shared.jsonl");
  ASSERT_OK_AND_ASSIGN(auto metrics, MetricsWriter::Create(RealFileSystem(), path, log));
  WriteSteps(*metrics, 1, 3);
  for (const bool resumed : {false, true}) {
    const auto second = resumed ? MetricsWriter::Resume(RealFileSystem(), path, 2, log)
                                : MetricsWriter::Create(RealFileSystem(), path, log);
    EXPECT_THAT(second.status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("--metrics=" + path), HasSubstr("another run"))));
  }
  EXPECT_THAT(Steps(path), ElementsAre(1, 2, 3));
  metrics.reset();
  // The lock goes over to the file that takes the name.
  ASSERT_OK_AND_ASSIGN(metrics, MetricsWriter::Resume(RealFileSystem(), path, 2, log));
  EXPECT_FALSE(MetricsWriter::Resume(RealFileSystem(), path, 2, log).ok());
  EXPECT_OK(MetricsWriter::Create(RealFileSystem(), "/dev/null", log));
  EXPECT_OK(MetricsWriter::Resume(RealFileSystem(), "/dev/null", 2, log));
}

TEST(MetricsTest, BitsPerByte) { EXPECT_DOUBLE_EQ(BitsPerByte(10 * std::log(2.0), 5), 2.0); }

}  // namespace
}  // namespace colossus
