// The seed of random tests.
//
// Thread-safe.
//
//   std::mt19937 random(TestSeed());
#ifndef COLOSSUS_BASE_TESTING_SEED_H_
#define COLOSSUS_BASE_TESTING_SEED_H_

#include <cstdint>

namespace colossus {

// The value of the environment variable COLOSSUS_TEST_SEED (decimal), or a fixed number without it,
// so that tests repeat by default. Prints the seed, so that a failure's log says how to repeat it:
//   bazel test //base:dtype_test --test_env=COLOSSUS_TEST_SEED=7
// A variable that is no number is a CHECK failure.
uint64_t TestSeed();

}  // namespace colossus

#endif  // COLOSSUS_BASE_TESTING_SEED_H_
