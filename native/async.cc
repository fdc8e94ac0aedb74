// Asynchronous events of a device: about a queue pair, a completion queue, a shared receive queue or a port.
#include "args.h"
#include "objects.h"
#include "verbs.h"
#include "watch.h"

namespace isoverbs {

namespace {

/** Converts the context pointer of a libibverbs object, in which the addon stored a handle; 0 if closed. */
uint32_t liveHandle(const void* context) {
  const auto handle = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context));
  return lookupAny(handle) != nullptr ? handle : 0;
}

/** The subject of an event: a handle or a port number; 0 if it is not an object of this addon. */
uint32_t elementOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return liveHandle(event.element.cq->cq_context);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return liveHandle(event.element.qp->qp_context);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return liveHandle(event.element.srq->srq_context);
    case IBV_EVENT_WQ_FATAL:
      return 0;
    default:
      return static_cast<uint32_t>(event.element.port_num);
  }
}

struct Event {
  uint32_t type;
  uint32_t element;
};

bool fetchEvent(Watchable* object, Env&, void* out) {
  ibv_async_event event = {};
  if (verbs()->getAsyncEvent(static_cast<Context*>(object)->ctx, &event) != 0) return false;
  // Read before the acknowledgement, because destroying the element blocks until then.
  *static_cast<Event*>(out) = {static_cast<uint32_t>(event.event_type), elementOf(event)};
  verbs()->ackAsyncEvent(&event);
  return true;
}

/** Listener arguments: (event, element). */
size_t describeEvent(Env& env, const void* out, napi_value* argv) {
  const auto& [type, element] = *static_cast<const Event*>(out);
  // A device failure concerns no particular element.
  if (element == 0 && type != IBV_EVENT_DEVICE_FATAL) return 0;
  napi_create_uint32(env.env, type, &argv[0]);
  napi_create_uint32(env.env, element, &argv[1]);
  return 2;
}

constexpr WatchKind kAsyncEvents = {"isoverbs.AsyncEvents", fetchEvent, sizeof(Event), describeEvent};

}  // namespace

napi_value watchAsyncEvents(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "watchAsyncEvents");
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  return watchObject(args, context, context->ctx->async_fd, kAsyncEvents, args.value(1));
}

napi_value refAsyncEvents(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "refAsyncEvents");
  const bool keepAlive = args.boolean(1);
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  return context == nullptr ? nullptr : refObject(args, context, keepAlive);
}

}  // namespace isoverbs
