/** What the contexts of a process report of their flows, and what they do with what they are told. */
import { describe, expect, test } from 'vitest';
import type { AgentLine, AgentLineEvents } from '../../../src/coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../../src/coordinator/registry.ts';
import { type Flow, QUIET_WORDS, readFlows, writeLimits } from '../../../src/policies/fair/agent/messages.ts';
import { Flows } from '../../../src/policies/fair/flows.ts';
import { COLUMNS } from '../../../src/shim/counters.ts';
import type { ContextView, QpView } from '../../../src/shim/policy.ts';

const US = 1e3;
const PERIOD_NS = 250 * US;
const OWN = '::ffff:10.0.0.1';
const PEERS = ['::ffff:10.0.0.2', '::ffff:10.0.0.3'];
const LINK_PER_NS = 12.5;

/** The flows of one context, with a line that the test holds. */
class Rig {
  isReachable = true;
  readonly sent = new Map<number, { out: number; in: number }>();
  readonly waiting = new Set<number>();
  readonly reports: Flow[][] = [];
  lines = 0;
  nowNs = 0;
  readonly flows: Flows;
  private events: AgentLineEvents | null = null;
  private readonly context = { index: 0, device: 'sim0' } as ContextView;

  constructor() {
    const registry = {
      has: () => true,
      registerGid: () => {},
      notify: () => {},
      mayReach: () => this.isReachable,
      line: (_context: ContextView, _kind: unknown, events: AgentLineEvents) => this.open(events),
    } as unknown as CoordinatorRegistry;
    this.flows = new Flows(registry, {
      linkPerNs: LINK_PER_NS,
      requestBytes: 98,
      responseBytes: 86,
      sentBytes: ({ index }, isRead) => this.sent.get(index)?.[isRead ? 'in' : 'out'] ?? 0,
      waits: ({ index }, isRead) => !isRead && this.waiting.has(index),
    });
  }

  private open(events: AgentLineEvents): boolean {
    this.lines++;
    this.events = events;
    const line: AgentLine = {
      intervalNs: 0,
      tell: (words) => {
        this.reports.push(readFlows(words)!.flows);
        return true;
      },
    };
    events.onUp?.(line);
    return true;
  }

  qp(index: number, dgid: string): QpView {
    return { index, context: this.context, dgid, sgid: OWN, counts: new Float64Array(COLUMNS) } as QpView;
  }

  tell(words: readonly number[]): void {
    this.events!.onTold!(Float64Array.from(words));
    this.flows.apply(this.nowNs);
  }

  /** A period in which a queue pair sends so much. Returns the time until the next sample. */
  period(index: number, bytes: number): number {
    const before = this.sent.get(index) ?? { out: 0, in: 0 };
    this.sent.set(index, { ...before, out: before.out + bytes });
    this.nowNs += PERIOD_NS;
    const nextNs = this.flows.sample(this.nowNs);
    this.flows.apply(this.nowNs);
    return nextNs - this.nowNs;
  }

  begin(): void {
    this.nowNs = this.flows.begin(this.nowNs);
    this.flows.sample(this.nowNs);
  }
}

describe('reports', () => {
  test('say how much goes to each peer, and whether more waits', () => {
    const rig = new Rig();
    for (const [i, gid] of PEERS.entries()) rig.flows.add(rig.qp(i, gid));
    rig.begin();
    rig.waiting.add(0);
    expect(rig.period(0, 5 * PERIOD_NS)).toBe(PERIOD_NS);
    expect(rig.reports).toMatchObject([
      [{ gid: PEERS[0], fromGid: OWN, out: { perNs: 5, isHungry: true }, in: { perNs: 0, isHungry: false } }],
    ]);
  });

  test('leave out what hardly loads the link, and the loopback', () => {
    const rig = new Rig();
    rig.flows.add(rig.qp(0, PEERS[0]));
    rig.flows.add(rig.qp(1, OWN));
    rig.begin();
    rig.period(0, (LINK_PER_NS / 100) * PERIOD_NS);
    rig.period(1, LINK_PER_NS * PERIOD_NS);
    expect(rig.reports).toEqual([]);
  });

  test('end with an empty one, and samples end some time after the last request', () => {
    const rig = new Rig();
    rig.flows.add(rig.qp(0, PEERS[0]));
    rig.begin();
    rig.period(0, 5 * PERIOD_NS);
    let periods = 0;
    while (rig.period(0, 0) < Number.POSITIVE_INFINITY) periods++;
    expect(periods).toBeGreaterThan(5);
    expect(periods).toBeLessThan(30);
    expect(rig.reports.at(-1)).toMatchObject([{ out: { perNs: 0, isHungry: false } }]);
  });

  test('are not made where no agent can be reached, and samples become rare', () => {
    const rig = new Rig();
    rig.isReachable = false;
    rig.flows.add(rig.qp(0, PEERS[0]));
    rig.begin();
    const rests: number[] = [];
    for (let i = 0; i < 20; i++) {
      const nextNs = rig.period(0, 5 * PERIOD_NS);
      if (nextNs > PERIOD_NS) {
        rests.push(nextNs);
        rig.nowNs += nextNs;
        rig.flows.sample(rig.nowNs);
      }
    }
    expect(rig.lines).toBe(0);
    expect(rests.slice(0, 3)).toEqual([1e6, 2e6, 4e6]);
    expect(rests.at(-1)).toBe(256e6);
  });

  test('rest while the agent knows none of the peers', () => {
    const rig = new Rig();
    rig.flows.add(rig.qp(0, PEERS[0]));
    rig.begin();
    rig.period(0, 5 * PERIOD_NS);
    rig.tell(QUIET_WORDS);
    const { length } = rig.reports;
    rig.period(0, 5 * PERIOD_NS);
    expect(rig.reports.length).toBe(length);
  });
});

describe('limits', () => {
  const limited = () => {
    const rig = new Rig();
    for (const [i, gid] of PEERS.entries()) rig.flows.add(rig.qp(i, gid));
    rig.begin();
    rig.period(0, 5 * PERIOD_NS);
    rig.tell(
      writeLimits(4 * PERIOD_NS, { outPerNs: 0, inPerNs: 0 }, [{ gid: PEERS[0], outPerNs: 2, inPerNs: 0 }]),
    );
    return rig;
  };
  const flight = ({ flows }: Rig, qp: number) => flows.limits.flightBytes(qp, false, US);

  test('hold for the queue pairs of one peer', () => {
    const rig = limited();
    expect([flight(rig, 0), flight(rig, 1)]).toEqual([2 * US, Number.POSITIVE_INFINITY]);
  });

  test('end unless they are repeated', () => {
    const rig = limited();
    for (let i = 0; i < 8; i++) rig.period(0, 5 * PERIOD_NS);
    expect(flight(rig, 0)).toBe(2 * US);
    rig.period(0, 5 * PERIOD_NS);
    expect(flight(rig, 0)).toBe(Number.POSITIVE_INFINITY);
  });

  test('stay with the peer when a queue pair goes to another one', () => {
    const rig = limited();
    rig.flows.add(rig.qp(2, PEERS[0]));
    expect([flight(rig, 0), flight(rig, 2)]).toEqual([2 * US, 2 * US]);
    rig.flows.add(rig.qp(0, PEERS[1]));
    expect([flight(rig, 0), flight(rig, 2)]).toEqual([Number.POSITIVE_INFINITY, 2 * US]);
    rig.flows.drop({ index: 2 });
    expect(rig.flows.limits.isLimiting).toBe(false);
  });
});
