// The objects behind handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "env.h"
#include "handles.h"
#include "loader.h"
#include "memory.h"
#include "watch.h"

namespace isoverbs {

void freeScratch(Scratch* scratch);

struct Ring : Object {
  uint32_t* words = nullptr;
  uint32_t capacity = 0;
  uint32_t extBytes = 0;
  Memory* memory = nullptr;
  napi_ref ref = nullptr;
};

struct WrRing : Ring {
  static constexpr Kind kKind = Kind::WrRing;
};

struct WcRing : Ring {
  static constexpr Kind kKind = Kind::WcRing;
};

#ifdef ISOVERBS_HAVE_VERBS

/** A lock that is held for a few hundred nanoseconds. It yields, because JavaScript threads may outnumber the CPUs. */
class SpinLock {
 public:
  void lock();
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

struct Context : Watchable {
  static constexpr Kind kKind = Kind::Context;
  ibv_context* ctx = nullptr;
  ibv_device_attr attr = {};
  /** Largest message of each port; index 0 is unused. */
  std::vector<uint32_t> maxMessageBytes;

  /** Whether the device is soft-RoCE, which requires workarounds and has no assigned vendor_id. */
  bool isSoftRoce() const { return attr.vendor_id == 0xffffff; }
};

/** Whether the device is soft-RoCE (RXE_VENDOR_ID), for whose rdma-core driver the addon has workarounds. */
inline bool isSoftRoce(const Context& context) { return context.attr.vendor_id == 0xffffff; }

struct Pd : Object {
  static constexpr Kind kKind = Kind::Pd;
  Context* context = nullptr;
  ibv_pd* pd = nullptr;
};

struct Mr : Object {
  static constexpr Kind kKind = Kind::Mr;
  Pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  /** The device's address of the first byte: 0 if IBV_ACCESS_ZERO_BASED. */
  uint64_t iova = 0;
  uint64_t bytes = 0;
  /** The addon's own memory; null over a foreign buffer. */
  Memory* memory = nullptr;
  /** Belongs to the owner env: a strong reference to a foreign buffer, or a weak one to our own, for detaching it. */
  napi_ref ref = nullptr;
  /** Set only over an ArrayBuffer of the application, which can be detached. */
  ForeignBuffer* foreign = nullptr;
};

struct Channel : Watchable {
  static constexpr Kind kKind = Kind::Channel;
  Context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
};

struct Qp;

/** Queue pairs by their numbers: a completion of a shared receive queue has no other identification. */
class QpIndex {
 public:
  /** Looked up without a lock, in a hot section: a queue pair is retired before it is freed. */
  Qp* find(uint32_t qpNum) const;
  // Called with the control mutex held.
  void insert(Qp* qp);
  void remove(Qp* qp);

 private:
  static constexpr uint32_t kBuckets = 256;
  std::atomic<Qp*> buckets_[kBuckets] = {};
};

struct Xrcd : Object {
  static constexpr Kind kKind = Kind::Xrcd;
  Context* context = nullptr;
  ibv_xrcd* xrcd = nullptr;
  /** Receiving halves of extended reliable connections. */
  QpIndex qps;
};

struct Ah : Object {
  static constexpr Kind kKind = Kind::Ah;
  Pd* pd = nullptr;
  ibv_ah* ah = nullptr;
};

struct Mw : Object {
  static constexpr Kind kKind = Kind::Mw;
  Pd* pd = nullptr;
  /** Its rkey is the window's current key, for both types; post.cc sets it when a bind was posted. */
  ibv_mw* mw = nullptr;
};

struct Cq : Object {
  static constexpr Kind kKind = Kind::Cq;
  Context* context = nullptr;
  Channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  /** The same queue if it was created as an extended one, which is polled through its read functions. */
  ibv_cq_ex* ex = nullptr;
  /** IBV_WC_EX_WITH_* of an extended queue. */
  uint64_t wcFlags = 0;
  /**
   * Held while polling, because two threads may poll one CQ, and a completion's id must be read before the next
   * completion frees its place.
   */
  SpinLock lock;
};

/**
 * One direction of a queue pair. The device's wr_id carries direction, queue pair and running number; the application's
 * 64-bit wr_id is stored here under the running number.
 *
 * An id may be overwritten only when its completion can no longer arrive. This holds for running numbers below `done`:
 * completions of one direction arrive in order, so every polled completion advances `done`. The capacity is a power of
 * two, at least four times what the device granted, so the device reports ENOMEM first for every program that polls its
 * signaled requests. A program that keeps posting and never polls gets our ENOMEM instead of a wrong wr_id. One case
 * requires more care: soft-RoCE frees the slots of unsignaled requests without any completion, so a program that never
 * signals would stop here after `capacity` requests. See reclaim() in post.cc.
 */
struct Queue {
  uint64_t* ids = nullptr;
  uint32_t mask = 0;
  /** Running number of the next request. */
  uint32_t next = 0;
  /** Running number of the last request that was signaled; valid if anySignaled. */
  uint32_t lastSignaled = 0;
  bool anySignaled = false;
  std::atomic<uint32_t> done{0};
  /** Completions with lower numbers are from before a RESET, which purged them. */
  std::atomic<uint32_t> base{0};
  SpinLock lock;
  uint32_t maxSge = 0;
  /** Requests that may be built at once; post.cc computes it at the first post. */
  uint32_t batchLimit = 0;
};

/**
 * The 64-bit wr_ids of a shared receive queue. Its receives complete in any order and on any queue pair, so each has a
 * numbered place, which the device's wr_id names, until its completion is polled. The table grows when it is full: the
 * device reports ENOMEM first, except when a destroyed queue pair took receives with it.
 */
class SharedIds {
 public:
  ~SharedIds();
  bool init(uint32_t capacity);
  // Called with the lock held. Returns false if there is no memory for more places.
  bool put(uint64_t id, uint32_t* number);
  /** Frees the place; returns false if it is not in use. */
  bool take(uint32_t number, uint64_t* id);
  SpinLock lock;

