/** Splits a line with ANSI colour codes into styled pieces. What else a terminal would obey is dropped, never shown. */
export interface Piece {
  text: string;
  color?: string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  /** Found by the search. */
  marked?: boolean;
}

type Style = Omit<Piece, 'text'>;

const COLORS = ['gray', 'red', 'green', 'yellow', 'blue', 'grape', 'cyan', 'gray'];

/**
 * What ECMA-48 says a terminal does not print: control sequences (`ESC [`), strings such as titles and links up to their
 * end (BEL or `ESC \\`), and every other escape. One that the end of the line cut short is none of the text either.
 */
const SEQUENCE = new RegExp(
  [
    '\u001b\\[([0-?]*)[ -/]*(?:([@-~])|$)',
    '\u001b[\\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\\\|$)',
    '\u001b[ -/]*[0-~]?',
  ].join('|'),
  'g',
);

export function pieces(line: string): Piece[] {
  const shown = lastWritten(line);
  if (!shown.includes('\u001b')) return [{ text: shown }];
  const result: Piece[] = [];
  let style: Style = {};
  let from = 0;
  for (const match of shown.matchAll(SEQUENCE)) {
    push(result, shown.slice(from, match.index), style);
    from = match.index + match[0].length;
    if (match[2] === 'm') style = applied(style, match[1] ?? '');
  }
  push(result, shown.slice(from), style);
  return result;
}

/** The line without its colour codes: what search and copy see. */
export function plain(line: string): string {
  const shown = lastWritten(line);
  return shown.includes('\u001b') ? shown.replace(SEQUENCE, '') : shown;
}

/** The pieces with what the pattern finds in them marked. */
export function marked(all: Piece[], pattern: RegExp | undefined): Piece[] {
  if (pattern === undefined) return all;
  return all.flatMap((piece) => {
    const result: Piece[] = [];
    let from = 0;
    for (const match of piece.text.matchAll(pattern)) {
      if (match[0] === '') continue;
      if (match.index > from) result.push({ ...piece, text: piece.text.slice(from, match.index) });
      result.push({ ...piece, text: match[0], marked: true });
      from = match.index + match[0].length;
    }
    if (from < piece.text.length || result.length === 0)
      result.push({ ...piece, text: piece.text.slice(from) });
    return result;
  });
}

/** A progress bar writes over itself with carriage returns; a terminal shows what was written last. */
function lastWritten(line: string): string {
  if (!line.includes('\r')) return line;
  return line.split('\r').findLast((part) => part !== '') ?? '';
}

function push(result: Piece[], text: string, style: Style) {
  if (text !== '') result.push({ text, ...style });
}

/** A code, which may have its own parameters behind colons: of colours only those of the palette are known. */
function numbersOf(code: string): number[] {
  const [first = 0, ...own] = code.split(':').map(Number);
  if (own.length === 0) return [first];
  if ([38, 48, 58].includes(first)) return own[0] === 5 ? [first, 5, own[1] ?? 16] : [];
  return own[0] === 0 ? [] : [first];
}

function applied(style: Style, codes: string): Style {
  let next = { ...style };
  const numbers = codes === '' ? [0] : codes.split(';').flatMap(numbersOf);
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) {
      delete next.bold;
      delete next.dim;
    } else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code >= 30 && code <= 37) next.color = COLORS[code - 30];
    else if (code >= 90 && code <= 97) next.color = COLORS[code - 90];
    else if (code === 39) delete next.color;
    else if (code === 38 || code === 48 || code === 58) {
      // 38;5;n and 38;2;r;g;b: the first sixteen are the colours above, the others are skipped whole.
      const index = numbers[i + 1] === 5 ? (numbers[i + 2] ?? 16) : 16;
      if (code === 38 && index < 16) next.color = COLORS[index % 8];
      i += numbers[i + 1] === 2 ? 4 : 2;
    }
  }
  return next;
}
