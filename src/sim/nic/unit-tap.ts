/**
 * Taps the processing units of a simulation: an observer learns of each step. A tap replaces methods of the objects of one
 * world. Worlds without a tap are unchanged, so it costs them nothing.
 */
import { EV_UNIT } from '../kernel/event-kinds.ts';
import type { Sender } from '../transport/qp.ts';
import type { World } from '../world.ts';

/** Observes processing units. */
export interface UnitObserver {
  /** A sender's step in a unit ends now. Its request is still the current one. */
  stepped(host: number, unit: number, sender: Sender, startNs: number): void;
}

/** The step of a unit: its start, the generation of the event that ends it, and whether it has not ended. */
interface Step {
  startNs: number;
  generation: number;
  isOpen: boolean;
}

/** Calls the observer for each step from now on. Steps that are abandoned are left out. */
export function tapUnits(world: World, observer: UnitObserver): void {
  const { events, clock, units } = world;
  const steps: Step[][] = units.map(() => []);
  const push = events.push.bind(events);
  events.push = (kind, a, b, c) => {
    if (kind === EV_UNIT) begin(steps[a], b, c, clock[0]);
    push(kind, a, b, c);
  };
  for (const [host, ofHost] of units.entries()) {
    const stepDone = ofHost.stepDone.bind(ofHost);
    ofHost.stepDone = (unit, generation) => {
      const step = steps[host][unit];
      const { startNs } = step;
      const isCurrent = step.generation === generation;
      if (isCurrent) step.isOpen = false;
      // This may begin the unit's next step.
      const sender = stepDone(unit, generation);
      if (isCurrent && sender !== null) observer.stepped(host, unit, sender, startNs);
      return sender;
    };
  }
}

/** An event that ends a step is queued: a step begins, or a run of 0_WAITs will end earlier. */
function begin(steps: Step[], unit: number, generation: number, nowNs: number): void {
  const step = steps[unit];
  if (step === undefined) {
    steps[unit] = { startNs: nowNs, generation, isOpen: true };
    return;
  }
  // A step that is abandoned and the next one are two generations apart.
  const isShortened = step.isOpen && generation === ((step.generation + 1) | 0);
  if (!isShortened) step.startNs = nowNs;
  step.generation = generation;
  step.isOpen = true;
}
