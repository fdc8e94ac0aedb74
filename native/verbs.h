// The functions that JavaScript sees (src/providers/rdma-core/addon.ts types them).
#pragma once

#include <node_api.h>

namespace isoverbs {

napi_value createWrRing(napi_env env, napi_callback_info info);
napi_value createWcRing(napi_env env, napi_callback_info info);
napi_value destroyRing(napi_env env, napi_callback_info info);

#ifdef ISOVERBS_HAVE_VERBS
napi_value getDeviceList(napi_env env, napi_callback_info info);
napi_value openDevice(napi_env env, napi_callback_info info);
napi_value probeWait(napi_env env, napi_callback_info info);
napi_value closeDevice(napi_env env, napi_callback_info info);
napi_value queryDevice(napi_env env, napi_callback_info info);
napi_value queryPort(napi_env env, napi_callback_info info);
napi_value queryGid(napi_env env, napi_callback_info info);
napi_value queryDeviceEx(napi_env env, napi_callback_info info);
napi_value queryRtValues(napi_env env, napi_callback_info info);
napi_value queryPkey(napi_env env, napi_callback_info info);
napi_value watchAsyncEvents(napi_env env, napi_callback_info info);
napi_value refAsyncEvents(napi_env env, napi_callback_info info);
napi_value resizeCq(napi_env env, napi_callback_info info);
napi_value modifyCq(napi_env env, napi_callback_info info);
napi_value modifyQpRateLimit(napi_env env, napi_callback_info info);
napi_value queryQpDataInOrder(napi_env env, napi_callback_info info);
napi_value queryEce(napi_env env, napi_callback_info info);
napi_value setEce(napi_env env, napi_callback_info info);
napi_value allocPd(napi_env env, napi_callback_info info);
napi_value deallocPd(napi_env env, napi_callback_info info);
napi_value allocMr(napi_env env, napi_callback_info info);
napi_value regMr(napi_env env, napi_callback_info info);
napi_value regDmabufMr(napi_env env, napi_callback_info info);
napi_value reregMr(napi_env env, napi_callback_info info);
napi_value deregMr(napi_env env, napi_callback_info info);
napi_value allocMw(napi_env env, napi_callback_info info);
napi_value queryMw(napi_env env, napi_callback_info info);
napi_value deallocMw(napi_env env, napi_callback_info info);
napi_value createAh(napi_env env, napi_callback_info info);
napi_value destroyAh(napi_env env, napi_callback_info info);
napi_value attachMcast(napi_env env, napi_callback_info info);
napi_value detachMcast(napi_env env, napi_callback_info info);
napi_value openXrcd(napi_env env, napi_callback_info info);
napi_value closeXrcd(napi_env env, napi_callback_info info);
napi_value createSrq(napi_env env, napi_callback_info info);
napi_value modifySrq(napi_env env, napi_callback_info info);
napi_value querySrq(napi_env env, napi_callback_info info);
napi_value destroySrq(napi_env env, napi_callback_info info);
napi_value postSrqRecv(napi_env env, napi_callback_info info);
napi_value createCompChannel(napi_env env, napi_callback_info info);
napi_value destroyCompChannel(napi_env env, napi_callback_info info);
napi_value watchCompChannel(napi_env env, napi_callback_info info);
napi_value refCompChannel(napi_env env, napi_callback_info info);
napi_value createCq(napi_env env, napi_callback_info info);
napi_value destroyCq(napi_env env, napi_callback_info info);
napi_value reqNotifyCq(napi_env env, napi_callback_info info);
napi_value createQp(napi_env env, napi_callback_info info);
napi_value modifyQp(napi_env env, napi_callback_info info);
napi_value knownState(napi_env env, napi_callback_info info);
napi_value queryQp(napi_env env, napi_callback_info info);
napi_value destroyQp(napi_env env, napi_callback_info info);
napi_value callBlock(napi_env env, napi_callback_info info);
napi_value postSend(napi_env env, napi_callback_info info);
napi_value postRecv(napi_env env, napi_callback_info info);
napi_value validateSend(napi_env env, napi_callback_info info);
napi_value pollCq(napi_env env, napi_callback_info info);
#endif

}  // namespace isoverbs
