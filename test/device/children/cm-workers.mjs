// @ts-nocheck: runs against dist, which a type check must not need.
// Identifiers are valid in every thread; those that a worker created are closed however the worker ends.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { called, cm, ears, listener } from './cm-rig.mjs';
import { check, pause } from './rig.mjs';

const FILE = new URL(import.meta.url);

/** Listens, connects to itself, and leaves everything open. */
async function openAll() {
  const at = ears();
  const passive = cm.createEventChannel();
  const { id, port } = listener(passive);
  const requests = [];
  cm.watchEventChannel(passive, (event) => requests.push(event));
  const client = await called(at, port);
  while (requests.length === 0) await pause(10);
  return { id, port, client, request: requests[0].id, channel: at.channel };
}

function codeOf(call) {
  try {
    call();
    return 'none';
  } catch (error) {
    return error.code;
  }
}

async function main() {
  for (const job of ['end', 'run', 'run']) {
    const worker = new Worker(FILE, { workerData: job });
    const theirs = await new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    if (job === 'run') {
      check(cm.queryId(theirs.id).local.port === theirs.port, 'the same identifier in both threads');
      check(
        codeOf(() => cm.watchEventChannel(theirs.channel, () => {})) === 'ISO_ERR_STATE',
        'their channel',
      );
      await worker.terminate();
    } else {
      await new Promise((resolve) => worker.once('exit', resolve));
    }
    for (const id of [theirs.id, theirs.client, theirs.request]) {
      check(codeOf(() => cm.queryId(id)) === 'ISO_ERR_HANDLE', 'closed with its worker');
    }
    const channel = cm.createEventChannel();
    cm.destroyId(listener(channel, theirs.port).id);
    cm.destroyEventChannel(channel);
  }
  console.log('pass');
}

if (isMainThread) {
  await main();
} else {
  const all = await openAll();
  parentPort.postMessage(all);
  if (workerData === 'end') cm.refEventChannel(all.channel, false);
  else setInterval(() => {}, 1000);
}
