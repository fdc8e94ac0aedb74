/** Every error that isoverbs throws: one table, one page (docs/errors.md), and a test that compares the two. */

export interface ErrorKind {
  /** The meaning, as a noun phrase for the docs. */
  readonly meaning: string;
  /** Advice for the user. */
  readonly advice: string;
}

/** Every error code with its meaning and the advice that docs/errors.md shows. */
export const ERRORS = {
  ISO_ERR_NO_DEVICE: {
    meaning: 'No such device, or no RDMA library or kernel support for real ones.',
    advice: 'Run `isoverbs devices`: it lists the devices and says what to install.',
  },
  ISO_ERR_HANDLE: {
    meaning: 'A handle that is closed, of another type, or of another device.',
    advice: 'Use the object only between its creation and its close(), and with objects of its own context.',
  },
  ISO_ERR_ARGUMENT: {
    meaning: 'An argument of the wrong type or out of range.',
    advice: 'The message names the argument and what was expected.',
  },
  ISO_ERR_STATE: {
    meaning: 'The object is in a state that does not allow this.',
    advice: 'The message names the state and, for modifyQp, the missing and the disallowed attributes.',
  },
  ISO_ERR_BUSY: {
    meaning: 'The object still has children (EBUSY).',
    advice:
      'Close the objects that the message names first, or close the context, which closes all objects in order.',
  },
  ISO_ERR_NO_RESOURCES: {
    meaning: 'The device or the system has too little of a resource (ENOMEM, EINVAL at creation).',
    advice: 'Request less (queryDevice returns the limits), or raise the limit that the message names.',
  },
  ISO_ERR_UNSUPPORTED: {
    meaning: 'This device, provider or build does not support it.',
    advice: 'The message says what is missing. `isoverbs devices` shows which devices have WAIT.',
  },
  ISO_ERR_QUEUE_FULL: {
    meaning:
      'A send or receive queue had no room for the request at `index` (ENOMEM); earlier ones were posted.',
    advice: 'Poll completions and post the rest again from `index`.',
  },
  ISO_ERR_INVALID_WR: {
    meaning: 'The work request at `index` was rejected (EINVAL); earlier ones were posted.',
    advice: 'The message says why. Nothing from `index` on was posted.',
  },
  ISO_ERR_MEMORY: {
    meaning: 'The memory cannot be registered or shared, or was detached or resized afterwards.',
    advice:
      'Use memory from pd.allocate(), or a SharedArrayBuffer; never a pooled Buffer or a resizable one.',
  },
  ISO_ERR_HANDSHAKE: {
    meaning: 'The peer of a connection sent something other than the handshake of isoverbs.',
    advice: 'Check that both ends run the same version of isoverbs.',
  },
  ISO_ERR_CONNECTION: {
    meaning: 'A connection could not be made, or its peer has gone.',
    advice: 'Check the address. If the peer vanished, the queue pair was moved to ERR and flushed.',
  },
  ISO_ERR_NO_DAEMON: {
    meaning: 'A tool such as `isoverbs top` gets no answer at the socket of the daemon.',
    advice: 'Start `isoverbs daemon`, or name its socket with --socket or ISOVERBS_DAEMON.',
  },
  ISO_ERR_COMPLETION: {
    meaning: 'A work request completed with an error status.',
    advice:
      '`status` is the ibv_wc_status. For common statuses, the message states the usual cause. The queue pair is in ERR and needs a new connection.',
  },
  ISO_ERR_CONFIG: {
    meaning: 'A configuration file, environment variable or option is wrong.',
    advice: 'The message names the key and the values that it accepts.',
  },
  ISO_ERR_FILE: {
    meaning:
      'A file cannot be written or read: it is missing, truncated, or of another format or version, or the disk is full.',
    advice:
      'The message names the file and the problem. Record traces and recordings of another version again with this version.',
  },
  ISO_ERR_REPLAY: {
    meaning: 'A replayed program made a call that its recording does not have at this point.',
    advice:
      'The message shows both calls. A program can be replayed if its calls depend only on the results of verbs.',
  },
  ISO_ERR_POLICY: {
    meaning:
      'A policy threw an exception, or returned or asked for something that its interface does not allow.',
    advice:
      'For a policy in a module, the message names the policy and its function, and `cause` is the exception that the function threw. Correct the policy (docs/policies.md), and restart the program.',
  },
  ISO_ERR_DRIVER: {
    meaning: 'The worker thread that runs the policy has ended (`driver: worker`).',
    advice:
      'Queue pairs that it had shaped are in ERR. Close the context and open the device again; the message says why.',
  },
  ISO_ERR_PROCESS: {
    meaning: 'A process that a command started has failed, has ended without a result, or does not answer.',
    advice:
      'The message names the process and what it printed last. The other processes of the run have been ended.',
  },
  ISO_ERR_LEDGER: {
    meaning:
      'With `ISOVERBS_ASSERT=1`: the ledger of a shim contradicts itself, which is a defect of isoverbs.',
    advice: 'Please report it. The message names the queue pair, the call and the rule that was broken.',
  },
  ISO_ERR_PROBLEM: {
    meaning: 'An allocation problem for the solver of DRUM is invalid, has no solution, or cannot be solved.',
    advice:
      'The message begins with the reason (invalid, infeasible, unbounded, not convex or diverged), and names what is wrong.',
  },
  ISO_ERR_SYSTEM: {
    meaning: 'A verb failed with an errno that no other code describes.',
    advice: '`verb` and `errno` identify the failure; the man page of the verb lists its causes.',
  },
} as const satisfies Record<string, ErrorKind>;

