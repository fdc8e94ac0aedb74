// The connection manager: operations of identifiers. Calls return quickly; their results arrive as events.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cm.h"
#include "qp.h"

namespace isoverbs {

napi_value failCm(Args& args, const char* call, int errnum) {
  Env& env = args.env();
  const char* name = errnoName(errnum);
  const char* text = errnoText(errnum);
  if (name == nullptr || text == nullptr) name = text = "unknown error";
  switch (errnum) {
    case EINVAL:
      return fail(env, Err::State, args.verb(), errnum,
                  "%s refused it (EINVAL): the identifier is in a state that does not allow this", call);
    case EADDRNOTAVAIL:
      return fail(env, Err::NoDevice, args.verb(), errnum, "no interface has this address (%s: %s)", call, name);
    case ENODEV:
      return fail(env, Err::NoDevice, args.verb(), errnum, "no RDMA device has this address (%s: %s)", call, name);
    case EADDRINUSE:
    case EACCES:
    case EPERM:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EISCONN:
      return fail(env, Err::Connection, args.verb(), errnum, "%s (%s: %s)", text, call, name);
    case EAFNOSUPPORT:
      return fail(env, Err::Argument, args.verb(), errnum, "%s (%s: %s)", text, call, name);
    default:
      return failErrno(env, args.verb(), errnum);
  }
}

namespace {

/** Limits of private data for streams and datagrams; see rdma_connect(3), rdma_accept(3) and rdma_reject(3). */
struct PrivateLimit {
  size_t stream;
  size_t datagram;
};
constexpr PrivateLimit kConnectLimit = {56, 180};
constexpr PrivateLimit kAcceptLimit = {196, 136};
constexpr PrivateLimit kRejectLimit = {148, 136};

/** Text of a numeric IPv4 or IPv6 address, perhaps with %interface, and a port. */
bool parseAddress(const std::string& text, uint32_t port, sockaddr_storage* to) {
  *to = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(to);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(to);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    return true;
  }
  const size_t percent = text.find('%');
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  if (percent != std::string::npos) v6->sin6_scope_id = if_nametoindex(text.c_str() + percent + 1);
  return percent == std::string::npos || v6->sin6_scope_id != 0;
}

/** Reads arguments i and i + 1. */
bool addressOf(Args& args, size_t i, sockaddr_storage* to) {
  const std::string text = args.string(i);
  const uint32_t port = args.uint32(i + 1);
  if (!args.ok()) return false;
  if (parseAddress(text, port, to)) return true;
  fail(args.env(), Err::Argument, args.verb(), EINVAL,
       "the address must be a numeric IPv4 or IPv6 address (link-local ones with %%interface), got '%s'", text.c_str());
  return false;
}

napi_value describeAddress(napi_env napi, const sockaddr* address) {
  char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "";
  uint16_t port = 0;
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    port = ntohs(v4->sin_port);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    char interface[IF_NAMESIZE];
    if (v6->sin6_scope_id != 0 && if_indextoname(v6->sin6_scope_id, interface) != nullptr) {
      std::strcat(std::strcat(text, "%"), interface);
    }
    port = ntohs(v6->sin6_port);
  }
  return Result(napi).string("address", text).number("port", port);
}

/** librdmacm dereferences the device pointer unchecked, and only a bound identifier has one. */
bool isBound(Args& args, const CmId* id) {
  if (id->id->verbs != nullptr) return true;
  fail(args.env(), Err::State, args.verb(), EINVAL,
       "the identifier is not bound to a device: wait for RDMA_CM_EVENT_ADDR_RESOLVED, or bind a device's address");
  return false;
}

/** The private data in argument i; null with an exception pending if it is too long. */
const void* privateDataOf(Args& args, size_t i, const CmId* id, const PrivateLimit& limit, uint8_t* length) {
  size_t bytes = 0;
  const void* data = args.bytes(i, napi_uint8_array, &bytes);
  *length = static_cast<uint8_t>(bytes);
  const size_t most = id->id->ps == RDMA_PS_TCP ? limit.stream : limit.datagram;
  if (!args.ok() || bytes <= most) return data;
  fail(args.env(), Err::Argument, args.verb(), EINVAL, "privateData must be at most %zu bytes, got %zu", most, bytes);
  return nullptr;
}

constexpr size_t kConnWords = 7;
/** The qpNum that stands for a missing one. */
constexpr uint32_t kNoQp = 0xffffffff;

/** Reads the arguments (id, words of rdma_conn_param, privateData); returns false with an exception pending. */
bool connParamOf(Args& args, const CmId* id, const PrivateLimit& limit, rdma_conn_param* param) {
  const uint32_t* words = args.words(1, kConnWords);
  *param = {};
  uint8_t length = 0;
  const void* data = privateDataOf(args, 2, id, limit, &length);
  bool pending = false;
  napi_is_exception_pending(args.env().env, &pending);
  if (!args.ok() || pending) return false;
  param->private_data = data;
  param->private_data_len = length;
  param->responder_resources = static_cast<uint8_t>(words[0]);
  param->initiator_depth = static_cast<uint8_t>(words[1]);
  param->flow_control = static_cast<uint8_t>(words[2]);
  param->retry_count = static_cast<uint8_t>(words[3]);
  param->rnr_retry_count = static_cast<uint8_t>(words[4]);
  param->srq = static_cast<uint8_t>(words[5]);
  param->qp_num = words[6];
  return true;
}

