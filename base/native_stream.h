// NativeStream: a stream that is a device's own queue, for libraries that take the device's handle.
//
// Purpose: collectives enqueue on the streams of CUDA devices without either knowing the other.
// Thread-safety and ownership: as Stream.
//
//   auto* native = dynamic_cast<NativeStream*>(&stream);
//   native->Update(Enqueue(static_cast<cudaStream_t>(native->handle())));
#ifndef COLOSSUS_BASE_NATIVE_STREAM_H_
#define COLOSSUS_BASE_NATIVE_STREAM_H_

#include "absl/status/status.h"
#include "base/stream.h"

namespace colossus {

class NativeStream : public Stream {
 public:
  // The device's handle: a cudaStream_t.
  virtual void* handle() const = 0;
  // Whether work may be added: nothing before it has failed, as far as known.
  virtual bool ok() const = 0;
  // The result of adding work by the handle; an error becomes the stream's.
  virtual void Update(const absl::Status& status) = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_BASE_NATIVE_STREAM_H_
