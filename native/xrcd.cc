// XRC domains.
#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

/** openXrcd(context): a domain that only this process shares. */
napi_value openXrcd(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "openXrcd");
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  ibv_xrcd_init_attr attr = {};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  auto xrcd = std::make_unique<Xrcd>();
  xrcd->owner = &args.env();
  xrcd->context = context;
  xrcd->xrcd = ibv_open_xrcd(context->ctx, &attr);
  if (xrcd->xrcd == nullptr) {
    if ((context->attr.device_cap_flags & IBV_DEVICE_XRC) != 0) return failErrno(args.env(), args.verb(), errno);
    return fail(args.env(), Err::Unsupported, args.verb(), errno,
                "this device has no extended reliable connections (XRC)");
  }
  if (!publish(Kind::Xrcd, xrcd.get())) {
    ibv_close_xrcd(xrcd->xrcd);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  enter(xrcd.get());
  return number(napi, xrcd.release()->handle);
}

napi_value closeXrcd(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "closeXrcd");
  const std::lock_guard lock(controlMutex());
  auto* xrcd = args.object<Xrcd>(0);
  if (xrcd == nullptr) return nullptr;
  if (!xrcd->childless()) return failBusy(args.env(), args.verb(), *xrcd);
  Parents parents = parentsOf(xrcd);
  const int rc = closeXrcd(xrcd);
  for (Object* parent : parents) reap(parent, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

}  // namespace isoverbs
