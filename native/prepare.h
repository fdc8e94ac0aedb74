// From a packed slot to an ibv_send_wr or ibv_recv_wr, or to the reason why not. Included by post.cc alone:
// what runs for each request is one loop without calls; what is rare stays out of it.
#pragma once

#include <arpa/inet.h>

#include <cerrno>

#include "layout.h"
#include "objects.h"

#define ISOVERBS_HOT [[gnu::always_inline]] inline
#define ISOVERBS_COLD [[gnu::noinline]] inline

namespace isoverbs {

using namespace layout;

static_assert(sizeof(ibv_sge) == 16 && IBV_WR_RDMA_WRITE == 0 && IBV_WR_ATOMIC_FETCH_AND_ADD == 6);
static_assert(IBV_SEND_FENCE == 1 && IBV_SEND_SIGNALED == 2 && IBV_SEND_SOLICITED == 4 && IBV_SEND_INLINE == 8);

/** Why a slot is not posted; errnum 0: it may be. */
struct Refusal {
  int errnum = 0;
  uint32_t reason = REASON_NONE;
};

/** What a queue pair takes from a ring: read once per batch. */
struct Rules {
  /** One bit for each opcode that is allowed. */
  uint32_t opcodes;
  /** SGEs of one request: of the queue, and that the ring has room for. */
  uint32_t maxSge;
  uint32_t maxInlineBytes;
  uint32_t maxMessageBytes;
  /** IBV_SEND_SIGNALED if every request is signaled that is not a shim's own. */
  uint32_t signalAll;
};

/** One slot of a ring. */
struct Entry {
  const uint32_t* slot;
  const uint32_t* ext;
};

inline uint32_t allowedOpcodes(ibv_qp_type type) {
  if (type == IBV_QPT_RC) return (1u << (IBV_WR_ATOMIC_FETCH_AND_ADD + 1)) - 1;
  // UD wants an address handle with each send, which this interface does not have yet.
  return type == IBV_QPT_UC ? (1u << (IBV_WR_SEND_WITH_IMM + 1)) - 1 : 0;
}

inline Rules rulesOf(const Qp& qp, const Queue& queue, const WrRing& ring) {
  const uint32_t ringSges = kSlotSges + ring.extBytes / 16;
  return {
      .opcodes = allowedOpcodes(qp.qp->qp_type),
      .maxSge = queue.maxSge < ringSges ? queue.maxSge : ringSges,
      .maxInlineBytes = qp.maxInlineBytes < ring.extBytes ? qp.maxInlineBytes : ring.extBytes,
      .maxMessageBytes = qp.maxMessageBytes.load(std::memory_order_relaxed),
      .signalAll = qp.sigAll ? uint32_t{IBV_SEND_SIGNALED} : 0,
  };
}

inline Entry entryAt(const WrRing& ring, uint32_t index) {
  const uint32_t* slots = ring.words + HEADER_WORDS;
  const uint32_t* exts = slots + size_t{ring.capacity} * SLOT_WORDS;
  return {slots + size_t{index} * SLOT_WORDS, exts + size_t{index} * (ring.extBytes / 4)};
}

/**
 * Two 32-bit loads, on purpose: JavaScript wrote two words a moment ago, and one 64-bit load over both would
 * wait until they have left the store buffer.
 */
ISOVERBS_HOT uint64_t u64(const volatile uint32_t* words) {
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

/** Copies the SGEs of a slot; the total length. The caller has checked the count. */
ISOVERBS_HOT uint64_t copySges(const Entry& entry, uint32_t count, ibv_sge* out) {
  uint64_t total = 0;
  const uint32_t* from = entry.slot + WR_SGE0;
  for (uint32_t i = 0; i < count; i++, from += SGE_WORDS) {
    if (i == kSlotSges) [[unlikely]] from = entry.ext;
    out[i] = {.addr = u64(from), .length = from[SGE_LENGTH], .lkey = from[SGE_LKEY]};
    total += out[i].length;
  }
  return total;
}

ISOVERBS_COLD Refusal refuseOp(uint32_t opcode, uint32_t opcodes) {
  if (opcode == ISO_WR_WAIT || opcode == ISO_WR_ENABLE) return {EOPNOTSUPP, REASON_OPCODE};
  const bool allowed = opcode < 32 && (opcodes >> opcode & 1) != 0;
  return {EINVAL, allowed ? REASON_FLAGS : REASON_OPCODE};
}

ISOVERBS_COLD Refusal prepareInline(const Rules& rules, const Entry& entry, uint32_t sges, ibv_send_wr& wr,
                                    ibv_sge* sge) {
  const uint32_t length = entry.slot[WR_INLINE_LENGTH];
  if (wr.opcode > IBV_WR_SEND_WITH_IMM || length > rules.maxInlineBytes) return {EINVAL, REASON_INLINE};
  if (sges != 0) return {EINVAL, REASON_SGE_COUNT};
  // libibverbs copies the bytes during the post; lkey does not count.
  sge[0] = {.addr = reinterpret_cast<uintptr_t>(entry.ext), .length = length, .lkey = 0};
  wr.num_sge = length == 0 ? 0 : 1;
  return {};
}

ISOVERBS_COLD Refusal prepareAtomic(const Entry& entry, ibv_send_wr& wr, const ibv_sge* sge) {
  const uint64_t remote = u64(entry.slot + WR_REMOTE_LO);
  if (wr.num_sge != 1 || (remote & 7) != 0 || sge[0].length != 8) return {EINVAL, REASON_ATOMIC};
  wr.wr.atomic.remote_addr = remote;
  wr.wr.atomic.rkey = entry.slot[WR_RKEY];
  wr.wr.atomic.compare_add = u64(entry.slot + WR_COMPARE_LO);
  wr.wr.atomic.swap = u64(entry.slot + WR_SWAP_LO);
  return {};
}

/** Fills `wr` from a slot, or says why it cannot be posted. `sge` has room for the queue's maxSge, and one. */
ISOVERBS_HOT Refusal prepareSend(const Rules& rules, const Entry& entry, ibv_send_wr& wr, ibv_sge* sge) {
  constexpr uint32_t kDevice = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  const uint32_t op = entry.slot[WR_OP];
  const uint32_t opcode = op & 0xff;
  const uint32_t flags = op >> 8 & 0xff;
  const uint32_t sges = op >> 16;
  if (opcode >= 32 || (rules.opcodes >> opcode & 1) == 0 || (flags & ~(kDevice | ISO_SEND_INTERNAL)) != 0)
      [[unlikely]] {
    return refuseOp(opcode, rules.opcodes);
  }
  wr.opcode = static_cast<ibv_wr_opcode>(opcode);
  wr.send_flags = (flags & kDevice) | ((flags & ISO_SEND_INTERNAL) == 0 ? rules.signalAll : 0);
  wr.sg_list = sge;
  wr.imm_data = htonl(entry.slot[WR_IMM]);
  // Opcodes without a remote address leave these unread.
  wr.wr.rdma.remote_addr = u64(entry.slot + WR_REMOTE_LO);
  wr.wr.rdma.rkey = entry.slot[WR_RKEY];
  if ((flags & IBV_SEND_INLINE) != 0) [[unlikely]] return prepareInline(rules, entry, sges, wr, sge);
  if (sges > rules.maxSge) [[unlikely]] return {EINVAL, REASON_SGE_COUNT};
  wr.num_sge = static_cast<int>(sges);
  if (copySges(entry, sges, sge) > rules.maxMessageBytes) [[unlikely]] return {EINVAL, REASON_LENGTH};
  if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) [[unlikely]] return prepareAtomic(entry, wr, sge);
  return {};
}

ISOVERBS_HOT Refusal prepareRecv(const Rules& rules, const Entry& entry, ibv_recv_wr& wr, ibv_sge* sge) {
  const uint32_t sges = entry.slot[WR_OP] >> 16;
  if (sges > rules.maxSge) [[unlikely]] return {EINVAL, REASON_SGE_COUNT};
  copySges(entry, sges, sge);
  wr.sg_list = sge;
  wr.num_sge = static_cast<int>(sges);
  return {};
}

}  // namespace isoverbs
