/** Connects the first pair of a scene by rdma_cm, step by step. */
import * as V from '../../../src/verbs/index.ts';
import { ears, heard, INIT, listener, move, param, RTR, RTS, routed } from '../../verbs/cm-rig.ts';
import type { Scene } from './scene.ts';

/** a0 listens, b0 connects. */
export async function connectByCm(scene: Scene): Promise<{ disconnect(): Promise<void> }> {
  const at = ears(scene.ground);
  const { cm } = at;
  const [a, b] = ['a', 'b'].map((name) => scene.queue(name).info);
  const listening = listener(at);
  const client = await routed(at, listening.port);
  cm.connect(client, param(b.qpNum));
  const request = await heard(at, listening.id, V.RDMA_CM_EVENT_CONNECT_REQUEST);
  move(scene.a, cm, request.id, a.handle, [INIT, RTR, RTS]);
  cm.accept(request.id, param(a.qpNum));
  await heard(at, client, V.RDMA_CM_EVENT_CONNECT_RESPONSE);
  move(scene.b, cm, client, b.handle, [INIT, RTR, RTS]);
  cm.establish(client);
  await heard(at, request.id, V.RDMA_CM_EVENT_ESTABLISHED);
  scene.later(() => {
    for (const id of [request.id, client, listening.id]) cm.destroyId(id);
    cm.destroyEventChannel(at.channel);
  });
  const disconnect = async () => {
    cm.disconnect(client);
    await heard(at, request.id, V.RDMA_CM_EVENT_DISCONNECTED);
  };
  return { disconnect };
}
