// The hot path for completions: ibv_poll_cq(3) into packed completions.
#include <arpa/inet.h>

#include <cerrno>

#include "args.h"
#include "layout.h"
#include "objects.h"
#include "poll-ex.h"
#include "post.h"
#include "verbs.h"

namespace isoverbs {

using namespace layout;

static_assert(IBV_WC_RECV == 128 && IBV_WC_WITH_IMM == 2 && IBV_WC_WITH_INV == 8);

namespace {

/** Completions fetched at a time: 1.5 KiB of stack. */
constexpr uint32_t kChunk = 32;

/**
 * How far the base of a queue may lag behind its completions: far less than 2^31, from where new completions would seem
 * old.
 */
constexpr uint32_t kBaseLag = 1u << 30;

/** The queue that a completion belongs to and its running number; null for a stale completion. */
struct Owner {
  Qp* qp = nullptr;
  Queue* queue = nullptr;
  uint32_t seq = 0;
};

/**
 * Some devices leave completions of a destroyed or reset queue pair in the CQ (soft-RoCE does, mlx5 does
 * not). Those are dropped: their handle is stale, or their number is below the queue's base.
 */
Owner ownerOf(uint64_t deviceId, Qp* hint) {
  const auto local = static_cast<uint32_t>(deviceId >> 32) & kLocalMask;
  const uint32_t handle = static_cast<uint32_t>(Kind::Qp) << kKindShift | local;
  Qp* qp = hint != nullptr && hint->handle == handle ? hint : lookup<Qp>(handle);
  if (qp == nullptr) return {};
  Queue& queue = (deviceId & kRecvDirection) != 0 ? qp->recv : qp->send;
  const auto seq = static_cast<uint32_t>(deviceId);
  uint32_t base = queue.base.load(std::memory_order_relaxed);
  if (static_cast<int32_t>(seq - base) < 0) return {};
  // Running numbers wrap, so the base follows them, unless a RESET in another thread has just moved it.
  if (seq - base >= kBaseLag) queue.base.compare_exchange_strong(base, seq, std::memory_order_relaxed);
  return {qp, &queue, seq};
}

/**
 * Flags and immediate of a completion that reports an invalidated key. Soft-RoCE sets the flag with the kernel's
 * number, which in libibverbs is IBV_WC_IP_CSUM_OK, a flag that soft-RoCE does not support.
 */
[[gnu::noinline]] void packKey(const ibv_wc& wc, const Qp& qp, uint32_t* slot) {
  const bool kernelFlag = (wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0 && qp.context->isSoftRoce();
  if ((wc.wc_flags & IBV_WC_WITH_INV) == 0 && !kernelFlag) return;
  slot[WC_IMM] = wc.invalidated_rkey;
  if (kernelFlag) slot[WC_OP] ^= (IBV_WC_IP_CSUM_OK | IBV_WC_WITH_INV) << 16;
}

/** The fields that completions of sends and of both kinds of receive queue have in common. */
inline void packCommon(const ibv_wc& wc, const Qp& qp, uint64_t id, bool recv, uint32_t* slot) {
  slot[WC_ID_LO] = static_cast<uint32_t>(id);
  slot[WC_ID_HI] = static_cast<uint32_t>(id >> 32);
  slot[WC_OP] = (wc.status & 0xff) | (wc.opcode & 0xff) << 8 | (wc.wc_flags & 0xff) << 16 | (recv ? WC_RECV_SIDE : 0);
  slot[WC_BYTE_LEN] = wc.byte_len;
  slot[WC_IMM] = ntohl(wc.imm_data);
  if ((wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)) != 0) [[unlikely]] packKey(wc, qp, slot);
  slot[WC_QP] = qp.handle;
  slot[WC_SRC_QP] = wc.status == IBV_WC_SUCCESS ? wc.src_qp : wc.vendor_err;
  slot[WC_QP_NUM] = qp.qp->qp_num;
  slot[WC_PKEY_SLID] = wc.pkey_index | static_cast<uint32_t>(wc.slid) << 16;
  slot[WC_SL_PATH_BITS] = wc.sl | static_cast<uint32_t>(wc.dlid_path_bits) << 8;
}

void pack(const ibv_wc& wc, const Owner& owner, uint32_t* slot) {
  packCommon(wc, *owner.qp, owner.queue->ids[owner.seq & owner.queue->mask], (wc.wr_id & kRecvDirection) != 0, slot);
  slot[WC_SEQ] = owner.seq;
  slot[WC_SRQ] = 0;
  // The id has been read, so its place and those before it may be reused.
  if (static_cast<int32_t>(owner.seq + 1 - owner.queue->done.load(std::memory_order_relaxed)) > 0) {
    owner.queue->done.store(owner.seq + 1, std::memory_order_release);
  }
}

/**
 * Packs a receive of a shared receive queue; returns false if its queue pair no longer exists. The place is freed in
 * either case, because the device has removed the receive from its queue.
 */
[[gnu::noinline]] bool packShared(const ibv_wc& wc, uint32_t* slot) {
  const auto local = static_cast<uint32_t>(wc.wr_id >> 32) & kLocalMask;
  const auto number = static_cast<uint32_t>(wc.wr_id);
  Srq* srq = lookup<Srq>(static_cast<uint32_t>(Kind::Srq) << kKindShift | local);
  if (srq == nullptr) return false;
  uint64_t id = 0;
  srq->ids.lock.lock();
  const bool outstanding = srq->ids.take(number, &id);
  srq->ids.lock.unlock();
  const Qp* qp = srq->users().find(wc.qp_num);
  if (!outstanding || qp == nullptr) return false;
  packCommon(wc, *qp, id, true, slot);
  slot[WC_SEQ] = number;
  slot[WC_SRQ] = srq->handle;
  return true;
}

void packStamp(const Stamp& stamp, uint32_t* slot) {
  slot[WC_TICKS_LO] = static_cast<uint32_t>(stamp.ticks);
  slot[WC_TICKS_HI] = static_cast<uint32_t>(stamp.ticks >> 32);
  slot[WC_WALLCLOCK_LO] = static_cast<uint32_t>(stamp.wallclockNs);
  slot[WC_WALLCLOCK_HI] = static_cast<uint32_t>(stamp.wallclockNs >> 32);
}

/** Returns the number of completions written, or -1 if the device failed. */
int poll(Cq& cq, const WcRing& ring, uint32_t start, uint32_t max) {
  uint32_t* slot = ring.words + HEADER_WORDS + size_t{start} * SLOT_WORDS;
  ibv_wc wcs[kChunk];
  Stamp stamps[kChunk];
  uint32_t written = 0;
  Qp* hint = nullptr;
  while (written < max) {
    const uint32_t want = max - written < kChunk ? max - written : kChunk;
    const auto most = static_cast<int>(want);
    const int got = cq.ex != nullptr ? pollEx(cq, most, wcs, stamps) : ibv_poll_cq(cq.cq, most, wcs);
    if (got < 0) return written > 0 ? static_cast<int>(written) : -1;
    for (int i = 0; i < got; i++) {
      if ((wcs[i].wr_id & kShared) != 0) [[unlikely]] {
        if (!packShared(wcs[i], slot)) continue;
      } else {
        const Owner owner = ownerOf(wcs[i].wr_id, hint);
        if (owner.qp == nullptr) continue;
        hint = owner.qp;
        pack(wcs[i], owner, slot);
      }
      if (cq.ex != nullptr) packStamp(stamps[i], slot);
      slot += SLOT_WORDS;
      written++;
    }
    if (static_cast<uint32_t>(got) < want) break;
  }
  return static_cast<int>(written);
}

}  // namespace

napi_value pollCq(napi_env napi, napi_callback_info) {
  constexpr const char* kVerb = "pollCq";
  Env* const env = hotEnv(napi);
  if (env == nullptr) return nullptr;
  uint32_t* const call = env->call;
  const uint32_t object = call[CALL_OBJECT];
  const uint32_t ringHandle = call[CALL_RING];
  const uint32_t start = call[CALL_START];
  const uint32_t max = call[CALL_COUNT];
  int count = 0;
  bool live = false;
  bool inside = false;
  {
    const HotSection hot(*env);
    Cq* cq = lookup<Cq>(object);
    WcRing* ring = lookup<WcRing>(ringHandle);
    live = cq != nullptr && ring != nullptr;
    inside = live && start <= ring->capacity && max <= ring->capacity - start;
    if (inside) {
      cq->lock.lock();
      count = poll(*cq, *ring, start, max);
      cq->lock.unlock();
    }
  }
  if (!live) return failHotHandles(*env, kVerb, Kind::Cq, object, Kind::WcRing, ringHandle);
  if (!inside) return fail(*env, Err::Argument, kVerb, EINVAL, "start and max do not lie inside the ring");
  if (count < 0) return fail(*env, Err::System, kVerb, EIO, "the device could not be polled");
  call[CALL_ANSWER] = static_cast<uint32_t>(count);
  return nullptr;
}

}  // namespace isoverbs
