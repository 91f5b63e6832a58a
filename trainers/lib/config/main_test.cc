#include "trainers/lib/config/main.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

struct Ran {
  int exit_status = -1;
  bool called = false;
  std::string output, errors;
};

Ran RunParity(std::vector<std::string> arguments, const Job& job) {
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), "parity");
  for (std::string& argument : arguments) argv.push_back(argument.data());
  Ran ran;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ran.exit_status = RunTrainer(Trainer::kParity, static_cast<int>(argv.size()), argv.data(),
                               [&](JobContext& context) {
                                 ran.called = true;
                                 return job(context);
                               });
  ran.output = testing::internal::GetCapturedStdout();
  ran.errors = testing::internal::GetCapturedStderr();
  return ran;
}

// Protects: the exit statuses that scripts rely on, and one line per error.
TEST(MainTest, ExitStatuses) {
  const struct {
    const char* what;
    std::vector<std::string> arguments;
    Job job;
    int exit_status;
    bool called;
    const char* errors;
  } rows[] = {
      {"done", {"--model=d", "--golden=g"}, [](JobContext&) { return 0; }, 0, true, ""},
      {"a job's own status", {"--model=d", "--golden=g"}, [](JobContext&) { return 3; }, 3, true,
       ""},
      {"refused configuration", {"--modle=d"}, [](JobContext&) { return 0; }, 2, false, "--modle"},
      {"a needed key", {"--model=d"}, [](JobContext&) { return 0; }, 2, false, "--golden"},
      {"refused job", {"--model=d", "--golden=g"},
       [](JobContext&) -> absl::StatusOr<int> { return absl::NotFoundError("no\nfile"); }, 2, true,
       "error: no; file\n"},
      {"failed job", {"--model=d", "--golden=g"},
       [](JobContext& context) -> absl::StatusOr<int> {
         context.begun = true;
         return absl::NotFoundError("no file");
       },
       1, true, "error: no file\n"},
  };
  for (const auto& row : rows) {
    const Ran ran = RunParity(row.arguments, row.job);
    EXPECT_EQ(ran.exit_status, row.exit_status) << row.what;
    EXPECT_EQ(ran.called, row.called) << row.what;
    EXPECT_NE(ran.errors.find(row.errors), std::string::npos) << row.what << ": " << ran.errors;
    EXPECT_EQ(ran.errors.empty(), row.errors[0] == '\0') << row.what << ": " << ran.errors;
    EXPECT_EQ(ran.output, "") << row.what;
  }
}

// Protects: of processes the first one has the time to say why all were refused, before the
// launcher ends it because another one has ended; one that is refused alone says so itself.
TEST(MainTest, LaterRanksLetTheFirstSpeak) {
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = RunParity({"--modle=d"}, [](JobContext&) { return 0; });
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(ran.exit_status, 2);
  EXPECT_GT(waited.count(), 2.0);
  EXPECT_NE(ran.errors.find("error: rank 1: "), std::string::npos) << ran.errors;
  EXPECT_NE(ran.errors.find("--modle"), std::string::npos) << ran.errors;
}

// Protects: help is what was asked for: on standard output, status 0, without a job.
TEST(MainTest, Help) {
  const Ran ran = RunParity({"--help"}, [](JobContext&) { return 5; });
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_FALSE(ran.called);
  EXPECT_EQ(ran.errors, "");
  EXPECT_NE(ran.output.find("--golden"), std::string::npos);
}

// Protects: results that did not arrive are a failure, not silence.
TEST(MainTest, FullStandardOutput) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](const char* what) {
    std::vector<std::string> words = {"parity", "--model=d", "--golden=g"};
    if (std::string(what) == "help") words = {"parity", "--help"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(99);
    std::exit(
        RunTrainer(Trainer::kParity, static_cast<int>(argv.size()), argv.data(), [](JobContext&) {
          std::printf("result\n");
          return 0;
        }));
  };
  for (const char* what : {"job", "help"}) {
    EXPECT_EXIT(run(what), testing::ExitedWithCode(1), "standard output: No space left") << what;
  }
}

// Protects: a file that is opened does not take the place of a closed standard stream.
TEST(MainTest, ClosedStreams) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    std::string words[] = {"parity", "--model=d", "--golden=g"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    std::fflush(stdout);  // what the test itself printed
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    std::exit(RunTrainer(Trainer::kParity, static_cast<int>(argv.size()), argv.data(),
                         [](JobContext&) { return open("/dev/null", O_RDONLY) > 2 ? 0 : 5; }));
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

// Protects: results that nobody can read are a failure.
TEST(MainTest, ClosedStandardOutput) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    std::string words[] = {"parity", "--model=d", "--golden=g"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    std::fflush(stdout);
    close(STDOUT_FILENO);
    std::exit(RunTrainer(Trainer::kParity, static_cast<int>(argv.size()), argv.data(),
                         [](JobContext&) {
                           std::printf("result\n");
                           return 0;
                         }));
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1), "standard output: Bad file descriptor");
}

// Protects: the job sees the configuration.
TEST(MainTest, GivesTheConfiguration) {
  std::string model;
  RunParity({"--model=here", "--golden=g"}, [&](JobContext& context) {
    model = context.config.options.model.directory;
    EXPECT_FALSE(context.begun);
    return 0;
  });
  EXPECT_EQ(model, "here");
}

}  // namespace
}  // namespace colossus
