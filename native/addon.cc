// The addon's entry: one Env for each env that loads it, and the table of functions.
#include <napi.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "args.h"
#include "cm.h"
#include "env.h"
#include "exports.h"
#include "loader.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/**
 * detachBuffer(buffer): for runtimes whose ArrayBuffers have no transfer(). Never used on other runtimes: there a
 * buffer may carry a detach key (markAsUntransferable), and napi_detach_arraybuffer ends the process.
 */
napi_value detachBuffer(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "detachBuffer");
  bool is = false;
  if (napi_is_arraybuffer(napi, args.value(0), &is) == napi_ok && is) napi_detach_arraybuffer(napi, args.value(0));
  return undefined(napi);
}

/** init(makeError, allocShared, detach): functions that the addon requires from TypeScript. */
napi_value init(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "init");
  Env& env = args.env();
  napi_ref* const refs[] = {&env.makeError, &env.allocShared, &env.detach};
  for (size_t i = 0; i < 3; i++) {
    napi_valuetype type = napi_undefined;
    if (napi_typeof(napi, args.value(i), &type) != napi_ok || type != napi_function) {
      return fail(env, Err::Argument, "init", 0, "argument %zu must be a function", i + 1);
    }
  }
  for (size_t i = 0; i < 3; i++) {
    if (*refs[i] != nullptr) napi_delete_reference(napi, *refs[i]);
    napi_create_reference(napi, args.value(i), 1, refs[i]);
  }
  return undefined(napi);
}

/** Which libraries can be opened: null for those that can, otherwise the reason why not. */
napi_value status(napi_env napi, napi_callback_info) {
  Result result(napi);
#ifdef ISOVERBS_HAVE_VERBS
  result.boolean("verbs", true);
#else
  result.boolean("verbs", false);
#endif
  const char* const kLibraries[][2] = {
      {"libibverbs", verbsLibraryName()}, {"librdmacm", cmLibraryName()}, {"libmlx5", "libmlx5.so.1"}};
  for (const auto& [name, soname] : kLibraries) {
    std::string reason = probeLibrary(soname, nullptr);
#ifdef ISOVERBS_HAVE_VERBS
    if (reason.empty() && std::strcmp(name, "libibverbs") == 0) reason = verbsError();
    if (reason.empty() && std::strcmp(name, "librdmacm") == 0) reason = cmError();
#endif
    if (reason.empty()) {
      result.null(name);
    } else {
      result.string(name, reason.c_str());
    }
  }
  return result;
}

/** More CPUs than any kernel supports. */
constexpr uint32_t kMaxCpus = 65536;

/** pinThread(cpu): binds the calling thread to this CPU. Does not require rdma-core. */
napi_value pinThread(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "pinThread");
  const uint32_t cpu = args.uint32(0);
  if (!args.ok()) return nullptr;
  Env& env = args.env();
  if (cpu >= kMaxCpus) return fail(env, Err::Argument, args.verb(), 0, "there is no CPU %u", cpu);
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  if (set == nullptr) return failErrno(env, args.verb(), ENOMEM);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  const int errnum = sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  if (errnum == 0) return undefined(napi);
  if (errnum != EINVAL) return failErrno(env, args.verb(), errnum);
  // The kernel reports the same error for a CPU that does not exist and for one that this process may not use.
  const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  if (access(path.c_str(), F_OK) != 0) return fail(env, Err::Argument, args.verb(), errnum, "there is no CPU %u", cpu);
  return fail(env, Err::Argument, args.verb(), errnum, "CPU %u is offline, or not in this process's cpuset", cpu);
}

/**
 * Incremented whenever the interface to TypeScript changes: a build of another version must not be used. TypeScript can
 * work without pinThread.
 */
constexpr uint32_t kInterfaceVersion = 3;

