// The page before the page: when its scripts cannot be loaded there is nobody else to say so. It explains, and loads the
// page again as soon as the server answers, but not for ever.
(() => {
  const RELOADED = 'astrago.reloaded';
  const ENOUGH = 60_000;
  const PAUSE = 2_000;
  const SLOW = 15_000;
  const WORDS = {
    en: {
      broken: 'The page could not be loaded. It comes back by itself when the server does.',
      slow: 'The page is still loading. If nothing happens, load it again.',
      reload: 'Load the page again',
    },
    ko: {
      broken: '페이지를 불러오지 못했습니다. 서버가 돌아오면 자동으로 다시 불러옵니다.',
      slow: '페이지를 아직 불러오는 중입니다. 계속 보이지 않으면 다시 불러와 주세요.',
      reload: '페이지 다시 불러오기',
    },
  };

  const stored = (storage, key) => {
    try {
      return storage().getItem(key);
    } catch {
      return null;
    }
  };
  const chosen = stored(() => localStorage, 'astrago.language') ?? navigator.language;
  const language = chosen.startsWith('ko') ? 'ko' : 'en';
  const words = WORDS[language];

  const isEmpty = () => document.getElementById('page-boot') !== null || !document.querySelector('#root > *');

  const explain = (which) => {
    const root = document.getElementById('root');
    if (root === null || !isEmpty()) return;
    const box = document.createElement('main');
    box.id = 'page-boot';
    box.dataset.broken = which;
    box.lang = language;
    box.style.cssText =
      'max-width:32rem;margin:20vh auto 0;padding:0 16px;font:15px/1.5 system-ui,sans-serif;text-align:center';
    const title = document.createElement('h1');
    title.textContent = 'Astrago Trainer';
    title.style.cssText = 'font-size:20px';
    const text = document.createElement('p');
    text.textContent = words[which];
    text.setAttribute('role', 'alert');
    const button = document.createElement('button');
    button.textContent = words.reload;
    button.style.cssText = 'padding:8px 16px;font:inherit;cursor:pointer';
    button.addEventListener('click', () => location.reload());
    box.append(title, text, button);
    root.replaceChildren(box);
  };

  const comeBack = async () => {
    const answer = await fetch('/', { cache: 'no-store' }).catch(() => undefined);
    if (answer === undefined || !answer.ok) setTimeout(comeBack, PAUSE);
    else if (Date.now() - Number(stored(() => sessionStorage, RELOADED) ?? 0) > ENOUGH) {
      sessionStorage.setItem(RELOADED, String(Date.now()));
      location.reload();
    }
  };

  addEventListener(
    'error',
    ({ target }) => {
      if (!(target instanceof HTMLScriptElement) || !isEmpty()) return;
      explain('broken');
      void comeBack();
    },
    true,
  );
  setTimeout(() => explain('slow'), SLOW);
})();
