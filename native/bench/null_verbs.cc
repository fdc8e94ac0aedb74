// A libibverbs whose one device takes every request, completes the signaled ones at once and moves nothing:
// what remains is the cost of the software above it. It reads each request as a driver does.
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#undef ibv_query_port
#undef ibv_reg_mr

namespace {

struct NullCq : ibv_cq {
  std::vector<ibv_wc> ring;
  uint32_t head = 0;
  uint32_t tail = 0;
};

struct NullQp : ibv_qp {
  ibv_qp_init_attr init;
  ibv_qp_attr attr;
};

ibv_device device = {};
ibv_device* deviceList[2] = {&device, nullptr};
// Written so that reading the requests cannot be left out.
volatile uint64_t bytesPosted = 0;
uint32_t nextNumber = 1;

ibv_wc_opcode completionOpcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    default:
      return IBV_WC_SEND;
  }
}

int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**) {
  auto* cq = static_cast<NullCq*>(qp->send_cq);
  const uint32_t mask = static_cast<uint32_t>(cq->ring.size()) - 1;
  uint64_t bytes = 0;
  for (; wr != nullptr; wr = wr->next) {
    for (int i = 0; i < wr->num_sge; i++) bytes += wr->sg_list[i].length ^ wr->sg_list[i].lkey;
    bytes += wr->wr.rdma.remote_addr + wr->wr.rdma.rkey;
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc& wc = cq->ring[cq->tail++ & mask];
    wc.wr_id = wr->wr_id;
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = completionOpcode(wr->opcode);
    wc.vendor_err = 0;
    wc.byte_len = 0;
    wc.qp_num = qp->qp_num;
    wc.wc_flags = 0;
  }
  bytesPosted = bytesPosted + bytes;
  return 0;
}

int postRecv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; }

int pollCq(ibv_cq* base, int count, ibv_wc* wc) {
  auto* cq = static_cast<NullCq*>(base);
  const uint32_t mask = static_cast<uint32_t>(cq->ring.size()) - 1;
  int n = 0;
  while (n < count && cq->head != cq->tail) wc[n++] = cq->ring[cq->head++ & mask];
  return n;
}

int reqNotify(ibv_cq*, int) { return 0; }

}  // namespace

extern "C" {

int ibv_fork_init(void) { return 0; }
ibv_device** ibv_get_device_list(int* count) {
  strcpy(device.name, "null0");
  device.transport_type = IBV_TRANSPORT_IB;
  if (count != nullptr) *count = 1;
  return deviceList;
}
void ibv_free_device_list(ibv_device**) {}
const char* ibv_get_device_name(ibv_device* d) { return d->name; }
__be64 ibv_get_device_guid(ibv_device*) { return 0; }

ibv_context* ibv_open_device(ibv_device* d) {
  auto* context = new ibv_context{};
  context->device = d;
  context->ops.post_send = postSend;
  context->ops.post_recv = postRecv;
  context->ops.poll_cq = pollCq;
  context->ops.req_notify_cq = reqNotify;
  context->cmd_fd = -1;
  context->async_fd = -1;
  return context;
}
int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
  memset(attr, 0, sizeof *attr);
  attr->max_qp = attr->max_cq = attr->max_mr = attr->max_pd = 65536;
  attr->max_qp_wr = 32768;
  attr->max_sge = 32;
  attr->max_cqe = 65536;
  attr->phys_port_cnt = 1;
  attr->max_mr_size = ~0ull;
  return 0;
}
// The symbol takes the struct of libibverbs 1.0; its fields are the first of today's.
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* compat) {
  auto* attr = reinterpret_cast<ibv_port_attr*>(compat);
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
  attr->max_msg_sz = 1u << 31;
  attr->gid_tbl_len = 1;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int, union ibv_gid* gid) {
  memset(gid, 0, sizeof *gid);
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int) {
  return new ibv_mr{pd->context, pd, addr, length, 0, nextNumber++, nextNumber};
}
int ibv_dereg_mr(ibv_mr* mr) {
  delete mr;
  return 0;
}
int ibv_query_pkey(ibv_context*, uint8_t, int, __be16* pkey) {
  *pkey = 0xffff;
  return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  errno = EAGAIN;
  return -1;
}
void ibv_ack_async_event(ibv_async_event*) {}
int ibv_resize_cq(ibv_cq*, int) { return EOPNOTSUPP; }
// A channel on which nothing ever arrives.
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, eventfd(0, EFD_NONBLOCK), 0};
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) {
  errno = EAGAIN;
  return -1;
}
void ibv_ack_cq_events(ibv_cq*, unsigned int) {}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* user, ibv_comp_channel* channel, int) {
  auto* cq = new NullCq{};
  size_t size = 1;
  while (size < static_cast<size_t>(cqe)) size *= 2;
  cq->ring.resize(size);
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = user;
  cq->cqe = static_cast<int>(size);
  return cq;
}
int ibv_destroy_cq(ibv_cq* cq) {
  delete static_cast<NullCq*>(cq);
  return 0;
}
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  auto* qp = new NullQp{};
  qp->context = pd->context;
  qp->pd = pd;
  qp->send_cq = init->send_cq;
  qp->recv_cq = init->recv_cq;
  qp->qp_context = init->qp_context;
  qp->qp_num = nextNumber++;
  qp->qp_type = init->qp_type;
  qp->init = *init;
  return qp;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  *attr = static_cast<NullQp*>(qp)->attr;
  attr->qp_state = qp->state;
  *init = static_cast<NullQp*>(qp)->init;
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
  delete static_cast<NullQp*>(qp);
  return 0;
}

// What no benchmark uses.
int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, size_t, int) { return EOPNOTSUPP; }
ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return nullptr; }
int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
int ibv_query_srq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }
int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }
ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) { return nullptr; }
int ibv_destroy_ah(ibv_ah*) { return EOPNOTSUPP; }
int ibv_attach_mcast(ibv_qp*, const union ibv_gid*, uint16_t) { return EOPNOTSUPP; }
int ibv_detach_mcast(ibv_qp*, const union ibv_gid*, uint16_t) { return EOPNOTSUPP; }
}
