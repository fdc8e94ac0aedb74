// The baseline of bench:qp: a C++ program that creates, connects and destroys pairs of RC queue pairs.
//   qp_connect DEVICE GID_INDEX PAIRS        prints microseconds of wall time per pair
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>

namespace {

double nowUs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

ibv_context* open(const char* name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) return ibv_open_device(list[i]);
  }
  return nullptr;
}

ibv_qp* create(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) die("ibv_create_qp");
  return qp;
}

void connect(ibv_qp* qp, const ibv_qp* peer, const ibv_gid& gid, int gidIndex) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer->qp_num;
  attr.rq_psn = 7;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh = {.dgid = gid, .flow_label = 0, .sgid_index = static_cast<uint8_t>(gidIndex), .hop_limit = 64, .traffic_class = 0};
  attr.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
    die("RTR");
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = 7;
  attr.timeout = 14;
  attr.retry_cnt = 6;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 16;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_MAX_QP_RD_ATOMIC)) {
    die("RTS");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ibv_context* context = open(argv[1]);
  if (context == nullptr) die(argv[1]);
  const int gidIndex = std::atoi(argv[2]);
  const int pairs = std::atoi(argv[3]);
  ibv_gid gid;
  if (ibv_query_gid(context, 1, gidIndex, &gid)) die("ibv_query_gid");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
  const double start = nowUs();
  for (int i = 0; i < pairs; i++) {
    ibv_qp* a = create(pd, cq);
    ibv_qp* b = create(pd, cq);
    for (ibv_qp* qp : {a, b}) {
      // As in ibv_rc_pingpong, each connection queries its port and its GID.
      ibv_port_attr port;
      if (ibv_query_port(context, 1, &port) || ibv_query_gid(context, 1, gidIndex, &gid)) die("ibv_query_port");
      connect(qp, qp == a ? b : a, gid, gidIndex);
    }
    ibv_destroy_qp(a);
    ibv_destroy_qp(b);
  }
  std::printf("%.3f\n", (nowUs() - start) / pairs);
  return 0;
}
