#include "poll-ex.h"

#include <cerrno>

namespace isoverbs {

namespace {

void read(const Cq& queue, ibv_wc* wc, Stamp* stamp) {
  ibv_cq_ex* cq = queue.ex;
  *wc = {};
  wc->wr_id = cq->wr_id;
  wc->status = cq->status;
  wc->qp_num = cq->read_qp_num(cq);
  *stamp = {};
  if ((queue.wcFlags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0) stamp->ticks = cq->read_completion_ts(cq);
  if ((queue.wcFlags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0) {
    stamp->wallclockNs = cq->read_completion_wallclock_ns(cq);
  }
  // In a failed completion, only wr_id, status, qp_num and vendor_err are defined.
  if (cq->status != IBV_WC_SUCCESS) {
    wc->vendor_err = cq->read_vendor_err(cq);
    return;
  }
  wc->opcode = cq->read_opcode(cq);
  wc->wc_flags = cq->read_wc_flags(cq);
  wc->byte_len = cq->read_byte_len(cq);
  wc->src_qp = cq->read_src_qp(cq);
  wc->slid = static_cast<uint16_t>(cq->read_slid(cq));
  wc->sl = cq->read_sl(cq);
  wc->dlid_path_bits = cq->read_dlid_path_bits(cq);
  // The immediate, or the invalidated key unchanged: ibv_wc also has one word for both.
  wc->imm_data = cq->read_imm_data(cq);
}

/**
 * Polls one completion at a time, without ibv_next_poll(3): soft-RoCE's driver, before rdma-core 55, reads beyond the
 * end of the queue if that call finds no further completion.
 */
int pollSingly(Cq& cq, int count, ibv_wc* wcs, Stamp* stamps) {
  int n = 0;
  while (n < count) {
    ibv_poll_cq_attr attr = {};
    const int rc = cq.ex->start_poll(cq.ex, &attr);
    if (rc != 0) return rc == ENOENT || n > 0 ? n : -1;
    read(cq, &wcs[n], &stamps[n]);
    n++;
    cq.ex->end_poll(cq.ex);
  }
  return n;
}

}  // namespace

int pollEx(Cq& cq, int count, ibv_wc* wcs, Stamp* stamps) {
  if (count < 1) return 0;
  if (isSoftRoce(*cq.context)) return pollSingly(cq, count, wcs, stamps);
  ibv_poll_cq_attr attr = {};
  const int rc = cq.ex->start_poll(cq.ex, &attr);
  if (rc != 0) return rc == ENOENT ? 0 : -1;
  int n = 0;
  do {
    read(cq, &wcs[n], &stamps[n]);
    n++;
  } while (n < count && cq.ex->next_poll(cq.ex) == 0);
  cq.ex->end_poll(cq.ex);
  return n;
}

}  // namespace isoverbs
