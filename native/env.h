// The state of one env (the main thread or a worker), and a record of which envs are in the hot path.
#pragma once

#include <node_api.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base-env.h"
#include "handles.h"

namespace isoverbs {

/** A registered ArrayBuffer of the application, which the application can detach at any time. */
struct ForeignBuffer {
  napi_ref buffer = nullptr;
  uint64_t key = 0;
  /** Cleared by whichever thread deregisters the region. */
  std::atomic<bool> live{true};
};

/** References that only this env's thread may drop; if another env closes the object, it leaves them here. */
struct Dropped {
  napi_ref ref = nullptr;
  bool detach = false;
  ForeignBuffer* foreign = nullptr;
};

struct Memory;
struct Scratch;

struct Env : BaseEnv {
  /** (bytes) -> Uint8Array over a SharedArrayBuffer, where external ArrayBuffers are not allowed. */
  napi_ref allocShared = nullptr;
  /** (buffer) -> void: detaches an ArrayBuffer if possible. */
  napi_ref detach = nullptr;
  /**
   * The call block: kCallWords words shared with JavaScript, with object, ring, start and count as input and the answer
   * as output. Passing numbers through memory costs a tenth of passing arguments through Node-API.
   */
  uint32_t* call = nullptr;
  Memory* callMemory = nullptr;
  /** 1 while this env posts or polls. */
  std::atomic<uint32_t> hot{0};
  /** Work requests under construction; one post at a time per env. */
  Scratch* scratch = nullptr;
  /** This env's foreign ArrayBuffers, by context << 32 | lkey. */
  std::unordered_map<uint64_t, ForeignBuffer*> foreign;
  std::vector<Dropped> dropped;
  std::atomic<bool> hasDropped{false};
  bool ending = false;
};

/** False if hot sections must fence because membarrier(2) is unavailable. */
extern bool g_membarrier;

class HotSection {
 public:
  explicit HotSection(Env& env) : env_(env) {
    env_.hot.store(1, std::memory_order_relaxed);
    // The store must be visible before the look-up. A thread that retires a handle ensures this for all threads with
    // one membarrier(2), so posts need no fence.
    if (g_membarrier) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  ~HotSection() { env_.hot.store(0, std::memory_order_release); }
  HotSection(const HotSection&) = delete;
  HotSection& operator=(const HotSection&) = delete;

 private:
  Env& env_;
};

/** Spins until no env is in a hot section that began before the call. The caller must not be in one. */
void waitForHotEnvs();

/** The calling env's state; set up by the first call in each env. */
Env* createEnv(napi_env env);

/** Drops references that other envs left to this one. Control verbs call it. */
void dropLeftovers(Env& env);

/** Lets `env` drop a reference: at once if it is the caller, otherwise at its next control verb. */
void dropReference(Env& owner, Env* caller, Dropped dropped);

/** Closes every object created by the env, children first. Defined in lifecycle.cc. */
void closeAllOf(Env& env);

}  // namespace isoverbs