napi_value failNoQp(Args& args) {
  return fail(args.env(), Err::Argument, args.verb(), EINVAL, "qpNum must be the number of the queue pair");
}

/**
 * Cases that librdmacm rejects before asking the kernel: a device that supports less than the parameters request.
 */
napi_value failParam(Args& args, const char* call, int errnum, const CmId* id, const rdma_conn_param& param) {
  ibv_device_attr attr = {};
  if (errnum != EINVAL || verbs()->queryDevice(id->id->verbs, &attr) != 0) return failCm(args, call, errnum);
  const auto over = [](uint8_t asked, int most) { return asked != 0xff && asked > most; };
  if (!over(param.responder_resources, attr.max_qp_rd_atom) && !over(param.initiator_depth, attr.max_qp_init_rd_atom)) {
    return failCm(args, call, errnum);
  }
  return fail(args.env(), Err::Argument, args.verb(), errnum,
              "the device has responderResources 0 to %d and initiatorDepth 0 to %d (or 255: as many as it has), got %u "
              "and %u",
              attr.max_qp_rd_atom, attr.max_qp_init_rd_atom, param.responder_resources, param.initiator_depth);
}

}  // namespace

napi_value queryId(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryId");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr) return nullptr;
  const rdma_cm_id& cmId = *id->id;
  return Result(napi)
      .string("deviceName", cmId.verbs == nullptr ? "" : verbs()->getDeviceName(cmId.verbs->device))
      .number("portNum", cmId.port_num)
      .value("local", describeAddress(napi, &cmId.route.addr.src_addr))
      .value("remote", describeAddress(napi, &cmId.route.addr.dst_addr));
}

/** bindAddr(id, address, port). */
napi_value bindAddr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "bindAddr");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  sockaddr_storage local;
  if (id == nullptr || !addressOf(args, 1, &local)) return nullptr;
  if (cm()->bindAddr(id->id, reinterpret_cast<sockaddr*>(&local)) != 0) return failCm(args, "rdma_bind_addr", errno);
  return undefined(napi);
}

/** resolveAddr(id, local address or '', port, remote address, port, timeoutMs). */
napi_value resolveAddr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "resolveAddr");
  const bool anyLocal = args.string(1).empty();
  const int32_t timeoutMs = args.int32(5);
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  sockaddr_storage local;
  sockaddr_storage remote;
  if (id == nullptr || (!anyLocal && !addressOf(args, 1, &local)) || !addressOf(args, 3, &remote)) return nullptr;
  sockaddr* from = anyLocal ? nullptr : reinterpret_cast<sockaddr*>(&local);
  if (from != nullptr && local.ss_family != remote.ss_family) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "local and remote must be of one address family");
  }
  if (cm()->resolveAddr(id->id, from, reinterpret_cast<sockaddr*>(&remote), timeoutMs) != 0) {
    return failCm(args, "rdma_resolve_addr", errno);
  }
  return undefined(napi);
}

/** resolveRoute(id, timeoutMs). */
napi_value resolveRoute(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "resolveRoute");
  const int32_t timeoutMs = args.int32(1);
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr || !isBound(args, id)) return nullptr;
  if (cm()->resolveRoute(id->id, timeoutMs) != 0) return failCm(args, "rdma_resolve_route", errno);
  return undefined(napi);
}

/** listen(id, backlog). */
napi_value listenCm(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "listen");
  const int32_t backlog = args.int32(1);
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr || !args.ok()) return nullptr;
  if (cm()->listen(id->id, backlog) != 0) return failCm(args, "rdma_listen", errno);
  return undefined(napi);
}

/** connect(id, words, privateData). */
napi_value connectCm(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "connect");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  rdma_conn_param param;
  if (id == nullptr || !isBound(args, id) || !connParamOf(args, id, kConnectLimit, &param)) return nullptr;
  if (param.qp_num == kNoQp) {
    if (id->id->ps == RDMA_PS_TCP) return failNoQp(args);
    param.qp_num = 0;
  }
  if (cm()->connect(id->id, &param) != 0) return failParam(args, "rdma_connect", errno, id, param);
  return undefined(napi);
}

napi_value establish(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "establish");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr || !isBound(args, id)) return nullptr;
  if (cm()->establish(id->id) != 0) return failCm(args, "rdma_establish", errno);
  return undefined(napi);
}

/** accept(id, words, privateData). */
napi_value acceptCm(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "accept");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  rdma_conn_param param;
  if (id == nullptr || !isBound(args, id) || !connParamOf(args, id, kAcceptLimit, &param)) return nullptr;
  if (param.qp_num == kNoQp) return failNoQp(args);
  if (cm()->accept(id->id, &param) != 0) return failParam(args, "rdma_accept", errno, id, param);
  return undefined(napi);
}

