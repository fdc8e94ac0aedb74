// What handles stand for.
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

/** Held for a few hundred nanoseconds; yields, because JavaScript threads may outnumber the CPUs. */
class SpinLock {
 public:
  void lock();
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

struct Context : Object {
  static constexpr Kind kKind = Kind::Context;
  ibv_context* ctx = nullptr;
  ibv_device_attr attr = {};
  /** Largest message of each port; index 0 is unused. */
  std::vector<uint32_t> maxMessageBytes;
};

struct Pd : Object {
  static constexpr Kind kKind = Kind::Pd;
  Context* context = nullptr;
  ibv_pd* pd = nullptr;
};

struct Mr : Object {
  static constexpr Kind kKind = Kind::Mr;
  Pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  /** The addon's own memory; null over a foreign buffer. */
  Memory* memory = nullptr;
  /** Belongs to the owner env: what keeps a foreign buffer alive, or what finds our own to detach it. */
  napi_ref ref = nullptr;
  /** Only over an ArrayBuffer of the application's: it can be detached. */
  ForeignBuffer* foreign = nullptr;
};

struct Channel : Watchable {
  static constexpr Kind kKind = Kind::Channel;
  Context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
};

struct Cq : Object {
  static constexpr Kind kKind = Kind::Cq;
  Context* context = nullptr;
  Channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  /** Two threads may poll one CQ; a completion's id must be read before the next one frees it. */
  SpinLock lock;
};

/**
 * One direction of a queue pair. The device's wr_id carries direction, queue pair and running number; the
 * application's wr_id, all 64 bits of it, waits here under the running number.
 *
 * An id may be overwritten only when its completion cannot come any more. `done` is a running number below
 * which that is so: completions of one direction come in order, so every one that is polled moves it. The
 * capacity is a power of two, at least four times what the device granted, so the device says ENOMEM first
 * for every program that polls what it signals; a program that posts without end and polls nothing gets our
 * ENOMEM instead of a wrong wr_id. One case needs more care: soft-RoCE frees the slots of unsignaled
 * requests without any completion, so a program that never signals would stop here after `capacity`
 * requests. See reclaim() in post.cc.
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
  /** Completions below this are of a time before a RESET, which purged them. */
  std::atomic<uint32_t> base{0};
  SpinLock lock;
  uint32_t maxSge = 0;
  /** Requests that may be built at once; post.cc computes it at the first post. */
  uint32_t batchLimit = 0;
};

struct Qp : Object {
  static constexpr Kind kKind = Kind::Qp;
  Pd* pd = nullptr;
  Cq* sendCq = nullptr;
  Cq* recvCq = nullptr;
  ibv_qp* qp = nullptr;
  /** As last set; the device alone knows of its own moves to SQE and ERR, which take requests as RTS does. */
  std::atomic<uint32_t> state{0};
  uint32_t maxInlineBytes = 0;
  std::atomic<uint32_t> maxMessageBytes{0};
  bool sigAll = false;
  Queue send;
  Queue recv;
};

/** wr_id of the device: direction << 63 | queue pair << 32 | running number. */
constexpr uint64_t kRecvDirection = uint64_t{1} << 63;

inline uint64_t deviceId(const Qp& qp, bool recv, uint32_t seq) {
  return (recv ? kRecvDirection : 0) | static_cast<uint64_t>(qp.handle & kLocalMask) << 32 | seq;
}

// Each closes an object that has no children, with the control mutex held; the errno of libibverbs, or 0.
// `caller` is the env that does it: references of other envs are left for those to drop.
int closeContext(Context* context);
int closePd(Pd* pd);
int closeMr(Mr* mr, Env* caller);
int closeChannel(Channel* channel);
int closeCq(Cq* cq);
int closeQp(Qp* qp);

/** After a close: a parent whose env has ended goes with its last child. */
void reap(Object* parent, Env* caller);

#endif

void closeRing(Kind kind, Ring* ring, Env* caller);

}  // namespace isoverbs
