// Devices, contexts and protection domains.
#include <arpa/inet.h>
#include <endian.h>
#include <net/if.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "args.h"
#include "device.h"
#include "mlx5.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** The device list, freed at the end of the scope. */
class DeviceList {
 public:
  DeviceList() {
    if (verbs() != nullptr) list_ = verbs()->getDeviceList(&count_);
  }
  ~DeviceList() {
    if (list_ != nullptr) verbs()->freeDeviceList(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  int count() const { return list_ == nullptr ? 0 : count_; }
  ibv_device* operator[](int i) const { return list_[i]; }

 private:
  ibv_device** list_ = nullptr;
  int count_ = 0;
};

struct Guid {
  char text[20];

  explicit Guid(__be64 guid) {
    const uint64_t value = be64toh(guid);
    std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(value >> 48) & 0xffff,
                  static_cast<unsigned>(value >> 32) & 0xffff, static_cast<unsigned>(value >> 16) & 0xffff,
                  static_cast<unsigned>(value) & 0xffff);
  }
};

const char* transportName(const ibv_device* device) {
  switch (device->transport_type) {
    case IBV_TRANSPORT_IB:
      return "InfiniBand";
    case IBV_TRANSPORT_IWARP:
      return "iWARP";
    default:
      return "unknown";
  }
}

}  // namespace

int queryPortOf(ibv_context* ctx, uint8_t port, ibv_port_attr* attr) {
  std::memset(attr, 0, sizeof *attr);
  if (verbs_context* vctx = verbs_get_ctx_op(ctx, query_port)) {
    return vctx->query_port(ctx, port, attr, sizeof *attr);
  }
  return verbs()->queryPort(ctx, port, reinterpret_cast<_compat_ibv_port_attr*>(attr));
}

bool checkPort(Args& args, const Context* context, uint32_t port) {
  if (port >= 1 && port <= context->attr.phys_port_cnt) return true;
  fail(args.env(), Err::Argument, args.verb(), EINVAL, "the device has ports 1 to %u, got %u",
       static_cast<unsigned>(context->attr.phys_port_cnt), port);
  return false;
}

napi_value getDeviceList(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "getDeviceList");
  napi_value array = nullptr;
  napi_create_array(napi, &array);
  // A kernel without RDMA answers ENOSYS, which means that the machine has no devices.
  const DeviceList list;
  for (int i = 0; i < list.count(); i++) {
    napi_set_element(napi, array, static_cast<uint32_t>(i),
                     Result(napi)
                         .string("name", verbs()->getDeviceName(list[i]))
                         .string("guid", Guid(verbs()->getDeviceGuid(list[i])).text)
                         .string("transport", transportName(list[i])));
  }
  return array;
}

napi_value openDevice(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "openDevice");
  const std::string name = args.string(0);
  if (!args.ok()) return nullptr;
  Env& env = args.env();
  if (verbs() == nullptr) return fail(env, Err::NoDevice, args.verb(), ENOSYS, "%s", verbsError().c_str());
  const DeviceList list;
  ibv_device* device = nullptr;
  for (int i = 0; i < list.count(); i++) {
    if (name == verbs()->getDeviceName(list[i])) device = list[i];
  }
  if (device == nullptr) {
    return fail(env, Err::NoDevice, args.verb(), ENODEV, "no RDMA device is called '%s' (%d found)", name.c_str(),
                list.count());
  }
  const std::lock_guard lock(controlMutex());
  ibv_context* ctx = verbs()->openDevice(device);
  if (ctx == nullptr) {
    return fail(env, Err::NoDevice, args.verb(), errno, "'%s' cannot be opened: %s", name.c_str(), strerror(errno));
  }
  auto context = std::make_unique<Context>();
  context->owner = &env;
  context->ctx = ctx;
  if (const int rc = verbs()->queryDevice(ctx, &context->attr); rc != 0 || !publish(Kind::Context, context.get())) {
    verbs()->closeDevice(ctx);
    return failErrno(env, args.verb(), rc != 0 ? rc : ENOMEM);
  }
  context->maxMessageBytes.resize(size_t{1} + context->attr.phys_port_cnt);
  for (unsigned port = 1; port <= context->attr.phys_port_cnt; port++) {
    ibv_port_attr attr;
    const bool known = queryPortOf(ctx, static_cast<uint8_t>(port), &attr) == 0 && attr.max_msg_sz != 0;
    context->maxMessageBytes[port] = known ? attr.max_msg_sz : 1u << 31;
  }
  return number(napi, context.release()->handle);
}

