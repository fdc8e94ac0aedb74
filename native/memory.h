// Memory that the addon owns and JavaScript sees as an ArrayBuffer.
#pragma once

#include <node_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "env.h"

namespace isoverbs {

/**
 * Pages that live until both owners have released them: the object through which the device or the addon uses them, and
 * the finalizer of the ArrayBuffer. If an ArrayBuffer is detached by transfer(), its bytes live on in another one, so
 * only the finalizer knows when JavaScript can no longer reach them.
 */
struct Memory {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  std::atomic<int> owners{1};
  /**
   * Whether the bytes are our own mapping; where external ArrayBuffers are not allowed, they belong to a
   * SharedArrayBuffer.
   */
  bool mapped = false;

  void release();
};

/** JavaScript's view of a Memory. */
struct Exposed {
  Memory* memory = nullptr;
  /** The ArrayBuffer, or a SharedArrayBuffer in the fallback. */
  napi_value buffer = nullptr;
  size_t byteOffset = 0;
  /** Keeps the SharedArrayBuffer of the fallback alive; otherwise a weak reference, for detaching. */
  napi_ref ref = nullptr;
};

/** Allocates zeroed, page-aligned memory. Returns false with an exception pending on failure. */
bool allocExposed(Env& env, const char* verb, size_t bytes, Exposed* out);

/** Detaches the ArrayBuffer behind a weak reference from allocExposed, if it still exists. */
void detachArrayBuffer(Env& env, napi_ref ref);

}  // namespace isoverbs
