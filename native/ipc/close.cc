// Closes Unix sockets whose peers may have sent descriptors. The kernel closes descriptors that were never received
// together with the socket that they wait in, in the thread that closes it, which then waits: for the unsent data of a TCP
// socket with SO_LINGER, as long as its last owner liked. A thread that ends does not linger, so such sockets are closed by
// the end of a thread that has descriptors of its own.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include "../listener.h"
#include "ipc.h"

// Available since Linux 5.9.
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace isoverbs::ipc {

namespace {

constexpr size_t kDrainBytes = 4096;
constexpr uint64_t kTickMs = 5;
constexpr size_t kStackBytes = 256 * 1024;
/**
 * Threads that close sockets at the same time. Each closes all that wait when it starts. A descriptor of a file system in
 * user space may block a thread; sockets then wait here, and keep counting as open.
 */
constexpr size_t kMaxThreads = 4;

enum class Stage { Starting, HasOwnDescriptors, SharesDescriptors };

/** What a thread closes; the thread and the env both own it. */
struct Batch {
  /** In ascending order. */
  std::vector<int> fds;
  std::atomic<Stage> stage = Stage::Starting;
  /** Posted when this process has no other descriptors of these sockets. */
  sem_t mayEnd = {};

  explicit Batch(std::vector<int> list) : fds(std::move(list)) {
    std::sort(fds.begin(), fds.end());
    sem_init(&mayEnd, 0, 0);
  }
  ~Batch() { sem_destroy(&mayEnd); }
};

/** Gives this thread a copy of the process's descriptors; containers often forbid the first way. */
bool copyDescriptors() {
  return unshare(CLONE_FILES) == 0 || syscall(SYS_close_range, INT32_MAX, INT32_MAX, CLOSE_RANGE_UNSHARE) == 0;
}

/** The copies of other descriptors would delay what their closing means to others. */
void closeOthers(const std::vector<int>& fds) {
  unsigned int from = 0;
  for (const int fd : fds) {
    const auto kept = static_cast<unsigned int>(fd);
    if (kept > from) syscall(SYS_close_range, from, kept - 1, 0);
    from = kept + 1;
  }
  syscall(SYS_close_range, from, UINT32_MAX, 0);
}

void* closeByEnding(void* data) {
  const std::unique_ptr<std::shared_ptr<Batch>> owner(static_cast<std::shared_ptr<Batch>*>(data));
  Batch& batch = **owner;
  if (!copyDescriptors()) {
    batch.stage = Stage::SharesDescriptors;
    for (const int fd : batch.fds) close(fd);
    return nullptr;
  }
  closeOthers(batch.fds);
  batch.stage = Stage::HasOwnDescriptors;
  while (sem_wait(&batch.mayEnd) != 0 && errno == EINTR) continue;
  return nullptr;
}

/** A started thread, and what is to be called when it has ended. */
struct Closing {
  std::shared_ptr<Batch> batch;
  pthread_t thread = {};
  bool mayEnd = false;
  std::vector<std::unique_ptr<Listener>> listeners;

  /** False if there are no resources for a thread. */
  bool start() {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setstacksize(&attributes, kStackBytes);
    // Signals of the process are not for this thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto* owner = new std::shared_ptr<Batch>(batch);
    const int rc = pthread_create(&thread, &attributes, closeByEnding, owner);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (rc != 0) delete owner;
    return rc == 0;
  }

  /** Closes the process's descriptors once the thread has its own; none of these is the last. */
  void proceed() {
    if (mayEnd || batch->stage == Stage::Starting) return;
    mayEnd = true;
    if (batch->stage == Stage::SharesDescriptors) return;
    for (const int fd : batch->fds) close(fd);
    sem_post(&batch->mayEnd);
  }
};

}  // namespace

/** The sockets of an env that wait to be closed. Freed when libuv has closed its timer. */
struct Closer {
  IpcEnv* env = nullptr;
  uv_timer_t timer = {};
  napi_async_cleanup_hook_handle hook = nullptr;
  std::vector<int> fds;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Closing>> threads;

  /** Starts a thread for all sockets that wait; later if there are no resources for one. */
  void startThread() {
    auto closing = std::make_unique<Closing>();
    closing->batch = std::make_shared<Batch>(fds);
    if (!closing->start()) return;
    fds.clear();
    closing->listeners.swap(listeners);
    threads.push_back(std::move(closing));
  }

  void tick() {
    std::vector<std::unique_ptr<Closing>> ended;
    for (auto& one : threads) {
      one->proceed();
      if (one->mayEnd && pthread_tryjoin_np(one->thread, nullptr) == 0) ended.push_back(std::move(one));
    }
    std::erase(threads, nullptr);
    if (!fds.empty() && threads.size() < kMaxThreads) startThread();
    if (fds.empty() && threads.empty()) uv_timer_stop(&timer);
    for (const auto& one : ended) {
      for (const auto& listener : one->listeners) listener->call(0, nullptr);
    }
  }

  /** Everything that still waits, without waiting for the threads: the env ends. */
  void abandon() {
    if (!fds.empty()) startThread();
    for (const auto& one : threads) {
      while (one->batch->stage == Stage::Starting) sched_yield();
      one->proceed();
      pthread_detach(one->thread);
    }
  }
};

namespace {

void onTimerClosed(uv_handle_t* handle) {
  auto* closer = static_cast<Closer*>(handle->data);
  if (closer->hook != nullptr) napi_remove_async_cleanup_hook(closer->hook);
  delete closer;
}

void onEnvEnding(napi_async_cleanup_hook_handle, void* data) {
  auto* closer = static_cast<Closer*>(data);
  closer->env->closer = nullptr;
  closer->abandon();
  uv_close(reinterpret_cast<uv_handle_t*>(&closer->timer), onTimerClosed);
}

void onTick(uv_timer_t* timer) {
  auto* closer = static_cast<Closer*>(timer->data);
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(closer->env->env, &scope) != napi_ok) return;
  closer->tick();
  napi_close_handle_scope(closer->env->env, scope);
}

/** Null, with an exception pending, if there is no event loop. */
Closer* closerOf(IpcArgs& args) {
  IpcEnv& env = args.env();
  if (env.closer != nullptr) return env.closer;
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env.env, &loop) != napi_ok) {
    fail(env, Err::System, args.verb(), 0, "there is no event loop here");
    return nullptr;
  }
  auto* closer = new Closer;
  closer->env = &env;
  uv_timer_init(loop, &closer->timer);
  closer->timer.data = closer;
  uv_unref(reinterpret_cast<uv_handle_t*>(&closer->timer));
  napi_add_async_cleanup_hook(env.env, onEnvEnding, closer, &closer->hook);
  env.closer = closer;
  return closer;
}

