/**
 * The processing units of a NIC. A free unit takes the next queue pair that is ready, one unit per queue pair
 * at a time; a queue pair that becomes ready joins the tail. A run of 0_WAITs is one event as long as nobody
 * waits for a unit, and ends at its next step when somebody does.
 *
 * With puHoldBytes ("greedy") a unit keeps its queue pair while it sends, until so many bytes are out.
 */

import { joinPort } from '../egress/rate-pacing.ts';
import { EV_UNIT } from '../kernel/event-kinds.ts';
import {
  PAYLOAD,
  READY,
  RESUME,
  ROLE_REQUEST,
  SENDING,
  type Sender,
  STEP,
  type UnitUser,
} from '../transport/qp.ts';
import type { World } from '../world.ts';
import { beginStep } from './unit-step.ts';

export class Units {
  private readonly world: World;
  private readonly host: number;
  private readonly count: number;
  /** Units that nobody has: a stack. */
  private readonly free: Int32Array;
  private freeCount: number;
  /** By unit: who has it, and which of its steps: events of earlier ones are stale. */
  private readonly holders: (UnitUser | null)[];
  private readonly tokens: Int32Array;
  private readonly generations: Int32Array;
  /** By unit: single steps of the run that it is at, and when that began. */
  private readonly runSteps: Int32Array;
  private readonly runStarts: Float64Array;
  private head: UnitUser | null = null;
  private tail: UnitUser | null = null;
  /** Time that units were taken, so far. */
  readonly busyNs = new Float64Array(1);
  /** When the last step that ever began ends. */
  private readonly untilNs = new Float64Array(1);

  constructor(world: World, host: number) {
    const { processingUnits } = world.params;
    this.world = world;
    this.host = host;
    this.count = processingUnits;
    this.freeCount = processingUnits;
    this.free = Int32Array.from({ length: processingUnits }, (_, i) => processingUnits - 1 - i);
    this.holders = Array.from({ length: processingUnits }, () => null);
    this.tokens = new Int32Array(processingUnits);
    this.generations = new Int32Array(processingUnits);
    this.runSteps = new Int32Array(processingUnits);
    this.runStarts = new Float64Array(processingUnits);
  }

  /** A sender whose phase is READY (for a step) or RESUME (to go on sending) wants a unit. */
  request(unitUser: UnitUser): void {
    if (unitUser.waiting) return;
    if (this.freeCount === 0) {
      if (this.head === null) this.endRuns();
      unitUser.waiting = true;
      if (this.tail === null) this.head = unitUser;
      else this.tail.next = unitUser;
      this.tail = unitUser;
      return;
    }
    this.freeCount = (this.freeCount - 1) | 0;
    this.give(this.free[this.freeCount], unitUser);
  }

  /** A step is over: its sender, when it is still at it, or null. The unit is free again unless it is kept. */
  stepDone(unit: number, generation: number): Sender | null {
    if (this.generations[unit] !== generation) return null;
    const unitUser = this.holders[unit];
    const current = unitUser !== null && tokenOf(unitUser.sender) === this.tokens[unit] ? unitUser : null;
    if (current !== null && this.world.greedy && current.sender.role === ROLE_REQUEST) current.unit = unit;
    else this.release(unit);
    return current === null ? null : current.sender;
  }

  /** A sender that keeps its unit sends a packet. True when its turn is over with that. */
  sent(unitUser: UnitUser, bytes: number): boolean {
    unitUser.bytes = (unitUser.bytes + bytes) | 0;
    return unitUser.bytes >= this.world.params.puHoldBytes;
  }

  /** A sender that kept its unit gives it back. */
  yield(unitUser: UnitUser): void {
    const { unit } = unitUser;
    if (unit < 0) return;
    unitUser.unit = -1;
    this.release(unit);
  }

  /** The next step of a sender that kept its unit. */
  nextStep(unitUser: UnitUser): void {
    this.step(unitUser.unit, unitUser);
  }

