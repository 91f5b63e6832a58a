// Runs the linked target on seeded inputs.
//
//   NAME_fuzz [--runs=N] [--seconds=S] [--seed=K] [--first=I] [--input=FILE] [--write_seeds=DIR]
//
// Input I of seed K is always the same. When one kills the program its numbers are printed and its
// bytes are left in the file fuzz-NAME-K-I (in $TEST_UNDECLARED_OUTPUTS_DIR if that is set).
// Stops after --runs inputs (default 10,000) or, with --seconds, after that time. The seed is that
// of all random tests unless it is given.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/testing/seed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutator.h"

// Of the address sanitizer, where it is linked.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace colossus {
namespace {

constexpr unsigned kMostSeconds = 120;          // for one input: beyond, it hangs
constexpr rlim_t kMostBytes = rlim_t{3} << 30;  // of address space; not under a sanitizer

struct Options {
  uint64_t runs = 0, seed = 0, first = 0;
  int64_t seconds = 0;
  std::string input, write_seeds;
};

// What the input at hand is, for the moment of death.
struct Current {
  std::string bytes, message, path;
};
Current& TheCurrent() {
  static Current current;
  return current;
}

// Only calls that a signal handler may make.
void Report() {
  const Current& current = TheCurrent();
  (void)!write(STDERR_FILENO, current.message.data(), current.message.size());
  const int file = open(current.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  (void)!write(file, current.bytes.data(), current.bytes.size());
  close(file);
}

void OnSignal(int signal) {
  Report();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void WatchForDeath() {
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(Report);
  } else {
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, OnSignal);
    const rlimit limit = {kMostBytes, kMostBytes};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  std::signal(SIGABRT, OnSignal);
  std::signal(SIGALRM, OnSignal);
}

void RunOne(std::string bytes, const std::string& what, const std::string& path) {
  Current& current = TheCurrent();
  current.message = absl::StrCat("\n", what, ", ", bytes.size(), " bytes, left in ", path, "\n");
  current.path = path;
  current.bytes = std::move(bytes);
  alarm(kMostSeconds);
  Target().run(current.bytes);
}

std::string CrashPath(const std::string& name) {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  return folder == nullptr ? name : JoinPath(folder, name);
}

int Fuzz(const Options& options) {
  const FuzzTarget& target = Target();
  const Mutator mutator(target.seeds(), target.words);
  // What cannot be read as it stands would make every mutation of it pointless.
  for (const std::string& seed : target.seeds()) {
    RunOne(seed, absl::StrCat("a seed of ", target.name), CrashPath("fuzz-seed"));
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  uint64_t done = 0;
  for (; options.seconds > 0 ? std::chrono::steady_clock::now() < end : done < options.runs;
       ++done) {
    const uint64_t index = options.first + done;
    std::string input = mutator.Make(options.seed, index);
    if (target.repair != nullptr && Mutator::Repaired(options.seed, index)) target.repair(input);
    RunOne(std::move(input),
           absl::StrCat(target.name, ": --seed=", options.seed, " --first=", index, " --runs=1"),
           CrashPath(absl::StrCat("fuzz-", target.name, "-", options.seed, "-", index)));
  }
  alarm(0);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%s: %llu inputs of seed %llu, largest memory %ld MiB\n",
              std::string(target.name).c_str(), static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(options.seed), usage.ru_maxrss >> 10);
  return 0;
}

bool Parse(absl::string_view argument, Options& options) {
  if (absl::ConsumePrefix(&argument, "--runs=")) return absl::SimpleAtoi(argument, &options.runs);
  if (absl::ConsumePrefix(&argument, "--seconds=")) {
    return absl::SimpleAtoi(argument, &options.seconds);
  }
  if (absl::ConsumePrefix(&argument, "--seed=")) return absl::SimpleAtoi(argument, &options.seed);
  if (absl::ConsumePrefix(&argument, "--first=")) return absl::SimpleAtoi(argument, &options.first);
  if (absl::ConsumePrefix(&argument, "--input=")) {
    options.input = std::string(argument);
    return true;
  }
  if (!absl::ConsumePrefix(&argument, "--write_seeds=")) return false;
  options.write_seeds = std::string(argument);
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  options.runs = 10000;
  options.seed = TestSeed();
  for (int i = 1; i < argc; ++i) {
    if (Parse(argv[i], options)) continue;
    std::fprintf(stderr, "unknown argument %s; see the head of tests/fuzz/driver.cc\n", argv[i]);
    return 2;
  }
  if (!options.write_seeds.empty()) {
    CHECK_OK(RealFileSystem().MakeDirs(options.write_seeds));
    int i = 0;
    for (const std::string& seed : Target().seeds()) {
      CHECK_OK(RealFileSystem().WriteFileAtomically(
          JoinPath(options.write_seeds, absl::StrCat(i++)), seed));
    }
    return 0;
  }
  WatchForDeath();
  if (options.input.empty()) return Fuzz(options);
  absl::StatusOr<std::string> bytes = RealFileSystem().ReadFile(options.input);
  CHECK_OK(bytes);
  RunOne(*std::move(bytes), options.input, CrashPath("fuzz-input"));
  return 0;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
