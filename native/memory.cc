#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "errors.h"

namespace isoverbs {

namespace {

void onArrayBufferGone(napi_env, void*, void* hint) { static_cast<Memory*>(hint)->release(); }

size_t pageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/** The fallback: JavaScript allocates a SharedArrayBuffer, which cannot be detached, and we keep a reference. */
bool exposeShared(Env& env, size_t bytes, Exposed* out) {
  napi_value alloc = nullptr;
  napi_value self = nullptr;
  napi_value size = nullptr;
  napi_value view = nullptr;
  if (env.allocShared == nullptr || napi_get_reference_value(env.env, env.allocShared, &alloc) != napi_ok) {
    return false;
  }
  napi_get_undefined(env.env, &self);
  napi_create_double(env.env, static_cast<double>(bytes + pageBytes()), &size);
  if (napi_call_function(env.env, self, alloc, 1, &size, &view) != napi_ok) return false;
  napi_typedarray_type type = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(env.env, view, &type, &length, &data, &out->buffer, nullptr) != napi_ok) return false;
  const auto at = reinterpret_cast<uintptr_t>(data);
  out->byteOffset = (pageBytes() - at % pageBytes()) % pageBytes();
  if (length < bytes + out->byteOffset) return false;
  out->memory->data = static_cast<uint8_t*>(data) + out->byteOffset;
  return napi_create_reference(env.env, view, 1, &out->ref) == napi_ok;
}

bool exposeMapped(Env& env, size_t bytes, Exposed* out) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  out->memory->data = static_cast<uint8_t*>(data);
  out->memory->mapped = true;
  out->memory->owners.store(2, std::memory_order_relaxed);
  if (napi_create_external_arraybuffer(env.env, data, bytes, onArrayBufferGone, out->memory, &out->buffer) ==
      napi_ok) {
    napi_create_reference(env.env, out->buffer, 0, &out->ref);
    return true;
  }
  out->memory->owners.store(1, std::memory_order_relaxed);
  munmap(data, bytes);
  out->memory->mapped = false;
  return false;
}

}  // namespace

void Memory::release() {
  if (owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (mapped) munmap(data, bytes);
  delete this;
}

bool allocExposed(Env& env, const char* verb, size_t bytes, Exposed* out) {
  out->memory = new Memory;
  out->memory->bytes = bytes;
  if (exposeMapped(env, bytes, out) || exposeShared(env, bytes, out)) return true;
  out->memory->release();
  out->memory = nullptr;
  bool pending = false;
  napi_is_exception_pending(env.env, &pending);
  if (pending) {
    napi_value ignored = nullptr;
    napi_get_and_clear_last_exception(env.env, &ignored);
  }
  fail(env, Err::NoResources, verb, ENOMEM, "no memory for %zu bytes", bytes);
  return false;
}

void detachArrayBuffer(Env& env, napi_ref ref) {
  napi_value buffer = nullptr;
  napi_value detach = nullptr;
  napi_value self = nullptr;
  napi_value ignored = nullptr;
  bool is = false;
  // Without an ArrayBuffer there is nothing to detach: the buffer was collected, or is a view from the fallback.
  if (napi_get_reference_value(env.env, ref, &buffer) != napi_ok || buffer == nullptr) return;
  if (napi_is_arraybuffer(env.env, buffer, &is) != napi_ok || !is) return;
  if (env.detach == nullptr || napi_get_reference_value(env.env, env.detach, &detach) != napi_ok) return;
  napi_get_undefined(env.env, &self);
  // A failed detach is harmless, because the bytes live until the finalizer has run.
  if (napi_call_function(env.env, self, detach, 1, &buffer, &ignored) == napi_pending_exception) {
    napi_get_and_clear_last_exception(env.env, &ignored);
  }
}

}  // namespace isoverbs
