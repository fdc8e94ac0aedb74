// Bytes with descriptors (SCM_RIGHTS) over a connected Unix stream socket.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ipc.h"

namespace isoverbs::ipc {

namespace {

/** More than any of our messages carries; the kernel accepts 253. */
constexpr size_t kMaxFds = 64;

struct Control {
  alignas(cmsghdr) unsigned char bytes[CMSG_SPACE(kMaxFds * sizeof(int))];
};

/** Reads and checks the descriptors to send. False with an exception pending. */
bool readFds(IpcArgs& args, size_t i, int* fds, size_t* count) {
  const auto* words = static_cast<const uint32_t*>(args.bytes(i, napi_uint32_array, count));
  if (!args.ok()) return false;
  if (*count > kMaxFds) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL, "up to %zu descriptors go with a message, not %zu", kMaxFds,
         *count);
    return false;
  }
  for (size_t at = 0; at < *count; at++) {
    if (words[at] > INT32_MAX) {
      fail(args.env(), Err::Argument, args.verb(), EBADF, "descriptor %zu of the list is none", at);
      return false;
    }
    fds[at] = static_cast<int>(words[at]);
  }
  return true;
}

/** Copies the descriptors out of the control messages; they have been open in this process since recvmsg(2). */
size_t takeFds(msghdr* message, int* fds) {
  size_t count = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = nextControl(*message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::memcpy(fds + count, CMSG_DATA(header), n * sizeof(int));
    count += n;
  }
  return count;
}

napi_value describe(napi_env napi, size_t bytes, const int* fds, size_t count) {
  napi_value list = nullptr;
  napi_create_array_with_length(napi, count, &list);
  for (size_t i = 0; i < count; i++) napi_set_element(napi, list, static_cast<uint32_t>(i), number(napi, fds[i]));
  return Result(napi).number("bytes", static_cast<double>(bytes)).value("fds", list);
}

}  // namespace

ssize_t receiveBytes(int socket, void* data, size_t bytes) {
  iovec vector = {data, bytes};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return got;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return kFdsArrived;
  // No more than that: descriptors may have arrived since.
  return recv(socket, data, static_cast<size_t>(got), MSG_DONTWAIT);
}

/**
 * sendFds(fd, bytes, fds): returns the number of bytes sent, the first of which carries the descriptors; 0 if the
 * socket is full.
 */
napi_value sendFds(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "sendFds");
  const int fd = args.unixSocket(0);
  size_t bytes = 0;
  void* data = args.bytes(1, napi_uint8_array, &bytes);
  int fds[kMaxFds];
  size_t count = 0;
  if (!args.ok() || !readFds(args, 2, fds, &count)) return nullptr;
  if (bytes == 0) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "there are no bytes, or their buffer was detached");
  }
  Control control = {};
  iovec vector = {data, bytes};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds, count * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return number(napi, static_cast<double>(sent));
  if (errno == EAGAIN) return number(napi, 0);
  if (errno == EPERM) return fail(args.env(), Err::Connection, args.verb(), EPERM, "the peer does not accept descriptors");
  return failOn(args, errno, "nothing can be sent");
}

namespace {

/** Receives bytes and up to `maxFds` descriptors, at least one. On failure an exception is pending. */
napi_value receiveWithFds(IpcArgs& args, int fd, void* data, size_t bytes, size_t maxFds) {
  Control control = {};
  iovec vector = {data, bytes};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  // Room for exactly this many: the kernel does not open any others in this process.
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_LEN(maxFds * sizeof(int));
  ssize_t got = 0;
  do {
    got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return undefined(args.env().env);
  if (got < 0) return failOn(args, errno, "nothing can be received");
  int fds[kMaxFds];
  const size_t count = takeFds(&message, fds);
  if ((message.msg_flags & MSG_CTRUNC) == 0) {
    return describe(args.env().env, static_cast<size_t>(got), fds, count);
  }
  for (size_t i = 0; i < count; i++) close(fds[i]);
  return fail(args.env(), Err::Handshake, args.verb(), EMSGSIZE,
              "the peer sent more than the %zu descriptors that belong here, or more than this process may open",
              maxFds);
}

}  // namespace

/**
 * receiveFds(fd, buffer, maxFds): returns { bytes, fds }, with 0 bytes at the end of the stream, or undefined if
 * nothing has arrived yet. If the peer sent too many descriptors, the connection is unusable. Where some belong, they are
 * closed here and an exception is thrown, so the peer must be trusted. Where none belong, the result is null, and the
 * descriptors stay in the socket until closeSocket().
 */
napi_value receiveFds(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "receiveFds");
  const int fd = args.unixSocket(0);
  size_t bytes = 0;
  void* data = args.bytes(1, napi_uint8_array, &bytes);
  const auto maxFds = static_cast<size_t>(args.whole(2, "maxFds", 0, kMaxFds));
  if (!args.ok()) return nullptr;
  if (bytes == 0) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the buffer is empty, or was detached");
  }
  if (maxFds > 0) return receiveWithFds(args, fd, data, bytes, maxFds);
  const ssize_t got = receiveBytes(fd, data, bytes);
  if (got >= 0) return describe(napi, static_cast<size_t>(got), nullptr, 0);
  if (got == kFdsArrived) return null(napi);
  return errno == EAGAIN || errno == EINTR ? undefined(napi) : failOn(args, errno, "nothing can be received");
}

}  // namespace isoverbs::ipc
