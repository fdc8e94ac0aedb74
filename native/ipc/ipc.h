// Communication between processes of one host: shared memory, Unix sockets that carry descriptors, wake-ups. Requires
// no RDMA headers. Descriptors are plain numbers here; src/daemon/ipc owns them.
#pragma once

#include <node_api.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <unordered_map>

#include "../base-args.h"
#include "../base-env.h"

namespace isoverbs::ipc {

struct Watch;
struct Closer;

struct IpcEnv : BaseEnv {
  /** The watches of this env, by descriptor. */
  std::unordered_map<int, Watch*> watches;
  /** Null until a socket cannot be closed at once. */
  Closer* closer = nullptr;
};

class IpcArgs : public BaseArgs {
 public:
  using BaseArgs::BaseArgs;

  IpcEnv& env() const { return static_cast<IpcEnv&>(*env_); }

  /** An argument in the range of descriptors. The caller's system call reports whether it is open. */
  int descriptor(size_t i);
  /** An argument that is an open descriptor, other than the standard streams. */
  int fd(size_t i);
  /** An argument that is a connected or listening Unix stream socket. */
  int unixSocket(size_t i);
};

/**
 * Throws the error that matches an errno of a call on a descriptor; `doing` is a phrase such as 'the socket cannot be
 * read'.
 */
napi_value failOn(BaseArgs& args, int errnum, const char* doing);

/** Makes the kernel refuse descriptors that are sent to this socket. False if it cannot (before Linux 6.16). */
bool refuseFds(int socket);

/** Whether refuseFds() works here. */
bool canRefuseFds();

/**
 * Makes urgent data of a new connection ordinary data: otherwise reading past it discards it, with the descriptors that
 * came with it.
 */
void takeUrgentInline(int socket);

/** The result of receiveBytes() if descriptors have arrived. */
constexpr ssize_t kFdsArrived = -2;

/**
 * Receives bytes with which no descriptors came; otherwise the result of recv(2). With them, nothing is received: the
 * kernel would close the descriptors in this thread, and a hostile sender can make that last.
 */
ssize_t receiveBytes(int socket, void* data, size_t bytes);

/** Ends the watch of a descriptor, if this env has one. */
void stopWatch(IpcEnv& env, int fd);

// memory.cc
napi_value createMemory(napi_env env, napi_callback_info info);
napi_value sealMemory(napi_env env, napi_callback_info info);
napi_value mapMemory(napi_env env, napi_callback_info info);
// socket.cc
napi_value listenUnix(napi_env env, napi_callback_info info);
napi_value acceptUnix(napi_env env, napi_callback_info info);
napi_value connectUnix(napi_env env, napi_callback_info info);
napi_value peerCredentials(napi_env env, napi_callback_info info);
napi_value isPeerAlive(napi_env env, napi_callback_info info);
// close.cc
napi_value closeSocket(napi_env env, napi_callback_info info);
napi_value closeListener(napi_env env, napi_callback_info info);
// notify.cc
napi_value sendDatagram(napi_env env, napi_callback_info info);
// message.cc
napi_value sendFds(napi_env env, napi_callback_info info);
napi_value receiveFds(napi_env env, napi_callback_info info);
// wake.cc
napi_value createWake(napi_env env, napi_callback_info info);
napi_value ring(napi_env env, napi_callback_info info);
napi_value drain(napi_env env, napi_callback_info info);
// clock.cc
napi_value readClock(napi_env env, napi_callback_info info);
// udp.cc
napi_value openUdp(napi_env env, napi_callback_info info);
napi_value joinUdp(napi_env env, napi_callback_info info);
napi_value sendUdp(napi_env env, napi_callback_info info);
napi_value receiveUdp(napi_env env, napi_callback_info info);
// watch.cc
napi_value watchFd(napi_env env, napi_callback_info info);

/** The next control message of a message that was received; null after the last. */
inline cmsghdr* nextControl(msghdr& message, cmsghdr* one) {
// In musl, the macro compares an unsigned length with a signed difference of pointers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
  return CMSG_NXTHDR(&message, one);
#pragma GCC diagnostic pop
}

}  // namespace isoverbs::ipc
