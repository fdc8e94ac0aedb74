// Tokens that a daemon in busy mode hands out: how the ruler divides them, and how clocks of processes spend them.
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import * as M from '../../../src/coordinator/member-table.ts';
import { DEFAULT_CAPACITY, MemberTable, memberTableBytes } from '../../../src/coordinator/member-table.ts';
import { NEVER_NS } from '../../../src/coordinator/members.ts';
import { HUNGRY_WEIGHT, SENDS_BULK } from '../../../src/policies/justitia/columns.ts';
import {
  HANDED_BYTES,
  HANDS_OUT,
  handedTokens,
  IS_PENDING,
  SPENT_BYTES,
} from '../../../src/policies/justitia/handed-tokens.ts';
import { justitiaOptions } from '../../../src/policies/justitia/options.ts';
import { Purse } from '../../../src/policies/justitia/purse.ts';
import { rateRulesOf, rates } from '../../../src/policies/justitia/rates.ts';
import { TokenClock } from '../../../src/policies/justitia/token-clock.ts';

const TOKEN = 10_000;
/** One byte per nanosecond: a token takes 10 us. */
const GBPS = 8;
const TOKEN_NS = TOKEN;
const STEP_NS = 500;

/** A device with both rulers, in steps of STEP_NS. */
class Device {
  readonly coordinator: Coordinator;
  private readonly options;
  nowNs = 1e6;

  constructor(more: Record<string, unknown> = {}) {
    this.options = justitiaOptions.parse({ maxGbps: GBPS, bulkChunkBytes: TOKEN, ...more });
    const table = new MemberTable(new ArrayBuffer(memberTableBytes(DEFAULT_CAPACITY)));
    this.coordinator = new Coordinator(table, 'by owner');
  }

  join(weight = 1, tenant = ''): User {
    return new User(this, weight, tenant);
  }

  decideRates(): void {
    this.coordinator.decide(rates, rateRulesOf(this.options, null), this.nowNs);
  }

  handOut(nowNs = this.nowNs): void {
    this.nowNs = nowNs;
    const rules = handedTokens.rules.safeParse(this.options);
    if (!rules.success) throw new Error('rules');
    this.coordinator.decide(handedTokens, rules.data, nowNs);
  }

  /** Lets these members spend what they are handed. */
  run(forNs: number, users: readonly User[] = []): void {
    for (const endNs = this.nowNs + forNs; this.nowNs < endNs; ) {
      this.handOut(this.nowNs + STEP_NS);
      for (const user of users) user.spend();
    }
  }
}

/** A member that waits for tokens. */
class User {
  readonly page: M.MemberPage;
  private readonly device: Device;

  constructor(device: Device, weight: number, tenant: string) {
    this.device = device;
    this.page = device.coordinator.join(tenant)!;
    this.page.columns(M.TENANT).reports[M.WEIGHT] = weight;
    this.page.columns(rates).reports[HUNGRY_WEIGHT] = weight;
    this.page.columns(rates).reports[SENDS_BULK] = 1;
    this.isPending = true;
    device.decideRates();
  }

  set isPending(value: boolean) {
    this.page.columns(handedTokens).reports[IS_PENDING] = value ? 1 : 0;
  }

  set spent(bytes: number) {
    this.page.columns(handedTokens).reports[SPENT_BYTES] = bytes;
  }

  set isSilent(value: boolean) {
    this.page.counters[M.WRITTEN_NS] = value ? NEVER_NS : this.device.nowNs;
  }

  get handed(): number {
    return this.page.columns(handedTokens).grants[HANDED_BYTES];
  }

  get handsOut(): number {
    return this.page.columns(handedTokens).grants[HANDS_OUT];
  }

  spend(): void {
    this.spent = this.handed;
  }

  leave(): void {
    this.device.coordinator.leave(this.page);
    this.device.decideRates();
  }
}

const handedOf = (users: readonly User[]) => users.map(({ handed }) => handed);
const total = (users: readonly User[]) => handedOf(users).reduce((sum, bytes) => sum + bytes, 0);

