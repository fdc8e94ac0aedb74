// UDP sockets of user-space RoCE devices: batches of packets with one system call each. Addresses are GIDs, in which an
// IPv4 address is mapped into IPv6.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "icrc.h"
#include "ipc.h"

// Headers of older systems lack these.
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace isoverbs::ipc {

namespace {

constexpr size_t kGidBytes = 16;
/** The most packets of one call of sendUdp, and the most datagrams of one call of receiveUdp. */
constexpr size_t kMaxBatch = 64;
/** The most packets that the kernel takes or gives as one datagram. */
constexpr size_t kMaxSegments = 64;
constexpr size_t kMaxReceivedSegments = 128;
/** The most bytes of a datagram with segments, for both versions of IP. */
constexpr size_t kMaxSegmentedBytes = 65'000;
/** Room for a datagram that is received. */
constexpr size_t kDatagramBytes = 65'536;
/** Descriptors below this number may send segments. */
constexpr size_t kSegmentFds = 4096;
/** In the third word of a received row: the ICRC is wrong. */
constexpr uint32_t kBadIcrc = 1u << 16;
/** In the fourth word of a row that was sent: the errno. */
constexpr uint32_t kErrnoMask = 0xffff;
/** In the fourth word of a row: the identification of the IPv4 header. */
constexpr int kIdentificationShift = 16;
/** Words of a row: see sendUdp and receiveUdp. */
constexpr size_t kRowWords = 8;
constexpr size_t kGidWord = 4;
constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kDefaultHops = 64;
constexpr int kOn = 1;
/** Room for the control messages of one datagram: traffic class, hop limit, and bytes of a segment. */
constexpr size_t kControlBytes = 3 * CMSG_SPACE(sizeof(int));

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
  // Since Linux 5.0, packets of the same size that arrive together are received together.
  setsockopt(fd, IPPROTO_UDP, UDP_GRO, &kOn, sizeof kOn);
  // Without fragments, the kernel writes 0 as the identification of an IPv4 packet, which the invariant CRC covers.
  const int never = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (!v4 && setsockopt(fd, level, IPV6_V6ONLY, &kOn, sizeof kOn) != 0) return false;
  return setsockopt(fd, level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &never, sizeof never) == 0 &&
         setsockopt(fd, level, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &kOn, sizeof kOn) == 0 &&
         setsockopt(fd, level, v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &kOn, sizeof kOn) == 0;
}

/** Sends multicast packets through the interface of this address, with the default hop limit unless a packet sets one. */
bool setMulticast(int fd, const void* gid, int ifindex) {
  if (isIpv4(gid)) {
    ip_mreqn interface{};
    memcpy(&interface.imr_address, static_cast<const unsigned char*>(gid) + sizeof kMapped, sizeof interface.imr_address);
    interface.imr_ifindex = ifindex;
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &kDefaultHops, sizeof kDefaultHops) == 0 &&
           setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface) == 0;
  }
  return setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &kDefaultHops, sizeof kDefaultHops) == 0 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &ifindex, sizeof ifindex) == 0;
}

/** Makes a socket a member of a group on one interface. It gets no packets of groups that only other sockets have joined. */
bool join(int fd, const void* group, const void* gid, int ifindex) {
  const int none = 0;
  if (isIpv4(group)) {
    ip_mreqn member{};
    memcpy(&member.imr_multiaddr, static_cast<const unsigned char*>(group) + sizeof kMapped, sizeof member.imr_multiaddr);
    memcpy(&member.imr_address, static_cast<const unsigned char*>(gid) + sizeof kMapped, sizeof member.imr_address);
    member.imr_ifindex = ifindex;
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &none, sizeof none) == 0 &&
           setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) == 0;
  }
  // Linux before 4.20 does not support this option.
  setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &none, sizeof none);
  ipv6_mreq member{};
  memcpy(&member.ipv6mr_multiaddr, group, kGidBytes);
  member.ipv6mr_interface = static_cast<unsigned>(ifindex);
  return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof member) == 0;
}

/** A batch of messages. Kept for the thread, because it is large. */
struct Batch {
  mmsghdr headers[kMaxBatch];
  iovec vectors[kMaxBatch];
  sockaddr_storage addresses[kMaxBatch];
  alignas(cmsghdr) unsigned char control[kMaxBatch][kControlBytes];
};

