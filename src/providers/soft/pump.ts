/** Runs the transport of user-space RoCE devices on the real clock: in the program's own calls, and on its event loop. */
import type { Simulation } from '../../sim/simulation.ts';
import { EventLoopAlarm } from '../rdma-core/alarm.ts';
import { TimePump } from '../sim/time-pump.ts';
import type { SoftPort } from './port.ts';

// Indexes of RealTimePump.times: the clock's time when it was read last, when the alarm rings, and when sockets were read.
const NOW = 0;
const ALARM = 1;
const TURN = 2;
/** How long packets may wait in sockets while the program posts without polling: a fraction of usual timeouts. */
const MAX_UNREAD_NS = 20_000;

export class RealTimePump extends TimePump {
  /** The ports of open devices, by host. */
  readonly open: Map<number, SoftPort>;
  /** The same in an array, because an iterator would be allocated for each poll. */
  private ports: readonly SoftPort[] = [];
  private readonly readClock: (to: Float64Array) => void;
  private readonly alarm: EventLoopAlarm;
  /** NOW, ALARM and TURN: in an array, because V8 allocates doubles that functions take and return. */
  private readonly times = new Float64Array(3);
  /** [0] when the next event is due. */
  private readonly nextNs = new Float64Array(1);
  private immediate: NodeJS.Immediate | null = null;

  /** `readClock` writes the time of the host's clock to the first element of an array. */
  constructor(sim: Simulation, readClock: (to: Float64Array) => void, open: Map<number, SoftPort>) {
    super(sim, { autoAdvance: false, inside: false });
    this.open = open;
    this.readClock = readClock;
    this.times[ALARM] = Number.POSITIVE_INFINITY;
    this.alarm = new EventLoopAlarm(
      () => this.nowNs,
      () => {
        this.times[ALARM] = Number.POSITIVE_INFINITY;
        this.turn();
      },
    );
  }

  override get nowNs(): number {
    this.readClock(this.times);
    return this.times[NOW];
  }

  /** Ports were opened or closed. */
  portsChanged(): void {
    this.ports = [...this.open.values()];
  }

  /** Sets the clock of the transport; its events do not run yet. */
  tick(): void {
    this.readClock(this.times);
    this.advance();
  }

  /** Sets the clock of the transport to the time that was read last. */
  private advance(): void {
    const { clock } = this.sim.world;
    if (this.times[NOW] > clock[0]) clock[0] = this.times[NOW];
  }

  /**
   * Runs what is due after a call of the program, and sends what results. If the program has not polled for a while,
   * packets are read first, because they may stop the timers that are due.
   */
  override start(): void {
    this.readClock(this.times);
    if (this.times[NOW] - this.times[TURN] > MAX_UNREAD_NS) {
      this.turn();
      return;
    }
    this.advance();
    this.sim.runDue();
    for (let i = 0; i < this.ports.length; i++) this.ports[i].flush();
    this.schedule();
  }

  override pollMissed(): void {
    this.turn();
  }

  /** Receives, runs what is due, and sends. Packets come first, because they may stop the timers that are due. */
  turn(): void {
    this.tick();
    this.times[TURN] = this.sim.world.clock[0];
    const { ports } = this;
    for (let i = 0; i < ports.length; i++) ports[i].receive();
    this.sim.runDue();
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
    // Deadlines mostly move later. The alarm of an earlier one then rings in vain, which costs less than setting it again.
    const { times } = this;
    this.sim.readNextNs(this.nextNs);
    if (this.nextNs[0] < times[ALARM]) {
      times[ALARM] = this.alarm.atNs[0] = this.nextNs[0];
      this.alarm.set();
    }
    if (this.immediate !== null) return;
    for (let i = 0; i < this.ports.length; i++) {
      if (!this.ports[i].waiting) continue;
      this.immediate = setImmediate(this.turnAgain);
      return;
    }
  }

  /** Created once, because a function that creates closures allocates their context at each call. */
  private readonly turnAgain = (): void => {
    this.immediate = null;
    this.turn();
  };
}
