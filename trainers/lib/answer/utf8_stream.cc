#include "trainers/lib/answer/utf8_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace colossus {
namespace {

// Bytes of the character that `lead` begins; 0 if it begins none.
size_t CharacterBytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes at the end of `text` that begin a character and do not end it.
size_t OpenBytes(const std::string& text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const unsigned char byte = text[text.size() - back];
    if (!IsContinuation(byte)) return CharacterBytes(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string Utf8Stream::Push(absl::string_view bytes) {
  pending_.append(bytes.data(), bytes.size());
  const size_t open = OpenBytes(pending_);
  std::string whole = pending_.substr(0, pending_.size() - open);
  pending_.erase(0, whole.size());
  return whole;
}

std::string Utf8Stream::Finish() { return std::exchange(pending_, {}); }

}  // namespace colossus
