// What is saved at one layout and number of ranks is read at any other, bit by bit.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/write.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

int64_t Draw(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Borders that cut `size` into `parts`, some perhaps empty.
std::vector<int64_t> Borders(std::mt19937& random, int64_t size, int64_t parts) {
  std::vector<int64_t> borders = {0, size};
  for (int64_t p = 1; p < parts; ++p) borders.push_back(Draw(random, 0, size));
  std::sort(borders.begin(), borders.end());
  return borders;
}

// The boxes of a grid over `global` with uneven borders, each cut into element ranges.
std::vector<StatePiece> RandomLayout(std::mt19937& random, const Dims& global) {
  std::vector<Slice> boxes = {{Dims(global.size(), 0), global, global}};
  for (size_t d = 0; d < global.size(); ++d) {
    if (Draw(random, 0, 2) > 0) continue;
    const std::vector<int64_t> borders = Borders(random, global[d], Draw(random, 1, 4));
    std::vector<Slice> cut;
    for (const Slice& box : boxes) {
      for (size_t p = 0; p + 1 < borders.size(); ++p) {
        cut.push_back(box);
        cut.back().origin[d] = borders[p];
        cut.back().extent[d] = borders[p + 1] - borders[p];
      }
    }
    boxes = cut;
  }
  std::vector<StatePiece> pieces;
  const int64_t shards = Draw(random, 0, 1) == 0 ? 1 : Draw(random, 2, 5);
  for (const Slice& box : boxes) {
    const StatePiece whole = BoxPiece(box);
    const std::vector<int64_t> borders = Borders(random, whole.count, shards);
    for (size_t p = 0; p + 1 < borders.size(); ++p) {
      pieces.push_back(PartOf(whole, borders[p], borders[p + 1] - borders[p]));
    }
  }
  return pieces;
}

class LayoutsTest : public ::testing::Test {
 protected:
  LayoutsTest() : folder_(JoinPath(::testing::TempDir(), "layouts")) {
    EXPECT_OK(files_.RemoveTree(folder_));
  }

  static std::vector<HostTensor> RandomStates(std::mt19937& random, CheckpointRecord* record) {
    constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64};
    std::vector<HostTensor> values;
    for (int64_t s = Draw(random, 1, 4); s > 0; --s) {
      Type type{kTypes[Draw(random, 0, 2)], {}};
      for (int64_t d = Draw(random, 0, 4); d > 0; --d) type.dims.push_back(Draw(random, 1, 9));
      if (Draw(random, 0, 19) == 0) type.dims = {10250};
      HostTensor tensor(type);
      for (int64_t b = 0; b < type.bytes(); ++b) {
        static_cast<char*>(tensor.raw())[b] = static_cast<char>(Draw(random, 0, 255));
      }
      record->states.push_back({absl::StrCat("state", s), "parameter", type});
      values.push_back(std::move(tensor));
    }
    return values;
  }

  // Pieces of all states, dealt to `ranks` at random.
  static std::vector<std::vector<SavedPiece>> Deal(std::mt19937& random,
                                                   const CheckpointRecord& record, int64_t ranks) {
    std::vector<std::vector<SavedPiece>> dealt(static_cast<size_t>(ranks));
    for (const SavedState& state : record.states) {
      for (const StatePiece& piece : RandomLayout(random, state.type.dims)) {
        dealt[static_cast<size_t>(Draw(random, 0, ranks - 1))].push_back({state.name, piece});
      }
    }
    return dealt;
  }

  // The bytes of a piece, by the definition of pieces that state_piece_test checks.
  static std::vector<char> BytesOf(const HostTensor& values, const StatePiece& piece) {
    const int64_t size = SizeOf(values.type().dtype);
    std::vector<char> bytes(static_cast<size_t>(piece.count * size));
    ForEachRun(piece, WholePiece(values.type().dims), [&](int64_t to, int64_t from, int64_t n) {
      std::memcpy(bytes.data() + to * size, static_cast<const char*>(values.raw()) + from * size,
                  static_cast<size_t>(n * size));
    });
    return bytes;
  }

  // Saves what the ranks hold, one rank after another.
  absl::Status Save(const CheckpointRecord& record, const std::vector<HostTensor>& values,
                    const std::vector<std::vector<SavedPiece>>& dealt) {
    const std::string temporary =
        CheckpointPath(folder_, record.counters.attempted) + kTemporarySuffix;
    RETURN_IF_ERROR(files_.MakeDirs(temporary));
    Manifest manifest = {record, {}};
    for (size_t rank = 0; rank < dealt.size(); ++rank) {
      const auto read = [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
        const SavedPiece& saved = dealt[rank][piece];
        const std::vector<char> all = BytesOf(values[IndexOf(record, saved.state)], saved.piece);
        std::copy_n(all.begin() + offset, bytes, static_cast<char*>(dst));
        return absl::OkStatus();
      };
      ASSIGN_OR_RETURN(PiecesFile file, WritePieces(files_, temporary, static_cast<int>(rank),
                                                    record, dealt[rank], read));
      manifest.files.push_back(std::move(file));
    }
    return FinishCheckpoint(files_, folder_, manifest);
  }

  static size_t IndexOf(const CheckpointRecord& record, const std::string& state) {
    size_t i = 0;
    while (record.states[i].name != state) ++i;
    return i;
  }

  FileSystem& files_ = RealFileSystem();
  std::string folder_;
};

