// libibverbs of the null device (null_device.h): devices, memory, queues. null0 has no vendor. null1 identifies itself
// as soft-RoCE, whose driver the addon handles specially.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "null_device.h"

namespace null_device {

uint32_t faultPermille = 0;

namespace {

ibv_device devices[2] = {};
ibv_device* deviceList[3] = {&devices[0], &devices[1], nullptr};
std::atomic<uint32_t> lastNumber{0};
std::atomic<uint64_t> faultState{0};

/** splitmix64: each draw advances the state by one step, whichever thread draws. */
uint64_t step() {
  uint64_t z = faultState.fetch_add(0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct Configuration {
  Configuration() {
    const char* text = std::getenv("ISOVERBS_NULL_FAULTS");
    unsigned permille = 0;
    unsigned seed = 0;
    if (text == nullptr || std::sscanf(text, "%u:%u", &permille, &seed) != 2) return;
    faultPermille = permille;
    faultState = seed;
  }
};
const Configuration configuration;

/** Asynchronous events that no verb of this device causes, and one of an unknown kind. */
void raiseAny(ibv_context* context) {
  constexpr int kTypes[] = {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,     IBV_EVENT_LID_CHANGE, IBV_EVENT_SM_CHANGE,
                            IBV_EVENT_GID_CHANGE,  IBV_EVENT_DEVICE_FATAL, IBV_EVENT_WQ_FATAL,   31};
  ibv_async_event event = {};
  event.event_type = static_cast<ibv_event_type>(kTypes[draw(sizeof kTypes / sizeof *kTypes)]);
  event.element.port_num = 1;
  raise(context, event);
}

}  // namespace

void broken(const char* what) {
  std::fprintf(stderr, "null device: %s\n", what);
  std::abort();
}

int drawFault() {
  constexpr int kErrnos[] = {ENOMEM, EINVAL, EBUSY, EAGAIN, EOPNOTSUPP, ENOSYS, EIO, EFAULT, EPERM, ENODEV, ENOENT, 4095};
  const uint64_t drawn = step();
  if (drawn % 1000 >= faultPermille) return 0;
  return kErrnos[(drawn >> 32) % (sizeof kErrnos / sizeof *kErrnos)];
}

bool faultErrno() {
  const int errnum = fault();
  if (errnum != 0) errno = errnum;
  return errnum != 0;
}

uint32_t draw(uint32_t n) { return static_cast<uint32_t>(step() >> 32) % n; }

uint32_t nextNumber() { return ++lastNumber; }

bool isTooMuch(const ibv_qp_cap& cap) {
  return cap.max_send_wr > kMaxWr || cap.max_recv_wr > kMaxWr || cap.max_send_sge > kMaxSge ||
         cap.max_recv_sge > kMaxSge || cap.max_inline_data > 1024;
}

Cq* makeCq(ibv_context* context, uint32_t cqe, ibv_comp_channel* channel) {
  auto* cq = new Cq{};
  size_t size = 1;
  while (size < cqe) size *= 2;
  cq->ring.resize(size);
  cq->context = context;
  cq->channel = channel;
  cq->cqe = static_cast<int>(size);
  of(context)->users++;
  if (channel != nullptr) static_cast<Channel*>(channel)->users++;
  return cq;
}

Qp* makeQp(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr& init) {
  auto* qp = new Qp{};
  qp->qp_base.context = context;
  qp->qp_base.pd = pd;
  qp->qp_base.send_cq = init.send_cq;
  qp->qp_base.recv_cq = init.recv_cq;
  qp->qp_base.srq = init.srq;
  qp->qp_base.qp_context = init.qp_context;
  qp->qp_base.qp_num = nextNumber();
  qp->qp_base.qp_type = init.qp_type;
  qp->init = init;
  qp->receives.maxWr = init.cap.max_recv_wr;
  qp->receives.maxSge = init.cap.max_recv_sge;
  if (pd != nullptr) of(pd)->users++;
  if (init.send_cq != nullptr) of(init.send_cq)->users++;
  if (init.recv_cq != nullptr) of(init.recv_cq)->users++;
  if (init.srq != nullptr) static_cast<Srq*>(init.srq)->users++;
  return qp;
}

Srq* makeSrq(ibv_pd* pd, const ibv_srq_attr& attr) {
  auto* srq = new Srq{};
  srq->context = pd->context;
  srq->pd = pd;
  srq->receives.maxWr = attr.max_wr;
  srq->receives.maxSge = attr.max_sge;
  srq->number = nextNumber();
  of(pd)->users++;
  return srq;
}

}  // namespace null_device

using namespace null_device;

namespace {

ibv_mr* registerAt(ibv_pd* pd, void* addr, size_t length) {
  if (faultErrno()) return nullptr;
  auto* mr = new Mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->lkey = nextNumber();
  mr->rkey = mr->lkey;
  of(pd)->users++;
  return mr;
}

}  // namespace

extern "C" {

int ibv_fork_init(void) { return 0; }
ibv_device** ibv_get_device_list(int* count) {
  for (size_t i = 0; i < 2; i++) {
    std::snprintf(devices[i].name, sizeof devices[i].name, "null%zu", i);
    devices[i].transport_type = IBV_TRANSPORT_IB;
  }
  if (count != nullptr) *count = 2;
  return deviceList;
}
void ibv_free_device_list(ibv_device**) {}
const char* ibv_get_device_name(ibv_device* d) { return d->name; }
__be64 ibv_get_device_guid(ibv_device*) { return 0; }

ibv_context* ibv_open_device(ibv_device* d) {
  if (faultErrno()) return nullptr;
  auto* context = new Context{};
  context->sz = sizeof(verbs_context);
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->context.device = d;
  context->context.num_comp_vectors = 2;
  context->context.cmd_fd = -1;
  context->context.async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  fillOps(*context);
  return &context->context;
}
int ibv_close_device(ibv_context* base) {
  Context* context = of(base);
  require(context->users == 0, "a context with objects was closed");
  close(base->async_fd);
  delete context;
  // Checked only now, because the caller cannot keep a context whose close failed.
  return fault() == 0 ? 0 : -1;
}
int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  memset(attr, 0, sizeof *attr);
  attr->max_qp = attr->max_cq = attr->max_mr = attr->max_pd = attr->max_mw = attr->max_ah = attr->max_srq = 65536;
  attr->max_qp_wr = attr->max_srq_wr = kMaxWr;
  attr->max_sge = attr->max_srq_sge = kMaxSge;
  attr->max_cqe = 65536;
  attr->phys_port_cnt = 1;
  attr->max_mr_size = ~0ull;
  attr->device_cap_flags = IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attr->vendor_id = context->device == &devices[1] ? 0xffffff : 0;
  return 0;
}
// The symbol takes the struct of libibverbs 1.0, whose fields are the first ones of the current struct.
int ibv_query_port(ibv_context* context, uint8_t, _compat_ibv_port_attr* compat) {
  if (faultPermille != 0 && draw(1000) < faultPermille) raiseAny(context);
  if (const int errnum = fault(); errnum != 0) return errnum;
  auto* attr = reinterpret_cast<ibv_port_attr*>(compat);
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
  attr->max_msg_sz = 1u << 31;
  attr->gid_tbl_len = 2;
  attr->pkey_tbl_len = 1;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int, union ibv_gid* gid) {
  if (faultErrno()) return -1;
  memset(gid, 0, sizeof *gid);
  return 0;
}
int _ibv_query_gid_ex(ibv_context*, uint32_t, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  if (index == 1) return ENODATA;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  entry->ndev_ifindex = 1;
  return 0;
}
int ibv_query_pkey(ibv_context*, uint8_t, int, __be16* pkey) {
  if (faultErrno()) return -1;
  *pkey = 0xffff;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (faultErrno()) return nullptr;
  auto* pd = new Pd{};
  pd->context = context;
  of(context)->users++;
  return pd;
}
int ibv_dealloc_pd(ibv_pd* base) {
  Pd* pd = of(base);
  require(pd->users == 0, "a protection domain with objects was deallocated");
  if (const int errnum = fault(); errnum != 0) return errnum;
  of(pd->context)->users--;
  delete pd;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int) { return registerAt(pd, addr, length); }
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t, unsigned) {
  return registerAt(pd, addr, length);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t, size_t length, uint64_t, int, int) {
  return registerAt(pd, nullptr, length);
}
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int) {
  if (faultErrno()) return draw(2) == 0 ? IBV_REREG_MR_ERR_CMD : IBV_REREG_MR_ERR_INPUT;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    require(pd != nullptr, "a region was moved to no protection domain");
    of(mr->pd)->users--;
    mr->pd = pd;
    of(pd)->users++;
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    require(addr != nullptr && length != 0, "a region was moved to no memory");
    mr->addr = addr;
    mr->length = length;
  }
  mr->lkey = mr->rkey = nextNumber();
  return 0;
}
int ibv_dereg_mr(ibv_mr* base) {
  auto* mr = static_cast<Mr*>(base);
  if (mr->windows != 0) return EINVAL;
  if (const int errnum = fault(); errnum != 0) return errnum;
  of(mr->pd)->users--;
  delete mr;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* user, ibv_comp_channel* channel, int) {
  if (faultErrno()) return nullptr;
  Cq* cq = makeCq(context, static_cast<uint32_t>(cqe), channel);
  cq->cq_context = user;
  return cq->base();
}
int ibv_resize_cq(ibv_cq* base, int cqe) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  Cq& cq = *of(base);
  size_t size = 1;
  while (size < static_cast<size_t>(cqe)) size *= 2;
  cq.lock.lock();
  const uint32_t waiting = cq.tail - cq.head;
  if (waiting <= size) {
    std::vector<ibv_wc> ring(size);
    for (uint32_t i = 0; i < waiting; i++) ring[i] = cq.ring[(cq.head + i) & cq.mask()];
    cq.ring.swap(ring);
    cq.head = 0;
    cq.tail = waiting;
    cq.cqe = static_cast<int>(size);
  }
  cq.lock.unlock();
  return waiting <= size ? 0 : EINVAL;
}
int ibv_destroy_cq(ibv_cq* base) {
  Cq* cq = of(base);
  require(cq->users == 0, "a completion queue with queue pairs was destroyed");
  require(!cq->polling, "a completion queue was destroyed while it was polled");
  forgetCompletions(*cq);
  forget(cq->context, base);
  if (cq->channel != nullptr) static_cast<Channel*>(cq->channel)->users--;
  of(cq->context)->users--;
  delete cq;
  return fault();
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  if (faultErrno()) return nullptr;
  if (isTooMuch(init->cap)) {
    errno = EINVAL;
    return nullptr;
  }
  return &makeQp(pd->context, pd, *init)->qp_base;
}
int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (attr->qp_state > IBV_QPS_ERR) return EINVAL;
  Qp& qp = *of(base);
  const bool drained = attr->qp_state == IBV_QPS_SQD && base->state != IBV_QPS_SQD && attr->en_sqd_async_notify != 0;
  base->state = attr->qp_state;
  if (drained) raiseQp(qp, IBV_EVENT_SQ_DRAINED);
  if (base->state == IBV_QPS_ERR) {
    flushReceives(qp);
    raiseQp(qp, base->srq != nullptr ? IBV_EVENT_QP_LAST_WQE_REACHED : IBV_EVENT_QP_FATAL);
  }
  if (base->state == IBV_QPS_RTR) raiseQp(qp, IBV_EVENT_COMM_EST);
  if (base->state == IBV_QPS_RESET) qp.receives.ids.clear();
  return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  *attr = of(qp)->attr;
  attr->qp_state = qp->state;
  *init = of(qp)->init;
  return 0;
}
int ibv_destroy_qp(ibv_qp* base) {
  Qp* qp = of(base);
  forget(base->context, base);
  if (qp->xrcd != nullptr) qp->xrcd->users--;
  if (base->pd != nullptr) of(base->pd)->users--;
  if (base->send_cq != nullptr) of(base->send_cq)->users--;
  if (base->recv_cq != nullptr) of(base->recv_cq)->users--;
  if (base->srq != nullptr) static_cast<Srq*>(base->srq)->users--;
  delete qp;
  return fault();
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  if (faultErrno()) return nullptr;
  if (init->attr.max_wr > kMaxWr || init->attr.max_sge > kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  return makeSrq(pd, init->attr);
}
int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  auto* srq = static_cast<Srq*>(base);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (attr->max_wr > kMaxWr || attr->max_wr < srq->receives.ids.size()) return EINVAL;
    srq->receives.maxWr = attr->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attr->srq_limit > srq->receives.maxWr) return EINVAL;
    srq->limit = attr->srq_limit;
  }
  return 0;
}
int ibv_query_srq(ibv_srq* base, ibv_srq_attr* attr) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  const auto* srq = static_cast<const Srq*>(base);
  *attr = {.max_wr = srq->receives.maxWr, .max_sge = srq->receives.maxSge, .srq_limit = srq->limit};
  return 0;
}
int ibv_destroy_srq(ibv_srq* base) {
  auto* srq = static_cast<Srq*>(base);
  require(srq->users == 0, "a shared receive queue with queue pairs was destroyed");
  forget(srq->context, base);
  if (srq->xrcd != nullptr) srq->xrcd->users--;
  if (srq->cq != nullptr) srq->cq->users--;
  of(srq->pd)->users--;
  delete srq;
  return fault();
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (faultErrno()) return nullptr;
  if (attr->port_num != 1) {
    errno = EINVAL;
    return nullptr;
  }
  auto* ah = new Ah{};
  ah->context = pd->context;
  ah->pd = pd;
  of(pd)->users++;
  return ah;
}
int ibv_destroy_ah(ibv_ah* base) {
  auto* ah = static_cast<Ah*>(base);
  of(ah->pd)->users--;
  ah->magic = 0;
  delete ah;
  return fault();
}
int ibv_attach_mcast(ibv_qp*, const union ibv_gid* gid, uint16_t) { return gid->raw[0] == 0xff ? fault() : EINVAL; }
int ibv_detach_mcast(ibv_qp*, const union ibv_gid*, uint16_t) { return fault(); }
}
