/**
 * A log that may grow to millions of lines: appended in chunks, read by index, with a bounded size.
 * Kept outside React's state; a version number tells views when to look again.
 */
export interface Line {
  /** Position in the stream, for resuming after a break. */
  id: string;
  worker: number;
  time?: string | undefined;
  text: string;
}

export class Lines {
  private lines: Line[] = [];
  private dropped = 0;
  version = 0;

  constructor(private readonly limit = 1_000_000) {}

  append(more: Line[]) {
    for (const line of more) this.lines.push(line);
    if (this.lines.length > this.limit) {
      // Dropped in blocks: removing from the front one by one would copy the array each time.
      const surplus = this.lines.length - this.limit + Math.floor(this.limit / 10);
      this.lines.splice(0, surplus);
      this.dropped += surplus;
    }
    this.version++;
  }

  clear() {
    this.lines = [];
    this.dropped = 0;
    this.version++;
  }

  get length() {
    return this.lines.length;
  }

  /** How many lines were let go to stay within the limit. */
  get forgotten() {
    return this.dropped;
  }

  at(index: number): Line | undefined {
    return this.lines[index];
  }

  /** The indexes of lines that contain the text, without regard to case. */
  find(text: string): number[] {
    const needle = text.toLowerCase();
    const found: number[] = [];
    if (needle === '') return found;
    this.lines.forEach((line, index) => {
      if (line.text.toLowerCase().includes(needle)) found.push(index);
    });
    return found;
  }

  text(): string {
    return this.lines.map((line) => line.text).join('\n');
  }
}
