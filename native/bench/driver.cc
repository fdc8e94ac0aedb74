// Calls the addon's verbs from C++ over the null device, without Node.js: valid calls, invalid calls, and objects that
// are closed or left open until the env ends. For valgrind (scripts/test-valgrind).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../layout.h"
#include "../objects.h"
#include "../post.h"
#include "../qp.h"
#include "../verbs.h"
#include "fake_napi.h"

using namespace isoverbs;
using namespace isoverbs::layout;

namespace {

using Values = std::initializer_list<napi_value>;

[[noreturn]] void failed(const char* what, const std::string& why) {
  std::fprintf(stderr, "driver: %s: %s\n", what, why.c_str());
  std::exit(1);
}

/** Calls a verb that must succeed. */
napi_value does(const char* name, napi_callback verb, Values args) {
  napi_value answer = fake::call(verb, args);
  if (const std::string thrown = fake::takeException(); !thrown.empty()) failed(name, thrown);
  return answer;
}

/** Calls a verb that must throw. */
void refuses(const char* name, napi_callback verb, Values args) {
  fake::call(verb, args);
  if (fake::takeException().empty()) failed(name, "did not throw");
}

napi_value n(double value) { return fake::number(value); }

uint32_t handleOf(napi_value made) {
  return static_cast<uint32_t>(fake::toNumber(fake::property(made, "handle")));
}

uint32_t numberOf(napi_value made) { return static_cast<uint32_t>(fake::toNumber(made)); }

/** A ring and a view of its words. */
struct RingAt {
  uint32_t handle;
  uint32_t* words;

