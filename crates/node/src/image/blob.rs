//! One blob on its way from the registry into a directory.
//!
//! The download runs asynchronously and hands its bytes over a short queue to a thread that
//! hashes, decompresses and unpacks them: nothing is stored twice, and a slow disk slows the
//! download down. A broken connection is taken up where it broke; the hash over all bytes decides
//! in the end whether the pieces fit.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use oci_client::client::BlobResponse;
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;
use oci_client::{Client, Reference};
use tokio::sync::mpsc;

use super::digest::{Digest, Hashing};
use super::unpack;

/// Broken connections that are forgiven per blob.
const RECONNECTS_MAX: usize = 5;

/// Sends a blob's bytes to `into`; `progress` hears of each piece's length.
pub(super) async fn download(
    client: &Client,
    reference: &Reference,
    blob: &OciDescriptor,
    into: mpsc::Sender<Bytes>,
    progress: impl Fn(u64),
) -> Result<()> {
    let size = u64::try_from(blob.size).map_err(|_| Error::Size)?;
    let mut offset = 0;
    let mut reconnects = 0;
    loop {
        let broken = match client
            .pull_blob_stream_partial(reference, blob, offset, None)
            .await
        {
            Ok(response) => {
                // A registry that cannot continue begins again.
                let (mut skip, mut stream) = match response {
                    BlobResponse::Full(sized) => (offset, sized.stream),
                    BlobResponse::Partial(sized) => (0, sized.stream),
                };
                loop {
                    match stream.next().await {
                        None if offset < size => break io::ErrorKind::UnexpectedEof.into(),
                        None => return Ok(()),
                        Some(Err(error)) if offset >= size => return Err(Error::Broken(error)),
                        Some(Err(error)) => break error,
                        Some(Ok(mut bytes)) => {
                            let known = skip.min(bytes.len() as u64);
                            skip -= known;
                            bytes = bytes.split_off(usize::try_from(known).unwrap_or(0));
                            offset += bytes.len() as u64;
                            if offset > size {
                                return Err(Error::Size);
                            }
                            progress(bytes.len() as u64);
                            if into.send(bytes).await.is_err() {
                                // The reader gave up, and says why.
                                return Ok(());
                            }
                        }
                    }
                }
            }
            Err(OciDistributionError::RequestError(error)) => io::Error::other(error),
            Err(error) => return Err(Error::Refused(Box::new(error))),
        };
        reconnects += 1;
        if reconnects > RECONNECTS_MAX {
            return Err(Error::Broken(broken));
        }
        tracing::debug!(digest = blob.digest, offset, %broken, "taking up a broken download");
    }
}

/// Reads a whole small blob, such as an image's configuration.
pub(super) fn read(from: mpsc::Receiver<Bytes>, digest: &Digest, limit: u64) -> Result<Vec<u8>> {
    let mut reading = Hashing {
        inner: Queue::new(from),
        hasher: digest.hasher(),
    };
    let mut content = Vec::new();
    (&mut reading)
        .take(limit)
        .read_to_end(&mut content)
        .map_err(Error::Broken)?;
    check(digest, &reading.hasher.finish())?;
    Ok(content)
}

/// Unpacks a layer. Both digests must be right: of what was sent, and of what it decompressed to.
pub(super) fn unpack_layer(
    from: mpsc::Receiver<Bytes>,
    digest: &Digest,
    diff_id: &Digest,
    directory: &Path,
    budget: u64,
) -> Result<u64> {
    let sent = Hashing {
        inner: Queue::new(from),
        hasher: digest.hasher(),
    };
    let decoder = Decoder::new(sent).map_err(Error::Broken)?;
    let mut archive = Hashing {
        inner: decoder,
        hasher: diff_id.hasher(),
    };
    let written = unpack::unpack(&mut archive, directory, budget)?;
    // What follows the archive's end mark is part of the digest.
    let padding = io::copy(&mut (&mut archive).take(budget), &mut io::sink());
    padding.map_err(Error::Broken)?;
    let mut sent = archive.inner.into_inner();
    io::copy(&mut sent, &mut io::sink()).map_err(Error::Broken)?;
    check(digest, &sent.hasher.finish())?;
    check(diff_id, &archive.hasher.finish())?;
    Ok(written)
}

pub(super) fn check(want: &Digest, got: &Digest) -> Result<()> {
    if want == got {
        return Ok(());
    }
    Err(Error::Digest {
        want: want.as_str().to_owned(),
        got: got.as_str().to_owned(),
    })
}

/// The reading end of the queue. A download that failed looks like a short one; the failure
/// itself is known to the sender.
struct Queue {
    from: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Queue {
    fn new(from: mpsc::Receiver<Bytes>) -> Self {
        Self {
            from,
            current: Bytes::new(),
        }
    }
}

impl Read for Queue {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.from.blocking_recv() {
                Some(bytes) => self.current = bytes,
                None => return Ok(0),
            }
        }
        let part = self.current.split_to(buffer.len().min(self.current.len()));
        buffer[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

type Start<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// Layers come plain, gzipped or as zstd. Their first bytes say which; media types are often
/// wrong.
enum Decoder<R: Read> {
    Plain(Start<R>),
    Gzip(Box<MultiGzDecoder<Start<R>>>),
    Zstd(Box<zstd::Decoder<'static, io::BufReader<Start<R>>>>),
}

impl<R: Read> Decoder<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let mut magic = Vec::new();
        (&mut input).take(4).read_to_end(&mut magic)?;
        let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
        let is_zstd = magic == [0x28, 0xb5, 0x2f, 0xfd];
        let input = io::Cursor::new(magic).chain(input);
        Ok(if is_gzip {
            Self::Gzip(Box::new(MultiGzDecoder::new(input)))
        } else if is_zstd {
            Self::Zstd(Box::new(zstd::Decoder::new(input)?))
        } else {
            Self::Plain(input)
        })
    }

    fn into_inner(self) -> R {
        let start = match self {
            Self::Plain(input) => input,
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        };
        start.into_inner().1
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the registry did not send the blob")]
    Refused(#[source] Box<OciDistributionError>),
    #[error("the blob's download broke off")]
    Broken(#[source] io::Error),
    #[error("the blob is larger than the manifest says")]
    Size,
    #[error("the content has digest {got} instead of {want}")]
    Digest { want: String, got: String },
    #[error("failed to unpack the layer")]
    Unpack(#[from] unpack::Error),
}
