// Events of the null device: completion events on channels, and asynchronous events.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "null_device.h"

namespace null_device {

namespace {

const void* elementOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    default:
      return nullptr;
  }
}

/** How long a destroy waits for the acknowledgement, which only another thread can make. */
template <class Ready>
void awaitAcknowledged(std::mutex& mutex, Ready ready) {
  for (int i = 0; i < 5000; i++) {
    {
      const std::lock_guard lock(mutex);
      if (ready()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  broken("an object with unacknowledged events was destroyed");
}

void drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(fd, &count, sizeof count);
}

void signal(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(fd, &one, sizeof one);
}

}  // namespace

void raise(ibv_context* context, ibv_async_event event) {
  Events& events = of(context)->events;
  const std::lock_guard lock(events.mutex);
  // The number of events that a kernel would queue.
  if (events.waiting.size() >= 256) return;
  events.waiting.push_back(event);
  signal(context->async_fd);
}

void raiseQp(Qp& qp, ibv_event_type type) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.qp = &qp.qp_base;
  raise(qp.qp_base.context, event);
}

void forget(ibv_context* context, const void* element) {
  Events& events = of(context)->events;
  {
    const std::lock_guard lock(events.mutex);
    std::erase_if(events.waiting, [element](const ibv_async_event& event) { return elementOf(event) == element; });
  }
  awaitAcknowledged(events.mutex, [&] { return events.unacknowledged.count(element) == 0; });
}

void notify(Cq& cq) {
  if (!cq.armed.load(std::memory_order_relaxed) || cq.head == cq.tail || !cq.armed.exchange(false)) return;
  auto* channel = static_cast<Channel*>(cq.channel);
  const std::lock_guard lock(channel->mutex);
  channel->waiting.push_back(&cq);
  signal(channel->fd);
}

void forgetCompletions(Cq& cq) {
  auto* channel = static_cast<Channel*>(cq.channel);
  if (channel == nullptr) return;
  {
    const std::lock_guard lock(channel->mutex);
    std::erase(channel->waiting, &cq);
  }
  awaitAcknowledged(channel->mutex, [&] { return channel->unacknowledged.count(&cq) == 0; });
}

int reqNotify(ibv_cq* cq, int) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  require(cq->channel != nullptr, "a completion queue without a channel was armed");
  of(cq)->armed.store(true);
  return 0;
}

}  // namespace null_device

using namespace null_device;

extern "C" {

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Events& events = of(context)->events;
  const std::lock_guard lock(events.mutex);
  if (events.waiting.empty()) {
    drain(context->async_fd);
    errno = EAGAIN;
    return -1;
  }
  *event = events.waiting.front();
  events.waiting.pop_front();
  if (const void* element = elementOf(*event)) events.unacknowledged[element]++;
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  const void* element = elementOf(*event);
  if (element == nullptr) return;
  ibv_context* context = nullptr;
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    context = event->element.cq->context;
  } else if (event->event_type == IBV_EVENT_SRQ_ERR || event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    context = event->element.srq->context;
  } else {
    context = event->element.qp->context;
  }
  Events& events = of(context)->events;
  const std::lock_guard lock(events.mutex);
  if (--events.unacknowledged[element] == 0) events.unacknowledged.erase(element);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (faultErrno()) return nullptr;
  auto* channel = new Channel{};
  channel->context = context;
  channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  of(context)->users++;
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  auto* channel = static_cast<Channel*>(base);
  require(channel->users == 0, "a channel with completion queues was destroyed");
  if (const int errnum = fault(); errnum != 0) return errnum;
  of(channel->context)->users--;
  close(channel->fd);
  delete channel;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq, void** user) {
  auto* channel = static_cast<Channel*>(base);
  const std::lock_guard lock(channel->mutex);
  if (channel->waiting.empty()) {
    drain(channel->fd);
    errno = EAGAIN;
    return -1;
  }
  Cq* found = channel->waiting.front();
  channel->waiting.pop_front();
  channel->unacknowledged[found]++;
  *cq = found->base();
  *user = found->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* base, unsigned int count) {
  Cq* cq = of(base);
  auto* channel = static_cast<Channel*>(cq->channel);
  const std::lock_guard lock(channel->mutex);
  int& left = channel->unacknowledged[cq];
  left -= static_cast<int>(count);
  if (left == 0) channel->unacknowledged.erase(cq);
}
}
