/**
 * Texts that any user may have chosen, such as the names of tenants. Some characters control the terminal, others change
 * the order in which the text around them appears, and others are invisible.
 */

const CONTROLS = /[\p{C}\u2028\u2029]/gu;

function escapes(character: string): string {
  let text = '';
  for (let i = 0; i < character.length; i++) {
    text += `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`;
  }
  return text;
}

/** The text with such characters as `\u009b`. */
export function escaped(text: string): string {
  return text.replace(CONTROLS, escapes);
}

/** The same for a text of several lines, which stay. JSON keeps its meaning. */
export function escapedLines(text: string): string {
  return text.replace(CONTROLS, (character) => (character === '\n' ? character : escapes(character)));
}
