/** What the members of a device report to the rulers of perf, and what these grant them. */
import { type Column, columnIndex } from '../../coordinator/ruler.ts';

// Classes. A tenant has the highest class of its members.
/** Nothing sent within the window. */
export const IDLE = 0;
/** Waits for each answer; sends many messages at a time; sends large messages. */
export const DELAY = 1;
export const MESSAGES = 2;
export const BANDWIDTH = 3;
/** By class. The numbers of classes are those of the kinds of traffic (ISO_TRAFFIC_*). */
export const CLASS_NAMES = ['idle', 'delay', 'messages', 'bandwidth'] as const;

const MAX_QPS = 2 ** 20;
const MAX_BYTES = 2 ** 32;
const MAX_GBPS = 1e5;
const column = (name: string, unit: string, max: number): Column => ({ name, unit, min: 0, max, default: 0 });

/** The columns that a member writes. */
export const MASTER_REPORTS: readonly Column[] = [
  column('class', 'IDLE, DELAY, MESSAGES or BANDWIDTH', BANDWIDTH),
  // What the class is based on (classifier.ts).
  column('meanBytes', 'bytes of a message', MAX_BYTES),
  column('queueLength', 'requests', MAX_BYTES),
  // Queue pairs that sent within the window, and how many of them send messages that are large on average.
  column('activeQps', 'queue pairs', MAX_QPS),
  column('largeQps', 'queue pairs', MAX_QPS),
  // Rate on the wire, headers included.
  column('wireGbps', 'Gbit/s', MAX_GBPS),
  // 1: its small messages wait for answers of a peer (READs, atomics), whose number is limited by rd_atomic.
  column('awaitsAnswers', '0 or 1', 1),
  // What it would send if no other tenant did, as far as known: its rate, or the link's if it always waits for the link.
  column('demandGbps', 'Gbit/s', MAX_GBPS),
  // 1: it sends to its own device only, so its messages do not leave by the link.
  column('loops', '0 or 1', 1),
];

/** The columns that the master writes. */
export const MASTER_GRANTS: readonly Column[] = [
  // 1: large messages are split, with 0_WAITs between the pieces.
  column('split', '0 or 1', 1),
  // Queue pairs of a tenant that may send at the same time; 0: all.
  column('qNumAllow', 'queue pairs', MAX_QPS),
  // Large queue pairs on this device that may send at the same time. Tenants that take less than their share count for
  // what they take, so it may be a fraction.
  column('busyLargeQps', 'queue pairs', MAX_QPS),
  // Rate on the wire of the device's small tenants.
  column('smallGbps', 'Gbit/s', MAX_GBPS),
  // Active tenants on this device, by class.
  column('dTenants', 'tenants', MAX_QPS),
  column('mTenants', 'tenants', MAX_QPS),
  column('bTenants', 'tenants', MAX_QPS),
  // Small tenants whose latency or rate depends on the queue in the FIFO: dTenants, and others that await answers.
  column('queueTenants', 'tenants', MAX_QPS),
  // The reason for the grants (an index of REASONS in master.ts).
  column('reason', 'REASONS', MAX_QPS),
];

/** Indices of the columns in a member's page. */
export const CLASS = columnIndex(MASTER_REPORTS, 'class');
export const MEAN_BYTES = columnIndex(MASTER_REPORTS, 'meanBytes');
export const QUEUE_LENGTH = columnIndex(MASTER_REPORTS, 'queueLength');
export const ACTIVE_QPS = columnIndex(MASTER_REPORTS, 'activeQps');
export const LARGE_QPS = columnIndex(MASTER_REPORTS, 'largeQps');
export const WIRE_GBPS = columnIndex(MASTER_REPORTS, 'wireGbps');
export const AWAITS_ANSWERS = columnIndex(MASTER_REPORTS, 'awaitsAnswers');
export const DEMAND_GBPS = columnIndex(MASTER_REPORTS, 'demandGbps');
export const LOOPS = columnIndex(MASTER_REPORTS, 'loops');
export const SPLIT = columnIndex(MASTER_GRANTS, 'split');
export const QNUM_ALLOW = columnIndex(MASTER_GRANTS, 'qNumAllow');
export const BUSY_LARGE_QPS = columnIndex(MASTER_GRANTS, 'busyLargeQps');
export const SMALL_GBPS = columnIndex(MASTER_GRANTS, 'smallGbps');
export const D_TENANTS = columnIndex(MASTER_GRANTS, 'dTenants');
export const M_TENANTS = columnIndex(MASTER_GRANTS, 'mTenants');
export const B_TENANTS = columnIndex(MASTER_GRANTS, 'bTenants');
export const QUEUE_TENANTS = columnIndex(MASTER_GRANTS, 'queueTenants');
export const REASON = columnIndex(MASTER_GRANTS, 'reason');

/** What a member has to send in its tenant's slot: nothing, only requests in flight, or held requests. */
export const NO_DEMAND = 0;
export const IN_FLIGHT_DEMAND = 1;
export const HELD_DEMAND = 2;

/** Who has the slot, as a member sees it: there is no rotation, its own tenant, or another one. */
export const NO_ROTATION = 0;
export const OWN_SLOT = 1;
export const OTHERS_SLOT = 2;

const MAX_SLOT = Number.MAX_SAFE_INTEGER;
const MAX_NS = Number.MAX_VALUE;

/** The columns of tenant slots that a member writes (slot-rotation.ts). */
export const SLOT_REPORTS: readonly Column[] = [
  column('slotDemand', 'NO_DEMAND, IN_FLIGHT_DEMAND or HELD_DEMAND', HELD_DEMAND),
  // The last slot that it has finished.
  column('drainedSlot', 'slotNumber', MAX_SLOT),
];

/** The columns of tenant slots that the ruler writes; the master decides which tenants rotate. */
export const SLOT_GRANTS: readonly Column[] = [
  column('slotState', 'NO_ROTATION, OWN_SLOT or OTHERS_SLOT', OTHERS_SLOT),
  // The slot of the member's tenant; for the device, the latest slot.
  column('slotNumber', 'slots since the first; 0: none', MAX_SLOT),
  column('slotEndNs', 'ns', MAX_NS),
  // Of the device only: a member whose tenant had the latest slot, plus one.
  column('lastSlotMember', 'member + 1; 0: none', MAX_QPS),
];

/** Indices of the columns of tenant slots in a member's page. */
export const SLOT_DEMAND = columnIndex(SLOT_REPORTS, 'slotDemand');
export const DRAINED_SLOT = columnIndex(SLOT_REPORTS, 'drainedSlot');
export const SLOT_STATE = columnIndex(SLOT_GRANTS, 'slotState');
export const SLOT_NUMBER = columnIndex(SLOT_GRANTS, 'slotNumber');
export const SLOT_END_NS = columnIndex(SLOT_GRANTS, 'slotEndNs');