/** probeWait(context): '' if the device executes WAIT, otherwise the reason. */
napi_value probeWait(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "describeWait");
  std::string reason;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr) return nullptr;
    reason = probeWait(context->ctx, context->attr);
  }
  napi_value text = nullptr;
  napi_create_string_utf8(napi, reason.c_str(), reason.size(), &text);
  return text;
}

napi_value closeDevice(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "closeDevice");
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  if (context->onlyWatched() && isWatchedBy(context, args.env())) stopWatch(context);
  if (!context->childless()) return failBusy(args.env(), args.verb(), *context);
  if (const int rc = closeContext(context); rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

napi_value queryDevice(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryDevice");
  ibv_device_attr a;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr) return nullptr;
    if (const int rc = verbs()->queryDevice(context->ctx, &context->attr); rc != 0) {
      return failErrno(args.env(), args.verb(), rc);
    }
    a = context->attr;
  }
  return Result(napi)
      .string("fwVer", a.fw_ver)
      .string("nodeGuid", Guid(a.node_guid).text)
      .number("vendorId", a.vendor_id)
      .number("vendorPartId", a.vendor_part_id)
      .number("hwVer", a.hw_ver)
      .number("maxMrSizeBytes", static_cast<double>(a.max_mr_size))
      .number("maxQp", a.max_qp)
      .number("maxQpWr", a.max_qp_wr)
      .number("maxSge", a.max_sge)
      .number("maxSgeRd", a.max_sge_rd)
      .number("maxCq", a.max_cq)
      .number("maxCqe", a.max_cqe)
      .number("maxMr", a.max_mr)
      .number("maxPd", a.max_pd)
      .number("maxQpRdAtom", a.max_qp_rd_atom)
      .number("maxQpInitRdAtom", a.max_qp_init_rd_atom)
      .number("atomicCap", a.atomic_cap)
      .number("maxSrq", a.max_srq)
      .number("maxSrqWr", a.max_srq_wr)
      .number("maxSrqSge", a.max_srq_sge)
      .number("maxAh", a.max_ah)
      .number("maxMw", a.max_mw)
      .number("maxPkeys", a.max_pkeys)
      .number("maxMcastGrp", a.max_mcast_grp)
      .number("maxMcastQpAttach", a.max_mcast_qp_attach)
      .number("maxTotalMcastQpAttach", a.max_total_mcast_qp_attach)
      .number("localCaAckDelay", a.local_ca_ack_delay)
      .string("sysImageGuid", Guid(a.sys_image_guid).text)
      .number("physPortCnt", a.phys_port_cnt)
      .number("deviceCapFlags", a.device_cap_flags);
}

napi_value queryPort(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryPort");
  const uint32_t port = args.uint32(1);
  ibv_port_attr a;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr || !checkPort(args, context, port)) return nullptr;
    if (const int rc = queryPortOf(context->ctx, static_cast<uint8_t>(port), &a); rc != 0) {
      return failErrno(args.env(), args.verb(), rc);
    }
  }
  const bool ethernet = a.link_layer == IBV_LINK_LAYER_ETHERNET;
  return Result(napi)
      .number("state", a.state)
      .number("maxMtu", a.max_mtu)
      .number("activeMtu", a.active_mtu)
      .number("gidTblLen", a.gid_tbl_len)
      .number("portCapFlags", a.port_cap_flags)
      .number("maxMsgSizeBytes", a.max_msg_sz)
      .number("pkeyTblLen", a.pkey_tbl_len)
      .number("lid", a.lid)
      .number("smLid", a.sm_lid)
      .number("lmc", a.lmc)
      .number("activeWidth", a.active_width)
      .number("activeSpeed", a.active_speed)
      .number("physState", a.phys_state)
      .string("linkLayer", ethernet ? "Ethernet" : "InfiniBand");
}

