// The connection manager: event channels, identifiers and their events.
#include "cm.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "qp.h"

namespace isoverbs {

namespace {

/** Words of rdma_conn_param, in its order: responder_resources .. qp_num (CONN_FIELDS in cm.ts). */
constexpr size_t kConnWords = 7;

/** The part of an event passed to JavaScript, copied because the event itself is acknowledged first. */
struct Copied {
  uint32_t event;
  uint32_t id;
  uint32_t listenId;
  int32_t status;
  bool hasConn;
  bool hasUd;
  uint8_t privateBytes;
  uint8_t privateData[256];
  uint32_t conn[kConnWords];
  uint32_t qpNum;
  uint32_t qkey;
  ibv_ah_attr ah;
};

uint32_t handleOf(const rdma_cm_id* id) {
  return id == nullptr ? 0 : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(id->context));
}

/** The identifier's context pointer is its handle; null if no handles are left. */
CmId* adopt(Env& env, CmChannel* channel, rdma_cm_id* id) {
  auto object = std::make_unique<CmId>();
  object->owner = &env;
  object->channel = channel;
  object->id = id;
  if (!publish(Kind::CmId, object.get())) return nullptr;
  channel->children[static_cast<uint32_t>(Kind::CmId)]++;
  id->context = reinterpret_cast<void*>(static_cast<uintptr_t>(object->handle));
  return object.release();
}

void copyConn(const rdma_conn_param& param, uint32_t* words) {
  const uint32_t all[kConnWords] = {param.responder_resources, param.initiator_depth, param.flow_control,
                                    param.retry_count,         param.rnr_retry_count, param.srq,
                                    param.qp_num};
  std::memcpy(words, all, sizeof all);
}

void copyEvent(const rdma_cm_event& from, Copied* to) {
  *to = {};
  to->event = from.event;
  to->status = from.status;
  const bool datagram = from.id->ps != RDMA_PS_TCP;
  const bool multicast = from.event == RDMA_CM_EVENT_MULTICAST_JOIN || from.event == RDMA_CM_EVENT_MULTICAST_ERROR;
  // For multicast events, librdmacm stores a context where the private data is otherwise.
  if (!multicast && from.param.conn.private_data != nullptr) {
    to->privateBytes = from.param.conn.private_data_len;
    std::memcpy(to->privateData, from.param.conn.private_data, to->privateBytes);
  }
  const bool offer = from.event == RDMA_CM_EVENT_CONNECT_REQUEST || from.event == RDMA_CM_EVENT_CONNECT_RESPONSE;
  to->hasConn = !datagram && offer;
  if (to->hasConn) copyConn(from.param.conn, to->conn);
  to->hasUd = from.event == RDMA_CM_EVENT_MULTICAST_JOIN || (datagram && from.event == RDMA_CM_EVENT_ESTABLISHED);
  if (to->hasUd) {
    to->qpNum = from.param.ud.qp_num;
    to->qkey = from.param.ud.qkey;
    to->ah = from.param.ud.ah_attr;
  }
}

bool fetchEvent(Watchable* object, Env& env, void* event) {
  auto* channel = static_cast<CmChannel*>(object);
  auto* copied = static_cast<Copied*>(event);
  const std::lock_guard lock(controlMutex());
  rdma_cm_event* got = nullptr;
  if (cm()->getEvent(channel->channel, &got) != 0) return false;
  copyEvent(*got, copied);
  rdma_cm_id* requested = nullptr;
  if (got->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    requested = got->id;
    copied->listenId = handleOf(got->listen_id);
  } else {
    copied->id = handleOf(got->id);
  }
  // rdma_destroy_id(3) blocks until the events of an identifier are acknowledged, so this happens before any
  // JavaScript.
  cm()->ackEvent(got);
  if (requested != nullptr) {
    CmId* id = adopt(env, channel, requested);
    if (id == nullptr) {
      cm()->destroyId(requested);
    } else {
      id->untaken = true;
      copied->id = id->handle;
    }
  }
  return true;
}

napi_value wordsOf(napi_env env, const uint32_t* words, size_t count) {
  void* memory = nullptr;
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  if (napi_create_arraybuffer(env, count * sizeof *words, &memory, &buffer) != napi_ok) return nullptr;
  std::memcpy(memory, words, count * sizeof *words);
  napi_create_typedarray(env, napi_uint32_array, count, buffer, 0, &array);
  return array;
}

/** Listener arguments: (event, id, listenId, status, privateData, conn words?, ud words?). Late events are dropped. */
size_t describeEvent(Env& env, const void* event, napi_value* argv) {
  const auto& copied = *static_cast<const Copied*>(event);
  if (lookup<CmId>(copied.id) == nullptr) return 0;
  napi_env napi = env.env;
  argv[0] = number(napi, copied.event);
  argv[1] = number(napi, copied.id);
  argv[2] = number(napi, copied.listenId);
  argv[3] = number(napi, copied.status);
  argv[4] = copyOfBytes(napi, copied.privateData, copied.privateBytes);
  argv[5] = copied.hasConn ? wordsOf(napi, copied.conn, kConnWords) : undefined(napi);
  argv[6] = undefined(napi);
  if (copied.hasUd) {
    uint32_t words[QPW_COUNT] = {};
    words[QPW_DEST_QP_NUM] = copied.qpNum;
    words[QPW_QKEY] = copied.qkey;
    writeAddress(copied.ah, words);
    argv[6] = wordsOf(napi, words, QPW_COUNT);
  }
  return 7;
}

constexpr WatchKind kEvents = {"isoverbs.EventChannel", fetchEvent, sizeof(Copied), describeEvent};

/** Whether JavaScript knows any identifier of the channel. */
bool hasTaken(CmChannel* channel) {
  std::pair<CmChannel*, bool> search = {channel, false};
  forEach(
      Kind::CmId,
      [](Object* object, void* arg) {
        auto* id = static_cast<CmId*>(object);
        auto& [wanted, found] = *static_cast<std::pair<CmChannel*, bool>*>(arg);
        if (id->channel == wanted && !id->untaken) found = true;
      },
      &search);
  return search.second;
}

/** Closes connection requests that no verb has named yet. */
void closeUntaken(CmChannel* channel) {
  forEach(
      Kind::CmId,
      [](Object* object, void* arg) {
        auto* id = static_cast<CmId*>(object);
        if (id->channel == arg && id->untaken) closeCmId(id);
      },
      channel);
}

}  // namespace

