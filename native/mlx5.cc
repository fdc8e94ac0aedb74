#include "mlx5.h"

#include <dlfcn.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "mlx5-wqe.h"

#ifdef ISOVERBS_HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

namespace isoverbs {

#ifndef ISOVERBS_HAVE_MLX5DV

std::string probeWait(ibv_context*, const ibv_device_attr&) {
  return "the addon was built without infiniband/mlx5dv.h of rdma-core 36 or later";
}

#else

namespace {

constexpr uint32_t kMellanox = 0x02c9;
constexpr auto kPatience = std::chrono::milliseconds(100);

/** libmlx5's functions, or the reason why they are unavailable. */
struct Library {
  decltype(&::mlx5dv_is_supported) isSupported = nullptr;
  decltype(&::mlx5dv_create_qp) createQp = nullptr;
  decltype(&::mlx5dv_qp_ex_from_ibv_qp_ex) qpEx = nullptr;
  decltype(&::mlx5dv_init_obj) initObj = nullptr;
  std::string error;

  Library() {
    void* handle = nullptr;
    error = probeLibrary("libmlx5.so.1", &handle);
    if (handle == nullptr) return;
    need(handle, isSupported, "mlx5dv_is_supported");
    need(handle, createQp, "mlx5dv_create_qp");
    need(handle, qpEx, "mlx5dv_qp_ex_from_ibv_qp_ex");
    need(handle, initObj, "mlx5dv_init_obj");
  }

  template <class F>
  void need(void* handle, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr && error.empty()) error = std::string("libmlx5.so.1 has no ") + name;
  }
};

std::string because(const char* step, int errnum) { return std::string(step) + ": " + std::strerror(errnum); }

/** A queue pair that is connected to itself, for raw requests. Its destructor frees everything that it uses. */
class Loopback {
 public:
  Loopback(const Library& library, ibv_context* ctx) : library_(library), ctx_(ctx) {}
  ~Loopback() {
    if (qp_ != nullptr) verbs()->destroyQp(qp_);
    if (cq_ != nullptr) verbs()->destroyCq(cq_);
    if (pd_ != nullptr) verbs()->deallocPd(pd_);
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  std::string create() {
    if ((pd_ = verbs()->allocPd(ctx_)) == nullptr) return because("no protection domain", errno);
    if ((cq_ = verbs()->createCq(ctx_, 4, nullptr, nullptr, 0)) == nullptr) return because("no CQ", errno);
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    mlx5dv_qp_init_attr mlx5 = {};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    mlx5.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
    if ((qp_ = library_.createQp(ctx_, &init, &mlx5)) == nullptr) {
      return because("no queue pair for raw requests", errno);
    }
    return {};
  }

  std::string connect() {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    int rc = verbs()->modifyQp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (rc != 0) return because("INIT", rc);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp_->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.hop_limit = 1;
    if (verbs()->queryGid(ctx_, 1, 0, &attr.ah_attr.grh.dgid) != 0) return because("no GID", errno);
    rc = verbs()->modifyQp(qp_, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (rc != 0) return because("RTR", rc);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    rc = verbs()->modifyQp(qp_, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                               IBV_QP_MAX_QP_RD_ATOMIC);
    return rc == 0 ? std::string() : because("RTS", rc);
  }

  /** Posts the WAIT and checks its result. */
  std::string wait() {
    uint32_t cqn = 0;
    if (!numberOfCq(&cqn)) return because("the device does not report the number of the CQ", errno);
    ibv_qp_ex* const ex = verbs()->qpToQpEx(qp_);
    mlx5dv_qp_ex* const mlx5 = library_.qpEx(ex);
    const auto wqe = mlx5::encodeWait(0, qp_->qp_num, cqn, mlx5::WaitIndex().next(0, 0), true);
    ex->wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    mlx5->wr_raw_wqe(mlx5, wqe.bytes);
    if (const int rc = ex->wr_complete(ex); rc != 0) return because("the WAIT was refused", rc);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    ibv_wc wc = {};
    int polled = 0;
    while ((polled = ibv_poll_cq(cq_, 1, &wc)) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return "the WAIT was posted, but not executed";
      std::this_thread::yield();
    }
    if (polled < 0) return "the CQ could not be polled";
    if (wc.status != IBV_WC_SUCCESS) return "the WAIT failed with status " + std::to_string(wc.status);
    return {};
  }

 private:
  bool numberOfCq(uint32_t* number) {
    mlx5dv_cq out = {};
    mlx5dv_obj object = {};
    object.cq.in = cq_;
    object.cq.out = &out;
    if (library_.initObj(&object, MLX5DV_OBJ_CQ) != 0) return false;
    *number = out.cqn;
    return true;
  }

  const Library& library_;
  ibv_context* ctx_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

}  // namespace

std::string probeWait(ibv_context* ctx, const ibv_device_attr& attr) {
  // Checked first, because libmlx5 casts any ibv_device to its own type.
  if (attr.vendor_id != kMellanox) return "not an mlx5 device";
  static const auto* const library = new Library;
  if (!library->error.empty()) return "libmlx5 cannot be used: " + library->error;
  if (verbs()->qpToQpEx == nullptr) return "this release of libibverbs has no extended queue pairs";
  if (!library->isSupported(ctx->device)) return "not an mlx5 device";
  Loopback loopback(*library, ctx);
  std::string error = loopback.create();
  if (error.empty()) error = loopback.connect();
  if (error.empty()) error = loopback.wait();
  return error;
}

#endif

}  // namespace isoverbs
