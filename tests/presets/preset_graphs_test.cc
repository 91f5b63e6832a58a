// Every graph that is compiled for a preset verifies, and its text reads back the same.
#include <cctype>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/presets.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tests/presets/preset_dumps.h"

namespace colossus {
namespace {

class PresetGraphsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PresetGraphsTest, VerifyAndReadBack) {
  const std::string root = JoinPath(::testing::TempDir(), GetParam());
  ASSERT_OK(WritePresetDumps(GetParam(), root));
  FileSystem& files = RealFileSystem();
  int graphs = 0, plans = 0;
  for (const std::string& name : PresetDumpFolders()) {
    const std::string folder = JoinPath(root, name);
    ASSERT_OK_AND_ASSIGN(std::vector<std::string> entries, files.List(folder));
    for (const std::string& entry : entries) {
      SCOPED_TRACE(JoinPath(folder, entry));
      ASSERT_OK_AND_ASSIGN(std::string text, files.ReadFile(JoinPath(folder, entry)));
      if (entry.find("memory_plan") != std::string::npos) {
        EXPECT_EQ(text.rfind("device ", 0), 0u);
        ++plans;
        continue;
      }
      ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(text));
      EXPECT_TRUE(ToText(graph) == text);  // without megabytes in the message
      EXPECT_OK(Verify(graph));
      ++graphs;
    }
  }
  // Training: before and after two passes or four, micro-batches, measure, update; generation.
  EXPECT_EQ(plans, 3);
  EXPECT_GE(graphs, (3 + 3) + (5 + 4) + 3);
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PresetGraphsTest, ::testing::ValuesIn(PresetNames()), TestName);

}  // namespace
}  // namespace colossus
