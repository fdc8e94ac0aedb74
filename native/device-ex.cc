// Queries beyond ibv_query_device(3): extended attributes, the clock, the P_Key table.
#include <arpa/inet.h>

#include <cerrno>

#include "args.h"
#include "device.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** ibv_query_device_ex(3) without its inline function; all zeros if the device has no such verb. */
int queryDeviceExOf(ibv_context* ctx, ibv_device_attr_ex* attr) {
  *attr = {};
  verbs_context* vctx = verbs_get_ctx_op(ctx, query_device_ex);
  if (vctx == nullptr) return 0;
  const int rc = vctx->query_device_ex(ctx, nullptr, attr, sizeof *attr);
  if (rc != EOPNOTSUPP && rc != ENOSYS) return rc;
  *attr = {};
  return 0;
}

napi_value big(napi_env env, uint64_t value) {
  napi_value result = nullptr;
  napi_create_bigint_uint64(env, value, &result);
  return result;
}

Result odp(napi_env napi, const ibv_device_attr_ex& a) {
  return Result(napi)
      .number("general", static_cast<double>(a.odp_caps.general_caps))
      .number("rc", a.odp_caps.per_transport_caps.rc_odp_caps)
      .number("uc", a.odp_caps.per_transport_caps.uc_odp_caps)
      .number("ud", a.odp_caps.per_transport_caps.ud_odp_caps)
      .number("xrc", a.xrc_odp_caps);
}

Result rss(napi_env napi, const ibv_rss_caps& caps) {
  return Result(napi)
      .number("supportedQpTypes", caps.supported_qpts)
      .number("maxRwqIndirectionTables", caps.max_rwq_indirection_tables)
      .number("maxRwqIndirectionTableSize", caps.max_rwq_indirection_table_size);
}

Result tagMatching(napi_env napi, const ibv_tm_caps& caps) {
  return Result(napi)
      .number("maxRndvHdrBytes", caps.max_rndv_hdr_size)
      .number("maxNumTags", caps.max_num_tags)
      .number("flags", caps.flags)
      .number("maxOps", caps.max_ops)
      .number("maxSge", caps.max_sge);
}

Result pacing(napi_env napi, const ibv_packet_pacing_caps& caps) {
  return Result(napi)
      .number("minKbps", caps.qp_rate_limit_min)
      .number("maxKbps", caps.qp_rate_limit_max)
      .number("supportedQpTypes", caps.supported_qpts);
}

}  // namespace

napi_value queryDeviceEx(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryDeviceEx");
  ibv_device_attr_ex a;
  bool xrc = false;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr) return nullptr;
    if (const int rc = queryDeviceExOf(context->ctx, &a); rc != 0) {
      return failErrno(args.env(), args.verb(), rc > 0 ? rc : EIO);
    }
    xrc = (context->attr.device_cap_flags & IBV_DEVICE_XRC) != 0;
  }
  return Result(napi)
      .value("odp", odp(napi, a))
      .value("completionTimestampMask", big(napi, a.completion_timestamp_mask))
      .number("hcaCoreClockKhz", static_cast<double>(a.hca_core_clock))
      .value("deviceCapFlagsEx", big(napi, a.device_cap_flags_ex))
      .value("tso", Result(napi)
                        .number("maxTsoBytes", a.tso_caps.max_tso)
                        .number("supportedQpTypes", a.tso_caps.supported_qpts))
      .value("rss", rss(napi, a.rss_caps))
      .number("maxWqTypeRq", a.max_wq_type_rq)
      .number("rawPacketCaps", a.raw_packet_caps)
      .value("tagMatching", tagMatching(napi, a.tm_caps))
      .value("cqModeration", Result(napi)
                                 .number("maxCount", a.cq_mod_caps.max_cq_count)
                                 .number("maxPeriodUs", a.cq_mod_caps.max_cq_period))
      .value("packetPacing", pacing(napi, a.packet_pacing_caps))
      .number("maxDeviceMemoryBytes", static_cast<double>(a.max_dm_size))
      .boolean("xrc", xrc);
}

napi_value queryRtValues(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryRtValues");
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr) return nullptr;
    verbs_context* vctx = verbs_get_ctx_op(context->ctx, query_rt_values);
    const int rc = vctx == nullptr ? EOPNOTSUPP : vctx->query_rt_values(context->ctx, &values);
    if (rc == EOPNOTSUPP || rc == ENOSYS || (rc == 0 && (values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0)) {
      return fail(args.env(), Err::Unsupported, args.verb(), EOPNOTSUPP, "this device stamps no completions");
    }
    if (rc != 0) return failErrno(args.env(), args.verb(), rc > 0 ? rc : errno);
  }
  // Drivers return raw ticks in a timespec.
  const uint64_t ticks = static_cast<uint64_t>(values.raw_clock.tv_sec) * 1000000000u +
                         static_cast<uint64_t>(values.raw_clock.tv_nsec);
  return Result(napi).value("ticks", big(napi, ticks));
}

napi_value queryPkey(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryPkey");
  const uint32_t port = args.uint32(1);
  const uint32_t index = args.uint32(2);
  __be16 pkey = 0;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr || !args.ok() || !checkPort(args, context, port)) return nullptr;
    ibv_port_attr attr;
    if (const int rc = queryPortOf(context->ctx, static_cast<uint8_t>(port), &attr); rc != 0) {
      return failErrno(args.env(), args.verb(), rc);
    }
    if (index >= attr.pkey_tbl_len) {
      return fail(args.env(), Err::Argument, args.verb(), EINVAL, "port %u has P_Keys 0 to %d, got %u", port,
                  attr.pkey_tbl_len - 1, index);
    }
    errno = 0;
    if (verbs()->queryPkey(context->ctx, static_cast<uint8_t>(port), static_cast<int>(index), &pkey) != 0) {
      return failErrno(args.env(), args.verb(), errno != 0 ? errno : EIO);
    }
  }
  return number(napi, ntohs(pkey));
}

}  // namespace isoverbs
