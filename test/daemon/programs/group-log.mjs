// A policy that passes everything and prints the label `group` of each queue pair, and each weight of a group.
import { createCoordinatedShim } from 'isoverbs/policies';

/** @type {import('isoverbs/policies').Policy} */
const policy = {
  name: 'group-log',
  needs: { wait: 'none' },
  slots: 0,
  onload: (_qp, _words, _start, count) => count,
  feed: () => {},
  onQp: ({ labels }, change) => {
    if (change === 'created') console.log(`queue pair in '${labels.group}'`);
  },
  onGroup: ({ tenant }, name, weight) => console.log(`${tenant} ${name} ${weight}`),
};

export default () => createCoordinatedShim('group-log', () => policy);
