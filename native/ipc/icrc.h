// The invariant CRC of RoCEv2 packets, as src/roce/icrc.ts computes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isoverbs::ipc {

/** What the ICRC covers of the headers in front of a packet. Addresses are GIDs, both of the same version of IP. */
struct Covered {
  const unsigned char* source;
  const unsigned char* dest;
  uint16_t sourcePort;
  /** Of the IPv4 header. */
  uint16_t identification;
};

constexpr size_t kBthBytes = 12;
constexpr size_t kIcrcBytes = 4;
constexpr uint16_t kRocePort = 4791;

/** Computes the ICRC of a packet into its last four bytes. `length` is at least that of BTH and ICRC, here and below. */
void sealPacket(const Covered& covered, unsigned char* packet, size_t length);

/**
 * Whether the ICRC of a packet is right with the identification of the IPv4 header that `covered` expects, or with any
 * other one, which becomes the expected one. Sockets do not tell the identification, which kernel soft-RoCE counts up.
 * CRCs are linear: the difference between the ICRC of the packet and the expected one, taken back to where the
 * identification stands, must fit into 16 bits. So 16 bits of the check remain if the identification is not the expected
 * one. With IPv6, which has none, all 32 remain.
 */
bool isSealed(Covered* covered, const unsigned char* packet, size_t length);

}  // namespace isoverbs::ipc