/** reject(id, privateData). */
napi_value reject(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "reject");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr) return nullptr;
  uint8_t length = 0;
  const void* data = privateDataOf(args, 1, id, kRejectLimit, &length);
  bool pending = false;
  napi_is_exception_pending(napi, &pending);
  if (!args.ok() || pending) return nullptr;
  if (cm()->reject(id->id, data, length) != 0) return failCm(args, "rdma_reject", errno);
  return undefined(napi);
}

napi_value disconnect(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "disconnect");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr || !isBound(args, id)) return nullptr;
  if (cm()->disconnect(id->id) != 0) return failCm(args, "rdma_disconnect", errno);
  return undefined(napi);
}

/** notify(id, event). */
napi_value notify(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "notify");
  const uint32_t event = args.uint32(1);
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr || !args.within("event", event, 0, IBV_EVENT_WQ_FATAL)) return nullptr;
  if (cm()->notify(id->id, static_cast<ibv_event_type>(event)) != 0) return failCm(args, "rdma_notify", errno);
  return undefined(napi);
}

namespace {

/** The mask bits of rdma_init_qp_attr(3) that ibv_modify_qp(3) knows: the kernel adds further bits for RoCE. */
constexpr int kKnownMask = ((1 << 21) - 1) & ~IBV_QP_ALT_PATH;

/**
 * For a datagram queue pair the kernel always answers with the attributes for INIT; librdmacm handles that in the same
 * way.
 */
int datagramAttr(ibv_qp_attr* attr) {
  if (attr->qp_state == IBV_QPS_RTR) return IBV_QP_STATE;
  attr->sq_psn = 0;
  return IBV_QP_STATE | IBV_QP_SQ_PSN;
}

/** Limits READs and atomics to what this device supports, because the peer may support more. */
void clampDepths(const CmId* id, ibv_qp_attr* attr) {
  ibv_device_attr device = {};
  if (verbs()->queryDevice(id->id->verbs, &device) != 0) return;
  attr->max_dest_rd_atomic = static_cast<uint8_t>(std::min<int>(attr->max_dest_rd_atomic, device.max_qp_rd_atom));
  attr->max_rd_atomic = static_cast<uint8_t>(std::min<int>(attr->max_rd_atomic, device.max_qp_init_rd_atom));
}

}  // namespace

/** initQpAttr(id, qpState, words): fills the words, returns the mask. */
napi_value initQpAttr(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "initQpAttr");
  const uint32_t state = args.uint32(1);
  uint32_t* words = args.words(2, QPW_COUNT);
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (!args.ok() || !isBound(args, id)) return nullptr;
  if (state != IBV_QPS_INIT && state != IBV_QPS_RTR && state != IBV_QPS_RTS) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "qpState must be INIT, RTR or RTS, got %u", state);
  }
  ibv_qp_attr attr = {};
  attr.qp_state = static_cast<ibv_qp_state>(state);
  int mask = 0;
  if (id->id->ps == RDMA_PS_UDP && state != IBV_QPS_INIT) {
    mask = datagramAttr(&attr);
  } else if (cm()->initQpAttr(id->id, &attr, &mask) != 0) {
    return failCm(args, "rdma_init_qp_attr", errno);
  }
  if ((mask & (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MAX_QP_RD_ATOMIC)) != 0) clampDepths(id, &attr);
  writeAttr(attr, words);
  return number(napi, mask & kKnownMask);
}

namespace {

/**
 * The group named by arguments 1 and 2. The port is cleared, because it must not distinguish two addresses of one
 * group.
 */
bool groupOf(Args& args, sockaddr_storage* group) {
  if (!addressOf(args, 1, group)) return false;
  // The port is at the same offset in both families.
  reinterpret_cast<sockaddr_in*>(group)->sin_port = 0;
  return true;
}

}  // namespace

/** joinMulticast(id, address, port). */
napi_value joinMulticast(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "joinMulticast");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  sockaddr_storage group;
  if (id == nullptr || !isBound(args, id) || !groupOf(args, &group)) return nullptr;
  if (cm()->joinMulticast(id->id, reinterpret_cast<sockaddr*>(&group), nullptr) != 0) {
    return failCm(args, "rdma_join_multicast", errno);
  }
  id->groups.push_back(group);
  return undefined(napi);
}

/** leaveMulticast(id, address, port). */
napi_value leaveMulticast(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "leaveMulticast");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  sockaddr_storage group;
  if (id == nullptr || !groupOf(args, &group)) return nullptr;
  const auto found = std::find_if(id->groups.begin(), id->groups.end(), [&group](const sockaddr_storage& joined) {
    return std::memcmp(&joined, &group, sizeof group) == 0;
  });
  if (found == id->groups.end()) {
    return fail(args.env(), Err::Argument, args.verb(), EADDRNOTAVAIL, "the identifier has not joined this group");
  }
  id->groups.erase(found);
  if (cm()->leaveMulticast(id->id, reinterpret_cast<sockaddr*>(&group)) != 0) {
    return failCm(args, "rdma_leave_multicast", errno);
  }
  return undefined(napi);
}

}  // namespace isoverbs
