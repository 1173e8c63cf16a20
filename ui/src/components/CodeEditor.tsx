import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, defaultHighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView, keymap, lineNumbers, placeholder as placeholderOf } from '@codemirror/view';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';

interface Props {
  value: string;
  onChange?: (value: string) => void;
  language: 'python' | 'yaml';
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
          syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          language === 'python' ? python() : yaml(),
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
