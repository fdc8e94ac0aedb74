/**
 * Congestion notifications (CNPs). They travel in a class of their own that everything else waits for, as DCQCN asks
 * of deployments, so they need what an empty path takes and no more, and no bandwidth.
 */
import { EV_CNP } from '../kernel/event-kinds.ts';
import { TRACE_CNP } from '../kernel/trace-hash.ts';
import { CNP_NS, type Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { Dcqcn } from './dcqcn.ts';

/** RoCEv2's notification: Ethernet 38 with gap and preamble, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4. */
const CNP_BYTES = 98;

/** A packet that met congestion has arrived at `qp`: its NIC tells that of `source`, unless it did so just now. */
export function congested(world: World, qp: Qp, source: Qp): void {
  const { switchNetwork: fabric, clock, params } = world;
  if (fabric === null || clock[0] < qp.times[CNP_NS]) return;
  qp.times[CNP_NS] = clock[0] + params.cnpIntervalNs;
  world.cnpCount[0]++;
  world.trace.add(TRACE_CNP, qp.qpn, 0);
  if (world.isLost(world.hosts[qp.host], source.host)) return;
  world.events.due[0] = clock[0] + fabric.emptyPathNs(qp.host, source.host, CNP_BYTES);
  world.events.push(EV_CNP, source.qpn, 0, source.epoch);
}

/** The notification has arrived: this queue pair is too fast. */
export function notified(world: World, qp: Qp): void {
  qp.congestion ??= new Dcqcn(world.params);
  qp.congestion.notified(world.clock);
}
