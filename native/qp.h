// The index of each queue pair attribute in the words that are passed from and to TypeScript.
// src/providers/rdma-core/qp-words.ts has the same numbers; a test checks that they match.
#pragma once

#include <cstdint>

#include "loader.h"

namespace isoverbs {

constexpr uint32_t QPW_STATE = 0;
constexpr uint32_t QPW_CUR_STATE = 1;
constexpr uint32_t QPW_PATH_MTU = 2;
constexpr uint32_t QPW_PATH_MIG_STATE = 3;
constexpr uint32_t QPW_QKEY = 4;
constexpr uint32_t QPW_RQ_PSN = 5;
constexpr uint32_t QPW_SQ_PSN = 6;
constexpr uint32_t QPW_DEST_QP_NUM = 7;
constexpr uint32_t QPW_ACCESS_FLAGS = 8;
/** maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData. */
constexpr uint32_t QPW_CAP = 9;
constexpr uint32_t QPW_PKEY_INDEX = 14;
constexpr uint32_t QPW_EN_SQD = 15;
constexpr uint32_t QPW_MAX_RD_ATOMIC = 16;
constexpr uint32_t QPW_MAX_DEST_RD_ATOMIC = 17;
constexpr uint32_t QPW_MIN_RNR_TIMER = 18;
constexpr uint32_t QPW_PORT_NUM = 19;
constexpr uint32_t QPW_TIMEOUT = 20;
constexpr uint32_t QPW_RETRY_CNT = 21;
constexpr uint32_t QPW_RNR_RETRY = 22;
constexpr uint32_t QPW_IS_GLOBAL = 23;
/** Sixteen bytes in wire order. */
constexpr uint32_t QPW_DGID = 24;
constexpr uint32_t QPW_SGID_INDEX = 28;
constexpr uint32_t QPW_HOP_LIMIT = 29;
constexpr uint32_t QPW_TRAFFIC_CLASS = 30;
constexpr uint32_t QPW_FLOW_LABEL = 31;
constexpr uint32_t QPW_DLID = 32;
constexpr uint32_t QPW_SL = 33;
constexpr uint32_t QPW_SRC_PATH_BITS = 34;
constexpr uint32_t QPW_STATIC_RATE = 35;
constexpr uint32_t QPW_AH_PORT = 36;
constexpr uint32_t QPW_TYPE = 37;
constexpr uint32_t QPW_SIG_ALL = 38;
constexpr uint32_t QPW_SEND_CQ = 39;
constexpr uint32_t QPW_RECV_CQ = 40;
constexpr uint32_t QPW_SRQ = 41;
constexpr uint32_t QPW_XRCD = 42;
/** Whether the queue pair posts through ibv_wr_*(3). */
constexpr uint32_t QPW_EXTENDED = 43;
/** Write-only: no device reports it. */
constexpr uint32_t QPW_RATE_LIMIT = 44;
/** Reported by queryQp in SQD: whether requests are still in progress. */
constexpr uint32_t QPW_SQ_DRAINING = 45;
constexpr uint32_t QPW_COUNT = 46;

/** The address in these words. */
void readAddress(const uint32_t* words, ibv_ah_attr* ah);

struct Qp;

/** The words of an address, from QPW_IS_GLOBAL on. */
void writeAddress(const ibv_ah_attr& ah, uint32_t* words);

/** The words of all attributes, address included. */
void writeAttr(const ibv_qp_attr& attr, uint32_t* words);

/** Gives a queue pair its id tables and its handle, and registers it with its parents. */
bool adoptQp(Qp* qp, const ibv_qp_cap& cap);

}  // namespace isoverbs
