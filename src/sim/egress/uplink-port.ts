/** The egress port of a host with an uplink: a packet leaves the simulation as soon as it is admitted. */
import type { EventQueue } from '../kernel/event-queue.ts';
import type { PacketPool } from '../kernel/packets.ts';
import type { Uplink } from '../network/uplink.ts';
import type { NicParams } from '../profile/params.ts';
import { EgressPort } from './fifo-port.ts';
import type { QpScheduler } from './qp-scheduler.ts';

export class UplinkPort extends EgressPort {
  private readonly uplink: Uplink;
  private readonly packets: PacketPool;

  constructor(
    id: number,
    params: Readonly<NicParams>,
    clock: Float64Array,
    scheduler: QpScheduler,
    uplink: Uplink,
    packets: PacketPool,
  ) {
    super(id, params, params.linkGbps, clock, scheduler);
    this.uplink = uplink;
    this.packets = packets;
  }

  /** The port waits for the uplink, which resumes it, or for its own wire. */
  override fits(cls: number, bytes: number, events: EventQueue): boolean {
    if (this.uplink.hasRoom(this.id >> 1)) return super.fits(cls, bytes, events);
    this.waiting = true;
    return false;
  }

  override send(p: number): void {
    this.uplink.send(this.id >> 1, p);
    this.packets.outside[p] = null;
    this.packets.release(p);
  }
}