CmId* cmIdOf(Args& args, size_t i) {
  auto* id = args.object<CmId>(i);
  if (id != nullptr) id->untaken = false;
  return id;
}

int closeCmId(CmId* id) {
  for (sockaddr_storage& group : id->groups) cm()->leaveMulticast(id->id, reinterpret_cast<sockaddr*>(&group));
  id->groups.clear();
  if (cm()->destroyId(id->id) != 0) return errno != 0 ? errno : EIO;
  retire(id);
  id->channel->children[static_cast<uint32_t>(Kind::CmId)]--;
  delete id;
  return 0;
}

int closeCmChannel(CmChannel* channel) {
  retire(channel);
  cm()->destroyEventChannel(channel->channel);
  delete channel;
  return 0;
}

napi_value createEventChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createEventChannel");
  Env& env = args.env();
  if (cm() == nullptr) return fail(env, Err::Unsupported, args.verb(), ENOSYS, "%s", cmError().c_str());
  const std::lock_guard lock(controlMutex());
  auto channel = std::make_unique<CmChannel>();
  channel->owner = &env;
  channel->channel = cm()->createEventChannel();
  if (channel->channel == nullptr) {
    const int errnum = errno;
    if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM) return failErrno(env, args.verb(), errnum);
    if (errnum == ENODEV) return fail(env, Err::NoDevice, args.verb(), errnum, "there is no RDMA device on this machine");
    return fail(env, Err::NoDevice, args.verb(), errnum,
                "/dev/infiniband/rdma_cm cannot be used (%s): load the kernel's module with `modprobe rdma_ucm`, and "
                "see that this user may open it",
                strerror(errnum));
  }
  if (!publish(Kind::CmChannel, channel.get())) {
    cm()->destroyEventChannel(channel->channel);
    return failErrno(env, args.verb(), ENOMEM);
  }
  return number(napi, channel.release()->handle);
}

napi_value destroyEventChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyEventChannel");
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<CmChannel>(0);
  if (channel == nullptr) return nullptr;
  if (hasTaken(channel)) return failBusy(args.env(), args.verb(), *channel);
  closeUntaken(channel);
  if (isWatchedBy(channel, args.env())) stopWatch(channel);
  if (!channel->childless()) return failBusy(args.env(), args.verb(), *channel);
  closeCmChannel(channel);
  return undefined(napi);
}

napi_value watchEventChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "watchEventChannel");
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<CmChannel>(0);
  if (channel == nullptr) return nullptr;
  return watchObject(args, channel, channel->channel->fd, kEvents, args.value(1));
}

napi_value refEventChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "refEventChannel");
  const bool keepAlive = args.boolean(1);
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<CmChannel>(0);
  if (channel == nullptr) return nullptr;
  return refObject(args, channel, keepAlive);
}

/** createId(channel, portSpace). */
napi_value createId(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createId");
  const uint32_t space = args.uint32(1);
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<CmChannel>(0);
  if (!args.ok()) return nullptr;
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "portSpace must be RDMA_PS_TCP or RDMA_PS_UDP, got %u",
                space);
  }
  rdma_cm_id* id = nullptr;
  if (cm()->createId(channel->channel, &id, nullptr, static_cast<rdma_port_space>(space)) != 0) {
    return failCm(args, "rdma_create_id", errno);
  }
  CmId* object = adopt(args.env(), channel, id);
  if (object == nullptr) {
    cm()->destroyId(id);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  return number(napi, object->handle);
}

napi_value destroyId(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyId");
  const std::lock_guard lock(controlMutex());
  auto* id = cmIdOf(args, 0);
  if (id == nullptr) return nullptr;
  CmChannel* channel = id->channel;
  if (const int rc = closeCmId(id); rc != 0) return failCm(args, "rdma_destroy_id", rc);
  reap(channel, &args.env());
  return undefined(napi);
}

}  // namespace isoverbs
