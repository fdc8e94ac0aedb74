/** Creates folders for output files. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** Creates a folder and those around it. A recursive mkdir of Node.js never returns in /proc. @throws Error of the system */
export function makeFolders(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (isFolder(path)) return;
    const parent = dirname(path);
    // The folder is missing, although the one around it exists: it cannot be created.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || isFolder(parent)) throw error;
    makeFolders(parent);
    mkdirSync(path);
  }
}

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
