// Memory that the addon owns and JavaScript sees as an ArrayBuffer.
#pragma once

#include <node_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "env.h"

namespace isoverbs {

/**
 * Pages that live until both owners have released them: the object that the device or the addon uses them through, and
 * the finalizer of the ArrayBuffer. An ArrayBuffer can be detached (transfer()) and its bytes live on in
 * another one, so only the finalizer knows when no JavaScript can reach them any more.
 */
struct Memory {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  std::atomic<int> owners{1};
  /** Where external ArrayBuffers are not allowed, the bytes belong to a SharedArrayBuffer. */
  bool mapped = false;

  void release();
};

/** JavaScript's view of a Memory. */
struct Exposed {
  Memory* memory = nullptr;
  /** The ArrayBuffer, or a SharedArrayBuffer in the fallback. */
  napi_value buffer = nullptr;
  size_t byteOffset = 0;
  /** Keeps the SharedArrayBuffer of the fallback alive; else weak, for detaching. */
  napi_ref ref = nullptr;
};

/** Zeroed, page-aligned memory. False with an exception pending when there is none. */
bool allocExposed(Env& env, const char* verb, size_t bytes, Exposed* out);

/** Detaches what a weak reference of allocExposed points to, if it still does. */
void detachArrayBuffer(Env& env, napi_ref ref);

}  // namespace isoverbs
