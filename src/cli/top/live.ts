/** `isoverbs top` in a terminal: carries keys and samples to the state, and draws it. */
import { readFile } from 'node:fs/promises';
import { request } from '../../daemon/client/tool-request.ts';
import { Screen } from '../output/screen.ts';
import type { TenantSample } from '../watch-tenants.ts';
import { weightNotice } from '../weight-effect.ts';
import { type Effect, initialState, reduce, type TopEvent } from './model.ts';
import { type Order, programsOf, type TopRow } from './table.ts';
import { view } from './view.ts';

const MAX_COMMAND = 1000;

/** The output for samples, and for the report of a missing daemon. */
export interface Output {
  show(rows: readonly TopRow[], sample: TenantSample): void;
  disconnected(reason: string): void;
  close(): void;
}

/** Redraws a screen in place. `quit` is called when the user quits. */
export function live(sort: Order, socket: string, quit: () => void): Output {
  let state = initialState(socket, sort);
  const handle = (event: TopEvent) => {
    const step = reduce(state, event);
    state = step.state;
    screen.draw(view(state, screen.size));
    if (step.effect?.type === 'quit') quit();
    else if (step.effect !== undefined && state.sample !== null)
      void setWeight(socket, step.effect, state.sample).then((text) => handle({ type: 'notice', text }));
  };
  const screen = new Screen({
    key: (key) => handle({ type: 'key', key }),
    resized: () => screen.draw(view(state, screen.size)),
  });
  const asked = new Set<number>();
  return {
    show(rows, sample) {
      handle({ type: 'sampled', sample });
      for (const pid of rows.flatMap((row) => programsOf(row).map((one) => one.pid))) {
        if (pid === 0 || asked.has(pid)) continue;
        asked.add(pid);
        void commandOf(pid).then((command) => handle({ type: 'command', pid, command }));
      }
    },
    disconnected(reason) {
      asked.clear();
      handle({ type: 'disconnected', reason });
    },
    close: () => screen.close(),
  };
}

/** The command line of a process; '' if this user may not read it. */
async function commandOf(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return text.slice(0, MAX_COMMAND).replaceAll('\0', ' ').trim();
}

/** Returns what came of the change, in a sentence. */
async function setWeight(
  socket: string,
  { tenant, weight }: Effect & { type: 'set weight' },
  sample: TenantSample,
): Promise<string> {
  try {
    const [answer] = await request(socket, { type: 'set', tenant, future: false, weight });
    if (answer.type === 'refused') return answer.reason;
    if (answer.type === 'done' && !answer.isKnown)
      return `${tenant} is no longer present; its weight is unchanged`;
    return weightNotice(tenant, weight, sample);
  } catch (error) {
    return (error as Error).message;
  }
}
