import i18next from 'i18next';
import { initReactI18next } from 'react-i18next';

import { en } from './locales/en';
import { ko } from './locales/ko';

const STORED = 'astrago.language';
export const LANGUAGES = { en: 'English', ko: '한국어' } as const;
export type Language = keyof typeof LANGUAGES;

const preferred = localStorage.getItem(STORED) ?? (navigator.language.startsWith('ko') ? 'ko' : 'en');

void i18next.use(initReactI18next).init({
  lng: preferred,
  fallbackLng: 'en',
  interpolation: { escapeValue: false },
  resources: { en: { translation: en }, ko: { translation: ko } },
});
document.documentElement.lang = preferred;

export function speak(language: Language) {
  localStorage.setItem(STORED, language);
  document.documentElement.lang = language;
  void i18next.changeLanguage(language);
}
