#include "tensor/exec/disk/file_disk_tier.h"

#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/disk/disk_file.h"
#include "tensor/exec/disk/disk_lane.h"

namespace colossus {
namespace {

constexpr int64_t kMostPieceBytes = int64_t{16} << 20;

std::unique_ptr<DiskQueue> NewQueue(int file, const FileDiskTierOptions& options) {
  std::unique_ptr<DiskQueue> queue;
  if (options.ring) queue = NewRingQueue(file, options.pieces_in_flight);
  if (queue == nullptr) queue = NewThreadQueue(file, options.pieces_in_flight);
  return options.wrap_queue ? options.wrap_queue(std::move(queue)) : std::move(queue);
}

class NamelessFileTier final : public FileDiskTier {
 public:
  NamelessFileTier(std::unique_ptr<DiskFile> file, int64_t capacity,
                   const FileDiskTierOptions& options)
      : file_(std::move(file)),
        capacity_(capacity),
        piece_bytes_(options.piece_bytes),
        staging_bytes_(StagingBytes(options)),
        reads_(*file_, options),
        writes_(*file_, options) {}

  absl::string_view method() const override { return reads_.method; }
  int64_t capacity_bytes() const override { return capacity_; }
  int64_t alignment_bytes() const override { return kDiskBlock; }
  int64_t staging_bytes() const override { return staging_bytes_; }

  absl::Status Reserve(int64_t bytes) override {
    CHECK(!reserved_) << "a disk tier is reserved once";
    RETURN_IF_ERROR(file_->Reserve(FileBytes(bytes, piece_bytes_)));
    reserved_ = true;
    bytes_ = bytes;
    return absl::OkStatus();
  }

  absl::Status Read(int64_t offset, void* dst, int64_t bytes) override {
    CHECK(offset >= 0 && offset + bytes <= bytes_) << offset << " + " << bytes;
    std::lock_guard<std::mutex> lock(reads_.mutex);
    return reads_.lane.Read(offset, dst, bytes);
  }
  absl::Status Write(int64_t offset, const void* src, int64_t bytes) override {
    CHECK(offset >= 0 && offset + bytes <= bytes_) << offset << " + " << bytes;
    std::lock_guard<std::mutex> lock(writes_.mutex);
    return writes_.lane.Write(offset, src, bytes);
  }

  DiskTraffic traffic() const override {
    DiskTraffic sum;
    for (const Way* way : {&reads_, &writes_}) {
      std::lock_guard<std::mutex> lock(way->mutex);
      sum.read_bytes += way->lane.traffic().read_bytes;
      sum.written_bytes += way->lane.traffic().written_bytes;
    }
    return sum;
  }

 private:
  struct Way {
    Way(const DiskFile& file, const FileDiskTierOptions& options)
        : Way(file, NewQueue(file.descriptor(), options), options) {}
    Way(const DiskFile& file, std::unique_ptr<DiskQueue> queue, const FileDiskTierOptions& options)
        : method(queue->name()),
          lane(file, std::move(queue), options.piece_bytes, options.pieces_in_flight) {}
    const std::string method;
    mutable std::mutex mutex;
    DiskLane lane;  // guarded by mutex
  };

  const std::unique_ptr<DiskFile> file_;
  const int64_t capacity_, piece_bytes_, staging_bytes_;
  bool reserved_ = false;
  int64_t bytes_ = 0;
  Way reads_, writes_;
};

}  // namespace

int64_t StagingBytes(const FileDiskTierOptions& options) {
  return 2 * options.pieces_in_flight * WholeBlocks(options.piece_bytes);
}

absl::StatusOr<std::unique_ptr<FileDiskTier>> NewFileDiskTier(const std::string& folder,
                                                              const FileDiskTierOptions& options) {
  CHECK(options.piece_bytes > 0 && options.piece_bytes <= kMostPieceBytes);
  CHECK_GT(options.pieces_in_flight, 0);
  FileSystem& files = options.files != nullptr ? *options.files : RealFileSystem();
  ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file, DiskFile::Open(folder, files));
  ASSIGN_OR_RETURN(const int64_t free, file->FreeBytes());
  return std::make_unique<NamelessFileTier>(std::move(file), free, options);
}

}  // namespace colossus
