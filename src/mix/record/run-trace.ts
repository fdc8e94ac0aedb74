/** Traces a run of a mix as Chrome trace events: a track for each queue pair, processing unit, port and core. */
import type { Interceptor } from '../../shim/compose.ts';
import { BUSY_UNTIL, type Core, POST_START } from '../../sim/host/core.ts';
import * as P from '../../sim/kernel/packets.ts';
import {
  type CableObserver,
  cableEnds,
  NOTIFICATION,
  type Transmission,
  tapCables,
} from '../../sim/network/cable-tap.ts';
import { tapUnits, type UnitObserver } from '../../sim/nic/unit-tap.ts';
import { type Qp, ROLE_REQUEST, type Sender } from '../../sim/transport/qp.ts';
import { opcodeOf } from '../../sim/transport/request-info.ts';
import type { World } from '../../sim/world.ts';
import { wrOpcodeName } from '../../verbs/names.ts';
import { aboveRecorder, belowRecorder, type RequestObserver } from './request-recorder.ts';
import type { QueuePairs, RunObserver } from './run-observer.ts';
import { type Arguments, TraceEvents, type Track } from './trace-events.ts';

// Numbers of the first track of each kind within a process, which is a host or a switch.
const CORES = 1;
const QUEUE_PAIRS = 10_000;
const UNITS = 20_000_000;
const PORTS = 30_000_000;

const PACKET_NAMES: Readonly<Record<number, string>> = {
  [P.PKT_SEND]: 'SEND',
  [P.PKT_WRITE]: 'WRITE',
  [P.PKT_READ]: 'READ request',
  [P.PKT_COMPARE_SWAP]: 'COMPARE_SWAP request',
  [P.PKT_FETCH_ADD]: 'FETCH_ADD request',
  [P.PKT_RESPONSE]: 'response',
  [P.PKT_DATAGRAM]: 'datagram',
  [P.PKT_ACK]: 'ACK',
};

/** A request of an application that has not completed. */
interface OpenRequest {
  readonly seq: number;
  readonly name: string;
}

/** A queue pair with its track. */
interface TracedQp {
  readonly track: Track;
  readonly number: number;
  /** In the order of their numbers. */
  readonly open: OpenRequest[];
}

/** A completion that an application has polled, until the poll ends. */
interface Polled {
  readonly qp: number;
  readonly end: number;
  readonly isReceive: boolean;
  readonly args: Arguments;
}

export class RunTrace implements RunObserver, CableObserver, UnitObserver, RequestObserver {
  private readonly path: string;
  private world!: World;
  private events: TraceEvents | null = null;
  /** By handle. */
  private readonly qps = new Map<number, TracedQp>();
  /** By number of the queue pair: what it is for. */
  private readonly names = new Map<number, string>();
  private readonly ports: Track[] = [];
  private readonly units = new Map<string, Track>();
  /** Cores by host. */
  private readonly coreCounts: number[] = [];
  private readonly polls: Polled[] = [];
  /** When the call began in which an application posts. */
  private postNs = 0;

  /** @param path of the file, which is overwritten */
  constructor(path: string) {
    this.path = path;
  }

  begin(world: World): void {
    this.world = world;
    const events = new TraceEvents(this.path, world.clock);
    this.events = events;
    for (const { index } of world.hosts) events.nameProcess(index + 1, `host ${index}`);
    for (const { index } of world.switchNetwork?.switches ?? []) {
      events.nameProcess(this.processOfSwitch(index), `switch ${index}`);
    }
    for (const [end, name] of cableEnds(world).entries()) this.ports.push(this.portTrack(events, end, name));
    tapCables(world, this);
    tapUnits(world, this);
    this.tapCompletions();
  }

  private processOfSwitch(index: number): number {
    return this.world.hosts.length + index + 1;
  }

  private portTrack(events: TraceEvents, end: number, name: string): Track {
    const { hosts, switchNetwork } = this.world;
    const ofSwitch = switchNetwork?.ports[end - hosts.length];
    const process = ofSwitch === undefined ? end + 1 : this.processOfSwitch(ofSwitch.sw.index);
    const track = { process, thread: PORTS + end };
    events.nameTrack(track, `port ${name}`);
    return track;
  }

  interceptors(): { above: Interceptor; below: Interceptor } {
    return { above: aboveRecorder(this), below: belowRecorder(this) };
  }

  coreAdded(core: Core, host: number, app: string): void {
    const number = this.coreCounts[host] ?? 0;
    this.coreCounts[host] = number + 1;
    const track = { process: host + 1, thread: CORES + number };
    this.events?.nameTrack(track, `core ${number} (${app})`);
    this.tapCore(core, track);
  }

  /** Reports post calls, and polls that find something. */
  private tapCore(core: Core, track: Track): void {
    const { times } = core;
    const { clock } = this.world;
    const post = core.post.bind(core);
    const polled = core.polled.bind(core);
    core.post = (count, doorbell) => {
      post(count, doorbell);
      this.postNs = times[POST_START];
      this.events?.slice(track, times[POST_START], times[BUSY_UNTIL], 'post', { requests: count });
    };
    core.polled = (queue, count, more) => {
      const startNs = Math.max(clock[0], times[BUSY_UNTIL]);
      polled(queue, count, more);
      if (count > 0) this.events?.slice(track, startNs, times[BUSY_UNTIL], 'poll', { completions: count });
      this.completePolls(times[BUSY_UNTIL]);
    };
  }

