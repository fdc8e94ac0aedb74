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

Parents parentsOf(Object* object) {
  Parents parents;
  switch (static_cast<Kind>(object->handle >> kKindShift)) {
    case Kind::Pd:
      parents.add(static_cast<Pd*>(object)->context);
      break;
    case Kind::Xrcd:
      parents.add(static_cast<Xrcd*>(object)->context);
      break;
    case Kind::Channel:
      parents.add(static_cast<Channel*>(object)->context);
      break;
    case Kind::Cq:
      parents.add(static_cast<Cq*>(object)->context);
      parents.add(static_cast<Cq*>(object)->channel);
      break;
    case Kind::Mr:
      parents.add(static_cast<Mr*>(object)->pd);
      break;
    case Kind::Mw:
      parents.add(static_cast<Mw*>(object)->pd);
      break;
    case Kind::Ah:
      parents.add(static_cast<Ah*>(object)->pd);
      break;
    case Kind::Srq: {
      auto* srq = static_cast<Srq*>(object);
      for (Object* parent : {static_cast<Object*>(srq->pd), static_cast<Object*>(srq->xrcd),
                             static_cast<Object*>(srq->cq)}) {
        parents.add(parent);
      }
      break;
    }
    case Kind::Qp: {
      auto* qp = static_cast<Qp*>(object);
      for (Object* parent : {static_cast<Object*>(qp->pd), static_cast<Object*>(qp->xrcd),
                             static_cast<Object*>(qp->sendCq), static_cast<Object*>(qp->recvCq),
                             static_cast<Object*>(qp->srq)}) {
        parents.add(parent);
      }
      break;
    }
#ifdef ISOVERBS_HAVE_RDMACM
    case Kind::CmId:
      parents.add(static_cast<CmId*>(object)->channel);
      break;
#endif
    default:
      break;
  }
  return parents;
}

void enter(Object* object) {
  for (Object* parent : parentsOf(object)) parent->children[object->handle >> kKindShift]++;
}

void leave(Object* object) {
  for (Object* parent : parentsOf(object)) parent->children[object->handle >> kKindShift]--;
}

int closeContext(Context* context) {
  retire(context);
  // Failures are ignored, because the handle stays closed anyway.
  const int rc = verbs()->closeDevice(context->ctx);
  delete context;
  return rc < 0 ? EIO : rc;
}

int closePd(Pd* pd) {
  if (const int rc = verbs()->deallocPd(pd->pd); rc != 0) return rc;
  retire(pd);
  leave(pd);
  delete pd;
  return 0;
}

int closeMr(Mr* mr, Env* caller) {
  if (const int rc = verbs()->deregMr(mr->mr); rc != 0) return rc;
  retire(mr);
  leave(mr);
  if (mr->foreign != nullptr) mr->foreign->live.store(false, std::memory_order_release);
  const Dropped dropped{.ref = mr->ref, .detach = mr->memory != nullptr, .foreign = mr->foreign};
  // A null owner has ended without closing the region, because a window was bound; its references ended with it.
  if (mr->owner != nullptr) dropReference(*mr->owner, caller, dropped);
  if (mr->memory != nullptr) mr->memory->release();
  delete mr;
  return 0;
}

int closeChannel(Channel* channel) {
  if (const int rc = verbs()->destroyCompChannel(channel->channel); rc != 0) return rc;
  retire(channel);
  leave(channel);
  delete channel;
  return 0;
}

int closeCq(Cq* cq) {
  // The handle is retired first, because libibverbs frees the CQ, and another thread may be polling it. The CQ has no
  // queue pairs, so a refusal would be a device failure; the handle is closed regardless.
  retire(cq);
  const int rc = verbs()->destroyCq(cq->cq);
  leave(cq);
  delete cq;
  return rc;
}

