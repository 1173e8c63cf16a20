//! Answers that are made while they are read.
//!
//! Whoever asks for much and reads nothing then holds one piece, and not a copy of all that was asked for.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;

/// So many bytes are sent together.
pub(crate) const PIECE: usize = 64 << 10;

/// What is to be sent next: small parts are put together, and large ones go as they are, as the store has them.
#[derive(Default)]
pub(crate) struct Pieces {
    whole: VecDeque<Bytes>,
    open: BytesMut,
}

impl Pieces {
    pub(crate) fn put(&mut self, part: &[u8]) {
        self.open.extend_from_slice(part);
    }

    pub(crate) fn put_shared(&mut self, part: Bytes) {
        if part.len() < PIECE {
            return self.put(&part);
        }
        if !self.open.is_empty() {
            self.whole.push_back(self.open.split().freeze());
        }
        self.whole.push_back(part);
    }

    /// There is enough to send.
    pub(crate) fn is_full(&self) -> bool {
        !self.whole.is_empty() || self.open.len() >= PIECE
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.open.is_empty()
    }

    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let whole = self.whole.pop_front();
        whole.or_else(|| (!self.open.is_empty()).then(|| self.open.split().freeze()))
    }
}

/// A body of what `more` puts down, until it says that this was all. A small one is made at once and has a known size.
pub(crate) fn body(mut more: impl FnMut(&mut Pieces) -> bool + Send + 'static) -> Body {
    let (mut pieces, mut goes_on) = (Pieces::default(), true);
    let mut next = move || {
        while goes_on && !pieces.is_full() {
            goes_on = more(&mut pieces);
        }
        let piece = pieces.take();
        (piece, goes_on || !pieces.is_empty())
    };
    match next() {
        (first, false) => Body::from(first.unwrap_or_default()),
        (first, true) => {
            let rest = std::iter::from_fn(move || next().0);
            let all = futures::stream::iter(first.into_iter().chain(rest));
            Body::from_stream(all.map(Ok::<_, Infallible>))
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_large_answer_is_made_while_it_is_read_and_copies_nothing_large() {
        let large = Bytes::from(vec![b'x'; 10 * PIECE]);
        let mut left = 5;
        let (shared, made) = (large.clone(), std::sync::Arc::new(std::sync::Mutex::new(0)));
        let count = std::sync::Arc::clone(&made);
        let mut body = body(move |pieces| {
            pieces.put(b"<");
            pieces.put_shared(shared.clone());
            pieces.put(b">");
            *count.lock().unwrap() += 1;
            left -= 1;
            left > 0
        });
        let mut sizes = Vec::new();
        assert_eq!(*made.lock().unwrap(), 1, "nobody has read the first yet");
        while let Some(frame) = body.frame().await {
            let frame = frame.unwrap().into_data().unwrap();
            assert!(frame.len() <= 2 || frame.as_ptr() == large.as_ptr());
            sizes.push(frame.len());
        }
        assert_eq!(*made.lock().unwrap(), 5);
        assert_eq!(sizes.iter().sum::<usize>(), 5 * (large.len() + 2));
    }

    #[tokio::test]
    async fn a_small_answer_is_one_piece_whose_size_is_known() {
        let mut left = 3;
        let body = body(move |pieces| {
            pieces.put(b"ab");
            left -= 1;
            left > 0
        });
        assert_eq!(axum::body::HttpBody::size_hint(&body).exact(), Some(6));
        assert_eq!(&*body.collect().await.unwrap().to_bytes(), b"ababab");
    }
}
