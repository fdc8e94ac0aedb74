// The packed rings, as src/verbs/layout.ts describes them; a test checks that the two files match.
#pragma once

#include <cstdint>

namespace isoverbs::layout {

constexpr uint32_t SLOT_BYTES = 64;
constexpr uint32_t SLOT_WORDS = 16;
constexpr uint32_t HEADER_BYTES = 64;
constexpr uint32_t HEADER_WORDS = 16;

constexpr uint32_t HDR_ERRNO = 0;
constexpr uint32_t HDR_REASON = 1;

constexpr uint32_t WR_ID_LO = 0;
constexpr uint32_t WR_ID_HI = 1;
constexpr uint32_t WR_OP = 2;
constexpr uint32_t WR_IMM = 3;
constexpr uint32_t WR_REMOTE_LO = 4;
constexpr uint32_t WR_REMOTE_HI = 5;
constexpr uint32_t WR_RKEY = 6;
constexpr uint32_t WR_SRQN = 7;
constexpr uint32_t WR_AH = 4;
constexpr uint32_t WR_REMOTE_QPN = 5;
constexpr uint32_t WR_REMOTE_QKEY = 6;
constexpr uint32_t WR_SGE0 = 8;
constexpr uint32_t SGE_WORDS = 4;
constexpr uint32_t SGE_LO = 0;
constexpr uint32_t SGE_HI = 1;
constexpr uint32_t SGE_LENGTH = 2;
constexpr uint32_t SGE_LKEY = 3;
constexpr uint32_t WR_COMPARE_LO = 12;
constexpr uint32_t WR_COMPARE_HI = 13;
constexpr uint32_t WR_SWAP_LO = 14;
constexpr uint32_t WR_SWAP_HI = 15;
constexpr uint32_t WR_INLINE_LENGTH = 10;
constexpr uint32_t WR_BIND_MW = 8;
constexpr uint32_t WR_BIND_MR = 9;
constexpr uint32_t WR_BIND_ADDR_LO = 10;
constexpr uint32_t WR_BIND_ADDR_HI = 11;
constexpr uint32_t WR_BIND_LENGTH_LO = 12;
constexpr uint32_t WR_BIND_LENGTH_HI = 13;
constexpr uint32_t WR_BIND_ACCESS = 14;

constexpr uint32_t WC_ID_LO = 0;
constexpr uint32_t WC_ID_HI = 1;
constexpr uint32_t WC_OP = 2;
constexpr uint32_t WC_BYTE_LEN = 3;
constexpr uint32_t WC_IMM = 4;
constexpr uint32_t WC_QP = 5;
constexpr uint32_t WC_SEQ = 6;
constexpr uint32_t WC_SRC_QP = 7;
constexpr uint32_t WC_QP_NUM = 8;
constexpr uint32_t WC_PKEY_SLID = 9;
constexpr uint32_t WC_SL_PATH_BITS = 10;
constexpr uint32_t WC_TICKS_LO = 11;
constexpr uint32_t WC_TICKS_HI = 12;
constexpr uint32_t WC_WALLCLOCK_LO = 13;
constexpr uint32_t WC_WALLCLOCK_HI = 14;
constexpr uint32_t WC_SRQ = 15;
constexpr uint32_t WC_RECV_SIDE = 1 << 24;

constexpr uint32_t REASON_NONE = 0;
constexpr uint32_t REASON_STATE = 1;
constexpr uint32_t REASON_QUEUE_FULL = 2;
constexpr uint32_t REASON_OPCODE = 3;
constexpr uint32_t REASON_SGE_COUNT = 4;
constexpr uint32_t REASON_LENGTH = 5;
constexpr uint32_t REASON_INLINE = 6;
constexpr uint32_t REASON_ATOMIC = 7;
constexpr uint32_t REASON_DETACHED = 8;
constexpr uint32_t REASON_PROVIDER = 10;
constexpr uint32_t REASON_RANGE = 11;
constexpr uint32_t REASON_FLAGS = 12;
constexpr uint32_t REASON_AH = 14;
constexpr uint32_t REASON_WINDOW = 15;
constexpr uint32_t REASON_SRQ = 16;

// Opcodes and flags that libibverbs does not have (src/verbs/constants.ts).
constexpr uint32_t ISO_WR_WAIT = 64;
constexpr uint32_t ISO_WR_ENABLE = 65;
constexpr uint32_t ISO_SEND_INTERNAL = 128;

/** SGEs stored in the slot itself; further SGEs are in the extension. */
constexpr uint32_t kSlotSges = 2;

/** The size of an extension for this many SGEs and inline bytes, a multiple of 64. */
constexpr uint64_t extBytesFor(uint64_t sges, uint64_t inlineBytes) {
  const uint64_t sgeBytes = sges > kSlotSges ? (sges - kSlotSges) * 16 : 0;
  const uint64_t bytes = sgeBytes > inlineBytes ? sgeBytes : inlineBytes;
  return (bytes + 63) & ~uint64_t{63};
}

constexpr uint64_t ringBytes(uint64_t capacity, uint64_t extBytes) {
  return HEADER_BYTES + capacity * (SLOT_BYTES + extBytes);
}

}  // namespace isoverbs::layout