int closeQp(Qp* qp) {
  if (qp->srq != nullptr) qp->srq->qps.remove(qp);
  if (qp->xrcd != nullptr) qp->xrcd->qps.remove(qp);
  retire(qp);
  // The kernel refuses to destroy an attached queue pair.
  for (const McastGroup& group : qp->groups) verbs()->detachMcast(qp->qp, &group.gid, group.lid);
  const int rc = verbs()->destroyQp(qp->qp);
  leave(qp);
  free(qp->send.ids);
  free(qp->recv.ids);
  delete qp;
  return rc;
}

int closeXrcd(Xrcd* xrcd) {
  if (const int rc = ibv_close_xrcd(xrcd->xrcd); rc != 0) return rc;
  retire(xrcd);
  leave(xrcd);
  delete xrcd;
  return 0;
}

int closeSrq(Srq* srq) {
  // Retired first, like a CQ: another thread may be posting to it.
  retire(srq);
  const int rc = verbs()->destroySrq(srq->srq);
  leave(srq);
  delete srq;
  return rc;
}

int closeAh(Ah* ah) {
  retire(ah);
  const int rc = verbs()->destroyAh(ah->ah);
  leave(ah);
  delete ah;
  return rc;
}

int closeMw(Mw* mw) {
  retire(mw);
  const int rc = ibv_dealloc_mw(mw->mw);
  leave(mw);
  delete mw;
  return rc;
}

namespace {

int closeObject(Object* object, Env* caller) {
  const Kind kind = static_cast<Kind>(object->handle >> kKindShift);
  switch (kind) {
    case Kind::Context:
      return closeContext(static_cast<Context*>(object));
    case Kind::Pd:
      return closePd(static_cast<Pd*>(object));
    case Kind::Mr:
      return closeMr(static_cast<Mr*>(object), caller);
    case Kind::Cq:
      return closeCq(static_cast<Cq*>(object));
    case Kind::Qp:
      return closeQp(static_cast<Qp*>(object));
    case Kind::Channel:
      return closeChannel(static_cast<Channel*>(object));
    case Kind::Srq:
      return closeSrq(static_cast<Srq*>(object));
    case Kind::Ah:
      return closeAh(static_cast<Ah*>(object));
    case Kind::Mw:
      return closeMw(static_cast<Mw*>(object));
    case Kind::Xrcd:
      return closeXrcd(static_cast<Xrcd*>(object));
#ifdef ISOVERBS_HAVE_RDMACM
    case Kind::CmId:
      return closeCmId(static_cast<CmId*>(object));
    case Kind::CmChannel:
      return closeCmChannel(static_cast<CmChannel*>(object));
#endif
    case Kind::WrRing:
    case Kind::WcRing:
      closeRing(kind, static_cast<Ring*>(object), caller);
      return 0;
    default:
      return 0;
  }
}

}  // namespace

void reap(Object* parent, Env* caller) {
  if (!parent->orphan || !parent->childless()) return;
  Parents above = parentsOf(parent);
  closeObject(parent, caller);
  // An object that could not be closed is still a child of its parents.
  for (Object* next : above) reap(next, caller);
}

namespace {

/** Closes one object of an ending env, or leaves that to the object's children in other envs. */
void closeAtEnd(Object* object, Env& env) {
  Parents above = parentsOf(object);
  const Kind kind = static_cast<Kind>(object->handle >> kKindShift);
  bool stays = !object->childless();
  if (!stays) {
    const bool refused = closeObject(object, &env) != 0;
    // Continues with the other objects even if the device failed.
    stays = refused && (kind == Kind::Pd || kind == Kind::Mr || kind == Kind::Channel || kind == Kind::Xrcd ||
                        kind == Kind::CmId);
  }
  if (stays) {
    object->orphan = true;
    object->owner = nullptr;
  }
  for (Object* parent : above) reap(parent, &env);
}

}  // namespace

void closeAllOf(Env& env) {
  // Windows before queue pairs: soft-RoCE (Linux 6.1) waits 50 s for windows that are bound to a queue pair.
  constexpr Kind kOrder[] = {Kind::CmId, Kind::CmChannel, Kind::Mw,      Kind::Qp,      Kind::Ah,
                             Kind::Srq,  Kind::Cq,        Kind::Mr,      Kind::Pd,      Kind::Xrcd,
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