TEST_F(LayoutsTest, AnyLayoutReadsAnyOther) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    CheckpointRecord record;
    record.counters.attempted = seed;
    const std::vector<HostTensor> values = RandomStates(random, &record);
    ASSERT_OK(Save(record, values, Deal(random, record, Draw(random, 1, 8))));
    const int readers = static_cast<int>(Draw(random, 1, 8));
    // Each reader verifies its share of the files; together they have seen all.
    std::vector<Checkpoint> opened;
    for (int rank = 0; rank < readers; ++rank) {
      ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint,
                           Checkpoint::Open(files_, CheckpointPath(folder_, seed), rank, readers));
      opened.push_back(std::move(checkpoint));
    }
    const auto wanted = Deal(random, record, readers);
    for (size_t rank = 0; rank < wanted.size(); ++rank) {
      for (const SavedPiece& saved : wanted[rank]) {
        const HostTensor& all = values[IndexOf(record, saved.state)];
        // In windows, as a run that has little memory reads.
        const int64_t window = Draw(random, 1, std::max<int64_t>(saved.piece.count, 1));
        for (int64_t at = 0; at < saved.piece.count; at += window) {
          const StatePiece part = PartOf(saved.piece, at, std::min(window, saved.piece.count - at));
          const std::vector<char> expected = BytesOf(all, part);
          std::vector<char> actual(expected.size());
          ASSERT_OK(opened[rank].ReadPiece(saved.state, part, actual.data()));
          ASSERT_EQ(actual, expected) << saved.state << " " << ToString(part);
        }
      }
    }
    for (const SavedState& state : record.states) {
      ASSERT_OK_AND_ASSIGN(const HostTensor whole, opened[0].Read(state.name));
      ASSERT_EQ(whole, values[IndexOf(record, state.name)]) << state.name;
    }
  }
}

// Pieces that leave elements out, overlap or lie outside are refused when the checkpoint is opened.
TEST_F(LayoutsTest, IncompletePiecesAreRefused) {
  CheckpointRecord record;
  record.states = {{"w", "parameter", {DType::kF32, {4, 6}}}};
  const std::vector<HostTensor> values = {HostTensor(record.states[0].type)};
  const StatePiece whole = WholePiece({4, 6});
  const std::vector<std::pair<std::vector<std::vector<SavedPiece>>, const char*>> kTable = {
      {{{}, {}}, "'w': the pieces of [4,6] leave elements out"},
      {{{{"w", PartOf(whole, 0, 23)}}}, "leave elements out"},
      {{{{"w", whole}}, {{"w", PartOf(whole, 3, 1)}}}, "overlap"},
      {{{{"w", {{0, 0}, {4, 3}, 0, 12}}}, {{"w", {{0, 2}, {4, 3}, 0, 12}}}}, "overlap"},
  };
  for (const auto& [dealt, why] : kTable) {
    ASSERT_OK(Save(record, values, dealt));
    EXPECT_THAT(Checkpoint::Open(files_, CheckpointPath(folder_, 0)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
}

}  // namespace
}  // namespace colossus
