//! What nothing on this machine can beat.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::load::send_all;
use crate::{CLIENTS, Result, report, tell};

pub(crate) async fn measure() -> Result {
    flush()?;
    process()?;
    request().await
}

/// 4 kB appended and on the disk.
fn flush() -> Result {
    const TIMES: u32 = 200;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let begin = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
    }
    let each = begin.elapsed().as_secs_f64() * 1_000.0 / f64::from(TIMES);
    tell("floor: 4 kB on the disk", each, "ms");
    Ok(())
}

fn process() -> Result {
    const TIMES: u32 = 200;
    let begin = Instant::now();
    for _ in 0..TIMES {
        Command::new("/bin/true").status()?;
    }
    let each = begin.elapsed().as_secs_f64() * 1_000.0 / f64::from(TIMES);
    tell("floor: fork and exec of `true`", each, "ms");
    Ok(())
}

/// The benchmark's own client against a server that answers without looking.
async fn request() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let summary = send_all(CLIENTS, 50_000, |client, _| async move {
        client
            .get(format!("http://{address}/"))
            .send()
            .await?
            .bytes()
            .await?;
        Ok(())
    })
    .await?;
    server.abort();
    report("floor: requests over loopback", &summary);
    Ok(())
}
