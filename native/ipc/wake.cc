// Wake-ups: a pair of connected sockets, one end for each process. An eventfd is no better, and both ends of it are one
// file: a peer that fills it and clears O_NONBLOCK could block us in write(2).
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "ipc.h"

namespace isoverbs::ipc {

namespace {

constexpr size_t kDrainBytes = 4096;

}  // namespace

/** createWake(): { near, far }, two descriptors. */
napi_value createWake(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "createWake");
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    return failOn(args, errno, "cannot create a wake-up descriptor");
  }
  for (const int end : ends) {
    refuseFds(end);
    takeUrgentInline(end);
  }
  return Result(napi).number("near", ends[0]).number("far", ends[1]);
}

/** ring(fd): wakes the other end; returns false if it is closed. */
napi_value ring(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "ring");
  const auto fd = static_cast<int>(args.whole(0, "a descriptor", STDERR_FILENO + 1, INT32_MAX));
  if (!args.ok()) return nullptr;
  const char byte = 0;
  napi_value rung = nullptr;
  // The socket is full: earlier wake-ups are still unread, so another one adds nothing. If there is no memory for a
  // byte, the other end finds the work at its next check.
  const bool sent = send(fd, &byte, sizeof byte, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN ||
                    errno == ENOBUFS || errno == ENOMEM || errno == EINTR;
  if (!sent && errno != EPIPE && errno != ECONNRESET) return failOn(args, errno, "the wake-up cannot be rung");
  napi_get_boolean(napi, sent, &rung);
  return rung;
}

/**
 * drain(fd): reads the pending wake-ups; returns false if the other end is closed, or null if it has sent descriptors,
 * which stay in the socket until closeSocket().
 */
napi_value drain(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "drain");
  const auto fd = static_cast<int>(args.whole(0, "a descriptor", STDERR_FILENO + 1, INT32_MAX));
  if (!args.ok()) return nullptr;
  unsigned char bytes[kDrainBytes];
  napi_value open = nullptr;
  // The event loop calls again for the rest, so a peer that rings endlessly cannot block other work.
  // Both ends refuse descriptors where they can, which saves a system call per wake-up.
  const ssize_t got =
      canRefuseFds() ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) : receiveBytes(fd, bytes, sizeof bytes);
  if (got == kFdsArrived) return null(napi);
  if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNRESET) {
    return failOn(args, errno, "the wake-up cannot be read");
  }
  napi_get_boolean(napi, got > 0 || (got < 0 && errno != ECONNRESET), &open);
  return open;
}

}  // namespace isoverbs::ipc
