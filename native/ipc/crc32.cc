// The CRC-32 of Ethernet. The zlib in Node.js uses tables, which took longer than all other work on a long packet. Where the
// CPU has carry-less multiplication, this file uses it instead: V. Gopal et al., "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction", Intel 2009. Each block of 16 bytes is folded into a later one: each half is multiplied by the
// power of x that belongs to the distance. The last block is reduced to the CRC. Numbers are bit-reflected: their lowest bit
// is the coefficient of the highest power. A product lies one bit too low, so the powers are shifted by one bit.
#include "crc32.h"

#include <dlfcn.h>

#include <array>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace isoverbs::ipc {

namespace {

using Crc32 = unsigned long (*)(unsigned long, const unsigned char*, unsigned);

constexpr uint32_t kPolynomial = 0xedb88320;

constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

/** Continues a CRC, which is inverted, as the algorithm keeps it. Meant for few bytes. */
uint32_t byTable(uint32_t state, const unsigned char* data, size_t bytes) {
  static constexpr auto kTable = makeTable();
  uint32_t next = state;
  for (size_t i = 0; i < bytes; i++) next = (next >> 8) ^ kTable[(next ^ data[i]) & 0xff];
  return next;
}

unsigned long crcByTable(unsigned long before, const unsigned char* data, unsigned bytes) {
  return ~byTable(~static_cast<uint32_t>(before), data, bytes) & 0xffffffff;
}

/** crc32() of zlib, which Node.js contains or loads; otherwise a table. */
Crc32 zlibCrc32() {
  static const Crc32 found = [] {
    const auto symbol = reinterpret_cast<Crc32>(dlsym(RTLD_DEFAULT, "crc32"));
    const auto* known = reinterpret_cast<const unsigned char*>("123456789");
    return symbol != nullptr && symbol(0, known, 9) == 0xcbf43926 ? symbol : crcByTable;
  }();
  return found;
}

#ifdef __x86_64__

constexpr size_t kBlockBytes = 16;
/** A step is four blocks, or sixteen with wide registers. */
constexpr size_t kStepBytes = 4 * kBlockBytes;
constexpr size_t kWideBytes = 4 * kStepBytes;

/** x to this power modulo the polynomial of the CRC. */
constexpr long long powerOf(size_t exponent) {
  uint32_t power = 1u << 31;
  for (size_t i = 0; i < exponent; i++) power = (power & 1) != 0 ? (power >> 1) ^ kPolynomial : power >> 1;
  return static_cast<long long>(power) << 1;
}

/** The factors of both halves of a block that is folded into the one `bytes` later. */
template <size_t kBytes>
struct Factors {
  static constexpr long long kLow = powerOf(8 * kBytes + 32);
  static constexpr long long kHigh = powerOf(8 * kBytes - 32);
};

/** x^64 divided by the polynomial, and the polynomial, both with 33 bits. */
constexpr long long kQuotient = 0x1f7011641;
constexpr long long kDivisor = 0x1db710641;

#define ISOVERBS_PCLMUL __attribute__((target("pclmul,sse4.1")))
#define ISOVERBS_VPCLMUL __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

ISOVERBS_PCLMUL inline __m128i load(const unsigned char* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

ISOVERBS_PCLMUL inline __m128i fold(__m128i block, __m128i factors, __m128i later) {
  const __m128i low = _mm_clmulepi64_si128(block, factors, 0x00);
  return _mm_xor_si128(_mm_xor_si128(low, _mm_clmulepi64_si128(block, factors, 0x11)), later);
}

/** The CRC of a block, inverted. */
ISOVERBS_PCLMUL inline uint32_t reduce(__m128i block) {
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  // To 96 bits, then to 64.
  const __m128i factors = _mm_set_epi64x(powerOf(64), Factors<kBlockBytes>::kHigh);
  __m128i rest = _mm_xor_si128(_mm_srli_si128(block, 8), _mm_clmulepi64_si128(block, factors, 0x00));
  const __m128i moved = _mm_srli_si128(rest, 4);
  rest = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(rest, low32), factors, 0x10), moved);
  // Barrett's reduction of 64 bits to 32.
  const __m128i barrett = _mm_set_epi64x(kQuotient, kDivisor);
  __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(rest, low32), barrett, 0x10);
  multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(rest, multiple), 1));
}

/** The state of a CRC over at least one step: four blocks that stand for all before them, and the bytes that follow. */
struct Blocks {
  __m128i four[4];
  const unsigned char* next;
  size_t bytes;
};

