// WAIT and SEND_EN, mlx5's cross-channel requests, as bytes of its send queue. This header has no dependencies and
// allocates nothing.
//
// Layout from mlx5dv.h (struct mlx5_wqe_ctrl_seg) and the experimental verbs' driver; all fields are big-endian:
//   control segment, 16 bytes: be32 opmod << 24 | index << 8 | opcode, be32 qpn << 8 | ds, signature, 2 reserved,
//                              fm_ce_se, be32 imm
//   wait/enable segment, 16 bytes: 8 reserved, be32 max_index, be32 number of the CQ (WAIT) or QP (SEND_EN)
#pragma once

#include <cstdint>
#include <cstring>

namespace isoverbs::mlx5 {

constexpr uint8_t kOpcodeWait = 0x0f;
constexpr uint8_t kOpcodeSendEnable = 0x17;
/** WAIT compares with the CQ's producer index. */
constexpr uint8_t kOpmodProducerIndex = 0;
/** fm_ce_se: write a completion. */
constexpr uint8_t kSignaled = 0x08;
/** Both segments, in units of 16 bytes. */
constexpr uint32_t kDs = 2;
constexpr uint32_t kWqeBytes = kDs * 16;
/** Queue pair and completion queue numbers have 24 bits. */
constexpr uint32_t kNumberMask = 0xffffff;

struct CrossChannelWqe {
  uint8_t bytes[kWqeBytes];
};

inline void putBe32(uint8_t* to, uint32_t value) {
  to[0] = static_cast<uint8_t>(value >> 24);
  to[1] = static_cast<uint8_t>(value >> 16);
  to[2] = static_cast<uint8_t>(value >> 8);
  to[3] = static_cast<uint8_t>(value);
}

/**
 * `wqeIndex` is the index in the send queue, of which 16 bits are used (mlx5dv_wr_raw_wqe overwrites it); `qpn` is the
 * queue pair on which the request is posted; `target` is the CQ or QP that the request names, and `maxIndex` the index
 * in that queue.
 */
inline CrossChannelWqe encode(uint8_t opcode, uint32_t wqeIndex, uint32_t qpn, uint32_t target, uint32_t maxIndex,
                              bool signaled) {
  CrossChannelWqe wqe;
  std::memset(wqe.bytes, 0, sizeof wqe.bytes);
  putBe32(wqe.bytes, static_cast<uint32_t>(kOpmodProducerIndex) << 24 | (wqeIndex & 0xffff) << 8 | opcode);
  putBe32(wqe.bytes + 4, (qpn & kNumberMask) << 8 | kDs);
  wqe.bytes[11] = signaled ? kSignaled : 0;
  putBe32(wqe.bytes + 24, maxIndex);
  putBe32(wqe.bytes + 28, target & kNumberMask);
  return wqe;
}

/** Waits until the producer index of `cqn` has reached `maxIndex`. */
inline CrossChannelWqe encodeWait(uint32_t wqeIndex, uint32_t qpn, uint32_t cqn, uint32_t maxIndex, bool signaled) {
  return encode(kOpcodeWait, wqeIndex, qpn, cqn, maxIndex, signaled);
}

/** Lets the device fetch requests of the managed queue pair `managedQpn` up to `maxIndex`. */
inline CrossChannelWqe encodeSendEnable(uint32_t wqeIndex, uint32_t qpn, uint32_t managedQpn, uint32_t maxIndex,
                                        bool signaled) {
  return encode(kOpcodeSendEnable, wqeIndex, qpn, managedQpn, maxIndex, signaled);
}

/**
 * The index for which WAITs on one CQ wait. The producer index is the number of completions written minus 1, so it
 * begins at -1, as does this index. A WAIT for n > 0 advances the index by n and waits for it. A WAIT for 0 must never
 * wait, so it uses the index of the last polled completion, which is certain to have been written.
 */
class WaitIndex {
 public:
  uint32_t next(uint32_t count, uint32_t polled) {
    if (count == 0) return polled - 1;
    index_ += count;
    return index_;
  }

 private:
  uint32_t index_ = 0xffffffff;
};

/** Whether a WAIT is satisfied; indices wrap. */
inline bool isReached(uint32_t producerIndex, uint32_t maxIndex) {
  return static_cast<int32_t>(producerIndex - maxIndex) >= 0;
}

/**
 * The index that ENABLEs of one managed queue pair raise, computed from the numbers of posted and released requests,
 * which begin at 0.
 */
class EnableIndex {
 public:
  void posted(uint32_t count) { posted_ += count; }

  /**
   * Computes the index after `count` more requests (0: after all). Returns false, which means EINVAL, if fewer are
   * posted.
   */
  bool next(uint32_t count, uint32_t* maxIndex) {
    if (count > posted_ - head_) return false;
    head_ = count == 0 ? posted_ : head_ + count;
    *maxIndex = head_;
    return true;
  }

 private:
  uint32_t posted_ = 0;
  uint32_t head_ = 0;
};

}  // namespace isoverbs::mlx5
