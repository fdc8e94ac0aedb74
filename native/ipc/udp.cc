// UDP sockets of user-space RoCE devices: batches of packets with one system call each. Addresses are GIDs, in which an
// IPv4 address is mapped into IPv6.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ipc.h"

namespace isoverbs::ipc {

namespace {

constexpr size_t kGidBytes = 16;
/** The most packets of one call. */
constexpr size_t kMaxBatch = 64;
/** Words of a row: see sendUdp and receiveUdp. */
constexpr size_t kRowWords = 8;
constexpr size_t kGidWord = 4;
constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kDefaultHops = 64;
constexpr int kOn = 1;
/** Room for the control messages of one packet: traffic class and hop limit. */
constexpr size_t kControlBytes = 2 * CMSG_SPACE(sizeof(int));

bool isIpv4(const void* gid) { return memcmp(gid, kMapped, sizeof kMapped) == 0; }

/** Writes the socket address of a GID and returns its size. */
socklen_t toAddress(const void* gid, uint16_t port, sockaddr_storage* to) {
  memset(to, 0, sizeof *to);
  const auto* bytes = static_cast<const unsigned char*>(gid);
  if (isIpv4(gid)) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(to);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    memcpy(&v4->sin_addr, bytes + sizeof kMapped, sizeof v4->sin_addr);
    return sizeof *v4;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(to);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  memcpy(&v6->sin6_addr, bytes, kGidBytes);
  return sizeof *v6;
}

/** Writes the GID of a socket address and returns the port. */
uint16_t toGid(const sockaddr_storage& from, void* gid) {
  auto* bytes = static_cast<unsigned char*>(gid);
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    memcpy(bytes, kMapped, sizeof kMapped);
    memcpy(bytes + sizeof kMapped, &v4.sin_addr, sizeof v4.sin_addr);
    return ntohs(v4.sin_port);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  memcpy(bytes, &v6.sin6_addr, kGidBytes);
  return ntohs(v6.sin6_port);
}

/** Whether the socket could be set up. The size of the buffers is a wish, because the kernel limits it. */
bool setUp(int fd, bool v4, int bufferBytes) {
  for (const int option : {SO_RCVBUF, SO_SNDBUF}) {
    setsockopt(fd, SOL_SOCKET, option, &bufferBytes, sizeof bufferBytes);
  }
  // Without fragments, the kernel writes 0 as the identification of an IPv4 packet, which the invariant CRC covers.
  const int never = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (!v4 && setsockopt(fd, level, IPV6_V6ONLY, &kOn, sizeof kOn) != 0) return false;
  return setsockopt(fd, level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &never, sizeof never) == 0 &&
         setsockopt(fd, level, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &kOn, sizeof kOn) == 0 &&
         setsockopt(fd, level, v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &kOn, sizeof kOn) == 0;
}

/** A batch under construction, or received. Kept for the thread, because it is large. */
struct Batch {
  mmsghdr headers[kMaxBatch];
  iovec vectors[kMaxBatch];
  sockaddr_storage addresses[kMaxBatch];
  alignas(cmsghdr) unsigned char control[kMaxBatch][kControlBytes];
};

thread_local Batch batch;

void addControl(msghdr* header, size_t at, int level, int type, int value) {
  auto* message = reinterpret_cast<cmsghdr*>(static_cast<unsigned char*>(header->msg_control) + at);
  message->cmsg_level = level;
  message->cmsg_type = type;
  message->cmsg_len = CMSG_LEN(sizeof value);
  memcpy(CMSG_DATA(message), &value, sizeof value);
  header->msg_controllen = at + CMSG_SPACE(sizeof value);
}

/** Whether the batch has rows for `count` packets. */
bool checkCount(IpcArgs& args, size_t count, size_t words) {
  if (!args.ok()) return false;
  if (count <= kMaxBatch && count * kRowWords <= words) return true;
  fail(args.env(), Err::Argument, args.verb(), EINVAL, "there are no rows for %zu packets", count);
  return false;
}

}  // namespace

/** openUdp(gid, port, bufferBytes): a socket bound to this address, which never blocks. */
napi_value openUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "openUdp");
  size_t length = 0;
  const void* gid = args.bytes(0, napi_uint8_array, &length);
  const auto port = static_cast<uint16_t>(args.whole(1, "a port", 0, UINT16_MAX));
  const auto bufferBytes = static_cast<int>(args.whole(2, "a number of bytes", 0, INT32_MAX / 2));
  if (!args.ok()) return nullptr;
  if (length != kGidBytes) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "a GID has 16 bytes");
  sockaddr_storage address;
  const socklen_t bytes = toAddress(gid, port, &address);
  const int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failOn(args, errno, "cannot create a UDP socket");
  if (setUp(fd, isIpv4(gid), bufferBytes) && bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0) {
    return number(napi, fd);
  }
  const int errnum = errno;
  close(fd);
  return failOn(args, errnum, "cannot bind a UDP socket");
}

