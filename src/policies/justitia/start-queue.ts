/**
 * Entities by the start of their next token. Entities of one weight are nearly always added in the order of their
 * starts, so each weight has a list, and only the first entities of the lists are compared: with few weights,
 * everything is O(1).
 */
import { fitColumn } from '../../shim/tables.ts';
import { TimerHeap } from '../../shim/timers/timer-heap.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

/**
 * The most weights with a list. The heap holds the entities of further weights, and those whose start is before that of
 * the last entity of their list.
 */
const MAX_LISTS = 32;

/** A queue ordered by start; entities with the same start are in the order of their last `put`. */
export class StartQueue {
  /** [0] The start for the next `put`. */
  readonly due = new Float64Array(1);
  /** [0] The start of the entity that `first` returned. */
  readonly firstStart = new Float64Array(1);
  private readonly lists = new RunQueue();
  private readonly heap = new TimerHeap();
  /** Entities in lists. */
  private listed = 0;
  private readonly listOf = new Map<number, number>();
  /** By list. */
  private readonly weights: number[] = [];
  // By entity: its start and its place among equal ones, and the list that it was in last.
  private keys: Float64Array = new Float64Array(32);
  private lastList: Int32Array = new Int32Array(16);
  private order = 0;

  get isEmpty(): boolean {
    return this.listed === 0 && this.heap.size === 0;
  }

  /** The entity with the earliest start; there must be one. */
  first(): number {
    const { lists, heap, keys, firstStart } = this;
    const count = this.weights.length;
    let best = heap.size > 0 ? heap.headToken : NONE;
    for (let list = 0; list < count; list++) {
      const entity = lists.first(list);
      if (entity !== NONE && (best === NONE || this.isBefore(entity, best))) best = entity;
    }
    firstStart[0] = keys[2 * best];
    return best;
  }

  private isBefore(entity: number, other: number): boolean {
    const { keys } = this;
    const start = keys[2 * entity];
    const than = keys[2 * other];
    return start < than || (start === than && keys[2 * entity + 1] < keys[2 * other + 1]);
  }

  /** Adds an entity with the start in `due`, or moves it there. */
  put(entity: number, weight: number): void {
    if (this.lists.has(entity) && this.moveToEnd(entity, weight)) return;
    this.remove(entity);
    this.keys = fitColumn(this.keys, 2 * entity + 1);
    this.lastList = fitColumn(this.lastList, entity);
    const { lists, heap, keys, due } = this;
    const list = this.findList(entity, weight);
    const last = list === NONE ? NONE : lists.last(list);
    const isLate = last === NONE || due[0] >= keys[2 * last];
    this.setKey(entity);
    if (list !== NONE && isLate) {
      lists.push(entity, list);
      this.listed++;
    } else {
      heap.due[0] = keys[2 * entity];
      heap.due[1] = keys[2 * entity + 1];
      heap.put(entity);
    }
  }

  /** Moves an entity to the end of its list. Returns false if it does not belong there. */
  private moveToEnd(entity: number, weight: number): boolean {
    const { lists } = this;
    const list = this.lastList[entity];
    if (this.weights[list] !== weight || this.due[0] < this.keys[2 * lists.last(list)]) return false;
    this.setKey(entity);
    lists.moveToEnd(entity);
    return true;
  }

  private setKey(entity: number): void {
    const { keys } = this;
    keys[2 * entity] = this.due[0];
    keys[2 * entity + 1] = this.order++;
  }

  /** Removes an entity, if it is here. */
  remove(entity: number): void {
    const { lists } = this;
    if (lists.has(entity)) {
      lists.remove(entity);
      this.listed--;
    } else this.heap.remove(entity);
  }

  /** The list of a weight; NONE: there is none, and no room for another list. */
  private findList(entity: number, weight: number): number {
    let list = this.listOf.get(weight) ?? NONE;
    if (list === NONE && this.weights.length < MAX_LISTS) {
      list = this.weights.push(weight) - 1;
      this.listOf.set(weight, list);
    }
    if (list !== NONE) this.lastList[entity] = list;
    return list;
  }
}