namespace {

/** Reads one line about a GID from sysfs, for rdma-core before 33, which has no ibv_query_gid_ex(3). */
std::string gidAttribute(const Context* context, uint32_t port, uint32_t index, const char* which) {
  char path[256];
  char text[64] = {};
  std::snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/gid_attrs/%s/%u",
                verbs()->getDeviceName(context->ctx->device), port, which, index);
  if (FILE* file = std::fopen(path, "re")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = 0;
    std::fclose(file);
  }
  text[std::strcspn(text, "\n")] = 0;
  return text;
}

const char* gidTypeFromSysfs(const Context* context, uint32_t port, uint32_t index) {
  const std::string text = gidAttribute(context, port, index, "types");
  if (text.find("v2") != std::string::npos) return "RoCE v2";
  return text.find("v1") != std::string::npos ? "RoCE v1" : "IB";
}

struct GidFound {
  ibv_gid gid = {};
  const char* type = "IB";
  uint32_t ifindex = 0;
};

const char* gidTypeName(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return "RoCE v2";
  return type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "IB";
}

/** The GID and its attributes; an unused entry is all zeros. Returns an errno. */
int queryGidOf(const Context* context, uint32_t port, uint32_t index, GidFound* found) {
  *found = {};
  if (verbs()->queryGidEx != nullptr) {
    ibv_gid_entry entry = {};
    const int rc = verbs()->queryGidEx(context->ctx, port, index, &entry, 0, sizeof entry);
    if (rc == 0) {
      *found = {entry.gid, gidTypeName(entry.gid_type), entry.ndev_ifindex};
      return 0;
    }
    if (rc == ENODATA) return 0;
  }
  if (verbs()->queryGid(context->ctx, static_cast<uint8_t>(port), static_cast<int>(index), &found->gid) != 0) {
    return errno != 0 ? errno : EIO;
  }
  found->type = gidTypeFromSysfs(context, port, index);
  found->ifindex = if_nametoindex(gidAttribute(context, port, index, "ndevs").c_str());
  return 0;
}

}  // namespace

napi_value queryGid(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryGid");
  const uint32_t port = args.uint32(1);
  const uint32_t index = args.uint32(2);
  GidFound found;
  {
    const std::lock_guard lock(controlMutex());
    auto* context = args.object<Context>(0);
    if (context == nullptr || !checkPort(args, context, port)) return nullptr;
    ibv_port_attr attr;
    if (const int rc = queryPortOf(context->ctx, static_cast<uint8_t>(port), &attr); rc != 0) {
      return failErrno(args.env(), args.verb(), rc);
    }
    if (index >= static_cast<uint32_t>(attr.gid_tbl_len)) {
      return fail(args.env(), Err::Argument, args.verb(), EINVAL, "port %u has GIDs 0 to %d, got %u", port,
                  attr.gid_tbl_len - 1, index);
    }
    if (const int rc = queryGidOf(context, port, index, &found); rc != 0) {
      return failErrno(args.env(), args.verb(), rc);
    }
  }
  return Result(napi)
      .value("bytes", copyOfBytes(napi, found.gid.raw, sizeof found.gid.raw))
      .string("type", found.type)
      .number("ndevIfindex", found.ifindex);
}

napi_value allocPd(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "allocPd");
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  auto pd = std::make_unique<Pd>();
  pd->owner = &args.env();
  pd->context = context;
  pd->pd = verbs()->allocPd(context->ctx);
  if (pd->pd == nullptr) return failErrno(args.env(), args.verb(), errno);
  if (!publish(Kind::Pd, pd.get())) {
    verbs()->deallocPd(pd->pd);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  context->children[static_cast<uint32_t>(Kind::Pd)]++;
  return number(napi, pd.release()->handle);
}

napi_value deallocPd(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "deallocPd");
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (pd == nullptr) return nullptr;
  if (!pd->childless()) return failBusy(args.env(), args.verb(), *pd);
  Context* context = pd->context;
  if (const int rc = closePd(pd); rc != 0) return failErrno(args.env(), args.verb(), rc);
  reap(context, &args.env());
  return undefined(napi);
}

}  // namespace isoverbs
