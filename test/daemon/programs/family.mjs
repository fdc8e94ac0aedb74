// @ts-nocheck
// Processes and threads of one program: `fork` and `cluster` start another process, `exec` becomes a shell
// that starts one, and `workers` has three threads, of which it terminates one when standard input says
// `terminate`. Each does what tenant.mjs does.
import { fork, spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';

const tenant = new URL('tenant.mjs', import.meta.url);
const how = process.argv[2];
const stdio = ['pipe', 'inherit', 'inherit', 'ipc'];

if (how === 'fork') {
  fork(tenant.pathname, [], { stdio });
  await import(tenant.href);
} else if (how === 'cluster') {
  cluster.setupPrimary({ exec: tenant.pathname, args: [], stdio });
  cluster.fork();
  cluster.fork();
} else if (how === 'exec') {
  spawn('sh', ['-c', `exec "$0" "$1"`, process.execPath, tenant.pathname], {
    stdio: ['pipe', 'inherit', 'inherit'],
  });
} else {
  const workers = [0, 1, 2].map(() => new Worker(tenant, { stdin: true }));
  createInterface({ input: process.stdin }).on('line', async (line) => {
    if (line === 'terminate') await workers.pop().terminate();
    if (line === 'leave') process.exit(0);
  });
}
