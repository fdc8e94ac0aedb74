// `isoverbs top` in a terminal, without one: what keys do, and what is drawn for a state.
import { expect, test } from 'vitest';
import { type Effect, entriesOf, initialState, reduce, type TopState } from '../../../src/cli/top/model.ts';
import { dominantOf, usesOf } from '../../../src/cli/top/uses.ts';
import { sparkline, textOf, view } from '../../../src/cli/top/view.ts';
import { NIC, rowOf, sampleAt } from './samples.ts';

/** The state after 60 seconds, and what keys do to it. */
class Session {
  state: TopState = initialState('/run/s', 'bandwidth');
  readonly effects: Effect[] = [];

  constructor(seconds = 60) {
    for (let i = 0; i <= seconds; i++)
      this.state = reduce(this.state, { type: 'sampled', sample: sampleAt(i) }).state;
  }

  /** Presses keys: characters, or names such as `up`. */
  press(...keys: string[]): this {
    for (const name of keys) {
      const text = [...name].length === 1 ? name : '';
      const { state, effect } = reduce(this.state, { type: 'key', key: { name, text } });
      this.state = state;
      if (effect !== undefined) this.effects.push(effect);
    }
    return this;
  }

  lines(columns = 80, rows = 24): string[] {
    return textOf(view(this.state, { columns, rows }));
  }

  get listed(): string[] {
    return entriesOf(this.state).map(({ tenant, program }) => `${program?.pid ?? tenant.row.tenant}`);
  }
}

test('a screen of 80 x 24 has devices, tenants, the selected tenant and keys', () => {
  const session = new Session().press(' ');
  session.state = reduce(session.state, { type: 'command', pid: 4711, command: 'node copy.js' }).state;
  const lines = session.lines();
  expect(lines).toHaveLength(24);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  expect(lines.slice(0, 12)).toEqual([
    'isoverbs top  policy perf  4 tenants  5 processes                   by bandwidth',
    'mlx5_0  100 Gbit/s [||||||||62.6 Gbit/s]  processing units [||           12.5 %]',
    '        last minute ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆ most 62.56',
    'sim0    100 Gbit/s  virtual time  sent 0.08 Gbit/s of real time',
    '        last minute ██████████████████████████████████████████████████ most 0.08',
    'TENANT             CLASS      GBIT/S   REQ/S     MAY WEIGHT   HELD      US   QPS',
    '- bulk             bandwidth   60.00    7.5k   61.50      1     17   812.3     9',
    '  └ 4711 node cop…             45.00    5.6k                     3   812.0     6',
    '  └ 4712                       15.00    1.9k                     3   812.0     3',
    '+ kv-store         active       2.56   20.0M   33.00      3      -     3.5   128',
    '+ laptop           active       0.08      10   50.00      1      -       -     2',
    '+ batch            idle            -       -   50.00    own      -       -     2',
  ]);
  expect(lines.slice(-5)).toEqual([
    'bulk at mlx5_0  bandwidth, isolated, 2 processes',
    expect.stringMatching(/^last minute {2}[▁-█]{60}$/),
    'limits       -   most used: link out 61 %',
    'why          large messages beside small ones',
    '? help  / filter  s sort  space processes  w weight  + - weight  q quit',
  ]);
});

test('a screen of 120 x 40 also has the device and the resource that each tenant uses most', () => {
  const lines = new Session().lines(120, 40);
  expect(lines).toHaveLength(40);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(120);
  expect(lines[5]).toBe(
    'TENANT                       DEVICE   CLASS      GBIT/S   REQ/S     MAY WEIGHT   HELD      US   QPS MOST USED',
  );
  expect(lines[6]).toMatch(/^\+ bulk +mlx5_0 +bandwidth +60\.00 .* link out 61 %$/);
  expect(lines[7]).toMatch(/^\+ kv-store +mlx5_0 +active +2\.56 .* link out 1\d %$/);
  expect(lines[8]).toMatch(/^\+ laptop +sim0 .* -$/);
});