/**
 * sendUdp(fd, slab, rows, count, port): sends packets to this port and returns how many the kernel took; the others
 * found no room. A row: offset, length, traffic class and hop limit (<< 8), errno, GID in four words. A packet that
 * cannot be sent counts as taken, and its row gets the errno.
 */
napi_value sendUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "sendUdp");
  const int fd = args.fd(0);
  size_t slabBytes = 0;
  size_t words = 0;
  auto* slab = static_cast<unsigned char*>(args.bytes(1, napi_uint8_array, &slabBytes));
  auto* rows = static_cast<uint32_t*>(args.bytes(2, napi_uint32_array, &words));
  const size_t count = args.uint32(3);
  const auto port = static_cast<uint16_t>(args.whole(4, "a port", 0, UINT16_MAX));
  if (!checkCount(args, count, words)) return nullptr;
  for (size_t i = 0; i < count; i++) {
    uint32_t* row = rows + i * kRowWords;
    if (row[0] > slabBytes || row[1] > slabBytes - row[0]) {
      return fail(args.env(), Err::Argument, args.verb(), EINVAL, "packet %zu lies outside the slab", i);
    }
    row[3] = 0;
    batch.vectors[i] = {slab + row[0], row[1]};
    msghdr& header = batch.headers[i].msg_hdr;
    header = {};
    header.msg_name = &batch.addresses[i];
    header.msg_namelen = toAddress(row + kGidWord, port, &batch.addresses[i]);
    header.msg_iov = &batch.vectors[i];
    header.msg_iovlen = 1;
    const int trafficClass = static_cast<int>(row[2] & 0xff);
    const int hops = static_cast<int>((row[2] >> 8) & 0xff);
    if (trafficClass == 0 && (hops == 0 || hops == kDefaultHops)) continue;
    const bool v4 = isIpv4(row + kGidWord);
    const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    memset(batch.control[i], 0, kControlBytes);
    header.msg_control = batch.control[i];
    addControl(&header, 0, level, v4 ? IP_TOS : IPV6_TCLASS, trafficClass);
    addControl(&header, header.msg_controllen, level, v4 ? IP_TTL : IPV6_HOPLIMIT, hops == 0 ? kDefaultHops : hops);
  }
  size_t taken = 0;
  while (taken < count) {
    const int sent = sendmmsg(fd, batch.headers + taken, static_cast<unsigned>(count - taken), 0);
    if (sent > 0) {
      taken += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      break;
    } else if (errno != EINTR) {
      rows[taken * kRowWords + 3] = static_cast<uint32_t>(errno);
      taken++;
    }
  }
  return number(napi, static_cast<double>(taken));
}

/**
 * receiveUdp(fd, slab, strideBytes, rows, max): receives up to `max` packets, packet i at i * strideBytes of the slab,
 * and returns their number. A row: 0, length (0 if the packet exceeds the stride), traffic class and hop limit (<< 8),
 * source port, source GID in four words.
 */
napi_value receiveUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "receiveUdp");
  const int fd = args.fd(0);
  size_t slabBytes = 0;
  size_t words = 0;
  auto* slab = static_cast<unsigned char*>(args.bytes(1, napi_uint8_array, &slabBytes));
  const size_t stride = args.uint32(2);
  auto* rows = static_cast<uint32_t*>(args.bytes(3, napi_uint32_array, &words));
  const size_t most = args.uint32(4);
  if (!checkCount(args, most, words)) return nullptr;
  if (stride == 0 || most > slabBytes / stride) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the slab has no room for %zu packets", most);
  }
  for (size_t i = 0; i < most; i++) {
    batch.vectors[i] = {slab + i * stride, stride};
    msghdr& header = batch.headers[i].msg_hdr;
    header = {};
    header.msg_name = &batch.addresses[i];
    header.msg_namelen = sizeof batch.addresses[i];
    header.msg_iov = &batch.vectors[i];
    header.msg_iovlen = 1;
    header.msg_control = batch.control[i];
    header.msg_controllen = kControlBytes;
  }
  const int got = most == 0 ? 0 : recvmmsg(fd, batch.headers, static_cast<unsigned>(most), MSG_DONTWAIT, nullptr);
  if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED) {
    return failOn(args, errno, "the UDP socket cannot be read");
  }
  for (int i = 0; i < got; i++) {
    uint32_t* row = rows + static_cast<size_t>(i) * kRowWords;
    msghdr& header = batch.headers[i].msg_hdr;
    row[0] = 0;
    row[1] = (header.msg_flags & MSG_TRUNC) != 0 ? 0 : batch.headers[i].msg_len;
    row[2] = 0;
    row[3] = toGid(batch.addresses[i], row + kGidWord);
    for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
      int value = 0;
      // The kernel reports the traffic class of IPv4 as one byte.
      const bool isByte = one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS;
      memcpy(&value, CMSG_DATA(one), isByte ? 1 : sizeof value);
      const bool isClass = isByte || (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS);
      row[2] |= static_cast<uint32_t>(value & 0xff) << (isClass ? 0 : 8);
    }
  }
  return number(napi, std::max(got, 0));
}

}  // namespace isoverbs::ipc