/** Reads what has arrived, now that nothing more can. False if a descriptor came with it. */
bool drainBytes(int fd) {
  shutdown(fd, SHUT_RDWR);
  unsigned char bytes[kDrainBytes];
  ssize_t got = 0;
  do {
    got = receiveBytes(fd, bytes, sizeof bytes);
  } while (got > 0);
  return got != kFdsArrived;
}

/** Closes a socket now, or soon if descriptors wait in it; the latter requires a closer. */
bool closeOrQueue(IpcArgs& args, int fd, Closer** closer) {
  if (drainBytes(fd)) {
    close(fd);
    return true;
  }
  if (*closer == nullptr) *closer = closerOf(args);
  if (*closer == nullptr) return true;
  (*closer)->fds.push_back(fd);
  uv_timer_start(&(*closer)->timer, onTick, 0, kTickMs);
  return false;
}

}  // namespace

/**
 * closeSocket(fd, listener): returns whether the socket is closed; if not, the listener is called when it is. Nothing more
 * can arrive in either case.
 */
napi_value closeSocket(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "closeSocket");
  const int fd = args.unixSocket(0);
  if (!args.ok()) return nullptr;
  napi_valuetype type = napi_undefined;
  napi_typeof(napi, args.value(1), &type);
  if (type != napi_function) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the listener must be a function");
  }
  stopWatch(args.env(), fd);
  Closer* closer = nullptr;
  napi_value isClosed = nullptr;
  const bool closed = closeOrQueue(args, fd, &closer);
  if (!closed) closer->listeners.push_back(std::make_unique<Listener>(napi, "isoverbs.ipc.close", args.value(1)));
  napi_get_boolean(napi, closed, &isClosed);
  return isClosed;
}

/** closeListener(fd): also closes the connections that wait to be accepted, with the descriptors in them. */
napi_value closeListener(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "closeListener");
  const int fd = args.unixSocket(0);
  if (!args.ok()) return nullptr;
  stopWatch(args.env(), fd);
  // From now on, no process can connect.
  shutdown(fd, SHUT_RDWR);
  Closer* closer = nullptr;
  for (;;) {
    const int accepted = accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) {
      takeUrgentInline(accepted);
      closeOrQueue(args, accepted, &closer);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  close(fd);
  return undefined(napi);
}

}  // namespace isoverbs::ipc
