/** Keeps the groups that contexts create, and notifies the device below of their weights if it supports that. */
import {
  GroupTable,
  groupInUse,
  requireGroup,
  requireGroupName,
  requireGroupRoom,
  requireGroups,
  requireGroupWeight,
} from '../verbs/groups.ts';
import { handleIndex } from '../verbs/handles.ts';
import type { Verbs } from '../verbs/verbs.ts';

/** The device, and the labels of its objects. */
export interface GroupHost {
  /** @throws InvalidHandleError that names the verb */
  requireContext(context: number, verb: string): void;
  /** Whether the label of the context itself names the group. */
  isContextIn(context: number, name: string): boolean;
  /** Number of queue pairs of the context whose own label names the group. */
  countQps(context: number, name: string): number;
  /** The weight of a group of the context's tenant has changed. */
  onGroup?(context: number, name: string, weight: number): void;
}

/** The groups of the contexts of one provider. */
export class Groups {
  private readonly host: GroupHost;
  private readonly table: GroupTable;
  /** By index. A context that another thread has closed is forgotten when a new one takes its place. */
  private readonly contexts: number[] = [];

  constructor(host: GroupHost) {
    this.host = host;
    this.table = new GroupTable((context, name, weight) => host.onGroup?.(context, name, weight));
  }

  verbs(): Pick<Verbs, 'createGroup' | 'setGroup' | 'destroyGroup'> {
    const { table, host } = this;
    return {
      createGroup(context, name, weight) {
        host.requireContext(context, 'createGroup');
        requireGroupName('createGroup', name);
        requireGroupWeight('createGroup', weight);
        const names = table.namesOf(context);
        if (!names.has(name)) requireGroupRoom('createGroup', names.size + 1);
        table.set(context, name, weight);
      },
      setGroup(context, name, weight) {
        host.requireContext(context, 'setGroup');
        requireGroupName('setGroup', name);
        requireGroup('setGroup', table.namesOf(context).has(name), name);
        requireGroupWeight('setGroup', weight);
        table.set(context, name, weight);
      },
      destroyGroup(context, name) {
        host.requireContext(context, 'destroyGroup');
        requireGroupName('destroyGroup', name);
        requireGroup('destroyGroup', table.namesOf(context).has(name), name);
        if (host.isContextIn(context, name)) {
          throw groupInUse(name, 'the context is', "name another group with setLabels, or '' for none");
        }
        const members = host.countQps(context, name);
        if (members > 0) {
          const user =
            members === 1 ? '1 queue pair of this context is' : `${members} queue pairs of this context are`;
          throw groupInUse(name, user, 'destroy them, or name another group with modifyQp (ISO_QP_GROUP)');
        }
        table.remove(context, name);
      },
    };
  }

  /** Opens a context with groups that its options name. @param open opens it, without them */
  open(given: unknown, device: string, tenant: string, open: () => number): number {
    const groups = given === undefined ? [] : requireGroups('openDevice', given);
    const context = open();
    this.table.close(this.contexts[handleIndex(context)]);
    this.contexts[handleIndex(context)] = context;
    this.table.open(context, device, tenant);
    for (const [name, weight] of groups) this.table.set(context, name, weight);
    return context;
  }

  /**
   * Closes a context. The device is notified that its groups end while it still knows the context.
   * @param close closes it, or throws
   */
  close(context: number, close: () => void): void {
    const { table } = this;
    const had = [...table.namesOf(context)].map((name) => [name, table.weightOf(context, name)] as const);
    for (const [name] of had) table.remove(context, name);
    try {
      close();
    } catch (error) {
      for (const [name, weight] of had) table.set(context, name, weight);
      throw error;
    }
    table.close(context);
  }
}
