import { describe, expect, it } from 'vitest';

import { marked, pieces, plain } from './ansi';

const ESC = '\u001b';

describe('ansi', () => {
  it('leaves a plain line whole', () => {
    expect(pieces('Epoch 1')).toEqual([{ text: 'Epoch 1' }]);
  });

  it('colours until the reset', () => {
    expect(pieces(`a ${ESC}[1;31merror${ESC}[0m b`)).toEqual([
      { text: 'a ' },
      { text: 'error', color: 'red', bold: true },
      { text: ' b' },
    ]);
  });

  it('shows a progress bar as a terminal does: what was written last', () => {
    expect(plain('10%|#\r20%|##\r30%|###')).toBe('30%|###');
    expect(plain('done\r')).toBe('done');
  });

  it('marks what a search finds, inside its colours', () => {
    expect(marked(pieces(`${ESC}[31mloss loss${ESC}[0m x`), /loss/g)).toEqual([
      { text: 'loss', color: 'red', marked: true },
      { text: ' ', color: 'red' },
      { text: 'loss', color: 'red', marked: true },
      { text: ' x' },
    ]);
  });

  it('skips extended colours, cursor movements and carriage returns', () => {
    expect(plain(`${ESC}[38;5;208mx${ESC}[2Ky\r`)).toBe('xy');
    expect(pieces(`${ESC}[38;2;1;2;3;1mx`)).toEqual([{ text: 'x', bold: true }]);
  });

  it.each([
    ['a hidden cursor', `${ESC}[?25lx${ESC}[?25h`, 'x'],
    [
      'a link, ended as most programs do',
      `see ${ESC}]8;;http://here/${ESC}\\docs${ESC}]8;;${ESC}\\!`,
      'see docs!',
    ],
    ['a title', `${ESC}]0;training\u0007x`, 'x'],
    ['a character set', `${ESC}(Bx${ESC})0`, 'x'],
    ['an image', `${ESC}Pq#0;2;0;0;0~-${ESC}\\x`, 'x'],
    ['a sequence that the end cut short', `x${ESC}[31`, 'x'],
    ['a link that the end cut short', `x${ESC}]8;;http://`, 'x'],
    ['an escape alone', `x${ESC}`, 'x'],
  ])('shows nothing of %s', (_, line, want) => {
    expect(plain(line)).toBe(want);
  });

  it('reads parameters behind colons', () => {
    expect(pieces(`${ESC}[38:5:1mx${ESC}[0m`)).toEqual([{ text: 'x', color: 'red' }]);
    expect(pieces(`${ESC}[38:2::1:2:3m${ESC}[4:3mx`)).toEqual([{ text: 'x', underline: true }]);
    expect(pieces(`${ESC}[4:0mx`)).toEqual([{ text: 'x' }]);
  });
});
