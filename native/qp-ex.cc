// Verbs of queue pairs that few devices have: rate limits, the order of data, enhanced connection establishment.
#include <cerrno>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

napi_value failLacking(Args& args, int errnum, const char* what) {
  if (errnum == EOPNOTSUPP || errnum == ENOSYS) {
    return fail(args.env(), Err::Unsupported, args.verb(), errnum, "this device has no %s", what);
  }
  if (errnum == EINVAL) {
    return fail(args.env(), Err::Argument, args.verb(), errnum, "the device refused the %s (EINVAL)", what);
  }
  return failErrno(args.env(), args.verb(), errnum);
}

napi_value failOldLibrary(Args& args, const char* symbol) {
  return fail(args.env(), Err::Unsupported, args.verb(), ENOSYS, "this release of libibverbs has no %s", symbol);
}

}  // namespace

/** modifyQpRateLimit(qp, rateLimitKbps, maxBurstBytes, typicalPktBytes). */
napi_value modifyQpRateLimit(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifyQpRateLimit");
  ibv_qp_rate_limit_attr attr = {};
  attr.rate_limit = args.uint32(1);
  attr.max_burst_sz = args.uint32(2);
  attr.typical_pkt_sz = static_cast<uint16_t>(args.uint32(3));
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr) return nullptr;
  verbs_context* vctx = verbs_get_ctx_op(qp->qp->context, modify_qp_rate_limit);
  const int rc = vctx == nullptr ? EOPNOTSUPP : vctx->modify_qp_rate_limit(qp->qp, &attr);
  if (rc != 0) return failLacking(args, rc > 0 ? rc : errno, "rate limit");
  return undefined(napi);
}

/** queryQpDataInOrder(qp, opcode, flags). */
napi_value queryQpDataInOrder(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryQpDataInOrder");
  const uint32_t opcode = args.uint32(1);
  const uint32_t flags = args.uint32(2);
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr || !args.within("opcode", opcode, 0, IBV_WR_DRIVER1)) return nullptr;
  const auto query = verbs()->queryQpDataInOrder;
  if (query == nullptr) return failOldLibrary(args, "ibv_query_qp_data_in_order(3)");
  return number(napi, query(qp->qp, static_cast<ibv_wr_opcode>(opcode), flags));
}

napi_value queryEce(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryEce");
  ibv_ece ece = {};
  {
    const std::lock_guard lock(controlMutex());
    auto* qp = args.object<Qp>(0);
    if (qp == nullptr) return nullptr;
    if (verbs()->queryEce == nullptr) return failOldLibrary(args, "ibv_query_ece(3)");
    const int rc = verbs()->queryEce(qp->qp, &ece);
    if (rc != 0) return failLacking(args, rc > 0 ? rc : errno, "enhanced connection establishment");
  }
  return Result(napi).number("vendorId", ece.vendor_id).number("options", ece.options);
}

/** setEce(qp, vendorId, options). */
napi_value setEce(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "setEce");
  ibv_ece ece = {};
  ece.vendor_id = args.uint32(1);
  ece.options = args.uint32(2);
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr) return nullptr;
  if (verbs()->setEce == nullptr) return failOldLibrary(args, "ibv_set_ece(3)");
  const int rc = verbs()->setEce(qp->qp, &ece);
  if (rc != 0) return failLacking(args, rc > 0 ? rc : errno, "enhanced connection establishment");
  return undefined(napi);
}

}  // namespace isoverbs
