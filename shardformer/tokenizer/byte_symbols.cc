#include "shardformer/tokenizer/byte_symbols.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

constexpr bool Printable(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

constexpr int kOthers = 68;  // bytes that are not printable

constexpr std::array<uint16_t, 256> CodesOfBytes() {
  std::array<uint16_t, 256> codes = {};
  int next = 0x100;
  for (int b = 0; b < 256; ++b) codes[b] = static_cast<uint16_t>(Printable(b) ? b : next++);
  return codes;
}

constexpr std::array<int16_t, 0x100 + kOthers> BytesOfCodes() {
  std::array<int16_t, 0x100 + kOthers> bytes = {};
  for (int16_t& byte : bytes) byte = -1;
  const std::array<uint16_t, 256> codes = CodesOfBytes();
  for (int b = 0; b < 256; ++b) bytes[codes[b]] = static_cast<int16_t>(b);
  return bytes;
}

}  // namespace

std::string ByteSymbol(int byte) {
  constexpr std::array<uint16_t, 256> kCodes = CodesOfBytes();
  std::string symbol;
  AppendUtf8(kCodes[static_cast<size_t>(byte)], &symbol);
  return symbol;
}

bool BytesOfSymbols(absl::string_view symbols, std::string* bytes) {
  constexpr std::array<int16_t, 0x100 + kOthers> kBytes = BytesOfCodes();
  bytes->clear();
  while (!symbols.empty()) {
    size_t length;
    const uint32_t code = DecodeUtf8(symbols, &length);
    if (code >= kBytes.size() || kBytes[code] < 0) return false;
    *bytes += static_cast<char>(kBytes[code]);
    symbols.remove_prefix(length);
  }
  return true;
}

}  // namespace colossus
