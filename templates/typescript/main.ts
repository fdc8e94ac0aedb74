// Runs the store and a client in one process, on the first real device or on a simulated one. On two hosts with real
// devices: `npm start -- serve` on one of them, and `npm start -- HOST` on the other. Without real devices, set
// ISOVERBS_PROVIDER=soft for both.
import { openDevice } from 'isoverbs';
import { Client, serve } from './store.js';

const PORT = 7471;
const [where = ''] = process.argv.slice(2);

const context = openDevice();
if (where === 'serve' && context.provider.name === 'sim') {
  console.error('programs in two processes require ISOVERBS_PROVIDER=soft, or an RDMA NIC');
  process.exit(1);
}
const listener = where === '' || where === 'serve' ? await serve(context, PORT) : null;
if (where === 'serve') {
  console.log(`${context.name} serves on port ${PORT}; Ctrl-C ends it`);
} else {
  const client = await Client.open(context, { port: PORT, ...(where !== '' && { host: where }) });
  await client.put(7, 'hello');
  console.log(`${context.name} holds: ${await client.get(7)}`);
  client.close();
  listener?.close();
  context.close();
}
