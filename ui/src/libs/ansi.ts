/** Splits a line with ANSI colour codes into styled pieces. Unknown codes are dropped, never shown. */
export interface Piece {
  text: string;
  color?: string;
  bold?: boolean;
  dim?: boolean;
}

const COLORS = ['gray', 'red', 'green', 'yellow', 'blue', 'grape', 'cyan', 'gray'];

const SEQUENCE = /\u001b\[([0-9;]*)([A-Za-z])|\u001b\][^\u0007]*\u0007|\r/g;

export function pieces(line: string): Piece[] {
  if (!line.includes('\u001b') && !line.includes('\r')) return [{ text: line }];
  const result: Piece[] = [];
  let style: Omit<Piece, 'text'> = {};
  let from = 0;
  for (const match of line.matchAll(SEQUENCE)) {
    push(result, line.slice(from, match.index), style);
    from = match.index + match[0].length;
    if (match[2] === 'm') style = applied(style, match[1] ?? '');
  }
  push(result, line.slice(from), style);
  return result;
}

/** The line without its colour codes: what search and copy see. */
export function plain(line: string): string {
  return line.includes('\u001b') || line.includes('\r') ? line.replace(SEQUENCE, '') : line;
}

function push(result: Piece[], text: string, style: Omit<Piece, 'text'>) {
  if (text !== '') result.push({ text, ...style });
}

function applied(style: Omit<Piece, 'text'>, codes: string): Omit<Piece, 'text'> {
  let next = { ...style };
  const numbers = codes === '' ? [0] : codes.split(';').map(Number);
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 22) delete next.bold;
    else if (code >= 30 && code <= 37) next.color = COLORS[code - 30];
    else if (code >= 90 && code <= 97) next.color = COLORS[code - 90];
    else if (code === 39) delete next.color;
    // 38;5;n and 38;2;r;g;b: extended colours are skipped whole.
    else if (code === 38 || code === 48) i += numbers[i + 1] === 2 ? 4 : 2;
  }
  return next;
}
