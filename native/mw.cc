// Memory windows; they are bound by requests (post.cc).
#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

napi_value describe(napi_env napi, const Mw& mw) {
  return Result(napi).number("handle", mw.handle).number("type", mw.mw->type).number("rkey", mw.mw->rkey);
}

bool hasWindows(const Context& context, uint32_t type) {
  const unsigned caps = context.attr.device_cap_flags;
  if (context.attr.max_mw == 0) return false;
  if (type == IBV_MW_TYPE_1) return (caps & IBV_DEVICE_MEM_WINDOW) != 0;
  return (caps & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
}

}  // namespace

/** allocMw(pd, type). */
napi_value allocMw(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "allocMw");
  const uint32_t type = args.uint32(1);
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (!args.ok() || !args.within("type", type, IBV_MW_TYPE_1, IBV_MW_TYPE_2)) return nullptr;
  auto mw = std::make_unique<Mw>();
  mw->owner = &args.env();
  mw->pd = pd;
  mw->mw = ibv_alloc_mw(pd->pd, static_cast<ibv_mw_type>(type));
  if (mw->mw == nullptr) {
    if (!hasWindows(*pd->context, type)) {
      return fail(args.env(), Err::Unsupported, args.verb(), errno, "this device has no memory windows of type %u",
                  type);
    }
    return failErrno(args.env(), args.verb(), errno);
  }
  // Fields that libibverbs' own verb sets, and drivers do not.
  mw->mw->context = pd->context->ctx;
  mw->mw->pd = pd->pd;
  mw->mw->type = static_cast<ibv_mw_type>(type);
  if (!publish(Kind::Mw, mw.get())) {
    ibv_dealloc_mw(mw->mw);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  enter(mw.get());
  return describe(napi, *mw.release());
}

napi_value queryMw(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryMw");
  const std::lock_guard lock(controlMutex());
  auto* mw = args.object<Mw>(0);
  return mw == nullptr ? nullptr : describe(napi, *mw);
}

napi_value deallocMw(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "deallocMw");
  const std::lock_guard lock(controlMutex());
  auto* mw = args.object<Mw>(0);
  if (mw == nullptr) return nullptr;
  Parents parents = parentsOf(mw);
  const int rc = closeMw(mw);
  for (Object* parent : parents) reap(parent, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

}  // namespace isoverbs
