// Utf8Stream: bytes that come one by one, handed on as whole characters.
//
// Purpose: a terminal that is given half a character shows a wrong one. Bytes that are no UTF-8
// pass through unchanged.
// Thread-safety: none; one thread.
//
//   Utf8Stream stream;
//   for (each piece) std::fputs(stream.Push(piece).c_str(), stdout);
//   std::fputs(stream.Finish().c_str(), stdout);
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_UTF8_STREAM_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_UTF8_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colossus {

class Utf8Stream {
 public:
  // Everything so far that was not handed on, except up to 3 last bytes that begin a character.
  std::string Push(absl::string_view bytes);
  // What is left.
  std::string Finish();

 private:
  std::string pending_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_UTF8_STREAM_H_
