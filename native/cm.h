// The objects behind the connection manager's handles, and librdmacm, opened at run time like libibverbs.
#pragma once

#include <string>

namespace isoverbs {

/** Why cm() is null; empty if the library is available. */
std::string cmError();

}  // namespace isoverbs

#ifdef ISOVERBS_HAVE_RDMACM

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <vector>

#include "args.h"
#include "objects.h"
#include "watch.h"

namespace isoverbs {

/** The functions of librdmacm. */
struct Cm {
  decltype(&::rdma_create_event_channel) createEventChannel;
  decltype(&::rdma_destroy_event_channel) destroyEventChannel;
  decltype(&::rdma_create_id) createId;
  decltype(&::rdma_destroy_id) destroyId;
  decltype(&::rdma_bind_addr) bindAddr;
  decltype(&::rdma_resolve_addr) resolveAddr;
  decltype(&::rdma_resolve_route) resolveRoute;
  decltype(&::rdma_listen) listen;
  decltype(&::rdma_connect) connect;
  decltype(&::rdma_establish) establish;
  decltype(&::rdma_accept) accept;
  decltype(&::rdma_reject) reject;
  decltype(&::rdma_disconnect) disconnect;
  decltype(&::rdma_notify) notify;
  decltype(&::rdma_init_qp_attr) initQpAttr;
  decltype(&::rdma_join_multicast) joinMulticast;
  decltype(&::rdma_leave_multicast) leaveMulticast;
  decltype(&::rdma_get_cm_event) getEvent;
  decltype(&::rdma_ack_cm_event) ackEvent;
};

/** The library, opened at the first call; null if it is not available. */
const Cm* cm();

struct CmChannel : Watchable {
  static constexpr Kind kKind = Kind::CmChannel;
  rdma_event_channel* channel = nullptr;
};

struct CmId : Object {
  static constexpr Kind kKind = Kind::CmId;
  CmChannel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  /**
   * A connection request's identifier until a verb names it. It is closed with its channel, since JavaScript
   * may not know it.
   */
  bool untaken = false;
  /** Joined groups: librdmacm loses track of groups that were never left, and does not free them. */
  std::vector<sockaddr_storage> groups;
};

// As in objects.h: called with the control mutex held; returns the errno of librdmacm, or 0.
int closeCmId(CmId* id);
int closeCmChannel(CmChannel* channel);

/** The live identifier behind a handle argument, marked as taken; null with an exception pending. */
CmId* cmIdOf(Args& args, size_t i);

/** Throws the error that matches an errno of `call`, a function of librdmacm. */
napi_value failCm(Args& args, const char* call, int errnum);

// Functions that JavaScript sees (src/providers/rdma-core/cm.ts types them).
napi_value createEventChannel(napi_env env, napi_callback_info info);
napi_value destroyEventChannel(napi_env env, napi_callback_info info);
napi_value watchEventChannel(napi_env env, napi_callback_info info);
napi_value refEventChannel(napi_env env, napi_callback_info info);
napi_value createId(napi_env env, napi_callback_info info);
napi_value destroyId(napi_env env, napi_callback_info info);
napi_value queryId(napi_env env, napi_callback_info info);
napi_value bindAddr(napi_env env, napi_callback_info info);
napi_value resolveAddr(napi_env env, napi_callback_info info);
napi_value resolveRoute(napi_env env, napi_callback_info info);
napi_value listenCm(napi_env env, napi_callback_info info);
napi_value connectCm(napi_env env, napi_callback_info info);
napi_value establish(napi_env env, napi_callback_info info);
napi_value acceptCm(napi_env env, napi_callback_info info);
napi_value reject(napi_env env, napi_callback_info info);
napi_value disconnect(napi_env env, napi_callback_info info);
napi_value notify(napi_env env, napi_callback_info info);
napi_value initQpAttr(napi_env env, napi_callback_info info);
napi_value joinMulticast(napi_env env, napi_callback_info info);
napi_value leaveMulticast(napi_env env, napi_callback_info info);

}  // namespace isoverbs

#endif
