/** Text for the terminal and the page alike, with `code` between backquotes. */

/** What is between backquotes as code; all else is plain text, whatever it holds. */
export function WithCode({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}
