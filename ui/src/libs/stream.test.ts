import { describe, expect, it } from 'vitest';

import { Parser, type StreamEvent } from './stream';

function parsed(...pieces: string[]): StreamEvent[] {
  const events: StreamEvent[] = [];
  const parser = new Parser((event) => events.push(event));
  for (const piece of pieces) parser.feed(piece);
  return events;
}

describe('Parser', () => {
  it('reads events however the bytes are cut', () => {
    const text = 'id: 7\nevent: line\ndata: a\ndata: b\n\n: keep-alive\n\ndata: c\r\n\r\n';
    const want = [
      { id: '7', event: 'line', data: 'a\nb' },
      { id: '', event: 'message', data: 'c' },
    ];
    expect(parsed(text)).toEqual(want);
    expect(parsed(...text)).toEqual(want);
  });

  it('keeps an unfinished event until it is finished', () => {
    expect(parsed('data: x\n')).toEqual([]);
  });
});
