/** Parses YAML with the package `yaml`, which is loaded on demand: most programs have no YAML file. */
import { createRequire } from 'node:module';

/** @throws Error that says where the text is no YAML, or has a tag that nothing defines */
export function parseYaml(text: string): unknown {
  const yaml: typeof import('yaml') = createRequire(import.meta.url)('yaml');
  const document = yaml.parseDocument(text);
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) throw problem;
  return document.toJS();
}
