/**
 * The half of a policy that decides, where the application posts, which requests need not be shaped. A driver that runs
 * the shim in another thread keeps one in the application's thread (src/drivers/worker). It is called only for queue
 * pairs without shaped requests, so it requires no state from the other half.
 */
import { ISO_WR_ENABLE, ISO_WR_WAIT } from '../verbs/constants.ts';
import type { Policy, QpView } from './policy.ts';

/** Decides on every post of a queue pair until one of its requests is shaped. */
export interface Gate {
  /** How many of the requests start .. start + count - 1 go straight to the device (Policy.onload). */
  straight(qp: QpView, words: Uint32Array, start: number, count: number): number;
  /** Whether a policy executes this opcode itself, so that the device need not know it. */
  executes(opcode: number): boolean;
  /** Whether the policy may refuse posts, which the application must learn at once. */
  readonly limits: boolean;
  /** Whether the policy limits the rate of completions, so that it must see all of them. */
  readonly limitsCompletions: boolean;
}

/** The gate of one policy, with a separate instance of it. */
export function gateOf(policy: Policy): Gate {
  return {
    // Who may share other queue pairs is known in the policy's thread only.
    straight: (qp, words, start, count) =>
      policy.mostShared === undefined ? policy.onload(qp, words, start, count) : 0,
    executes: (opcode) =>
      (opcode === ISO_WR_WAIT || opcode === ISO_WR_ENABLE) &&
      (policy.crossChannel === true || policy.zeroWaits === true),
    limits: policy.admit !== undefined,
    limitsCompletions: policy.limitsCompletions === true,
  };
}

/** The gate of a stack of policies, outermost first: passes what all of them pass. */
export function gateOfAll(gates: readonly Gate[]): Gate {
  return {
    straight(qp, words, start, count) {
      let n = count;
      for (let i = 0; i < gates.length && n > 0; i++) n = gates[i].straight(qp, words, start, n);
      return n;
    },
    executes: (opcode) => gates.some((gate) => gate.executes(opcode)),
    limits: gates.some((gate) => gate.limits),
    limitsCompletions: gates.some((gate) => gate.limitsCompletions),
  };
}