/** The batch under construction. */
thread_local Batch batch;

/** The batch that receives messages, prepared for `count` datagrams in a slab. */
struct Arrivals : Batch {
  unsigned char* slab;
  size_t count;

  /** Prepares header `m` again: the kernel changes the header of each message that it returns. */
  void reset(size_t m) {
    msghdr& header = headers[m].msg_hdr;
    header.msg_namelen = sizeof addresses[m];
    header.msg_controllen = kControlBytes;
    header.msg_flags = 0;
  }

  void prepare(unsigned char* to, size_t most) {
    if (slab == to && count >= most) return;
    for (size_t m = 0; m < most; m++) {
      vectors[m] = {to + m * kDatagramBytes, kDatagramBytes};
      headers[m].msg_hdr = {&addresses[m], 0, &vectors[m], 1, control[m], 0, 0};
      reset(m);
    }
    slab = to;
    count = most;
  }
};

thread_local Arrivals arrivals;

/** Descriptors of this thread through which the kernel cannot send segments. */
thread_local bool isWithoutSegments[kSegmentFds];

/** The ports to which descriptors of this thread are bound; 0 if unknown. */
thread_local uint16_t boundPorts[kSegmentFds];

uint16_t boundPortOf(int fd) {
  const bool isKept = static_cast<size_t>(fd) < kSegmentFds;
  if (isKept && boundPorts[fd] != 0) return boundPorts[fd];
  sockaddr_storage own;
  socklen_t bytes = sizeof own;
  unsigned char gid[kGidBytes];
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return kRocePort;
  const uint16_t port = toGid(own, gid);
  if (isKept) boundPorts[fd] = port;
  return port;
}

bool maySegment(int fd) { return static_cast<size_t>(fd) < kSegmentFds && !isWithoutSegments[fd]; }

void addControl(msghdr* header, unsigned char* control, int level, int type, const void* value, size_t bytes) {
  header->msg_control = control;
  auto* message = reinterpret_cast<cmsghdr*>(control + header->msg_controllen);
  message->cmsg_level = level;
  message->cmsg_type = type;
  message->cmsg_len = CMSG_LEN(bytes);
  memcpy(CMSG_DATA(message), value, bytes);
  header->msg_controllen += CMSG_SPACE(bytes);
}

/** Whether packets that a read did not get may still be read later: nothing is there, or the kernel has no memory now. */
bool isTransient(int error) {
  return error == EAGAIN || error == EINTR || error == ECONNREFUSED || error == ENOMEM || error == ENOBUFS;
}

/** Whether the batch has rows for `count` packets. */
bool checkCount(IpcArgs& args, size_t count, size_t words) {
  if (!args.ok()) return false;
  if (count <= kMaxBatch && count * kRowWords <= words) return true;
  fail(args.env(), Err::Argument, args.verb(), EINVAL, "there are no rows for %zu packets", count);
  return false;
}

/** The packets of one call. */
struct Packets {
  unsigned char* slab;
  uint32_t* rows;
  size_t count;
  /** GID of the sender, whose packets get their ICRC here; null if they have one. */
  const unsigned char* source;
  uint16_t sourcePort;

  uint32_t* row(size_t i) const { return rows + i * kRowWords; }
};

/** How many packets from the first one on may leave as segments of one datagram: all have one size, but for the last. */
size_t segmentsAt(const Packets& packets, size_t first) {
  const uint32_t* head = packets.row(first);
  size_t bytes = head[1];
  size_t count = 1;
  for (; first + count < packets.count && count < kMaxSegments; count++) {
    const uint32_t* row = packets.row(first + count);
    bytes += row[1];
    if (row[1] > head[1] || row[1] == 0 || row[2] != head[2] || bytes > kMaxSegmentedBytes) break;
    if (memcmp(row + kGidWord, head + kGidWord, kGidBytes) != 0) break;
    if (row[1] < head[1]) return count + 1;
  }
  return count;
}

