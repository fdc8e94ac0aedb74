// Unix stream sockets before they become a net.Socket; no function here blocks.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "ipc.h"

// Available since Linux 6.16.
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
// Available since Linux 6.5.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace isoverbs::ipc {

namespace {

constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
constexpr int kLockTries = 100;
constexpr long kLockPauseNs = 10'000'000;
constexpr int kMaxBacklog = 65535;

/** A descriptor that is closed at the end of the scope unless it was released. */
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int take() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

int newSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

/** Returns false with an exception pending if this cannot be the path of a socket. */
bool toAddress(IpcArgs& args, const std::string& path, sockaddr_un* address) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL, "the path of a socket must be that of a file");
    return false;
  }
  if (path.size() > kMaxPathBytes) {
    fail(args.env(), Err::Argument, args.verb(), ENAMETOOLONG,
         "the path of a socket has up to %zu bytes; this one is longer: %.60s...", kMaxPathBytes, path.c_str());
    return false;
  }
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return true;
}

int connectTo(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/** Whether only this user can open a file, so that no other user can lock it. */
bool isPrivate(const struct stat& file) {
  return S_ISREG(file.st_mode) && file.st_uid == geteuid() && (file.st_mode & 0077) == 0;
}

/**
 * The lock of a path, held by a process that is about to listen there, so that no other process mistakes its socket for
 * a stale one: a file that only this user can open, because any user who can open a file can lock it.
 */
class PathLock {
 public:
  explicit PathLock(const std::string& path) : path_(path + ".lock") {}
  ~PathLock() {
    if (held_ < 0) return;
    // Processes that wait for this file then find another one, or none, and try again.
    unlink(path_.c_str());
    close(held_);
  }
  PathLock(const PathLock&) = delete;
  PathLock& operator=(const PathLock&) = delete;

  /** Waits for a second if another process holds it. Returns false with an exception pending. */
  bool take(IpcArgs& args) {
    for (int i = 0; i < kLockTries; i++) {
      switch (tryOnce()) {
        case Outcome::Held:
          return true;
        case Outcome::Failed:
          return failToOpen(args);
        case Outcome::Busy: {
          const timespec pause = {0, kLockPauseNs};
          nanosleep(&pause, nullptr);
          break;
        }
        case Outcome::Changed:
          break;
      }
    }
    fail(args.env(), Err::Connection, args.verb(), EAGAIN, "another process holds the lock %s", path_.c_str());
    return false;
  }

 private:
  enum class Outcome { Held, Busy, Changed, Failed };

  Outcome tryOnce() {
    Fd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    errnum_ = fd.get() < 0 ? errno : 0;
    struct stat opened = {};
    if (fd.get() < 0 || fstat(fd.get(), &opened) != 0 || !isPrivate(opened)) return removeForeign();
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Outcome::Busy;
    struct stat now = {};
    const bool isSame = lstat(path_.c_str(), &now) == 0 && now.st_dev == opened.st_dev && now.st_ino == opened.st_ino;
    if (!isSame) return Outcome::Changed;
    held_ = fd.take();
    return Outcome::Held;
  }

  /** What other users have left there, or could lock, is no lock of ours. */
  Outcome removeForeign() {
    struct stat file = {};
    if (lstat(path_.c_str(), &file) != 0) {
      const bool isGone = errno == ENOENT && errnum_ != ENOENT;
      return isGone ? Outcome::Changed : Outcome::Failed;
    }
    if (isPrivate(file)) return Outcome::Failed;
    if (unlink(path_.c_str()) == 0 || errno == ENOENT) return Outcome::Changed;
    errnum_ = errno;
    return Outcome::Failed;
  }

  bool failToOpen(IpcArgs& args) {
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
    const bool isMissing = errnum_ == ENOENT || errnum_ == ENOTDIR;
    fail(args.env(), isMissing ? Err::Argument : Err::Connection, args.verb(), errnum_,
         "the folder of the socket, %s, cannot be used: its lock %s cannot be opened or replaced: %s", folder.c_str(),
         path_.c_str(), errnoText(errnum_));
    return false;
  }

  const std::string path_;
  int held_ = -1;
  int errnum_ = 0;
};

/** Removes a socket on which no process listens. Returns false with an exception pending if the path is taken. */
bool clearPath(IpcArgs& args, const sockaddr_un& address) {
  const char* path = address.sun_path;
  struct stat stat = {};
  if (lstat(path, &stat) != 0) {
    if (errno == ENOENT) return true;
    return failOn(args, errno, "the socket's path cannot be inspected") != nullptr;
  }
  if (!S_ISSOCK(stat.st_mode)) {
    fail(args.env(), Err::Argument, args.verb(), EEXIST, "%s is there and is no socket", path);
    return false;
  }
  const Fd probe(newSocket());
  if (probe.get() < 0) return failOn(args, errno, "cannot create a socket") != nullptr;
  const int errnum = connectTo(probe.get(), address);
  if (errnum != ECONNREFUSED) {
    fail(args.env(), Err::Connection, args.verb(), EADDRINUSE, "another process already listens on %s", path);
    return false;
  }
  if (unlink(path) == 0 || errno == ENOENT) return true;
  return failOn(args, errno, "the socket that was left behind cannot be removed") != nullptr;
}

}  // namespace