test('small and large terminals get as many lines as they have, with the selected line among them', () => {
  const session = new Session().press('end');
  for (const [columns, rows] of [
    [20, 8],
    [40, 12],
    [300, 100],
  ]) {
    const lines = session.lines(columns, rows);
    expect(lines.length).toBeLessThanOrEqual(rows);
    expect(lines.some((line) => line.startsWith('+ batch'))).toBe(true);
  }
});

test('idle means that nothing was sent and nothing is held, whatever the policy says', () => {
  const kinds = (session: Session) => session.state.tenants.map(({ row, isIdle }) => [row.tenant, isIdle]);
  expect(kinds(new Session())).toEqual([
    ['bulk', false],
    ['kv-store', false],
    ['batch', true],
    ['laptop', false],
  ]);
});

test('keys sort, fold, filter, select and ask for help', () => {
  const session = new Session();
  expect(session.listed).toEqual(['bulk', 'kv-store', 'laptop', 'batch']);
  expect(session.press('t').listed).toEqual(['batch', 'bulk', 'kv-store', 'laptop']);
  expect(session.press('r').listed[0]).toBe('kv-store');
  expect(session.press('s').state.order).toBe('latency');
  // The latency that an idle tenant had earlier does not count.
  expect(session.listed).toEqual(['bulk', 'kv-store', 'batch', 'laptop']);
  expect(session.press('b', 'a').listed).toEqual(['bulk', '4711', '4712', 'kv-store', 'laptop', 'batch']);
  // A process is selected; folding selects its tenant.
  session.press('down', 'down', 'return');
  expect(session.listed).toEqual(['bulk', 'kv-store', 'laptop', 'batch']);
  expect(session.state.selected).toBe('mlx5_0\0bulk');
  session.press('/', 'k', 'v', 'x');
  expect(session.lines().at(-1)).toMatch(/^filter: kvx_/);
  expect(session.lines().join('\n')).toContain("no tenant matches 'kvx'; Esc clears the filter");
  expect(session.press('backspace', 'return').listed).toEqual(['kv-store']);
  // `q` in a filter is a letter.
  expect(session.press('/', 'q').effects).toEqual([]);
  expect(session.press('escape').listed).toHaveLength(4);
  expect(session.press('?').lines()[0]).toBe('isoverbs top: keys and columns');
  expect(session.press('x').lines()[0]).toMatch(/^isoverbs top {2}policy/);
  expect(session.press('q').effects).toEqual([{ type: 'quit' }]);
});

test('the help is wrapped to the width of the terminal', () => {
  const lines = new Session().press('?').lines(80, 24);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(lines.join(' ').replace(/ +/g, ' ')).toContain('on all devices, until the daemon ends');
  expect(lines.at(-1)).toBe('any key returns');
});

test('weights are changed in place', () => {
  const session = new Session().press('down', '+', '-', 'w', 'backspace', '0', '.', '5', 'return');
  const of = { type: 'set weight', tenant: 'kv-store' };
  expect(session.effects).toEqual([
    { ...of, weight: 4 },
    { ...of, weight: 2 },
    { ...of, weight: 0.5 },
  ]);
  session.press('w', 'x', 'return');
  expect(session.effects).toHaveLength(3);
  expect(session.lines().at(-1)).toBe("a weight is a number from 1e-6 to 1e6, not '3x'");
  // The notice comes before Enter: the policy perf ignores weights.
  expect(session.press('w').lines().at(-1)).toBe(
    'weight of kv-store: 3_  Enter applies, Esc cancels  no effect: perf ignores weights',
  );
  session.press('escape');
  session.state = reduce(session.state, { type: 'notice', text: 'only root may' }).state;
  expect(session.lines().at(-1)).toBe('only root may');
});

