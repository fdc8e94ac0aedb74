// Rulers at a coordinator: columns laid out and bound by name, and reports that are clamped when they are read.
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import {
  MEMBER,
  type MemberPage,
  MemberTable,
  memberTableBytes,
  TENANT,
} from '../../src/coordinator/member-table.ts';
import { type Column, columnIndex, type MembersView, type Ruler } from '../../src/coordinator/ruler.ts';
import { ConfigError, InvalidArgumentError } from '../../src/verbs/errors.ts';

const column = (name: string, more: Partial<Column> = {}): Column => ({
  name,
  unit: 'any number',
  min: 0,
  max: 10,
  default: 0,
  ...more,
});

/** Grants each member what it reports. */
function echo(name: string, more: Partial<Pick<Ruler, 'reports' | 'grants'>> = {}): Ruler<number> {
  return {
    name,
    reports: [column('said')],
    grants: [column('heard')],
    ...more,
    rules: { safeParse: (value) => ({ success: true, data: Number(value) }) },
    begin(members) {
      const [said, heard] = [members.report('said'), members.grant('heard')];
      return {
        decide(factor, _nowNs, changed) {
          const { tenants } = members;
          tenants.group();
          for (let member = 0; member < tenants.memberLimit; member++) {
            if (tenants.tenantOf(member) < 0) continue;
            if (heard.set(member, factor * said.of(member))) changed(member);
          }
        },
        describe: (tenant) => ({
          heard: heard.of(members.tenants.memberAt(members.tenants.firstOf(tenant))),
        }),
      };
    },
  };
}

const tableOf = (buffer: ArrayBufferLike) => new MemberTable(buffer, 4);
const memory = () => new SharedArrayBuffer(memberTableBytes(4));

test('each ruler has columns of its own behind those of the rulers before it', () => {
  const coordinator = new Coordinator();
  const [one, other] = [echo('one'), echo('other')];
  const page = coordinator.join('a') as MemberPage;
  page.columns(one).reports[0] = 3;
  page.columns(other).reports[0] = 4;
  coordinator.decide(one, 1, 0);
  coordinator.decide(other, 2, 0);
  expect([page.columns(one).grants[0], page.columns(other).grants[0]]).toEqual([3, 8]);
  expect(coordinator.takeChanges()).toEqual([page.row]);
  expect(coordinator.describe(one, page.row)).toEqual({ heard: 3 });
  const { places } = coordinator.members.layout;
  expect(places.map(({ name, reportsAt }) => [name, reportsAt])).toEqual([
    ['member', 0],
    ['tenant', MEMBER.reports.length],
    ['one', MEMBER.reports.length + TENANT.reports.length],
    ['other', MEMBER.reports.length + TENANT.reports.length + 1],
  ]);
});

test.each([
  [5, 5],
  [-1, 2],
  [11, 9],
  [Number.POSITIVE_INFINITY, 9],
  [Number.NEGATIVE_INFINITY, 2],
  [Number.NaN, 7],
  [1e300, 9],
])('a report of %d is read as %d', (written, read) => {
  const ruler = echo('bounded', { reports: [column('said', { min: 2, max: 9, default: 7 })] });
  const coordinator = new Coordinator();
  const page = coordinator.join('a') as MemberPage;
  page.columns(ruler).reports[0] = written;
  coordinator.decide(ruler, 1, 0);
  expect(page.columns(ruler).grants[0]).toBe(read);
});

test('a member has the defaults of all columns, whether it joins before or after the ruler', () => {
  const ruler = echo('late', {
    reports: [column('said', { default: 6 })],
    grants: [column('heard', { default: 5 })],
  });
  const buffer = memory();
  const [one, other] = [new Coordinator(tableOf(buffer)), new Coordinator(tableOf(buffer))];
  const early = other.join('early') as MemberPage;
  expect([...one.members.columnsAt(0, one.members.layout.add(ruler)).grants]).toEqual([5]);
  const late = other.join('late') as MemberPage;
  for (const page of [early, late]) {
    expect([page.columns(ruler).reports[0], page.columns(ruler).grants[0]]).toEqual([6, 5]);
  }
});

test('threads over one memory agree on the columns, whatever the order in which each loads its rulers', () => {
  const buffer = memory();
  const [one, other] = [tableOf(buffer), tableOf(buffer)];
  const [a, b, c] = ['a', 'b', 'c'].map((name) => echo(name));
  one.layout.add(a);
  other.layout.add(c);
  other.layout.add(b);
  for (const ruler of [b, c]) one.layout.add(ruler);
  other.layout.add(a);
  for (const { name } of [a, b, c]) {
    expect(one.layout.find(name)?.reportsAt).toBe(other.layout.find(name)?.reportsAt);
  }
  const places = one.layout.places.map(({ reportsAt }) => reportsAt);
  expect(new Set(places).size).toBe(places.length);
});

describe('a mistake in a ruler is reported', () => {
  test('another ruler of the same name', () => {
    const { layout } = new Coordinator().members;
    layout.add(echo('one'));
    expect(() => layout.add(echo('one', { reports: [] }))).toThrow(ConfigError);
  });

  test('more columns than a row has room for, which leaves the room to others', () => {
    const { layout } = new Coordinator().members;
    const reports = Array.from({ length: 1000 }, (_, i) => column(`c${i}`));
    expect(() => layout.add(echo('wide', { reports }))).toThrow(
      /'wide': there is no room for its 1000 reports/,
    );
    expect(layout.add(echo('narrow')).reportsAt).toBe(MEMBER.reports.length + TENANT.reports.length);
  });

  test('a column that does not exist', () => {
    const bind = (use: (members: MembersView) => unknown) => {
      const ruler = { ...echo('one'), begin: (members: MembersView) => use(members) as never };
      return () => new Coordinator().decide(ruler, 1, 0);
    };
    expect(bind((members) => members.report('sid'))).toThrow(
      new InvalidArgumentError("ruler 'one' has no report 'sid'; it has: said"),
    );
    expect(bind((members) => members.grant('seen', echo('two')))).toThrow(/'two' has no grant 'seen'/);
    expect(() => columnIndex([column('a')], 'b')).toThrow(/no column 'b'; the columns are: a/);
  });
});
