// One datagram to a Unix socket: how a service reports its state to systemd (man sd_notify).
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "ipc.h"

namespace isoverbs::ipc {

/**
 * sendDatagram(address, bytes): returns whether it was sent, which is false while the receiver's queue is full. An
 * address that begins with @ is in the abstract namespace.
 */
napi_value sendDatagram(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "sendDatagram");
  const std::string path = args.string(0);
  size_t bytes = 0;
  const void* data = args.bytes(1, napi_uint8_array, &bytes);
  if (!args.ok()) return nullptr;
  sockaddr_un address = {};
  if (path.size() < 2 || path.find('\0') != std::string::npos || path.size() >= sizeof address.sun_path) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the address of a socket has 2 to %zu bytes, none of them 0",
                sizeof address.sun_path - 1);
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failOn(args, errno, "cannot create a socket");
  // The length is significant, because an abstract name has no terminating zero.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  ssize_t sent = 0;
  do {
    sent = sendto(fd, data, bytes, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
  } while (sent < 0 && errno == EINTR);
  const int errnum = sent < 0 ? errno : 0;
  close(fd);
  if (errnum != 0 && errnum != EAGAIN) return failOn(args, errnum, "nothing can be sent");
  napi_value taken = nullptr;
  napi_get_boolean(napi, errnum == 0, &taken);
  return taken;
}

}  // namespace isoverbs::ipc
