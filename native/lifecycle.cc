// Closing: children before parents, by the application or at the end of the env that made the objects.
#include <sched.h>

#include <cerrno>
#include <cstdlib>

#include "cm.h"
#include "objects.h"

namespace isoverbs {

void SpinLock::lock() {
  for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); spins++) {
    if (spins > 100) sched_yield();
  }
}

namespace {

void leave(Object* parent, Kind kind) { parent->children[static_cast<uint32_t>(kind)]--; }

}  // namespace

int closeContext(Context* context) {
  retire(context);
  // Nothing can be done about a failure: the handle stays closed.
  const int rc = verbs()->closeDevice(context->ctx);
  delete context;
  return rc < 0 ? EIO : rc;
}

int closePd(Pd* pd) {
  if (const int rc = verbs()->deallocPd(pd->pd); rc != 0) return rc;
  retire(pd);
  leave(pd->context, Kind::Pd);
  delete pd;
  return 0;
}

int closeMr(Mr* mr, Env* caller) {
  if (const int rc = verbs()->deregMr(mr->mr); rc != 0) return rc;
  retire(mr);
  leave(mr->pd, Kind::Mr);
  if (mr->foreign != nullptr) mr->foreign->live.store(false, std::memory_order_release);
  const Dropped dropped{.ref = mr->ref, .detach = mr->memory != nullptr, .foreign = mr->foreign};
  dropReference(*mr->owner, caller, dropped);
  if (mr->memory != nullptr) mr->memory->release();
  delete mr;
  return 0;
}

int closeChannel(Channel* channel) {
  if (const int rc = verbs()->destroyCompChannel(channel->channel); rc != 0) return rc;
  retire(channel);
  leave(channel->context, Kind::Channel);
  delete channel;
  return 0;
}

int closeCq(Cq* cq) {
  // Stale first: libibverbs frees the CQ, and another thread may be polling it. It has no queue pairs, so
  // a refusal would be the device's own failure: the handle is closed all the same.
  retire(cq);
  const int rc = verbs()->destroyCq(cq->cq);
  leave(cq->context, Kind::Cq);
  if (cq->channel != nullptr) leave(cq->channel, Kind::Cq);
  delete cq;
  return rc;
}

int closeQp(Qp* qp) {
  retire(qp);
  const int rc = verbs()->destroyQp(qp->qp);
  leave(qp->pd, Kind::Qp);
  leave(qp->sendCq, Kind::Qp);
  if (qp->recvCq != qp->sendCq) leave(qp->recvCq, Kind::Qp);
  free(qp->send.ids);
  free(qp->recv.ids);
  delete qp;
  return rc;
}

void reap(Object* parent, Env* caller) {
  if (!parent->orphan || !parent->childless()) return;
  switch (static_cast<Kind>(parent->handle >> kKindShift)) {
    case Kind::Context:
      closeContext(static_cast<Context*>(parent));
      return;
    case Kind::Pd: {
      Context* context = static_cast<Pd*>(parent)->context;
      if (closePd(static_cast<Pd*>(parent)) == 0) reap(context, caller);
      return;
    }
    case Kind::Cq: {
      auto* cq = static_cast<Cq*>(parent);
      Context* context = cq->context;
      Channel* channel = cq->channel;
      if (closeCq(cq) != 0) return;
      if (channel != nullptr) reap(channel, caller);
      reap(context, caller);
      return;
    }
    case Kind::Channel: {
      Context* context = static_cast<Channel*>(parent)->context;
      if (closeChannel(static_cast<Channel*>(parent)) == 0) reap(context, caller);
      return;
    }
#ifdef ISOVERBS_HAVE_RDMACM
    case Kind::CmId: {
      CmChannel* channel = static_cast<CmId*>(parent)->channel;
      if (closeCmId(static_cast<CmId*>(parent)) == 0) reap(channel, caller);
      return;
    }
    case Kind::CmChannel:
      closeCmChannel(static_cast<CmChannel*>(parent));
      return;
#endif
    default:
      return;
  }
}

namespace {

/** Closes one object of an ending env, or leaves it to its children of other envs. */
void closeAtEnd(Object* object, Env& env) {
  const Kind kind = static_cast<Kind>(object->handle >> kKindShift);
  if (!object->childless()) {
    object->orphan = true;
    object->owner = nullptr;
    return;
  }
  switch (kind) {
    case Kind::Qp: {
      auto* qp = static_cast<Qp*>(object);
      Object* parents[] = {qp->pd, qp->sendCq, qp->recvCq == qp->sendCq ? nullptr : qp->recvCq};
      closeQp(qp);
      for (Object* parent : parents) {
        if (parent != nullptr) reap(parent, &env);
      }
      return;
    }
    case Kind::Mr: {
      Pd* pd = static_cast<Mr*>(object)->pd;
      if (closeMr(static_cast<Mr*>(object), &env) == 0) reap(pd, &env);
      return;
    }
    case Kind::WrRing:
    case Kind::WcRing:
      return closeRing(kind, static_cast<Ring*>(object), &env);
    default:
      object->orphan = true;
      object->owner = nullptr;
      return reap(object, &env);
  }
}

}  // namespace

void closeAllOf(Env& env) {
  constexpr Kind kOrder[] = {Kind::CmId,    Kind::CmChannel, Kind::Qp,      Kind::Cq,      Kind::Mr,     Kind::Pd,
                             Kind::Channel, Kind::Context, Kind::WrRing, Kind::WcRing};
  for (const Kind kind : kOrder) {
    forEach(
        kind,
        [](Object* object, void* arg) {
          Env* ending = static_cast<Env*>(arg);
          if (object->owner == ending) closeAtEnd(object, *ending);
        },
        &env);
  }
}

}  // namespace isoverbs
