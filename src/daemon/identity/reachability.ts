/**
 * Finds rules that never decide anything, because an earlier rule matches all their clients. There may be hundreds of
 * thousands of rules, so earlier rules are found in a hash table by their conditions, in typed arrays.
 */
import type { Match, Rule } from '../rules.ts';
import { RangeTree } from './range-tree.ts';

/** The conditions of a rule, as bits of its shape. */
const GID = 1;
const CGROUP = 2;
const COMMAND = 4;
const DECLARED = 8;
/** The rule has a condition for which the kernel vouches. Distinguishes only rules with a declared name. */
const VOUCHED = 16;
/** One user ID, or ranges of them, which are not part of the key. */
const UID = 32;
const RANGES = 64;
const NONE = -1;
/** Ranges with the same other conditions from which a tree is faster than comparing them. */
const MIN_TREE = 16;

const FNV_PRIME = 0x01000193;
const mixed = (hash: number, value: number) => Math.imul(hash ^ (hash >>> 15) ^ value, 0x85ebca6b);

function hashOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), FNV_PRIME);
  return hash;
}

/** `*` matches every client, except as a declared name, which some clients lack. */
function shapeOf(match: Match): number {
  const { uid, gid, cgroup, command, declared } = match;
  return (
    (uid === undefined ? 0 : typeof uid === 'number' ? UID : RANGES) |
    (gid === undefined ? 0 : GID) |
    (cgroup === undefined || cgroup === '*' ? 0 : CGROUP) |
    (command === undefined || command === '*' ? 0 : COMMAND) |
    (declared === undefined ? 0 : DECLARED) |
    (declared !== undefined && (uid ?? gid ?? cgroup) !== undefined ? VOUCHED : 0)
  );
}

/** The rules in a hash table by their conditions. Those with equal conditions share the slot of the first. */
class Table {
  private readonly matches: readonly Match[];
  private readonly cgroups: Int32Array;
  private readonly commands: Int32Array;
  private readonly names: Int32Array;
  private readonly slots: Int32Array;
  private readonly slotHashes: Int32Array;
  /** By rule. */
  readonly shapes: Uint8Array;
  /** By rule: the first rule with the same shape and conditions. */
  readonly heads: Int32Array;

  constructor(rules: readonly Rule[]) {
    const count = rules.length;
    this.matches = rules.map(({ match }) => match);
    this.shapes = new Uint8Array(count);
    this.heads = new Int32Array(count);
    this.cgroups = new Int32Array(count);
    this.commands = new Int32Array(count);
    this.names = new Int32Array(count);
    // Never more than half full.
    const size = 2 ** Math.ceil(Math.log2(2 * count + 1));
    this.slots = new Int32Array(size).fill(NONE);
    this.slotHashes = new Int32Array(size);
    for (let rule = 0; rule < count; rule++) this.add(rule);
  }

  private add(rule: number): void {
    const match = this.matches[rule];
    const { cgroup, command, declared } = match;
    const shape = shapeOf(match);
    this.shapes[rule] = shape;
    if (cgroup !== undefined) this.cgroups[rule] = hashOf(cgroup);
    if (command !== undefined) this.commands[rule] = hashOf(command);
    if (declared !== undefined) this.names[rule] = hashOf(declared);
    const hash = this.hashOf(rule, shape);
    const slot = this.slotOf(rule, shape, hash);
    if (this.slots[slot] === NONE) {
      this.slots[slot] = rule;
      this.slotHashes[slot] = hash;
    }
    this.heads[rule] = this.slots[slot];
  }

  private hashOf(rule: number, shape: number): number {
    const { uid, gid } = this.matches[rule];
    let hash = mixed(0, shape);
    if ((shape & UID) !== 0) hash = mixed(hash, uid as number);
    if ((shape & GID) !== 0) hash = mixed(hash, gid as number);
    if ((shape & CGROUP) !== 0) hash = mixed(hash, this.cgroups[rule]);
    if ((shape & COMMAND) !== 0) hash = mixed(hash, this.commands[rule]);
    if ((shape & DECLARED) !== 0) hash = mixed(hash, this.names[rule]);
    return hash ^ (hash >>> 13);
  }

  private isEqual(first: number, second: number, shape: number): boolean {
    const [a, b] = [this.matches[first], this.matches[second]];
    return (
      ((shape & UID) === 0 || a.uid === b.uid) &&
      ((shape & GID) === 0 || a.gid === b.gid) &&
      ((shape & CGROUP) === 0 || a.cgroup === b.cgroup) &&
      ((shape & COMMAND) === 0 || a.command === b.command) &&
      ((shape & DECLARED) === 0 || a.declared === b.declared)
    );
  }