/** Writes message `m` of the batch with packets from the first one on, and computes their ICRCs. */
void writeMessage(const Packets& packets, size_t m, size_t first, size_t count, uint16_t port) {
  const uint32_t* head = packets.row(first);
  for (size_t i = 0; i < count; i++) {
    uint32_t* row = packets.row(first + i);
    unsigned char* packet = packets.slab + row[0];
    batch.vectors[first + i] = {packet, row[1]};
    row[3] = static_cast<uint32_t>(i) << kIdentificationShift;
    if (packets.source == nullptr || row[1] < kBthBytes + kIcrcBytes) continue;
    // The kernel counts up the identifications of segments, from 0.
    const auto* dest = reinterpret_cast<const unsigned char*>(row + kGidWord);
    sealPacket({packets.source, dest, packets.sourcePort, static_cast<uint16_t>(i)}, packet, row[1]);
  }
  msghdr& header = batch.headers[m].msg_hdr;
  header = {};
  header.msg_name = &batch.addresses[m];
  header.msg_namelen = toAddress(head + kGidWord, port, &batch.addresses[m]);
  header.msg_iov = &batch.vectors[first];
  header.msg_iovlen = count;
  memset(batch.control[m], 0, kControlBytes);
  if (count > 1) {
    const auto bytes = static_cast<uint16_t>(head[1]);
    addControl(&header, batch.control[m], IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes);
  }
  const int trafficClass = static_cast<int>(head[2] & 0xff);
  const int hops = static_cast<int>((head[2] >> 8) & 0xff);
  if (trafficClass == 0 && (hops == 0 || hops == kDefaultHops)) return;
  const bool v4 = isIpv4(head + kGidWord);
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int limit = hops == 0 ? kDefaultHops : hops;
  addControl(&header, batch.control[m], level, v4 ? IP_TOS : IPV6_TCLASS, &trafficClass, sizeof trafficClass);
  addControl(&header, batch.control[m], level, v4 ? IP_TTL : IPV6_HOPLIMIT, &limit, sizeof limit);
}

/** Sends packets from the first one on, and returns how many are taken; 0 if there is no room. */
size_t sendSome(int fd, const Packets& packets, size_t first, uint16_t port) {
  size_t messages = 0;
  const bool segments = packets.source != nullptr && maySegment(fd);
  for (size_t i = first; i < packets.count; messages++) {
    const size_t count = segments ? segmentsAt(packets, i) : 1;
    writeMessage(packets, messages, i, count, port);
    i += count;
  }
  int sent = -1;
  do {
    sent = sendmmsg(fd, batch.headers, static_cast<unsigned>(messages), 0);
  } while (sent < 0 && errno == EINTR);
  if (sent > 0) {
    size_t taken = 0;
    for (int m = 0; m < sent; m++) taken += batch.headers[m].msg_hdr.msg_iovlen;
    return taken;
  }
  if (errno == EAGAIN || errno == ENOBUFS) return 0;
  const size_t count = batch.headers[0].msg_hdr.msg_iovlen;
  if (count > 1 && (errno == EINVAL || errno == EIO || errno == EOPNOTSUPP)) {
    // The interface, or the kernel, cannot divide datagrams. Their packets go one by one.
    isWithoutSegments[fd] = true;
    const size_t taken = sendSome(fd, packets, first, port);
    // Alone, the packet is refused, too: for its destination, not for the division.
    if ((packets.row(first)[3] & kErrnoMask) != 0) isWithoutSegments[fd] = false;
    return taken;
  }
  for (size_t i = 0; i < count; i++) packets.row(first + i)[3] |= static_cast<uint32_t>(errno);
  return count;
}

/** What a received datagram says about itself besides its address. */
struct Arrival {
  uint32_t classAndHops = 0;
  /** Bytes of each of its packets but the last. */
  size_t segmentBytes = 0;
};

Arrival readControl(msghdr& header) {
  Arrival arrival;
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = nextControl(header, one)) {
    int value = 0;
    // The kernel reports the traffic class of IPv4 as one byte.
    const bool isByte = one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS;
    memcpy(&value, CMSG_DATA(one), isByte ? 1 : sizeof value);
    if (one->cmsg_level == IPPROTO_UDP) {
      if (one->cmsg_type == UDP_GRO && value > 0) arrival.segmentBytes = static_cast<size_t>(value);
      continue;
    }
    const bool isClass = isByte || (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS);
    arrival.classAndHops |= static_cast<uint32_t>(value & 0xff) << (isClass ? 0 : 8);
  }
  return arrival;
}

