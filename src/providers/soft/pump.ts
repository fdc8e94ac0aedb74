/** Runs the transport of user-space RoCE devices on the real clock: in the program's own calls, and on its event loop. */
import type { Simulation } from '../../sim/simulation.ts';
import { EventLoopAlarm } from '../rdma-core/alarm.ts';
import { TimePump } from '../sim/time-pump.ts';
import type { SoftPort } from './port.ts';

/** How long packets may wait in the sockets while the program calls: a fraction of the timeouts that connections use. */
const MAX_UNREAD_NS = 20_000;

export class RealTimePump extends TimePump {
  /** The ports of open devices, by host. */
  readonly open: Map<number, SoftPort>;
  /** The same in an array, because an iterator would be allocated for each poll. */
  private ports: readonly SoftPort[] = [];
  private readonly clockNs: () => number;
  private readonly alarm: EventLoopAlarm;
  /** When the alarm rings. */
  private alarmNs = Number.POSITIVE_INFINITY;
  /** When sockets were read last. */
  private turnNs = 0;
  private immediate: NodeJS.Immediate | null = null;

  constructor(sim: Simulation, clockNs: () => number, open: Map<number, SoftPort>) {
    super(sim, { autoAdvance: false, inside: false });
    this.open = open;
    this.clockNs = clockNs;
    this.alarm = new EventLoopAlarm(clockNs, () => {
      this.alarmNs = Number.POSITIVE_INFINITY;
      this.turn();
    });
  }

  override get nowNs(): number {
    return this.clockNs();
  }

  /** Ports were opened or closed. */
  portsChanged(): void {
    this.ports = [...this.open.values()];
  }

  /** Sets the clock of the transport; its events do not run yet. */
  tick(): void {
    const { clock } = this.sim.world;
    const nowNs = this.clockNs();
    if (nowNs > clock[0]) clock[0] = nowNs;
  }

  /**
   * Runs what is due after a call of the program, and sends what results. A program that calls for a while and does not
   * poll has packets read as well, because they may stop the timers that are due.
   */
  override start(): void {
    if (this.clockNs() - this.turnNs > MAX_UNREAD_NS) {
      this.turn();
      return;
    }
    this.tick();
    this.sim.runUntil(this.sim.world.clock[0]);
    for (let i = 0; i < this.ports.length; i++) this.ports[i].flush();
    this.schedule();
  }

  override pollMissed(): void {
    this.turn();
  }

  /** Receives, runs what is due, and sends. Packets come first, because they may stop the timers that are due. */
  turn(): void {
    this.tick();
    this.turnNs = this.sim.world.clock[0];
    const { ports } = this;
    for (let i = 0; i < ports.length; i++) ports[i].receive();
    this.sim.runUntil(this.sim.world.clock[0]);
    for (let i = 0; i < ports.length; i++) {
      const port = ports[i];
      port.flush();
      if (!port.waiting) continue;
      port.waiting = false;
      this.sim.resume(port.host);
      port.flush();
    }
    this.schedule();
  }

  /** Runs again when the next event is due, or in the next turn of the event loop if a port waits. */
  private schedule(): void {
    // Deadlines mostly move away. The alarm of an earlier one rings for nothing, which costs less than setting it again.
    const nextNs = this.sim.nextNs();
    if (nextNs < this.alarmNs) {
      this.alarmNs = this.alarm.atNs[0] = nextNs;
      this.alarm.set();
    }
    if (this.immediate !== null) return;
    for (let i = 0; i < this.ports.length; i++) {
      if (!this.ports[i].waiting) continue;
      this.immediate = setImmediate(() => {
        this.immediate = null;
        this.turn();
      });
      return;
    }
  }
}
