// The invariant CRC of RoCEv2 packets.
#include "icrc.h"

#include <array>
#include <cstring>

#include "crc32.h"

namespace isoverbs::ipc {

namespace {

constexpr uint32_t kPolynomial = 0xedb88320;
constexpr size_t kAddressBytes = 4;
constexpr size_t kGidBytes = 16;
constexpr size_t kMappedBytes = 12;
constexpr unsigned char kMapped[kMappedBytes] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
/** Eight bytes of ones stand for the link header of InfiniBand. */
constexpr size_t kLinkBytes = 8;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;
constexpr unsigned char kUdp = 17;
/** Bits of the largest number of bits that is taken back. */
constexpr int kPowers = 20;

/** The product of two polynomials modulo that of the CRC. The highest bit of a number is the coefficient of 1. */
constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return sum;
}

/** x to the power of -(2^k), by k: each multiplication takes back 2^k bits of a CRC. */
constexpr std::array<uint32_t, kPowers> makeInverses() {
  std::array<uint32_t, kPowers> inverses{};
  inverses[0] = ((0x80000000 ^ kPolynomial) << 1) | 1;
  for (size_t k = 1; k < inverses.size(); k++) inverses[k] = product(inverses[k - 1], inverses[k - 1]);
  return inverses;
}

/** The register of a CRC before these bytes, which were zeros. */
uint32_t takeBack(uint32_t crc, size_t bytes) {
  static constexpr auto kInverses = makeInverses();
  uint32_t taken = crc;
  size_t bits = bytes * 8;
  for (size_t k = 0; bits != 0; k++, bits >>= 1) {
    if ((bits & 1) != 0) taken = product(taken, kInverses[k]);
  }
  return taken;
}

void put16(unsigned char* at, size_t value) {
  at[0] = static_cast<unsigned char>(value >> 8);
  at[1] = static_cast<unsigned char>(value);
}

/** Writes the IP header as the ICRC covers it; fields that routers change are ones. Returns its bytes. */
size_t coverIp(const Covered& covered, size_t udpBytes, unsigned char* ip) {
  if (memcmp(covered.source, kMapped, kMappedBytes) == 0) {
    ip[0] = 0x45;
    put16(ip + 2, kIpv4Bytes + udpBytes);
    put16(ip + 4, covered.identification);
    put16(ip + 6, 0x4000);  // "do not fragment"
    ip[9] = kUdp;
    memcpy(ip + 12, covered.source + kMappedBytes, kAddressBytes);
    memcpy(ip + 16, covered.dest + kMappedBytes, kAddressBytes);
    return kIpv4Bytes;
  }
  ip[0] = 0x6f;
  put16(ip + 4, udpBytes);
  ip[6] = kUdp;
  memcpy(ip + 8, covered.source, kGidBytes);
  memcpy(ip + 24, covered.dest, kGidBytes);
  return kIpv6Bytes;
}

/** The ICRC of a packet of `bytes` without its ICRC, from its BTH on. */
uint32_t icrcOf(const Covered& covered, const unsigned char* packet, size_t bytes) {
  unsigned char headers[kLinkBytes + kIpv6Bytes + kUdpBytes + kBthBytes];
  memset(headers, 0xff, sizeof headers);
  const size_t udpBytes = kUdpBytes + bytes + kIcrcBytes;
  unsigned char* udp = headers + kLinkBytes;
  udp += coverIp(covered, udpBytes, udp);
  put16(udp, covered.sourcePort);
  put16(udp + 2, kRocePort);
  put16(udp + 4, udpBytes);
  unsigned char* bth = udp + kUdpBytes;
  memcpy(bth, packet, kBthBytes);
  bth[4] = 0xff;  // the congestion marks and the reserved bits next to them
  const uint32_t crc = crc32(0, headers, static_cast<size_t>(bth + kBthBytes - headers));
  return crc32(crc, packet + kBthBytes, bytes - kBthBytes);
}

}  // namespace

void sealPacket(const Covered& covered, unsigned char* packet, size_t length) {
  const size_t bytes = length - kIcrcBytes;
  const uint32_t crc = icrcOf(covered, packet, bytes);
  for (size_t i = 0; i < kIcrcBytes; i++) packet[bytes + i] = static_cast<unsigned char>(crc >> (8 * i));
}

bool isSealed(Covered* covered, const unsigned char* packet, size_t length) {
  const size_t bytes = length - kIcrcBytes;
  uint32_t difference = icrcOf(*covered, packet, bytes);
  for (size_t i = 0; i < kIcrcBytes; i++) difference ^= static_cast<uint32_t>(packet[bytes + i]) << (8 * i);
  if (difference == 0) return true;
  if (memcmp(covered->source, kMapped, kMappedBytes) != 0) return false;
  // From the identification to the end of what the ICRC covers. The difference of two identifications has 16 bits.
  const uint32_t bits = takeBack(difference, kIpv4Bytes - 4 + kUdpBytes + bytes);
  if (bits >> 16 != 0) return false;
  covered->identification ^= static_cast<uint16_t>(((bits & 0xff) << 8) | (bits >> 8));
  return true;
}

}  // namespace isoverbs::ipc
