// Rings: memory for packed work requests and completions.
#include <cerrno>

#include "args.h"
#include "layout.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;

napi_value createRing(Env& env, const char* verb, Ring* ring, Kind kind, uint64_t capacity, uint64_t extBytes) {
  const uint64_t bytes = layout::ringBytes(capacity, extBytes);
  Exposed exposed;
  if (!allocExposed(env, verb, bytes, &exposed)) {
    delete ring;
    return nullptr;
  }
  ring->words = reinterpret_cast<uint32_t*>(exposed.memory->data);
  ring->capacity = static_cast<uint32_t>(capacity);
  ring->extBytes = static_cast<uint32_t>(extBytes);
  ring->memory = exposed.memory;
  ring->ref = exposed.ref;
  ring->owner = &env;
  {
    const std::lock_guard lock(controlMutex());
    if (!publish(kind, ring)) {
      napi_delete_reference(env.env, ring->ref);
      ring->memory->release();
      delete ring;
      return fail(env, Err::NoResources, verb, ENOMEM, "too many rings");
    }
  }
  return Result(env.env)
      .number("handle", ring->handle)
      .value("memory", exposed.buffer)
      .number("byteOffset", static_cast<double>(exposed.byteOffset))
      .number("capacity", static_cast<double>(capacity))
      .number("extBytes", static_cast<double>(extBytes));
}

template <class T>
void closeTyped(T* ring, Env* caller) {
  retire(ring);
  if (ring->ref != nullptr) dropReference(*ring->owner, caller, Dropped{.ref = ring->ref, .detach = true});
  ring->memory->release();
  delete ring;
}

}  // namespace

napi_value createWrRing(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createWrRing");
  const uint64_t capacity = args.size(0);
  const uint64_t sges = args.size(1);
  const uint64_t inlineBytes = args.size(2);
  if (!args.ok()) return nullptr;
  if (capacity < 1 || capacity > kMaxRingBytes || sges > 1024 || inlineBytes > (1u << 20) ||
      layout::ringBytes(capacity, layout::extBytesFor(sges, inlineBytes)) > kMaxRingBytes) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL,
                "capacity must be at least 1, sges at most 1024, inlineBytes at most 1 MiB, all together at most 1 GiB");
  }
  return createRing(args.env(), args.verb(), new WrRing, Kind::WrRing, capacity,
                    layout::extBytesFor(sges, inlineBytes));
}

napi_value createWcRing(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createWcRing");
  const uint64_t capacity = args.size(0);
  if (!args.ok()) return nullptr;
  if (capacity < 1 || layout::ringBytes(capacity, 0) > kMaxRingBytes) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "capacity must be at least 1, and 1 GiB at most");
  }
  return createRing(args.env(), args.verb(), new WcRing, Kind::WcRing, capacity, 0);
}

napi_value destroyRing(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyRing");
  const uint32_t handle = args.handle(0);
  if (!args.ok()) return nullptr;
  const std::lock_guard lock(controlMutex());
  if (auto* wr = lookup<WrRing>(handle)) {
    closeTyped(wr, &args.env());
  } else if (auto* wc = lookup<WcRing>(handle)) {
    closeTyped(wc, &args.env());
  } else {
    const bool wcKind = handle >> kKindShift == static_cast<uint32_t>(Kind::WcRing);
    return failHandle(args.env(), args.verb(), wcKind ? Kind::WcRing : Kind::WrRing, handle);
  }
  return undefined(napi);
}

void closeRing(Kind kind, Ring* ring, Env* caller) {
  if (kind == Kind::WrRing) return closeTyped(static_cast<WrRing*>(ring), caller);
  closeTyped(static_cast<WcRing*>(ring), caller);
}

}  // namespace isoverbs