bool refuseFds(int socket) {
  const int no = 0;
  return setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no) == 0;
}

bool canRefuseFds() {
  static const bool can = [] {
    const Fd probe(newSocket());
    return probe.get() >= 0 && refuseFds(probe.get());
  }();
  return can;
}

void takeUrgentInline(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes);
}

/** listenUnix(path, mode, backlog, takesFds): returns a listening descriptor. */
napi_value listenUnix(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "listenUnix");
  const std::string path = args.string(0);
  const auto mode = static_cast<mode_t>(args.whole(1, "mode", 0, 0777));
  const auto backlog = static_cast<int>(args.whole(2, "backlog", 1, kMaxBacklog));
  const bool takesFds = args.boolean(3);
  sockaddr_un address = {};
  if (!args.ok() || !toAddress(args, path, &address)) return nullptr;
  PathLock lock(path);
  if (!lock.take(args) || !clearPath(args, address)) return nullptr;
  Fd fd(newSocket());
  if (fd.get() < 0) return failOn(args, errno, "cannot create a socket");
  // Connections inherit this option.
  if (!takesFds) refuseFds(fd.get());
  // The file gets the descriptor's mode minus the umask, so the mode is never wider than requested.
  fchmod(fd.get(), mode);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failOn(args, errno, "the socket cannot be made there");
  }
  if (chmod(address.sun_path, mode) != 0 || listen(fd.get(), backlog) != 0) {
    const int errnum = errno;
    unlink(address.sun_path);
    return failOn(args, errnum, "the socket cannot listen");
  }
  return number(napi, fd.take());
}

/** acceptUnix(fd): returns the descriptor of a connection, or -1 if none is pending. */
napi_value acceptUnix(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "acceptUnix");
  const int fd = args.unixSocket(0);
  if (!args.ok()) return nullptr;
  for (;;) {
    const int accepted = accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) {
      takeUrgentInline(accepted);
      return number(napi, accepted);
    }
    if (errno == EAGAIN) return number(napi, -1);
    if (errno != EINTR && errno != ECONNABORTED) return failOn(args, errno, "no connection can be accepted");
  }
}

/** connectUnix(path): returns a connected descriptor, or -1 while the listener's queue is full. */
napi_value connectUnix(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "connectUnix");
  const std::string path = args.string(0);
  sockaddr_un address = {};
  if (!args.ok() || !toAddress(args, path, &address)) return nullptr;
  Fd fd(newSocket());
  if (fd.get() < 0) return failOn(args, errno, "cannot create a socket");
  const int errnum = connectTo(fd.get(), address);
  if (errnum == 0) return number(napi, fd.take());
  if (errnum == EAGAIN) return number(napi, -1);
  return fail(args.env(), Err::Connection, args.verb(), errnum, "cannot connect to %s: %s (%s)",
              address.sun_path, errnoText(errnum), errnoName(errnum));
}

/** peerCredentials(fd): returns { pid, uid, gid, groups } of the peer at the time of its connect(2) or listen(2). */
napi_value peerCredentials(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "peerCredentials");
  const int fd = args.unixSocket(0);
  if (!args.ok()) return nullptr;
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return failOn(args, errno, "the credentials of the peer cannot be read");
  }
  if (peer.uid == static_cast<uid_t>(-1)) return failOn(args, ENOTCONN, "the socket has no peer");
  std::vector<gid_t> groups(64);
  bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  if (rc != 0 && errno == ERANGE) {
    groups.resize(bytes / sizeof(gid_t));
    rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  }
  groups.resize(rc == 0 ? bytes / sizeof(gid_t) : 0);
  napi_value list = nullptr;
  napi_create_array_with_length(napi, groups.size(), &list);
  for (size_t i = 0; i < groups.size(); i++) {
    napi_set_element(napi, list, static_cast<uint32_t>(i), number(napi, groups[i]));
  }
  return Result(napi).number("pid", peer.pid).number("uid", peer.uid).number("gid", peer.gid).value("groups", list);
}

/**
 * isPeerAlive(fd): whether the process that connected, or that listens, still runs, so that its number is not another
 * process's. Undefined if the kernel cannot tell (before Linux 6.5).
 */
napi_value isPeerAlive(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "isPeerAlive");
  const int fd = args.unixSocket(0);
  if (!args.ok()) return nullptr;
  int pidfd = -1;
  socklen_t bytes = sizeof pidfd;
  napi_value alive = nullptr;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) != 0) {
    if (errno == ENOPROTOOPT) return undefined(napi);
    napi_get_boolean(napi, false, &alive);
    return alive;
  }
  // It becomes readable when the process ends.
  pollfd ended = {pidfd, POLLIN, 0};
  napi_get_boolean(napi, poll(&ended, 1, 0) == 0, &alive);
  close(pidfd);
  return alive;
}

}  // namespace isoverbs::ipc
