// The null device: a libibverbs (and librdmacm) whose devices accept every request, complete signaled requests at once
// and move no data. It reads each request as a driver would, and aborts the process where a driver would read invalid
// memory.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#undef ibv_query_port
#undef ibv_reg_mr

namespace null_device {

/** Reports an error that would crash a real driver, and aborts. */
[[noreturn]] void broken(const char* what);
inline void require(bool holds, const char* what) {
  if (!holds) [[unlikely]] broken(what);
}

/** ISOVERBS_NULL_FAULTS=PERMILLE:SEED makes PERMILLE of a thousand calls fail, chosen at random. */
extern uint32_t faultPermille;
int drawFault();
/** The errno with which this call must fail, or 0. */
inline int fault() { return faultPermille == 0 ? 0 : drawFault(); }
/** Like fault(), for calls that return null on failure. */
bool faultErrno();
/** A random number below n, for faults only. */
uint32_t draw(uint32_t n);

class SpinLock {
 public:
  void lock() {
    while (flag_.exchange(true, std::memory_order_acquire)) __builtin_ia32_pause();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

/** Events behind an eventfd. Events that were fetched but not acknowledged are counted per element. */
struct Events {
  std::mutex mutex;
  std::deque<ibv_async_event> waiting;
  std::unordered_map<const void*, int> unacknowledged;
};

struct Context : verbs_context {
  Events events;
  /** The number of objects created from this one. */
  int users = 0;
};

struct Pd : ibv_pd {
  int users = 0;
};

struct Mr : ibv_mr {
  std::atomic<int> windows{0};
};

struct Mw : ibv_mw {
  Mr* bound = nullptr;
};

struct Ah : ibv_ah {
  uint32_t magic = kMagic;
  static constexpr uint32_t kMagic = 0xadd7e55;
};

struct Xrcd : ibv_xrcd {
  int users = 0;
};

struct Cq;

struct Channel : ibv_comp_channel {
  std::mutex mutex;
  std::deque<Cq*> waiting;
  std::unordered_map<const Cq*, int> unacknowledged;
  int users = 0;
};

struct Cq : ibv_cq_ex {
  SpinLock lock;
  std::vector<ibv_wc> ring;
  uint32_t head = 0;
  uint32_t tail = 0;
  std::atomic<bool> armed{false};
  bool overflown = false;
  /** True between start_poll and end_poll. */
  bool polling = false;
  int users = 0;

  ibv_cq* base() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }
  uint32_t mask() const { return static_cast<uint32_t>(ring.size()) - 1; }
};

inline Cq* of(ibv_cq* cq) { return static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Context* of(ibv_context* context) { return static_cast<Context*>(verbs_get_ctx(context)); }
inline Pd* of(ibv_pd* pd) { return static_cast<Pd*>(pd); }

/** Posted receives. */
struct Receives {
  SpinLock lock;
  std::deque<uint64_t> ids;
  uint32_t maxWr = 0;
  uint32_t maxSge = 0;
};

struct Srq : ibv_srq {
  Receives receives;
  uint32_t limit = 0;
  uint32_t number = 0;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  int users = 0;
};

/** A request under construction by ibv_wr_*(3). */
struct Building {
  bool open = false;
  /** The parts that the last request still lacks. */
  bool wantsData = false;
  bool wantsAddress = false;
  std::vector<ibv_send_wr> wrs;
  std::vector<std::vector<ibv_sge>> sges;
};

struct Qp : ibv_qp_ex {
  ibv_qp_init_attr init = {};
  ibv_qp_attr attr = {};
  Receives receives;
  Building building;
  Xrcd* xrcd = nullptr;

  Receives& queue() { return qp_base.srq != nullptr ? static_cast<Srq*>(qp_base.srq)->receives : receives; }
};

inline Qp* of(ibv_qp* qp) { return static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(qp)); }

uint32_t nextNumber();

// null_post.cc
int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
int bindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int pollCq(ibv_cq* cq, int count, ibv_wc* wc);
/** Completes the posted receives as flushed. */
void flushReceives(Qp& qp);
/** Posts the whole list, or returns an errno and posts nothing. */
int takeWhole(Qp& qp, ibv_send_wr* list);

// null_events.cc
void raise(ibv_context* context, ibv_async_event event);
void raiseQp(Qp& qp, ibv_event_type type);
/** Called before an element is destroyed: drops its queued events, and waits until fetched events are acknowledged. */
void forget(ibv_context* context, const void* element);
void notify(Cq& cq);
void forgetCompletions(Cq& cq);
int reqNotify(ibv_cq* cq, int solicitedOnly);

// null_extended.cc
void fillOps(Context& context);
void fillSendOps(Qp& qp);
void fillPollOps(Cq& cq);

// null_verbs.cc
constexpr uint32_t kMaxWr = 32768;
constexpr uint32_t kMaxSge = 32;
bool isTooMuch(const ibv_qp_cap& cap);
Cq* makeCq(ibv_context* context, uint32_t cqe, ibv_comp_channel* channel);
Qp* makeQp(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr& init);
Srq* makeSrq(ibv_pd* pd, const ibv_srq_attr& attr);

}  // namespace null_device
