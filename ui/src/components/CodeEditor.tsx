import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView, keymap, lineNumbers, placeholder as placeholderOf } from '@codemirror/view';
import { useComputedColorScheme } from '@mantine/core';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';

/** Colours by variables of the page, so that both themes have enough contrast. */
const HIGHLIGHTS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--mantine-color-grape-text)' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--mantine-color-blue-text)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--mantine-color-teal-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--mantine-color-orange-text)' },
  { tag: [tags.function(tags.variableName), tags.className], color: 'var(--mantine-color-indigo-text)' },
  { tag: tags.comment, color: 'var(--mantine-color-dimmed)', fontStyle: 'italic' },
]);

const LANGUAGES = { python, yaml, text: () => [] };

interface Props {
  value: string;
  onChange?: (value: string) => void;
  language: keyof typeof LANGUAGES;
  label: string;
  placeholder?: string;
  height?: string;
}

/** An editor for code and YAML; read-only without `onChange`. Escape, then Tab, leaves it by keyboard. */
export function CodeEditor({ value, onChange, language, label, placeholder = '', height = '360px' }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const changed = useRef(onChange);
  const look = useRef(new Compartment());
  const scheme = useComputedColorScheme('light');

  useEffect(() => {
    changed.current = onChange;
  }, [onChange]);

  const editable = onChange !== undefined;
  useEffect(() => {
    if (element.current === null) return;
    const editor = new EditorView({
      parent: element.current,
      state: EditorState.create({
        doc: '',
        extensions: [
          lineNumbers(),
          history(),
          bracketMatching(),
          syntaxHighlighting(HIGHLIGHTS),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          LANGUAGES[language](),
          look.current.of([]),
          placeholderOf(placeholder),
          EditorState.readOnly.of(!editable),
          EditorView.editable.of(editable),
          EditorView.contentAttributes.of({ 'aria-label': label, ...(editable ? {} : { tabindex: '0' }) }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current?.(update.state.doc.toString());
          }),
          EditorView.theme({ '&': { height, fontSize: '13px' }, '.cm-scroller': { overflow: 'auto' } }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, [editable, height, label, language, placeholder]);

  useEffect(() => {
    const editor = view.current;
    if (editor !== null && editor.state.doc.toString() !== value) {
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
    }
  }, [value, editable, height, label, language, placeholder]);

  useEffect(() => {
    view.current?.dispatch({
      effects: look.current.reconfigure(EditorView.theme({}, { dark: scheme === 'dark' })),
    });
  }, [scheme, editable, height, label, language, placeholder]);

  return <div ref={element} className="code-editor" />;
}
