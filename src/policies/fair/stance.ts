/**
 * Whether fair schedules a device, and why: as numbers, which processes report to a daemon, and in words. A device is
 * scheduled while this helps (worth.ts), or, with a target, as strictly as necessary (target.ts).
 */
import { type Column, columnIndex, type Description, type MembersView } from '../../coordinator/ruler.ts';
import type { Additional } from '../link/windows.ts';
import { RATE_GRANTS, RateParts } from './rate-parts.ts';
import { pacePartAt, piecePartAt, windowPartAt } from './strictness.ts';

/** What is done, and why. The numbers are part of what processes report. */
export const Stance = {
  /** The process has not reported. */
  UNKNOWN: 0,
  /** The device is scheduled, and has not been left alone yet for comparison. */
  SCHEDULED: 1,
  /** The device is left alone, because it serves one request at a time, or is software. */
  ONE_AT_A_TIME: 2,
  /** A comparison has shown that scheduling helps, or that it does not. */
  HELPS: 3,
  LEFT_ALONE: 4,
  /** There is a target: nothing has been measured yet, it is met, it is not met yet, or it cannot be met. */
  TARGET: 5,
  TARGET_MET: 6,
  TARGET_MISSED: 7,
  TARGET_IMPOSSIBLE: 8,
} as const;

const TIME = { unit: 'ns', min: 0, max: 1e12, default: 0 } as const;

/** The columns that a process reports of a device, in addition to those of windows. */
const STANCE_REPORTS: readonly Column[] = [
  { name: 'stance', unit: 'value of Stance', min: 0, max: 8, default: 0 },
  // The latency of short messages under scheduling: the average, or, with a target, the 99th percentile.
  { name: 'shortNs', ...TIME },
  // Their average latency without scheduling, or the target.
  { name: 'referenceNs', ...TIME },
  // The throughput as a part of that without scheduling, or, with a target, the level of strictness.
  { name: 'stancePart', unit: 'part, or level', min: 0, max: 1e6, default: 0 },
];

/** Numbers of a stance: the values of its columns. */
export const STANCE_NUMBERS = STANCE_REPORTS.length;
export const STANCE = columnIndex(STANCE_REPORTS, 'stance');
export const SHORT_NS = columnIndex(STANCE_REPORTS, 'shortNs');
export const REFERENCE_NS = columnIndex(STANCE_REPORTS, 'referenceNs');
export const PART = columnIndex(STANCE_REPORTS, 'stancePart');

const us = (ns: number) => (ns / 1000).toPrecision(3);
const percent = (part: number) => `${Number((100 * part).toPrecision(2))} %`;

/** What a level of strictness reduces, in words. */
function reducedAt(level: number): string {
  if (level === 0) return 'nothing is reduced';
  const [piecePart, windowPart, pacePart] = [piecePartAt(level), windowPartAt(level), pacePartAt(level)];
  const reduced = [`pieces to ${percent(piecePart)} of their length`];
  if (windowPart < 1) reduced.push(`the window to ${percent(windowPart)}`);
  if (pacePart <= 1) reduced.push(`what waits to ${percent(pacePart)} of the link`);
  return `reduced: ${reduced.join(', ')}`;
}

/** What is done, in words. @param at reads a number */
export function stanceOf(at: (number: number) => number): string {
  const stance = at(STANCE);
  return stance === Stance.ONE_AT_A_TIME || stance === Stance.LEFT_ALONE ? 'left alone' : 'scheduled';
}

/** Why a device is scheduled or left alone, in words; empty if nothing has been decided yet. @param at reads a number */
export function reasonOf(at: (number: number) => number): string {
  const target = `targetUs is ${us(at(REFERENCE_NS))}`;
  const tail = `${target}, and 99 % of short messages take at most ${us(at(SHORT_NS))} us`;
  switch (at(STANCE)) {
    case Stance.ONE_AT_A_TIME:
      return 'the device is software, or serves one request at a time';
    case Stance.HELPS:
    case Stance.LEFT_ALONE:
      return (
        `with scheduling, short messages take ${us(at(SHORT_NS))} us instead of ${us(at(REFERENCE_NS))}, ` +
        `and the throughput is ${Math.round(100 * at(PART))} % of that without`
      );
    case Stance.TARGET:
      return `${target}; no short messages have been measured yet`;
    case Stance.TARGET_MET:
    case Stance.TARGET_MISSED:
      return `${tail}; ${reducedAt(at(PART))}`;
    case Stance.TARGET_IMPOSSIBLE:
      return `${tail}; the target cannot be met even with the least in flight, so nothing is reduced`;
    default:
      return '';
  }
}

/** How the daemon describes a process that has reported its stance. */
function describe(at: (number: number) => number): Description {
  if (at(STANCE) === Stance.UNKNOWN) return {};
  const does = stanceOf(at);
  return {
    stance: does,
    why: `${does}: ${reasonOf(at) || 'not compared yet with leaving the device alone'}`,
  };
}

/** What processes report of the stance, and are granted of the rates of tenants, in addition to windows. */
export const stancesAndRates: Additional = {
  reports: STANCE_REPORTS,
  grants: RATE_GRANTS,
  begin(members: MembersView) {
    const columns = STANCE_REPORTS.map(({ name }) => members.report(name));
    const rates = new RateParts(members);
    return {
      decide: (nowNs, changed) => rates.decide(nowNs, changed),
      describe: (member) => describe((number) => columns[number].of(member)),
    };
  },
};