  explicit RingAt(napi_value made)
      : handle(handleOf(made)), words(static_cast<uint32_t*>(fake::memory(fake::property(made, "memory")))) {}
  uint32_t* slot(uint32_t index) const { return words + HEADER_WORDS + index * SLOT_WORDS; }
};

constexpr uint32_t kDepth = 16;
constexpr uint32_t kBytes = 4096;

struct World {
  uint32_t* call;
  uint32_t context, pd, mr, lkey, channel, cq, srq, qp;
  uint64_t addr;
  RingAt sends, recvs, wcs;
};

void modify(uint32_t qp, uint32_t state, int mask) {
  uint32_t words[QPW_COUNT] = {};
  words[QPW_STATE] = state;
  words[QPW_PORT_NUM] = 1;
  words[QPW_PATH_MTU] = 3;
  words[QPW_AH_PORT] = 1;
  does("modifyQp", modifyQp, {n(qp), fake::words(words, QPW_COUNT), n(mask)});
}

void toRts(uint32_t qp) {
  modify(qp, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  modify(qp, IBV_QPS_RTR,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER);
  modify(qp, IBV_QPS_RTS,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

uint32_t makeQp(uint32_t pd, uint32_t cq, uint32_t srq) {
  uint32_t words[QPW_COUNT] = {};
  const uint32_t cap[] = {kDepth, srq == 0 ? kDepth : 0, 4, srq == 0 ? 4u : 0u, 64};
  std::memcpy(words + QPW_CAP, cap, sizeof cap);
  words[QPW_TYPE] = IBV_QPT_RC;
  words[QPW_SEND_CQ] = words[QPW_RECV_CQ] = cq;
  words[QPW_SRQ] = srq;
  return handleOf(does("createQp", createQp, {n(pd), fake::words(words, QPW_COUNT), fake::boolean(false)}));
}

World open() {
  napi_value block = does("callBlock", callBlock, {});
  auto* call = static_cast<uint32_t*>(fake::memory(fake::property(block, "memory")));
  does("getDeviceList", getDeviceList, {});
  const char* device = std::getenv("ISOVERBS_DRIVER_DEVICE");
  const uint32_t context = numberOf(does("openDevice", openDevice, {fake::text(device == nullptr ? "null0" : device)}));
  does("queryDevice", queryDevice, {n(context)});
  does("queryPort", queryPort, {n(context), n(1)});
  does("queryGid", queryGid, {n(context), n(1), n(0)});
  const uint32_t pd = numberOf(does("allocPd", allocPd, {n(context)}));
  napi_value mr = does("allocMr", allocMr, {n(pd), n(kBytes), n(IBV_ACCESS_LOCAL_WRITE)});
  const uint32_t channel = numberOf(does("createCompChannel", createCompChannel, {n(context)}));
  const uint32_t cq = handleOf(does("createCq", createCq, {n(context), n(4 * kDepth), n(channel), n(0), n(0)}));
  const uint32_t srq = handleOf(does("createSrq", createSrq, {n(pd), n(kDepth), n(2), n(0), n(0)}));
  return {call,
          context,
          pd,
          handleOf(mr),
          static_cast<uint32_t>(fake::toNumber(fake::property(mr, "lkey"))),
          channel,
          cq,
          srq,
          makeQp(pd, cq, 0),
          static_cast<uint64_t>(fake::toNumber(fake::property(mr, "addr"))),
          RingAt(does("createWrRing", createWrRing, {n(kDepth), n(4), n(64)})),
          RingAt(does("createWrRing", createWrRing, {n(kDepth), n(2), n(0)})),
          RingAt(does("createWcRing", createWcRing, {n(kDepth)}))};
}

/** Fills a slot with `sges` elements of 16 bytes each. */
void fill(const World& w, const RingAt& ring, uint32_t index, uint32_t opcode, uint32_t flags, uint32_t sges) {
  uint32_t* slot = ring.slot(index);
  std::memset(slot, 0, SLOT_BYTES);
  slot[WR_ID_LO] = index;
  slot[WR_OP] = opcode | flags << 8 | sges << 16;
  for (uint32_t i = 0; i < sges && i < 2; i++) {
    uint32_t* sge = slot + WR_SGE0 + i * SGE_WORDS;
    sge[0] = static_cast<uint32_t>(w.addr);
    sge[1] = static_cast<uint32_t>(w.addr >> 32);
    sge[2] = 16;
    sge[3] = w.lkey;
  }
}

/** Calls a verb whose arguments are passed in the call block. */
uint32_t hot(const World& w, const char* name, napi_callback verb, uint32_t object, const RingAt& ring, uint32_t count) {
  w.call[CALL_OBJECT] = object;
  w.call[CALL_RING] = ring.handle;
  w.call[CALL_START] = 0;
  w.call[CALL_COUNT] = count;
  does(name, verb, {});
  return w.call[CALL_ANSWER];
}

void expect(const char* what, uint32_t got, uint32_t wanted) {
  if (got != wanted) failed(what, "got " + std::to_string(got) + ", expected " + std::to_string(wanted));
}

void transfer(const World& w) {
  for (uint32_t i = 0; i < kDepth; i++) fill(w, w.recvs, i, 0, 0, 2);
  expect("postRecv", hot(w, "postRecv", postRecv, w.qp, w.recvs, kDepth), kDepth);
  expect("postRecv of a full queue", hot(w, "postRecv", postRecv, w.qp, w.recvs, 1), 0);
  expect("postSrqRecv", hot(w, "postSrqRecv", postSrqRecv, w.srq, w.recvs, 4), 4);
  for (uint32_t round = 0; round < 100; round++) {
    for (uint32_t i = 0; i < kDepth; i++) {
      const uint32_t opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
      fill(w, w.sends, i, opcodes[i % 3], i % 2 == 0 ? 0 : IBV_SEND_SIGNALED, 1 + i % 2);
    }
    expect("postSend", hot(w, "postSend", postSend, w.qp, w.sends, kDepth), kDepth);
    uint32_t polled = 0;
    for (uint32_t n = 1; n != 0; polled += n) n = hot(w, "pollCq", pollCq, w.cq, w.wcs, kDepth);
    if (polled < kDepth / 2) failed("pollCq", "got " + std::to_string(polled));
  }
  fill(w, w.sends, 0, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 0);
  w.sends.slot(0)[WR_INLINE_LENGTH] = 64;
  does("validateSend", validateSend, {n(w.qp), n(w.sends.handle), n(0)});
}

/** Rejected calls must leave nothing behind and change nothing. */
void mistakes(const World& w) {
  refuses("openDevice", openDevice, {fake::text("nowhere")});
  refuses("openDevice", openDevice, {n(1)});
  refuses("allocPd", allocPd, {n(w.cq)});
  refuses("allocPd", allocPd, {});
  refuses("deallocPd", deallocPd, {n(w.pd)});
  refuses("allocMr", allocMr, {n(w.pd), n(0), n(1)});
  refuses("createCq", createCq, {n(w.context), n(-1), n(0), n(0), n(0)});
  refuses("destroyCq", destroyCq, {n(w.cq)});
  refuses("destroyRing", destroyRing, {n(12345)});
  uint32_t few[4] = {};
  refuses("createQp", createQp, {n(w.pd), fake::words(few, 4), fake::boolean(false)});
  fill(w, w.sends, 0, 31, 0, 1);
  expect("an unknown opcode", hot(w, "postSend", postSend, w.qp, w.sends, 1), 0);
  fill(w, w.sends, 0, IBV_WR_RDMA_WRITE, 0, 60);
  expect("too many elements", hot(w, "postSend", postSend, w.qp, w.sends, 1), 0);
  expect("beyond the ring", hot(w, "postSend", postSend, w.qp, w.sends, kDepth + 1), 0);
}

void close(const World& w) {
  modify(w.qp, IBV_QPS_ERR, IBV_QP_STATE);
  does("destroyQp", destroyQp, {n(w.qp)});
  does("destroySrq", destroySrq, {n(w.srq)});
  does("destroyCq", destroyCq, {n(w.cq)});
  does("destroyCompChannel", destroyCompChannel, {n(w.channel)});
  does("deregMr", deregMr, {n(w.mr)});
  does("deallocPd", deallocPd, {n(w.pd)});
  for (const RingAt* ring : {&w.sends, &w.recvs, &w.wcs}) does("destroyRing", destroyRing, {n(ring->handle)});
  does("closeDevice", closeDevice, {n(w.context)});
}

}  // namespace

/** driver [leave]: with `leave`, everything stays open until the env ends. */
int main(int argc, char** argv) {
  createEnv(fake::env());
  const World world = open();
  toRts(world.qp);
  transfer(world);
  mistakes(world);
  if (argc < 2 || std::strcmp(argv[1], "leave") != 0) {
    close(world);
    // The reference to the call block lives as long as the env.
    expect("references", static_cast<uint32_t>(fake::references()), 1);
  }
  fake::end();
  std::puts("pass");
  return 0;
}