/** The possible values of an error's `code`. */
export type ErrorCode = keyof typeof ERRORS;

/** The fields of an error in addition to its message. */
export interface ErrorDetails {
  /** The verb that failed, as in the Verbs interface. */
  verb?: string;
  /** The positive errno of libibverbs. */
  errno?: number;
  /** Index, inside the batch, of the work request that was rejected. */
  index?: number;
  /** The number of work requests of the batch that were posted before it. */
  posted?: number;
  /** ibv_wc_status of a failed completion. */
  status?: number;
  cause?: unknown;
}

/** The base of all errors of this package. Match `code`, which is stable; the message is for people. */
export class IsoverbsError extends Error {
  readonly code: ErrorCode;
  declare readonly verb?: string;
  declare readonly errno?: number;
  declare readonly index?: number;
  declare readonly posted?: number;
  declare readonly status?: number;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    for (const key of ['verb', 'errno', 'index', 'posted', 'status'] as const) {
      if (details[key] !== undefined) Object.assign(this, { [key]: details[key] });
    }
  }
}

/** A value as text for a message; never throws, whatever the value is. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? 'an array' : 'an object';
}

function errorClass(code: ErrorCode) {
  return class extends IsoverbsError {
    constructor(message: string, details?: ErrorDetails) {
      super(code, message, details);
    }
  };
}

/** ISO_ERR_NO_DEVICE: No such device, or no RDMA library or kernel support for real ones. */
export class NoDeviceError extends errorClass('ISO_ERR_NO_DEVICE') {}
/** ISO_ERR_HANDLE: A handle that is closed, of another type, or of another device. */
export class InvalidHandleError extends errorClass('ISO_ERR_HANDLE') {}
/** ISO_ERR_ARGUMENT: An argument of the wrong type or out of range. */
export class InvalidArgumentError extends errorClass('ISO_ERR_ARGUMENT') {}
/** ISO_ERR_STATE: The object is in a state that does not allow this. */
export class InvalidStateError extends errorClass('ISO_ERR_STATE') {}
/** ISO_ERR_BUSY: The object still has children (EBUSY). */
export class BusyError extends errorClass('ISO_ERR_BUSY') {}
/** ISO_ERR_NO_RESOURCES: The device or the system has too little of a resource (ENOMEM, EINVAL at creation). */
export class NoResourcesError extends errorClass('ISO_ERR_NO_RESOURCES') {}
/** ISO_ERR_UNSUPPORTED: This device, provider or build does not support it. */
export class UnsupportedError extends errorClass('ISO_ERR_UNSUPPORTED') {}
/** ISO_ERR_QUEUE_FULL: A send or receive queue had no room for the request at `index` (ENOMEM); earlier ones were posted. */
export class QueueFullError extends errorClass('ISO_ERR_QUEUE_FULL') {}
/** ISO_ERR_INVALID_WR: The work request at `index` was rejected (EINVAL); earlier ones were posted. */
export class InvalidWorkRequestError extends errorClass('ISO_ERR_INVALID_WR') {}
/** ISO_ERR_MEMORY: The memory cannot be registered or shared, or was detached or resized afterwards. */
export class MemoryError extends errorClass('ISO_ERR_MEMORY') {}
/** ISO_ERR_HANDSHAKE: The peer of a connection sent something other than the handshake of isoverbs. */
export class HandshakeError extends errorClass('ISO_ERR_HANDSHAKE') {}
/** ISO_ERR_CONNECTION: A connection could not be made, or its peer has gone. */
export class ConnectionError extends errorClass('ISO_ERR_CONNECTION') {}
/** ISO_ERR_NO_DAEMON: A tool such as `isoverbs top` gets no answer at the socket of the daemon. */
export class NoDaemonError extends errorClass('ISO_ERR_NO_DAEMON') {}
/** ISO_ERR_COMPLETION: A work request completed with an error status. */
export class CompletionError extends errorClass('ISO_ERR_COMPLETION') {}
/** ISO_ERR_CONFIG: A configuration file, environment variable or option is wrong. */
export class ConfigError extends errorClass('ISO_ERR_CONFIG') {}
/** ISO_ERR_FILE: A file cannot be written or read: it is missing, truncated, or of another format or version, or the disk is full. */
export class FileError extends errorClass('ISO_ERR_FILE') {}
/** ISO_ERR_REPLAY: A replayed program made a call that its recording does not have at this point. */
export class ReplayError extends errorClass('ISO_ERR_REPLAY') {}
/** ISO_ERR_POLICY: A policy threw an exception, or returned or asked for something that its interface does not allow. */
export class PolicyError extends errorClass('ISO_ERR_POLICY') {}
/** ISO_ERR_DRIVER: The worker thread that runs the policy has ended (`driver: worker`). */
export class DriverError extends errorClass('ISO_ERR_DRIVER') {}
/** ISO_ERR_PROCESS: A process that a command started has failed, has ended without a result, or does not answer. */
export class ProcessError extends errorClass('ISO_ERR_PROCESS') {}
/** ISO_ERR_LEDGER: With `ISOVERBS_ASSERT=1`: the ledger of a shim contradicts itself, which is a defect of isoverbs. */
export class LedgerError extends errorClass('ISO_ERR_LEDGER') {}
/** ISO_ERR_PROBLEM: An allocation problem for the solver of DRUM is invalid, has no solution, or cannot be solved. */
export class ProblemError extends errorClass('ISO_ERR_PROBLEM') {}
/** ISO_ERR_SYSTEM: A verb failed with an errno that no other code describes. */
export class SystemError extends errorClass('ISO_ERR_SYSTEM') {}