describe('the ruler of handed tokens', () => {
  test.each([[[1, 1]], [[1, 3]], [[1, 2, 5]], [Array.from({ length: 40 }, (_, i) => 1 + i)]])(
    'hands out SafeUtil by weight: %j',
    (weights) => {
      const device = new Device();
      const users = weights.map((weight) => device.join(weight));
      const tokens = 3000;
      device.run(tokens * TOKEN_NS, users);
      const sum = weights.reduce((all, weight) => all + weight, 0);
      expect(Math.abs(total(users) / TOKEN - tokens)).toBeLessThanOrEqual(2);
      for (const [i, weight] of weights.entries())
        expect(Math.abs(users[i].handed / TOKEN - (tokens * weight) / sum)).toBeLessThanOrEqual(2);
    },
  );

  test('a tenant with several contexts has its weight once, with granularity=tenant', () => {
    const device = new Device({ granularity: 'tenant' });
    const users = [device.join(1, 'a'), device.join(1, 'a'), device.join(1, 'b')];
    device.run(1000 * TOKEN_NS, users);
    const parts = handedOf(users).map((bytes) => bytes / total(users));
    expect(parts[0] + parts[1]).toBeCloseTo(0.5, 2);
    expect(parts[2]).toBeCloseTo(0.5, 2);
  });

  test('the tokens of a member that waits for none go to the others at once', () => {
    const device = new Device();
    const [a, b] = [device.join(), device.join()];
    device.run(100 * TOKEN_NS, [a, b]);
    a.isPending = false;
    const before = handedOf([a, b]);
    // The rates stay as they were.
    device.run(100 * TOKEN_NS, [a, b]);
    expect(a.handed).toBe(before[0]);
    expect(Math.abs((b.handed - before[1]) / TOKEN - 100)).toBeLessThanOrEqual(2);
    // What it did not use is lost.
    a.isPending = true;
    const again = handedOf([a, b]);
    device.run(100 * TOKEN_NS, [a, b]);
    expect(Math.abs((a.handed - again[0]) / TOKEN - 50)).toBeLessThanOrEqual(2);
    expect(Math.abs((b.handed - again[1]) / TOKEN - 50)).toBeLessThanOrEqual(2);
  });

  test('a member that spends nothing holds one token, or backlogBytes', () => {
    for (const [backlogBytes, most] of [
      [1, 1],
      [8192, 1],
      [3 * TOKEN, 3],
      [3 * TOKEN + 1, 3],
    ]) {
      const device = new Device({ backlogBytes });
      const user = device.join();
      device.run(100 * TOKEN_NS);
      expect(user.handed).toBe(most * TOKEN);
    }
  });

  test('tokens that no member takes are discarded, except for one', () => {
    const device = new Device();
    const user = device.join();
    user.isPending = false;
    device.run(100 * TOKEN_NS);
    expect(user.handed).toBe(0);
    user.isPending = true;
    for (let i = 0; i < 10; i++) {
      device.handOut();
      user.spend();
    }
    expect(user.handed).toBe(TOKEN);
  });

  test.each(['leaves', 'is silent'])('the token of a member that %s goes to the others', (how) => {
    const device = new Device();
    const [a, b] = [device.join(), device.join()];
    device.run(20 * TOKEN_NS, [b]);
    expect(a.handed).toBe(TOKEN);
    b.isPending = false;
    device.run(2 * TOKEN_NS);
    const before = b.handed;
    // The one token that was saved.
    b.isPending = true;
    device.handOut();
    b.spend();
    expect(b.handed).toBe(before + TOKEN);
    if (how === 'leaves') a.leave();
    else a.isSilent = true;
    device.handOut();
    expect(b.handed).toBe(before + 2 * TOKEN);
    // It is given once.
    b.spend();
    device.handOut();
    expect(b.handed).toBe(before + 2 * TOKEN);
  });

  test('a silent member that spends its token after all pays for it', () => {
    const device = new Device();
    const [a, b] = [device.join(), device.join()];
    device.run(20 * TOKEN_NS, [b]);
    a.isSilent = true;
    device.run(20 * TOKEN_NS, [b]);
    a.isSilent = false;
    a.spend();
    a.isPending = false;
    const before = b.handed;
    device.run(20 * TOKEN_NS, [b]);
    expect(Math.abs((b.handed - before) / TOKEN - 19)).toBeLessThanOrEqual(1);
  });

  test('a member that counts backwards while it is silent costs the others no tokens', () => {
    const device = new Device();
    const [liar, other] = [device.join(), device.join()];
    device.run(1000 * TOKEN_NS, [liar, other]);
    liar.isSilent = true;
    device.decideRates();
    for (let round = 0; round < 3; round++) {
      liar.spent = 0;
      device.run(10 * TOKEN_NS, [other]);
      liar.spend();
      const before = other.handed;
      device.run(100 * TOKEN_NS, [other]);
      expect(Math.abs((other.handed - before) / TOKEN - 100)).toBeLessThanOrEqual(2);
    }
  });

  test('a new member in the row of another one begins with nothing', () => {
    const device = new Device();
    const [a, b] = [device.join(), device.join()];
    device.run(50 * TOKEN_NS, [a, b]);
    a.leave();
    const c = device.join();
    expect(c.page.row).toBe(a.page.row);
    expect(c.handed).toBe(0);
    const before = b.handed;
    device.run(50 * TOKEN_NS, [b, c]);
    expect(Math.abs(c.handed - (b.handed - before))).toBeLessThanOrEqual(2 * TOKEN);
  });

  test('a clock that jumps causes at most one more token', () => {
    const device = new Device();
    const user = device.join();
    device.run(10 * TOKEN_NS, [user]);
    for (const jumpNs of [-5e5, 1e12, -1e12, Number.NaN, Number.POSITIVE_INFINITY]) {
      const [fromNs, before] = [device.nowNs, user.handed];
      device.handOut(fromNs + jumpNs);
      if (!Number.isFinite(device.nowNs)) device.nowNs = fromNs;
      user.spend();
      device.run(10 * TOKEN_NS, [user]);
      expect(user.handed - before).toBeGreaterThanOrEqual(9 * TOKEN);
      expect(user.handed - before).toBeLessThanOrEqual(12 * TOKEN);
    }
  });

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, 1e300])(
    'a member that has spent %d gets no more than its share',
    (lie) => {
      const device = new Device();
      const [a, b] = [device.join(), device.join()];
      for (let i = 0; i < 2000; i++) {
        a.spent = lie;
        a.page.columns(handedTokens).reports[IS_PENDING] = i % 2 === 0 ? 1 : Number.NaN;
        device.run(STEP_NS, [b]);
      }
      const tokens = (2000 * STEP_NS) / TOKEN_NS;
      expect(a.handed / TOKEN).toBeLessThanOrEqual(tokens / 2 + 2);
      expect(b.handed / TOKEN).toBeGreaterThanOrEqual(tokens / 2 - 2);
      expect(total([a, b]) / TOKEN).toBeLessThanOrEqual(tokens + 2);
    },
  );

  test('gives signs of life, whatever it hands out', () => {
    const device = new Device();
    const user = device.join();
    user.isPending = false;
    const signs = new Set<number>();
    for (let i = 0; i < 10; i++) {
      device.handOut(device.nowNs + 1e7);
      signs.add(user.handsOut);
    }
    expect(signs.size).toBe(10);
    expect(signs).not.toContain(0);
  });

  test('hands out nothing while nothing is paced', () => {
    const device = new Device({ maxGbps: undefined });
    const user = device.join();
    device.run(10 * TOKEN_NS, [user]);
    expect([user.handed, user.handsOut]).toEqual([0, 0]);
  });

  test('bytes of smaller tokens are no reason to wait for a larger one forever', () => {
    const device = new Device({ chunkBytes: 1000, bulkChunkBytes: TOKEN, refPeriodUs: 20 });
    const [a, latency] = [device.join(), device.join(0)];
    latency.page.columns(rates).reports[2] = 1;
    device.decideRates();
    device.run(20_000);
    expect(a.handed).toBe(8000);
    latency.leave();
    device.run(20 * TOKEN_NS, []);
    expect(a.handed).toBe(8000 + TOKEN);
  });
});

