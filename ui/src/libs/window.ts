/**
 * The part of a log that the page holds: some chunks of lines, one behind the other. However long the log is, the
 * window stays small; what was let go at one side is read again when the reader comes back to it.
 *
 * Kept outside React's state; a version number tells views when to look again.
 */
export interface Line {
  worker: number;
  time?: string | null | undefined;
  text: string;
}

/** A line that a search found: with the server's name for its place. */
export interface Found extends Line {
  place: string;
}

export interface Chunk {
  /** The server's name for the place of the first line. */
  start: string;
  /** The place behind the last line. */
  end: string;
  /** How many bytes of the log lie before the first and up to the last line. */
  startByte: number;
  endByte: number;
  lines: Line[];
}

export class LogWindow {
  private chunks: Chunk[] = [];
  private flat: Line[] = [];
  /** The number of the first line, counted from where reading began; lines before that have negative ones. */
  base = 0;
  /** Whether nothing comes before the first line. */
  first = true;
  /** Whether the window reaches to the end of the log. */
  last = true;
  totalBytes = 0;
  version = 0;

  constructor(readonly limit = 20_000) {}

  get length() {
    return this.flat.length;
  }

  get start() {
    return this.chunks[0]?.start ?? '';
  }

  get end() {
    return this.chunks.at(-1)?.end ?? '';
  }

  get startByte() {
    return this.chunks[0]?.startByte ?? 0;
  }

  get endByte() {
    return this.chunks.at(-1)?.endByte ?? 0;
  }

  at(index: number): Line | undefined {
    return this.flat[index];
  }

  /** A number that stays with the line while others come and go around it. */
  numberOf(index: number): number {
    return this.base + index;
  }

  indexOf(number: number): number {
    return number - this.base;
  }

  find(line: Line): number {
    return this.flat.findIndex(
      (one) => one.worker === line.worker && one.time === line.time && one.text === line.text,
    );
  }

  /** Starts over with another part of the log. */
  reset(chunk: Chunk, place: { first: boolean; last: boolean }) {
    this.chunks = [chunk];
    this.flat = [...chunk.lines];
    this.base = 0;
    this.first = place.first;
    this.last = place.last;
    this.totalBytes = Math.max(chunk.endByte, this.totalBytes);
    this.version++;
  }

  prepend(chunk: Chunk, first: boolean) {
    this.first = first;
    if (chunk.lines.length > 0) {
      this.chunks.unshift(chunk);
      this.flat = chunk.lines.concat(this.flat);
      this.base -= chunk.lines.length;
      this.trimEnd();
    }
    this.version++;
  }

  /** Adds what follows. With `keepStart` (a reader is looking at it) nothing is let go at the start. */
  append(chunk: Chunk, keepStart: boolean) {
    if (chunk.lines.length > 0) {
      const before = this.chunks.at(-1);
      // Live lines come in small portions; a chunk of a thousand is as good and trims faster.
      if (before !== undefined && before.lines.length + chunk.lines.length <= 1000) {
        before.lines.push(...chunk.lines);
        before.end = chunk.end;
        before.endByte = chunk.endByte;
      } else {
        this.chunks.push(chunk);
      }
      for (const line of chunk.lines) this.flat.push(line);
      this.totalBytes = Math.max(this.totalBytes, chunk.endByte);
      if (!keepStart) this.trimStart();
    }
    this.version++;
  }

  /** Whether a reader who does not follow has as much below as the window holds. */
  get full() {
    return this.flat.length >= this.limit;
  }

  private trimStart() {
    let surplus = 0;
    while (this.chunks.length > 1 && this.flat.length - surplus > this.limit) {
      surplus += this.chunks.shift()?.lines.length ?? 0;
    }
    if (surplus === 0) return;
    this.flat = this.flat.slice(surplus);
    this.base += surplus;
    this.first = false;
  }

  private trimEnd() {
    let length = this.flat.length;
    while (this.chunks.length > 1 && length > this.limit) {
      length -= this.chunks.pop()?.lines.length ?? 0;
      this.last = false;
    }
    this.flat.length = length;
  }
}
