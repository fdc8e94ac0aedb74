// Converts a packed slot to an ibv_send_wr or ibv_recv_wr, or reports why it cannot. The code for ordinary requests is
// one loop without calls; rare cases are handled outside it.
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
static_assert(IBV_WR_LOCAL_INV == 7 && IBV_WR_BIND_MW == 8 && IBV_WR_SEND_WITH_INV == 9);
static_assert(IBV_SEND_FENCE == 1 && IBV_SEND_SIGNALED == 2 && IBV_SEND_SOLICITED == 4 && IBV_SEND_INLINE == 8);

/** Not an errno: the request is fine, but must be posted alone (BIND_MW). */
constexpr int kAlone = -1;

/** Why a slot is not posted; with errnum 0 it may be posted. */
struct Refusal {
  int errnum = 0;
  uint32_t reason = REASON_NONE;
};

/** The requests that a queue pair accepts from a ring; read once per batch. */
struct Rules {
  /** One bit for each opcode that is allowed. */
  uint32_t opcodes;
  /** One bit for each opcode that requires more than a remote address and a key. */
  uint32_t special;
  /** The most SGEs of one request that both the queue and the ring allow. */
  uint32_t maxSge;
  uint32_t maxInlineBytes;
  uint32_t maxMessageBytes;
  /** IBV_SEND_SIGNALED if every request except a shim's internal ones is signaled. */
  uint32_t signalAll;
  const Qp* qp;
};

/** One slot of a ring. */
struct Entry {
  const uint32_t* slot;
  const uint32_t* ext;
};

constexpr uint32_t kSends = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
constexpr uint32_t kWrites = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;
constexpr uint32_t kAtomics = 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
constexpr uint32_t kKeys = 1u << IBV_WR_LOCAL_INV | 1u << IBV_WR_BIND_MW | 1u << IBV_WR_SEND_WITH_INV;
constexpr uint32_t kReliable = kSends | kWrites | 1u << IBV_WR_RDMA_READ | kAtomics | kKeys;

inline uint32_t allowedOpcodes(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kReliable;
    case IBV_QPT_UC:
      return kSends | kWrites | kKeys;
    case IBV_QPT_UD:
      return kSends;
    default:
      return 0;
  }
}

inline uint32_t specialOpcodes(ibv_qp_type type) {
  return type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ? kReliable : kAtomics | kKeys;
}

inline uint32_t sgesOf(uint32_t maxSge, const WrRing& ring) {
  const uint32_t ringSges = kSlotSges + ring.extBytes / 16;
  return maxSge < ringSges ? maxSge : ringSges;
}

inline Rules rulesOf(const Qp& qp, const Queue& queue, const WrRing& ring) {
  return {
      .opcodes = allowedOpcodes(qp.qp->qp_type),
      .special = specialOpcodes(qp.qp->qp_type),
      .maxSge = sgesOf(queue.maxSge, ring),
      .maxInlineBytes = qp.maxInlineBytes < ring.extBytes ? qp.maxInlineBytes : ring.extBytes,
      .maxMessageBytes = qp.maxMessageBytes.load(std::memory_order_relaxed),
      .signalAll = qp.sigAll ? uint32_t{IBV_SEND_SIGNALED} : 0,
      .qp = &qp,
  };
}

/** The only checks for receives. */
inline Rules receiveRules(uint32_t maxSge, const WrRing& ring) {
  return {.opcodes = 0, .special = 0, .maxSge = sgesOf(maxSge, ring), .maxInlineBytes = 0, .maxMessageBytes = 0,
          .signalAll = 0, .qp = nullptr};
}

inline bool inRing(const WrRing& ring, uint32_t start, uint32_t count) {
  return start <= ring.capacity && count <= ring.capacity - start;
}

/** Writes into the ring's header why the last post accepted fewer requests. */
inline void answer(const WrRing& ring, const Refusal& refusal) {
  ring.words[HDR_ERRNO] = static_cast<uint32_t>(refusal.errnum);
  ring.words[HDR_REASON] = refusal.reason;
}

inline Entry entryAt(const WrRing& ring, uint32_t index) {
  const uint32_t* slots = ring.words + HEADER_WORDS;
  const uint32_t* exts = slots + size_t{ring.capacity} * SLOT_WORDS;
  return {slots + size_t{index} * SLOT_WORDS, exts + size_t{index} * (ring.extBytes / 4)};
}

/**
 * Two 32-bit loads, on purpose: JavaScript has just written two words, and one 64-bit load of both would stall until
 * they have left the store buffer.
 */
ISOVERBS_HOT uint64_t u64(const volatile uint32_t* words) {
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

/** Copies the SGEs of a slot and returns their total length. The caller has checked the count. */
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
  constexpr uint32_t kInline = kSends | kWrites | 1u << IBV_WR_SEND_WITH_INV;
  const uint32_t length = entry.slot[WR_INLINE_LENGTH];
  if ((kInline >> wr.opcode & 1) == 0 || length > rules.maxInlineBytes) return {EINVAL, REASON_INLINE};
  if (sges != 0) return {EINVAL, REASON_SGE_COUNT};
  // libibverbs copies the bytes during the post; lkey is ignored.
  sge[0] = {.addr = reinterpret_cast<uintptr_t>(entry.ext), .length = length, .lkey = 0};
  wr.num_sge = length == 0 ? 0 : 1;
  return {};
}