 private:
  struct Place {
    uint64_t id;
    /** For a free place: the next free one. */
    uint32_t next;
    bool used;
  };
  bool grow(uint32_t capacity);
  Place* places_ = nullptr;
  uint32_t capacity_ = 0;
  uint32_t free_ = 0;
};

struct Srq : Object {
  static constexpr Kind kKind = Kind::Srq;
  Pd* pd = nullptr;
  ibv_srq* srq = nullptr;
  /** Present only for IBV_SRQT_XRC. */
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  uint32_t maxSge = 0;
  SharedIds ids;
  /** The queue pairs that use this queue. */
  QpIndex qps;

  /** The queue pairs whose completions this queue's receives cause. */
  const QpIndex& users() const { return xrcd != nullptr ? xrcd->qps : qps; }
};

/** A multicast group to which a UD queue pair is attached. */
struct McastGroup {
  ibv_gid gid;
  uint16_t lid;
};

struct Qp : Object {
  static constexpr Kind kKind = Kind::Qp;
  Context* context = nullptr;
  /** Null for IBV_QPT_XRC_RECV, which has an XRC domain instead, and no queues. */
  Pd* pd = nullptr;
  Xrcd* xrcd = nullptr;
  Cq* sendCq = nullptr;
  Cq* recvCq = nullptr;
  Srq* srq = nullptr;
  /** The next queue pair in a chain of a QpIndex. */
  std::atomic<Qp*> nextInIndex{nullptr};
  std::vector<McastGroup> groups;
  ibv_qp* qp = nullptr;
  /** The same queue pair if it posts through ibv_wr_*(3). */
  ibv_qp_ex* ex = nullptr;
  /**
   * The state that was last set. The device moves queue pairs to SQE and ERR without notice; both accept requests as
   * RTS does.
   */
  std::atomic<uint32_t> state{0};
  uint32_t maxInlineBytes = 0;
  std::atomic<uint32_t> maxMessageBytes{0};
  bool sigAll = false;
  Queue send;
  Queue recv;
};

/**
 * wr_id of the device: direction << 63 | queue pair << 32 | running number. A receive of a shared receive queue has
 * kShared, that queue's handle and the number of its place.
 */
constexpr uint64_t kRecvDirection = uint64_t{1} << 63;
constexpr uint64_t kShared = uint64_t{1} << 62;

inline uint64_t sharedId(const Srq& srq, uint32_t number) {
  return kRecvDirection | kShared | static_cast<uint64_t>(srq.handle & kLocalMask) << 32 | number;
}

inline uint64_t deviceId(const Qp& qp, bool recv, uint32_t seq) {
  return (recv ? kRecvDirection : 0) | static_cast<uint64_t>(qp.handle & kLocalMask) << 32 | seq;
}

// Each function closes an object without children, with the control mutex held, and returns the errno of libibverbs, or
// 0. `caller` is the calling env: references of other envs are left for those envs to drop.
int closeContext(Context* context);
int closePd(Pd* pd);
int closeMr(Mr* mr, Env* caller);
int closeChannel(Channel* channel);
int closeCq(Cq* cq);
int closeQp(Qp* qp);
int closeXrcd(Xrcd* xrcd);
int closeSrq(Srq* srq);
int closeAh(Ah* ah);
int closeMw(Mw* mw);

/** The parents of an object, each once. */
struct Parents {
  Object* all[5] = {};
  uint32_t count = 0;

  void add(Object* parent) {
    for (uint32_t i = 0; i < count; i++) {
      if (all[i] == parent) return;
    }
    if (parent != nullptr) all[count++] = parent;
  }
  Object** begin() { return all; }
  Object** end() { return all + count; }
};

Parents parentsOf(Object* object);

/** enter() counts the object as a child of its parents; leave() undoes that. */
void enter(Object* object);
void leave(Object* object);

/** Called after a close: a parent whose env has ended is closed with its last child. */
void reap(Object* parent, Env* caller);

#endif

void closeRing(Kind kind, Ring* ring, Env* caller);

}  // namespace isoverbs
