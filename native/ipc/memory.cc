// Memory that processes share: memfds, sealed so that no process can shrink them while another uses them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ipc.h"

// Available since Linux 5.1 and 6.3.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace isoverbs::ipc {

namespace {

constexpr uint64_t kMaxMemoryBytes = uint64_t{1} << 30;
/** The kernel's limit, without the terminating zero. */
constexpr size_t kMaxNameBytes = 249;
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;

void onArrayBufferGone(napi_env, void* data, void* bytes) { munmap(data, reinterpret_cast<size_t>(bytes)); }

/**
 * Maps memory and wraps it in an ArrayBuffer; null with an exception pending on failure. The bytes live until no
 * JavaScript can reach them.
 */
napi_value expose(IpcArgs& args, int fd, size_t bytes, int flags) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (data == MAP_FAILED) {
    if (errno != EPERM && errno != EACCES) return failOn(args, errno, "the memory cannot be mapped");
    return fail(args.env(), Err::Memory, args.verb(), errno, "this memory may only be read: open it for reading");
  }
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_arraybuffer(args.env().env, data, bytes, onArrayBufferGone,
                                                              reinterpret_cast<void*>(bytes), &buffer);
  if (status == napi_ok) return buffer;
  munmap(data, bytes);
  return fail(args.env(), Err::Unsupported, args.verb(), 0, "this runtime allows no ArrayBuffer over shared memory");
}

int createFd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(name, kFlags | MFD_NOEXEC_SEAL);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create(name, kFlags);
}

}  // namespace

/** createMemory(name, bytes, reservedBytes): { fd, buffer }. */
napi_value createMemory(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "createMemory");
  const std::string name = args.string(0);
  const uint64_t bytes = args.whole(1, "bytes", 1, kMaxMemoryBytes);
  const uint64_t reserved = args.whole(2, "reservedBytes", 1, bytes);
  if (!args.ok()) return nullptr;
  if (name.size() > kMaxNameBytes || name.find('\0') != std::string::npos) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "a name has up to %zu bytes, none of them zero",
                kMaxNameBytes);
  }
  const int fd = createFd(name.c_str());
  if (fd < 0) return failOn(args, errno, "the memory cannot be made");
  // Allocates the pages now, because a later write to a page that the system cannot allocate would kill the process.
  int errnum = posix_fallocate(fd, 0, static_cast<off_t>(reserved));
  if (errnum == 0 && ftruncate(fd, static_cast<off_t>(bytes)) != 0) errnum = errno;
  napi_value buffer = nullptr;
  if (errnum != 0) {
    failOn(args, errnum, "no memory for that");
  } else {
    buffer = expose(args, fd, bytes, MAP_SHARED);
  }
  if (buffer == nullptr) {
    close(fd);
    return nullptr;
  }
  return Result(napi).number("fd", fd).value("buffer", buffer);
}

/** sealMemory(fd, readOnlyForOthers). */
napi_value sealMemory(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "sealMemory");
  const int fd = args.fd(0);
  const bool readOnly = args.boolean(1);
  if (!args.ok()) return nullptr;
  const int seals = kFixedSize | F_SEAL_SEAL | (readOnly ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(fd, F_ADD_SEALS, seals) == 0) return undefined(napi);
  if (errno == EPERM) return fail(args.env(), Err::State, args.verb(), EPERM, "the memory is sealed already");
  if (errno == EINVAL && readOnly) {
    return fail(args.env(), Err::Unsupported, args.verb(), EINVAL,
                "descriptor %d is not a memfd, or the kernel is older than 5.1 and cannot seal it against writes", fd);
  }
  return failOn(args, errno, "the memory cannot be sealed");
}

/**
 * mapMemory(fd, bytes, writable): an ArrayBuffer. Memory from another process must have exactly this size and be
 * unable to change it: if a peer shrank it, this process would die of SIGBUS.
 */
napi_value mapMemory(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "mapMemory");
  const int fd = args.fd(0);
  const uint64_t bytes = args.whole(1, "bytes", 1, kMaxMemoryBytes);
  const bool writable = args.boolean(2);
  if (!args.ok()) return nullptr;
  // The seals are checked before the size, because only sealed memory keeps the size that is read next.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return fail(args.env(), Err::Memory, args.verb(), errno, "descriptor %d is no shared memory", fd);
  if ((seals & kFixedSize) != kFixedSize) {
    return fail(args.env(), Err::Memory, args.verb(), EPERM, "the memory is not sealed: whoever made it could shrink it");
  }
  struct stat stat = {};
  if (fstat(fd, &stat) != 0) return failOn(args, errno, "the memory cannot be inspected");
  if (static_cast<uint64_t>(stat.st_size) != bytes) {
    return fail(args.env(), Err::Memory, args.verb(), EINVAL, "the memory has %lld bytes, not %llu",
                static_cast<long long>(stat.st_size), static_cast<unsigned long long>(bytes));
  }
  // For reading, a private mapping: it shows what other processes write, and a stray write by this process changes a
  // copy of the page, whereas in a shared mapping it would kill the process.
  return expose(args, fd, bytes, writable ? MAP_SHARED : MAP_PRIVATE);
}

}  // namespace isoverbs::ipc
