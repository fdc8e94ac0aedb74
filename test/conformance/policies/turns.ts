/** MQSE without a classifier: the queue pairs of every context take turns, and large messages are split. */
import { type MessageEngine, Mqse, type MqseOptions, type Quota } from '../../../src/policies/perf/mqse.ts';
import type { Actions, Policy, QpChange, QpView } from '../../../src/shim/policy.ts';
import type { Resources } from '../../../src/shim/resources.ts';
import { IBV_QPT_RC } from '../../../src/verbs/constants.ts';
import * as L from '../../../src/verbs/layout.ts';

export interface TurnsOptions extends Partial<MqseOptions> {
  /** QNum_allow of every context, and its change every `changeNs`, if that is not 0. */
  allow?: number;
  changeNs?: number;
  /** Its values in turn; the first is `allow`. Default [allow, 3, 0, 2]. */
  sequence?: readonly number[];
  pieceBytes?: number;
  /** 0_WAITs behind each piece. */
  waits?: number;
  /** Applies only to contexts of tenants whose name begins with this; '' means all. */
  tenant?: string;
}

/** The timer token for changes, one that the engine does not use. */
const CHANGE = 8;

export class Turns implements Policy, MessageEngine {
  readonly name = 'turns';
  readonly needs = { wait: 'required' } as const;
  readonly slots = 64;
  readonly splitsAboveBytes: number;
  readonly crossChannel = true;
  readonly mqse: Mqse;
  private readonly o: Required<Omit<TurnsOptions, keyof MqseOptions>>;
  private readonly whole: Quota = { bytes: 0, requests: 0, slots: 0 };
  private readonly contexts: Resources[] = [];
  private changes = 0;

  constructor(options: TurnsOptions = {}) {
    const { allow = 1, changeNs = 0, pieceBytes = 16384, waits = 0, tenant = '' } = options;
    const { sequence = [allow, 3, 0, 2] } = options;
    this.o = { allow, changeNs, sequence, pieceBytes, waits, tenant };
    this.splitsAboveBytes = pieceBytes;
    this.mqse = new Mqse(this, {
      turnBytes: 65536,
      turnRequests: 64,
      aheadBytes: 0,
      aheadRequests: 0,
      watchdogNs: 200_000,
      seed: 1,
      ...options,
    });
  }

  setup(resources: Resources, out: Actions): void {
    if (!resources.context.tenant.startsWith(this.o.tenant)) return;
    this.mqse.setup(resources);
    this.contexts.push(resources);
    this.mqse.allow(resources.context, this.o.allow, out);
    this.nextChange(resources, out);
  }

  private nextChange({ context }: Resources, out: Actions): void {
    const { changeNs } = this.o;
    if (changeNs > 0) out.timer(context, out.nowNs(context) + changeNs, (context.index << 4) | CHANGE);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    this.mqse.onQp(qp, change, out);
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    if (this.mqse.shapes(qp)) return 0;
    for (let i = 0; i < count; i++) {
      const opcode = words[L.slotAt(start + i) + L.WR_OP] & 0xff;
      if (opcode >= 64) return i;
    }
    return count;
  }

  feed(qp: QpView, out: Actions): void {
    if (this.mqse.shapes(qp)) {
      this.mqse.feed(qp, out);
      return;
    }
    const { whole } = this;
    while (out.backlog(qp) > 0 && out.room(qp) > 0) {
      if (out.isCrossChannel(qp)) {
        if (!out.execute(qp)) return;
        continue;
      }
      whole.bytes = 2 ** 30;
      whole.requests = 2 ** 30;
      const room = out.room(qp);
      whole.slots = room;
      this.issue(qp, out, whole);
      if (out.room(qp) === room) return;
    }
  }

  issue(qp: QpView, out: Actions, quota: Quota): void {
    const { pieceBytes, waits } = this.o;
    const each = waits > 0 && qp.type === IBV_QPT_RC ? 2 : 1;
    while (quota.bytes > 0 && quota.requests > 0 && quota.slots > 0) {
      if (out.backlog(qp) === 0 || out.isCrossChannel(qp)) return;
      const bytes = out.nextBytes(qp);
      const most = Math.min(Math.ceil(quota.bytes / pieceBytes), Math.floor(quota.slots / each));
      if (bytes > pieceBytes && out.splittable(qp) && (most > 0 || out.inflight(qp) > 0)) {
        const n = out.pieces(qp, pieceBytes, most, each === 2 ? waits : 0);
        if (n === 0) return;
        quota.bytes -= Math.min(bytes, n * pieceBytes);
        quota.slots -= n * each;
      } else {
        // Also true if there is no room for a piece with its 0_WAITs, and no request in flight that would make room.
        out.pass(qp);
        quota.bytes -= bytes;
        quota.slots--;
      }
      quota.requests--;
    }
  }

  onInternal(token: number, status: number, out: Actions): void {
    this.mqse.onInternal(token, status, out);
  }

  onTimer(token: number, out: Actions): void {
    if (this.mqse.onTimer(token, out)) return;
    const resources = this.contexts.find(({ context }) => context.index === token >> 4);
    if (resources === undefined) return;
    this.changes++;
    const { sequence } = this.o;
    this.mqse.allow(resources.context, sequence[this.changes % sequence.length], out);
    this.nextChange(resources, out);
  }
}

/** On a command line all options are strings. */
export default (options: Record<string, string>) =>
  new Turns(Object.fromEntries(Object.entries(options).map(([k, v]) => [k, k === 'tenant' ? v : Number(v)])));
