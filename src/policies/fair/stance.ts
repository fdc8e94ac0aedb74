/**
 * Whether fair schedules a device, and why: as numbers, which processes report to a daemon, and in words, for people. A
 * device is scheduled as long as this is worth it (worth.ts).
 */
import { type Column, columnIndex, type Description, type MembersView } from '../../coordinator/ruler.ts';
import type { Additional } from '../link/windows.ts';

const TIME = { unit: 'ns', min: 0, max: 1e12, default: 0 } as const;

/** The columns that a process reports of a device, in addition to those of windows. */
const STANCE_REPORTS: readonly Column[] = [
  // SCHEDULED or LEFT_ALONE; 0: the process has not reported.
  { name: 'stance', unit: '0 to 2', min: 0, max: 2, default: 0 },
  // See the constants below.
  { name: 'stanceReason', unit: 'number of a reason', min: 0, max: 2, default: 0 },
  // What short messages took in the last comparison: with scheduling, and without it.
  { name: 'scheduledNs', ...TIME },
  { name: 'plainNs', ...TIME },
  { name: 'sentPart', unit: 'part of what is sent without scheduling', min: 0, max: 1e6, default: 1 },
];

/** Numbers of a stance: the values of its columns. */
export const STANCE_NUMBERS = STANCE_REPORTS.length;
export const STANCE = columnIndex(STANCE_REPORTS, 'stance');
export const REASON = columnIndex(STANCE_REPORTS, 'stanceReason');
export const SCHEDULED_NS = columnIndex(STANCE_REPORTS, 'scheduledNs');
export const PLAIN_NS = columnIndex(STANCE_REPORTS, 'plainNs');
export const SENT_PART = columnIndex(STANCE_REPORTS, 'sentPart');

/** Values of STANCE. */
export const SCHEDULED = 1;
export const LEFT_ALONE = 2;

/** Values of REASON. */
export const NOT_COMPARED = 0;
export const ONE_AT_A_TIME = 1;
export const COMPARED = 2;

const us = (ns: number) => (ns / 1000).toPrecision(3);

/** Why a device is scheduled or left alone, in words; empty if nothing has been decided yet. @param at reads a number */
export function reasonOf(at: (number: number) => number): string {
  switch (at(REASON)) {
    case ONE_AT_A_TIME:
      return 'the device serves one request at a time';
    case COMPARED:
      return (
        `short messages take ${us(at(SCHEDULED_NS))} us, without scheduling ${us(at(PLAIN_NS))}; ` +
        `all send ${Math.round(100 * at(SENT_PART))} % of what they send without it`
      );
    default:
      return '';
  }
}

/** What is done, in words. @param at reads a number */
export function stanceOf(at: (number: number) => number): string {
  return at(STANCE) === LEFT_ALONE ? 'left alone' : 'scheduled';
}

/** What the daemon says of a process that has reported its stance. */
function describe(at: (number: number) => number): Description {
  if (at(STANCE) === 0) return {};
  const does = stanceOf(at);
  return { stance: does, why: `${does}: ${reasonOf(at) || 'not compared with leaving it alone yet'}` };
}

/** The stance as columns of the ruler of windows. */
export const stances: Additional = {
  reports: STANCE_REPORTS,
  begin(members: MembersView) {
    const columns = STANCE_REPORTS.map(({ name }) => members.report(name));
    return (member) => describe((number) => columns[number].of(member));
  },
};