  connected(app: string, queuePair: number, { qp, peer }: QueuePairs): void {
    const { hooks } = this.world;
    const name = (handle: number, text: string) => {
      const found = hooks.qpOf(handle);
      if (found !== undefined) this.names.set(found.qpn, text);
    };
    name(qp, `${app} #${queuePair}`);
    name(peer, `${app} #${queuePair}, peer`);
  }

  private tracedQp(handle: number): TracedQp | undefined {
    const known = this.qps.get(handle);
    if (known !== undefined) return known;
    const qp = this.world.hooks.qpOf(handle);
    return qp === undefined ? undefined : this.addQp(handle, qp);
  }

  private addQp(handle: number, { host, qpn }: Qp): TracedQp {
    const track = { process: host + 1, thread: QUEUE_PAIRS + qpn };
    const name = this.names.get(qpn);
    this.events?.nameTrack(track, name === undefined ? `QP ${qpn}` : `QP ${qpn} (${name})`);
    const traced: TracedQp = { track, number: qpn, open: [] };
    this.qps.set(handle, traced);
    return traced;
  }

  posted(qp: number, seq: number, name: string, args: Arguments): void {
    const traced = this.tracedQp(qp);
    if (traced === undefined) return;
    this.events?.instant(traced.track, this.postNs, `post ${name}`, args);
    this.events?.begin(traced.track, `${traced.number}.${seq}`, this.postNs, name, args);
    traced.open.push({ seq, name });
  }

  issued(qp: number, name: string, args: Arguments): void {
    const { clock, cpuAhead } = this.world;
    const traced = this.tracedQp(qp);
    if (traced !== undefined)
      this.events?.instant(traced.track, clock[0] + cpuAhead[0], `issue ${name}`, args);
  }

  polled(qp: number, end: number, isReceive: boolean, args: Arguments): void {
    this.polls.push({ qp, end, isReceive, args });
  }

  /** The poll of a core ends: its completions have reached the application. */
  private completePolls(endNs: number): void {
    for (const { qp, end, isReceive, args } of this.polls.splice(0)) {
      const traced = this.tracedQp(qp);
      if (traced === undefined) continue;
      const { track, open, number } = traced;
      this.events?.instant(track, endNs, isReceive ? 'poll receive' : 'poll completion', args);
      while (!isReceive && open.length > 0 && ((open[0].seq - end) | 0) < 0) {
        const { seq, name } = open.shift()!;
        this.events?.finish(track, `${number}.${seq}`, endNs, name, args);
      }
    }
  }

  /** Reports completions when the NIC writes them. */
  private tapCompletions(): void {
    const { world } = this;
    const complete = world.complete.bind(world);
    world.complete = (cq, idLo, idHi, op, byteLen, imm, qp, seq, solicited) => {
      complete(cq, idLo, idHi, op, byteLen, imm, qp, seq, solicited);
      const traced = this.tracedQp(qp.handle);
      if (traced !== undefined)
        this.events?.instant(traced.track, world.clock[0], 'completion', { request: seq });
    };
  }

  stepped(host: number, unit: number, { qp, role }: Sender, startNs: number): void {
    const key = `${host} ${unit}`;
    let track = this.units.get(key);
    if (track === undefined) {
      track = { process: host + 1, thread: UNITS + unit };
      this.units.set(key, track);
      this.events?.nameTrack(track, `unit ${unit}`);
    }
    const name = role === ROLE_REQUEST ? wrOpcodeName(opcodeOf(qp, qp.cur)) : 'response';
    this.events?.slice(track, startNs, this.world.clock[0], name, { qp: qp.qpn });
  }

  sent({ packet: p, source, from, startNs, leftNs, wireBytes, isLost }: Transmission): void {
    const track = this.ports[from];
    const lost: Arguments = isLost ? { lost: true } : {};
    if (p === NOTIFICATION) {
      this.events?.instant(track, leftNs, 'CNP', { qp: source.qpn, ...lost });
      return;
    }
    const { packets } = this.world;
    const name = PACKET_NAMES[packets.kind[p]];
    const args = { qp: source.qpn, psn: packets.psn[p], bytes: packets.length[p], ...lost };
    // Acknowledgements that take no bandwidth pass the packets of the port.
    if (wireBytes === 0) this.events?.instant(track, leftNs, name, args);
    else this.events?.slice(track, startNs, leftNs, name, args);
  }

  end(): void {
    const { events } = this;
    if (events === null) return;
    for (const { track, number, open } of this.qps.values()) {
      for (const { seq, name } of open) {
        events.finish(track, `${number}.${seq}`, this.world.clock[0], name, { status: 'outstanding' });
      }
    }
    events.close();
    this.events = null;
  }
}
