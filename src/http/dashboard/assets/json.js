// JSON as text. `JSON.parse` would round large numbers and drop duplicate names, so these functions
// copy bodies from the answer and indent them as text. They do not recurse, so deep nesting is
// harmless.

/** Returns the end of the string that begins at `at`. */
function endOfString(text, at) {
  let end = at;
  do {
    end = text.indexOf('"', end + 1);
    if (end < 0) return text.length;
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  } while (true);
}

const SPACE = /\s/;

/** Returns the texts of all members with this name in objects at this depth (1 is the outermost). */
export function members(text, name, depth) {
  const found = [];
  const quoted = JSON.stringify(name);
  let level = 0;
  let from = -1;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '"') {
      const end = endOfString(text, at);
      if (level === depth && from < 0 && text.slice(at, end) === quoted) {
        let colon = end;
        while (SPACE.test(text[colon])) colon += 1;
        if (text[colon] === ":") from = colon + 1;
      }
      at = end - 1;
    } else if (c === "{" || c === "[") {
      level += 1;
    } else if (c === "}" || c === "]" || c === ",") {
      if (level === depth && from >= 0) {
        found.push(text.slice(from, at).trim());
        from = -1;
      }
      if (c !== ",") level -= 1;
    }
  }
  return found;
}

/** Maximum levels of indentation, so that a small, deeply nested body does not become a huge text. */
const MAX_INDENTATION = 40;

/** Indents a text and returns its lines. Stops after `limit` characters; then `more` is true. */
export function pretty(text, limit) {
  const lines = [];
  let line = "";
  let level = 0;
  let size = 0;
  const newline = () => {
    lines.push(line);
    size += line.length + 1;
    line = "  ".repeat(Math.min(level, MAX_INDENTATION));
  };
  const cut = () => ({ lines: [...lines, line.slice(0, Math.max(0, limit - size))], more: true });
  for (let at = 0; at < text.length; at += 1) {
    if (size + line.length > limit) return cut();
    const c = text[at];
    if (c === '"') {
      const end = endOfString(text, at);
      line += text.slice(at, end);
      at = end - 1;
    } else if (c === "{" || c === "[") {
      let next = at + 1;
      while (next < text.length && SPACE.test(text[next])) next += 1;
      if (text[next] === "}" || text[next] === "]") {
        line += c + text[next];
        at = next;
      } else {
        line += c;
        level += 1;
        newline();
      }
    } else if (c === "}" || c === "]") {
      level -= 1;
      newline();
      line += c;
    } else if (c === ",") {
      line += c;
      newline();
    } else if (c === ":") {
      line += ": ";
    } else if (!SPACE.test(c)) {
      line += c;
    }
  }
  return size + line.length > limit ? cut() : { lines: [...lines, line], more: false };
}
