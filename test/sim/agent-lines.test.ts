// The lines of contexts to the agent of their device, in one process.
import { expect, test } from 'vitest';
import type { Agent, AgentActions, AgentLine } from '../../src/coordinator/agent.ts';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import type { ContextView } from '../../src/shim/policy.ts';

class Echo implements Agent {
  readonly told: string[] = [];

  onTold(member: number, words: Float64Array, out: AgentActions): void {
    this.told.push(`${member}: ${words.join(' ')}`);
    out.tell(member, words);
  }

  onLeft(member: number): void {
    this.told.push(`${member} left`);
  }
}

const echo = { name: 'echo', create: () => new Echo() };

function setUp() {
  const fabric = createFabric({ hosts: 2, autoAdvance: false });
  const registry = new CoordinatorRegistry(undefined, fabric.provider);
  const agent = registry.agent('sim0', echo)!;
  const contextOf = (handle: number) =>
    ({ handle, index: handle, device: 'sim0', tenant: '', labels: { weight: 1 } }) as unknown as ContextView;
  const lineOf = (context: ContextView) => {
    const told: number[][] = [];
    const ups: AgentLine[] = [];
    const onUp = (line: AgentLine) => void ups.push(line);
    const onTold = (words: Float64Array) => void told.push([...words]);
    expect(registry.line(context, echo, { onUp, onTold })).toBe(true);
    return { told, ups };
  };
  return { registry, agent, contextOf, lineOf };
}

test('a line is up at once; each context hears what it is told, and nothing after it has closed', () => {
  const { registry, agent, contextOf, lineOf } = setUp();
  const [a, b] = [0, 1].map(contextOf);
  const closing = [a, b].map((context) => registry.subscribe(context, () => {}));
  const lines = [a, b].map(lineOf);
  lines[1].ups[0].tell([7, 8]);
  expect(lines.map(({ told }) => told)).toEqual([[], [[7, 8]]]);
  closing[1]();
  expect(agent.told).toEqual(['1: 7 8', '1 left']);
  lines[1].ups[0].tell([9]);
  expect(agent.told).toHaveLength(2);
  // Its row belongs to another context, which has no line yet.
  const c = contextOf(2);
  expect(registry.page(c).row).toBe(1);
  lines[1].ups[0].tell([9]);
  expect(agent.told).toHaveLength(2);
  expect(() => lines[0].ups[0].tell(new Float64Array(101))).toThrow('at most 100 words, not 101');
});

test('what is told while the agents are down is lost, and lines come up again with them', () => {
  const { registry, agent, contextOf, lineOf } = setUp();
  const line = lineOf(contextOf(0));
  registry.setAgentsDown('sim0', true);
  line.ups[0].tell([1]);
  expect([agent.told, line.told]).toEqual([[], []]);
  registry.setAgentsDown('sim0', false);
  registry.setAgentsDown('sim0', false);
  expect(line.ups).toHaveLength(2);
  line.ups[1].tell([2]);
  expect(line.told).toEqual([[2]]);
});

test('a second line of a context replaces the first', () => {
  const { agent, contextOf, lineOf } = setUp();
  const context = contextOf(0);
  const [first, second] = [lineOf(context), lineOf(context)];
  expect(agent.told).toEqual([]);
  second.ups[0].tell([2]);
  first.ups[0].tell([1]);
  expect([first.told, second.told.length]).toEqual([[], 1]);
});

test('a process without a provider has no agents', () => {
  const registry = new CoordinatorRegistry();
  const context = { handle: 1, index: 0, device: 'sim0', tenant: '', labels: { weight: 1 } };
  expect(registry.line(context as unknown as ContextView, echo, {})).toBe(false);
});