  /** Whether units were taken for no longer than there was time. */
  get withinTime(): boolean {
    const { world, untilNs, count } = this;
    return this.busyNs[0] <= count * Math.max(untilNs[0], world.clock[0]) * (1 + 1e-9);
  }

  /** Takes back units whose queue pairs are not at work any more. */
  settle(): void {
    for (let unit = 0; unit < this.count; unit++) {
      const unitUser = this.holders[unit];
      if (unitUser === null || unitUser.unit !== unit) continue;
      const phase = unitUser.sender.phase();
      if (phase !== STEP && phase !== PAYLOAD && phase !== SENDING) this.yield(unitUser);
    }
  }

  private release(unit: number): void {
    this.holders[unit] = null;
    // A step that was given up is over now: its event is stale.
    this.generations[unit] = (this.generations[unit] + 1) | 0;
    for (let unitUser = this.head; unitUser !== null; unitUser = this.head) {
      this.head = unitUser.next;
      if (this.head === null) this.tail = null;
      unitUser.next = null;
      unitUser.waiting = false;
      const phase = unitUser.sender.phase();
      // What was reset or failed meanwhile wants nothing any more.
      if (phase !== READY && phase !== RESUME) continue;
      this.give(unit, unitUser);
      return;
    }
    this.free[this.freeCount] = unit;
    this.freeCount = (this.freeCount + 1) | 0;
  }

  private give(unit: number, unitUser: UnitUser): void {
    const { sender } = unitUser;
    unitUser.bytes = 0;
    if (sender.phase() === READY) {
      this.step(unit, unitUser);
      return;
    }
    this.holders[unit] = unitUser;
    unitUser.unit = unit;
    sender.setPhase(SENDING);
    joinPort(this.world, sender);
  }

  private step(unit: number, unitUser: UnitUser): void {
    const { world } = this;
    const { sender } = unitUser;
    const single = this.head !== null;
    const steps = beginStep(world, sender, single);
    const generation = (this.generations[unit] + 1) | 0;
    this.generations[unit] = generation;
    this.holders[unit] = unitUser;
    this.tokens[unit] = tokenOf(sender);
    this.runSteps[unit] = steps;
    this.runStarts[unit] = world.clock[0];
    // What is beyond the steps is the wait for a context, which comes first.
    const waitNs = world.stepNs[0] - steps * world.params.waitStepNs;
    if (steps > 1 && waitNs > 0) this.runStarts[unit] += waitNs;
    sender.setPhase(STEP);
    this.busyNs[0] += world.stepNs[0];
    world.events.due[0] = world.clock[0] + world.stepNs[0];
    if (world.events.due[0] > this.untilNs[0]) this.untilNs[0] = world.events.due[0];
    world.events.push(EV_UNIT, this.host, unit, generation);
  }

  /** Somebody waits: every run of 0_WAITs ends at its next single step. */
  private endRuns(): void {
    const { world } = this;
    const stepNs = world.params.waitStepNs;
    for (let unit = 0; unit < this.count; unit++) {
      const steps = this.runSteps[unit];
      const unitUser = this.holders[unit];
      if (steps < 2 || unitUser === null || stepNs === 0) continue;
      const { sender } = unitUser;
      const done = Math.max(1, Math.ceil((world.clock[0] - this.runStarts[unit]) / stepNs));
      if (done >= steps || tokenOf(sender) !== this.tokens[unit]) continue;
      this.generations[unit] = (this.generations[unit] + 1) | 0;
      this.runSteps[unit] = done;
      this.busyNs[0] -= (steps - done) * stepNs;
      sender.qp.waitsLeft = (sender.qp.waitsLeft + steps - done) | 0;
      world.events.due[0] = this.runStarts[unit] + done * stepNs;
      world.events.push(EV_UNIT, this.host, unit, this.generations[unit]);
    }
  }
}

function tokenOf(sender: Sender): number {
  return sender.role === ROLE_REQUEST ? sender.qp.token : sender.qp.respToken;
}
