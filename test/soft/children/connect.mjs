// @ts-nocheck
// Connects over isoverbs/rdma-cm, and disconnects: node connect.mjs HOST PORT
import { connect } from 'isoverbs/rdma-cm';

const [host, port] = process.argv.slice(2);
const connection = await connect({ host, port: Number(port) });
console.log(`connected from ${connection.localAddress} to ${connection.remoteAddress}`);
await connection.disconnect();
connection.close();