test.each([
  { keys: ['w', '\b', 'return'], weight: 1 },
  { keys: ['+', '\b', '+'], weight: 2 },
])(
  'a weight is changed of the tenant that was first at the key, even if the rows sort anew',
  ({ keys, weight }) => {
    const session = new Session();
    const [first] = session.listed;
    for (const key of keys) {
      if (key !== '\b') session.press(key);
      else {
        const { rows, ...sample } = sampleAt(61);
        const others = rows.map((row) => (row.tenant === first ? { ...row, sentBytes: 0 } : row));
        session.state = reduce(session.state, { type: 'sampled', sample: { ...sample, rows: others } }).state;
        expect(session.listed[0]).not.toBe(first);
      }
    }
    expect(session.effects.at(-1)).toEqual({ type: 'set weight', tenant: first, weight });
  },
);

test('a weight of a tenant that has left meanwhile is not set', () => {
  const session = new Session().press('w');
  const sample = { ...sampleAt(61), rows: [rowOf('other')] };
  session.state = reduce(session.state, { type: 'sampled', sample }).state;
  expect(session.lines().at(-1)).toMatch(/^weight of bulk: 1_/);
  expect(session.press('return').effects).toEqual([]);
  expect(session.lines().at(-1)).toBe('bulk is no longer present; its weight is unchanged');
});

test('a weight typed while the daemon is gone is not set', () => {
  const session = new Session().press('w');
  session.state = reduce(session.state, { type: 'disconnected', reason: '/run/s: gone' }).state;
  expect(session.press('return').effects).toEqual([]);
  expect(session.lines().at(-1)).toBe('the daemon does not answer; the weight of bulk is unchanged');
});

test('without a daemon, the reason is shown, and the list is empty', () => {
  const session = new Session();
  session.state = reduce(session.state, { type: 'disconnected', reason: '/run/s: gone' }).state;
  const [title, ...others] = session.lines();
  expect(title).toBe('isoverbs top  /run/s: gone: waiting for a daemon');
  expect(others.join('')).not.toContain('bulk');
});

test('a sparkline covers the last minute, and a gap keeps the value before it', () => {
  const at = (second: number, gbps: number) => ({ nowNs: second * 1e9, gbps });
  expect(sparkline([at(41, 0), at(60, 4), at(100, 8)], 6)).toBe('▁▅▅▅▅█');
  expect(sparkline([at(99, 1), at(100, 8)], 6, 16)).toBe('     ▅');
  expect(sparkline([], 4)).toBe('    ');
});

test('the resource used most is the link for long messages, and the processing units for short ones', () => {
  const most = (requestsPerS: number, bytes: number) =>
    dominantOf(usesOf(NIC, requestsPerS, requestsPerS * bytes));
  expect(most(1e4, 1 << 20)).toMatchObject({ resource: 'link out' });
  const short = dominantOf(usesOf({ ...NIC, wqeGapNs: 400 }, 20e6, 20e6 * 8));
  expect(short).toEqual({ resource: 'processing units', part: 0.5 });
  expect(most(0, 0)).toBeNull();
});

test('a list of a thousand tenants costs as many lines as the terminal has', () => {
  const rows = Array.from({ length: 1000 }, (_, i) => rowOf(`t${i}`));
  const sample = { ...sampleAt(1), rows };
  const { state } = reduce(initialState('/run/s', 'tenant'), { type: 'sampled', sample });
  expect(view(state, { columns: 80, rows: 24 })).toHaveLength(24);
});

test('of many devices, the head shows the busiest', () => {
  const session = new Session();
  const { devices = [], ...sample } = sampleAt(61);
  const idle = ['a0', 'b0'].map((device) => ({ ...devices[0], device }));
  const more = { ...sample, devices: [...idle, ...devices] };
  session.state = reduce(session.state, { type: 'sampled', sample: more }).state;
  const [, ...lines] = session.lines();
  expect(
    lines.filter((line) => /^(a0|b0|mlx5_0|sim0) /.test(line)).map((line) => line.split(' ')[0]),
  ).toEqual(['mlx5_0', 'sim0']);
  expect(lines).toContain('also: a0 b0');
});