/** Writes the rows of the packets of a datagram from row `first` on, and returns the row after them. */
size_t writeRows(const Packets& packets, size_t m, size_t first, const unsigned char* dest) {
  msghdr& header = arrivals.headers[m].msg_hdr;
  const Arrival arrival = readControl(header);
  const size_t bytes = arrivals.headers[m].msg_len;
  const size_t step = arrival.segmentBytes == 0 ? std::max<size_t>(bytes, 1) : arrival.segmentBytes;
  Covered covered{nullptr, dest, 0, 0};
  size_t next = first;
  for (size_t at = 0; next < packets.count && (at < bytes || at == 0); at += step) {
    uint32_t* row = packets.row(next++);
    row[0] = static_cast<uint32_t>(m * kDatagramBytes + at);
    row[1] = static_cast<uint32_t>((header.msg_flags & MSG_TRUNC) != 0 ? 0 : std::min(step, bytes - at));
    row[2] = arrival.classAndHops;
    row[3] = covered.sourcePort = toGid(arrivals.addresses[m], row + kGidWord);
    covered.source = reinterpret_cast<const unsigned char*>(row + kGidWord);
    if (dest == nullptr || row[1] < kBthBytes + kIcrcBytes) continue;
    if (!isSealed(&covered, packets.slab + row[0], row[1])) row[2] |= kBadIcrc;
    row[3] |= static_cast<uint32_t>(covered.identification++) << kIdentificationShift;
  }
  return next;
}

}  // namespace

/**
 * openUdp(gid, port, bufferBytes, ifindex): a socket bound to this address, which never blocks. Multicast packets leave
 * through the interface with this number, or that of the address if it is 0.
 */
napi_value openUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "openUdp");
  size_t length = 0;
  const void* gid = args.bytes(0, napi_uint8_array, &length);
  const auto port = static_cast<uint16_t>(args.whole(1, "a port", 0, UINT16_MAX));
  const auto bufferBytes = static_cast<int>(args.whole(2, "a number of bytes", 0, INT32_MAX / 2));
  const auto ifindex = static_cast<int>(args.whole(3, "the number of an interface", 0, INT32_MAX));
  if (!args.ok()) return nullptr;
  if (length != kGidBytes) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "a GID has 16 bytes");
  sockaddr_storage address;
  const socklen_t bytes = toAddress(gid, port, &address);
  const int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failOn(args, errno, "cannot create a UDP socket");
  if (static_cast<size_t>(fd) < kSegmentFds) {
    isWithoutSegments[fd] = false;
    boundPorts[fd] = 0;
  }
  if (setUp(fd, isIpv4(gid), bufferBytes) && bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0) {
    // An interface without multicast refuses this; sending to a group then fails.
    setMulticast(fd, gid, ifindex);
    return number(napi, fd);
  }
  const int errnum = errno;
  close(fd);
  return failOn(args, errnum, "cannot bind a UDP socket");
}

/**
 * joinUdp(group, gid, port, bufferBytes, ifindex): a socket that receives what is sent to this port of a multicast group on
 * the interface with this address and number. Several sockets of a host may do so, and each gets every packet.
 */
napi_value joinUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "joinUdp");
  size_t groupBytes = 0;
  size_t gidBytes = 0;
  const void* group = args.bytes(0, napi_uint8_array, &groupBytes);
  const void* gid = args.bytes(1, napi_uint8_array, &gidBytes);
  const auto port = static_cast<uint16_t>(args.whole(2, "a port", 0, UINT16_MAX));
  const auto bufferBytes = static_cast<int>(args.whole(3, "a number of bytes", 0, INT32_MAX / 2));
  const auto ifindex = static_cast<int>(args.whole(4, "the number of an interface", 0, INT32_MAX));
  if (!args.ok()) return nullptr;
  if (groupBytes != kGidBytes || gidBytes != kGidBytes || isIpv4(group) != isIpv4(gid)) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL,
                "the group's GID must have 16 bytes and the IP version of the device's");
  }
  sockaddr_storage address;
  const socklen_t bytes = toAddress(group, port, &address);
  // A link-local group is valid on one interface.
  if (!isIpv4(group)) reinterpret_cast<sockaddr_in6&>(address).sin6_scope_id = static_cast<uint32_t>(ifindex);
  const int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failOn(args, errno, "cannot create a UDP socket");
  if (setUp(fd, isIpv4(gid), bufferBytes) && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn) == 0 &&
      bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0 && join(fd, group, gid, ifindex)) {
    return number(napi, fd);
  }
  const int errnum = errno;
  close(fd);
  return failOn(args, errnum, "cannot join a multicast group");
}

