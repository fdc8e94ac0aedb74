// @ts-nocheck
// An agent that gives a tenth of 100 Gbit/s to each queue pair, and half of that to those that go to 10.0.0.3. It sets
// each rate a thousand times, so that a thousand words are sent at once.
import { gidFromWords, tasselWithAgent } from 'isoverbs/policies';

class Tenths {
  onTold(member, words, out) {
    for (let i = 0; i < words.length; i += 10) {
      const kbps = gidFromWords(words, i + 2) === '::ffff:10.0.0.3' ? 5e6 : 10e6;
      for (let k = 999; k >= 0; k--) out.tell(member, [words[i + 1], kbps + k]);
    }
  }
}

export const agents = [{ name: 'tenths', create: () => new Tenths() }];

export default (options) => tasselWithAgent(agents[0], options);
