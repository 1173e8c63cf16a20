import { describe, expect, it } from 'vitest';

import { viewIn, withView } from './views';

describe('the views of a list', () => {
  it('are the same whatever the order of the address, and on each of its pages', () => {
    const one = viewIn(new URLSearchParams('state=Failed&group=user&page=3'));
    expect(one).toBe('group=user&state=Failed');
    expect(viewIn(new URLSearchParams('group=user&state=Failed'))).toBe(one);
  });

  it('stand by their names, and a name stands for one', () => {
    const two = [
      { name: 'a', search: 'q=a' },
      { name: 'c', search: 'q=c' },
    ];
    expect(withView(two, { name: 'b', search: 'q=b' }).map((one) => one.name)).toEqual(['a', 'b', 'c']);
    expect(withView(two, { name: 'a', search: 'q=new' })).toEqual([
      { name: 'a', search: 'q=new' },
      { name: 'c', search: 'q=c' },
    ]);
  });
});
