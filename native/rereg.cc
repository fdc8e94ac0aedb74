// Re-registration of memory regions.
#include <cerrno>

#include "args.h"
#include "mr.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** The memory that replaces the memory of a region; unchanged if there is no reference. */
struct Translation {
  void* data = nullptr;
  size_t bytes = 0;
  napi_ref ref = nullptr;
  bool detachable = false;
};

/** Reads argument `i`, a Uint8Array; false with an exception pending. */
bool readTranslation(Args& args, size_t i, Translation* out) {
  napi_env napi = args.env().env;
  napi_value buffer = nullptr;
  out->data = args.bytes(i, napi_uint8_array, &out->bytes, &buffer);
  if (!args.ok()) return false;
  if (out->bytes == 0 || out->data == nullptr) {
    fail(args.env(), Err::Memory, args.verb(), EINVAL, "the buffer is empty or detached");
    return false;
  }
  napi_is_arraybuffer(napi, buffer, &out->detachable);
  if (napi_create_reference(napi, out->detachable ? buffer : args.value(i), 1, &out->ref) == napi_ok) return true;
  fail(args.env(), Err::NoResources, args.verb(), 0, "no reference to the buffer");
  return false;
}

napi_value failRereg(Args& args, int code) {
  const int errnum = errno;
  if (errnum == EOPNOTSUPP || errnum == ENOSYS) {
    return fail(args.env(), Err::Unsupported, args.verb(), errnum, "this device cannot re-register memory regions");
  }
  const bool lost = code == IBV_REREG_MR_ERR_CMD || code == IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW;
  return fail(args.env(), errnum == EINVAL ? Err::Argument : Err::System, args.verb(), errnum,
              "the device refused the change (errno %d); %s", errnum,
              lost ? "the region can only be deregistered now" : "the region is as it was");
}

bool liesIn(const Memory* memory, const void* data) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  const auto base = reinterpret_cast<uintptr_t>(memory == nullptr ? nullptr : memory->data);
  return memory != nullptr && at >= base && at < base + memory->bytes;
}

/** Releases the region's old memory after a change, unless the addon's own memory was kept. */
void adopt(Env& env, Mr* mr, const Translation& to) {
  mr->iova = reinterpret_cast<uintptr_t>(to.data);
  mr->bytes = to.bytes;
  if (liesIn(mr->memory, to.data)) {
    napi_delete_reference(env.env, to.ref);
    return;
  }
  if (mr->foreign != nullptr) mr->foreign->live.store(false, std::memory_order_release);
  dropReference(env, &env, Dropped{.ref = mr->ref, .detach = mr->memory != nullptr, .foreign = mr->foreign});
  if (mr->memory != nullptr) mr->memory->release();
  mr->memory = nullptr;
  mr->foreign = nullptr;
  mr->ref = to.ref;
  if (to.detachable) rememberForeign(env, mr);
}

/** The region's description with the buffer that it covers, if JavaScript still has it. */
napi_value describeWhole(Env& env, const Mr& mr) {
  napi_value value = nullptr;
  napi_value buffer = nullptr;
  void* data = nullptr;
  size_t bytes = 0;
  size_t offset = 0;
  bool isView = false;
  bool found = napi_get_reference_value(env.env, mr.ref, &value) == napi_ok && value != nullptr;
  if (found && napi_is_typedarray(env.env, value, &isView) == napi_ok && isView) {
    found = napi_get_typedarray_info(env.env, value, nullptr, nullptr, &data, &buffer, &offset) == napi_ok;
  } else {
    buffer = value;
    found = found && napi_get_arraybuffer_info(env.env, value, &data, &bytes) == napi_ok;
  }
  const auto at = reinterpret_cast<uintptr_t>(mr.mr->addr);
  if (!found) {
    napi_create_arraybuffer(env.env, 0, &data, &buffer);
  } else {
    offset += at - reinterpret_cast<uintptr_t>(data);
  }
  return describeMr(env.env, mr).value("memory", buffer).number("byteOffset", static_cast<double>(offset));
}

void moveTo(Mr* mr, Pd* pd) {
  leave(mr);
  mr->pd = pd;
  enter(mr);
}

/** Performs the change; returns the region's description, or null with an exception pending. */
napi_value change(Args& args, Mr* mr, int flags, Pd* pd, const Translation& to, int access) {
  Env& env = args.env();
  if (mr->owner != &env) {
    return fail(env, Err::Argument, args.verb(), EINVAL, "only the thread that made the region may change it");
  }
  if (pd != nullptr && pd->context != mr->pd->context) {
    return fail(env, Err::Handle, args.verb(), EINVAL, "the protection domain is of another context");
  }
  const int rc = verbs()->reregMr(mr->mr, flags, pd == nullptr ? nullptr : pd->pd, to.data, to.bytes, access);
  if (rc != 0 && rc != IBV_REREG_MR_ERR_DO_FORK_OLD) return failRereg(args, rc);
  Pd* const before = mr->pd;
  if (pd != nullptr && pd != before) moveTo(mr, pd);
  // The key under which posts find the buffer may have changed.
  if (mr->foreign != nullptr) env.foreign.erase(mr->foreign->key);
  if (to.ref != nullptr) {
    adopt(env, mr, to);
  } else if (mr->foreign != nullptr) {
    rememberForeign(env, mr);
  }
  reap(before, &env);
  return describeWhole(env, *mr);
}

}  // namespace

/** reregMr(mr, flags, pd, view: Uint8Array, access): arguments that the flags do not name are ignored. */
napi_value reregMr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "reregMr");
  const int flags = args.int32(1);
  const int access = args.int32(4);
  const std::lock_guard lock(controlMutex());
  auto* mr = args.object<Mr>(0);
  auto* pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? args.object<Pd>(2) : nullptr;
  Translation to;
  if (!args.ok() || ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && !readTranslation(args, 3, &to))) return nullptr;
  const napi_value result = change(args, mr, flags, pd, to, access);
  if (result == nullptr && to.ref != nullptr) napi_delete_reference(napi, to.ref);
  return result;
}

}  // namespace isoverbs
