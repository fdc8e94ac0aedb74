// Memory regions: over memory of our own, and over the application's.
#include <cerrno>
#include <cstring>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

napi_value failRegister(Env& env, const char* verb, int errnum, uint64_t bytes) {
  switch (errnum) {
    case ENOMEM:
      return fail(env, Err::NoResources, verb, errnum,
                  "%llu bytes cannot be pinned (ENOMEM): raise the limit of locked memory (ulimit -l, "
                  "LimitMEMLOCK= in systemd) or register less",
                  static_cast<unsigned long long>(bytes));
    case EFAULT:
      return fail(env, Err::Memory, verb, errnum, "the memory cannot be pinned (EFAULT)");
    case EINVAL:
      return fail(env, Err::Argument, verb, errnum,
                  "the device refused the region (EINVAL); remote write and atomic access need local write");
    default:
      return failErrno(env, verb, errnum);
  }
}

/** Registers and publishes; on failure throws and gives `mr` back to the caller to clean up. */
bool registerRegion(Args& args, Pd* pd, Mr* mr, void* data, uint64_t bytes, int access) {
  mr->mr = verbs()->regMr(pd->pd, data, bytes, access);
  if (mr->mr == nullptr) {
    failRegister(args.env(), args.verb(), errno, bytes);
    return false;
  }
  mr->pd = pd;
  mr->owner = &args.env();
  if (!publish(Kind::Mr, mr)) {
    verbs()->deregMr(mr->mr);
    failErrno(args.env(), args.verb(), ENOMEM);
    return false;
  }
  pd->children[static_cast<uint32_t>(Kind::Mr)]++;
  return true;
}

Result describe(napi_env napi, const Mr& mr) {
  return Result(napi)
      .number("handle", mr.handle)
      .number("lkey", mr.mr->lkey)
      .number("rkey", mr.mr->rkey)
      .number("addr", static_cast<double>(reinterpret_cast<uintptr_t>(mr.mr->addr)));
}

void rememberForeign(Env& env, Mr* mr) {
  auto* foreign = new ForeignBuffer;
  foreign->key = static_cast<uint64_t>(mr->pd->context->handle) << 32 | mr->mr->lkey;
  foreign->buffer = mr->ref;
  // A stale one may be left if another env closed it: its references are in env.dropped.
  env.foreign[foreign->key] = foreign;
  mr->foreign = foreign;
}

}  // namespace

napi_value allocMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "allocMr");
  const uint64_t bytes = args.size(1);
  const int access = args.int32(2);
  if (!args.ok()) return nullptr;
  if (bytes == 0) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "lengthBytes must be at least 1");
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (pd == nullptr) return nullptr;
  Exposed exposed;
  if (!allocExposed(args.env(), args.verb(), bytes, &exposed)) return nullptr;
  auto mr = std::make_unique<Mr>();
  mr->memory = exposed.memory;
  mr->ref = exposed.ref;
  if (!registerRegion(args, pd, mr.get(), exposed.memory->data, bytes, access)) {
    if (exposed.ref != nullptr) napi_delete_reference(napi, exposed.ref);
    exposed.memory->release();
    return nullptr;
  }
  return describe(napi, *mr.release())
      .value("memory", exposed.buffer)
      .number("byteOffset", static_cast<double>(exposed.byteOffset));
}

/** regMr(pd, view: Uint8Array, access): the view says which bytes, TypeScript has refused resizable ones. */
napi_value regMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "regMr");
  size_t bytes = 0;
  napi_value buffer = nullptr;
  void* data = args.bytes(1, napi_uint8_array, &bytes, &buffer);
  const int access = args.int32(2);
  if (!args.ok()) return nullptr;
  if (bytes == 0 || data == nullptr) {
    return fail(args.env(), Err::Memory, args.verb(), EINVAL, "the buffer is empty or detached");
  }
  // A SharedArrayBuffer is none of these; it cannot be detached.
  bool detachable = false;
  napi_is_arraybuffer(napi, buffer, &detachable);
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (pd == nullptr) return nullptr;
  auto mr = std::make_unique<Mr>();
  if (napi_create_reference(napi, detachable ? buffer : args.value(1), 1, &mr->ref) != napi_ok) {
    return fail(args.env(), Err::NoResources, args.verb(), 0, "no reference to the buffer");
  }
  if (!registerRegion(args, pd, mr.get(), data, bytes, access)) {
    napi_delete_reference(napi, mr->ref);
    return nullptr;
  }
  if (detachable) rememberForeign(args.env(), mr.get());
  return describe(napi, *mr.release());
}

napi_value deregMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "deregMr");
  const std::lock_guard lock(controlMutex());
  auto* mr = args.object<Mr>(0);
  if (mr == nullptr) return nullptr;
  Pd* pd = mr->pd;
  if (const int rc = closeMr(mr, &args.env()); rc != 0) return failErrno(args.env(), args.verb(), rc);
  reap(pd, &args.env());
  return undefined(napi);
}

}  // namespace isoverbs
