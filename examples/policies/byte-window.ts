// A policy in TypeScript: each queue pair has at most `windowBytes` on the way.
import { type Actions, createShim, type Policy, policyOptions, type QpView } from 'isoverbs/policies';
import { z } from 'zod';

const OPTIONS = {
  windowBytes: z.number().int().positive().default(65_536),
  pieceBytes: z.number().int().positive().default(16_384),
};

export class ByteWindow implements Policy {
  readonly name = 'byte-window';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 16;
  private readonly options: { windowBytes: number; pieceBytes: number };

  constructor(options: unknown) {
    this.options = policyOptions(this.name, OPTIONS, options);
  }

  /** All requests are held; `feed` issues them at once while the window has room. */
  onload(): number {
    return 0;
  }

  feed(qp: QpView, out: Actions): void {
    const { windowBytes, pieceBytes } = this.options;
    while (out.backlog(qp) > 0 && out.room(qp) > 0 && out.inflightBytes(qp) < windowBytes) {
      if (out.nextBytes(qp) > pieceBytes && out.splittable(qp)) out.piece(qp, pieceBytes);
      else out.pass(qp);
    }
  }
}

export default (options: unknown) => new ByteWindow(options);

/** An interceptor for the option `policy` of openDevice(). */
export const byteWindow = (options: unknown = {}) => createShim(() => new ByteWindow(options));
