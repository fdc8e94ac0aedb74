/**
 * What members declare to the daemon, and have not told it yet: weights of groups that programs have set, and how many
 * queue pairs have the rates that the daemon gives.
 */
import type { Connection } from './connection.ts';
import type { RemoteMember } from './remote-coordinator.ts';

/** Groups in a message to the daemon, so that the longest names fit. */
const GROUPS_PER_MESSAGE = 16;
/** The most messages at a time, because the daemon disconnects a client that sends too many. */
const MESSAGES_PER_TURN = 8;

/** The declarations of the members of a thread. */
export class DeclarationOutbox {
  /** Whether a member may have something to declare. */
  isPending = false;

  /** Sends a few messages. @param seated whether the daemon has confirmed a seat */
  send(
    members: Iterable<RemoteMember>,
    seated: (seatNumber: number) => boolean,
    connection: Pick<Connection, 'send'>,
  ): void {
    if (!this.isPending) return;
    let room = MESSAGES_PER_TURN;
    for (const member of members) {
      const { seatNumber: slot, unsentGroups, ownGroups } = member;
      if (!seated(slot)) continue;
      for (; unsentGroups.size > 0; room--) {
        if (room === 0) return;
        const names = [...unsentGroups].slice(0, GROUPS_PER_MESSAGE);
        const groups = Object.fromEntries(names.map((name) => [name, ownGroups.get(name) ?? null]));
        connection.send({ type: 'group', slot, groups });
        for (const name of names) unsentGroups.delete(name);
      }
      if (member.unsentRated === null) continue;
      if (room-- === 0) return;
      const { version, qps } = member.unsentRated;
      connection.send({ type: 'rated', slot, version, qps: [...qps] });
      member.unsentRated = null;
    }
    this.isPending = false;
  }
}