const CLASSES: Record<ErrorCode, new (message: string, details?: ErrorDetails) => IsoverbsError> = {
  ISO_ERR_NO_DEVICE: NoDeviceError,
  ISO_ERR_HANDLE: InvalidHandleError,
  ISO_ERR_ARGUMENT: InvalidArgumentError,
  ISO_ERR_STATE: InvalidStateError,
  ISO_ERR_BUSY: BusyError,
  ISO_ERR_NO_RESOURCES: NoResourcesError,
  ISO_ERR_UNSUPPORTED: UnsupportedError,
  ISO_ERR_QUEUE_FULL: QueueFullError,
  ISO_ERR_INVALID_WR: InvalidWorkRequestError,
  ISO_ERR_MEMORY: MemoryError,
  ISO_ERR_HANDSHAKE: HandshakeError,
  ISO_ERR_CONNECTION: ConnectionError,
  ISO_ERR_NO_DAEMON: NoDaemonError,
  ISO_ERR_COMPLETION: CompletionError,
  ISO_ERR_CONFIG: ConfigError,
  ISO_ERR_FILE: FileError,
  ISO_ERR_REPLAY: ReplayError,
  ISO_ERR_POLICY: PolicyError,
  ISO_ERR_DRIVER: DriverError,
  ISO_ERR_PROCESS: ProcessError,
  ISO_ERR_LEDGER: LedgerError,
  ISO_ERR_PROBLEM: ProblemError,
  ISO_ERR_SYSTEM: SystemError,
};

/** Makes an error of the class that belongs to a code; the addon throws through this function alone. */
export function makeError(code: ErrorCode, message: string, details?: ErrorDetails): IsoverbsError {
  const Class = CLASSES[code] ?? SystemError;
  return new Class(message, details);
}

/**
 * Checks that the options of a policy or an interceptor are an object, and returns them.
 * @param name the policy or interceptor, for messages
 * @throws ConfigError
 */
export function requireOptions<T>(name: string, options: T): T {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options;
  throw new ConfigError(
    `${name}: the options must be an object such as { pieceBytes: 4096 }, got ${shown(options)}; without options, pass {}`,
  );
}

/**
 * Checks the keys of an options object, because a misspelt option would otherwise be ignored.
 * @throws InvalidArgumentError naming the known keys
 */
export function requireKnown(where: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidArgumentError(`${where}: { ${known.join(', ')} } expected, got ${shown(options)}`);
  }
  for (const key in options) {
    if (known.includes(key)) continue;
    throw new InvalidArgumentError(`${where}: no option '${key}'; there are: ${known.join(', ')}`);
  }
}
