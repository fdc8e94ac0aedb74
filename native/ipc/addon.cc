// The entry of isoverbs_ipc: one IpcEnv for each env that loads it, and the table of functions.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../exports.h"
#include "ipc.h"

namespace isoverbs::ipc {

int IpcArgs::descriptor(size_t i) {
  return static_cast<int>(whole(i, "a descriptor", STDERR_FILENO + 1, INT32_MAX));
}

int IpcArgs::fd(size_t i) {
  const int fd = descriptor(i);
  if (!ok_) return -1;
  if (fcntl(fd, F_GETFD) >= 0) return fd;
  ok_ = false;
  fail(*env_, Err::Handle, verb_, errno, "descriptor %d is not open", fd);
  return -1;
}

int IpcArgs::unixSocket(size_t i) {
  const int fd = this->fd(i);
  if (!ok_) return -1;
  int domain = 0;
  int type = 0;
  socklen_t bytes = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM) {
    return fd;
  }
  ok_ = false;
  fail(*env_, Err::Argument, verb_, ENOTSOCK, "descriptor %d is no Unix stream socket", fd);
  return -1;
}

napi_value failOn(BaseArgs& args, int errnum, const char* doing) {
  const char* text = errnoText(errnum);
  const char* name = errnoName(errnum);
  Err code = Err::System;
  switch (errnum) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
    case EADDRINUSE:
    case ENOENT:
      code = Err::Connection;
      break;
    case EBADF:
      code = Err::Handle;
      break;
    case EINVAL:
    case ENOTDIR:
    case ENOTSOCK:
    case ENAMETOOLONG:
      code = Err::Argument;
      break;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:
    case ETOOMANYREFS:
      code = Err::NoResources;
      break;
    case ENOSYS:
    case EOPNOTSUPP:
      code = Err::Unsupported;
      break;
  }
  return fail(args.env(), code, args.verb(), errnum, "%s: %s (%s)", doing, text == nullptr ? "unknown error" : text,
              name == nullptr ? "?" : name);
}

namespace {

/** detachBuffer(buffer): as in native/addon.cc, for runtimes whose ArrayBuffers have no transfer(). */
napi_value detachBuffer(napi_env napi, napi_callback_info info) {
  const IpcArgs args(napi, info, "detachBuffer");
  bool is = false;
  if (napi_is_arraybuffer(napi, args.value(0), &is) == napi_ok && is) napi_detach_arraybuffer(napi, args.value(0));
  return undefined(napi);
}

/** init(makeError): functions that this addon requires from TypeScript. */
napi_value init(napi_env napi, napi_callback_info info) {
  const IpcArgs args(napi, info, "init");
  napi_valuetype type = napi_undefined;
  if (napi_typeof(napi, args.value(0), &type) != napi_ok || type != napi_function) {
    return fail(args.env(), Err::Argument, "init", 0, "argument 1 must be a function");
  }
  napi_ref& ref = args.env().makeError;
  if (ref != nullptr) napi_delete_reference(napi, ref);
  napi_create_reference(napi, args.value(0), 1, &ref);
  return undefined(napi);
}

napi_value closeFd(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "closeFd");
  const int fd = args.fd(0);
  if (!args.ok()) return nullptr;
  stopWatch(args.env(), fd);
  // Linux frees the number whatever close(2) returns.
  close(fd);
  return undefined(napi);
}

/** Incremented whenever the interface to TypeScript changes: a build of another version must not be used. */
constexpr uint32_t kInterfaceVersion = 4;

constexpr Function kFunctions[] = {
    {"init", init},
    {"detachBuffer", detachBuffer},
    {"closeFd", closeFd},
    {"createMemory", createMemory},
    {"sealMemory", sealMemory},
    {"mapMemory", mapMemory},
    {"listenUnix", listenUnix},
    {"acceptUnix", acceptUnix},
    {"connectUnix", connectUnix},
    {"peerCredentials", peerCredentials},
    {"isPeerAlive", isPeerAlive},
    {"closeSocket", closeSocket},
    {"closeListener", closeListener},
    {"sendFds", sendFds},
    {"receiveFds", receiveFds},
    {"sendDatagram", sendDatagram},
    {"createWake", createWake},
    {"ring", ring},
    {"drain", drain},
    {"watchFd", watchFd},
    {"openUdp", openUdp},
    {"joinUdp", joinUdp},
    {"sendUdp", sendUdp},
    {"receiveUdp", receiveUdp},
    {"readClock", readClock},
};

void onInstanceGone(napi_env, void* data, void*) { delete static_cast<IpcEnv*>(data); }

}  // namespace

}  // namespace isoverbs::ipc

NAPI_MODULE_INIT() {
  using namespace isoverbs;
  auto* state = new ipc::IpcEnv;
  state->env = env;
  if (napi_set_instance_data(env, state, ipc::onInstanceGone, nullptr) != napi_ok) {
    delete state;
    return exports;
  }
  exportFunctions(state, exports, ipc::kFunctions, ipc::kInterfaceVersion);
  return exports;
}