ISOVERBS_PCLMUL Blocks beginNarrow(uint32_t state, const unsigned char* data, size_t bytes) {
  Blocks blocks{{load(data), load(data + 16), load(data + 32), load(data + 48)}, data + kStepBytes, bytes - kStepBytes};
  blocks.four[0] = _mm_xor_si128(blocks.four[0], _mm_cvtsi32_si128(static_cast<int>(state)));
  return blocks;
}

/** fold() for four blocks at once. */
ISOVERBS_VPCLMUL inline __m512i foldWide(__m512i blocks, __m512i factors, __m512i later) {
  const __m512i low = _mm512_clmulepi64_epi128(blocks, factors, 0x00);
  return _mm512_xor_si512(_mm512_xor_si512(low, _mm512_clmulepi64_epi128(blocks, factors, 0x11)), later);
}

/** Begins a CRC over at least four steps. */
ISOVERBS_VPCLMUL Blocks beginWide(uint32_t state, const unsigned char* data, size_t bytes) {
  __m512i four[4];
  for (size_t i = 0; i < 4; i++) four[i] = _mm512_loadu_si512(data + i * kStepBytes);
  four[0] = _mm512_xor_si512(four[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  using Far = Factors<kWideBytes>;
  using Near = Factors<kStepBytes>;
  const __m512i far = _mm512_set4_epi64(Far::kHigh, Far::kLow, Far::kHigh, Far::kLow);
  const __m512i near = _mm512_set4_epi64(Near::kHigh, Near::kLow, Near::kHigh, Near::kLow);
  const unsigned char* next = data + kWideBytes;
  size_t left = bytes - kWideBytes;
  for (; left >= kWideBytes; left -= kWideBytes, next += kWideBytes) {
    for (size_t i = 0; i < 4; i++) four[i] = foldWide(four[i], far, _mm512_loadu_si512(next + i * kStepBytes));
  }
  for (size_t i = 1; i < 4; i++) four[i] = foldWide(four[i - 1], near, four[i]);
  Blocks blocks{{}, next, left};
  _mm512_storeu_si512(blocks.four, four[3]);
  return blocks;
}

/** Folds what is left into one block. A table covers the last bytes, which are fewer than a block. */
ISOVERBS_PCLMUL uint32_t finish(const Blocks& blocks) {
  __m128i four[4] = {blocks.four[0], blocks.four[1], blocks.four[2], blocks.four[3]};
  const unsigned char* next = blocks.next;
  size_t left = blocks.bytes;
  const __m128i step = _mm_set_epi64x(Factors<kStepBytes>::kHigh, Factors<kStepBytes>::kLow);
  for (; left >= kStepBytes; left -= kStepBytes, next += kStepBytes) {
    for (size_t i = 0; i < 4; i++) four[i] = fold(four[i], step, load(next + i * kBlockBytes));
  }
  const __m128i near = _mm_set_epi64x(Factors<kBlockBytes>::kHigh, Factors<kBlockBytes>::kLow);
  for (size_t i = 1; i < 4; i++) four[i] = fold(four[i - 1], near, four[i]);
  for (; left >= kBlockBytes; left -= kBlockBytes, next += kBlockBytes) four[3] = fold(four[3], near, load(next));
  return byTable(reduce(four[3]), next, left);
}

/** A CRC over at least one block. */
ISOVERBS_PCLMUL uint32_t foldShort(uint32_t state, const unsigned char* data, size_t bytes) {
  __m128i block = _mm_xor_si128(load(data), _mm_cvtsi32_si128(static_cast<int>(state)));
  const __m128i near = _mm_set_epi64x(Factors<kBlockBytes>::kHigh, Factors<kBlockBytes>::kLow);
  const unsigned char* next = data + kBlockBytes;
  size_t left = bytes - kBlockBytes;
  for (; left >= kBlockBytes; left -= kBlockBytes, next += kBlockBytes) block = fold(block, near, load(next));
  return byTable(reduce(block), next, left);
}

bool canFold() {
  static const bool can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return can;
}

bool canFoldWide() {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  return can;
}

#endif

}  // namespace

uint32_t crc32(uint32_t before, const unsigned char* data, size_t bytes) {
#ifdef __x86_64__
  if (canFold()) {
    if (bytes < kBlockBytes) return ~byTable(~before, data, bytes);
    if (bytes < kStepBytes) return ~foldShort(~before, data, bytes);
    const bool isWide = bytes >= kWideBytes && canFoldWide();
    return ~finish(isWide ? beginWide(~before, data, bytes) : beginNarrow(~before, data, bytes));
  }
#endif
  return static_cast<uint32_t>(zlibCrc32()(before, data, static_cast<unsigned>(bytes)));
}

}  // namespace isoverbs::ipc
