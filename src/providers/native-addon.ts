/** Finds and loads the native addons, and explains what to do if that fails. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function packageRoot(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  let folder = here;
  while (!existsSync(join(folder, 'binding.gyp'))) {
    const parent = dirname(folder);
    if (parent === folder) return here;
    folder = parent;
  }
  return folder;
}

/**
 * Advice that works in a clone, as a dependency, and where install scripts are blocked; `npm rebuild` does
 * not.
 */
export function buildAdvice(): string {
  const script = join(packageRoot(), 'scripts/install.mjs');
  return `build the addon: \`node ${script}\` (requires a C++ compiler, make and python3)`;
}

/** Whether the environment forbids loading an addon. */
export function isAddonForbidden(): boolean {
  return process.env.ISOVERBS_NO_ADDON === '1';
}

/** Shortened, because `bindings` lists every path it tried, in a dozen lines that add no information. */
export function whyNotLoaded(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'tries' in error ? 'it has not been built' : error.message;
}

/** ES2024; absent in Node.js 20. */
const transfer = (ArrayBuffer.prototype as { transfer?: (newByteLength: number) => ArrayBuffer }).transfer;

/**
 * Detaches a buffer, preferably with the language's own method, which refuses with an exception where the
 * addon's would abort.
 */
export function detach(native: { detachBuffer(buffer: ArrayBuffer): void }, buffer: ArrayBuffer): void {
  if (transfer === undefined) native.detachBuffer(buffer);
  else transfer.call(buffer, 0);
}

export interface LoadedAddon<T> {
  native: T | null;
  /** Why there is no addon. */
  error: unknown;
  /** Where the addon comes from: it was built on this machine, or came with the package; absent: there is none. */
  source?: AddonSource;
}

export type AddonSource = 'built here' | 'prebuilt';

/** What the report of a process says about the C library. */
interface ProcessReport {
  readonly header?: { readonly glibcVersionRuntime?: string };
}

/**
 * The folder of the addons of the package for this platform (scripts/prebuild.mjs): those for glibc, or those for musl if
 * the report of the process names no version of glibc. scripts/install.mjs looks there, too.
 */
export function prebuildsFolder(
  { platform, arch }: Pick<NodeJS.Process, 'platform' | 'arch'> = process,
  report: ProcessReport = ownReport(),
): string {
  const isMusl = platform === 'linux' && report.header?.glibcVersionRuntime === undefined;
  return `prebuilds/${platform}-${arch}${isMusl ? '-musl' : ''}`;
}

/** The report of this process, without its sockets, whose names would be looked up. */
function ownReport(): ProcessReport {
  if (process.platform !== 'linux') return {};
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork?: boolean };
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  try {
    return report.getReport() as ProcessReport;
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}

let ownFolder: string | undefined;

/** The folder of a prebuilt addon; undefined if there is none, or if the addon was built on this machine. */
function prebuiltIn(name: string): string | undefined {
  const root = packageRoot();
  if (existsSync(join(root, 'build/Release', `${name}.node`)) || !existsSync(join(root, 'prebuilds'))) return;
  // A report takes milliseconds.
  ownFolder ??= prebuildsFolder();
  const folder = ownFolder;
  return existsSync(join(root, folder, `${name}.node`)) ? folder : undefined;
}

/** Returns a function that loads an addon on its first call. A failure is cached like a success. */
export function addonLoader<T extends { interfaceVersion: number }>(
  name: string,
  interfaceVersion: number,
  init: (native: T) => void,
): () => LoadedAddon<T> {
  let loaded: LoadedAddon<T> | null = null;
  const load = (): Pick<LoadedAddon<T>, 'native' | 'source'> => {
    const folder = prebuiltIn(name);
    const bindings: typeof import('bindings') = createRequire(import.meta.url)('bindings');
    const tried = folder === undefined ? {} : { try: [['module_root', folder, 'bindings']] };
    const native: T = bindings({ bindings: name, module_root: packageRoot(), ...tried });
    if (native.interfaceVersion !== interfaceVersion) {
      throw new Error('it was built from another version of isoverbs');
    }
    init(native);
    return { native, source: folder === undefined ? 'built here' : 'prebuilt' };
  };
  return () => {
    if (isAddonForbidden()) return { native: null, error: new Error('ISOVERBS_NO_ADDON=1 is set') };
    if (loaded === null) {
      try {
        loaded = { ...load(), error: null };
      } catch (error) {
        loaded = { native: null, error };
      }
    }
    return loaded;
  };
}