/**
 * sendUdp(fd, slab, rows, count, port, source): sends packets to this port and returns how many the kernel took; the
 * others found no room. A row: offset, length, traffic class and hop limit (<< 8), errno and identification (<< 16), GID in
 * four words. A packet that cannot be sent counts as taken, and its row gets the errno. If `source` is the GID of the sender,
 * the last four bytes of each packet become its ICRC, for the port to which the socket is bound, and packets of one size
 * may leave together; an empty array leaves packets unchanged.
 */
napi_value sendUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "sendUdp");
  const int fd = args.descriptor(0);
  size_t slabBytes = 0;
  size_t words = 0;
  size_t sourceBytes = 0;
  auto* slab = static_cast<unsigned char*>(args.bytes(1, napi_uint8_array, &slabBytes));
  auto* rows = static_cast<uint32_t*>(args.bytes(2, napi_uint32_array, &words));
  const size_t count = args.uint32(3);
  const auto port = static_cast<uint16_t>(args.whole(4, "a port", 0, UINT16_MAX));
  const auto* source = static_cast<const unsigned char*>(args.bytes(5, napi_uint8_array, &sourceBytes));
  if (!checkCount(args, count, words)) return nullptr;
  const bool seals = sourceBytes == kGidBytes;
  const Packets packets{slab, rows, count, seals ? source : nullptr, seals ? boundPortOf(fd) : kRocePort};
  for (size_t i = 0; i < count; i++) {
    const uint32_t* row = packets.row(i);
    if (row[0] > slabBytes || row[1] > slabBytes - row[0]) {
      return fail(args.env(), Err::Argument, args.verb(), EINVAL, "packet %zu lies outside the slab", i);
    }
  }
  size_t taken = 0;
  while (taken < count) {
    const size_t more = sendSome(fd, packets, taken, port);
    if (more == 0) break;
    if ((packets.row(taken)[3] & kErrnoMask) == EBADF) return failOn(args, EBADF, "the UDP socket cannot be written");
    taken += more;
  }
  return number(napi, static_cast<double>(taken));
}

/**
 * receiveUdp(fd, slab, rows, dest): receives as many datagrams as the slab and the rows have room for, each at a multiple
 * of 64 KiB, and returns the number of packets in them. A row: offset, length (0 if the packet is too long), traffic
 * class, hop limit (<< 8) and whether the ICRC is wrong (<< 16), source port and identification (<< 16), source GID in four
 * words. ICRCs are checked if `dest` is the GID of the receiver; an empty array skips that.
 */
napi_value receiveUdp(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "receiveUdp");
  const int fd = args.descriptor(0);
  size_t slabBytes = 0;
  size_t words = 0;
  size_t destBytes = 0;
  auto* slab = static_cast<unsigned char*>(args.bytes(1, napi_uint8_array, &slabBytes));
  auto* rows = static_cast<uint32_t*>(args.bytes(2, napi_uint32_array, &words));
  const auto* dest = static_cast<const unsigned char*>(args.bytes(3, napi_uint8_array, &destBytes));
  if (!args.ok()) return nullptr;
  const Packets packets{slab, rows, words / kRowWords, nullptr, 0};
  const size_t most = std::min({slabBytes / kDatagramBytes, packets.count / kMaxReceivedSegments, kMaxBatch});
  arrivals.prepare(slab, most);
  const int got = most == 0 ? 0 : recvmmsg(fd, arrivals.headers, static_cast<unsigned>(most), MSG_DONTWAIT, nullptr);
  if (got < 0 && !isTransient(errno)) {
    return failOn(args, errno, "the UDP socket cannot be read");
  }
  size_t next = 0;
  for (int m = 0; m < got; m++) {
    next = writeRows(packets, static_cast<size_t>(m), next, destBytes == kGidBytes ? dest : nullptr);
    arrivals.reset(static_cast<size_t>(m));
  }
  return number(napi, static_cast<double>(next));
}

}  // namespace isoverbs::ipc
