// Groups of queue pairs: what contexts of a tenant create, share and give up.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import { closeEnd, createQp, openEnd } from './rig.ts';

function open({ provider: p, devices }: Ground, options?: V.OpenOptions) {
  return { p, context: p.openDevice(devices[0], options) };
}

feature('groups of queue pairs', { group: 'labels', others: 'every device' }, (it) => {
  it('createGroup, setGroup and destroyGroup accept a name and a weight', (ground) => {
    const { p, context } = open(ground);
    p.createGroup(context, 'kv', 3);
    p.createGroup(context, 'kv', 2);
    p.setGroup(context, 'kv', 1e-6);
    p.setGroup(context, 'kv', 1e6);
    p.destroyGroup(context, 'kv');
    expect(() => p.setGroup(context, 'kv', 1)).toThrow(
      "setGroup: this context has no group 'kv'; createGroup creates one",
    );
    p.closeDevice(context);
  });

  it('a weight out of range is refused', (ground) => {
    const { p, context } = open(ground);
    p.createGroup(context, 'kv', 3);
    for (const weight of [0, -1, Number.NaN, 1e9]) {
      const text = `weight must be a number from 0.000001 to 1000000, got ${weight}`;
      expect(() => p.createGroup(context, 'scan', weight)).toThrow(`createGroup: ${text}`);
      expect(() => p.setGroup(context, 'kv', weight)).toThrow(`setGroup: ${text}`);
    }
    expect(() => p.setGroup(context, 'scan', 1)).toThrow("this context has no group 'scan'");
    p.closeDevice(context);
  });

  it('a group belongs to the contexts that created it', (ground) => {
    const { p, context } = open(ground, { tenant: 'shop' });
    const other = p.openDevice(ground.devices[0], { tenant: 'shop' });
    p.createGroup(context, 'kv', 3);
    expect(() => p.setGroup(other, 'kv', 1)).toThrow('createGroup creates one');
    p.createGroup(other, 'kv', 2);
    p.closeDevice(context);
    p.setGroup(other, 'kv', 5);
    p.destroyGroup(other, 'kv');
    expect(() => p.destroyGroup(other, 'kv')).toThrow(expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }));
    p.closeDevice(other);
  });

  it('destroyGroup fails while labels name the group', (ground) => {
    const end = openEnd(ground, 0);
    const { p, context } = end;
    p.createGroup(context, 'kv', 3);
    const [own, moved] = [createQp(end, { group: 'kv' }).handle, createQp(end).handle];
    p.modifyQp(moved, { group: 'kv' }, V.ISO_QP_GROUP);
    const destroy = () => p.destroyGroup(context, 'kv');
    const busy = (text: string) =>
      expect(destroy).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_BUSY', errno: V.EBUSY, message: text }),
      );
    const remedy = 'destroy them, or name another group with modifyQp (ISO_QP_GROUP)';
    busy(`destroyGroup: 2 queue pairs of this context are in group 'kv': ${remedy}`);
    p.modifyQp(moved, { group: '' }, V.ISO_QP_GROUP);
    busy(`destroyGroup: 1 queue pair of this context is in group 'kv': ${remedy}`);
    p.setLabels(context, { group: 'kv' });
    p.destroyQp(own);
    busy("destroyGroup: the context is in group 'kv': name another group with setLabels, or '' for none");
    p.setLabels(context, { group: '' });
    destroy();
    p.destroyQp(moved);
    closeEnd(end);
  });

  it('a queue pair of another context does not keep a group', (ground) => {
    const [one, two] = [openEnd(ground, 0), openEnd(ground, 0)];
    one.p.createGroup(one.context, 'kv', 3);
    const qp = createQp(two, { group: 'kv' });
    one.p.destroyGroup(one.context, 'kv');
    two.p.destroyQp(qp.handle);
    closeEnd(two);
    closeEnd(one);
  });

  it('openDevice creates groups by its option', (ground) => {
    const { p, context } = open(ground, { groups: { kv: 3, scan: 1 } });
    p.setGroup(context, 'scan', 2);
    p.closeDevice(context);
    const refused = (groups: unknown) => () => open(ground, { groups } as V.OpenOptions);
    expect(refused({ kv: 0 })).toThrow(
      'openDevice: groups.kv must be a number from 0.000001 to 1000000, got 0',
    );
    expect(refused({ '': 1 })).toThrow('openDevice: the name of a group must be a name of 1 to 64 printable');
    expect(refused(3)).toThrow('openDevice: groups must be an object, got 3');
    expect(refused([])).toThrow('openDevice: groups must be an object, got an array');
  });

  it('a context may have 1,024 groups', (ground) => {
    const { p, context } = open(ground);
    for (let i = 0; i < V.MAX_GROUPS; i++) p.createGroup(context, `g${i}`, 1);
    expect(() => p.createGroup(context, 'more', 1)).toThrow(
      expect.objectContaining({
        code: 'ISO_ERR_NO_RESOURCES',
        message: 'createGroup: a context may have 1024 groups: destroy some with destroyGroup, or use fewer',
      }),
    );
    p.createGroup(context, 'g0', 2);
    p.destroyGroup(context, 'g0');
    p.createGroup(context, 'more', 1);
    p.closeDevice(context);
    expect(() => p.createGroup(context, 'kv', 1)).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_HANDLE' }),
    );
  });
});
