/**
 * Congestion notifications (CNPs). DCQCN recommends a priority class for them. They therefore take the time
 * of an empty path, and no bandwidth.
 */
import { EV_CNP } from '../kernel/event-kinds.ts';
import { TRACE_CNP } from '../kernel/trace-hash.ts';
import { CNP_NS, type Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { Dcqcn } from './dcqcn.ts';

/** A RoCEv2 CNP: Ethernet 38 with gap and preamble, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4. */
const CNP_BYTES = 98;

/** A marked packet arrived at `qp`: its NIC notifies that of `source`, unless it did so recently. */
export function congested(world: World, qp: Qp, source: Qp): void {
  const { switchNetwork, clock, params } = world;
  if (switchNetwork === null || clock[0] < qp.times[CNP_NS]) return;
  qp.times[CNP_NS] = clock[0] + params.cnpIntervalNs;
  world.cnpCount[0]++;
  world.trace.add(TRACE_CNP, qp.qpn, 0);
  if (world.isLost(world.hosts[qp.host], source.host)) return;
  world.events.due[0] = clock[0] + switchNetwork.emptyPathNs(qp.host, source.host, CNP_BYTES);
  world.events.push(EV_CNP, source.qpn, 0, source.epoch);
}

/** A notification arrived: this queue pair must slow down. */
export function notified(world: World, qp: Qp): void {
  qp.congestion ??= new Dcqcn(world.params);
  qp.congestion.notified(world.clock);
}