constexpr Function kFunctions[] = {
    {"init", init},
    {"status", status},
    {"detachBuffer", detachBuffer},
    {"pinThread", pinThread},
    {"createWrRing", createWrRing},
    {"createWcRing", createWcRing},
    {"destroyRing", destroyRing},
#ifdef ISOVERBS_HAVE_VERBS
    {"getDeviceList", getDeviceList},
    {"openDevice", openDevice},
    {"probeWait", probeWait},
    {"closeDevice", closeDevice},
    {"queryDevice", queryDevice},
    {"queryPort", queryPort},
    {"queryGid", queryGid},
    {"queryDeviceEx", queryDeviceEx},
    {"queryRtValues", queryRtValues},
    {"queryPkey", queryPkey},
    {"watchAsyncEvents", watchAsyncEvents},
    {"refAsyncEvents", refAsyncEvents},
    {"resizeCq", resizeCq},
    {"modifyCq", modifyCq},
    {"modifyQpRateLimit", modifyQpRateLimit},
    {"queryQpDataInOrder", queryQpDataInOrder},
    {"queryEce", queryEce},
    {"setEce", setEce},
    {"allocPd", allocPd},
    {"deallocPd", deallocPd},
    {"allocMr", allocMr},
    {"regMr", regMr},
    {"deregMr", deregMr},
    {"regDmabufMr", regDmabufMr},
    {"reregMr", reregMr},
    {"allocMw", allocMw},
    {"queryMw", queryMw},
    {"deallocMw", deallocMw},
    {"createAh", createAh},
    {"destroyAh", destroyAh},
    {"attachMcast", attachMcast},
    {"detachMcast", detachMcast},
    {"openXrcd", openXrcd},
    {"closeXrcd", closeXrcd},
    {"createSrq", createSrq},
    {"modifySrq", modifySrq},
    {"querySrq", querySrq},
    {"destroySrq", destroySrq},
    {"postSrqRecv", postSrqRecv},
    {"createCompChannel", createCompChannel},
    {"destroyCompChannel", destroyCompChannel},
    {"watchCompChannel", watchCompChannel},
    {"refCompChannel", refCompChannel},
    {"createCq", createCq},
    {"destroyCq", destroyCq},
    {"reqNotifyCq", reqNotifyCq},
    {"createQp", createQp},
    {"modifyQp", modifyQp},
    {"knownState", knownState},
    {"queryQp", queryQp},
    {"destroyQp", destroyQp},
    {"callBlock", callBlock},
    {"postSend", postSend},
    {"postRecv", postRecv},
    {"validateSend", validateSend},
    {"pollCq", pollCq},
#endif
#ifdef ISOVERBS_HAVE_RDMACM
    {"createEventChannel", createEventChannel},
    {"destroyEventChannel", destroyEventChannel},
    {"watchEventChannel", watchEventChannel},
    {"refEventChannel", refEventChannel},
    {"createId", createId},
    {"destroyId", destroyId},
    {"queryId", queryId},
    {"bindAddr", bindAddr},
    {"resolveAddr", resolveAddr},
    {"resolveRoute", resolveRoute},
    {"listen", listenCm},
    {"connect", connectCm},
    {"establish", establish},
    {"accept", acceptCm},
    {"reject", reject},
    {"disconnect", disconnect},
    {"notify", notify},
    {"initQpAttr", initQpAttr},
    {"joinMulticast", joinMulticast},
    {"leaveMulticast", leaveMulticast},
#endif
};

}  // namespace

#ifndef ISOVERBS_HAVE_VERBS

void freeScratch(Scratch*) {}

void closeAllOf(Env& env) {
  for (const Kind kind : {Kind::WrRing, Kind::WcRing}) {
    forEach(
        kind,
        [](Object* object, void* arg) {
          Env* ending = static_cast<Env*>(arg);
          if (object->owner == ending) closeRing(static_cast<Kind>(object->handle >> kKindShift), static_cast<Ring*>(object), ending);
        },
        &env);
  }
}

#endif

}  // namespace isoverbs

/** Sets the exports with plain Node-API (exports.h), because calls of node-addon-api may abort the process. */
static Napi::Object initModule(Napi::Env env, Napi::Object exports) {
  using namespace isoverbs;
  Env* state = createEnv(env);
  if (state != nullptr) exportFunctions(state, exports, kFunctions, kInterfaceVersion);
  return exports;
}

NODE_API_MODULE(isoverbs, initModule)