describe('a token clock with handed tokens', () => {
  /** A clock of a member, and the time that passes for it. */
  function processOf(device: Device, weight = 1) {
    const user = device.join(weight);
    user.isPending = false;
    const page = { isStalled: false };
    const holder = { page, columns: user.page.columns(rates), tokens: user.page.columns(handedTokens) };
    const set = (nowNs: number) => clock.set(GBPS / 8 / 2, TOKEN, 0, 0, nowNs);
    const clock: TokenClock = new TokenClock(set, 20_000, new Purse([holder]));
    device.handOut();
    set(device.nowNs);
    return { user, clock, page };
  }

  test('spends what it is handed, and no more', () => {
    const device = new Device();
    const { clock } = processOf(device);
    let taken = 0;
    for (let i = 0; i < 20_000; i++) {
      device.handOut(device.nowNs + STEP_NS);
      while (clock.take(device.nowNs)) taken++;
      expect(clock.readyNs).toBeGreaterThan(device.nowNs);
      expect(clock.readyNs).toBeLessThanOrEqual(device.nowNs + 20_000);
    }
    expect(Math.abs(taken - (20_000 * STEP_NS) / TOKEN_NS)).toBeLessThanOrEqual(2);
  });

  test('reports when it needs a token, and when it does not', () => {
    const device = new Device();
    const { user, clock } = processOf(device);
    const isPending = () => user.page.columns(handedTokens).reports[IS_PENDING];
    expect(isPending()).toBe(0);
    clock.take(device.nowNs);
    expect(isPending()).toBe(1);
    clock.rest();
    expect(isPending()).toBe(0);
  });

  test('makes tokens at the last rate while the daemon gives no sign of life', () => {
    const device = new Device();
    const { clock, page } = processOf(device);
    const takeFor = (forNs: number) => {
      let taken = 0;
      for (const endNs = device.nowNs + forNs; device.nowNs < endNs; ) {
        if (page.isStalled) device.nowNs += STEP_NS;
        else device.handOut(device.nowNs + STEP_NS);
        while (clock.take(device.nowNs)) taken++;
      }
      return taken;
    };
    takeFor(1e6);
    page.isStalled = true;
    expect(Math.abs(takeFor(1e7) - 1e7 / TOKEN_NS / 2)).toBeLessThanOrEqual(3);
    page.isStalled = false;
    expect(Math.abs(takeFor(1e7) - 1e7 / TOKEN_NS)).toBeLessThanOrEqual(3);
  });

  test('makes its own tokens as soon as the grants say that none are handed out', () => {
    const device = new Device();
    const { user, clock } = processOf(device);
    device.run(1000);
    clock.take(device.nowNs);
    user.page.columns(handedTokens).grants[HANDS_OUT] = 0;
    let taken = 0;
    for (let i = 0; i < 2000; i++) {
      device.nowNs += STEP_NS;
      while (clock.take(device.nowNs)) taken++;
    }
    expect(Math.abs(taken - (2000 * STEP_NS) / TOKEN_NS / 2)).toBeLessThanOrEqual(2);
    // Nothing of what it was handed is left when tokens are handed out again.
    expect([...user.page.columns(handedTokens).reports]).toEqual([user.handed, 0]);
  });

  test('a new daemon has handed out less: the clock takes that as its beginning', () => {
    const device = new Device();
    const { user, clock } = processOf(device);
    user.spent = 1e9;
    let taken = 0;
    for (let i = 0; i < 2000; i++) {
      device.handOut(device.nowNs + STEP_NS);
      while (clock.take(device.nowNs)) taken++;
    }
    expect(taken).toBeGreaterThan((2000 * STEP_NS) / TOKEN_NS - 6);
  });
});
