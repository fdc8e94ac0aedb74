/**
 * The processing units of a NIC. A free unit takes the next ready queue pair; a queue pair occupies one unit
 * at a time and joins the tail when it becomes ready again. A run of 0_WAITs is one event while no other
 * queue pair waits for a unit; otherwise the run ends at its next step.
 *
 * A message that finds no receive occupies a unit for rnrUnitNs.
 *
 * With puHoldBytes ("greedy"), a unit keeps its queue pair while it sends, up to that many bytes.
 */

import { joinPort } from '../egress/rate-pacing.ts';
import * as K from '../kernel/event-kinds.ts';
import type { Sender, UnitUser } from '../transport/qp.ts';
import * as Q from '../transport/qp.ts';
import type { World } from '../world.ts';
import { beginStep } from './unit-step.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { EV_UNIT } = K;
const { PAYLOAD, READY, RESUME, ROLE_REQUEST, SENDING, STEP } = Q;

export class Units {
  private readonly world: World;
  private readonly host: number;
  private readonly count: number;
  /** A stack of free units. */
  private readonly free: Int32Array;
  private freeCount: number;
  /**
   * By unit: its user, and the token and generation of the current step. Events of earlier steps are stale.
   */
  private readonly holders: (UnitUser | null)[];
  private readonly tokens: Int32Array;
  private readonly generations: Int32Array;
  /** By unit: single steps in the current run, and its start. */
  private readonly runSteps: Int32Array;
  private readonly runStarts: Float64Array;
  private head: UnitUser | null = null;
  private tail: UnitUser | null = null;
  /** Messages without a receive that wait for a unit, and whether the last unit went to one of them. */
  private pending = 0;
  private wasException = false;
  /** [0] total time that units were occupied. */
  readonly busyNs = new Float64Array(1);
  /** [0] single steps so far, and of runs that have begun. */
  readonly steps = new Float64Array(1);
  /** [0] end of the latest step. */
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

  /** Requests a unit for a sender in phase READY (for a step) or RESUME (to continue sending). */
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

  /** Occupies a unit for a message without a receive, at once or when one is free. */
  except(): void {
    if (this.freeCount === 0) {
      this.pending = (this.pending + 1) | 0;
      return;
    }
    this.freeCount = (this.freeCount - 1) | 0;
    this.occupy(this.free[this.freeCount]);
  }

  private occupy(unit: number): void {
    const { world } = this;
    const { rnrUnitNs } = world.params;
    this.wasException = true;
    this.generations[unit] = (this.generations[unit] + 1) | 0;
    this.holders[unit] = null;
    this.runSteps[unit] = 1;
    this.busyNs[0] += rnrUnitNs;
    world.events.due[0] = world.clock[0] + rnrUnitNs;
    if (world.events.due[0] > this.untilNs[0]) this.untilNs[0] = world.events.due[0];
    world.events.push(EV_UNIT, this.host, unit, this.generations[unit]);
  }

  /**
   * Ends a step. Returns its sender, or null when that sender was halted. The unit is free again unless kept.
   */
  stepDone(unit: number, generation: number): Sender | null {
    if (this.generations[unit] !== generation) return null;
    const unitUser = this.holders[unit];
    const current = unitUser !== null && tokenOf(unitUser.sender) === this.tokens[unit] ? unitUser : null;
    if (current !== null && this.world.greedy && current.sender.role === ROLE_REQUEST) current.unit = unit;
    else this.release(unit);
    return current === null ? null : current.sender;
  }

  /** A sender with a unit sends a packet. Returns true when that exhausts its puHoldBytes. */
  sent(unitUser: UnitUser, bytes: number): boolean {
    unitUser.bytes = (unitUser.bytes + bytes) | 0;
    return unitUser.bytes >= this.world.params.puHoldBytes;
  }

  /** Releases the unit that a sender kept. */
  yield(unitUser: UnitUser): void {
    const { unit } = unitUser;
    if (unit < 0) return;
    unitUser.unit = -1;
    this.release(unit);
  }

  /** Starts the next step of a sender that kept its unit. */
  nextStep(unitUser: UnitUser): void {
    this.step(unitUser.unit, unitUser);
  }

  /** Whether units were occupied for no longer than time passed. */
  get withinTime(): boolean {
    const { world, untilNs, count } = this;
    return this.busyNs[0] <= count * Math.max(untilNs[0], world.clock[0]) * (1 + 1e-9);
  }

  /** Releases units whose queue pairs are no longer active. */
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
    // An abandoned step ends now, which makes its event stale.
    this.generations[unit] = (this.generations[unit] + 1) | 0;
    // Such messages and queue pairs take turns.
    if (this.pending > 0 && !(this.wasException && this.head !== null)) {
      this.pending = (this.pending - 1) | 0;
      this.occupy(unit);
      return;
    }
    this.wasException = false;
    for (let unitUser = this.head; unitUser !== null; unitUser = this.head) {
      this.head = unitUser.next;
      if (this.head === null) this.tail = null;
      unitUser.next = null;
      unitUser.waiting = false;
      const phase = unitUser.sender.phase();
      // A sender that was reset or failed in the meantime no longer needs a unit.
      if (phase !== READY && phase !== RESUME) continue;
      this.give(unit, unitUser);
      return;
    }
    if (this.pending > 0) {
      this.pending = (this.pending - 1) | 0;
      this.occupy(unit);
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
    // Time beyond the steps is the wait for a context, which precedes them.
    const waitNs = world.stepNs[0] - steps * world.params.waitStepNs;
    if (steps > 1 && waitNs > 0) this.runStarts[unit] += waitNs;
    sender.setPhase(STEP);
    this.busyNs[0] += world.stepNs[0];
    this.steps[0] += steps;
    world.events.due[0] = world.clock[0] + world.stepNs[0];
    if (world.events.due[0] > this.untilNs[0]) this.untilNs[0] = world.events.due[0];
    world.events.push(EV_UNIT, this.host, unit, generation);
  }

  /** A queue pair waits for a unit: every run of 0_WAITs ends at its next single step. */
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
      this.steps[0] -= steps - done;
      sender.qp.waitsLeft = (sender.qp.waitsLeft + steps - done) | 0;
      world.events.due[0] = this.runStarts[unit] + done * stepNs;
      world.events.push(EV_UNIT, this.host, unit, this.generations[unit]);
    }
  }
}

/** A message found no receive on this host, or its sender got an RNR NAK there. */
export function noteNoReceive(world: World, host: number): void {
  if (world.params.rnrUnitNs > 0 && world.units.length > 0) world.units[host].except();
}

function tokenOf(sender: Sender): number {
  return sender.role === ROLE_REQUEST ? sender.qp.token : sender.qp.respToken;
}
