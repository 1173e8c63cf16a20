//! The API server alone: `cargo run -p astrago-apiserver --example serve -- DIRECTORY [ADDRESS]`.
//!
//! Writes `DIRECTORY/kubeconfig` and serves until it is interrupted.

use astrago_apiserver::{Options, Server};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = std::path::PathBuf::from(arguments.next().ok_or("which directory?")?);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut options = Options::new(&directory);
    options.admin_tokens = vec!["secret-token".to_owned()];
    let server = Server::open(options).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let config = server.kubeconfig(&url, "admin", "secret-token", "default");
    std::fs::write(directory.join("kubeconfig"), config)?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    server.serve(listener, shutdown).await?;
    server.close().await;
    Ok(())
}