inline Refusal prepareAtomic(const Entry& entry, ibv_send_wr& wr, const ibv_sge* sge) {
  const uint64_t remote = u64(entry.slot + WR_REMOTE_LO);
  if (wr.num_sge != 1 || (remote & 7) != 0 || sge[0].length != 8) return {EINVAL, REASON_ATOMIC};
  wr.wr.atomic.remote_addr = remote;
  wr.wr.atomic.rkey = entry.slot[WR_RKEY];
  wr.wr.atomic.compare_add = u64(entry.slot + WR_COMPARE_LO);
  wr.wr.atomic.swap = u64(entry.slot + WR_SWAP_LO);
  return {};
}

inline Refusal prepareDatagram(const Qp& qp, const Entry& entry, ibv_send_wr& wr) {
  const Ah* ah = lookup<Ah>(entry.slot[WR_AH]);
  if (ah == nullptr || ah->pd != qp.pd) return {EINVAL, REASON_AH};
  wr.wr.ud.ah = ah->ah;
  wr.wr.ud.remote_qpn = entry.slot[WR_REMOTE_QPN];
  wr.wr.ud.remote_qkey = entry.slot[WR_REMOTE_QKEY];
  return {};
}

inline Refusal prepareBind(const Qp& qp, const Entry& entry, ibv_send_wr& wr) {
  constexpr Refusal kBad = {EINVAL, REASON_WINDOW};
  const uint32_t mrHandle = entry.slot[WR_BIND_MR];
  const Mw* mw = lookup<Mw>(entry.slot[WR_BIND_MW]);
  const Mr* mr = lookup<Mr>(mrHandle);
  if (wr.num_sge != 0) return {EINVAL, REASON_SGE_COUNT};
  if (mw == nullptr || mw->pd != qp.pd) return kBad;
  wr.imm_data = 0;
  wr.bind_mw.mw = mw->mw;
  wr.bind_mw.rkey = entry.slot[WR_RKEY];
  wr.bind_mw.bind_info = {};
  const uint64_t addr = u64(entry.slot + WR_BIND_ADDR_LO);
  const uint64_t length = u64(entry.slot + WR_BIND_LENGTH_LO);
  // A type 2 window is unbound by LOCAL_INV, not by a bind to nothing.
  if (mrHandle == 0) return length == 0 && mw->mw->type == IBV_MW_TYPE_1 ? Refusal{kAlone, REASON_NONE} : kBad;
  if (mr == nullptr || mr->pd != qp.pd) return kBad;
  if (addr < mr->iova || length > mr->bytes || addr - mr->iova > mr->bytes - length) return kBad;
  wr.bind_mw.bind_info = {
      .mr = mr->mr, .addr = addr, .length = length, .mw_access_flags = entry.slot[WR_BIND_ACCESS]};
  return {kAlone, REASON_NONE};
}

/** Sets the fields that an opcode in Rules::special requires in addition. */
ISOVERBS_COLD Refusal prepareSpecial(const Rules& rules, const Entry& entry, ibv_send_wr& wr, const ibv_sge* sge) {
  const Qp& qp = *rules.qp;
  if (qp.qp->qp_type == IBV_QPT_UD) return prepareDatagram(qp, entry, wr);
  if (qp.qp->qp_type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = entry.slot[WR_SRQN];
  switch (wr.opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return prepareAtomic(entry, wr, sge);
    case IBV_WR_LOCAL_INV:
      if (wr.num_sge != 0) return {EINVAL, REASON_SGE_COUNT};
      [[fallthrough]];
    case IBV_WR_SEND_WITH_INV:
      wr.invalidate_rkey = entry.slot[WR_IMM];
      return {};
    case IBV_WR_BIND_MW:
      return prepareBind(qp, entry, wr);
    default:
      return {};
  }
}

/**
 * Fills `wr` from a slot, or reports why it cannot be posted (kAlone: not with others). `sge` has room for the queue's
 * maxSge, but at least one.
 */
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
  // These fields are ignored for opcodes without a remote address.
  wr.wr.rdma.remote_addr = u64(entry.slot + WR_REMOTE_LO);
  wr.wr.rdma.rkey = entry.slot[WR_RKEY];
  if ((flags & IBV_SEND_INLINE) != 0) [[unlikely]] {
    const Refusal refusal = prepareInline(rules, entry, sges, wr, sge);
    if (refusal.errnum != 0) return refusal;
  } else {
    if (sges > rules.maxSge) [[unlikely]] return {EINVAL, REASON_SGE_COUNT};
    wr.num_sge = static_cast<int>(sges);
    if (copySges(entry, sges, sge) > rules.maxMessageBytes) [[unlikely]] return {EINVAL, REASON_LENGTH};
  }
  if ((rules.special >> opcode & 1) != 0) [[unlikely]] return prepareSpecial(rules, entry, wr, sge);
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
