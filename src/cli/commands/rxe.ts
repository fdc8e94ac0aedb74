/** `isoverbs rxe`: runs a command in a disposable virtual machine that has a soft-RoCE device. */
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { describe } from '../manual.ts';
import { runForwarded } from './run.ts';

const SCRIPT = fileURLToPath(new URL('../../../scripts/rxe-run', import.meta.url));

/** The options as the script takes them. */
interface RxeFlags {
  cpus?: string;
  mem?: string;
  timeout?: string;
  out?: string;
  two?: true;
  verbose?: true;
  install?: true;
}

/** Adds `rxe` to the command. */
export function addRxe(command: Command): void {
  const sub = command
    .command('rxe')
    .description('run a command in a disposable virtual machine that has a real soft-RoCE device')
    .argument('[command...]', 'the command and its arguments')
    .option('--cpus <n>', 'CPUs of the machine (default: those of the host, at most 4)')
    .option('--mem <mib>', 'memory of the machine in MiB (default: 4096)')
    .option('--timeout <seconds>', 'end the command after this time, with status 124 (default: 600)')
    .option('--two', 'two devices, rxe0 and rxe1, on the two ends of a virtual cable')
    .option('--out <folder>', 'a folder that the command can write; all its other writes are lost')
    .option('--verbose', "print times, and the machine's kernel log, on stderr")
    .option('--install', 'install the Debian packages that are missing first; requires root')
    .passThroughOptions()
    .action(async (words: string[], flags: RxeFlags) => {
      const options = Object.entries(flags).flatMap(([name, value]) =>
        value === true ? [`--${name}`] : [`--${name}`, String(value)],
      );
      const line = words.length === 0 ? options : [...options, '--', ...words];
      process.exitCode = await runForwarded('/bin/bash', [SCRIPT, ...line], process.env);
    });
  describe(sub, {
    about:
      'For hosts whose kernel has no soft-RoCE. The command sees the files of this host, read-only, and the device ' +
      'rxe0. It requires QEMU on Debian or Ubuntu, and reports which packages are missing. The first run fetches a ' +
      'kernel of about 70 MB.',
    examples: [
      ['isoverbs rxe -- npx isoverbs devices', 'list the devices of the machine'],
      ['isoverbs rxe --two --out out -- node app.js', 'a program with two devices that writes into out'],
    ],
    failed:
      'the command exited with 1. In the same way, rxe exits with any other status of the command, with 124 after the ' +
      'time limit, or with 125 if the machine could not run the command',
    seeAlso: ['docs/testing.md', 'isoverbs devices'],
  });
}
