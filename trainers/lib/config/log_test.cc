#include "trainers/lib/config/log.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(LogTest, OneMessageIsOneLine) {
  std::string out;
  {
    Log log([&](absl::string_view text) { out.append(text.data(), text.size()); },
            /*terminal=*/false);
    log.Info("a\nb");
    log.Info("list:\n  x\n  y\nend");
    log.Warning("c");
    log.Progress("never shown in a file");
    log.Error("d");
  }
  EXPECT_EQ(out, "a; b\nlist: x; y; end\nwarning: c\nerror: d\n");
}

TEST(LogTest, ProgressIsDrawnOverItselfAndClearedForLines) {
  std::string out;
  {
    Log log([&](absl::string_view text) { out.append(text.data(), text.size()); },
            /*terminal=*/true);
    log.Progress("1");
    log.Progress("2");
    log.Info("saved");
    log.Progress("3");
  }
  EXPECT_EQ(out, "\r1\x1b[K\r2\x1b[K\r\x1b[Ksaved\n\r3\x1b[K\n");
}

TEST(LogTest, NullSinkSaysNothing) {
  Log log(nullptr, /*terminal=*/true);
  log.Info("a");
  log.Progress("b");
}

}  // namespace
}  // namespace colossus
