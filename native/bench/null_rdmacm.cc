// librdmacm of the null device: identifiers of one process find each other by the ports they listen on, and every step
// succeeds at once, except for the faults of ISOVERBS_NULL_FAULTS.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <vector>

#include "null_device.h"

namespace {

using null_device::draw;
using null_device::faultErrno;
using null_device::faultPermille;
using null_device::require;

struct Id;

struct Event : rdma_cm_event {
  uint8_t privateData[256];
};

struct Channel : rdma_event_channel {
  std::list<Event*> waiting;
  int users = 0;
};

struct Id : rdma_cm_id {
  Id* peer = nullptr;
  bool listening = false;
  int unacknowledged = 0;
  std::list<sockaddr_storage> groups;
};

std::mutex mutex;
std::list<Id*> ids;

/** As in librdmacm, identifiers share an open device that is never closed. */
ibv_context* device() {
  static ibv_context* context = [] {
    const uint32_t permille = faultPermille;
    faultPermille = 0;
    ibv_context* opened = ibv_open_device(ibv_get_device_list(nullptr)[0]);
    faultPermille = permille;
    return opened;
  }();
  return context;
}

void push(Id* id, rdma_cm_event_type type, int status = 0, const rdma_conn_param* from = nullptr, Id* listener = nullptr) {
  auto* event = new Event{};
  event->id = id;
  event->listen_id = listener;
  event->event = type;
  event->status = status;
  rdma_conn_param& conn = event->param.conn;
  if (from != nullptr) {
    conn = *from;
    if (from->private_data_len != 0) std::memcpy(event->privateData, from->private_data, from->private_data_len);
    conn.private_data = from->private_data_len == 0 ? nullptr : event->privateData;
  }
  auto* channel = static_cast<Channel*>(id->channel);
  channel->waiting.push_back(event);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(channel->fd, &one, sizeof one);
}

void freeId(Id* id) {
  static_cast<Channel*>(id->channel)->users--;
  ids.remove(id);
  delete id;
}

/**
 * Drops events that were not fetched. Dropping a connection request with its listener also destroys the request's
 * identifier.
 */
void forgetEvents(Id* id) {
  auto& waiting = static_cast<Channel*>(id->channel)->waiting;
  std::vector<Id*> requests;
  for (auto it = waiting.begin(); it != waiting.end();) {
    Event* event = *it;
    if (event->id != id && event->listen_id != id) {
      ++it;
      continue;
    }
    it = waiting.erase(it);
    if (event->id != id) requests.push_back(static_cast<Id*>(event->id));
    delete event;
  }
  for (Id* requested : requests) {
    // A request whose other end has left has a second event in the queue.
    forgetEvents(requested);
    if (requested->peer != nullptr) requested->peer->peer = nullptr;
    freeId(requested);
  }
}

Id* listenerAt(in_port_t port) {
  for (Id* id : ids) {
    if (id->listening && id->route.addr.src_sin.sin_port == port) return id;
  }
  return nullptr;
}

Id* makeId(Channel* channel, void* context, rdma_port_space space) {
  auto* id = new Id{};
  id->channel = channel;
  id->context = context;
  id->ps = space;
  channel->users++;
  ids.push_back(id);
  return id;
}

void copyAddress(sockaddr_storage* to, const sockaddr* from) {
  require(from->sa_family == AF_INET || from->sa_family == AF_INET6, "an address has an unknown family");
  std::memcpy(to, from, from->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

void bindDevice(Id* id) {
  id->verbs = device();
  id->port_num = 1;
}

int invalid() {
  errno = EINVAL;
  return -1;
}

bool isPrivateData(const rdma_conn_param* param) {
  return param->private_data_len == 0 || param->private_data != nullptr;
}

}  // namespace

extern "C" {

rdma_event_channel* rdma_create_event_channel(void) {
  if (faultErrno()) return nullptr;
  auto* channel = new Channel{};
  channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return channel;
}

void rdma_destroy_event_channel(rdma_event_channel* base) {
  auto* channel = static_cast<Channel*>(base);
  require(channel->users == 0, "an event channel with identifiers was destroyed");
  close(channel->fd);
  delete channel;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  const std::lock_guard lock(mutex);
  if (faultErrno()) return -1;
  *id = makeId(static_cast<Channel*>(channel), context, space);
  return 0;
}

int rdma_destroy_id(rdma_cm_id* base) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  require(id->unacknowledged == 0, "an identifier with unacknowledged events was destroyed");
  require(id->groups.empty(), "an identifier was destroyed before it left its groups");
  if (faultErrno()) return -1;
  forgetEvents(id);
  if (id->peer != nullptr) {
    id->peer->peer = nullptr;
    push(id->peer, RDMA_CM_EVENT_DISCONNECTED);
  }
  freeId(id);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* base, sockaddr* address) {
  const std::lock_guard lock(mutex);
  if (faultErrno()) return -1;
  auto* id = static_cast<Id*>(base);
  copyAddress(&id->route.addr.src_storage, address);
  bindDevice(id);
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* base, sockaddr* from, sockaddr* to, int) {
  const std::lock_guard lock(mutex);
  if (faultErrno()) return -1;
  auto* id = static_cast<Id*>(base);
  if (from != nullptr) copyAddress(&id->route.addr.src_storage, from);
  copyAddress(&id->route.addr.dst_storage, to);
  if (faultPermille != 0 && draw(1000) < faultPermille) {
    push(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    return 0;
  }
  bindDevice(id);
  push(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int rdma_resolve_route(rdma_cm_id* base, int) {
  const std::lock_guard lock(mutex);
  require(base->verbs != nullptr, "a route was resolved without a device");
  if (faultErrno()) return -1;
  push(static_cast<Id*>(base), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_listen(rdma_cm_id* base, int) {
  const std::lock_guard lock(mutex);
  if (faultErrno()) return -1;
  static_cast<Id*>(base)->listening = true;
  return 0;
}

int rdma_connect(rdma_cm_id* base, rdma_conn_param* param) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  require(id->verbs != nullptr && isPrivateData(param), "a connection has no device, or no private data");
  if (faultErrno()) return -1;
  if (id->peer != nullptr || id->listening) return invalid();
  Id* listener = listenerAt(id->route.addr.dst_sin.sin_port);
  if (listener == nullptr || listener == id) {
    push(id, RDMA_CM_EVENT_REJECTED, 8);
    return 0;
  }
  Id* accepted = makeId(static_cast<Channel*>(listener->channel), listener->context, listener->ps);
  bindDevice(accepted);
  accepted->route.addr.src_storage = listener->route.addr.src_storage;
  accepted->peer = id;
  id->peer = accepted;
  push(accepted, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, listener);
  return 0;
}

int rdma_accept(rdma_cm_id* base, rdma_conn_param* param) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  require(isPrivateData(param), "an answer has no private data");
  if (faultErrno()) return -1;
  if (id->peer == nullptr) return invalid();
  push(id->peer, id->ps == RDMA_PS_TCP ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED, 0, param);
  return 0;
}

int rdma_establish(rdma_cm_id* base) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  if (faultErrno()) return -1;
  if (id->peer == nullptr) return invalid();
  push(id->peer, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int rdma_reject(rdma_cm_id* base, const void* data, uint8_t length) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  if (faultErrno()) return -1;
  if (id->peer == nullptr) return invalid();
  rdma_conn_param param = {};
  param.private_data = data;
  param.private_data_len = length;
  push(id->peer, RDMA_CM_EVENT_REJECTED, 28, &param);
  id->peer->peer = nullptr;
  id->peer = nullptr;
  return 0;
}

int rdma_disconnect(rdma_cm_id* base) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  if (faultErrno()) return -1;
  if (id->peer == nullptr) return invalid();
  push(id->peer, RDMA_CM_EVENT_DISCONNECTED);
  push(id, RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}

int rdma_notify(rdma_cm_id*, ibv_event_type) { return faultErrno() ? -1 : 0; }

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr*, int* mask) {
  require(id->verbs != nullptr, "attributes were requested of an identifier without a device");
  if (faultErrno()) return -1;
  *mask = IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC;
  return 0;
}

int rdma_join_multicast(rdma_cm_id* base, sockaddr* address, void*) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  require(id->verbs != nullptr, "a group was joined without a device");
  if (faultErrno()) return -1;
  sockaddr_storage group = {};
  copyAddress(&group, address);
  id->groups.push_back(group);
  push(id, RDMA_CM_EVENT_MULTICAST_JOIN);
  return 0;
}

int rdma_leave_multicast(rdma_cm_id* base, sockaddr* address) {
  const std::lock_guard lock(mutex);
  auto* id = static_cast<Id*>(base);
  sockaddr_storage group = {};
  copyAddress(&group, address);
  const auto found = std::find_if(id->groups.begin(), id->groups.end(), [&group](const sockaddr_storage& joined) {
    return std::memcmp(&joined, &group, sizeof group) == 0;
  });
  require(found != id->groups.end(), "a group was left that was not joined");
  id->groups.erase(found);
  // Even after a failure the identifier leaves the group, as in librdmacm.
  return faultErrno() ? -1 : 0;
}

int rdma_get_cm_event(rdma_event_channel* base, rdma_cm_event** event) {
  const std::lock_guard lock(mutex);
  auto* channel = static_cast<Channel*>(base);
  if (channel->waiting.empty()) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(channel->fd, &count, sizeof count);
    errno = EAGAIN;
    return -1;
  }
  Event* found = channel->waiting.front();
  channel->waiting.pop_front();
  static_cast<Id*>(found->id)->unacknowledged++;
  *event = found;
  return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  const std::lock_guard lock(mutex);
  static_cast<Id*>(event->id)->unacknowledged--;
  delete static_cast<Event*>(event);
  return 0;
}
}
