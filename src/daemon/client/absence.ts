/** Why a program has no connection to the daemon, what it reports about that, and what follows for its contexts. */
import { HandshakeError } from '../../verbs/errors.ts';
import { RefusedError } from '../rules.ts';
import type { RemoteMember } from './remote-coordinator.ts';

/** The absence of the daemon at a socket. */
export class Absence {
  private readonly socket: string;
  /** Why the daemon refuses this program; '' if it does not. */
  private denial = '';
  /** The reported reason; '' while the daemon is connected. */
  private reported = '';
  /** Whether there has ever been a connection that ended. */
  private wasLost = false;

  constructor(socket: string) {
    this.socket = socket;
  }

  /** The daemon is connected. @returns what to report, and whether the absence was reported */
  end(): { what: string; wasReported: boolean } {
    const wasReported = this.reported !== '';
    this.denial = '';
    this.reported = '';
    return {
      what: `${this.wasLost ? 'reconnected' : 'connected'} to the daemon at ${this.socket}`,
      wasReported,
    };
  }

  /**
   * The connection has ended, or an attempt has failed.
   * @returns what to report; null if that is known, because the exact error differs from attempt to attempt
   */
  begin(reason: Error, wasConnected: boolean, members: Iterable<RemoteMember>): string | null {
    const before = this.denial;
    this.denial = reason instanceof RefusedError ? reason.message : '';
    for (const member of members) {
      if (member.refusal === before) member.refusal = '';
      this.apply(member);
    }
    this.wasLost ||= wasConnected;
    const what = reason instanceof HandshakeError ? reason.message : 'absent';
    if (what === this.reported) return null;
    this.reported = what;
    const alone =
      this.denial === ''
        ? 'continuing without it'
        : 'contexts without grants get no queue pairs until the daemon accepts the program';
    const state = wasConnected ? 'its last grants stay in force' : alone;
    return `no connection to the daemon at ${this.socket} (${reason.message}): ${state}`;
  }

  /** A program that is refused could otherwise do without limits. What has been granted to its contexts stays in force. */
  apply(member: RemoteMember): void {
    if (member.assignedTenant === undefined && this.denial !== '') member.refusal = this.denial;
  }
}
