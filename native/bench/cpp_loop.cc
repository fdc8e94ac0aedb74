// The baseline of bench:datapath: a C++ loop that builds and posts the same requests.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <node_api.h>

#include <ctime>
#include <vector>

namespace {

struct Device {
  ibv_context* context = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

double threadNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

Device open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Device d;
  if (library == nullptr) return d;
  auto** list = symbol<decltype(&ibv_get_device_list)>(library, "ibv_get_device_list")(nullptr);
  d.context = symbol<decltype(&ibv_open_device)>(library, "ibv_open_device")(list[0]);
  auto* pd = symbol<decltype(&ibv_alloc_pd)>(library, "ibv_alloc_pd")(d.context);
  d.cq = symbol<decltype(&ibv_create_cq)>(library, "ibv_create_cq")(d.context, 4096, nullptr, nullptr, 0);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = d.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_sge = 1;
  d.qp = symbol<decltype(&ibv_create_qp)>(library, "ibv_create_qp")(pd, &init);
  return d;
}

void build(std::vector<ibv_send_wr>& wrs, std::vector<ibv_sge>& sges, uint64_t first, uint64_t signalFrom) {
  const size_t n = wrs.size();
  for (size_t i = 0; i < n; i++) {
    const uint64_t id = first + i;
    sges[i] = {0x10000000 + (id & 1023) * 64, 64, 7};
    ibv_send_wr& wr = wrs[i];
    wr.wr_id = id;
    wr.next = i + 1 < n ? &wrs[i + 1] : nullptr;
    wr.sg_list = &sges[i];
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = i >= signalFrom ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma.remote_addr = 0x20000000 + (id & 1023) * 64;
    wr.wr.rdma.rkey = 9;
  }
}

/** run(path, total, batch, poll): ns of thread CPU time per request. */
napi_value run(napi_env env, napi_callback_info info) {
  size_t argc = 4;
  napi_value argv[4];
  napi_get_cb_info(env, info, &argc, argv, nullptr, nullptr);
  char path[4096];
  size_t length = 0;
  int64_t total = 0;
  int64_t batch = 0;
  bool poll = false;
  napi_get_value_string_utf8(env, argv[0], path, sizeof path, &length);
  napi_get_value_int64(env, argv[1], &total);
  napi_get_value_int64(env, argv[2], &batch);
  napi_get_value_bool(env, argv[3], &poll);

  static Device device = open(path);
  napi_value result;
  napi_get_null(env, &result);
  if (device.qp == nullptr) return result;
  std::vector<ibv_send_wr> wrs(static_cast<size_t>(batch));
  std::vector<ibv_sge> sges(wrs.size());
  std::vector<ibv_wc> wcs(wrs.size());
  // Without polling no request is signaled; with polling, every request is.
  const uint64_t signalFrom = poll ? 0 : ~0ull;
  uint64_t sum = 0;
  const double start = threadNs();
  for (int64_t done = 0; done < total; done += batch) {
    build(wrs, sges, static_cast<uint64_t>(done), signalFrom);
    ibv_send_wr* bad = nullptr;
    ibv_post_send(device.qp, wrs.data(), &bad);
    if (!poll) continue;
    const int n = ibv_poll_cq(device.cq, static_cast<int>(batch), wcs.data());
    for (int i = 0; i < n; i++) sum += wcs[static_cast<size_t>(i)].wr_id + wcs[static_cast<size_t>(i)].status;
  }
  const double ns = (threadNs() - start) / static_cast<double>(total);
  napi_create_double(env, sum == 1 ? 0 : ns, &result);
  return result;
}

napi_value threadCpuNs(napi_env env, napi_callback_info) {
  napi_value result;
  napi_create_double(env, threadNs(), &result);
  return result;
}

}  // namespace

NAPI_MODULE_INIT() {
  napi_value fn;
  napi_create_function(env, "run", NAPI_AUTO_LENGTH, run, nullptr, &fn);
  napi_set_named_property(env, exports, "run", fn);
  napi_create_function(env, "threadCpuNs", NAPI_AUTO_LENGTH, threadCpuNs, nullptr, &fn);
  napi_set_named_property(env, exports, "threadCpuNs", fn);
  return exports;
}
