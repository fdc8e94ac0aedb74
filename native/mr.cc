// Memory regions: over the addon's own memory, and over the application's.
#include <cerrno>
#include <cstring>
#include <memory>

#include "args.h"
#include "mr.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** Flags that a driver or kernel may ignore: IBV_ACCESS_OPTIONAL_RANGE, which includes relaxed ordering. */
constexpr unsigned kOptional = IBV_ACCESS_OPTIONAL_RANGE;

bool hasOnDemandPaging(const Context& context) {
  verbs_context* vctx = verbs_get_ctx_op(context.ctx, query_device_ex);
  ibv_device_attr_ex attr = {};
  return vctx != nullptr && vctx->query_device_ex(context.ctx, nullptr, &attr, sizeof attr) == 0 &&
         (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
}

napi_value failRegister(Env& env, const char* verb, int errnum, uint64_t bytes, const Context& context,
                        unsigned access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 && !hasOnDemandPaging(context)) {
    return fail(env, Err::Unsupported, verb, errnum, "this device has no on-demand paging (IBV_ACCESS_ON_DEMAND)");
  }
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

/** ibv_reg_mr(3) in the way of its macro: optional flags and caller-chosen addresses require the newer symbol. */
ibv_mr* registerMemory(const Pd& pd, void* data, uint64_t bytes, uint64_t iova, unsigned access) {
  const bool plain = (access & kOptional) == 0 && iova == reinterpret_cast<uintptr_t>(data);
  if (!plain && verbs()->regMrIova2 != nullptr) return verbs()->regMrIova2(pd.pd, data, bytes, iova, access);
  if (iova == reinterpret_cast<uintptr_t>(data)) {
    return verbs()->regMr(pd.pd, data, bytes, static_cast<int>(access & ~kOptional));
  }
  errno = EOPNOTSUPP;
  return nullptr;
}

/** Publishes a registered region as a child of `pd`; on failure throws and deregisters it. */
bool publishRegion(Args& args, Pd* pd, Mr* mr) {
  mr->pd = pd;
  mr->owner = &args.env();
  if (!publish(Kind::Mr, mr)) {
    verbs()->deregMr(mr->mr);
    failErrno(args.env(), args.verb(), ENOMEM);
    return false;
  }
  enter(mr);
  return true;
}

/** Registers and publishes a region; on failure throws, and the caller must clean up `mr`. */
bool registerRegion(Args& args, Pd* pd, Mr* mr, void* data, uint64_t bytes, int access) {
  constexpr uintptr_t kPage = 4096;
  const bool zeroBased = (access & IBV_ACCESS_ZERO_BASED) != 0;
  if (zeroBased && reinterpret_cast<uintptr_t>(data) % kPage != 0) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL,
         "a zero-based region (IBV_ACCESS_ZERO_BASED) must begin at a page, as memory of allocMr does");
    return false;
  }
  mr->iova = zeroBased ? 0 : reinterpret_cast<uintptr_t>(data);
  mr->bytes = bytes;
  mr->mr = registerMemory(*pd, data, bytes, mr->iova, static_cast<unsigned>(access));
  if (mr->mr != nullptr) return publishRegion(args, pd, mr);
  failRegister(args.env(), args.verb(), errno, bytes, *pd->context, static_cast<unsigned>(access));
  return false;
}

}  // namespace

Result describeMr(napi_env napi, const Mr& mr) {
  return Result(napi)
      .number("handle", mr.handle)
      .number("lkey", mr.mr->lkey)
      .number("rkey", mr.mr->rkey)
      .number("addr", static_cast<double>(mr.iova))
      .number("lengthBytes", static_cast<double>(mr.bytes));
}

void rememberForeign(Env& env, Mr* mr) {
  if (mr->foreign == nullptr) mr->foreign = new ForeignBuffer;
  mr->foreign->key = static_cast<uint64_t>(mr->pd->context->handle) << 32 | mr->mr->lkey;
  mr->foreign->buffer = mr->ref;
  // A stale entry may remain if another env closed the region: its references are in env.dropped.
  env.foreign[mr->foreign->key] = mr->foreign;
}

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
  return describeMr(napi, *mr.release())
      .value("memory", exposed.buffer)
      .number("byteOffset", static_cast<double>(exposed.byteOffset));
}

/** regMr(pd, view: Uint8Array, access): the view selects the bytes; TypeScript has refused resizable buffers. */
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
  // A SharedArrayBuffer is not an ArrayBuffer and cannot be detached.
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
  return describeMr(napi, *mr.release());
}

napi_value deregMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "deregMr");
  const std::lock_guard lock(controlMutex());
  auto* mr = args.object<Mr>(0);
  if (mr == nullptr) return nullptr;
  Pd* pd = mr->pd;
  if (const int rc = closeMr(mr, &args.env()); rc != 0) {
    if (rc != EINVAL && rc != EBUSY) return failErrno(args.env(), args.verb(), rc);
    return fail(args.env(), Err::Busy, args.verb(), rc, "a memory window is bound to the memory region");
  }
  reap(pd, &args.env());
  return undefined(napi);
}

/** regDmabufMr(pd, offset, length, iova, fd, access). */
napi_value regDmabufMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "regDmabufMr");
  const uint64_t offset = args.size(1);
  const uint64_t bytes = args.size(2);
  const uint64_t iova = args.size(3);
  const int fd = args.int32(4);
  const int access = args.int32(5);
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (pd == nullptr) return nullptr;
  if (verbs()->regDmabufMr == nullptr) {
    return fail(args.env(), Err::Unsupported, args.verb(), EOPNOTSUPP, "this libibverbs has no ibv_reg_dmabuf_mr");
  }
  auto mr = std::make_unique<Mr>();
  mr->iova = iova;
  mr->bytes = bytes;
  mr->mr = verbs()->regDmabufMr(pd->pd, offset, bytes, iova, fd, access);
  if (mr->mr == nullptr) {
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOTTY) {
      return fail(args.env(), Err::Unsupported, args.verb(), errno, "this device does not support dmabuf memory");
    }
    if (errno == EBADF) return fail(args.env(), Err::Argument, args.verb(), errno, "fd %d is not a dma-buf", fd);
    return failRegister(args.env(), args.verb(), errno, bytes, *pd->context, static_cast<unsigned>(access));
  }
  if (!publishRegion(args, pd, mr.get())) return nullptr;
  return describeMr(napi, *mr.release());
}

}  // namespace isoverbs
