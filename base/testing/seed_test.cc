#include "base/testing/seed.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(TestSeed, ComesFromTheEnvironmentAndIsPrinted) {
  unsetenv("COLOSSUS_TEST_SEED");
  const uint64_t fixed = TestSeed();
  EXPECT_EQ(TestSeed(), fixed);
  setenv("COLOSSUS_TEST_SEED", "18446744073709551615", 1);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(TestSeed(), ~uint64_t{0});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "COLOSSUS_TEST_SEED=18446744073709551615\n");
  setenv("COLOSSUS_TEST_SEED", "7x", 1);
  EXPECT_DEATH(TestSeed(), "COLOSSUS_TEST_SEED=7x is no number");
}

}  // namespace
}  // namespace colossus