  /** The slot of the rules of this shape with the conditions of this rule, or the slot for them. */
  private slotOf(rule: number, shape: number, hash: number): number {
    const { slots, slotHashes, shapes } = this;
    const last = slots.length - 1;
    for (let slot = hash & last; ; slot = (slot + 1) & last) {
      const there = slots[slot];
      if (there === NONE) return slot;
      if (slotHashes[slot] !== hash || shapes[there] !== shape) continue;
      if (this.isEqual(there, rule, shape)) return slot;
    }
  }

  /** The first rule of this shape that has these conditions in common with this rule; NONE if there is none. */
  find(rule: number, shape: number): number {
    return this.slots[this.slotOf(rule, shape, this.hashOf(rule, shape))];
  }
}

/** Ranges of user IDs of rules with the same other conditions. */
class Ranges {
  private readonly begins: number[] = [];
  private readonly rules: number[] = [];
  private readonly lasts: number[] = [];
  private tree: RangeTree | null = null;

  /** Announces a range that will be added. */
  announce(first: number): void {
    this.begins.push(first);
  }

  /** A rule with a range that contains this one; NONE if there is none. */
  find(first: number, last: number): number {
    if (this.tree !== null) return this.tree.find(first, last);
    for (let i = 0; i < this.rules.length; i++) {
      if (this.begins[i] <= first && this.lasts[i] >= last) return this.rules[i];
    }
    return NONE;
  }

  /** Ranges are added in the order in which they were announced. */
  add(first: number, last: number, rule: number): void {
    if (this.begins.length >= MIN_TREE) {
      this.tree ??= new RangeTree(this.begins);
      this.tree.add(first, last, rule);
      return;
    }
    this.lasts.push(last);
    this.rules.push(rule);
  }
}

class Reachability {
  private readonly table: Table;
  private readonly rules: readonly Rule[];
  /** By the first rule with the same other conditions. */
  private readonly ranges = new Map<number, Ranges>();
  /** The shapes of rules. */
  private readonly shapes: readonly number[];

  constructor(rules: readonly Rule[]) {
    this.rules = rules;
    this.table = new Table(rules);
    this.shapes = [...new Set(this.table.shapes)];
    for (let rule = 0; rule < rules.length; rule++) {
      const { uid } = rules[rule].match;
      if (typeof uid !== 'object') continue;
      const head = this.table.heads[rule];
      let ranges = this.ranges.get(head);
      if (ranges === undefined) {
        ranges = new Ranges();
        this.ranges.set(head, ranges);
      }
      for (const { first } of uid) ranges.announce(first);
    }
  }

  /** An earlier rule that matches all clients of this one; NONE if there is none. */
  ruleBefore(rule: number): number {
    const own = this.table.shapes[rule];
    for (let i = 0; i < this.shapes.length; i++) {
      const shape = this.shapes[i];
      const conditions = shape & ~(VOUCHED | RANGES);
      if ((own & conditions) !== conditions) continue;
      // On its own, a declared name counts for trusted clients only.
      if ((shape & DECLARED) !== 0 && (shape & VOUCHED) === 0 && (own & VOUCHED) !== 0) continue;
      const head = shape === own ? this.table.heads[rule] : this.table.find(rule, shape);
      const by = (shape & RANGES) === 0 ? head : this.rangeAround(rule, head);
      if (by !== NONE && by < rule) return by;
    }
    return NONE;
  }

  private rangeAround(rule: number, head: number): number {
    const { uid } = this.rules[rule].match;
    const ranges = this.ranges.get(head);
    if (uid === undefined || ranges === undefined) return NONE;
    // A list is found only within one range.
    return typeof uid === 'number'
      ? ranges.find(uid, uid)
      : ranges.find(uid[0].first, uid[uid.length - 1].last);
  }

  /** Later rules are compared with the ranges of this one. */
  addRanges(rule: number): void {
    const { uid } = this.rules[rule].match;
    if (typeof uid !== 'object') return;
    const ranges = this.ranges.get(this.table.heads[rule]);
    for (const { first, last } of uid) ranges?.add(first, last, rule);
  }
}

/**
 * Rules that can never decide anything, each with an earlier rule that matches all its clients; both counted
 * from 0. Of rules with lists of ranges, not all are found.
 */
export function unreachable(rules: readonly Rule[]): { rule: number; by: number }[] {
  const found: { rule: number; by: number }[] = [];
  const reachability = new Reachability(rules);
  for (let rule = 0; rule < rules.length; rule++) {
    const by = reachability.ruleBefore(rule);
    if (by !== NONE) found.push({ rule, by });
    reachability.addRanges(rule);
  }
  return found;
}
